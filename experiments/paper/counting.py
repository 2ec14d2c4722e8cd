"""The paper's Algorithms 1 and 2 as printed, in plain Python, counting every operation and every register.

    u_t(i,j) = Σ_m θ_m f_m(i, j, x, t)                  the paper's local kernel, ψ in Algorithm 2
    a ⊕ b    = ln(e^a + e^b)

The paper states the cost of both as Tables 1 and 2, a row for each variable of the pseudo code. Here each such variable
is a `CountedRow`: it holds the registers written under its name and counts the operations spent on filling them. What
is executed is counted:

    a sum       an accumulator starts from the identity (0, or -∞ for ⊕) and each term is one operation, so that N
                terms are N operations; this is how the tables count
    ⊕           is one operation; the exponential and the logarithm inside it are not counted
    -           is a +
    a register  is a name that is ever written; writing it again takes no other, and neither does an accumulator, which
                is the name being computed

Formulas are sums of monomials in N, T, A and M, written as in the paper but multiplied out. The tables are kept as
text; `EXPLAINED` has each cell where a table is not what its algorithm does. `compare` runs an algorithm and sets cell
against count, and `report` writes that down.

The feature functions are general, the paper's f_m(y', y, x, t), and positive where active, as its ln f requires. y_0 is
a label like the others and is summed over.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Number = int | Fraction
Features = tuple[tuple[int, float], ...]  # (m, f_m) of each active feature
Polynomial = Counter[str]  # monomial, as "NNTA" for N²TA -> coefficient

COLUMNS = ("⊕", "+", "×", "ln", "registers")
QUOTIENT = "∇_m Z / Z"  # the last line of both algorithms; the paper's tables have no row for it

_TABLE_1 = """
    u           -       N²TA    N²TA    -       N²T
    α           N²T     N²T     -       -       NT
    β           N²T     N²T     -       -       NT
    v           -       2N²T    -       -       1
    lnf         -       -       -       N²TA    1
    ln Z        N       -       -       -       1
    ln ∇_m      N²TA    N²TA    -       -       M
    ∇_m Z / Z   -       -       -       -       -
    asymptotic  N²TA    2N²TA   N²TA    N²TA    N²T+M
"""

_TABLE_2 = """
    ψ           -          N²TA        N²TA    -       N²
    α̂^(z)       N²T        N²T         -       -       N
    γ           -          N²T         -       -       1
    α̂_m^(h)     N²TM+N²TA  N²TM+N²TA   -       N²TA    NM
    α^(z)       -          -           -       -       N
    lnf         -          -           -       N²TA    1
    α^(h)       -          -           -       -       NM
    ln Z        N          -           -       -       1
    ln ∇_m      NM         -           -       -       M
    ∇_m Z / Z   -          -           -       -       -
    asymptotic  N²TM+N²TA  N²TM+2N²TA  N²TA    N²TA    N²+NM
"""


def _read(text: str) -> dict[str, dict[str, str]]:
    lines = (re.split(r"\s{2,}", line.strip()) for line in text.strip().splitlines())
    return {row: dict(zip(COLUMNS, cells, strict=True)) for row, *cells in lines}


TABLES = {1: _read(_TABLE_1), 2: _read(_TABLE_2)}
"""The paper's two tables, cell by cell; "-" is nothing."""

ASYMPTOTIC = {number: table.pop("asymptotic") for number, table in TABLES.items()}
"""Their last rows: the leading terms of each column."""


class Correction(NamedTuple):
    """The right formula of a cell."""

    formula: str
    why: str


_NO_ROW = "The last line subtracts ln Z from each ln ∇_m, M real additions for which the table has no row."

