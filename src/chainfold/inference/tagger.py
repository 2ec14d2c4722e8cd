"""Labels for a chain that comes block by block: Viterbi, posteriors, the k best, drawn labellings, entropy.

One forward stream. A block's results are final, and given, as soon as the state of its last position is:

    best label     all labels that are still possible at the head lead back to the same one
    posterior      certified to within the tolerance, whatever the future holds (`kernels.collapse`)
    k best         the sequence has ended

Until then its forward vectors and back-pointers are pending: in memory as far as allowed, in a nameless file beyond, so
that the answer is exact for every chain. Labels never depend on how the chain is cut into blocks; posteriors do, within
the tolerance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chainfold.chain.block import NO_LABEL, Block, Source, check_block, checked_labels, frozen
from chainfold.engines.block_pass import Belief, Horizon
from chainfold.engines.forward import SCORERS, Forward, Labels, Scored, Scorer, lattice_of
from chainfold.engines.problem import DEFAULT_TOLERANCE, Settings, cut
from chainfold.errors import BadChain, BadSetting
from chainfold.kernels import decode, messages
from chainfold.kernels.certificate import look_ahead
from chainfold.model.layout import Floats
from chainfold.model.model import Model
from chainfold.system.prefetch import made_ahead
from chainfold.system.spill import Arrays, ArrayStore, StoredArrays

DEFAULT_MEMORY = 256 << 20
BLOCK = 8192  # positions in a piece

_BLOCK_BYTES = 8 << 20  # of a block's transition matrices, ranks and samples, where each position has its own
_LEAST_BLOCK = 64
_AT_ONCE = 8  # pieces that a block of a source has


@dataclass(frozen=True)
class Want:
    """What to find out."""

    labels: bool = True  # the best labelling
    posteriors: bool = False  # of every label at every position
    probability: bool = False  # of the best labelling of each sequence
    given: bool = False  # probability of the labels that the blocks come with
    entropy: bool = False  # of each sequence
    nbest: int = 0  # so many best labellings of each sequence
    samples: int = 0  # so many labellings drawn from their distribution
    seed: int = 0  # of the samples

    def __post_init__(self) -> None:
        for name in ("nbest", "samples", "seed"):
            value = getattr(self, name)
            if not isinstance(value, (int, float, np.integer)) or not (value >= 0 and value == int(value)):
                raise BadSetting(name, getattr(self, name), "a whole number, at least 0")

    @property
    def lattice(self) -> bool:
        """Are forward vectors needed?"""
        return self.posteriors or self.probability or self.given or self.entropy or self.samples > 0


@dataclass(frozen=True, eq=False)
class Sequences:
    """The sequences that end in a stretch, in order; logarithms are natural ones. None: not asked for."""

    ends: NDArray[np.int64]  # [S] their last positions
    score: Floats  # [S] of the best labelling
    gaps: Floats | None = None  # [S, k] scores of the k best less that of the best; -inf where there are no more
    log_probability: Floats | None = None  # [S] of the best labelling
    given: Floats | None = None  # [S] log probability of the labels it came with; not a number where one is unknown
    entropy: Floats | None = None  # [S]

    @property
    def log_z(self) -> Floats:
        assert self.log_probability is not None, "known where Want.probability is"
        return self.score - self.log_probability


@dataclass(frozen=True, eq=False)
class Tagged:
    """The final results of the next positions. None: not asked for."""

    low: int  # the first position
    starts: NDArray[np.bool_]  # [B]
    given: Labels  # [B] the labels that the block came with
    sequences: Sequences  # those that end here
    labels: Labels | None = None  # [B]
    posteriors: Floats | None = None  # [B, N]
    nbest: Labels | None = None  # [k, B], -1 where the sequence has fewer labellings
    samples: Labels | None = None  # [k, B]

    @property
    def marginal(self) -> Floats:
        """[B] the posterior of each position's label."""
        assert self.labels is not None, "known where Want.labels is"
        assert self.posteriors is not None, "known where Want.posteriors is"
        return self.posteriors[np.arange(self.labels.size), self.labels]


