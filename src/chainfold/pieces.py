"""The exact gradient of a chain that comes in pieces, days apart if need be.

A pass of the engine `stream` can stop anywhere and go on later. What it takes to go on is a *resume token*, one file:

    sums       log Z, expected and observed counts, both levels of each
    rows       the data of the blocks that are pending, and of the positions that no step could be taken over as yet
    entry      the forward vector before them
    carried    [N, M], only where the chain has not forgotten within the lookahead

A step is taken once all that it could look at is there, so that every step is the one that a pass over the whole chain
would take: the result does not depend on where the pieces were cut, to the last bit.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from chainfold.data.chain import MOST_IDS, Block, Source, check_block, frozen, has_weights
from chainfold.data.joined import Joined, Sizes
from chainfold.data.store import joined
from chainfold.engines import stream
from chainfold.engines.base import (
    DEFAULT_TOLERANCE,
    NOTHING_BEFORE,
    Before,
    Problem,
    Settings,
    Shape,
    Tally,
    under,
)
from chainfold.engines.sweep import Potentials
from chainfold.errors import BadFile, ChainfoldError, EmptyChain, MemoryTooSmall
from chainfold.evaluation import Evaluation, evaluation_of
from chainfold.kernels.scores import NO_LABEL
from chainfold.model import Layout, Model
from chainfold.model_file import fingerprint
from chainfold.restored import LARGEST, MOST, MOST_WEIGHT, Arrays, is_count, is_number, mapping, need, thinned, within
from chainfold.sealed import Tensors, damage, read_sealed, write_sealed

TOKEN, TOKEN_VERSION = "resume token", 3
_CHOSEN = ("memory", "tolerance", "block", "lookahead", "observe")  # of the settings, once and for all pieces


class PiecewiseGradient:
    """`evaluate` with the engine `stream`, for a chain of which one piece after the other is given.

    The settings are those of `evaluate`, for all pieces.
    """

    def __init__(
        self,
        model: Model,
        *,
        memory: int | None = None,
        tolerance: float = DEFAULT_TOLERANCE,
        block: int | None = None,
        lookahead: int | None = None,
        observe: bool = True,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self.model = model
        self.settings = Settings(1, memory, tolerance, block, lookahead, observe, progress or (lambda positions: None))
        self._pass: _Pass | None = None  # there is one from the first piece on
        self._over: str | None = None  # why nothing more can be added

    @property
    def positions(self) -> int:
        """How many there are so far."""
        return 0 if self._pass is None else self._pass.source.positions

    def add(self, source: Source, *, continues: bool = False) -> None:
        """The next piece; it is read once, in order, and not needed any more after that.

        Its names may be numbered otherwise than the model's, as for `evaluate`.

        continues   its first position goes on with the last sequence of the piece before, whatever its start mark says
        """
        self._check_open()
        if source.positions < 1:
            raise EmptyChain
        needed = source.labelled and (self.settings.observe or has_weights(source))
        source = self.model.aligned(source, labels_needed=needed)
        if continues and not self.positions:
            raise ChainfoldError("there is nothing before the first piece that it could continue.")
        weighted = bool(source.labelled and has_weights(source))
        if self._pass is not None and weighted != self._pass.source.sizes.weighted and self._pass.source.labelled:
            raise ChainfoldError(
                "of the pieces so far and this one, only one side has weights of positions and all labels; give all "
                "pieces both, or none weights."
            )
        with self._working():
            if self._pass is None:
                layout = self.model.layout
                sizes = layout.n_labels, layout.n_attributes, layout.n_edge_attributes
                self._pass = _Pass(self.model, self.settings, Joined(Sizes(*sizes, source.active, weighted)))
            self._pass.add(source, continues)

    def finish(self) -> Evaluation:
        """What `evaluate` gives for all the pieces in one; nothing can be added after that."""
        begun = self._begun()
        with self._working():
            found = begun.finish()
        self._pass, self._over = None, "the gradient is finished; load the token again to add more to it."
        return found

    def save(self, path: str | Path) -> None:
        """Write the resume token: to this file, or, if anything goes wrong, not at all."""
        begun = self._begun()
        about = {
            "model": fingerprint(self.model),
            "settings": {name: getattr(self.settings, name) for name in _CHOSEN},
            "source": begun.source.sizes._asdict(),
            "labelled": begun.source.labelled,
        }
        write_sealed(path, TOKEN, TOKEN_VERSION, thinned(begun.state()), about)

    @classmethod
    def load(cls, path: str | Path, model: Model, progress: Callable[[int], None] | None = None) -> Self:
        """Go on from a resume token, with the model under which it was begun."""
        tensors, about = read_sealed(path, TOKEN, TOKEN_VERSION)
        with damage(path, TOKEN):
            mapping("parts", about, ("model", "settings", "source", "labelled", "kind", "version"))
            if about["model"] != fingerprint(model):
                raise BadFile(path, "it was begun with another model; give the same one.")
            resumed = cls(model, **_settings(about["settings"]), progress=progress)
            resumed._pass = _Pass(model, resumed.settings, _source(about, model.layout))
            resumed._pass.restore(tensors)
        return resumed

    def _check_open(self) -> None:
        if self._over is not None:
            raise ChainfoldError(self._over)

    def _begun(self) -> _Pass:
        self._check_open()
        if self._pass is None:
            raise EmptyChain
        return self._pass

    @contextmanager
    def _working(self) -> Iterator[None]:
        """What fails or is interrupted in the middle is not to be gone on with."""
        self._over = "a piece was not worked through to its end; load the last token again."
        yield
        self._over = None


class _Ongoing(Problem):
    """A problem whose source may still grow: its length is not known, and nothing may depend on it."""

    source: Joined

    def __init__(self, model: Model, source: Joined, settings: Settings) -> None:
        super().__init__(model, source, settings)
        self.earlier = NOTHING_BEFORE  # what was observed before the first position that the source still has

    @property
    def shape(self) -> Shape:
        return super().shape._replace(positions=sys.maxsize)

    @cached_property
    def weighted(self) -> bool:
        return self.source.sizes.weighted

    def before(self, low: int) -> Before:
        return self.earlier if low == self.source.first else super().before(low)


class _Pass:
    """A pass of `stream` over a source that grows, and only takes the steps that more of the source cannot change."""

    def __init__(self, model: Model, settings: Settings, source: Joined) -> None:
        self.source = source
        self._problem = _Ongoing(model, source, settings)
        needed = stream.cost(self._problem.shape, settings).memory
        if settings.memory is not None and needed > settings.memory:
            raise MemoryTooSmall("stream", int(needed), settings.memory, "allow more")
        self._tally = Tally(self._problem)
        self._stream = stream.Stream(self._problem, Potentials.of(self._problem), self._tally)

    def add(self, source: Source, continues: bool) -> None:
        self.source.append(source, continues)
        if not self.source.labelled:
            self._tally.forget_labels()
        while self._stream.position + self._stream.ahead() < self.source.positions:
            self._stream.step(self.source.positions, closed=False)
        self._problem.earlier, rows = self._stream.before(), joined(self._stream.rows())
        self.source.keep(self._stream.oldest, rows)

    def finish(self) -> Evaluation:
        while self._stream.position < self.source.positions:
            self._stream.step(self.source.positions, closed=True)
        self._stream.end()
        return evaluation_of(
            "stream", self._problem, self._tally, self._stream.doings.report(self._problem, self._tally)
        )

    def state(self) -> Tensors:
        first, earlier = self.source.first, self._problem.earlier
        rows = self.source.block(first, self.source.positions)
        return {
            "first": np.array([first]),
            "label_before": np.array([earlier.label]),
            "weight_before": np.array([earlier.weight]),
            **under("rows", rows._asdict()),
            **under("stream", self._stream.state()),
        }

    def restore(self, state: Tensors) -> None:
        given, source, layout = Arrays(state), self.source, self._problem.model.layout
        (first,) = given.counts("first", MOST)
        label, weight = given.take("label_before", np.int64, 1), given.take("weight_before", np.float64, 1)
        within("label_before", label, NO_LABEL, layout.n_labels - 1)
        within("weight_before", weight, 0.0, MOST_WEIGHT)
        need(label[0] != NO_LABEL or not weight[0], "a position without a label has a weight in it")
        block = _block(Arrays(given.under("rows")))
        size = block.labels.size
        need(size, "it has no rows")
        check_block(block, first, first + size, *source.sizes[:3])
        need(not source.labelled or block.labels.min() > NO_LABEL, "its rows have labels that are unknown")
        need(not source.sizes.weighted or block.weights.size, "its rows have no weights")
        for values in (block.values, block.edge_values):
            within("values", values, -LARGEST, LARGEST)
        source.keep(first, block)
        self._problem.earlier = Before(int(label[0]), float(weight[0]))
        self._stream.restore(given.under("stream"), first)
        given.check_empty()


def _block(given: Arrays) -> Block:
    """The rows of a token, as the next piece may have them."""
    arrays = {
        "labels": given.take("labels", np.int32, None),
        "starts": given.take("starts", np.bool_, None),
        "offsets": given.take("offsets", np.int64, None),
        "ids": given.take("ids", np.int32, None),
        "edge_offsets": given.take("edge_offsets", np.int64, None),
        "edge_ids": given.take("edge_ids", np.int32, None),
    }
    for name, size in (("values", "ids"), ("edge_values", "edge_ids"), ("weights", "labels")):
        arrays[name] = given.take_or_none(name, np.float64, arrays[size].size)
    given.check_empty()
    return Block(**{name: frozen(array, array.dtype) for name, array in arrays.items()})


def _settings(given: Any) -> dict[str, Any]:
    """Those of a token, if they can be."""
    settings = mapping("settings", given, _CHOSEN)
    for name in ("memory", "block", "lookahead"):
        need(settings[name] is None or is_count(settings[name], 1, MOST), f"its {name} is no count")
    need(is_number(settings["tolerance"]), "its tolerance is no number")
    need(type(settings["observe"]) is bool, "its settings are neither yes nor no")
    return settings


def _source(about: Mapping[str, Any], layout: Layout) -> Joined:
    """A source without positions, of the sizes that a token says, if they are the model's."""
    sizes = Sizes(**mapping("sizes", about["source"], Sizes._fields))
    need(sizes[:3] == (layout.n_labels, layout.n_attributes, layout.n_edge_attributes), "its sizes are not the model's")
    need(is_number(sizes.active) and 0.0 <= sizes.active <= MOST_IDS, "its number of attributes cannot be")
    need(type(sizes.weighted) is bool and type(about["labelled"]) is bool, "its sizes are neither yes nor no")
    source = Joined(sizes)
    source.labelled = about["labelled"]
    return source
