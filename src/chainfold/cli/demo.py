"""`chainfold demo`: a log of network connections, from its making to a picture of the attacks found in it."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chainfold.cli import options
from chainfold.cli.console import console, table
from chainfold.errors import BadFile, BadSetting
from chainfold.escape import visible
from chainfold.system.files import temporary_directory
from chainfold.system.machine import resident

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.console import Console
    from rich.progress import Progress as Bars

    from chainfold.chain.block import Block, Source
    from chainfold.features.encoder import Progress
    from chainfold.inference.result import Tagged
    from chainfold.metrics import Scores
    from chainfold.model.model import Model
    from chainfold.training.online.prequential import Interval

_TRAIN, _TEST, _CHAIN, _MODEL = "train.csv", "test.csv", "train.chain", "attacks.model"
_TAGGED, _PICTURE = "tagged.csv", "picture.png"
_ONLINE, _COURSE = "online.model", "online.csv"
_LEAST = 1000
_SHARE = 5  # one position is tagged for so many that are learnt from
_ITERATIONS = 50
_ARRIVING = 200_000  # positions, at most, that are learnt from as they arrive
_INTERVALS = 50  # of these, in the picture
_REHEARSAL = 2000  # positions on which everything is compiled
_KEPT = 100_000  # tagged positions from which the picture chooses
_NORMAL = "normal"

_ABOUT = (
    "A log of network connections, made up for this demo, is one long sequence. Most connections are normal; now and "
    "then somebody scans the network, floods it, guesses passwords or takes a machine over. One row seldom says which, "
    "but the rows around it do: a linear-chain CRF learns from both.\n"
)


def demo(
    positions: Annotated[int, typer.Option(metavar="T", help="Connections to learn from.")] = 1_000_000,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="DIR", help="The folder for what is made; that of an earlier demo is replaced."
        ),
    ] = Path("chainfold-demo"),
    seed: Annotated[int, typer.Option(help="Of the log.")] = 0,
) -> None:
    """Find attacks in a network log of a million connections: make it, train, tag, evaluate, and draw a picture.

    Example: chainfold demo
    """
    for name, value, least in (("positions", positions, _LEAST), ("seed", seed, 0)):
        if value < least:
            raise BadSetting(name, value, f"at least {least}")
    _make_folder(output)
    options.hold([output / _PICTURE])
    terminal = console()
    terminal.print(_ABOUT)
    steps = _Steps(terminal)
    with (
        steps.step("compile", None, "Compiling, if it was never done before; this is kept for later runs."),
        temporary_directory() as folder,
    ):
        _play(folder, _REHEARSAL, 0, _Steps(console(quiet=True)))
    outcome = _play(output, positions, seed, steps)
    drawn = find_spec("matplotlib") is not None
    if drawn:
        with steps.step("draw", None, f"Drawing {_PICTURE}."):
            _draw(output / _PICTURE, outcome)
    _show(outcome, steps, terminal)
    terminal.print(_farewell(output, drawn), soft_wrap=True)


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadFile(path, f"cannot be made a folder: {error.strerror or error}.") from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise BadFile(path, "cannot be written to: permission denied; name another folder with --output.")


@dataclass(frozen=True, eq=False)
class _Outcome:
    """What a run has found."""

    chain: Model
    single: Model
    by_chain: _Findings
    by_single: _Findings
    arriving: list[Interval]


def _play(folder: Path, positions: int, seed: int, steps: _Steps) -> _Outcome:
    """Everything from the log to the labels found."""
    from chainfold.chain.views import SinglePositions
    from chainfold.cli.demo_log import write_log
    from chainfold.model.file import save_model
    from chainfold.system.machine import cores

    log, other, more = folder / _TRAIN, folder / _TEST, positions // _SHARE
    text = f"Writing {_TRAIN}, {positions:,} connections, and {_TEST}, {more:,} others."
    with steps.step("write", positions + more, text) as step:
        write_log(log, positions, seed, 0, step.advance)
        write_log(other, more, seed, 1, step.advance)
    with steps.step("encode", positions, f"Encoding {_TRAIN} into {_CHAIN}: attributes from its columns.") as step:
        source = _encoded(log, folder / _CHAIN, step.progress)
    text = f"Training a CRF on it as one sequence: {_ITERATIONS} iterations of L-BFGS, on {cores()} cores."
    with steps.step("train on the chain", _ITERATIONS * positions, text) as step:
        chain = _trained(source, step)
        save_model(folder / _MODEL, chain)
    text = "Training the same on single rows, which do not see their neighbours (a logistic regression)."
    with steps.step("train on single rows", _ITERATIONS * positions, text) as step:
        single = _trained(SinglePositions(source), step)
    few = min(positions, _ARRIVING)
    text = f"Learning from {few:,} of them as they arrive, once, by AdaGrad; each is tagged before it is learnt from."
    with steps.step("learn online", few, text) as step:
        intervals = _learnt_online(log, few, step)
    with steps.step("tag", 2 * more, f"Tagging {_TEST} with both; {_TAGGED} has what the chain found.") as step:
        by_chain = _tagged(chain, other, folder / _TAGGED, step.progress)
        by_single = _tagged_singly(single, other, step.progress)
    return _Outcome(chain, single, by_chain, by_single, intervals)


def _encoded(log: Path, output: Path, progress: Progress) -> Source:
    from chainfold.cli.demo_log import ATTRIBUTES
    from chainfold.features.encode import encode

    return encode([log], output, attributes=ATTRIBUTES, progress=progress)


def _trained(source: Source, step: _Step) -> Model:
    from chainfold.system.machine import cores
    from chainfold.training.loop import Training, train

    model = train(
        source,
        Training(options={"max_iterations": _ITERATIONS}),
        threads=cores(),
        report=lambda progress: step.advance(source.positions),
    )
    step.positions = model.training["iterations"] * source.positions
    return model


def _learnt_online(log: Path, positions: int, step: _Step) -> list[Interval]:
    """The first positions of a log, as if they came through a pipe, and how they were tagged before."""
    from chainfold.cli.demo_log import ATTRIBUTES
    from chainfold.features.encode import Options
    from chainfold.training.online.arriving import arriving
    from chainfold.training.online.prequential import Prequential
    from chainfold.training.online.trainer import OnlineTrainer

    found: list[Interval] = []
    prequential = Prequential(found.append, positions // _INTERVALS)
    rows = arriving([str(log)], Options(attributes=ATTRIBUTES))
    assert rows.vocabulary.hash_bits is not None, "attributes are hashed"
    trainer = OnlineTrainer(1 << rows.vocabulary.hash_bits)
    for block in rows.blocks:
        trainer.add(block.part(0, min(block.labels.size, positions - trainer.rows)))
        for learnt in trainer.learn(ended=trainer.rows == positions):
            prequential.add(learnt)
            step.advance(learnt.positions)
        if trainer.rows == positions:
            break
    prequential.close()
    return found


class _Findings:
    """What tagging has found, compared with the truth, and as much of it as the picture may show."""

    def __init__(self, labels: tuple[str, ...]) -> None:
        from chainfold.metrics import Count

        self.labels, self._count = labels, Count(labels)
        self.alarms, self.attacks = (_Episodes(labels.index(_NORMAL)) for _ in range(2))
        self._kept: list[tuple[NDArray[Any], ...]] = []

    def add(self, tagged: Tagged) -> None:
        assert tagged.labels is not None, "they were wanted"
        self._count.add(tagged.given, tagged.labels, tagged.starts)
        self.alarms.add(tagged.labels)
        self.attacks.add(tagged.given)
        if tagged.low < _KEPT:
            assert tagged.posteriors is not None, "they were wanted"
            self._kept.append((tagged.given, tagged.labels, tagged.posteriors))

    @property
    def scores(self) -> Scores:
        return self._count.scores()

    def kept(self) -> list[NDArray[Any]]:
        """Truth, labels found and posteriors of the first positions."""
        import numpy as np

        return [np.concatenate(parts) for parts in zip(*self._kept, strict=True)]


class _Episodes:
    """How many runs of the same label there are, those of normal traffic left out."""

    def __init__(self, normal: int) -> None:
        self._normal = self._last = normal
        self.count = 0

    def add(self, labels: NDArray[Any]) -> None:
        import numpy as np

        before = np.concatenate([[self._last], labels[:-1]])
        self.count += int(np.count_nonzero((labels != before) & (labels != self._normal)))
        self._last = int(labels[-1])


def _tagged(model: Model, log: Path, output: Path, progress: Progress) -> _Findings:
    """Labels for a log, straight from the file, and the file again with them and their probability."""
    from chainfold.readers.annotate import Annotator
    from chainfold.readers.inputs import Inputs
    from chainfold.system.files import written_whole

    labels = _names(model)
    with written_whole(output) as sink, Annotator(sink, {"predicted": labels, "probability": None}) as annotator:
        inputs = Inputs([log], keep=annotator.keep)
        return _found(model, _blocks(model, inputs, progress), lambda one: annotator.add(one.labels, one.probabilities))


def _tagged_singly(model: Model, log: Path, progress: Progress) -> _Findings:
    """The same without a look at the neighbours."""
    from chainfold.chain.views import single_positions

    return _found(model, map(single_positions, _blocks(model, [log], progress)), lambda one: None)


def _blocks(model: Model, inputs: Any, progress: Progress) -> Iterator[Block]:
    from chainfold.features.for_model import known_blocks

    assert model.vocabulary is not None, "it was trained from a file"
    return (known.block for known in known_blocks(inputs, model.vocabulary, progress=progress))


def _found(model: Model, blocks: Iterable[Block], then: Callable[[Any], None]) -> _Findings:
    from chainfold.inference.tagger import Tagger, Want

    findings = _Findings(_names(model))
    for tagged in Tagger(model).run(blocks, Want(posteriors=True)):
        findings.add(tagged)
        then(tagged)
    return findings


def _names(model: Model) -> tuple[str, ...]:
    assert model.vocabulary is not None, "it was trained from a file"
    return model.vocabulary.labels


# What is shown


class _Step:
    """A bar, and the positions that are worked on."""

    def __init__(self, bars: Bars, name: str, positions: int | None) -> None:
        self._bars, self._task = bars, bars.add_task(name, total=positions)
        self.positions = positions

    def advance(self, positions: int) -> None:
        self._bars.advance(self._task, positions)

    @property
    def progress(self) -> Progress:
        """For work that comes in phases."""
        from chainfold.features.encoder import Progress

        def phase(name: str, positions: int | None) -> None:
            self._bars.reset(self._task, description=name, total=self.positions)

        return Progress(phase=phase, positions=self.advance)


class _Steps:
    """One thing after another, each with a line, a bar while it goes on, and what it took."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._rows: list[tuple[str, ...]] = []

    @contextmanager
    def step(self, name: str, positions: int | None, sentence: str) -> Iterator[_Step]:
        from rich.progress import Progress

        self._console.print(f"{len(self._rows) + 1}. {sentence}")
        terminal = console(stderr=True)
        hidden = self._console.quiet or not terminal.is_terminal
        begin = time.perf_counter()
        with Progress(console=terminal, transient=True, disable=hidden) as bars:
            step = _Step(bars, name, positions)
            yield step
        seconds = time.perf_counter() - begin
        rate = "" if step.positions is None else f"{step.positions / seconds:,.0f}"
        self._rows.append((name, f"{seconds:.1f}", rate, f"{resident() / 1e6:,.0f} MB"))

    def table(self) -> Any:
        return table(("step", "seconds", "positions a second", "peak memory until then"), self._rows)


