"""log Z, log likelihood and gradient of a model on a chain, by any engine."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from chainfold.chain.block import Source, has_weights
from chainfold.engines.engine import Report
from chainfold.engines.problem import Problem
from chainfold.engines.registry import PUBLISHED, engine_named
from chainfold.engines.settings import DEFAULT_TOLERANCE, Settings, Shape
from chainfold.engines.tally import Tally
from chainfold.engines.workspace import Workspace
from chainfold.errors import ChainfoldError, EmptyChain, MemoryTooSmall, ResultNotFinite
from chainfold.model.layout import Floats, Layout
from chainfold.model.model import Model


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A model on a chain: the result of `log_likelihood`.

    engine           the engine that computed it
    log_z            log Z, a sum over sequences: each counts with its weight, here and below
    log_likelihood   of the observed labels; None where one is unknown or they were not counted
    expected         [M] expected counts, ∇Z / Z
    gradient         [M] of the log likelihood: observed - expected counts; None where `log_likelihood` is, or where the
                     observed labels were not counted
    report           what the engine did: passes, blocks, lookahead, error bounds

    >>> import chainfold as cf
    >>> chain = cf.SyntheticChain(1000, 3, 10, 2)
    >>> result = cf.log_likelihood(cf.Model.random(cf.Layout.full(3, 10)), chain)
    >>> result.engine, result.gradient.shape, result.report.passes
    ('stream', (39,), 1.0)
    """

    engine: str
    log_z: float
    log_likelihood: float | None
    expected: Floats = field(repr=False)
    gradient: Floats | None = field(repr=False)
    report: Report


def log_likelihood(
    model: Model,
    chain: Source,
    engine: str = "stream",
    *,
    threads: int = 1,
    memory: int | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
    block: int | None = None,
    lookahead: int | None = None,
    observe: bool = True,
    progress: Callable[[int], None] | None = None,
) -> Evaluation:
    """log Z, log likelihood, expected counts and gradient of a chain.

    A chain whose names are numbered otherwise than the model's is renumbered by name, see `Model.aligned`. Attributes
    that the model does not have carry no weight, and no part of the gradient; a label that it does not have is an
    error, unless the observed labels are not counted.

    engine     one of the table in docs/python.md
    threads    for `parallel`; the result is the same to the last bit for any number
    memory     bytes of working memory, beside the model and its counts; a chain that never forgets may make `stream`
               carry N times the counts beyond it, and blocks whose numbers leave the range of a double take three times
               as much
    tolerance  relative error a certificate may leave in `stream` and `parallel`, at least 1e-14
    block, lookahead   positions; chosen by the engine unless given
    observe    count the observed labels too; without their counts there is no gradient
    progress   called with the number of positions just done, by `parallel` from its threads

    Raises `ChainfoldError`: `EmptyChain`, `UnknownEngine`, `BadSetting`, `MemoryTooSmall`, and `ForbiddenLabel`,
    `ZeroProbability` or `ScoreNotFinite` with the position where the model and the chain do not fit.

    >>> import chainfold as cf
    >>> chain = cf.SyntheticChain(1000, 3, 10, 2)
    >>> model = cf.Model(cf.Layout.full(3, 10), chain.true_weights())
    >>> cf.log_likelihood(model, chain).log_likelihood < 0.0
    True
    """
    settings = Settings(threads, memory, tolerance, block, lookahead, observe, progress or (lambda positions: None))
    return run_engine(model, chain, engine, settings)


def run_engine(
    model: Model, chain: Source, engine: str, settings: Settings, workspace: Workspace | None = None
) -> Evaluation:
    """`log_likelihood`, with arrays that are kept from one evaluation of a chain to the next."""
    algorithm = engine_named(engine)
    if chain.positions < 1:
        raise EmptyChain
    chain = model.aligned(chain, labels_needed=chain.labelled and settings.observe)
    shape = Shape.of(model.layout, chain)
    needed = algorithm.memory(shape, settings)
    if settings.memory is not None and needed > settings.memory:
        fits = engine_named("stream").memory(shape, settings) <= settings.memory
        remedy = "allow more, or take engine 'stream'" if fits else "allow more"
        raise MemoryTooSmall(engine, int(needed), settings.memory, remedy)
    problem = Problem(model, chain, settings, workspace)
    if engine in PUBLISHED and (has_weights(chain) or problem.masked):
        raise ChainfoldError(
            f"engine {engine!r} follows the paper, which knows no weights of sequences and no labels that may not "
            f"start or end a sequence; take another engine."
        )
    tally, report = algorithm.run(problem)
    return evaluation_of(engine, problem, tally, report)


def evaluation_of(engine: str, problem: Problem, tally: Tally, report: Report) -> Evaluation:
    """The result of a run; the arrays of the tally and the problem are given back."""
    layout = problem.model.layout
    with np.errstate(invalid="ignore", over="ignore"):  # checked below
        log_z, expected = tally.log_z, layout.unpack(tally.expected.result())
        gradient = None if tally.observed is None else layout.unpack(tally.observed.result()) - expected
        likelihood = None if tally.observed is None else tally.score - log_z
    tally.release()
    problem.release()
    return evaluation(engine, layout, log_z, likelihood, expected, gradient, report)


def evaluation(
    engine: str,
    layout: Layout,
    log_z: float,
    likelihood: float | None,
    expected: Floats,
    gradient: Floats | None,
    report: Report,
) -> Evaluation:
    """The result, if all its numbers are finite."""
    _check_finite(layout, log_z, expected if gradient is None else gradient, likelihood)
    if likelihood is not None:
        likelihood = min(likelihood, 0.0)  # of a probability; rounding could make it positive
    return Evaluation(engine, log_z, likelihood, expected, gradient, report)


def _check_finite(layout: Layout, log_z: float, counts: Floats, likelihood: float | None) -> None:
    if not math.isfinite(log_z):
        raise ResultNotFinite("log Z")
    if not math.isfinite(float(counts.max(initial=0.0)) - float(counts.min(initial=0.0))):
        for index in np.flatnonzero(~np.isfinite(counts))[:1].tolist():
            raise ResultNotFinite(f"the count of weight {index} ({layout.name(index)})")
    if likelihood is not None and not math.isfinite(likelihood):
        raise ResultNotFinite("the log likelihood")
