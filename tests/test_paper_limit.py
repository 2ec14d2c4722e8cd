"""Memory limits of child processes: found, set and removed on invented file systems, and for real where allowed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chainfold.errors import ChainfoldError
from chainfold.paper import limit
from chainfold.paper.limit import SYSTEMD, V1, V2, Group, Limit, Means, available, in_force, means, own_group
from chainfold.paper.point import Point, measure

OTHERS = "proc /proc proc rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0\n"
NOBODY = 2**22 + 1  # no process has this number


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    available.cache_clear()
    yield
    available.cache_clear()


@pytest.fixture
def _groups_go_with_their_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a real group, where files are no obstacle."""
    monkeypatch.setattr(Path, "rmdir", lambda self: shutil.rmtree(self))


def v1(folder: Path) -> tuple[str, str]:
    """Mounts, and the groups of a process."""
    (folder / "mine").mkdir(parents=True)
    (folder / "mine/cgroup.procs").write_text("")
    (folder / "mine/memory.limit_in_bytes").write_text("9223372036854771712\n")
    text = "2:cpu:/\n4:memory,other:/mine\n0::/elsewhere\n"
    (folder / "cpu/mine").mkdir(parents=True)
    (folder / "cpu/mine/cgroup.procs").write_text("")
    mounts = f"{OTHERS}cgroup {folder}/cpu cgroup rw,relatime,cpu 0 0\n"
    return f"{mounts}cgroup {folder} cgroup rw,relatime,memory,other 0 0\n", text


def v2(folder: Path, controllers: str = "cpu memory", handed_on: str = "memory") -> tuple[str, str]:
    (folder / "mine").mkdir(parents=True)
    for name, text in (("procs", ""), ("controllers", controllers), ("subtree_control", handed_on)):
        (folder / f"mine/cgroup.{name}").write_text(f"{text}\n")
    return f"{OTHERS}cgroup2 {folder} cgroup2 rw,relatime 0 0\n", "2:cpu:/wrong\n0::/mine\n"


def test_the_group_that_has_charge_of_our_memory(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    (mounts, cgroup), (unified, simple) = v1(one), v2(two)
    assert own_group(mounts, cgroup) == Group(V1, one / "mine")
    assert own_group(unified, simple) == Group(V2, two / "mine")
    assert own_group(unified + mounts, cgroup) == Group(V1, one / "mine")
    assert own_group(OTHERS, cgroup) is None
    assert own_group(mounts, "4:memory:/not/seen/from/here\n") is None
    assert own_group("", "") is None


def test_where_groups_may_be_made(tmp_path: Path) -> None:
    mine = own_group(*v1(tmp_path / "one"))
    assert mine is not None
    assert means(mine, ours=True) == Means(V1, mine.folder, "")
    assert "--memory-group" in means(mine, ours=False).sentence
    assert means(own_group(*v2(tmp_path / "two")), ours=True).kind == V2
    assert "no memory controller" in means(own_group(*v2(tmp_path / "three", "cpu", "")), ours=True).sentence
    assert "hand" in means(own_group(*v2(tmp_path / "four", handed_on="cpu")), ours=True).sentence
    for none in (means(mine, ours=False), means(None, ours=True)):
        assert none[:2] == (None, None)
        assert none.sentence


def test_root_makes_no_group_unless_one_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    v1(tmp_path)
    monkeypatch.setattr(limit, "_own_group", lambda: Group(V1, tmp_path / "mine"))
    monkeypatch.setattr(limit, "_systemd_works", lambda: False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert available().kind is None
    assert available(tmp_path / "mine").folder == tmp_path / "mine"
    assert available(tmp_path / "nothing").kind is None
    available.cache_clear()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert available().folder == tmp_path / "mine"


@pytest.mark.usefixtures("_groups_go_with_their_files")
@pytest.mark.parametrize(("kind", "made", "name"), [(V1, v1, "memory.limit_in_bytes"), (V2, v2, "memory.max")])
def test_a_group_is_made_joined_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, made: type, name: str
) -> None:
    how = means(own_group(*made(tmp_path)), ours=True)
    mine = tmp_path / "mine"
    for left in (f"chainfold-{NOBODY}-0", f"chainfold-{os.getppid()}-0", "chainfold-of-somebody", "other"):
        (mine / left).mkdir()
    with Limit(10**9, how).opened() as entry:
        assert entry.group is not None
        group = Path(entry.group)
        assert group.parent == mine
        assert in_force(Group(kind, group)) == 10**9
        assert sorted(path.name for path in group.iterdir()) == [name]
        monkeypatch.setattr(limit, "_own_group", lambda: Group(kind, group))
        limit.enter(entry.group, 10**9)
        assert (group / "cgroup.procs").read_text() == str(os.getpid())
        (group / name).write_text(f"{10**9 // 4096 * 4096}\n")  # the kernel counts in pages
        limit.enter(entry.group, 10**9)
        for wrong in ("max\n", "2000000000\n", "900000000\n"):
            (group / name).write_text(wrong)
            with pytest.raises(ChainfoldError, match="1000000000 bytes was asked for"):
                limit.enter(entry.group, 10**9)
    kept = {path.name for path in mine.iterdir() if path.is_dir()}
    assert kept == {f"chainfold-{os.getppid()}-0", "chainfold-of-somebody", "other"}
    with pytest.raises(ZeroDivisionError), Limit(10**9, how).opened():
        raise ZeroDivisionError
    assert {path.name for path in mine.iterdir() if path.is_dir()} == kept


def test_a_limit_that_cannot_be_set_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ChainfoldError, match="no memory limit can be set: so it is"):
        Limit(10**9, Means(None, None, "so it is")).opened().__enter__()
    with pytest.raises(ChainfoldError, match="the memory limit cannot be set: No such file"):
        Limit(10**9, Means(V1, tmp_path / "nowhere", "")).opened().__enter__()
    with pytest.raises(ChainfoldError, match="cannot be entered"):
        limit.enter(str(tmp_path / "nowhere"), 10**9)
    with pytest.raises(ChainfoldError, match="at least one byte"):
        Limit(0, Means(None, None, "so it is"))


