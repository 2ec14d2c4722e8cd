"""The worked example of docs/theory.md, number by number, by enumeration and by the program; and the page's claims."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from chainfold import Chain, Layout, Model, log_likelihood, marginals
from chainfold.chain.block import frozen
from chainfold.core import EDGE_RANGE
from chainfold.engines.belief import Belief
from chainfold.engines.block_pass import BlockPass
from chainfold.engines.certificate import Certificate
from chainfold.engines.parallel import STRETCHES
from chainfold.engines.problem import Problem
from chainfold.engines.registry import ENGINES
from chainfold.engines.settings import Settings
from chainfold.engines.weight_scores import WeightSource
from tolerances import FLOOR, ORACLE

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "theory.md").read_text()
Number = Fraction | float
Floats = NDArray[np.float64]
LABELS = (0, 1)
PAIRS = list(product(LABELS, LABELS))


# The page: formulas, tables and the prose between them


def section(title: str) -> str:
    return PAGE.split(f"## {title}\n")[1].split("\n## ")[0]


LINES = section("A worked example").splitlines()
FORMULAS = [re.split(r" {3,}", line.strip()) for line in LINES if line.startswith("    ")]
PROSE = " ".join(line for line in LINES if not line.startswith(("    ", "|")))


def tables() -> list[dict[str, dict[str, str]]]:
    """Each table as row, column, cell; a row is called by its first cell."""
    found = []
    for text in re.findall(r"(?:^\|.*\n)+", "\n".join(LINES) + "\n", re.MULTILINE):
        head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
        found.append({row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rows})
    return found


STATE_TABLE, EDGE_TABLE, BLOCK_TABLE, Q_TABLE, ERROR_TABLE, HALO_TABLE = tables()
STATE = {int(t): [int(row[f"label {j}"]) for j in LABELS] for t, row in STATE_TABLE.items()}
ATTRIBUTE = {int(t): row["attribute"] for t, row in STATE_TABLE.items()}
EDGE = [[int(EDGE_TABLE[str(i)][f"to {j}"]) for j in LABELS] for i in LABELS]
T = len(STATE)


def number(node: ast.expr) -> Number:
    match node:
        case ast.Constant(value=int() | float()):
            return Fraction(str(node.value))
        case ast.BinOp(left, ast.Add(), right):
            return number(left) + number(right)
        case ast.BinOp(left, ast.Sub(), right):
            return number(left) - number(right)
        case ast.BinOp(left, ast.Mult(), right):
            return number(left) * number(right)
        case ast.BinOp(left, ast.Div(), right):
            return number(left) / number(right)
        case ast.Call(ast.Name("ln"), [argument]):
            return math.log(number(argument))
    raise AssertionError(f"not arithmetic: {ast.unparse(node)}")


def check(text: str, truth: Number | list[Number]) -> None:
    """Each side of the equations is the truth: exactly, or to the last of four decimals or more."""
    for side in text.split(" = "):
        source = re.sub(r"ln (\d+|\()", r"ln(\1", side.replace("·", "*"))
        source = source + ")" if re.fullmatch(r"ln\(\d+", source) else source
        source = source.replace("ln((", "ln(")
        tree = ast.parse(source, mode="eval").body
        nodes = tree.elts if isinstance(tree, ast.Tuple) else [tree]
        for node, true in zip(nodes, truth if isinstance(truth, list) else [truth], strict=True):
            decimals = len((ast.get_source_segment(source, node) or "").partition(".")[2])
            found = number(node)
            rounded = isinstance(node, ast.Constant) and decimals >= 4
            slack = 0.5 * 10.0**-decimals if rounded else 0.0 if isinstance(true, Fraction) else 1e-12
            assert abs(float(found - true)) <= slack, f"{text}: {side} is {float(found)} and should be {float(true)}"


# The truth: all labellings, in fractions


@cache
def total(first: int, last: int, *where: tuple[int, int], counted: bool = False) -> Fraction:
    """Σ of e^score over the labellings of the positions first … last that agree with `where`; or of e^score · count."""
    sum_ = Fraction(0)
    for path in product(LABELS, repeat=last - first + 1):
        at = dict(zip(range(first, last + 1), path, strict=True))
        if all(at[t] == label for t, label in where):
            weight = Fraction(math.prod(STATE[t][at[t]] for t in at))
            weight *= math.prod(EDGE[at[t - 1]][at[t]] for t in at if t > first)
            count = sum(ATTRIBUTE[t] == "a" and at[t] == 0 for t in at)
            sum_ += weight * (count if counted else 1)
    return sum_


Z = total(1, T)
COUNT = total(1, T, counted=True) / Z


def alpha(t: int, j: int) -> Fraction:
    return total(1, t, (t, j))


def predicted(t: int, j: int) -> Fraction:
    return alpha(t, j) / STATE[t][j]


def gamma(t: int, j: int) -> Fraction:
    return total(1, T, (t, j)) / Z


def given(i: int, b: int, f: int, t: int, first: int = 1) -> Fraction:
    """Pr(y_b = i | y_t = f, x up to t), in a chain that begins at `first`."""
    return total(first, t, (b, i), (t, f)) / total(first, t, (t, f)) if b < t else Fraction(i == f)


def expected(t: int, f: int) -> Fraction:
    """G_t[f]"""
    return total(1, t, (t, f), counted=True) / total(1, t, (t, f))


def mean(t: int, i: int) -> Fraction:
    """γ̂ of the boundary 2, its horizon being t."""
    return total(1, t, (2, i)) / total(1, t)


def apart(one: Fraction, other: Fraction) -> Fraction:
    return max(one, other) / min(one, other) - 1


def certified(b: int, t: int, first: int = 1) -> Fraction:
    return max(apart(given(i, b, 0, t, first), given(i, b, 1, t, first)) for i in LABELS)


def truths() -> dict[str, Number | list[Number]]:
    both: dict[str, Callable[[int, int], Fraction]] = {
        "predicted_{}": predicted,
        "α_{}": alpha,
        f"{Z}·γ_{{}}": lambda t, j: Z * gamma(t, j),
        f"{Z}·v_{{}}": lambda t, j: Z * gamma(t, j) / predicted(t, j),
        "h_{}": lambda t, j: total(1, t, (t, j), counted=True),
        "α̂_{}": lambda t, j: total(2, t, (t, j)),
    }
    named: dict[str, Number | list[Number]] = {
        name.format(t): [f(t, j) for j in LABELS]
        for name, f in both.items()
        for t in STATE
        if not (t == 1 and ("v_" in name or "α̂" in name))
    }
    share, halo_share = total(1, 4) / total(1, 3), total(2, 4) / total(2, 3)
    return named | {
        "Z": Z,
        "log Z": math.log(Z),
        "count": COUNT,
        "γ_1(0)": gamma(1, 0),
        "γ_3(0)": gamma(3, 0),
        "ξ_3(0,1)": total(1, T, (2, 0), (3, 1)) / Z,
        **{f"G_{t}[{f}]": expected(t, f) for t in (2, 4) for f in LABELS},
        "Σ γ̂ G_2": sum((mean(3, f) * expected(2, f) for f in LABELS), Fraction(0)),
        "error of log Z": math.log(halo_share) - math.log(share),
    }


def test_every_formula_is_true() -> None:
    truth, seen = truths(), set()
    for statement in [statement for line in FORMULAS for statement in line]:
        name, equals, sides = statement.partition("= ")
        assert equals, statement
        seen.add(name.strip())
        check(sides, truth[name.strip()])
    assert seen == set(truth)


def test_block_emp_is_true() -> None:
    for f in LABELS:
        pinned = {3: [given(i, 3, f, 4) for i in LABELS], 2: [given(i, 2, f, 4) for i in LABELS]}
        truth: dict[str, list[Number]] = {
            "v_4": [(j == f) / predicted(4, j) for j in LABELS],
            "γ_3": [*pinned[3]],
            "v_3": [pinned[3][j] / predicted(3, j) for j in LABELS],
            "Pr(e given f) at position 2": [*pinned[2]],
        }
        assert set(BLOCK_TABLE[str(f)]) == set(truth)
        for column, cell in BLOCK_TABLE[str(f)].items():
            check(cell, truth[column])


def test_the_certificate_is_true() -> None:
    for length, row in Q_TABLE.items():
        for i, f in PAIRS:
            check(row[f"Q({i} given {f})"], given(i, 2, f, 2 + int(length)))
        assert len(row) == len(PAIRS)
    assert set(Q_TABLE) == {"0", "1", "2"}
    for length, row in ERROR_TABLE.items():
        t = 2 + int(length)
        assert certified(2, t) == apart(given(0, 2, 0, t), given(0, 2, 1, t)), "label 0 has it"
        made = max(apart(mean(t, i), gamma(2, i)) for i in LABELS)
        worst = max(apart(mean(t, i), given(i, 2, f, t)) for i, f in PAIRS)
        assert made <= worst <= certified(2, t)
        truth = {"ε": certified(2, t), "error made": made, "worst error": worst}
        truth |= {f"γ̂({i})": mean(t, i) for i in LABELS}
        assert set(row) == set(truth)
        for column, cell in row.items():
            check(cell, truth[column])
    assert set(ERROR_TABLE) == {"1", "2"}


def test_the_halo_is_true() -> None:
    for at, row in HALO_TABLE.items():
        t = int(at)
        ratios = [alpha(t, j) / total(2, t, (t, j)) for j in LABELS]
        assert apart(*ratios) <= certified(2, t, first=2)
        truth = {"ε": certified(2, t, first=2), "apart by": apart(*ratios)}
        truth |= {f"α({j}) / α̂({j})": ratios[j] for j in LABELS}
        truth |= {f"Q̂({i} given {f})": given(i, 2, f, t, first=2) for i, f in PAIRS}
        assert set(row) == set(truth)
        for column, cell in row.items():
            check(cell, truth[column])
    assert set(HALO_TABLE) == {"3", "4"}


def lookahead(states: list[list[int]]) -> int:
    """Positions that it takes from the boundary 2 to 1e-12, the given state potentials coming round and round."""
    edge, q, a = np.array(EDGE, float), np.eye(2), np.array([float(alpha(2, j)) for j in LABELS])
    for length in range(1, 100):
        prediction = a @ edge
        q = q @ (a[:, None] * edge / prediction)
        a = prediction * states[length % len(states)]
        a /= a.sum()
        if (q.max(axis=1) / q.min(axis=1)).max() - 1.0 <= 1e-12:
            return length
    raise AssertionError


def test_the_numbers_of_the_prose_are_true() -> None:
    small = {str(k) for k in range(T + 1)}
    numbers = [n for n in re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?:e-\d+)?(?:/\d+)?", PROSE) if n not in small]
    factor = (mean(3, 0) * expected(2, 0) + mean(3, 1) * expected(2, 1)) / gamma(1, 0)
    eigenvalues = np.linalg.eigvalsh(np.array(EDGE, float))
    assert eigenvalues[0] / eigenvalues[1] == pytest.approx(1 / 3)
    assert numbers == [
        *[str(Z)] * 2,
        f"{float(factor):.4f}",
        f"{Settings().tolerance:.0e}",
        str(lookahead([STATE[2], STATE[1]])),
        "1/3",
        str(lookahead([[1, 1]])),
        "/".join(str(total(2, t)) for t in (4, 3)),
        "/".join(str(total(1, t)) for t in (4, 3)),
    ]
    where = " and ".join(str(t) for t in STATE if ATTRIBUTE[t] == "a")
    assert re.findall(r"at positions (\d and \d)", PROSE) == [where, where]
    assert [Z * (gamma(t, 0) + gamma(t, 1)) for t in STATE] == [Z] * T, "each γ adds up"


# The program on the same example


def example() -> tuple[Model, Chain]:
    """With the weights that the prose gives."""
    said = re.search(
        r"ln (\d) for attribute a with label 0, ln (\d) for attribute b with label 1, ln (\d) for staying "
        r"\(0 to 0 and 1 to 1\), and 0 for all else",
        PROSE,
    )
    assert said
    a, b, stay = (math.log(int(n)) for n in said.groups())
    model = Model(Layout.full(2, 2), np.array([a, 0.0, 0.0, b, stay, 0.0, 0.0, stay]))
    ids = ["ab".index(ATTRIBUTE[t]) for t in STATE]
    return model, Chain.from_arrays(offsets=np.arange(T + 1), ids=ids, n_labels=2, n_attributes=2)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_finds_the_example(engine: str) -> None:
    model, chain = example()
    found = log_likelihood(model, chain, engine, block=2)
    assert found.log_z == pytest.approx(math.log(Z), rel=ORACLE)
    assert found.expected[0] == pytest.approx(float(COUNT), rel=ORACLE)


def test_the_program_carries_and_finds_the_same() -> None:
    found = log_likelihood(*example(), "stream", block=1, lookahead=1)
    assert found.report.carried_blocks > 0
    assert found.expected[0] == pytest.approx(float(COUNT), rel=ORACLE)
    posteriors = [[float(gamma(t, j)) for j in LABELS] for t in STATE]
    np.testing.assert_allclose(marginals(*example()), posteriors, rtol=ORACLE)


@pytest.mark.parametrize("length", [1, 2])
@pytest.mark.parametrize("first", [1, 2], ids=["certificate", "halo"])
def test_the_program_has_the_same_q(first: int, length: int) -> None:
    problem = Problem(*example(), Settings())
    source = WeightSource(problem)
    t = 2 + length
    begun = problem.read(first - 1, 2)
    begun = begun._replace(starts=frozen([True, False][: begun.labels.size], np.bool_))
    belief: Belief = BlockPass(source).forward(first - 1, begun, None)
    block_pass, certificate = BlockPass(source), Certificate(source.transitions.width, 1e-12)
    belief = block_pass.forward(2, problem.read(2, t), belief)
    certificate.extend(block_pass.lattice())
    truth = [[float(given(i, 2, f, t, first)) for f in LABELS] for i in LABELS]
    np.testing.assert_allclose(certificate.q[:2, :2], truth, rtol=ORACLE)
    vector = [float(total(first, t, (t, j)) / total(first, t)) for j in LABELS]
    np.testing.assert_allclose(belief.posterior()[:2], vector, rtol=ORACLE)


# The claims, where the error is large enough to be seen

TOLERANCE = 1e-2


def forgetful(kind: str, positions: int) -> tuple[Model, Chain]:
    """A chain that takes some positions to forget."""
    random = np.random.default_rng(3)
    moves = np.array([[1.5, 0.0, -0.5], [-0.5, 1.0, 0.5], [0.0, -1.0, 1.5]])
    state = random.normal(0.0, 0.5, (40, 3))
    if kind == "forbidden":
        moves[0, 2] = moves[1, 0] = -np.inf
        state[::7, 1] = -np.inf
    chain = Chain.from_arrays(
        offsets=np.arange(positions + 1),
        ids=random.integers(0, 40, positions),
        values=random.choice([-1.0, 1.0], positions) if kind == "both signs" else None,
        starts=random.random(positions) < 0.01 if kind == "start marks" else None,
        n_labels=3,
        n_attributes=40,
    )
    return Model(Layout.full(3, 40), np.concatenate([state.ravel(), moves.ravel()])), chain


KINDS = ["plain", "forbidden", "start marks", "both signs"]


@pytest.mark.parametrize(("engine", "factors"), [("stream", 1), ("parallel", 3)])
@pytest.mark.parametrize("kind", KINDS)
def test_counts_are_within_the_factor_claimed(kind: str, engine: str, factors: int) -> None:
    model, chain = forgetful(kind, 20_000 if engine == "parallel" else 3_000)
    truth = log_likelihood(model, chain, "fb")
    found = log_likelihood(model, chain, engine, block=1500 if engine == "parallel" else 2, tolerance=TOLERANCE)
    bound = (1.0 + TOLERANCE) ** factors - 1.0
    size = truth.expected
    if kind == "both signs":  # what the counts would be with |f|
        posteriors = marginals(model, chain)
        size = np.zeros((40, 3))
        np.add.at(size, chain.ids, posteriors)
        size = np.concatenate([size.ravel(), truth.expected[120:]])
    error = np.abs(found.expected - truth.expected)
    assert (error <= bound * size + FLOOR).all()
    assert error.max() > 1e-9, "there is an error to be seen"
    cuts = STRETCHES - 1 if engine == "parallel" else 0
    assert abs(found.log_z - truth.log_z) <= cuts * TOLERANCE + ORACLE
    assert found.report.carried_blocks == found.report.in_order == 0


def test_what_underflows_is_as_small_as_the_page_says() -> None:
    most = math.exp(EDGE_RANGE)
    least_sum = re.search(r" LEAST_SUM = (\S+?),", (ROOT / "src" / "core" / "forward.hpp").read_text())
    assert least_sum
    share = np.finfo(np.float64).tiny * most / float(least_sum[1])  # of the largest α
    said = re.search(r"less than (\S+) of the largest, and a posterior\s+below (\S+):", section("Range"))
    any_past = re.search(r"posterior\s+is\s+below\s+(\S+)\s+for\s+any\s+past", section("Halos"))
    assert said
    assert any_past
    assert share < float(said[1])
    assert share * most < float(said[2])
    assert share * most**2 < float(any_past[1])