EXPLAINED = {
    (1, "α", "registers"): Correction(
        "NT+N",
        "Algorithm 1 writes α_0 … α_T, T + 1 vectors. NT would do if the constant α_0 = 0 were not stored.",
    ),
    (1, "β", "registers"): Correction(
        "NT+N",
        "Algorithm 1 writes β_T … β_0, T + 1 vectors. NT would do without β_0, which nothing reads; but the row's "
        "operations, N²T, include those spent on it.",
    ),
    (1, QUOTIENT, "+"): Correction("M", _NO_ROW),
    (1, "asymptotic", "+"): Correction(
        "2N²TA+M",
        "With the last line the column sums to 2N²TA + 4N²T + M. M divides no other term and stays, as it does among "
        "the registers, unless it is small beside N²TA.",
    ),
    (2, "α̂_m^(h)", "ln"): Correction(
        "-",
        "These logarithms are the lnf row's, counted twice: α̂_m^(h) is updated with the register lnf. The asymptotic "
        "row has them once.",
    ),
    (2, QUOTIENT, "+"): Correction("M", _NO_ROW),
    (2, "asymptotic", "registers"): Correction(
        "N²+2NM",
        "α̂_m^(h) and α^(h) are two arrays of NM registers; coefficients are kept elsewhere in the row. N² + NM can be "
        "had, but not by Algorithm 2 as printed: one m at a time, N registers of α̂^(h) are enough.",
    ),
}
"""(table, row, column) of each cell that is not what its algorithm does."""


def parse(formula: str) -> Polynomial:
    """The terms of a formula."""
    terms = Polynomial()
    for term in formula.replace("N²", "NN").split("+") if formula != "-" else ():
        match = re.fullmatch(r"(\d*)([NTAM]*)", term)
        if not match or not term:
            raise ValueError(f"{formula!r} is not a sum of monomials in N, T, A and M.")
        terms[match[2]] += int(match[1] or 1)
    return terms


def value(formula: str, n: int, t: int, a: Number, m: int) -> Number:
    """The formula at N = n, T = t, A = a, M = m."""
    sizes: dict[str, Number] = {"N": n, "T": t, "A": a, "M": m}
    return sum(count * math.prod(sizes[letter] for letter in monomial) for monomial, count in parse(formula).items())


def leading(terms: Polynomial) -> Polynomial:
    """The terms that remain when N, T, A and M all tend to infinity: those that do not properly divide another."""
    return Polynomial({p: c for p, c in terms.items() if not any(Counter(p) < Counter(q) for q in terms)})


def totals(number: int) -> dict[str, Polynomial]:
    """The columns of a table added up, its cells corrected."""
    sums = {column: Polynomial() for column in COLUMNS}
    for row, cells in TABLES[number].items():
        for column, formula in cells.items():
            correction = EXPLAINED.get((number, row, column))
            sums[column] += parse(correction.formula if correction else formula)
    return sums


@dataclass(frozen=True)
class FeatureFunctions:
    """Feature functions on one sequence, with the weights."""

    weights: tuple[float, ...]  # [M] θ
    active: tuple[tuple[tuple[Features, ...], ...], ...]  # [T][N][N] 𝒜_t(y', y)

    @classmethod
    def uniform(cls, n_labels: int, positions: int, active: int, weights: int, seed: int = 0) -> FeatureFunctions:
        """Exactly `active` features on every (t, y', y), so that the paper's average A is the same everywhere."""
        rng = np.random.default_rng(seed)

        def features() -> Features:
            chosen = rng.choice(weights, active, replace=False)
            return tuple(zip(chosen.tolist(), rng.uniform(0.25, 2.0, active).tolist(), strict=True))

        labels = range(n_labels)
        lattice = tuple(tuple(tuple(features() for _ in labels) for _ in labels) for _ in range(positions))
        return cls(tuple(rng.normal(0.0, 0.5, weights).tolist()), lattice)

    @property
    def sizes(self) -> tuple[int, int, Fraction, int]:
        """N, T, A, M; what the tables mean by A is the average over positions and pairs of labels."""
        n, t = len(self.active[0]), len(self.active)
        features = sum(len(pair) for matrix in self.active for row in matrix for pair in row)
        return n, t, Fraction(features, n * n * t), len(self.weights)


