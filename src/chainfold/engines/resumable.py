"""The exact gradient of a chain that comes in pieces, days apart if need be.

A pass of the engine `stream` can stop anywhere and continue later from a *resume token*, one file:

    sums       log Z, expected and observed counts, both levels of each
    rows       the data of the blocks that are pending, and of the positions that no step could be taken over as yet
    entry      the forward vector before them
    carried    [N, M], only where the chain has not forgotten within the lookahead

A step is taken once all that it could look at is there, so that every step is the one that a pass over the whole chain
would take: the result does not depend on where the pieces were cut, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np

from chainfold.chain.block import MOST_IDS, NO_LABEL, Block, Source, check_block, frozen, has_weights, join_blocks
from chainfold.chain.views import JoinedSource, SourceSizes
from chainfold.engines import stream
from chainfold.engines.log_likelihood import Evaluation, evaluation_of
from chainfold.engines.potentials import Potentials
from chainfold.engines.problem import Problem
from chainfold.engines.settings import DEFAULT_TOLERANCE, Settings
from chainfold.engines.tally import Tally
from chainfold.errors import BadFile, ChainfoldError, EmptyChain, MemoryTooSmall
from chainfold.model.file import fingerprint
from chainfold.model.layout import Layout
from chainfold.model.model import Model
from chainfold.system.archive import Tensors, damage, read_sealed, write_sealed
from chainfold.system.validate import (
    LARGEST,
    MOST,
    Arrays,
    is_count,
    is_number,
    mapping,
    need,
    thinned,
    under,
    within,
)

TOKEN, TOKEN_VERSION = "resume token", 3
_CHOSEN = ("memory", "tolerance", "block", "lookahead", "observe")  # of the settings, once and for all pieces


class PiecewiseGradient:
    """`log_likelihood` with the engine `stream`, for a chain that comes in pieces.

    The settings are those of `log_likelihood`, for all pieces. The result does not depend on where the pieces are cut.

    >>> import chainfold as cf
    >>> chain = cf.SyntheticChain(2000, 3, 10, 2)
    >>> model = cf.Model(cf.Layout.full(3, 10), chain.true_weights())
    >>> gradient = cf.PiecewiseGradient(model)
    >>> gradient.add(chain)
    >>> gradient.finish().log_z == cf.log_likelihood(model, chain).log_z
    True
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
        """Positions added so far."""
        return 0 if self._pass is None else self._pass.source.positions

    def add(self, source: Source, *, continues: bool = False) -> None:
        """Add the next piece; it is read once, in order, and not needed after that.

        source      a chain; its names may be numbered otherwise than the model's, as for `log_likelihood`
        continues   its first position continues the last sequence of the piece before, in spite of its start mark

        Raises `ChainfoldError` where the piece cannot follow the others, or the gradient is finished.
        """
        self._check_open()
        if source.positions < 1:
            raise EmptyChain
        source = self.model.aligned(source, labels_needed=source.labelled and self.settings.observe)
        if continues and not self.positions:
            raise ChainfoldError("the first piece cannot continue another one.")
        weighted = has_weights(source)
        if self._pass is not None and weighted != self._pass.source.sizes.weighted:
            raise ChainfoldError("of the pieces so far and this one, only one side has weights; give all pieces some.")
        with self._working():
            if self._pass is None:
                layout = self.model.layout
                sizes = layout.n_labels, layout.n_attributes, layout.n_edge_attributes
                self._pass = _Pass(
                    self.model, self.settings, JoinedSource(SourceSizes(*sizes, source.active, weighted))
                )
            self._pass.add(source, continues)

    def finish(self) -> Evaluation:
        """The `Evaluation` of all pieces as one chain; nothing can be added after that."""
        begun = self._begun()
        with self._working():
            evaluation = begun.finish()
        self._pass, self._over = None, "the gradient is finished; load the token again to add more to it."
        return evaluation

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
        """Continue from a resume token, with the model under which it was begun."""
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
        """A piece that fails or is interrupted leaves the gradient unusable."""
        self._over = "a piece was not worked through to its end; load the last token again."
        yield
        self._over = None


class _Pass:
    """A pass of `stream` over a source that grows, and only takes the steps that more of the source cannot change."""

    def __init__(self, model: Model, settings: Settings, source: JoinedSource) -> None:
        self.source = source
        self._problem = Problem(model, source, settings, growing=True)
        needed = stream.cost(self._problem.shape, settings).memory
        if settings.memory is not None and needed > settings.memory:
            raise MemoryTooSmall("stream", int(needed), settings.memory, "allow more")
        self._tally = Tally(self._problem)
        self._stream = stream.StreamPass(self._problem, Potentials.of(self._problem), self._tally)

    def add(self, source: Source, continues: bool) -> None:
        self.source.append(source, continues)
        if not self.source.labelled:
            self._tally.forget_labels()
        while self._stream.position + self._stream.ahead() < self.source.positions:
            self._stream.step(self.source.positions, closed=False)
        rows = join_blocks(self._stream.rows())
        self.source.keep(self._stream.oldest, rows)

    def finish(self) -> Evaluation:
        while self._stream.position < self.source.positions:
            self._stream.step(self.source.positions, closed=True)
        self._stream.end()
        return evaluation_of(
            "stream", self._problem, self._tally, self._stream.events.report(self._problem, self._tally)
        )

    def state(self) -> Tensors:
        first = self.source.first
        rows = self.source.block(first, self.source.positions)
        return {
            "first": np.array([first]),
            **under("rows", rows._asdict()),
            **under("stream", self._stream.state()),
        }

    def restore(self, state: Tensors) -> None:
        given, source = Arrays(state), self.source
        (first,) = given.counts("first", MOST)
        block = _block(Arrays(given.under("rows")))
        size = block.labels.size
        need(size, "it has no rows")
        check_block(block, first, first + size, *source.sizes[:3])
        need(not source.labelled or block.labels.min() > NO_LABEL, "its rows have labels that are unknown")
        need(not source.sizes.weighted or block.weights.size, "its rows have no weights")
        for values in (block.values, block.edge_values):
            within("values", values, -LARGEST, LARGEST)
        self.source.keep(first, block)
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
    """The settings of a token, checked."""
    settings = mapping("settings", given, _CHOSEN)
    for name in ("memory", "block", "lookahead"):
        need(settings[name] is None or is_count(settings[name], 1, MOST), f"its {name} is no count")
    need(is_number(settings["tolerance"]), "its tolerance is no number")
    need(type(settings["observe"]) is bool, "its settings are not booleans")
    return settings


def _source(about: Mapping[str, Any], layout: Layout) -> JoinedSource:
    """A source without positions, of the sizes that a token says, if they are the model's."""
    sizes = SourceSizes(**mapping("sizes", about["source"], SourceSizes._fields))
    need(sizes[:3] == (layout.n_labels, layout.n_attributes, layout.n_edge_attributes), "its sizes are not the model's")
    need(is_number(sizes.active) and 0.0 <= sizes.active <= MOST_IDS, "its number of attributes is out of range")
    need(type(sizes.weighted) is bool and type(about["labelled"]) is bool, "its sizes are not booleans")
    source = JoinedSource(sizes)
    source.labelled = about["labelled"]
    return source
