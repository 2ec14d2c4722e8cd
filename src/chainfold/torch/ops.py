"""The custom operators: log likelihoods with their gradient, on the device of the emissions.

    chainfold::crf           log likelihoods [S], or log Z without tags; forward vectors; are all tags known?
    chainfold::crf_backward  the gradient by emissions, transitions, start, end and edges

Of what is computed, the forward vectors alone are kept between the two. There is no second derivative: asking for one
is an error.
"""

from __future__ import annotations

from typing import Any

import torch
from chainfold.errors import ChainfoldError
from chainfold.torch.inputs import Inputs
from torch import Tensor


@torch.library.custom_op("chainfold::crf", mutates_args=(), device_types="cpu")
def crf(
    emissions: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    edges: Tensor | None,
    mask: Tensor | None,
    cu_seqlens: Tensor | None,
    allowed: Tensor | None,
    batch_first: bool,
    tags: Tensor | None,
    weights: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    from chainfold.torch.cpu import log_likelihoods

    inputs = Inputs(emissions, transitions, start, end, edges, mask, cu_seqlens, allowed, batch_first)
    vectors = _new_vectors(inputs)
    values, known = log_likelihoods(inputs, tags, weights, vectors.numpy())
    return torch.from_numpy(values).to(inputs.result_type), vectors, torch.tensor(known)


@crf.register_kernel("cuda")
def _(
    emissions: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    edges: Tensor | None,
    mask: Tensor | None,
    cu_seqlens: Tensor | None,
    allowed: Tensor | None,
    batch_first: bool,
    tags: Tensor | None,
    weights: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    from chainfold.torch.gpu import log_likelihoods

    inputs = Inputs(emissions, transitions, start, end, edges, mask, cu_seqlens, allowed, batch_first)
    values, vectors, known = log_likelihoods(inputs, tags, weights)
    return values, vectors, torch.tensor(known)


@crf.register_fake
def _(
    emissions: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    edges: Tensor | None,
    mask: Tensor | None,
    cu_seqlens: Tensor | None,
    allowed: Tensor | None,
    batch_first: bool,
    tags: Tensor | None,
    weights: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    inputs = Inputs(emissions, transitions, start, end, edges, mask, cu_seqlens, allowed, batch_first)
    return (
        emissions.new_empty(inputs.n_sequences, dtype=inputs.result_type),
        _new_vectors(inputs),
        torch.empty((), dtype=torch.bool),
    )


@torch.library.custom_op("chainfold::crf_backward", mutates_args=(), device_types="cpu")
def crf_backward(
    factor: Tensor,
    vectors: Tensor,
    known: Tensor,
    emissions: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    edges: Tensor | None,
    mask: Tensor | None,
    cu_seqlens: Tensor | None,
    allowed: Tensor | None,
    batch_first: bool,
    tags: Tensor | None,
    weights: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    from chainfold.torch.cpu import gradients
    from chainfold.torch.cpu_batch import doubles

    inputs = Inputs(emissions, transitions, start, end, edges, mask, cu_seqlens, allowed, batch_first)
    parts = gradients(inputs, tags, bool(known), weights, vectors.numpy(), doubles(factor))
    like = (emissions, transitions, start, end, edges)
    return tuple(
        emissions.new_empty(0) if tensor is None else torch.from_numpy(part).to(tensor.dtype).reshape(tensor.shape)
        for part, tensor in zip(parts, like, strict=True)
    )


@crf_backward.register_kernel("cuda")
def _(
    factor: Tensor,
    vectors: Tensor,
    known: Tensor,
    emissions: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    edges: Tensor | None,
    mask: Tensor | None,
    cu_seqlens: Tensor | None,
    allowed: Tensor | None,
    batch_first: bool,
    tags: Tensor | None,
    weights: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    from chainfold.torch.gpu import gradients

    inputs = Inputs(emissions, transitions, start, end, edges, mask, cu_seqlens, allowed, batch_first)
    return gradients(inputs, tags, bool(known), vectors, factor)


@crf_backward.register_fake
def _(
    factor: Tensor,
    vectors: Tensor,
    known: Tensor,
    emissions: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    edges: Tensor | None,
    *rest: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    like = (emissions, transitions, start, end, edges)
    empty = (emissions.new_empty(0 if tensor is None else tensor.shape) for tensor in like)
    return tuple(part if tensor is None else part.to(tensor.dtype) for part, tensor in zip(empty, like, strict=True))


def _new_vectors(inputs: Inputs) -> Tensor:
    """Room for the forward vectors: doubles in padded rows on the host, one number a label elsewhere."""
    emissions = inputs.emissions
    if emissions.device.type == "cpu":
        from chainfold.kernels.slots import padded

        return emissions.new_empty((inputs.positions, padded(inputs.n_labels)), dtype=torch.float64)
    return emissions.new_empty((inputs.positions, inputs.n_labels), dtype=inputs.result_type)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    *tensors, batch_first, tags, weights = inputs
    ctx.save_for_backward(output[1], output[2], *tensors, tags, weights)
    ctx.batch_first = batch_first
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(output[1], output[2])


def _differentiate(ctx: Any, factor: Tensor | None, *_: Tensor | None) -> tuple[Any, ...]:
    vectors, known, *tensors, tags, weights = ctx.saved_tensors
    if factor is None:
        return (None,) * 11
    parts = crf_backward(factor, vectors, known, *tensors, ctx.batch_first, tags, weights)
    needed = ctx.needs_input_grad
    return (*(part if wanted else None for part, wanted in zip(parts, needed, strict=False)), *(None,) * 6)


def _refuse(ctx: Any, *factors: Tensor | None) -> tuple[Any, ...]:
    raise ChainfoldError(
        "the log likelihood of a CRF has no second derivative here: call `backward` without `create_graph=True`, or do "
        "not differentiate what was computed from the gradient."
    )


crf.register_autograd(_differentiate, setup_context=_save)
crf_backward.register_autograd(_refuse)