@dataclass
class CountedRow:
    """A variable of the pseudo code: its registers, and the operations spent on it."""

    kept: dict[int | tuple[int, ...], float] = field(default_factory=dict)
    spent: Counter[str] = field(default_factory=Counter)

    def __getitem__(self, at: int | tuple[int, ...]) -> float:
        return self.kept[at]

    def __setitem__(self, at: int | tuple[int, ...], number: float) -> None:
        self.kept[at] = number

    def add(self, a: float, b: float) -> float:
        """a + b."""
        self.spent["+"] += 1
        return a + b

    def times(self, a: float, b: float) -> float:
        """a × b."""
        self.spent["×"] += 1
        return a * b

    def ln(self, a: float) -> float:
        """ln a."""
        self.spent["ln"] += 1
        return math.log(a)

    def log_add(self, a: float, b: float) -> float:
        """a ⊕ b, from the larger of the two, so that nothing overflows."""
        self.spent["⊕"] += 1
        low, high = sorted((a, b))
        return high if low == -math.inf else high + math.log1p(math.exp(low - high))

    def sum(self, terms: Iterable[float]) -> float:
        """Σ of the terms, from 0."""
        total = 0.0
        for term in terms:
            total = self.add(total, term)
        return total

    def log_sum(self, terms: Iterable[float]) -> float:
        """⊕ of the terms, from -∞."""
        total = -math.inf
        for term in terms:
            total = self.log_add(total, term)
        return total

    def cells(self) -> dict[str, int]:
        """This row of the table."""
        return {**{column: self.spent[column] for column in COLUMNS[:-1]}, "registers": len(self.kept)}


@dataclass(frozen=True, eq=False)
class Counted:
    """Results of an algorithm, and the operations that it spent."""

    log_z: float
    gradient: NDArray[np.float64]  # [M] ∇Z / Z
    table: dict[str, dict[str, int]]  # row -> column -> count


def _close(ln_z: CountedRow, ln_grad: CountedRow, rows: Mapping[str, CountedRow], n_weights: int) -> Counted:
    """The last lines of both: ∇_m Z / Z ← e^(ln ∇_m - ln Z), each written over its ln ∇_m."""
    for m in range(n_weights):
        ln_grad[m] = math.exp(rows[QUOTIENT].add(ln_grad[m], -ln_z[()]))
    gradient = np.array([ln_grad[m] for m in range(n_weights)])
    return Counted(ln_z[()], gradient, {name: row.cells() for name, row in rows.items()})


def algorithm_1(problem: FeatureFunctions) -> Counted:
    """Forward-backward in the log domain, with the line numbers of the paper."""
    rows = {name: CountedRow() for name in TABLES[1]}
    u, alpha, beta, v, lnf, ln_z, ln_grad, _ = rows.values()
    n, last, _, n_weights = problem.sizes
    labels, pairs, theta = range(n), list(product(range(n), repeat=2)), problem.weights

    for k in range(1, last + 1):  # 1-4
        for i, j in pairs:
            u[k, i, j] = u.sum(u.times(theta[m], f) for m, f in problem.active[k - 1][i][j])

    for i in labels:  # 5-6
        alpha[0, i] = 0.0
    for k in range(1, last + 1):  # 7-9
        for j in labels:
            alpha[k, j] = alpha.log_sum(alpha.add(u[k, i, j], alpha[k - 1, i]) for i in labels)

    for j in labels:  # 10-11
        beta[last, j] = 0.0
    for k in range(last - 1, -1, -1):  # 12-14
        for i in labels:
            beta[k, i] = beta.log_sum(beta.add(u[k + 1, i, j], beta[k + 1, j]) for j in labels)

    ln_z[()] = ln_z.log_sum(alpha[last, j] for j in labels)  # 15
    for m in range(n_weights):  # not printed
        ln_grad[m] = -math.inf
    for k in range(1, last + 1):  # 16-22
        for i, j in pairs:
            v[()] = v.add(v.add(alpha[k - 1, i], u[k, i, j]), beta[k, j])
            for m, f in problem.active[k - 1][i][j]:
                lnf[()] = lnf.ln(f)
                ln_grad[m] = ln_grad.log_add(ln_grad[m], ln_grad.add(v[()], lnf[()]))
    return _close(ln_z, ln_grad, rows, n_weights)