def _show(outcome: _Outcome, steps: _Steps, terminal: Console) -> None:
    from chainfold.cli.scores import show

    terminal.print("\nWhat the chain makes of the connections that it has not seen before:")
    show(outcome.by_chain.scores, terminal)
    terminal.print("\nWhat the neighbours are worth:")
    terminal.print(_comparison(outcome))
    last = outcome.arriving[-1]
    text = f"\nAs they arrived, {last.running_accuracy:.1%} of {last.positions:,} were labelled right before they were "
    terminal.print(f"{text}learnt from.")
    terminal.print("\nWhat it took (in training, a position counts in each iteration):")
    terminal.print(steps.table())


def _comparison(outcome: _Outcome) -> Any:
    """Single rows beside the chain."""
    scores = [outcome.by_single.scores, outcome.by_chain.scores]
    rows = [("connections labelled right", *(f"{each.accuracy:.1%}" for each in scores), "")]
    for label in scores[0].labels:
        rows.append((f"F1 of {label}", *(f"{each.per_label[label].f1:.1%}" for each in scores), ""))
    alarms = outcome.by_single.alarms.count, outcome.by_chain.alarms.count, outcome.by_chain.attacks.count
    rows.append(("episodes of attack", *(f"{each:,}" for each in alarms)))
    return table(("", "single rows", "chain", "truth"), rows)


