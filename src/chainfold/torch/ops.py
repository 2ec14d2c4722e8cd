"""The operators: log likelihoods with their gradient, on the device of the emissions.

    chainfold::crf           log likelihoods [S], or log Z without tags; forward vectors; 0 where tags are unknown
    chainfold::crf_backward  the gradient by emissions, transitions, start, end and edges
    chainfold::best          the best labels, in the shape of tags, and -1 where the mask is; their scores [S]

Of what is computed, the forward vectors alone are kept between the two. There is no second derivative: asking for one
is an error. The operators are defined through `torch.library.Library`: `torch.library.custom_op` checks each call for
results that share memory with arguments, which takes longer than the kernels of a small batch.
"""

from __future__ import annotations

from typing import Any

import torch
from chainfold.errors import ChainfoldError
from chainfold.torch.arguments import Arguments, check_arguments, check_tags
from chainfold.torch.paths import best_paths
from torch import Tensor

_INPUTS = (
    "Tensor emissions, Tensor transitions, Tensor start, Tensor end, Tensor? edges, Tensor? mask, Tensor? cu_seqlens, "
    "Tensor? allowed, bool batch_first"
)
_ARGUMENTS = f"{_INPUTS}, Tensor? tags"
_N_ARGUMENTS = 10

_library = torch.library.Library("chainfold", "DEF")
_library.define(f"crf({_ARGUMENTS}) -> (Tensor, Tensor, Tensor)")
_library.define(
    f"crf_backward(Tensor factor, Tensor vectors, Tensor known, {_ARGUMENTS}) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor)"
)
_library.define(f"best({_INPUTS}) -> (Tensor, Tensor)")
crf = torch.ops.chainfold.crf.default
crf_backward = torch.ops.chainfold.crf_backward.default
best = torch.ops.chainfold.best.default

Results = tuple[Tensor, Tensor, Tensor]
Gradient = tuple[Tensor, ...]


def _checked(*arguments: Any) -> tuple[Arguments, Tensor | None]:
    inputs, tags = Arguments(*arguments[:-1]), arguments[-1]
    check_arguments(inputs)
    check_tags(inputs, tags)
    return inputs, tags


def _host(*arguments: Any) -> Results:
    from chainfold.torch.cpu import log_likelihoods

    inputs, tags = _checked(*arguments)
    vectors = _new_vectors(inputs)
    values, known = log_likelihoods(inputs, tags, vectors.numpy())
    return torch.from_numpy(values).to(inputs.result_type), vectors, torch.tensor(int(known))


def _card(*arguments: Any) -> Results:
    from chainfold.torch.gpu import log_likelihoods

    values, vectors, known = log_likelihoods(*_checked(*arguments))
    return values, vectors, torch.tensor(known)


def _fake(*arguments: Any) -> Results:
    inputs, _ = _checked(*arguments)
    values = inputs.emissions.new_empty(inputs.n_sequences, dtype=inputs.result_type)
    return values, _new_vectors(inputs), torch.empty((), dtype=torch.int64)


def _host_backward(factor: Tensor, vectors: Tensor, known: Tensor, *arguments: Any) -> Gradient:
    from chainfold.torch.cpu import doubles, gradients

    inputs, tags = Arguments(*arguments[:-1]), arguments[-1]
    parts = gradients(inputs, tags, bool(known), vectors.numpy(), doubles(factor))
    return tuple(_like(tensor, torch.from_numpy(part)) for tensor, part in zip(inputs[:5], parts, strict=True))


def _like(tensor: Tensor | None, part: Tensor) -> Tensor:
    """In the shape and type of the tensor whose gradient it is; an empty one where there is none."""
    if tensor is None:
        return part
    part = part.view(tensor.shape)
    return part if part.dtype == tensor.dtype else part.to(tensor.dtype)


def _card_backward(factor: Tensor, vectors: Tensor, known: Tensor, *arguments: Any) -> Gradient:
    from chainfold.torch.gpu import gradients

    return gradients(Arguments(*arguments[:-1]), arguments[-1], int(known), vectors, factor)


def _fake_backward(factor: Tensor, vectors: Tensor, known: Tensor, *arguments: Any) -> Gradient:
    emissions = arguments[0]
    return tuple(
        emissions.new_empty(0) if tensor is None else emissions.new_empty(tensor.shape, dtype=tensor.dtype)
        for tensor in arguments[:5]
    )


