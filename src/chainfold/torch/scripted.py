"""What `torch.jit.script` makes of a CRF: pytorch-crf's `forward` and `decode`, through the same operators.

TorchScript compiles a subset of Python, in which the methods of `CRF` cannot be written. A scripted module can be saved
and loaded where `chainfold.torch` is imported.
"""

from __future__ import annotations

import torch
from chainfold.errors import ChainfoldError
from torch import Tensor, nn


def reduced(values: Tensor, reduction: str, tags: Tensor, mask: Tensor | None) -> Tensor:
    """[S] log likelihoods as one number."""
    if reduction == "none":
        return values
    if reduction == "sum":
        return values.sum()
    if reduction == "mean":
        return values.mean()
    if reduction != "token_mean":
        raise ChainfoldError(f"invalid reduction: {reduction}; choose one of none, sum, mean, token_mean.")
    if mask is None:
        return values.sum() / tags.numel()
    return values.sum() / mask.count_nonzero()


class ScriptedCRF(nn.Module):  # type: ignore[misc]
    """The parameters of a CRF with the methods that can be scripted.

    What is forbidden is part of the `state_dict` of a scripted module: TorchScript has no other buffers.
    """

    def __init__(self, crf: nn.Module, forbidden: tuple[Tensor, Tensor, Tensor] | None) -> None:
        """forbidden: tables of transitions [N, N], starts [N] and ends [N]."""
        super().__init__()
        self.num_tags: int = crf.num_tags
        self.batch_first: bool = crf.batch_first
        self._parameters.update(crf.named_parameters())  # also those that an operation made, as torch.jit takes them
        follows, first, last = (None, None, None) if forbidden is None else forbidden
        self.register_buffer("never_follows", follows)
        self.register_buffer("never_first", first)
        self.register_buffer("never_last", last)

    def forward(
        self,
        emissions: Tensor,
        tags: Tensor,
        mask: Tensor | None = None,
        reduction: str = "sum",
    ) -> Tensor:
        transitions, start, end = self.scores()
        values, _, _ = torch.ops.chainfold.crf(
            emissions, transitions, start, end, None, mask, None, None, self.batch_first, tags, None
        )
        return reduced(values, reduction, tags, mask)

    @torch.jit.export
    def decode(self, emissions: Tensor, mask: Tensor | None = None) -> list[list[int]]:
        transitions, start, end = self.scores()
        labels, _ = torch.ops.chainfold.best(
            emissions, transitions, start, end, None, mask, None, None, self.batch_first
        )
        if not self.batch_first:
            labels = labels.transpose(0, 1)
        paths: list[list[int]] = []
        for row in labels:
            path: list[int] = row[row >= 0].tolist()
            paths.append(path)
        return paths

    def scores(self) -> tuple[Tensor, Tensor, Tensor]:
        transitions, start, end = self.transitions, self.start_transitions, self.end_transitions
        if self.never_follows is not None:
            transitions = transitions.masked_fill(self.never_follows, -torch.inf)
            start, end = start.masked_fill(self.never_first, -torch.inf), end.masked_fill(self.never_last, -torch.inf)
        return transitions, start, end
