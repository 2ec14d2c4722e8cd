"""Labels, posteriors, samples, the k best, entropies and probabilities of a whole chain, as arrays.

In all of them a chain whose names are numbered otherwise than the model's is renumbered by name (`Model.aligned`);
attributes that the model does not have carry no weight. `memory` is in bytes: pending results beyond it go to disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from chainfold.chain.block import Block, Source, checked_labels
from chainfold.engines.settings import DEFAULT_TOLERANCE
from chainfold.errors import BadChain
from chainfold.inference.decoder import Labels
from chainfold.inference.result import Tagged
from chainfold.inference.tagger import Tagger, Want, blocks_of
from chainfold.model.layout import Floats
from chainfold.model.model import Model


class Ranked(NamedTuple):
    """The best labellings of a sequence, best first; fewer than asked for where it has no more. See `nbest`.

    >>> import chainfold as cf
    >>> chain = cf.SyntheticChain(10, 3, 10, 2)
    >>> model = cf.Model(cf.Layout.full(3, 10), chain.true_weights())
    >>> next(iter(cf.nbest(model, chain, 2))).labels.shape
    (2, 10)
    """

    labels: Labels  # [k, length]
    scores: Floats  # [k]
    log_probabilities: Floats  # [k]


def tag(model: Model, source: Source, *, memory: int | None = None) -> Labels:
    """The best labelling of a chain, by Viterbi.

    Returns [T] label numbers of the model; `model.vocabulary.labels` has their names.

    >>> import chainfold as cf
    >>> chain = cf.SyntheticChain(1000, 3, 10, 2)
    >>> model = cf.Model(cf.Layout.full(3, 10), chain.true_weights())
    >>> cf.tag(model, chain).shape
    (1000,)
    """
    return np.concatenate([tagged.labels for tagged in _run(model, source, Want(), memory)])


def marginals(
    model: Model, source: Source, *, memory: int | None = None, tolerance: float = DEFAULT_TOLERANCE
) -> Floats:
    """The posterior of every label at every position.

    tolerance   relative error that a certificate may leave

    Returns [T, N], labels in the order of the model.

    >>> import chainfold as cf
    >>> chain = cf.SyntheticChain(1000, 3, 10, 2)
    >>> model = cf.Model(cf.Layout.full(3, 10), chain.true_weights())
    >>> bool(abs(cf.marginals(model, chain).sum(axis=1) - 1.0).max() < 1e-9)
    True
    """
    want = Want(labels=False, posteriors=True)
    return np.concatenate([tagged.posteriors for tagged in _run(model, source, want, memory, tolerance)])


def sample(model: Model, source: Source, k: int = 1, seed: int = 0, *, memory: int | None = None) -> Labels:
    """k labellings drawn from their distribution; the same for the same seed.

    Returns [k, T] label numbers.

    >>> import chainfold as cf
    >>> chain = cf.SyntheticChain(1000, 3, 10, 2)
    >>> model = cf.Model(cf.Layout.full(3, 10), chain.true_weights())
    >>> cf.sample(model, chain, k=2).shape
    (2, 1000)
    """
    want = Want(labels=False, samples=k, seed=seed)
    return np.concatenate([tagged.samples for tagged in _run(model, source, want, memory)], axis=1)


def nbest(model: Model, source: Source, k: int, *, memory: int | None = None) -> list[Ranked]:
    """The k best labellings of each sequence.

    Returns a `Ranked` for each sequence: labels [k, length], scores [k] and log probabilities [k], best first.

    >>> import chainfold as cf
    >>> chain = cf.SyntheticChain(1000, 3, 10, 2)
    >>> model = cf.Model(cf.Layout.full(3, 10), chain.true_weights())
    >>> cf.nbest(model, chain, k=3)[0].labels.shape
    (3, 1000)
    """
    results = list(_run(model, source, Want(labels=False, nbest=k, probability=True), memory))
    labels = np.concatenate([tagged.nbest for tagged in results], axis=1)
    ends, score, log_probability, gaps = (
        np.concatenate([getattr(tagged.sequences, name) for tagged in results])
        for name in ("ends", "score", "log_probability", "gaps")
    )
    ranked = []
    for s, part in enumerate(np.split(labels, ends[:-1] + 1, axis=1)):
        own = gaps[s, gaps[s] > -np.inf]
        ranked.append(Ranked(part[: own.size], score[s] + own, log_probability[s] + own))
    return ranked


def entropies(model: Model, source: Source) -> Floats:
    """The entropy of each sequence's labelling, in nats.

    Returns [S].

    >>> import chainfold as cf
    >>> chain = cf.SyntheticChain(1000, 3, 10, 2)
    >>> cf.entropies(cf.Model.random(cf.Layout.full(3, 10)), chain).shape
    (1,)
    """
    results = _run(model, source, Want(labels=False, entropy=True))
    return np.concatenate([tagged.sequences.entropy for tagged in results])


def log_probabilities(model: Model, source: Source, labels: ArrayLike | None = None) -> Floats:
    """The log probability of each sequence's labels.

    labels   [T] label numbers of the model; the source's own labels unless given

    Returns [S]; -inf where labels are forbidden, not a number where one is unknown or is none of the model's.

    >>> import chainfold as cf
    >>> chain = cf.SyntheticChain(1000, 3, 10, 2)
    >>> model = cf.Model.random(cf.Layout.full(3, 10))
    >>> bool(cf.log_probabilities(model, chain)[0] <= cf.log_probabilities(model, chain, cf.tag(model, chain))[0])
    True
    """
    results = _run(model, source, Want(labels=False, given=True), labels=labels)
    return np.concatenate([tagged.sequences.given for tagged in results])


def _run(
    model: Model,
    source: Source,
    want: Want,
    memory: int | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
    labels: ArrayLike | None = None,
) -> Iterator[Tagged]:
    """The results of a source; labels: take the place of its own."""
    blocks = blocks_of(model.aligned(source))
    if labels is not None:
        if np.asarray(labels).dtype.kind not in "iu":
            raise BadChain("the labels are not whole numbers; give one for each position, as the model numbers them.")
        blocks = _relabelled(blocks, checked_labels(labels, source.positions, model.layout.n_labels))
    return Tagger(model, memory=memory, tolerance=tolerance).run(blocks, want)


def _relabelled(blocks: Iterator[Block], labels: Labels) -> Iterator[Block]:
    """The blocks of a chain with other labels."""
    low = 0
    for block in blocks:
        high = low + block.labels.size
        yield block._replace(labels=labels[low:high])
        low = high