def fake_systemd(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = folder / "systemd-run"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(limit, "_own_group", lambda: None)


def test_systemd_where_no_group_can_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_systemd(tmp_path, monkeypatch, f'echo "$@" >> {tmp_path}/asked')
    assert available().kind == SYSTEMD
    assert available().kind == SYSTEMD
    asked = (tmp_path / "asked").read_text().splitlines()
    assert len(asked) == 1, "probed once"
    assert asked[0].startswith(f"--user --scope -q -p MemoryMax={1 << 30} {sys.executable} ")
    with Limit(10**9, available()).opened() as entry:
        assert entry.group is None
        assert entry.prefix == ("systemd-run", "--user", "--scope", "-q", "-p", "MemoryMax=1000000000")


def test_systemd_that_sets_no_limit_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_systemd(tmp_path, monkeypatch, 'shift 5; exec "$@"')
    assert available().kind is None
    with pytest.raises(ChainfoldError, match=r"12345678 bytes was asked for, and .* is in force"):
        measure(Point("emp", 10, "memory", synthetic=(2, 2, 1)), Limit(12345678, Means(SYSTEMD, None, "")))


def test_what_the_results_say(monkeypatch: pytest.MonkeyPatch) -> None:
    kilobytes = limit.memory_info("MemTotal:  24684100 kB\nHugePages_Total:   0\nSwapTotal:   2 kB\n")
    assert kilobytes == {"MemTotal": 24684100 * 1024, "SwapTotal": 2048}
    for how, swap, pages, words in (
        (Means(V2, Path(), ""), 8 * 10**9, True, "in 3 GB of memory, held to it by cgroup v2, with 8.0 GB of swap"),
        (Means(V1, Path(), ""), 0, False, "killed"),
        (Means(None, None, "it is raining"), 8 * 10**9, False, "because it is raining."),
    ):
        monkeypatch.setattr(limit, "memory_info", lambda swap=swap: {"SwapTotal": swap})
        said = limit.about(Limit(3 * 10**9, how))
        assert (said["kind"], said["pages"]) == (how.kind, pages)
        assert words in said["sentence"]


@pytest.mark.skipif(available().kind is None, reason=f"no memory limit can be set: {available().sentence}")
def test_the_limit_holds() -> None:
    code = (
        "import sys; from pathlib import Path; from chainfold.paper.limit import enter\n"
        "enter(sys.argv[1] or None, 200_000_000); held = b'x' * int(sys.argv[2])\n"
        "print(Path('/proc/self/status').read_text().split('VmSwap:')[1].split()[0])"
    )
    ended = {}
    for size in (50_000_000, 400_000_000):
        with Limit(200_000_000, available()).opened() as entry:
            command = [*entry.prefix, sys.executable, "-c", code, entry.group or "", str(size)]
            ended[size] = subprocess.run(command, capture_output=True, text=True)
    assert ended[50_000_000].returncode == 0, ended[50_000_000].stderr
    large = ended[400_000_000]
    assert large.returncode in (-9, 137) or int(large.stdout) > 100_000
