"""From codes of columns to attributes, a stretch of rows at a time.

shifted_t = code_{t+o}       where t+o lies in the sequence of t, else the code of the border symbol, or -1: nothing
id_t(f)   = names[f][code_t(f)]      for each feature f, or -1: nothing
"""

from __future__ import annotations

from typing import Any

from chainfold.jit.decorator import STRICT, kernel


@kernel(fastmath=STRICT)
def borders(starts: Any, low: Any, high: Any, back: Any, ahead: Any) -> None:
    """For rows low … high-1: how many rows of the same sequence lie before and after each, among those given."""
    rows = starts.size
    run = 0
    for t in range(high):
        run = 0 if starts[t] else run + 1
        if t >= low:
            back[t - low] = run
    run = 0
    for k in range(rows - low):
        t = rows - 1 - k
        if t < high:
            ahead[t - low] = run
        run = 0 if starts[t] else run + 1


@kernel(fastmath=STRICT)
def shift(codes: Any, low: Any, offset: Any, back: Any, ahead: Any, before: Any, after: Any, out: Any) -> None:
    """out[t] = codes[low + t + offset], or before[k - 1] or after[k - 1] where that is k rows outside the sequence."""
    for t in range(out.size):
        if offset < -back[t]:
            out[t] = before[-offset - back[t] - 1]
        elif offset > ahead[t]:
            out[t] = after[offset - ahead[t] - 1]
        else:
            out[t] = codes[low + t + offset]


@kernel(fastmath=STRICT)
def unseen(codes: Any, seen: Any, places: Any) -> Any:
    """The first place of each code that was not seen before, and is from now on; returns how many there are."""
    count = 0
    for k in range(codes.size):
        code = codes[k]
        if code >= 0 and not seen[code]:
            seen[code] = True
            places[count] = k
            count += 1
    return count


@kernel(fastmath=STRICT)
def order_by_row(rows: Any, begins: Any, out: Any) -> None:
    """The order in which rows ascend, equal ones as they stand; begins[t] counts the rows before t, and moves."""
    for i in range(rows.size):
        out[begins[rows[i]]] = i
        begins[rows[i]] += 1


@kernel(fastmath=STRICT)
def name_rows(codes: Any, names: Any, begins: Any, place: Any, out: Any) -> None:
    """Entry `place` of each row t, which stands at begins[t] + place: names[codes[t]], or -1."""
    for t in range(codes.size):
        code = codes[t]
        out[begins[t] + place] = names[code] if code >= 0 else -1


@kernel(fastmath=STRICT)
def name_bags(offsets: Any, codes: Any, names: Any, begins: Any, place: Any, out: Any) -> None:
    """The bag codes[offsets[t] : offsets[t + 1]] of each row t, named, to begins[t] + place[t] and on."""
    for t in range(offsets.size - 1):
        target = begins[t] + place[t]
        for k in range(offsets[t], offsets[t + 1]):
            code = codes[k]
            out[target + k - offsets[t]] = names[code] if code >= 0 else -1
