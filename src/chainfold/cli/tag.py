"""`chainfold tag`: labels for raw files, written in their own format, or for a chain; with --follow, as rows arrive."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from chainfold.cli import options
from chainfold.cli.cluster import Cluster, joined_cluster, refuse_with_cluster
from chainfold.cli.console import console, counted, notice, table
from chainfold.cli.input_options import FOR_MODEL, Inputs, ModelFile, check_for_model
from chainfold.cli.parameters import Group, grouped
from chainfold.cli.progress import bar
from chainfold.errors import BadFile, ChainfoldError
from chainfold.system import signals
from chainfold.system.files import written_whole
from chainfold.system.outputs import STANDARD

if TYPE_CHECKING:
    from chainfold.inference.follow import Followed
    from chainfold.model.model import Model

Output = Annotated[
    str, typer.Option("--output", "-o", metavar="FILE", help="The file to write; - for standard output.")
]
Sequences = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="A CSV file to write: length, log probability and entropy of each sequence."),
]


@dataclass(frozen=True)
class _Marginals:
    marginals: Annotated[bool, typer.Option("--marginals", help="Add the probability of each predicted label.")] = False
    all_marginals: Annotated[
        bool,
        typer.Option(
            "--all-marginals", help="Add the probability of every label, in the order of `chainfold inspect`."
        ),
    ] = False


@dataclass(frozen=True)
class _Labellings:
    nbest: Annotated[
        int, typer.Option(metavar="K", help="Write the K best labellings of each sequence, one after another.")
    ] = 0
    samples: Annotated[int, typer.Option(metavar="K", help="Add K labellings sampled from their distribution.")] = 0
    seed: Annotated[int, typer.Option(help="Seed of the samples.")] = 0


@dataclass(frozen=True)
class _Stream:
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="Label the rows of a pipe or a growing file as they arrive, each as soon as its label is final.",
            rich_help_panel=options.STREAMS,
        ),
    ] = False
    max_lag: Annotated[
        int | None,
        typer.Option(
            metavar="K",
            help="A row waits for at most K later rows; a column `final` marks labels that cannot change.",
            rich_help_panel=options.STREAMS,
        ),
    ] = None
    on_error: options.OnErrorText = None
    lags: Annotated[
        bool,
        typer.Option("--lags", help="Report for how many rows each row waited.", rich_help_panel=options.STREAMS),
    ] = False

    def check(self, inputs: list[str]) -> None:
        given = {"--max-lag": self.max_lag is not None, "--on-error": self.on_error is not None, "--lags": self.lags}
        for flag, value in given.items():
            if value and not self.follow:
                raise ChainfoldError(f"{flag} requires --follow.")
        if self.follow and len(inputs) != 1:
            raise ChainfoldError(f"--follow takes one input, and there are {len(inputs)}; follow them one by one.")


@grouped(
    marginals=Group.of(_Marginals),
    labellings=Group.of(_Labellings),
    stream=Group.of(_Stream),
    constraints=options.CONSTRAINTS,
    spec=FOR_MODEL.without("unknown"),
)
def tag(
    model: ModelFile,
    inputs: Inputs,
    marginals: _Marginals,
    labellings: _Labellings,
    stream: _Stream,
    constraints: options.ConstraintOptions,
    spec: dict[str, Any],
    output: Output = STANDARD,
    sequences: Sequences = None,
    memory: options.Memory = None,
    cluster: Cluster = None,
) -> None:
    """Label raw files with a model; the output is the input with a column `predicted` after the others.

    Labels in the input are ignored, and so are attributes that the model does
    not know. For a chain, the output is one label per line.

    Example: chainfold tag chunks.model test.txt.gz -o tagged.txt --marginals
    """
    from chainfold.inference.tag_files import tag_to

    stream.check(inputs)
    refuse_with_cluster(cluster, follow=stream.follow, sequences=sequences is not None)
    if cluster is not None and (output == STANDARD or not Path(output).is_dir()):
        raise ChainfoldError("--cluster requires -o FOLDER, a folder that all workers can write.")
    options.hold([sequences if cluster is not None else output, sequences], inputs, model, in_place=stream.follow)
    check_for_model(inputs, spec)
    opened = constraints.opened(model)
    wanted: dict[str, Any] = {**vars(marginals), "memory": options.parse_size(memory), "piped": output == STANDARD}
    if stream.follow:
        if labellings.nbest or labellings.samples or sequences is not None:
            raise ChainfoldError("--follow does not support --nbest, --samples and --sequences.")
        _follow(opened, inputs[0], output, spec, stream, **wanted)
        return
    if cluster is not None:
        _on_cluster(cluster, opened, inputs, output, {**wanted, **vars(labellings), **spec})
        return
    with ExitStack() as stack:
        progress = stack.enter_context(bar())
        sink = _sink(output, stack)
        wanted |= {**vars(labellings), "sequences": None if sequences is None else _sink(sequences, stack)}
        tag_to(sink, opened, inputs, progress=progress.reading(), **wanted, **spec)


def _on_cluster(cluster: str, model: Model, inputs: list[str], folder: str, wanted: dict[str, Any]) -> None:
    from chainfold.dask.tagging import tag as tag_files

    wanted["piped"] = False
    client = options.entered(joined_cluster(cluster))
    tag_files(client, model, inputs, folder, done=lambda name: notice(f"{name}: tagged"), **wanted)


def _sink(output: str, stack: ExitStack) -> IO[bytes]:
    return options.standard_output() if output == STANDARD else stack.enter_context(written_whole(output))


# Rows as they arrive


def _follow(model: Model, source: str, output: str, spec: dict[str, Any], stream: _Stream, **wanted: Any) -> None:
    """Write the rows of an input that may grow, each as soon as its label is final."""
    from chainfold.inference.follow import Following

    on_error = options.parse_on_error(stream.on_error)
    with _growing_sink(output) as sink:
        following = Following(sink, model, max_lag=stream.max_lag, lags=stream.lags, **wanted)
        interrupted = False
        try:
            with signals.interruptible(following.leave_if_waiting) as stop:
                following.run(source, on_error=on_error, notice=notice, stop=stop, **spec)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            if interrupted:
                signals.report_interrupt()
            if not isinstance(sys.exception(), BrokenPipeError):  # nobody reads any more
                _report(following.followed, stream.lags, following.right_context)
    if interrupted:
        raise typer.Exit(signals.exit_code())


@contextmanager
def _growing_sink(output: str) -> Iterator[IO[bytes]]:
    """Standard output, or a file that grows as labels become final."""
    if output == STANDARD:
        yield options.standard_output()
        return
    file = io.BufferedWriter(_GrowingFile(output))
    try:
        yield file
    finally:
        file.close()


class _GrowingFile(io.RawIOBase):
    """A file that is replaced at the first write: it stays if the input cannot be read."""

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


def _report(followed: Followed, lags: bool, right_context: int) -> None:
    if followed.left:
        notice(f"{counted(followed.left, 'row')} at the end not final yet, and left out.")
    if followed.unproven:
        bound = "--max-lag" if followed.limit == "lag" else "the memory allowed for rows that wait"
        notice(f"{followed.unproven:,} of {followed.rows:,} rows are not proven: {bound} limits how long they wait.")
    if lags and followed.lags.size:
        shares = (("median", 0.5), ("99 %", 0.99), ("largest", 1.0))
        rows = [(name, f"{followed.lag_at(share):,}") for name, share in shares]
        rows.append(("lookahead of the template", f"{right_context:,}"))
        console(stderr=True).print(table(("lag", "rows"), rows))
