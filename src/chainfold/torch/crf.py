"""The CRF layer: a module with pytorch-crf's interface, exact at any length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypedDict, Unpack

import torch
from chainfold.errors import BadSetting, ChainfoldError
from chainfold.torch.arguments import Arguments, check_tensors
from chainfold.torch.ops import best, crf, crf_backward
from chainfold.torch.paths import Paths, best_paths, drawn_paths, path_entropies, ranked_paths
from chainfold.torch.piecewise import StreamPart, stream_gradient
from torch import Tensor, nn

if TYPE_CHECKING:
    from chainfold.model.constraints import Constraints


class Options(TypedDict, total=False):
    """Options of every method besides emissions and mask."""

    edges: Tensor | None
    cu_seqlens: Tensor | None
    allowed: Tensor | None


class CRF(nn.Module):  # type: ignore[misc]
    """A conditional random field on the emissions of a neural network.

    num_tags      number of labels N
    batch_first   emissions are [B, T, N] and not [T, B, N]
    constraints   which labels may follow, start and end: a `chainfold.Constraints`, for instance of the scheme BIO
    forbid        further transitions (i, j) that are forbidden, by label number
    forbid_start, forbid_end   labels that may not start or end a sequence

    Parameters: `start_transitions` [N], `end_transitions` [N] and `transitions` [N, N], from label i to label j. Their
    names are pytorch-crf's, and so a `state_dict` of either loads in the other. Constraints are not part of it.

    All methods take `mask`, [B, T] or [T, B], true where there is a position. It may have any form: holes, padding on
    either side, sequences without positions. All methods take the options

    allowed      [..., N] labels that a position may have; others have probability zero
    edges        [..., N, N] scores of the transitions into each position, added to those of the module; what they are
                 for the first position of a sequence does not matter
    cu_seqlens   [S + 1] where each sequence of packed emissions [P, N] begins and ends, instead of a mask

    Raises `ChainfoldError`, a ValueError, where arguments do not fit together.

    >>> import torch
    >>> model = CRF(5, batch_first=True)
    >>> emissions, tags = torch.randn(2, 7, 5, requires_grad=True), torch.randint(5, (2, 7))
    >>> (-model(emissions, tags)).backward()
    >>> emissions.grad.shape
    torch.Size([2, 7, 5])
    >>> [len(labels) for labels in model.decode(emissions)]
    [7, 7]
    """

    def __init__(
        self,
        num_tags: int,
        batch_first: bool = False,
        *,
        constraints: Constraints | None = None,
        forbid: Sequence[tuple[int, int]] = (),
        forbid_start: Sequence[int] = (),
        forbid_end: Sequence[int] = (),
    ) -> None:
        if not hasattr(num_tags, "__index__") or num_tags <= 0:
            raise ChainfoldError(f"invalid number of tags: {num_tags}; num_tags must be a whole number from 1 up.")
        super().__init__()
        num_tags = int(num_tags)
        self.num_tags, self.batch_first = num_tags, batch_first
        self.start_transitions = nn.Parameter(torch.empty(num_tags))
        self.end_transitions = nn.Parameter(torch.empty(num_tags))
        self.transitions = nn.Parameter(torch.empty(num_tags, num_tags))
        self._restrict(constraints, forbid, forbid_start, forbid_end)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters from the uniform distribution on [-0.1, 0.1]."""
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.1, 0.1)

    def extra_repr(self) -> str:
        return f"num_tags={self.num_tags}"

    def forward(
        self,
        emissions: Tensor,
        tags: Tensor,
        mask: Tensor | None = None,
        reduction: str = "sum",
        **options: Unpack[Options],
    ) -> Tensor:
        """The log likelihood of the tags.

        tags        [...] label numbers; -100 where the tag is unknown: its labels are summed over
        reduction   "sum" or "mean" over sequences, "token_mean" for the sum by the number of positions, or "none"
        options     `allowed`, `edges` and `cu_seqlens`; tags that are known must be allowed

        Returns a number, or [S] for reduction="none": float64 for emissions in float64, else float32. A sequence
        without positions has 0. A forbidden tag gives -inf, a NaN among the emissions NaN.
        """
        check_tensors(tags=tags)
        if tags is None:
            raise ChainfoldError("tags are None; give label numbers, or call `log_partition`, which needs none.")
        values, *_ = crf(*self._inputs(emissions, mask, **options), tags)
        return _reduced(values, reduction, tags, mask)

    def log_partition(self, emissions: Tensor, mask: Tensor | None = None, **options: Unpack[Options]) -> Tensor:
        """[S] log Z of each sequence, over the labels in `allowed` where it is given; it can be differentiated."""
        values, *_ = crf(*self._inputs(emissions, mask, **options), None)
        return values

    @torch.no_grad()
    def marginals(self, emissions: Tensor, mask: Tensor | None = None, **options: Unpack[Options]) -> Tensor:
        """[..., N] the posterior of every label at every position, 0 where the mask is; without a graph."""
        inputs = self._inputs(emissions, mask, **options)
        inputs = inputs._replace(emissions=emissions.to(inputs.result_type))  # the type of the gradient
        values, vectors, known = crf(*inputs, None)
        return crf_backward(torch.ones_like(values), vectors, known, *inputs, None)[0]

    def decode(self, emissions: Tensor, mask: Tensor | None = None, **options: Unpack[Options]) -> list[list[int]]:
        """The best labels of each sequence, by Viterbi; of equal ones those of the smaller numbers.

        Raises `ChainfoldError` where a sequence has no possible labels or a score is not a number.
        """
        paths: Paths = self.best(emissions, mask, **options)
        return paths.labels

    @torch.no_grad()
    def labels(self, emissions: Tensor, mask: Tensor | None = None, **options: Unpack[Options]) -> Tensor:
        """The labels of `decode` in the shape of tags, -1 where the mask is; this can be compiled and exported."""
        return best(*self._inputs(emissions, mask, **options))[0]

    @torch.no_grad()
    def best(self, emissions: Tensor, mask: Tensor | None = None, **options: Unpack[Options]) -> Paths:
        """The best labels of each sequence, and their scores; `score - log_partition` is their log probability."""
        return best_paths(self._inputs(emissions, mask, **options))

    @torch.no_grad()
    def nbest(self, emissions: Tensor, k: int, mask: Tensor | None = None, **options: Unpack[Options]) -> list[Paths]:
        """The k best labellings of each sequence and their scores, best first; fewer where it has no more."""
        return ranked_paths(self._inputs(emissions, mask, **options), _count(k))

    @torch.no_grad()
    def sample(
        self,
        emissions: Tensor,
        k: int = 1,
        mask: Tensor | None = None,
        *,
        generator: torch.Generator | None = None,
        **options: Unpack[Options],
    ) -> list[Tensor]:
        """k labellings of each sequence, [k, length], drawn from their distribution; one tensor a sequence."""
        return drawn_paths(self._inputs(emissions, mask, **options), _count(k), generator)

    @torch.no_grad()
    def entropy(self, emissions: Tensor, mask: Tensor | None = None, **options: Unpack[Options]) -> Tensor:
        """[S] the entropy of each sequence's labelling, in nats; without a graph."""
        return path_entropies(self._inputs(emissions, mask, **options))

    def stream(
        self, pieces: Iterable[tuple[Tensor, Tensor]], *, scale: float = -1.0, tolerance: float = 1e-12
    ) -> Iterator[StreamPart]:
        """Back-propagate the exact log likelihood of one sequence whose emissions come in pieces.

        pieces      emissions [C, N], with their graph, and tags [C] of the next positions, made when they are asked for
        scale       what the log likelihood is multiplied by: -1.0 minimises it as a loss
        tolerance   relative error that the future may leave in a posterior

        A piece is back-propagated as soon as later emissions can no longer change its posteriors, usually when the next
        piece has come; then its graph is freed. Gradients are added to `.grad` of the CRF and of whatever the emissions
        were computed from. Yields a `StreamPart` for each piece; the loop has to run to its end.

        >>> import torch
        >>> encoder, model = torch.nn.Linear(3, 4), CRF(4)
        >>> pieces = ((encoder(torch.randn(50, 3)), torch.randint(4, (50,))) for _ in range(3))
        >>> [part.positions for part in model.stream(pieces)]
        [50, 50, 50]
        >>> encoder.weight.grad.shape
        torch.Size([4, 3])
        """
        return stream_gradient(self.scores, pieces, scale, tolerance)

    def scores(self) -> tuple[Tensor, Tensor, Tensor]:
        """Transitions [N, N], start [N] and end [N], -inf where the constraints forbid one."""
        tensors = self.transitions, self.start_transitions, self.end_transitions
        if not self._restricted:
            return tensors
        return tuple(
            tensor.masked_fill(getattr(self, name), -torch.inf) for tensor, name in zip(tensors, _MASKS, strict=True)
        )

    def _inputs(
        self,
        emissions: Tensor,
        mask: Tensor | None,
        edges: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        allowed: Tensor | None = None,
    ) -> Arguments:
        check_tensors(emissions=emissions, mask=mask, edges=edges, cu_seqlens=cu_seqlens, allowed=allowed)
        return Arguments(emissions, *self.scores(), edges, mask, cu_seqlens, allowed, self.batch_first)

    def _restrict(
        self,
        constraints: Constraints | None,
        forbid: Sequence[tuple[int, int]],
        forbid_start: Sequence[int],
        forbid_end: Sequence[int],
    ) -> None:
        n = self.num_tags
        given: tuple[Sequence[int | tuple[int, ...]], ...] = (forbid, forbid_start, forbid_end)
        masks = [torch.zeros(n, n, dtype=torch.bool), *torch.zeros(2, n, dtype=torch.bool)]
        if constraints is not None:
            if not hasattr(constraints, "allowed"):
                raise BadSetting("constraints", constraints, "a chainfold.Constraints: Constraints.of(names, 'BIO')")
            if constraints.first.size != n:
                raise ChainfoldError(f"the constraints are on {constraints.first.size} labels, but num_tags is {n}.")
            own = constraints.allowed, constraints.first, constraints.last
            masks = [torch.from_numpy(~table) for table in own]
        for name, mask, places in zip(("forbid", "forbid_start", "forbid_end"), masks, given, strict=True):
            for place in places:
                inside = (place,) if isinstance(place, int) else tuple(place)
                if len(inside) != mask.dim() or not all(0 <= label < n for label in inside):
                    raise BadSetting(f"an entry of {name}", place, f"{mask.dim()} label numbers below {n}")
                mask[place] = True
        self._restricted = any(bool(mask.any()) for mask in masks)
        for name, mask in zip(_MASKS, masks, strict=True):
            self.register_buffer(name, mask, persistent=False)


def _reduced(values: Tensor, reduction: str, tags: Tensor, mask: Tensor | None) -> Tensor:
    """[S] log likelihoods as one number."""
    if reduction == "none":
        return values
    if reduction == "sum":
        return values.sum()
    if reduction == "mean":
        return values.mean()
    if reduction != "token_mean":
        raise ChainfoldError(f"invalid reduction: {reduction}; choose one of none, sum, mean, token_mean.")
    return values.sum() / (tags.numel() if mask is None else mask.count_nonzero())


def _count(k: int) -> int:
    if not isinstance(k, int) or k < 1:
        raise BadSetting("k", k, "a whole number from 1 up")
    return k


_MASKS = ("_never_follows", "_never_first", "_never_last")