class Tagger:
    """A model ready to label chains."""

    def __init__(self, model: Model, *, memory: int | None = None, tolerance: float = DEFAULT_TOLERANCE) -> None:
        """memory: bytes of pending results before they go to disk; tolerance: relative error of posteriors."""
        settings = Settings(memory=memory, tolerance=tolerance)
        self.model = model
        self.memory, self.tolerance = settings.memory or DEFAULT_MEMORY, settings.tolerance
        self._scorer = Scorer(model)

    def run(self, blocks: Source | Iterable[Block], want: Want | None = None) -> Iterator[Tagged]:
        """The results of a chain in stretches that cover it in order.

        A chain, or its blocks of any size. A chain's own numbers may differ from the model's (`Model.aligned`); blocks
        have no names, and must have the model's numbers.
        """
        wanted = want or Want()
        self._check_room(wanted)
        if not isinstance(blocks, Iterable):
            blocks = blocks_of(self.model.aligned(blocks))
        return self._run(blocks, wanted)

    def _run(self, blocks: Iterable[Block], wanted: Want) -> Iterator[Tagged]:
        forward = _Recording(self._scorer, wanted)
        with ArrayStore(self.memory) as store:
            pending = _Pending(_strands(self._scorer, wanted, self.tolerance), store)
            for pieces in _pieces(blocks, self.model, wanted):
                for piece, scored in made_ahead(self._score, pieces, SCORERS):
                    yield from pending.add(*forward.step(piece.low, piece.block, scored))

    def _score(self, piece: _Piece) -> tuple[_Piece, Scored]:
        return piece, self._scorer.score(piece.low, piece.block, piece.ended)

    def _check_room(self, want: Want) -> None:
        """Raise if so many labellings at once would need more memory than is allowed, however small the blocks."""
        for name, each in (("nbest", 4 * self.model.layout.n_labels), ("samples", 4)):
            most = max(self.memory, _BLOCK_BYTES) // (_LEAST_BLOCK * each)
            if getattr(want, name) > most:
                allowed = f"at most {most:,} with {self.memory / 1e6:,.0f} MB of memory"
                raise BadSetting(name, getattr(want, name), allowed)

    def viterbi(self, blocks: Source | Iterable[Block]) -> Iterator[Tagged]:
        """The best labelling alone."""
        return self.run(blocks, Want())


def blocks_of(source: Source, size: int = _AT_ONCE * BLOCK) -> Iterator[Block]:
    """A source in blocks."""
    return (source.block(low, high) for low, high in cut(0, source.positions, size))


class _Piece(NamedTuple):
    """A part of a block."""

    low: int  # its first position
    block: Block
    ended: bool  # does a sequence end with it?


def _pieces(blocks: Iterable[Block], model: Model, want: Want) -> Iterator[list[_Piece]]:
    """Checked blocks in pieces of a bounded size: those that are complete with each block.

    One is held back: whether a sequence ends with it, only the next one tells.
    """
    layout, most = model.layout, _most_positions(model, want)
    held: tuple[int, Block] | None = None
    low = 0
    for block in blocks:
        high = low + block.labels.size
        if high > low:
            edges = layout.n_edge_attributes if block.edge_offsets.size else 0
            check_block(block, low, high, layout.n_labels, layout.n_attributes, edges)
        complete = []
        for begin, end in cut(0, high - low, most):
            if held is not None:
                complete.append(_Piece(*held, bool(block.starts[begin])))
            held = low + begin, block.part(begin, end)
        yield complete
        low = high
    if held is not None:
        yield [_Piece(*held, True)]


