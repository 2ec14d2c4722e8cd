"""Labels for a chain that comes block by block: Viterbi, posteriors, the k best, drawn labellings, entropy.

One forward pass. A block's results are final, and returned, as soon as the state of its last position is:

    best label     all labels that are still possible at the head lead back to the same one
    posterior      certified to within the tolerance, for any future (`engines.certificate`)
    k best         the sequence has ended

Until then its forward vectors and back-pointers are pending: in memory as far as allowed, in a nameless file beyond, so
that the answer is exact for every chain. Labels never depend on how the chain is cut into blocks; posteriors do, within
the tolerance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import NO_LABEL, Block, Source, check_block, frozen
from chainfold.chain.vocabulary import label_names
from chainfold.core import best_probability, coalesce, draw, entropy, given_probability, rank, trace, trace_ranked
from chainfold.core.faults import check_memory
from chainfold.core.slots import Lattice
from chainfold.engines.belief import Belief
from chainfold.engines.certificate import Certificate
from chainfold.engines.forward_pass import lattice_of
from chainfold.engines.potentials import Potentials
from chainfold.engines.ranges import Ranges
from chainfold.engines.settings import DEFAULT_TOLERANCE, Settings
from chainfold.errors import BadSetting
from chainfold.inference.decoder import SCORERS, Decoder, Labels, Scored, Scorer, posteriors_of
from chainfold.inference.result import SequenceResults, Tagged
from chainfold.inference.sentence import SentenceTagger
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
    """The results that a `Tagger` computes.

    labels        the best labelling
    posteriors    of every label at every position
    probability   log probability of the best labelling of each sequence
    given         log probability of the labels that the blocks come with
    entropy       of each sequence
    nbest         number of best labellings of each sequence
    samples       number of labellings drawn from their distribution
    seed          of the samples

    Raises `BadSetting` where a number is not whole or is negative.

    >>> import chainfold as cf
    >>> cf.Want(posteriors=True).labels
    True
    """

    labels: bool = True
    posteriors: bool = False
    probability: bool = False
    given: bool = False
    entropy: bool = False
    nbest: int = 0
    samples: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("nbest", "samples", "seed"):
            value = getattr(self, name)
            if not isinstance(value, (int, float, np.integer)) or not (value >= 0 and value == int(value)):
                raise BadSetting(name, getattr(self, name), "a whole number, at least 0")

    @property
    def lattice(self) -> bool:
        """Whether forward vectors are needed."""
        return self.posteriors or self.probability or self.given or self.entropy or self.samples > 0


class Tagger:
    """Labels chains with a model, block by block, in bounded memory.

    model       a `Model`
    memory      bytes of pending results before they go to disk
    tolerance   relative error of posteriors

    >>> import chainfold as cf
    >>> chain = cf.SyntheticChain(1000, 3, 10, 2)
    >>> tagger = cf.Tagger(cf.Model(cf.Layout.full(3, 10), chain.true_weights()))
    >>> sum(len(tagged) for tagged in tagger.run(chain, cf.Want(posteriors=True)))
    1000
    """

    def __init__(self, model: Model, *, memory: int | None = None, tolerance: float = DEFAULT_TOLERANCE) -> None:
        settings = Settings(memory=memory, tolerance=tolerance)
        self.model = model
        self.memory, self.tolerance = settings.memory or DEFAULT_MEMORY, settings.tolerance
        self._scorer = Scorer(model)
        self.names = label_names(model.vocabulary, model.layout.n_labels)

    @cached_property
    def sentences(self) -> SentenceTagger:
        """Labels one sequence of items at a time."""
        return SentenceTagger(self._scorer, self.model.vocabulary, BLOCK)

    def run(self, blocks: Source | Iterable[Block], want: Want | None = None) -> Iterator[Tagged]:
        """The results of a chain, a `Tagged` for each of the parts that cover it in order.

        blocks   a chain, or its blocks of any size. The numbers of a chain may differ from the model's
                 (`Model.aligned`); blocks must have the model's numbers.
        want     the best labelling, unless given
        """
        wanted = want or Want()
        self._check_room(wanted)
        if not isinstance(blocks, Iterable):
            blocks = blocks_of(self.model.aligned(blocks))
        return self._run(blocks, wanted)

    def _run(self, blocks: Iterable[Block], wanted: Want) -> Iterator[Tagged]:
        recording = _Recording(self._scorer, wanted)
        with ArrayStore(self.memory) as store:
            pending = _Pending(_strands(self._scorer.potentials, wanted, self.tolerance), store, self.names)
            for pieces in _pieces(blocks, self.model, wanted):
                for piece, scored in made_ahead(self._score, pieces, SCORERS):
                    yield from pending.add(*recording.step(piece.low, piece.block, scored))

    def _score(self, piece: _Piece) -> tuple[_Piece, Scored]:
        return piece, self._scorer.score(piece.low, piece.block, piece.ended)

    def _check_room(self, want: Want) -> None:
        """Raise if the labellings would need more memory than is allowed even with the smallest blocks."""
        for name, each in (("nbest", 4 * self.model.layout.n_labels), ("samples", 4)):
            most = max(self.memory, _BLOCK_BYTES) // (_LEAST_BLOCK * each)
            if getattr(want, name) > most:
                allowed = f"at most {most:,} with {self.memory / 1e6:,.0f} MB of memory"
                raise BadSetting(name, getattr(want, name), allowed)


def blocks_of(source: Source, size: int = _AT_ONCE * BLOCK) -> Iterator[Block]:
    """A source in blocks."""
    return (source.block(low, high) for low, high in Ranges(0, source.positions, size))


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
        for begin, end in Ranges(0, high - low, most):
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
    ranked_finals: NDArray[np.int64]  # [S, k] the k best last states, see `rank` in `viterbi.hpp`
    entry: Belief | None  # the forward vector before it, where such are kept
    sequences: SequenceResults
    states: dict[str, Any] = field(default_factory=dict)  # by strand: the state of its last position, once settled


class _Recording:
    """The forward pass over the blocks, with what is known of sequences when they end."""

    def __init__(self, scorer: Scorer, want: Want) -> None:
        p = scorer.potentials
        self._potentials, self._want = p, want
        self._decoder = Decoder(scorer, watch=want.given)
        self._index = 0
        self._logs, self._logs_total = np.zeros(p.n_labels), np.zeros(2)
        self._entropy, self._entropy_total = np.zeros(p.width), np.zeros(2)
        self._before, self._given_total = NO_LABEL, np.zeros(2)
        self._ranked = np.zeros((p.n_labels, want.nbest))

    def step(self, low: int, block: Block, scored: Scored) -> tuple[_Record, Arrays]:
        """The next block."""
        want = self._want
        back, finals, best = self._decoder.viterbi(low, scored)
        arrays: Arrays = {"back": back} if want.labels else {}
        ranks, ranked_finals, gaps = self._rank(scored, finals.size)
        arrays |= {"ranks": ranks} if want.nbest else {}
        accounts: dict[str, Floats] = {}
        entry = None
        if want.lattice:
            lattice, _ = self._decoder.forward(low, block, scored)
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
            heads=self._decoder.heads,
            finals=finals,
            ranked_finals=ranked_finals,
            entry=entry,
            sequences=SequenceResults(
                low + np.flatnonzero(scored.ends), best, gaps if want.nbest else None, **accounts
            ),
        )
        self._index += 1
        return record, arrays

    def _rank(self, scored: Scored, count: int) -> tuple[NDArray[np.uint32], NDArray[np.int64], Floats]:
        """Back-pointers of all ranks; for each sequence that ends here, its k best last states and their gaps."""
        n, k = self._ranked.shape
        back = np.empty((scored.starts.size, n, k), np.uint32)
        finals, gaps = np.empty((count, k), np.int64), np.empty((count, k))
        if k:
            check_memory(rank(*scored[:4], self._ranked, back, finals, gaps))
        return back, finals, gaps

    def _accounts(
        self, lattice: Lattice, ends: NDArray[np.bool_], back: NDArray[Any], finals: NDArray[np.int64]
    ) -> dict[str, Floats]:
        """Probability of the best labelling, that of the given labels and entropy of the sequences that end here."""
        accounts: dict[str, Floats] = {}
        if self._want.probability:
            best = accounts["log_probability"] = np.empty(finals.size)
            check_memory(best_probability(lattice, ends, back, finals, self._logs, self._logs_total, best))
        if self._want.given:
            given = accounts["given"] = np.empty(finals.size)
            given_probability(lattice, ends, self._before, self._given_total, given)
            self._before = int(lattice.labels[-1])
        if self._want.entropy:
            entropies = accounts["entropy"] = np.empty(finals.size)
            log_edge = self._potentials.log_edge if lattice.edge is self._potentials.edge else np.empty(0)
            check_memory(entropy(lattice, ends, log_edge, self._entropy, self._entropy_total, entropies))
        return accounts


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


def _strands(potentials: Potentials, want: Want, tolerance: float) -> list[_Strand]:
    strands: list[_Strand] = []
    if want.labels:
        strands.append(_Best(potentials.n_labels))
    if want.posteriors or want.samples:
        strands.append(_Marginals(potentials, want, tolerance))
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
            coalesce(arrays["back"], before)
            reached = self._reached[before]
            self._reached[record.heads] = reached
            if (reached == reached[0]).all():
                settled, self._target = Settled(self._target, int(reached[0])), None
        if self._target is None:
            self._target, self._reached = record.index, np.arange(self._reached.size)
        return settled

    def back(self, record: _Record, arrays: Arrays, state: Any) -> Any:
        before = np.array([state])
        coalesce(arrays["back"], before)
        return int(before[0])

    def finish(self, record: _Record, arrays: Arrays, state: Any) -> dict[str, Any]:
        labels = np.empty(record.starts.size, np.int32)
        trace(arrays["back"], state, labels)
        return {"labels": labels}


class _Marginals:
    """Posteriors and samples. State: a posterior."""

    name = "posteriors"

    def __init__(self, potentials: Potentials, want: Want, tolerance: float) -> None:
        self._potentials, self._want, self._tolerance = potentials, want, tolerance
        self._target: int | None = None  # the block whose last posterior is sought
        self._certificate = Certificate(potentials.width, tolerance)
        self._drawn = np.zeros((1, want.samples), np.int32)
        self._random = np.random.default_rng(want.seed)

    def advance(self, record: _Record, arrays: Arrays) -> Settled | None:
        settled = None
        lattice = self._lattice(record, arrays)
        if record.ends[-1]:
            self._target = None
            return Settled(record.index, Belief(lattice.alpha[-1], lattice.wide).posterior())
        if self._target is not None and self._certificate.extend(lattice):
            settled, self._target = Settled(self._target, self._certificate.gamma), None
        if self._target is None:
            self._target, self._certificate = record.index, Certificate(self._potentials.width, self._tolerance)
        return settled

    def back(self, record: _Record, arrays: Arrays, state: Any) -> Any:
        gamma, _ = posteriors_of(self._potentials, self._lattice(record, arrays), state)
        return gamma / gamma.sum()

    def finish(self, record: _Record, arrays: Arrays, state: Any) -> dict[str, Any]:
        lattice = self._lattice(record, arrays)
        _, gammas = posteriors_of(self._potentials, lattice, state)
        results: dict[str, Any] = {}
        if self._want.posteriors:
            results["posteriors"] = gammas[:, : self._potentials.n_labels]
        if self._want.samples:
            uniforms = self._random.random((record.starts.size, self._want.samples))  # consumed position by position
            labels = np.empty((1 + record.starts.size, self._want.samples), np.int32)
            labels[:1] = self._drawn
            check_memory(draw(lattice, gammas, uniforms, labels))
            self._drawn = labels[-1:].copy()
            results["samples"] = labels[1:].T
        return results

    def _lattice(self, record: _Record, arrays: Arrays) -> Lattice:
        """The lattice of a block after the forward pass."""
        assert record.entry is not None, "kept where forward vectors are"
        shared = self._potentials.scores if record.entry.wide else self._potentials.edge
        edge = arrays.get("edge", shared)
        return lattice_of(record.starts, record.given, arrays["alpha"], arrays["predicted"], edge, record.entry)


class _Ranked:
    """The k best labellings of each sequence. State: a label and a rank for each, see `rank` in `viterbi.hpp`."""

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
        trace_ranked(record.ends, arrays["ranks"], record.ranked_finals, states, labels)
        return states, labels


class _Pending:
    """The blocks whose results are not final yet, oldest first."""

    def __init__(self, strands: list[_Strand], store: ArrayStore, names: Sequence[str]) -> None:
        self._strands, self._store, self.names = strands, store, names
        self._waiting: dict[int, tuple[_Record, StoredArrays]] = {}
        self._oldest = 0

    def add(self, record: _Record, arrays: Arrays) -> Iterator[Tagged]:
        """Take the next block; the results that are final now."""
        news = [strand.advance(record, arrays) for strand in self._strands]
        self._waiting[record.index] = record, self._store.put(arrays)
        for strand, settled in zip(self._strands, news, strict=True):
            if settled is not None:
                self._settle(strand, settled)
        while self._oldest in self._waiting and not any(self._lacks(self._oldest, strand) for strand in self._strands):
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
        """Whether the block waits for its state."""
        return block in self._waiting and strand.name not in self._waiting[block][0].states

    def _finish(self, record: _Record, kept: StoredArrays) -> Tagged:
        arrays = self._store.get(kept)
        results: dict[str, Any] = {"labels": np.empty(0, np.int32)}
        for strand in self._strands:
            results |= strand.finish(record, arrays, record.states[strand.name])
        self._store.drop(kept)
        about = record.low, record.starts, record.given
        return Tagged(*about, names=self.names, sequences=record.sequences, **results)
