"""The one way to ask for log Z and a gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from chainfold.data.chain import Source
from chainfold.engines import ENGINES
from chainfold.engines.base import DEFAULT_TOLERANCE, Problem, Report, Settings, Tally, shape_of
from chainfold.engines.plan import choose
from chainfold.errors import EmptyChain, MemoryTooSmall, UnknownEngine
from chainfold.model import Floats, Model


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A model on a chain."""

    engine: str
    log_z: float
    log_likelihood: float | None  # None where a label is unknown
    expected: Floats = field(repr=False)  # [M] expected counts, ∇Z / Z
    gradient: Floats | None = field(repr=False)  # [M] of the log likelihood: observed - expected counts
    report: Report


def evaluate(
    model: Model,
    chain: Source,
    engine: str = "stream",
    *,
    threads: int = 1,
    memory: int | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
    block: int | None = None,
    lookahead: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Evaluation:
    """log Z, log likelihood, expected counts and gradient of a chain.

    engine     one of `chainfold engines`, or "auto" to let the planner choose
    threads    for `parallel`; the answer is the same to the last bit for any number
    memory     bytes of working memory, beside the model and its counts; a chain that never forgets may make `stream`
               carry N times the counts beyond it
    tolerance  relative error a certificate may leave in `stream` and `parallel`, at least 1e-14
    block, lookahead   positions; chosen by the engine unless given
    progress   called with the number of positions just done, by `parallel` from its threads
    """
    settings = Settings(threads, memory, tolerance, block, lookahead, progress or (lambda positions: None))
    if engine != "auto" and engine not in ENGINES:
        raise UnknownEngine(engine, ENGINES)
    if chain.positions < 1:
        raise EmptyChain
    model.check_fits(chain)
    shape = shape_of(model.layout, chain)
    if engine == "auto":
        engine = choose(shape, settings).engine
    needed = ENGINES[engine].cost(shape, settings).memory
    if settings.memory is not None and needed > settings.memory:
        other = choose(shape, settings)
        fits = other.costs[other.engine].memory <= settings.memory
        remedy = f"allow more, or take engine {other.engine!r}" if fits else "allow more"
        raise MemoryTooSmall(engine, int(needed), settings.memory, remedy)
    tally, report = ENGINES[engine].run(Problem(model, chain, settings))
    return _evaluation(engine, model, tally, report)


def _evaluation(engine: str, model: Model, tally: Tally, report: Report) -> Evaluation:
    log_z, expected = tally.log_z, model.layout.unpack(tally.expected.result())
    if tally.observed is None:
        return Evaluation(engine, log_z, None, expected, None, report)
    gradient = model.layout.unpack(tally.observed.result()) - expected
    return Evaluation(engine, log_z, tally.score - log_z, expected, gradient, report)
