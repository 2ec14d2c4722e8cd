"""A CRF layer for PyTorch: exact at any length, on the host and on CUDA.

    arguments        a batch of emissions with the scores of transitions, checked
    cpu, cpu_paths   log likelihoods with their gradients, and labellings, on the host
    gpu_batch        a batch as CUDA kernels take it
    gpu, gpu_paths   log likelihoods and labellings on CUDA
    paths            the best, the k best and drawn labellings, entropies
    ops              the custom operators, with their gradient
    piecewise        exact training in pieces
    crf              CRF, the module

A module imports those above it only; the modules of a device are imported when one of its tensors comes. Begin reading
with `crf` and `ops`.
"""

# ruff: noqa: E402
from chainfold.errors import require

require("torch", "chainfold.torch")

from chainfold.torch.crf import CRF
from chainfold.torch.paths import Paths
from chainfold.torch.piecewise import StreamPart

__all__ = ["CRF", "Paths", "StreamPart"]
