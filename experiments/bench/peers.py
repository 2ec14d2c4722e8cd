"""Other programs for linear-chain CRFs, behind one small interface: train on sequences, tag them.

    python -m experiments.bench.peers PEER KIND TEXT MODEL [ITERATIONS]
    python -m experiments.bench.peers one-sequence POSITIONS LABELS ATTRIBUTES ACTIVE

train in a process of their own, from a text file or on one sequence that is drawn at random, and say in JSON what was
found and what it took. All three programs stand on the C code of CRFsuite; the settings are c2 = 1, a weight for every
two labels, and the defaults for when to stop.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from chainfold.system.machine import resident
from experiments.bench.datasets import READERS, Items, sequences_of

if TYPE_CHECKING:
    from chainfold.chain.block import Source

ONE_SEQUENCE = "one-sequence"
_WARM = 2  # iterations at the beginning of a training that do not count
_FEW = 2  # iterations, where memory alone is of interest

Tag = Callable[[list[Items]], list[list[str]]]


class PeerTraining(NamedTuple):
    """Facts that a program tells of its training; None: it does not."""

    objective: float | None
    iterations: int | None


class Peer(Protocol):
    package: str  # its name in the registry, and here
    module: str

    def train(
        self, sequences: Iterable[tuple[Any, list[str]]], model: Path | None, iterations: int | None = None
    ) -> PeerTraining: ...

    def tagger(self, model: Path) -> Tag: ...


class PythonCrfsuite:
    package, module = "python-crfsuite", "pycrfsuite"

    def train(
        self, sequences: Iterable[tuple[Any, list[str]]], model: Path | None, iterations: int | None = None
    ) -> PeerTraining:
        import pycrfsuite

        trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
        trainer.set_params({"c2": 1.0, "feature.possible_transitions": True} | _limit(iterations))
        for items, labels in sequences:
            trainer.append(items, labels)
        trainer.train(str(model or ""))
        last = trainer.logparser.last_iteration
        return PeerTraining(last["loss"], last["num"])

    def tagger(self, model: Path) -> Tag:
        import pycrfsuite

        tagger = pycrfsuite.Tagger()
        tagger.open(str(model))
        return lambda sequences: [tagger.tag(items) for items in sequences]


class SklearnCrfsuite:
    package, module = "sklearn-crfsuite", "sklearn_crfsuite"

    def train(
        self, sequences: Iterable[tuple[Any, list[str]]], model: Path | None, iterations: int | None = None
    ) -> PeerTraining:
        crf = self._estimator(model, **_limit(iterations))
        items, labels = zip(*sequences, strict=True)
        crf.fit(items, labels)
        last = crf.training_log_.last_iteration
        return PeerTraining(last["loss"], last["num"])

    def tagger(self, model: Path) -> Tag:
        predict: Tag = self._estimator(model).predict
        return predict

    def _estimator(self, model: Path | None, **options: Any) -> Any:
        from sklearn_crfsuite import CRF

        return CRF(
            algorithm="lbfgs",
            c2=1.0,
            all_possible_transitions=True,
            keep_tempfiles=True,
            model_filename=None if model is None else str(model),
            **options,
        )


class Chaine:
    package, module = "chaine", "chaine"

    def train(
        self, sequences: Iterable[tuple[Any, list[str]]], model: Path | None, iterations: int | None = None
    ) -> PeerTraining:
        from chaine.crf import Trainer
        from chaine.logging import set_verbosity

        set_verbosity(0)
        trainer = Trainer("lbfgs", c2=1.0, all_possible_transitions=True, **_limit(iterations))
        items, labels = zip(*sequences, strict=True)
        trainer.train(self._tokens(items), labels, model_filepath=str(model or ""))
        return PeerTraining(None, None)

    def tagger(self, model: Path) -> Tag:
        from chaine.crf import Model

        opened = Model(str(model))
        return lambda sequences: list(opened.predict(self._tokens(sequences)))

    def _tokens(self, sequences: Iterable[Items]) -> list[list[dict[str, float]]]:
        """It takes dictionaries alone."""
        return [[dict.fromkeys(item, 1.0) for item in items] for items in sequences]


PEERS: tuple[Peer, ...] = (PythonCrfsuite(), SklearnCrfsuite(), Chaine())
CRFSUITE = PEERS[0]


def installed() -> list[Peer]:
    return [peer for peer in PEERS if has(peer)]


def has(peer: Peer) -> bool:
    return find_spec(peer.module) is not None


def missing() -> list[str]:
    """A sentence for each that is not installed."""
    return [f"{peer.package} is not installed, and is left out." for peer in PEERS if not has(peer)]


def _limit(iterations: int | None) -> dict[str, int]:
    return {} if iterations is None else {"max_iterations": iterations}


def iterations_between(source: Source, work: Callable[[], None], rounds: int) -> list[float]:
    """Seconds of L-BFGS iterations of CRFsuite on a chain, by its own clock, and `work` done after each.

    Counted are iterations with one line-search trial, after the first few. CRFsuite's clock goes on while we work, so
    that the iteration after ours never counts. It counts processor time to a thousandth of a second.
    """
    import pycrfsuite

    found: list[float] = []

    class Interleaved(pycrfsuite.Trainer):  # type: ignore[misc]
        disturbed = False

        def on_iteration(self, log: str, info: dict[str, Any]) -> None:
            counts = info["num"] > _WARM and info["linesearch_trials"] == 1 and not self.disturbed
            self.disturbed = counts
            if counts and len(found) < rounds:
                found.append(info["time"])
                work()

        def _say_nothing(self, *log: Any) -> None: ...

        on_start = on_featgen_progress = on_featgen_end = on_prepared = _say_nothing
        on_optimization_end = on_end = _say_nothing

    trainer = Interleaved(algorithm="lbfgs", verbose=True)  # otherwise it does not call on_iteration
    never = {"epsilon": 1e-12, "period": 1000}  # stop before so many iterations
    settings = {"c2": 1.0, "feature.possible_transitions": True, "max_iterations": 2 * rounds + _WARM + 1}
    trainer.set_params({**settings, **never})
    for items, labels in sequences_of(source):
        trainer.append(items, labels)
    while len(found) < rounds:
        trainer.train("")
    return found


def drawn(positions: int, labels: int, attributes: int, active: int) -> Iterator[tuple[Any, list[str]]]:
    """One sequence, handed over item by item."""
    draw = random.Random(1)
    names, tags = [f"a{k}" for k in range(attributes)], [f"L{k}" for k in range(labels)]
    yield (draw.choices(names, k=active) for _ in range(positions)), draw.choices(tags, k=positions)


def main() -> None:
    name, *rest = sys.argv[1:]
    if name == ONE_SEQUENCE:
        trained = CRFSUITE.train(drawn(*(int(size) for size in rest)), None, _FEW)
    else:
        peer = {peer.package: peer for peer in PEERS}[name]
        kind, text, model, *iterations = rest
        trained = peer.train(READERS[kind](Path(text)), Path(model), int(iterations[0]) if iterations else None)
    print(json.dumps({**trained._asdict(), "peak_rss_mb": resident() / 1e6}))


if __name__ == "__main__":
    main()
