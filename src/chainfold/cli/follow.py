"""`chainfold tag --follow`: labels for rows as they come."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import typer

from chainfold.cli.console import console, say, table
from chainfold.cli.interrupt import interruptible
from chainfold.cli.watch_screen import counted
from chainfold.errors import BadFile, BadSetting
from chainfold.system import signals as stopping

if TYPE_CHECKING:
    from chainfold.inference.follow import Followed
    from chainfold.model.model import Model
    from chainfold.readers.live import OnError

_STANDARD_OUTPUT = "-"


def follow_input(
    model: Model, what: str, output: str, how: dict[str, Any], *, on_error: str | None, lags: bool, **wanted: Any
) -> None:
    """Write the rows of an input that may still grow, each as soon as its label is final."""
    from chainfold.inference.follow import Following

    way = when_wrong(on_error)
    with _sink(output) as sink:
        following = Following(sink, model, piped=output == _STANDARD_OUTPUT, lags=lags, **wanted)
        asked = False
        try:
            with interruptible(following.leave_if_waiting) as stop:
                following.run(what, on_error=way, notice=tell, stop=stop, **how)
        except KeyboardInterrupt:
            asked = True
        finally:
            if asked:
                stopping.interrupted()
            if not isinstance(sys.exception(), BrokenPipeError):  # nobody is there to be told
                _say(following.followed, lags, following.right_context)
    if asked:
        raise typer.Exit(stopping.code())


def when_wrong(text: str | None) -> OnError:
    """What is to become of lines that cannot be read."""
    from chainfold.readers.live import OnError

    if text is not None and text not in list(OnError):
        raise BadSetting("--on-error", text, f"one of {', '.join(OnError)}")
    return OnError(text or OnError.STOP)


def tell(sentence: str) -> None:
    """Something that a person should know while the stream goes on."""
    say(f"chainfold: {sentence}")


@contextmanager
def _sink(output: str) -> Iterator[IO[bytes]]:
    """Standard output, or a file that grows as labels become final."""
    if output == _STANDARD_OUTPUT:
        if sys.stdout is None:
            raise BadFile("standard output", "cannot be written: it is closed.")
        yield sys.stdout.buffer
        return
    file = io.BufferedWriter(_Growing(output))
    try:
        yield file
    finally:
        file.close()


class _Growing(io.RawIOBase):
    """A file that is begun anew when there is something to write: what was there stays if the input cannot be read."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: io.FileIO | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int | None:
        try:
            self._file = self._file or io.FileIO(self._path, "wb")
            return self._file.write(data)
        except OSError as error:
            raise BadFile(self._path, f"cannot be written: {error.strerror or error}.") from None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        super().close()


def _say(followed: Followed, lags: bool, right_context: int) -> None:
    """What a person should know of how it went."""
    if followed.left:
        tell(f"{counted(followed.left, 'row')} at the end not final yet, and left out.")
    if followed.unproven:
        bound = "--max-lag" if followed.limit == "lag" else "the memory allowed for rows that wait"
        tell(f"{followed.unproven:,} of {followed.rows:,} rows are not proven: {bound} did not let them wait longer.")
    if lags and followed.lags.size:
        rows = [
            (name, f"{followed.lag_at(share):,}") for name, share in (("median", 0.5), ("99 %", 0.99), ("largest", 1.0))
        ]
        rows.append(("looked ahead by the template", f"{right_context:,}"))
        console(stderr=True).print(table(("lag", "rows"), rows))
