"""The exact gradient of a chain that comes in pieces: a pass of `stream` over a source that grows.

A step is taken as soon as the positions are there that a pass over the whole chain would look at. Every step is then
the one of that pass, and the result does not depend on where the pieces are cut, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable

from chainfold.chain.block import Source, has_weights
from chainfold.chain.views import JoinedSource
from chainfold.engines import stream
from chainfold.engines.log_likelihood import Evaluation, evaluation_of
from chainfold.engines.problem import Problem
from chainfold.engines.settings import DEFAULT_TOLERANCE, Settings
from chainfold.engines.tally import Tally
from chainfold.engines.weight_scores import WeightSource
from chainfold.errors import ChainfoldError, EmptyChain, MemoryTooSmall
from chainfold.model.model import Model


class PiecewiseGradient:
    """`log_likelihood` with the engine `stream`, for a chain that comes in pieces.

    The settings are those of `log_likelihood`. The result does not depend on where the pieces are cut.

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
        self._model, layout = model, model.layout
        self._settings = Settings(1, memory, tolerance, block, lookahead, observe, progress or (lambda positions: None))
        self._source = JoinedSource(layout.n_labels, layout.n_attributes, layout.n_edge_attributes)
        self._open = True

    def add(self, source: Source, *, continues: bool = False) -> None:
        """Add the next piece; it is read once, in order, and not needed after that.

        source      a chain; its names may be numbered otherwise than the model's, as for `log_likelihood`
        continues   its first position continues the last sequence of the piece before, in spite of its start mark

        Raises `ChainfoldError` if the piece cannot follow the others, or nothing can be added any more.
        """
        needed = source.labelled and (self._settings.observe or has_weights(source))
        source = self._model.aligned(source, labels_needed=needed)
        self._check_open(source.positions)
        first = not self._source.positions
        self._source.append(source, continues)
        self._open = False  # if anything fails from here on
        if first:
            self._begin()
        if not self._source.labelled:
            self._tally.forget_labels()
        while self._stream.position + self._stream.ahead() < self._source.positions:
            self._stream.step(self._source.positions, closed=False)
        self._source.forget(self._stream.position - 1)
        self._open = True

    def finish(self) -> Evaluation:
        """The `Evaluation` of all pieces as one chain; nothing can be added after that."""
        self._check_open(self._source.positions)
        self._open = False
        while self._stream.position < self._source.positions:
            self._stream.step(self._source.positions, closed=True)
        self._stream.end()
        report = self._stream.events.report(self._problem, self._tally)
        return evaluation_of("stream", self._problem, self._tally, report)

    def _check_open(self, positions: int) -> None:
        if positions < 1:
            raise EmptyChain
        if not self._open:
            raise ChainfoldError("the gradient is finished, or a piece failed; begin a new `PiecewiseGradient`.")

    def _begin(self) -> None:
        self._problem = Problem(self._model, self._source, self._settings, growing=True)
        needed, allowed = stream.memory(self._problem.shape, self._settings), self._settings.memory
        if allowed is not None and needed > allowed:
            raise MemoryTooSmall("stream", int(needed), allowed, "allow more")
        self._tally = Tally(self._problem)
        self._stream = stream.StreamPass(WeightSource(self._problem), self._tally)
