"""Marginals as Python's dicts: row t is {label j: p_t(j)}, a copy of a dict with all labels and other values."""

from __future__ import annotations

from typing import Any

from chainfold.jit.decorator import STRICT, kernel
from chainfold.jit.objects import dict_like, give, set_number


@kernel(fastmath=STRICT, lock=True)
def fill(rows: Any, like: Any, labels: Any, marginals: Any) -> Any:
    """rows[t] = {labels[j]: marginals[t, j]}; rows, like and labels are addresses. False where there is no memory."""
    for t in range(marginals.shape[0]):
        row = dict_like(like)
        if row == 0:
            return False
        give(rows, t, row)
        for j in range(labels.size):
            if not set_number(row, labels[j], marginals[t, j]):
                return False
    return True