def _new_vectors(inputs: Arguments) -> Tensor:
    """Room for the forward vectors: doubles in padded rows on the host, one number a label elsewhere."""
    emissions = inputs.emissions
    if emissions.device.type == "cpu":
        from chainfold.core.slots import padded

        return emissions.new_empty((inputs.positions, padded(inputs.n_labels)), dtype=torch.float64)
    return emissions.new_empty((inputs.positions, inputs.n_labels), dtype=inputs.result_type)


class _Likelihood(torch.autograd.Function):  # type: ignore[misc]
    """The derivative of `crf` is `crf_backward`."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Results:
        with torch._C._AutoDispatchBelowAutograd():
            results: Results = crf(*arguments)
        *tensors, ctx.batch_first, tags = arguments
        ctx.save_for_backward(results[1], results[2], *tensors, tags)
        ctx.mark_non_differentiable(results[1], results[2])
        ctx.set_materialize_grads(False)
        return results

    @staticmethod
    def backward(ctx: Any, factor: Tensor | None, *_: Tensor | None) -> tuple[Tensor | None, ...]:
        if factor is None:
            return (None,) * _N_ARGUMENTS
        vectors, known, *tensors, tags = ctx.saved_tensors
        parts = _without_derivative(factor, vectors, known, *tensors, ctx.batch_first, tags)
        asked = zip(parts, ctx.needs_input_grad, strict=False)
        return (*(part if wanted else None for part, wanted in asked), *(None,) * (_N_ARGUMENTS - 5))


def _without_derivative(*arguments: Any) -> Gradient:
    """`crf_backward` where gradients are recorded, and where they are not, as in most backward passes."""
    parts: Gradient
    if torch.is_grad_enabled():
        parts = _Gradient.apply(*arguments)
    else:
        with torch._C._AutoDispatchBelowAutograd():
            parts = crf_backward(*arguments)
    return parts


class _Gradient(torch.autograd.Function):  # type: ignore[misc]
    """`crf_backward` has no derivative."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Gradient:
        with torch._C._AutoDispatchBelowAutograd():
            parts: Gradient = crf_backward(*arguments)
        return parts

    @staticmethod
    def backward(ctx: Any, *factors: Tensor | None) -> tuple[Tensor | None, ...]:
        raise ChainfoldError(
            "the log likelihood of a CRF has no second derivative here: call `backward` without `create_graph=True`, "
            "or do not differentiate what was computed from the gradient."
        )


def _best_on_card(*arguments: Any) -> tuple[Tensor, Tensor]:
    from chainfold.torch.gpu_paths import best_labels

    inputs = Arguments(*arguments)
    check_arguments(inputs)
    return best_labels(inputs)


def _best(*arguments: Any) -> tuple[Tensor, Tensor]:
    inputs = Arguments(*arguments)
    paths, device = best_paths(inputs), inputs.emissions.device
    found = torch.tensor([label for path in paths.labels for label in path], dtype=torch.int64, device=device)
    labels = torch.full(inputs.emissions.shape[:-1], -1, device=device)
    mask = torch.ones_like(labels, dtype=torch.bool) if inputs.mask is None else inputs.mask.bool()
    if inputs.batch_first or inputs.cu_seqlens is not None:
        labels.masked_scatter_(mask, found)
    else:
        labels.t().masked_scatter_(mask.t(), found)
    return labels, paths.scores


def _fake_best(*arguments: Any) -> tuple[Tensor, Tensor]:
    inputs = Arguments(*arguments)
    check_arguments(inputs)
    labels = inputs.emissions.new_empty(inputs.emissions.shape[:-1], dtype=torch.int64)
    return labels, inputs.emissions.new_empty(inputs.n_sequences, dtype=inputs.result_type)


for _name, _kernels, _without_data in (
    ("crf", (_host, _card, _Likelihood.apply), _fake),
    ("crf_backward", (_host_backward, _card_backward, _without_derivative), _fake_backward),
):
    for _kernel, _key in zip(_kernels, ("CPU", "CUDA", "Autograd"), strict=True):
        _library.impl(_name, _kernel, _key)
    torch.library.register_fake(f"chainfold::{_name}", _without_data, lib=_library)
for _kernel, _key in ((_best, "CPU"), (_best_on_card, "CUDA")):
    _library.impl("best", _kernel, _key)
torch.library.register_fake("chainfold::best", _fake_best, lib=_library)
