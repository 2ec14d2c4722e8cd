"""A memory limit for a child process, where the operating system allows one.

A group of processes is made within the one that we are in, never beside it, so that whatever holds for us still holds
for the child. Not every group that we could write to is ours: a user who may write to one has been given it, but root
may write to any, and the one that root is in may belong to whatever manages processes there. Root has to name a group
of its own. Where we may make no group, `systemd-run` puts the child into a scope.

The child joins the group as its first act, reads the limit back, and goes no further unless it is in force.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import NamedTuple

from chainfold.errors import BadSetting, ChainfoldError
from chainfold.paper.plan import Result

V1, V2, SYSTEMD = "cgroup v1", "cgroup v2", "systemd"

_PREFIX = "chainfold-"  # of the names of our groups; then the process that made it, and a number
_LIMIT_FILE = {V1: "memory.limit_in_bytes", V2: "memory.max"}
_PROBED = 1 << 30  # bytes: a limit under which Python starts
_PROBE_SECONDS, _REMOVAL_SECONDS = 20.0, 2.0
_numbers = count()


class Means(NamedTuple):
    """How a limit can be set."""

    kind: str | None  # V1, V2 or SYSTEMD; None: not at all
    folder: Path | None  # the group in which ours are made
    sentence: str  # why not; empty where it can


class Entry(NamedTuple):
    """How a child comes under a limit: by what stands before its command, or by the group that it joins."""

    prefix: tuple[str, ...]
    group: str | None


class Group(NamedTuple):
    """The group that has charge of our memory."""

    kind: str
    folder: Path


def own_group(mounts: str, cgroup: str) -> Group | None:
    """From /proc/self/mounts and /proc/self/cgroup; a memory controller of its own goes before the unified groups."""
    paths = {tuple(line.split(":", 2)[1].split(",")): line.split(":", 2)[2] for line in cgroup.splitlines() if line}
    for kind, system in ((V1, "cgroup"), (V2, "cgroup2")):
        for line in mounts.splitlines():
            _, where, found, options, *_ = line.split()
            if found != system or (kind == V1 and "memory" not in options.split(",")):
                continue
            for controllers, path in paths.items():
                if ("memory" in controllers) if kind == V1 else controllers == ("",):
                    folder = Path(where.replace("\\040", " ")) / path.lstrip("/")
                    if (folder / "cgroup.procs").exists():
                        return Group(kind, folder)
    return None


def named_group(folder: Path) -> Group | None:
    """A group by its folder."""
    for kind, name in ((V1, _LIMIT_FILE[V1]), (V2, "cgroup.controllers")):
        if (folder / name).exists():
            return Group(kind, folder)
    return None


def means(group: Group | None, ours: bool) -> Means:
    """Can groups be made in this one, and may they?"""
    if group is None:
        return Means(None, None, "there is no group of processes whose memory could be limited")
    if group.kind == V2:
        for name, problem in (
            ("cgroup.controllers", "the group that we are in has no memory controller"),
            ("cgroup.subtree_control", "the group that we are in does not hand its memory controller on"),
        ):
            with suppress(OSError):
                if "memory" in (group.folder / name).read_text().split():
                    continue
            return Means(None, None, problem)
    if not ours:
        return Means(None, None, "root has to name a group of processes that is its own, with --memory-group")
    if not os.access(group.folder, os.W_OK | os.X_OK):
        return Means(None, None, "we may make no group of processes")
    return Means(group.kind, group.folder, "")


@cache
def available(named: Path | None = None) -> Means:
    """How a limit can be set here, in the group named or our own; and if it cannot, why."""
    found = means(named_group(named) if named else _own_group(), named is not None or os.geteuid() != 0)
    if found.kind is not None or not _systemd_works():
        return found
    return Means(SYSTEMD, None, "")


@dataclass(frozen=True)
class Limit:
    """So many bytes for a child process and its files in memory; what is paged out does not count."""

    bytes: int
    how: Means

    def __post_init__(self) -> None:
        if self.bytes < 1:
            raise BadSetting("a memory limit", self.bytes, "at least one byte")

    @contextmanager
    def opened(self) -> Iterator[Entry]:
        """The way in; the group is removed at the end, when the child has ended."""
        how = self.how
        if how.kind is None:
            raise ChainfoldError(f"no memory limit can be set: {how.sentence}.")
        if how.folder is None:
            yield Entry(_systemd_prefix(self.bytes), None)
            return
        _remove_leftovers(how.folder)
        group = how.folder / f"{_PREFIX}{os.getpid()}-{next(_numbers)}"
        try:
            try:
                group.mkdir()
                (group / _LIMIT_FILE[how.kind]).write_text(str(self.bytes))
            except OSError as error:
                raise ChainfoldError(f"the memory limit cannot be set: {error.strerror or error}.") from None
            yield Entry((), str(group))
        finally:
            _remove(group)


def enter(group: str | None, limit: int) -> None:
    """Put this process into the group, if there is one, and raise unless the limit is then in force."""
    try:
        if group is not None:
            (Path(group) / "cgroup.procs").write_text(str(os.getpid()))
    except OSError as error:
        raise ChainfoldError(f"the memory limit cannot be entered: {error.strerror or error}.") from None
    found = in_force(_own_group())
    if found is None or not limit - os.sysconf("SC_PAGE_SIZE") < found <= limit:
        raise ChainfoldError(f"a memory limit of {limit} bytes was asked for, and {found or 'none'} is in force.")


def in_force(group: Group | None) -> int | None:
    """The limit of the group, in bytes."""
    if group is None:
        return None
    with suppress(OSError, ValueError):  # a group without a limit says "max", and the topmost one says nothing
        return int((group.folder / _LIMIT_FILE[group.kind]).read_text())
    return None


def about(limit: Limit) -> Result:
    """What the results say of it."""
    how, swap = limit.how, memory_info().get("SwapTotal", 0)
    if how.kind is None:
        sentence = f"Nothing was run under a memory limit, because {how.sentence}."
    else:
        paging = (
            f"with {swap / 1e9:.1f} GB of swap, to which the system pages what does not fit"
            if swap
            else "without swap, so that a process is not paged but killed when what it keeps does not fit"
        )
        sentence = (
            f"Some points were also run in {limit.bytes / 1e9:.3g} GB of memory, held to it by {how.kind}, {paging}."
        )
    return {"kind": how.kind, "pages": how.kind is not None and swap > 0, "sentence": sentence}


def memory_info(text: str | None = None) -> dict[str, int]:
    """/proc/meminfo in bytes; empty where there is none."""
    if text is None:
        path = Path("/proc/meminfo")
        text = path.read_text() if path.exists() else ""
    rows = (line.split() for line in text.splitlines())
    return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows if len(row) == 3 and row[2] == "kB"}


def _own_group() -> Group | None:
    with suppress(OSError):
        return own_group(Path("/proc/self/mounts").read_text(), Path("/proc/self/cgroup").read_text())
    return None


def _systemd_prefix(limit: int) -> tuple[str, ...]:
    whose = () if os.geteuid() == 0 else ("--user",)
    return ("systemd-run", *whose, "--scope", "-q", "-p", f"MemoryMax={limit}")


def _systemd_works() -> bool:
    """Does it start a child, and is the limit in force there?"""
    if shutil.which("systemd-run") is None:
        return False
    command = [*_systemd_prefix(_PROBED), sys.executable, "-m", "chainfold.paper.limit", str(_PROBED)]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_SECONDS)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _remove_leftovers(folder: Path) -> None:
    """Groups that killed processes have left."""
    for group in folder.glob(f"{_PREFIX}*-*"):
        maker = group.name.removeprefix(_PREFIX).split("-")[0]
        if maker.isdecimal() and not Path(f"/proc/{maker}").exists():
            with suppress(OSError):
                group.rmdir()


def _remove(group: Path) -> None:
    """Remove it, once the system has noticed that nobody is in it any more."""
    end = time.monotonic() + _REMOVAL_SECONDS
    while group.exists():
        try:
            group.rmdir()
        except OSError:
            if time.monotonic() > end:
                return
            time.sleep(0.02)


if __name__ == "__main__":
    try:
        enter(None, int(sys.argv[1]))
    except ChainfoldError as problem:
        sys.exit(str(problem))
