"""The ledger and the runner: what is finished is stored at once, what is left is measured, damage is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chainfold.errors import BadFile, ChainfoldError
from chainfold.system.outputs import claimed
from experiments.ledger import Ledger
from experiments.runner import RunPiece, new_display, run_pieces


def test_an_interrupted_run_continues_with_the_next_piece(tmp_path: Path) -> None:
    path, calls = tmp_path / "made" / "results.json", list[str]()

    def piece(key: str, error: type[BaseException] | None = None) -> RunPiece:
        def measure(done: object) -> dict[str, list[str]]:
            if error:
                raise error
            calls.append(key)
            return {"calls": list(calls)}

        return RunPiece(key, key, 1.0, measure)

    with pytest.raises(KeyboardInterrupt):
        run_pieces([piece("a"), piece("b", KeyboardInterrupt), piece("c")], Ledger(path, {}), new_display())
    second = Ledger(path, {})
    assert (second.pieces, second.left) == ({"a": {"calls": ["a"]}}, ["b", "c"])
    finished: list[str] = []
    run_pieces([piece(key) for key in second.left], second, new_display(), lambda key, result: finished.append(key))
    assert finished == ["b", "c"]
    third = Ledger(path, {})
    assert (list(third.pieces), third.left) == (["a", "b", "c"], [])
    third.begin(["a"])
    assert Ledger(path, {}).left == ["a"]
    assert Ledger(path, {}).pieces["a"] == {"calls": ["a"]}, "until it is measured again"
    fresh = Ledger(path, {}, fresh=True)
    assert (fresh.pieces, fresh.left) == ({}, [])


def test_other_results_are_refused_unless_they_are_comparable(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    Ledger(path, {"sizes": (1, 2), "date": 1}).add("a", {})
    assert Ledger(path, {"sizes": (1, 2), "date": 2}, comparable=lambda about: about["sizes"]).pieces == {"a": {}}
    before = path.read_bytes()
    with pytest.raises(BadFile, match="of other sizes, data or versions; give another --out, or --fresh"):
        Ledger(path, {"sizes": (1, 3), "date": 1})
    assert path.read_bytes() == before
    for damaged in (before[:-20], b"[]", b'{"pieces": 1}', before.replace(b'"format": 1', b'"format": 0')):
        path.write_bytes(damaged)
        with pytest.raises(BadFile, match="is damaged or has another format; discard it with --fresh"):
            Ledger(path, {"sizes": (1, 2), "date": 1})
    path.unlink()
    path.mkdir()
    with pytest.raises(BadFile, match="cannot be read"):
        Ledger(path, {})


def test_one_process_at_a_time_writes_to_a_ledger(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    with claimed([path], []), pytest.raises(ChainfoldError):
        run_pieces([], Ledger(path, {}), new_display())
    assert not path.exists()


def test_the_display_tells_each_piece_and_what_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    display = new_display()
    display.total(260.0)
    for title, seconds in (("first", 200.0), ("second", 60.0)):
        with display.doing(title, seconds):
            display.detail("half")
    assert capsys.readouterr().err.splitlines()[0] == "about 4 min left: first"


def test_documents_have_ledgers() -> None:
    for name in ("paper", "benchmarks"):
        stored = json.loads((Path(__file__).parents[2] / "docs" / name / "results.json").read_text())
        assert set(stored) == {"format", "about", "left", "pieces"}
        assert stored["left"] == []
