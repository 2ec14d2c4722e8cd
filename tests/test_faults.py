"""Whatever is killed can be run again, and whatever the operating system refuses is one sentence: nothing is lost."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations_with_replacement
from pathlib import Path
from typing import NamedTuple

import pytest

from chainfold.model.file import open_model
from faults import KINDS, Outcome, Stage
from verbs import conll, succeeded

ALGORITHMS = ("lbfgs", "sgd", "adagrad", "adam", "ap", "pa", "arow")
APPENDED = "from an earlier --append"
TRAIN = "train data -o new --resume --save-every 1 --json"


class Story(NamedTuple):
    """A verb that writes something."""

    command: str
    made: str  # the file that it makes, where there is an old one
    given: str | None = None  # its standard input
    stages: str = "none"  # what may be there before the end: nothing new, "rows" of it, or "models" of some rows


STORIES = {
    "encode": Story("encode data --min-count 2 -o old", "old"),
    "append": Story("encode more -o old.chain --append", "old.chain"),
    **{name: Story(f"{TRAIN} --algorithm {name} --max-iterations 4", "new") for name in ALGORITHMS},
    "owl-qn": Story(f"{TRAIN} --c1 0.1 --max-iterations 6", "new"),
    "dev": Story(f"{TRAIN} --dev more --max-iterations 6", "new"),
    "online": Story("learn data -o new --resume --save-every 1 --batch 8 --json", "new", stages="models"),
    "tag": Story("tag model data --marginals -o old", "old"),
    "tag sequences": Story("tag model data -o old --sequences new.csv", "old"),
    "follow": Story("tag model - --follow -o old", "old", "data", stages="rows"),
    "gradient": Story("gradient old.chain --model model -o old", "old"),
    "inspect": Story("inspect model --html old", "old"),
    "export": Story("export model -o old --format crfsuite", "old"),
    "import": Story("import foreign -o old", "old"),
}


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        yield stage


@pytest.fixture(scope="module")
def other() -> Iterator[Stage]:
    with Stage() as stage:
        yield stage


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the verbs need."""
    folder = tmp_path_factory.mktemp("made")
    conll(folder / "data", 60, 1)
    conll(folder / "more", 50, 2)
    (folder / "old").write_bytes(b"what was there before" * 100)
    succeeded("encode", folder / "data", "-o", folder / "old.chain", "--append", "--json")
    succeeded("train", folder / "old.chain", "-o", folder / "model", "--max-iterations", 3, "--json")
    succeeded("export", folder / "model", "-o", folder / "foreign", "--format", "crfsuite")
    return folder


