"""Exact training in pieces: the gradient of one long sequence, two pieces of it at a time.

The derivative of log Z by an emission is its posterior. Let piece k end at position b, with forward vector α_b. For
each label f that the future may pin L positions after b,

    Q(i | f) = Pr(y_b = i | y_{b+L} = f, x up to b+L)

and where all Q(· | f) agree to within a tolerance, γ_b is known, whatever comes later (`certificate.hpp` has the
proof). Then log Z of piece k with

    start'(j) = log Σ_i α_{k-1}(i) exp(transition(i, j))        end'(j) = log γ_b(j) - log α_b(j)

has the posteriors of the whole sequence, and so the right gradient. Everything is computed in float64, with the
operator for whole sequences: Q are N short sequences with the last label pinned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import torch
from chainfold.errors import ChainfoldError
from chainfold.torch.arguments import Arguments, check_arguments, check_tags
from chainfold.torch.ops import crf, crf_backward
from torch import Tensor

Scores = Callable[[], tuple[Tensor, Tensor, Tensor]]
"""Gives transitions [N, N], start [N] and end [N] scores, with their graph."""

LOOKAHEAD = 64
"""Positions that a certificate looks at first."""

_NEGLIGIBLE = 1e-200  # a posterior that is this small for any future counts as zero; logarithms know smaller ones


class StreamPart(NamedTuple):
    """A piece that has been back-propagated.

    >>> StreamPart(positions=50, log_likelihood=-3.5, lookahead=64)
    StreamPart(positions=50, log_likelihood=-3.5, lookahead=64)
    """

    positions: int
    log_likelihood: float  # what the piece adds to the log likelihood of the sequence
    lookahead: int  # positions after the piece that were needed; 0 for the last one


class _Piece(NamedTuple):
    """A piece that waits for its future."""

    emissions: Tensor  # [C, N] with their graph
    numbers: Tensor  # [C, N] the same in float64, without it
    tags: Tensor  # [C] as int64
    before: Tensor | None  # [N] log α of the position before it; None for the first piece
    tag_before: Tensor | None
    after: Tensor  # [N] log α of its last position
    log_z: float  # its share


def stream_gradient(
    scores: Scores, pieces: Iterable[tuple[Tensor, Tensor]], scale: float, tolerance: float
) -> Iterator[StreamPart]:
    """Back-propagate pieces as soon as their posteriors are final; see `CRF.stream`."""
    waiting: list[_Piece] = []
    for emissions, tags in pieces:
        if emissions.shape[0]:
            waiting.append(_enter(scores, emissions, tags, waiting[-1] if waiting else None))
        while len(waiting) > 1:
            settled = _settle(scores, waiting, tolerance)
            if settled is None:
                break
            gamma, lookahead = settled
            yield _back(scores, waiting[0], gamma - waiting[0].after, scale, lookahead)
            del waiting[0]
    while len(waiting) > 1:
        later = torch.cat([piece.numbers for piece in waiting[1:]])
        end = _doubles(scores)[2].detach()
        gamma = _boundary(scores, waiting[0].after, later, end[None])[0].log()
        yield _back(scores, waiting[0], gamma - waiting[0].after, scale, later.shape[0])
        del waiting[0]
    if waiting:
        yield _back(scores, waiting[0], None, scale, 0)


def _doubles(scores: Scores) -> tuple[Tensor, Tensor, Tensor]:
    transitions, start, end = scores()
    return transitions.double(), start.double(), end.double()


def _start(scores: Scores, before: Tensor | None) -> Tensor:
    """start' after a position with forward vector exp(before)."""
    transitions, start, _ = _doubles(scores)
    return start if before is None else torch.logsumexp(before[:, None] + transitions, 0)


def _inputs(scores: Scores, emissions: Tensor, start: Tensor, end: Tensor) -> Arguments:
    """[B, T, N] emissions in float64 as whole sequences."""
    return Arguments(emissions, _doubles(scores)[0], start, end, None, None, None, None, True)


