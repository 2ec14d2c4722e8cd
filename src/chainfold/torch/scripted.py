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
    """The parameters of a CRF with the methods that can be scripted."""

    def __init__(self, crf: nn.Module, never_follows: Tensor, never_first: Tensor, never_last: Tensor) -> None:
        super().__init__()
        self.num_tags: int = crf.num_tags
        self.batch_first: bool = crf.batch_first
        self._parameters.update(crf.named_parameters())  # also those that were made by an operation, as torch.jit does
        self.register_buffer("never_follows", never_follows, persistent=False)
        self.register_buffer("never_first", never_first, persistent=False)
        self.register_buffer("never_last", never_last, persistent=False)

    def forward(
        self,
        emissions: Tensor,
        tags: Tensor,
        mask: Tensor | None = None,
        reduction: str = "sum",
    ) -> Tensor:
        values, _, _ = torch.ops.chainfold.crf(
            emissions,
            self.transitions.masked_fill(self.never_follows, -torch.inf),
            self.start_transitions.masked_fill(self.never_first, -torch.inf),
            self.end_transitions.masked_fill(self.never_last, -torch.inf),
            None, mask, None, None, self.batch_first, tags, None,
        )  # fmt: skip
        return reduced(values, reduction, tags, mask)

    @torch.jit.export
    def decode(self, emissions: Tensor, mask: Tensor | None = None) -> list[list[int]]:
        labels, _ = torch.ops.chainfold.best(
            emissions,
            self.transitions.masked_fill(self.never_follows, -torch.inf),
            self.start_transitions.masked_fill(self.never_first, -torch.inf),
            self.end_transitions.masked_fill(self.never_last, -torch.inf),
            None, mask, None, None, self.batch_first,
        )  # fmt: skip
        if not self.batch_first:
            labels = labels.transpose(0, 1)
        paths: list[list[int]] = []
        for row in labels:
            path: list[int] = row[row >= 0].tolist()
            paths.append(path)
        return paths