def copied(made: Path, folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(made, folder)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


class Play:
    """A story, and how it ends if nothing goes wrong."""

    def __init__(self, stage: Stage, story: Story, made: Path, folder: Path) -> None:
        self.stage, self.story, self._made, self._folder = stage, story, made, folder
        whole = copied(made, folder / "reference")
        done = self.run(whole)
        assert done.status == 0, done.errors
        self.seconds = done.seconds
        self.end, self.before = contents(whole), (made / story.made).read_bytes() if self._old else None

    @property
    def _old(self) -> bool:
        return (self._made / self.story.made).exists()

    def anew(self) -> Path:
        return copied(self._made, self._folder / "scene")

    def run(self, folder: Path, kill: float | None = None, fail: tuple[str, int] | None = None) -> Outcome:
        given = None if self.story.given is None else folder / self.story.given
        return self.stage.run(folder, *self.story.command.split(), given=given, kill=kill, fail=fail)

    def check_nothing_lost(self, folder: Path) -> None:
        """What was made is as it was, or as it shall be."""
        path = folder / self.story.made
        found = path.read_bytes() if path.exists() else None
        if found not in (self.before, self.end[self.story.made]):
            assert found is not None
            assert self.story.stages != "none"
            if self.story.stages == "rows":
                assert self.end[self.story.made].startswith(found)
            else:
                open_model(path)
        for name in ("data", "more", "model"):
            assert (folder / name).read_bytes() == (self._made / name).read_bytes()

    def check_end(self, folder: Path) -> None:
        """Run it once more, with nothing going wrong: everything is as if nothing ever had, and no more is left."""
        done = self.run(folder)
        assert done.status == 0 or APPENDED in done.errors, done.errors
        found = contents(folder)
        assert set(found) == set(self.end)
        for name in found.keys() - {"new.chain"}:  # which knows the folder of its input
            assert found[name] == self.end[name], name


def kill_again_and_again(play: Play, kills: int, dice: random.Random) -> None:
    """Kill runs of the story until there were so many, each in the middle of what the one before has left."""
    folder, done = play.anew(), 0
    while done < kills:
        outcome = play.run(folder, kill=dice.uniform(0.0, 1.1 * play.seconds))
        play.check_nothing_lost(folder)
        if outcome.status == -9:
            done += 1
        else:
            assert outcome.status == 0 or APPENDED in outcome.errors, outcome.errors
        if outcome.status != -9 or dice.random() < 0.2:
            play.check_end(folder)
            folder = play.anew()
    play.check_end(folder)


@pytest.mark.parametrize("name", ["append", "lbfgs", "adagrad", "ap", "tag"])
def test_what_is_killed_can_be_run_again(stage: Stage, made: Path, tmp_path: Path, name: str) -> None:
    kill_again_and_again(Play(stage, STORIES[name], made, tmp_path), 3, random.Random(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", STORIES)
def test_what_is_killed_very_often_can_be_run_again(stage: Stage, made: Path, tmp_path: Path, name: str) -> None:
    kill_again_and_again(Play(stage, STORIES[name], made, tmp_path), 70, random.Random(name))


def fail_at(play: Play, kind: str, calls: list[int]) -> None:
    """Each of these calls fails once, in a run of its own."""
    for k in calls:
        folder = play.anew()
        outcome = play.run(folder, fail=(kind, k))
        why = f"{kind} {k}: {outcome}"
        play.check_nothing_lost(folder)
        if outcome.status == 0:
            assert (folder / play.story.made).read_bytes() == play.end[play.story.made], why
        else:
            assert outcome.status == 2, why
            assert outcome.errors.endswith(".\n"), why
            assert all(line.startswith("chainfold: ") for line in outcome.errors.splitlines()), why
        play.check_end(folder)


def chosen(count: int, most: int, dice: random.Random) -> list[int]:
    """Calls to fail: all, or some of them, more of the first and the last."""
    if count <= most:
        return list(range(1, count + 1))
    ends = most // 4
    middle = dice.sample(range(ends + 1, count - ends + 1), most - 2 * ends)
    return [*range(1, ends + 1), *sorted(middle), *range(count - ends + 1, count + 1)]


def fail_everywhere(play: Play, kind: str, most: int, dice: random.Random) -> None:
    if not play.stage.can_fail:
        pytest.skip("there is no C compiler to make calls fail with")
    counted = play.run(play.anew(), fail=(kind, 0))
    assert counted.status == 0, counted.errors
    fail_at(play, kind, chosen(counted.calls, most, dice))


@pytest.mark.parametrize(("name", "kind"), [("append", "write"), ("tag", "fsync"), ("gradient", "rename")])
def test_what_the_system_refuses_is_a_sentence(stage: Stage, made: Path, tmp_path: Path, name: str, kind: str) -> None:
    fail_everywhere(Play(stage, STORIES[name], made, tmp_path), kind, 3, random.Random(f"{name} {kind}"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", STORIES)
def test_whatever_the_system_refuses_is_a_sentence(
    stage: Stage, made: Path, tmp_path: Path, name: str, kind: str
) -> None:
    fail_everywhere(Play(stage, STORIES[name], made, tmp_path), kind, 25, random.Random(f"{name} {kind}"))


# Two at once

WRITERS = {
    "encode": ("encode data -o x", None),
    "append": ("encode more -o x --append", None),
    "train": ("train old.chain -o x --resume --save-every 1 --max-iterations 3 --json", None),
    "online": ("learn data -o x --resume --save-every 1 --batch 8 --json", None),
    "tag": ("tag model data -o x", None),
    "follow": ("tag model - --follow -o x", "data"),
    "gradient": ("gradient old.chain --model model -o x", None),
    "inspect": ("inspect model --html x", None),
    "import": ("import foreign -o x", None),
}
HELD = "x: is being written by another process"


def write(stage: Stage, folder: Path, name: str) -> Outcome:
    command, given = WRITERS[name]
    return stage.run(folder, *command.split(), given=None if given is None else folder / given)


def written(stage: Stage, made: Path, folder: Path, *names: str) -> tuple[set[str], bytes]:
    """What is there after these, one after another."""
    copied(made, folder)
    for name in names:
        outcome = write(stage, folder, name)
        assert outcome.status == 0 or (outcome.status == 2 and "x: " in outcome.errors), outcome.errors
    return set(contents(folder)), (folder / "x").read_bytes()


def at_once(
    stages: tuple[Stage, Stage], made: Path, folder: Path, first: str, second: str, dice: random.Random
) -> None:
    """Both run at once: what is there is what one of them makes, or both in some order."""
    allowed = [written(stages[0], made, folder / "reference", *names) for names in ((first, second), (second, first))]
    alone = [written(stages[0], made, folder / "reference", name) for name in (first, second)]
    for _ in range(3):
        scene = copied(made, folder / "scene")
        with ThreadPoolExecutor(2) as pool:
            begun = pool.submit(write, stages[0], scene, first)
            time.sleep(dice.uniform(0.0, 0.15))
            later = write(stages[1], scene, second)
            both = begun.result(), later
        refused = [outcome.status == 2 and HELD in outcome.errors for outcome in both]
        assert not all(refused), both
        found = set(contents(scene)), (scene / "x").read_bytes()
        expected = [result for result, was in zip(alone, refused, strict=True) if not was] if any(refused) else allowed
        assert found in expected, (first, second, both)


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), list(combinations_with_replacement(WRITERS, 2)))
def test_two_at_once_on_one_output_lose_nothing(
    stage: Stage, other: Stage, made: Path, tmp_path: Path, first: str, second: str
) -> None:
    at_once((stage, other), made, tmp_path, first, second, random.Random(f"{first} {second}"))