def _enter(scores: Scores, emissions: Tensor, tags: Tensor, last: _Piece | None) -> _Piece:
    """A new piece after its forward pass."""
    whole = torch.zeros(2, dtype=torch.int32, device=emissions.device)
    inputs = Arguments(emissions, *scores(), None, None, whole, None, True)
    check_arguments(inputs)
    check_tags(inputs, tags)
    if bool((tags < 0).any()) or bool((tags >= inputs.n_labels).any()):
        raise ChainfoldError(f"a tag of the stream is not from 0 to {inputs.n_labels - 1}; all tags must be known.")
    with torch.no_grad():
        numbers = emissions.detach().double()
        before = None if last is None else last.after
        free = _inputs(scores, numbers[None], _start(scores, before), torch.zeros_like(numbers[0]))
        log_z, vectors, known = crf(*free, None)
        if not bool(torch.isfinite(log_z).all()):
            raise ChainfoldError("a piece of the stream has scores that are not numbers, or no possible labelling.")
        after = crf_backward(torch.ones_like(log_z), vectors, known, *free, None)[0][0, -1]
        rare, after = (after < _NEGLIGIBLE).nonzero()[:, 0], after.log()
        for label in rare:  # the future may make up for it where a chain does not forget: it is pinned, in logarithms
            pinned = torch.full_like(free.end, -torch.inf).index_fill_(0, label, 0.0)
            after[label] = (crf(*free._replace(end=pinned), None)[0] - log_z)[0]
    tag_before = None if last is None else last.tags[-1]
    return _Piece(emissions, numbers, tags.long(), before, tag_before, after, float(log_z))


@torch.no_grad()
def _settle(scores: Scores, waiting: list[_Piece], tolerance: float) -> tuple[Tensor, int] | None:
    """log γ of the first piece's last position, and the lookahead needed; None where the future may still change it."""
    size, available = LOOKAHEAD, sum(piece.tags.shape[0] for piece in waiting[1:])
    pins = torch.full(
        (waiting[0].after.shape[0],) * 2, -torch.inf, dtype=torch.float64, device=waiting[0].numbers.device
    )
    pins.fill_diagonal_(0.0)
    while True:
        size = min(size, available)
        later = torch.cat([piece.numbers for piece in waiting[1:]])[:size]
        q = _boundary(scores, waiting[0].after, later, pins)
        q = q[~q.isnan().any(1)]  # labels that cannot be at the end
        low, high = q.amin(0), q.amax(0)
        if bool(((high < _NEGLIGIBLE) | (high - low <= tolerance * low)).all()):
            return q.mean(0).log(), size
        if size == available:
            return None
        size *= 2


@torch.no_grad()
def _boundary(scores: Scores, after: Tensor, later: Tensor, ends: Tensor) -> Tensor:
    """[F, N] the posterior of the position before `later`, for each of the end scores [F, N]."""
    emissions = torch.cat([torch.zeros_like(later[:1]), later]).expand(ends.shape[0], -1, -1)
    # `end` is one vector for all sequences, so each pinned label is part of the last emissions
    emissions = emissions.clone()
    emissions[:, -1] += ends
    inputs = _inputs(scores, emissions, after, torch.zeros_like(after))
    log_z, vectors, known = crf(*inputs, None)
    return crf_backward(torch.ones_like(log_z), vectors, known, *inputs, None)[0][:, 0]


def _back(scores: Scores, piece: _Piece, end: Tensor | None, scale: float, lookahead: int) -> StreamPart:
    """Back-propagate a piece whose future is known; end: end', None for the last piece."""
    with torch.enable_grad():
        numbers, tags = piece.numbers.requires_grad_(), piece.tags
        transitions, start, own_end = _doubles(scores)
        score = numbers.gather(1, tags[:, None]).sum() + transitions[tags[:-1], tags[1:]].sum()
        score = score + (start[tags[0]] if piece.tag_before is None else transitions[piece.tag_before, tags[0]])
        if end is None:
            score, end = score + own_end[tags[-1]], own_end
        else:
            end = end.nan_to_num(nan=-torch.inf, neginf=-torch.inf)
        inputs = _inputs(scores, numbers[None], _start(scores, piece.before), end)
        log_z = crf(*inputs, None)[0].sum()
        (scale * (score - log_z)).backward()
    assert numbers.grad is not None
    if piece.emissions.requires_grad:
        piece.emissions.backward(numbers.grad.to(piece.emissions.dtype))
    share = float(log_z.detach()) if lookahead == 0 else piece.log_z
    piece.numbers.requires_grad_(False)
    return StreamPart(tags.shape[0], float(score.detach()) - share, lookahead)
