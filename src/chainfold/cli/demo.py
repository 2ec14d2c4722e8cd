"""`chainfold demo`: a network log from its creation to a picture of the attacks found in it."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from chainfold.cli import options
from chainfold.cli.console import console, table
from chainfold.cli.progress import Bar, bar
from chainfold.errors import BadFile, BadSetting
from chainfold.escape import visible
from chainfold.system.files import temporary_directory, written_whole
from chainfold.system.machine import resident

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.console import Console

    from chainfold.chain.block import Source
    from chainfold.inference.result import Tagged
    from chainfold.metrics import Scores
    from chainfold.model.model import Model
    from chainfold.training.online.prequential import Interval

_TRAIN, _TEST, _CHAIN, _MODEL, _TAGGED = "train.csv", "test.csv", "train.chain", "attacks.model", "tagged.csv"
_PICTURE, _ONLINE, _COURSE = "picture.png", "online.model", "online.csv"
_LEAST = 1000
_SHARE = 5  # training positions for each position of the test log
_ITERATIONS = 50
_ONLINE_POSITIONS, _INTERVALS = 200_000, 50  # of online training, at most
_REHEARSAL = 2000  # positions on which everything is compiled
_KEPT = 100_000  # tagged positions from which the picture is chosen
_NORMAL = "normal"

_ABOUT = (
    "A synthetic log of network connections is one long sequence. Most connections are normal; some belong to a scan, "
    "a flood, password guessing or a takeover. A single row seldom shows which, but the rows around it do: a "
    "linear-chain CRF uses both.\n"
)

Positions = Annotated[int, typer.Option(metavar="T", help="Number of connections to train on.")]
Folder = Annotated[
    Path,
    typer.Option("--output", "-o", metavar="DIR", help="The folder to write; files of an earlier demo are replaced."),
]
Seed = Annotated[int, typer.Option(help="Seed of the log.")]


def demo(positions: Positions = 1_000_000, output: Folder = Path("chainfold-demo"), seed: Seed = 0) -> None:
    """Find attacks in a network log of a million connections: create it, train, tag, evaluate, and draw a picture.

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
    compiling = steps.step("compile", None, "Compiling; later runs use the compiled code.")
    with compiling, temporary_directory() as folder:
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


class _Outcome(NamedTuple):
    """The models, and how they label the test log."""

    chain: Model
    single: Model
    by_chain: _Findings
    by_single: _Findings
    online: list[Interval]


def _play(folder: Path, positions: int, seed: int, steps: _Steps) -> _Outcome:
    """All steps from the log to its labels."""
    from chainfold.chain.views import SinglePositions
    from chainfold.cli.demo_log import ATTRIBUTES, write_log
    from chainfold.features.encode import encode
    from chainfold.model.file import save_model
    from chainfold.system.machine import cores

    log, other, more = folder / _TRAIN, folder / _TEST, positions // _SHARE
    text = f"Writing {_TRAIN}, {positions:,} connections, and {_TEST}, {more:,} others."
    with steps.step("write", positions + more, text) as step:
        write_log(log, positions, seed, 0, step.advance)
        write_log(other, more, seed, 1, step.advance)
    with steps.step("encode", positions, f"Encoding {_TRAIN} into {_CHAIN}: attributes from its columns.") as step:
        source = encode([log], folder / _CHAIN, attributes=ATTRIBUTES, progress=step.reading())
    text = f"Training a CRF on it as one sequence: {_ITERATIONS} iterations of L-BFGS, on {cores()} cores."
    with steps.step("train on the chain", positions, text, _ITERATIONS) as step:
        chain = _trained(source, step)
        save_model(folder / _MODEL, chain)
    text = "Training a model of single rows, without their neighbours (a logistic regression)."
    with steps.step("train on single rows", positions, text, _ITERATIONS) as step:
        single = _trained(SinglePositions(source), step)
    few = min(positions, _ONLINE_POSITIONS)
    text = f"Training online on {few:,} of them, once, by AdaGrad; each is tagged before it is trained on."
    with steps.step("train online", few, text) as step:
        intervals = _trained_online(log, few, step)
    with steps.step("tag", more, f"Tagging {_TEST} with both; {_TAGGED} has the labels of the chain.", 2) as step:
        by_chain = _tagged(chain, other, step, output=folder / _TAGGED)
        by_single = _tagged(single, other, step)
    return _Outcome(chain, single, by_chain, by_single, intervals)