def algorithm_2(problem: FeatureFunctions) -> Counted:
    """Forward over the log-domain expectation semiring, the hatted variables being those of the newer position."""
    rows = {name: CountedRow() for name in TABLES[2]}
    psi, z_hat, gamma, h_hat, z, lnf, h, ln_z, ln_grad, _ = rows.values()
    n, _, _, n_weights = problem.sizes
    labels, pairs, theta = range(n), list(product(range(n), repeat=2)), problem.weights
    places = list(product(range(n_weights), labels))  # (m, y)

    for i in labels:  # printed as α^(z) ← 1, but the identity of ⊗ is 0
        z[i] = 0.0
    for m, i in places:
        h[m, i] = -math.inf

    for active in problem.active:
        for i, j in pairs:
            psi[i, j] = psi.sum(psi.times(theta[m], f) for m, f in active[i][j])
        for j in labels:
            z_hat[j] = z_hat.log_sum(z_hat.add(psi[i, j], z[i]) for i in labels)
        for m, j in places:
            h_hat[m, j] = h_hat.log_sum(h_hat.add(psi[i, j], h[m, i]) for i in labels)
        for i, j in pairs:
            gamma[()] = gamma.add(psi[i, j], z[i])  # printed as γ(y'), but it depends on y too and is used at once
            for m, f in active[i][j]:
                lnf[()] = lnf.ln(f)
                h_hat[m, j] = h_hat.log_add(h_hat[m, j], h_hat.add(gamma[()], lnf[()]))
        for j in labels:
            z[j] = z_hat[j]
        for m, j in places:
            h[m, j] = h_hat[m, j]

    ln_z[()] = ln_z.log_sum(z[j] for j in labels)
    for m in range(n_weights):  # printed before the loop over m
        ln_grad[m] = ln_grad.log_sum(h[m, j] for j in labels)
    return _close(ln_z, ln_grad, rows, n_weights)


ALGORITHMS = {1: algorithm_1, 2: algorithm_2}
EXAMPLE = FeatureFunctions.uniform(3, 5, 2, 7)
"""The sizes at which the tables are shown: N = 3, T = 5, A = 2, M = 7."""


class Cell(NamedTuple):
    """A cell of a table, beside what was counted."""

    row: str
    column: str
    printed: str  # the paper's formula
    formula: Number  # its value
    counted: int
    correction: Correction | None

    @property
    def equal(self) -> bool:
        """Whether the paper's formula is the count."""
        return self.formula == self.counted


def compare(number: int, problem: FeatureFunctions) -> list[Cell]:
    """Every cell of Table `number` against what its algorithm did with the problem."""
    counted, sizes = ALGORITHMS[number](problem).table, problem.sizes
    return [
        Cell(row, column, cell, value(cell, *sizes), counted[row][column], EXPLAINED.get((number, row, column)))
        for row, cells in TABLES[number].items()
        for column, cell in cells.items()
    ]


def report(number: int, problem: FeatureFunctions) -> str:
    """The comparison in Markdown: a formula and its count in each cell, the paper's struck out where it is not so."""
    lines: dict[str, list[str]] = {row: [row] for row in (*TABLES[number], "asymptotic")}
    for cell in compare(number, problem):
        count = "" if str(cell.counted) in ("0", cell.printed) else f" = {cell.counted}"
        lines[cell.row].append(_mend(cell.printed, cell.correction) + count)
    for column, printed in ASYMPTOTIC[number].items():
        lines["asymptotic"].append(_mend(printed, EXPLAINED.get((number, "asymptotic", column))))
    table = [["", *COLUMNS], ["---"] * (1 + len(COLUMNS)), *lines.values()]
    reasons = [f"- **{row}, {column}.** {why}" for (n, row, column), (_, why) in EXPLAINED.items() if n == number]
    return "\n".join([*(f"| {' | '.join(line)} |" for line in table), "", *reasons])


def _mend(printed: str, correction: Correction | None) -> str:
    if correction is None:
        return printed
    return " ".join([*([] if printed == "-" else [f"~~{printed}~~"]), f"**{correction.formula}**"])
