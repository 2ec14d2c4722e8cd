"""`chainfold explain`: tables and JSON of the terms behind a label."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

import chainfold as cf
from verbs import conll, succeeded


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("explain")
    rows = conll(made / "rows", count=30)
    succeeded("train", rows, "-o", made / "model", "--columns", "w,s,t", "--attributes", "w[-1] w", "--scheme", "BIO")
    return made


def test_json_has_all_terms_with_rows_from_1(folder: Path) -> None:
    lines = succeeded("explain", folder / "model", folder / "rows", "--json").splitlines()
    first_sequence = (folder / "rows").read_text().split("\n\n")[0].splitlines()
    explained = [json.loads(line) for line in lines]
    assert [facts["position"] for facts in explained] == list(range(1, len(first_sequence) + 1))
    model = cf.open_model(folder / "model")
    own = cf.explain(model, cf.open_chain(folder / "model.chain"), range(len(first_sequence)))
    for facts, explanation in zip(explained, own, strict=True):
        assert (facts["label"], facts["other"], facts["start"]) == (explanation.label, explanation.other, 1)
        assert facts["difference"] == explanation.difference
        total = math.fsum(term["contribution"] for term in facts["terms"])
        assert total == pytest.approx(facts["difference"], abs=1e-12)
        assert [term["position"] - 1 for term in facts["terms"]] == [term.position for term in explanation.terms]
        assert facts["changed"] == [place + 1 for place in explanation.changed]


def test_a_table_shows_the_largest_terms_and_their_sum(folder: Path) -> None:
    table = succeeded("explain", folder / "model", folder / "rows", "--position", 2, "--top", 1).decode()
    explanation = cf.explain(cf.open_model(folder / "model"), cf.open_chain(folder / "model.chain"), [1])[0]
    assert f"row 2: {explanation.label}, next best {explanation.other}" in table
    rows = [line.strip("│").split("│") for line in table.splitlines() if line.startswith("│")]
    cells = [[cell.strip() for cell in row] for row in rows]
    assert cells[0][-1] == f"{explanation.strongest(1)[0].contribution:+.4f}"
    assert cells[1][0] == f"{len(explanation.terms) - 1} more"
    assert cells[2][0] == "sum"
    assert cells[2][-1] == f"{explanation.difference:+.4f}"
    assert float(cells[0][-1]) + float(cells[1][-1]) == pytest.approx(explanation.difference, abs=2e-4)


def test_constraints_may_leave_one_label(folder: Path) -> None:
    rules = [rule for label in ("B-X", "I-X") for rule in ("--forbid", f"^>{label}")]
    table = succeeded("explain", folder / "model", folder / "rows", "--position", 1, *rules).decode()
    assert "no other label is possible" in table
    facts = json.loads(succeeded("explain", folder / "model", folder / "rows", "--position", 1, "--json", *rules))
    assert (facts["other"], facts["difference"], facts["terms"]) == (None, None, [])