def _trained(source: Source, step: Bar) -> Model:
    from chainfold.system.machine import cores
    from chainfold.training.loop import Training, train

    training = Training(options={"max_iterations": _ITERATIONS})
    return train(source, training, threads=cores(), report=lambda progress: step.advance(source.positions))


def _trained_online(log: Path, positions: int, step: Bar) -> list[Interval]:
    """Train on the first positions of a log, as if a pipe delivered them; the scores before training on them."""
    from chainfold.cli.demo_log import ATTRIBUTES
    from chainfold.training.online.arriving import arriving
    from chainfold.training.online.prequential import Prequential
    from chainfold.training.online.trainer import OnlineTrainer

    intervals: list[Interval] = []
    prequential = Prequential(intervals.append, positions // _INTERVALS)
    rows = arriving([str(log)], attributes=ATTRIBUTES)
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
    return intervals


class _Findings:
    """The labels found, compared with the truth; the first of them are kept for the picture."""

    def __init__(self, labels: tuple[str, ...]) -> None:
        from chainfold.metrics import Count

        self.labels, self._count = labels, Count(labels)
        self._normal = labels.index(_NORMAL)
        self._last = [self._normal, self._normal]
        self.episodes = [0, 0]  # of attack: found, and true ones
        self._kept: list[tuple[NDArray[Any], ...]] = []

    def add(self, tagged: Tagged) -> None:
        assert tagged.labels is not None, "they were wanted"
        self._count.add(tagged.given, tagged.labels, tagged.starts)
        for k, labels in enumerate((tagged.labels, tagged.given)):
            self.episodes[k] += episodes_begun(labels, self._last[k], self._normal)
            self._last[k] = int(labels[-1])
        if tagged.low < _KEPT:
            assert tagged.posteriors is not None, "they were wanted"
            self._kept.append((tagged.given, tagged.labels, tagged.posteriors))

    @property
    def scores(self) -> Scores:
        return self._count.scores()

    def kept(self) -> list[NDArray[Any]]:
        """True labels, labels found, and posteriors of the first positions."""
        import numpy as np

        return [np.concatenate(parts) for parts in zip(*self._kept, strict=True)]


def episodes_begun(labels: NDArray[Any], before: int, normal: int) -> int:
    """The number of runs of one label that begin, without normal traffic; `before`: the label before the first."""
    import numpy as np

    changed = labels != np.concatenate([[before], labels[:-1]])
    return int(np.count_nonzero(changed & (labels != normal)))


def _tagged(model: Model, log: Path, step: Bar, output: Path | None = None) -> _Findings:
    """Tag a log: as one sequence, and write it with its labels to `output`; or row by row if there is none."""
    from chainfold.chain.views import single_positions
    from chainfold.features.for_model import blocks_for_model
    from chainfold.inference.tagger import Tagger, Want
    from chainfold.readers.annotate import Annotator
    from chainfold.readers.inputs import Inputs

    assert model.vocabulary is not None, "it was trained from a file"
    labels = model.vocabulary.labels
    findings = _Findings(labels)
    with ExitStack() as stack:
        keep = annotator = None
        if output is not None:
            sink = stack.enter_context(written_whole(output))
            annotator = stack.enter_context(Annotator(sink, {"predicted": labels, "probability": None}))
            keep = annotator.keep
        known = blocks_for_model(Inputs([log], keep=keep), model.vocabulary, progress=step.reading())
        blocks = (part.block if output is not None else single_positions(part.block) for part in known)
        for tagged in Tagger(model).run(blocks, Want(posteriors=True)):
            findings.add(tagged)
            if annotator is not None and tagged.labels is not None:
                annotator.add(tagged.labels, tagged.probabilities)
    return findings


# Output


class _Steps:
    """Steps of the demo, each with a line, a bar while it runs, and its cost."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._rows: list[tuple[str, ...]] = []

    @contextmanager
    def step(self, name: str, positions: int | None, sentence: str, times: int = 1) -> Iterator[Bar]:
        """positions: of one pass; times: largest number of passes."""
        self._console.print(f"{len(self._rows) + 1}. {sentence}")
        begin = time.perf_counter()
        with bar(name, None if positions is None else times * positions, self._console.quiet) as made:
            yield made
        seconds = time.perf_counter() - begin
        rate = "" if positions is None else f"{min(made.done, times * positions) / seconds:,.0f}"  # it may end sooner
        self._rows.append((name, f"{seconds:.1f}", rate, f"{resident() / 1e6:,.0f} MB"))

    def table(self) -> Any:
        return table(("step", "seconds", "positions per second", "peak memory until then"), self._rows)


def _show(outcome: _Outcome, steps: _Steps, terminal: Console) -> None:
    from chainfold.cli.scores import show

    single, chain = outcome.by_single.scores, outcome.by_chain.scores
    terminal.print("\nThe chain on the test log:")
    show(chain, terminal)
    terminal.print("\nThe gain from the neighbours:")
    rows: list[tuple[str, ...]] = [
        ("connections labelled correctly", f"{single.accuracy:.1%}", f"{chain.accuracy:.1%}", "")
    ]
    for label in single.labels:
        f1 = (f"{scores.per_label[label].f1:.1%}" for scores in (single, chain))
        rows.append((f"F1 of {label}", *f1, ""))
    episodes = outcome.by_single.episodes[0], *outcome.by_chain.episodes
    rows.append(("episodes of attack", *(f"{count:,}" for count in episodes)))
    terminal.print(table(("", "single rows", "chain", "truth"), rows))
    last = outcome.online[-1]
    terminal.print(
        f"\nOnline, {last.running_accuracy:.1%} of {last.positions:,} were labelled correctly before training on them."
    )
    terminal.print("\nThe cost (in training, a position counts in each iteration):")
    terminal.print(steps.table())


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
        online=outcome.online,
    )
    draw(path, story)


def _farewell(folder: Path, drawn: bool) -> str:
    picture = f"{folder / _PICTURE} shows the true labels, those found, and their probabilities."
    missing = "For a picture: pip install 'chainfold[plot]', and run the demo again."
    lines = ["", picture if drawn else missing, f"All files are in {folder}. The same steps by hand:", ""]
    return "\n".join(map(visible, [*lines, *(f"  {command}" for command in commands(folder))]))


def commands(folder: Path) -> list[str]:
    """The same by hand, and a look at the model."""
    from chainfold.cli.demo_log import ATTRIBUTES

    return [
        f"cd {shlex.quote(str(folder))}",
        f"chainfold encode {_TRAIN} --attributes '{ATTRIBUTES}' -o {_CHAIN}",
        f"chainfold train {_CHAIN} --max-iterations {_ITERATIONS} -o {_MODEL}",
        f"chainfold tag {_MODEL} {_TEST} --marginals -o {_TAGGED}",
        f"chainfold eval {_MODEL} {_TEST}",
        f"chainfold inspect {_MODEL}",
        f"chainfold watch {_MODEL} {_TEST} --alarm 'takeover>0.9'",
        f"chainfold learn {_TRAIN} --attributes '{ATTRIBUTES}' --prequential {_COURSE} -o {_ONLINE}",
    ]
