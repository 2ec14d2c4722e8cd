"""A small convolutional encoder with a CRF, trained on the genome of E. coli as ONE sequence, in bounded memory.

    python examples/ecoli_streaming.py FOLDER [--device cuda] [--positions N] [--piece 65536] [--steps 2]

FOLDER has seq.txt.xz, a base a byte, and labels4.u8.xz, a label a byte. Each step is one exact gradient of the
likelihood of the whole sequence, by `CRF.stream`. Prints the log likelihood by position and the peak memory after each
step.
"""

from __future__ import annotations

import argparse
import lzma
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import torch
from chainfold.torch import CRF
from torch import Tensor, nn

CONTEXT = 8  # positions on either side that an emission sees


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--positions", type=int)
    parser.add_argument("--piece", type=int, default=65536)
    parser.add_argument("--steps", type=int, default=2)
    options = parser.parse_args()
    torch.manual_seed(0)
    bases = np.frombuffer(lzma.decompress((options.folder / "seq.txt.xz").read_bytes()), np.uint8)
    labels = np.frombuffer(lzma.decompress((options.folder / "labels4.u8.xz").read_bytes()), np.uint8)
    bases, labels = bases[: options.positions], labels[: options.positions]
    numbers = np.zeros(256, np.uint8)  # of a base; one that is not known counts as an A
    numbers[np.frombuffer(b"ACGT", np.uint8)] = range(4)
    codes = torch.from_numpy(np.pad(numbers[bases], CONTEXT, constant_values=4))  # a byte a position: 4 is no base
    tags, one_hot = torch.from_numpy(labels.copy()), torch.eye(5, 4).to(options.device)
    encoder = nn.Sequential(nn.Conv1d(4, 16, 2 * CONTEXT + 1), nn.ReLU(), nn.Conv1d(16, 4, 1)).to(options.device)
    crf = CRF(4).to(options.device)
    optimiser = torch.optim.Adam([*encoder.parameters(), *crf.parameters()], 0.02)

    def pieces() -> Iterator[tuple[Tensor, Tensor]]:
        """Inputs overlap by the context; each emission comes once."""
        for at in range(0, len(tags), options.piece):
            inside = codes[at : at + options.piece + 2 * CONTEXT].to(options.device)
            emissions = encoder(one_hot[inside.int()].t()[None])[0].t()
            yield emissions, tags[at : at + options.piece].to(options.device)

    for step in range(1, options.steps + 1):
        begun = time.perf_counter()
        optimiser.zero_grad()
        parts = list(crf.stream(pieces(), scale=-1.0 / len(tags)))
        optimiser.step()
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        if options.device != "cpu":
            memory = torch.cuda.max_memory_allocated() / 2**20
        print(
            f"step {step}: log likelihood {sum(part.log_likelihood for part in parts) / len(tags):.6f} a position, "
            f"{time.perf_counter() - begun:.1f} s, lookahead at most {max(part.lookahead for part in parts)}, "
            f"peak memory {memory:.0f} MB",
            flush=True,
        )


if __name__ == "__main__":
    main()