def _draw(path: Path, outcome: _Outcome) -> None:
    from chainfold.cli.demo_plot import Story, draw

    truth, chain, posteriors = outcome.by_chain.kept()
    story = Story(
        labels=outcome.by_chain.labels,
        truth=truth,
        chain=chain,
        single=outcome.by_single.kept()[1],
        posteriors=posteriors,
        scores={"single rows": outcome.by_single.scores, "chain": outcome.by_chain.scores},
        training={"single rows": outcome.single.training, "chain": outcome.chain.training},
        arriving=outcome.arriving,
    )
    draw(path, story)


def _farewell(folder: Path, drawn: bool) -> str:
    """What there is now, and how to go on."""
    picture = f"{folder / _PICTURE} shows it: what is true, what was found, and how sure the chain is of it."
    missing = "For a picture of all this: pip install 'chainfold[plot]', and run the demo again."
    lines = [
        "",
        picture if drawn else missing,
        f"Everything is in {folder}, to play with. Each step by hand:",
        "",
        *(f"  {command}" for command in commands(folder)),
    ]
    return "\n".join(map(visible, lines))


def commands(folder: Path) -> list[str]:
    """How to do it all again by hand, and to look at the model."""
    from chainfold.cli.demo_log import ATTRIBUTES

    return [
        f"cd {shlex.quote(str(folder))}",
        f"chainfold encode {_TRAIN} --attributes '{ATTRIBUTES}' -o {_CHAIN}",
        f"chainfold train {_CHAIN} --max-iterations {_ITERATIONS} -o {_MODEL}",
        f"chainfold tag {_MODEL} {_TEST} --marginals -o {_TAGGED}",
        f"chainfold eval {_MODEL} {_TEST}",
        f"chainfold inspect {_MODEL}",
        f"chainfold watch {_MODEL} {_TEST} --alarm 'takeover>0.9'",
        f"chainfold train {_TRAIN} --online --attributes '{ATTRIBUTES}' --prequential {_COURSE} -o {_ONLINE}",
    ]