def _most_positions(model: Model, want: Want) -> int:
    """In a block."""
    layout = model.layout
    own = 8 * layout.n_labels * layout.width if layout.n_edge_attributes else 0
    own += 4 * layout.n_labels * want.nbest + 4 * want.samples
    return BLOCK if own == 0 else min(max(_BLOCK_BYTES // own, _LEAST_BLOCK), BLOCK)


@dataclass(eq=False)
class _Record:
    """A block on its way; its large arrays are in the store."""

    index: int
    low: int
    starts: NDArray[np.bool_]
    ends: NDArray[np.bool_]
    given: Labels
    heads: NDArray[np.int64]  # the labels that are possible at its end
    finals: NDArray[np.int64]  # [S] the best last label of each sequence that ends here
    ranked_finals: NDArray[np.int64]  # [S, k] the k best last states, see `decode.rank`
    entry: Belief | None  # the forward vector before it, where such are kept
    sequences: Sequences
    states: dict[str, Any] = field(default_factory=dict)  # by strand: the state of its last position, once settled


class _Recording:
    """The forward pass over the blocks, with what is known of sequences when they end."""

    def __init__(self, scorer: Scorer, want: Want) -> None:
        self._scorer, self._want = scorer, want
        self._forward = Forward(scorer, watch=want.given)
        self._index = 0
        self._logs, self._logs_total = np.zeros(scorer.n_labels), np.zeros(2)
        self._entropy, self._entropy_total = np.zeros(scorer.width), np.zeros(2)
        self._before, self._given_total = NO_LABEL, np.zeros(2)
        self._ranked = np.zeros((scorer.n_labels, want.nbest))

    def step(self, low: int, block: Block, scored: Scored) -> tuple[_Record, Arrays]:
        """The next block."""
        want = self._want
        back, finals, best = self._forward.viterbi(low, scored)
        arrays: Arrays = {"back": back} if want.labels else {}
        ranks, ranked_finals, gaps = self._rank(scored, finals.size)
        arrays |= {"ranks": ranks} if want.nbest else {}
        accounts: dict[str, Floats] = {}
        entry = None
        if want.lattice:
            lattice = self._forward.lattice(low, block, scored).lattice
            accounts = self._accounts(lattice, scored.ends, back, finals)
            if want.posteriors or want.samples:
                entry = Belief(lattice.entry, lattice.wide)
                arrays |= {"alpha": lattice.alpha, "predicted": lattice.predicted}
                arrays |= {"edge": lattice.edge} if scored.own else {}
        record = _Record(
            index=self._index,
            low=low,
            starts=frozen(block.starts.copy(), np.bool_),
            ends=scored.ends,
            given=frozen(block.labels.copy(), np.int32),
            heads=self._forward.heads,
            finals=finals,
            ranked_finals=ranked_finals,
            entry=entry,
            sequences=Sequences(low + np.flatnonzero(scored.ends), best, gaps if want.nbest else None, **accounts),
        )
        self._index += 1
        return record, arrays

    def _rank(self, scored: Scored, count: int) -> tuple[NDArray[np.uint32], NDArray[np.int64], Floats]:
        """Back-pointers of all ranks; for each sequence that ends here, its k best last states and their gaps."""
        n, k = self._ranked.shape
        back = np.empty((scored.starts.size, n, k), np.uint32)
        finals, gaps = np.empty((count, k), np.int64), np.empty((count, k))
        if k:
            decode.rank(*scored[:4], self._ranked, back, finals, gaps)
        return back, finals, gaps

    def _accounts(
        self, lattice: messages.Lattice, ends: NDArray[np.bool_], back: NDArray[Any], finals: NDArray[np.int64]
    ) -> dict[str, Floats]:
        """Probability of the best labelling, that of the given labels and entropy of the sequences that end here."""
        found: dict[str, Floats] = {}
        if self._want.probability:
            best = found["log_probability"] = np.empty(finals.size)
            decode.best_probability(lattice, ends, back, finals, self._logs, self._logs_total, best)
        if self._want.given:
            given = found["given"] = np.empty(finals.size)
            decode.given_probability(lattice, ends, self._before, self._given_total, given)
            self._before = int(lattice.labels[-1])
        if self._want.entropy:
            entropy = found["entropy"] = np.empty(finals.size)
            log_edge = self._scorer.log_edge if lattice.edge is self._scorer.edge else np.empty(0)
            decode.entropy(lattice, ends, log_edge, self._entropy, self._entropy_total, entropy)
        return found


class Settled(NamedTuple):
    """The state of a block's last position is known."""

    block: int
    state: Any


class _Strand(Protocol):
    """One kind of result: follows the blocks forward, learns the state at the end of one, leads it back."""

    name: str

    def advance(self, record: _Record, arrays: Arrays) -> Settled | None:
        """Look at the next block; the newest block whose last state is now known, if there is a new one."""

    def back(self, record: _Record, arrays: Arrays, state: Any) -> Any:
        """The state at the end of the block before, from that at the end of this one."""

    def finish(self, record: _Record, arrays: Arrays, state: Any) -> dict[str, Any]:
        """The results of a block; asked once for each, in order."""


def _strands(scorer: Scorer, want: Want, tolerance: float) -> list[_Strand]:
    strands: list[_Strand] = []
    if want.labels:
        strands.append(_Best(scorer.n_labels))
    if want.posteriors or want.samples:
        strands.append(_Marginals(scorer, want, tolerance))
    if want.nbest:
        strands.append(_Ranked(want.nbest))
    return strands


class _Best:
    """The best labelling. State: a label."""

    name = "best"

    def __init__(self, n_labels: int) -> None:
        self._target: int | None = None  # the block whose last label is sought
        self._reached = np.arange(n_labels)  # that label, for each label at the head

    def advance(self, record: _Record, arrays: Arrays) -> Settled | None:
        settled = None
        if record.ends[-1]:
            self._target = None
            return Settled(record.index, int(record.finals[-1]))
        if self._target is not None:
            before = record.heads.copy()
            decode.coalesce(arrays["back"], before)
            reached = self._reached[before]
            self._reached[record.heads] = reached
            if (reached == reached[0]).all():
                settled, self._target = Settled(self._target, int(reached[0])), None
        if self._target is None:
            self._target, self._reached = record.index, np.arange(self._reached.size)
        return settled

    def back(self, record: _Record, arrays: Arrays, state: Any) -> Any:
        before = np.array([state])
        decode.coalesce(arrays["back"], before)
        return int(before[0])

    def finish(self, record: _Record, arrays: Arrays, state: Any) -> dict[str, Any]:
        labels = np.empty(record.starts.size, np.int32)
        decode.trace(arrays["back"], state, labels)
        return {"labels": labels}


class _Marginals:
    """Posteriors and samples. State: a posterior."""

    name = "posteriors"

    def __init__(self, scorer: Scorer, want: Want, tolerance: float) -> None:
        self._scorer, self._want, self._tolerance = scorer, want, tolerance
        self._target: int | None = None  # the block whose last posterior is sought
        self._horizon = Horizon(scorer.width)
        self._drawn = np.zeros((1, want.samples), np.int32)
        self._random = np.random.default_rng(want.seed)

    def advance(self, record: _Record, arrays: Arrays) -> Settled | None:
        settled = None
        lattice = self._lattice(record, arrays)
        if record.ends[-1]:
            self._target = None
            return Settled(record.index, Belief(lattice.alpha[-1], lattice.wide).posterior())
        if self._target is not None:
            h = self._horizon
            certified, _ = look_ahead(lattice, self._tolerance, h.ignore, h.q, h.scratch, h.gamma)
            if certified:
                settled, self._target = Settled(self._target, h.gamma), None
        if self._target is None:
            self._target, self._horizon = record.index, Horizon(self._scorer.width)
        return settled

    def back(self, record: _Record, arrays: Arrays, state: Any) -> Any:
        gamma, _ = self._backward(self._lattice(record, arrays), state)
        return gamma / gamma.sum()

    def finish(self, record: _Record, arrays: Arrays, state: Any) -> dict[str, Any]:
        lattice = self._lattice(record, arrays)
        _, posteriors = self._backward(lattice, state)
        found: dict[str, Any] = {}
        if self._want.posteriors:
            found["posteriors"] = posteriors[:, : self._scorer.n_labels]
        if self._want.samples:
            uniforms = self._random.random((record.starts.size, self._want.samples))  # consumed position by position
            labels = np.empty((1 + record.starts.size, self._want.samples), np.int32)
            labels[:1] = self._drawn
            decode.draw(lattice, posteriors, uniforms, labels)
            self._drawn = labels[-1:].copy()
            found["samples"] = labels[1:].T
        return found

    def _lattice(self, record: _Record, arrays: Arrays) -> messages.Lattice:
        """As it was after the forward pass."""
        assert record.entry is not None, "kept where forward vectors are"
        shared = self._scorer.scores if record.entry.wide else self._scorer.edge
        edge = arrays.get("edge", shared)
        return lattice_of(record.starts, record.given, arrays["alpha"], arrays["predicted"], edge, record.entry)

    def _backward(self, lattice: messages.Lattice, gamma: Floats) -> tuple[Floats, Floats]:
        """The posterior of the position before the block, and all those in it."""
        gamma, out = gamma.copy(), np.empty((lattice.starts.size, self._scorer.width))
        fast = lattice.edge is self._scorer.edge
        decode.posteriors(lattice, self._scorer.edge_t if fast else np.empty((0, 0)), gamma, out)
        return gamma, out


class _Ranked:
    """The k best labellings of each sequence. State: a label and a rank for each of them, see `decode.rank`."""

    name = "ranked"

    def __init__(self, k: int) -> None:
        self._unknown = np.full(k, -1, np.int64)

    def advance(self, record: _Record, arrays: Arrays) -> Settled | None:
        if record.ends[-1]:
            return Settled(record.index, record.ranked_finals[-1])
        if record.ends.any():
            return Settled(record.index - 1, self.back(record, arrays, self._unknown))
        return None

    def back(self, record: _Record, arrays: Arrays, state: Any) -> Any:
        return self._trace(record, arrays, state)[0]

    def finish(self, record: _Record, arrays: Arrays, state: Any) -> dict[str, Any]:
        return {"nbest": self._trace(record, arrays, state)[1]}

    def _trace(self, record: _Record, arrays: Arrays, state: Any) -> tuple[NDArray[np.int64], Labels]:
        states, labels = state.copy(), np.empty((state.size, record.starts.size), np.int32)
        decode.trace_ranked(record.ends, arrays["ranks"], record.ranked_finals, states, labels)
        return states, labels


class _Pending:
    """The blocks whose results are not final yet, oldest first."""

    def __init__(self, strands: list[_Strand], store: ArrayStore) -> None:
        self._strands, self._store = strands, store
        self._waiting: dict[int, tuple[_Record, StoredArrays]] = {}
        self._oldest = 0

    def add(self, record: _Record, arrays: Arrays) -> Iterator[Tagged]:
        """Take the next block; the results that are final now."""
        news = [strand.advance(record, arrays) for strand in self._strands]
        self._waiting[record.index] = record, self._store.put(arrays)
        for strand, settled in zip(self._strands, news, strict=True):
            if settled is not None:
                self._settle(strand, settled)
        while self._oldest in self._waiting and not any(self._lacks(self._oldest, one) for one in self._strands):
            yield self._finish(*self._waiting.pop(self._oldest))
            self._oldest += 1

    def _settle(self, strand: _Strand, settled: Settled) -> None:
        """Lead the state back, from the end of one block to that of the one before, as far as it was not known."""
        block, state = settled
        while self._lacks(block, strand):
            record, kept = self._waiting[block]
            record.states[strand.name] = state
            block -= 1
            if self._lacks(block, strand):
                state = strand.back(record, self._store.get(kept), state)

    def _lacks(self, block: int, strand: _Strand) -> bool:
        """Is the block waiting for its state?"""
        return block in self._waiting and strand.name not in self._waiting[block][0].states

    def _finish(self, record: _Record, kept: StoredArrays) -> Tagged:
        arrays, found = self._store.get(kept), dict[str, Any]()
        for strand in self._strands:
            found |= strand.finish(record, arrays, record.states[strand.name])
        self._store.drop(kept)
        return Tagged(record.low, record.starts, record.given, record.sequences, **found)


class Ranked(NamedTuple):
    """The best labellings of a sequence, best first; fewer than asked for where it has no more."""

    labels: Labels  # [k, length]
    scores: Floats  # [k]
    log_probabilities: Floats  # [k]


def tag(model: Model, source: Source, *, memory: int | None = None) -> Labels:
    """[T] the best labelling, in the model's numbers: `model.vocabulary.labels` has their names.

    Here, and in all that follows, a chain whose names are numbered otherwise than the model's is renumbered by name
    (`Model.aligned`); attributes that the model has never seen have no weight.
    """
    return np.concatenate([found.labels for found in _run(model, source, Want(), memory)])


def marginals(
    model: Model, source: Source, *, memory: int | None = None, tolerance: float = DEFAULT_TOLERANCE
) -> Floats:
    """[T, N] the posterior of every label at every position, labels in the order of the model."""
    want = Want(labels=False, posteriors=True)
    return np.concatenate([found.posteriors for found in _run(model, source, want, memory, tolerance)])


def sample(model: Model, source: Source, k: int = 1, seed: int = 0, *, memory: int | None = None) -> Labels:
    """[k, T] labellings drawn from their distribution."""
    want = Want(labels=False, samples=k, seed=seed)
    return np.concatenate([found.samples for found in _run(model, source, want, memory)], axis=1)


def nbest(model: Model, source: Source, k: int, *, memory: int | None = None) -> list[Ranked]:
    """The k best labellings of each sequence."""
    found = list(_run(model, source, Want(labels=False, nbest=k, probability=True), memory))
    labels = np.concatenate([stretch.nbest for stretch in found], axis=1)
    ends, score, log_probability, gaps = (
        np.concatenate([getattr(stretch.sequences, name) for stretch in found])
        for name in ("ends", "score", "log_probability", "gaps")
    )
    results = []
    for s, part in enumerate(np.split(labels, ends[:-1] + 1, axis=1)):
        own = gaps[s, gaps[s] > -np.inf]
        results.append(Ranked(part[: own.size], score[s] + own, log_probability[s] + own))
    return results


def entropies(model: Model, source: Source) -> Floats:
    """[S] the entropy of each sequence's labelling, in nats."""
    found = _run(model, source, Want(labels=False, entropy=True))
    return np.concatenate([stretch.sequences.entropy for stretch in found])


def log_probabilities(model: Model, source: Source, labels: ArrayLike | None = None) -> Floats:
    """[S] the log probability of each sequence's labels, the source's own unless given; -inf where they are forbidden,
    not a number where one is unknown, or is none of the model's. Labels that are given are the model's numbers."""
    found = _run(model, source, Want(labels=False, given=True), labels=labels)
    return np.concatenate([stretch.sequences.given for stretch in found])


def _run(
    model: Model,
    source: Source,
    want: Want,
    memory: int | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
    labels: ArrayLike | None = None,
) -> Iterator[Tagged]:
    """A source in the place of blocks, and other labels in that of its own."""
    blocks = blocks_of(model.aligned(source))
    if labels is not None:
        if np.asarray(labels).dtype.kind not in "iu":
            raise BadChain("the labels are not whole numbers; give one for each position, as the model numbers them.")
        own = checked_labels(labels, source.positions, model.layout.n_labels)
        parts = (own[low:high] for low, high in cut(0, source.positions, _AT_ONCE * BLOCK))
        blocks = (block._replace(labels=part) for block, part in zip(blocks, parts, strict=True))
    return Tagger(model, memory=memory, tolerance=tolerance).run(blocks, want)
