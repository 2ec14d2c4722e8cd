"""A gradient in pieces, put aside in a file between them, is that of the whole chain to the last bit."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shapes
from chainfold import (
    Chain,
    ChainfoldError,
    Evaluation,
    Layout,
    Model,
    PiecewiseGradient,
    SyntheticChain,
    log_likelihood,
    open_chain,
    save_model,
    write_chain,
)
from chainfold.chain.block import Block, Source, frozen, join_blocks
from chainfold.features.encode import chain_from_sequences
from engines.test_never_forget import UNFORGETTING
from engines.test_never_forget import problem as unforgetting
from engines.test_position_weights import WEIGHTS
from processes import chainfold, command, running, wait_until_busy
from test_real_data import DATA, kdd
from verbs import failed, sentences, succeeded

SETTINGS: list[dict[str, Any]] = [{"block": 1, "lookahead": 1}, {"block": 3}, {"block": 2, "lookahead": 5}, {}]


def pieces(chain: Chain, places: list[int]) -> Iterator[Chain]:
    """The chain cut before each place; each piece begins as the chain goes on there."""
    for low, high in itertools.pairwise([0, *places, chain.positions]):
        yield piece(chain, low, high)


def piece(source: Source, low: int, high: int) -> Chain:
    rows = join_blocks([source.block(low, high)])
    return Chain(*rows, source.n_labels, source.n_attributes, source.n_edge_attributes)


def in_pieces(model: Model, chain: Chain, places: list[int], token: Path, saves: Any, **settings: Any) -> Evaluation:
    part = PiecewiseGradient(model, **settings)
    for k, some in enumerate(pieces(chain, places)):
        part.add(some)
        if saves(k):
            part.save(token)
            part = PiecewiseGradient.load(token, model)
    assert part.positions == chain.positions
    return part.finish()


def same(found: Evaluation, whole: Evaluation) -> None:
    """To the last bit."""
    assert found.log_z == whole.log_z
    assert found.log_likelihood == whole.log_likelihood
    assert found.report == whole.report
    assert found.expected.tobytes() == whole.expected.tobytes()
    assert (found.gradient is None) == (whole.gradient is None)
    if found.gradient is not None and whole.gradient is not None:
        assert found.gradient.tobytes() == whole.gradient.tobytes()


def solved(name: str) -> tuple[Model, Chain, np.random.Generator]:
    random = shapes.generator(name)
    return *shapes.CASES[name](random), random


def check(model: Model, chain: Chain, random: np.random.Generator, token: Path, **settings: Any) -> None:
    """One position at a time, and cut anywhere."""
    whole = log_likelihood(model, chain, "stream", **settings)
    same(in_pieces(model, chain, list(range(1, chain.positions)), token, lambda k: k % 2, **settings), whole)
    inner = np.arange(1, chain.positions)
    places = sorted(random.choice(inner, min(2, inner.size), replace=False).tolist())
    same(in_pieces(model, chain, places, token, lambda k: True, **settings), whole)


@pytest.mark.parametrize("case", shapes.CASES)
def test_every_shape_cut_anywhere(case: str, tmp_path: Path) -> None:
    model, chain, random = solved(case)
    for settings in SETTINGS:
        check(model, chain, random, tmp_path / "token", **settings)


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("case", ["3 labels", "start marks in pairs", "edge attributes", "weights of 50"])
def test_weights(case: str, kind: str, tmp_path: Path) -> None:
    model, chain, random = solved(case)
    number = np.cumsum(chain.starts)
    chain = replace(chain, weights=frozen(WEIGHTS[kind](random, number[-1] + 1)[number], np.float64))
    for settings in SETTINGS[:2]:
        check(model, chain, random, tmp_path / "token", **settings)


@pytest.mark.parametrize("case", ["3 labels", "start marks in pairs", "start marks at the ends", "edge attributes"])
def test_labels_that_may_not_start_or_end_a_sequence(case: str, tmp_path: Path) -> None:
    model, chain, random = solved(case)
    chain = replace(chain, labels=frozen(np.zeros(chain.positions), np.int32))
    model = replace(model, first=np.arange(3) < 2, last=np.arange(3) != 1)
    for settings in SETTINGS:
        check(model, chain, random, tmp_path / "token", **settings)


@pytest.mark.parametrize("starts", [False, True], ids=["one sequence", "several"])
@pytest.mark.parametrize("name", UNFORGETTING)
def test_chains_that_never_forget(name: str, starts: bool, tmp_path: Path) -> None:
    model, chain = unforgetting(*UNFORGETTING[name], positions=5000, starts=starts)
    settings: dict[str, Any] = {"block": 100, "lookahead": 200}
    whole = log_likelihood(model, chain, "stream", **settings)
    assert whole.report.carried_blocks > 0
    places = sorted(np.random.default_rng(0).choice(np.arange(1, 5000), 6, replace=False).tolist())
    same(in_pieces(model, chain, places, tmp_path / "token", lambda k: True, **settings), whole)


def long_chain(random: np.random.Generator, positions: int, often: float) -> tuple[Model, Chain]:
    starts = random.random(positions) < often
    source = shapes.chain(random, positions, 3, 40, starts=starts, values="one")
    return shapes.model(random, source, 0.5, Layout.observed(source)), source


@pytest.mark.parametrize("often", [0.05, 0.0005, 0.0], ids=["sentences", "long and short", "one sequence"])
def test_long_chains(often: float, tmp_path: Path) -> None:
    """Whole sequences go together here, and sums are folded on the way."""
    random = np.random.default_rng(1)
    model, chain = long_chain(random, 90_000, often)
    whole = log_likelihood(model, chain, "stream")
    starts = np.flatnonzero(chain.starts)
    places = sorted({*random.integers(1, 90_000, 5).tolist(), int(starts[starts.size // 2]), 40_000, 40_001} - {0})
    same(in_pieces(model, chain, places, tmp_path / "token", lambda k: True), whole)
    same(in_pieces(model, chain, places, tmp_path / "token", lambda k: False), whole)


def test_little_memory(tmp_path: Path) -> None:
    """The block is chosen for the attributes a position has; where they are the same, it is the same block."""
    random = np.random.default_rng(2)
    chain = Chain.from_arrays(
        offsets=2 * np.arange(8001), ids=random.integers(0, 5, 16_000), labels=random.integers(0, 3, 8000)
    )
    model = shapes.model(random, chain, 0.2)
    whole = log_likelihood(model, chain, "stream", memory=200_000)
    assert whole.report.blocks > 10
    same(in_pieces(model, chain, [777, 778, 5000], tmp_path / "token", lambda k: True, memory=200_000), whole)
    with pytest.raises(ChainfoldError, match="needs about"):
        PiecewiseGradient(model, memory=1000).add(chain)


def test_a_piece_that_continues_whatever_its_mark_says() -> None:
    model, chain, _ = solved("3 labels")
    part = PiecewiseGradient(model)
    for k, some in enumerate(pieces(chain, [2, 3])):
        marked = frozen(np.append(True, some.starts[1:]), np.bool_)
        part.add(replace(some, starts=marked), continues=k > 0)
    same(part.finish(), log_likelihood(model, chain))


def test_without_values_or_edge_attributes_among_others() -> None:
    model, chain, _ = solved("edge attributes")
    low, high = pieces(chain, [3])
    bare = replace(low, values=low.values[:0], edge_offsets=low.edge_offsets[:0], edge_ids=low.edge_ids[:0])
    bare = replace(bare, edge_values=low.edge_values[:0], n_edge_attributes=0)
    part = PiecewiseGradient(model)
    part.add(bare)
    part.add(high)
    full = replace(
        chain,
        values=frozen(np.append(np.ones(low.values.size), high.values), np.float64),
        edge_offsets=frozen(np.append(np.zeros(3), high.edge_offsets), np.int64),
        edge_ids=high.edge_ids,
        edge_values=high.edge_values,
    )
    found, whole = part.finish(), log_likelihood(model, full)
    np.testing.assert_array_equal(found.expected, whole.expected)
    assert found.log_likelihood == whole.log_likelihood


def test_a_label_that_turns_out_unknown_leaves_the_expected_counts(tmp_path: Path) -> None:
    model, chain, _ = solved("3 labels")
    labels = np.where(np.arange(chain.positions) == 5, -1, chain.labels)
    chain = replace(chain, labels=frozen(labels, np.int32))
    for settings, saved in itertools.product(SETTINGS, (True, False)):
        found = in_pieces(model, chain, [2, 4, 6], tmp_path / "token", lambda k, saved=saved: saved, **settings)
        same(found, log_likelihood(model, chain, **settings))
        assert found.gradient is None


def test_not_to_observe_is_remembered(tmp_path: Path) -> None:
    model, chain, _ = solved("3 labels")
    found = in_pieces(model, chain, [2, 4], tmp_path / "token", lambda k: True, observe=False)
    same(found, log_likelihood(model, chain, observe=False))


class Watched:
    """A source that tells what is read of it, and whether it ever goes far back."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.most = self.furthest = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def block(self, low: int, high: int) -> Block:
        assert low >= self.furthest - 20_000, "a pipe would not have it any more"
        self.furthest, self.most = max(self.furthest, low), max(self.most, high - low)
        return self._source.block(low, high)


def test_a_long_piece_is_never_gathered(tmp_path: Path) -> None:
    chain = SyntheticChain(300_000, 3, 10, 2, seed=4)
    model = Model.random(Layout.full(3, 10))
    watched = Watched(chain)
    part = PiecewiseGradient(model)
    part.add(piece(chain, 0, 100))
    part.add(piece(chain, 100, 300_000 - 50))
    same_piece = PiecewiseGradient(model)
    same_piece.add(watched)
    assert watched.most <= 20_000
    part.add(piece(chain, 300_000 - 50, 300_000))
    same_piece.save(tmp_path / "token")
    assert (tmp_path / "token").stat().st_size < 1_000_000
    whole = log_likelihood(model, chain)
    same(part.finish(), whole)
    same(same_piece.finish(), whole)


def test_the_same_state_is_the_same_file(tmp_path: Path) -> None:
    model, chain, _ = solved("no attributes anywhere")
    for name, places in (("a", [1, 2, 3]), ("b", [5])):
        part = PiecewiseGradient(model, block=2)
        for some in pieces(chain, places):
            part.add(some)
        part.save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_what_cannot_be_is_one_sentence(tmp_path: Path) -> None:
    model, chain, _ = solved("3 labels")
    weighted = replace(chain, weights=frozen(np.ones(chain.positions), np.float64))
    part = PiecewiseGradient(model)
    for act in (part.finish, lambda: part.save(tmp_path / "token")):
        with pytest.raises(ChainfoldError, match="no positions"):
            act()
    with pytest.raises(ChainfoldError, match="the first piece cannot continue"):
        part.add(chain, continues=True)
    part.add(chain)
    with pytest.raises(ChainfoldError, match="only one side has weights"):
        part.add(weighted)
    part.add(chain)
    part.finish()
    for act in (part.finish, lambda: part.save(tmp_path / "token"), lambda: part.add(chain)):
        with pytest.raises(ChainfoldError, match="is finished"):
            act()
    part = PiecewiseGradient(model)
    part.add(weighted)
    with pytest.raises(ChainfoldError, match="only one side has weights"):
        part.add(chain)
    with pytest.raises(ChainfoldError, match="the model knows"):
        part.add(shapes.chain(np.random.default_rng(0), 3, 9))
    assert not (tmp_path / "token").exists()


def test_a_piece_that_fails_is_not_gone_on_with(tmp_path: Path) -> None:
    model, chain, _ = solved("3 labels")
    part = PiecewiseGradient(model, block=1)
    part.add(chain)
    part.save(tmp_path / "token")
    before = (tmp_path / "token").read_bytes()
    values = np.where(np.arange(chain.values.size) < chain.offsets[3], 1.0, np.inf)
    endless = replace(chain, values=frozen(values, np.float64))
    with pytest.raises(ChainfoldError, match=f"position {chain.positions + 3}"):
        part.add(endless)
    for act in (lambda: part.add(chain), part.finish, lambda: part.save(tmp_path / "token")):
        with pytest.raises(ChainfoldError, match="not worked through"):
            act()
    assert (tmp_path / "token").read_bytes() == before
    resumed = PiecewiseGradient.load(tmp_path / "token", model)
    assert resumed.positions == chain.positions
    same(resumed.finish(), log_likelihood(model, chain, block=1))


def test_another_model_is_refused(tmp_path: Path) -> None:
    model, chain, _ = solved("sparse layout")
    part = PiecewiseGradient(model)
    part.add(chain)
    part.save(tmp_path / "token")
    weights = model.weights.copy()
    weights[3] = np.nextafter(weights[3], 1.0)
    labels = model.layout.row_labels
    assert labels is not None
    others = [
        replace(model, weights=weights),
        replace(model, first=np.arange(4) < 3),
        replace(model, last=np.arange(4) < 3),
        replace(model, layout=replace(model.layout, row_labels=labels[::-1].copy())),
    ]
    for other in others:
        with pytest.raises(ChainfoldError, match="another model"):
            PiecewiseGradient.load(tmp_path / "token", other)
    PiecewiseGradient.load(tmp_path / "token", replace(model, training={"said": "nothing that matters"}))


def test_a_damaged_token_is_one_sentence(tmp_path: Path) -> None:
    model, chain, random = solved("3 labels")
    part = PiecewiseGradient(model, block=2)
    part.add(chain)
    part.save(tmp_path / "token")
    content = (tmp_path / "token").read_bytes()
    for at in [*random.integers(0, len(content), 30).tolist(), len(content) - 1]:
        broken = bytearray(content)
        broken[at] ^= 1 << int(random.integers(8))
        (tmp_path / "token").write_bytes(broken)
        with pytest.raises(ChainfoldError):
            PiecewiseGradient.load(tmp_path / "token", model)
    for size in (0, 7, len(content) // 2, len(content) - 1):
        (tmp_path / "token").write_bytes(content[:size])
        with pytest.raises(ChainfoldError, match="cut short or damaged"):
            PiecewiseGradient.load(tmp_path / "token", model)
    with pytest.raises(ChainfoldError, match="no such file"):
        PiecewiseGradient.load(tmp_path / "nothing", model)


@pytest.fixture
def stored(tmp_path: Path) -> tuple[Model, Path, list[Path]]:
    """A model in a file, and a chain of sentences in three that are cut inside a sentence."""
    whole = chain_from_sequences(
        [[{word, shape} for word, shape, _ in rows] for rows in sentences(60)],
        [[tag for *_, tag in rows] for rows in sentences(60)],
    )
    assert whole.vocabulary is not None
    model = replace(Model.random(Layout.observed(whole)), vocabulary=whole.vocabulary)
    save_model(tmp_path / "model", model)
    write_chain(tmp_path / "whole.chain", whole)
    places = [int(place) for place in np.flatnonzero(~whole.starts)[[40, 200]]]
    parts = [tmp_path / f"{k}.chain" for k in range(3)]
    for part, some in zip(parts, pieces(whole, places), strict=True):
        marked = replace(some, starts=frozen(np.append(True, some.starts[1:]), np.bool_))
        write_chain(part, marked.with_vocabulary(whole.vocabulary))
    return model, tmp_path / "whole.chain", parts


def test_the_verb_goes_on_from_its_token(stored: tuple[Model, Path, list[Path]], tmp_path: Path) -> None:
    _, chain, parts = stored
    options = ("--model", tmp_path / "model", "--json")
    whole = json.loads(succeeded("gradient", chain, *options, "--output", tmp_path / "whole.npy"))
    ongoing = (*options, "--token", tmp_path / "token")
    first = json.loads(succeeded("gradient", parts[0], *ongoing))
    assert first["bytes"] == (tmp_path / "token").stat().st_size
    second = json.loads(succeeded("gradient", parts[1], *ongoing, "--continues"))
    assert 0 < first["positions"] < second["positions"] < whole["positions"]
    token = (tmp_path / "token").read_bytes()
    for _ in range(2):
        last = json.loads(
            succeeded("gradient", parts[2], *ongoing, "--continues", "--last", "--output", tmp_path / "last.npy")
        )
        for name in ("positions", "log_z", "log_likelihood", "gradient_sha256", "blocks", "bytes_read"):
            assert last[name] == whole[name]
        assert (tmp_path / "token").read_bytes() == token, "the last piece can be done again"
    np.testing.assert_array_equal(np.load(tmp_path / "last.npy"), np.load(tmp_path / "whole.npy"))
    text = succeeded("gradient", chain, "--model", tmp_path / "model", "--token", tmp_path / "token").decode()
    assert "positions so far" in text


def test_the_verb_takes_a_piece_from_a_pipe(stored: tuple[Model, Path, list[Path]], tmp_path: Path) -> None:
    _, chain, _ = stored
    options = ("--model", tmp_path / "model", "--token", tmp_path / "token", "--json")
    pipe = io.BytesIO()
    write_chain(pipe, open_chain(chain))
    succeeded("gradient", "-", *options, given=pipe.getvalue())
    succeeded("gradient", chain, *options[:3], tmp_path / "other", "--json")
    assert (tmp_path / "token").read_bytes() == (tmp_path / "other").read_bytes()


def test_the_verb_says_what_cannot_be(stored: tuple[Model, Path, list[Path]], tmp_path: Path) -> None:
    model, chain, _ = stored
    modelled = ("--model", tmp_path / "model")
    token = ("--token", tmp_path / "token")
    other = replace(model, weights=model.weights + 1.0)
    save_model(tmp_path / "other", other)
    assert "no such file" in failed("gradient", chain, *modelled, *token, "--last")
    assert "the first piece cannot continue" in failed("gradient", chain, *modelled, *token, "--continues")
    assert not (tmp_path / "token").exists()
    succeeded("gradient", chain, *modelled, *token)
    before = (tmp_path / "token").read_bytes()
    assert "require --token FILE" in failed("gradient", chain, *modelled, "--last")
    assert "require --token FILE" in failed("gradient", chain, *modelled, "--continues")
    assert "--token requires --model" in failed("gradient", chain, *token)
    assert "requires --engine stream" in failed("gradient", chain, *modelled, *token, "--engine", "parallel")
    assert "before the last piece" in failed("gradient", chain, *modelled, *token, "-o", tmp_path / "g.npy")
    assert "another model" in failed("gradient", chain, "--model", tmp_path / "other", *token)
    assert "begun with --block None, not 7" in failed("gradient", chain, *modelled, *token, "--block", 7)
    assert "also an input" in failed("gradient", chain, *modelled, "--token", chain)
    assert "also an input" in failed("gradient", chain, *modelled, "--token", tmp_path / "model")
    assert "two outputs" in failed("gradient", chain, *modelled, *token, "--last", "-o", tmp_path / "token")
    assert "not a resume token" in failed("gradient", chain, *modelled, "--token", tmp_path / "other")
    assert (tmp_path / "token").read_bytes() == before
    (tmp_path / "token").write_bytes(before[:-1])
    assert "cut short or damaged" in failed("gradient", chain, *modelled, *token)


def test_the_verb_knows_labels_that_may_not_start_or_end_a_sequence(tmp_path: Path) -> None:
    """Whatever stands where it is cut: only a sequence has ends."""
    chain = Chain.from_arrays(offsets=np.arange(6), ids=np.zeros(5, int), labels=[0, 1, 1, 1, 0])
    ends = np.array([True, False])
    model = replace(Model.random(Layout.full(2, 1)), first=ends, last=ends)
    save_model(tmp_path / "model", model)
    write_chain(tmp_path / "whole.chain", chain)
    options = ("--model", tmp_path / "model", "--json")
    whole = json.loads(succeeded("gradient", tmp_path / "whole.chain", *options))
    assert whole["log_likelihood"] == log_likelihood(model, chain).log_likelihood
    for k, some in enumerate(pieces(chain, [2, 3])):
        write_chain(tmp_path / "part.chain", replace(some, starts=frozen(np.arange(some.positions) == 0, np.bool_)))
        said = ["--continues"] * (k > 0) + ["--last"] * (k == 2)
        last = succeeded("gradient", tmp_path / "part.chain", *options, "--token", tmp_path / "token", *said)
    assert json.loads(last)["gradient_sha256"] == whole["gradient_sha256"]


def test_a_kill_in_the_middle_leaves_the_old_token(tmp_path: Path) -> None:
    model = Model.random(Layout.full(3, 10))
    save_model(tmp_path / "model", model)
    part = PiecewiseGradient(model)
    part.add(SyntheticChain(20_000, 3, 10, 2))
    part.save(tmp_path / "token")
    before = (tmp_path / "token").read_bytes()
    verb = ["gradient", "--synthetic", "3000000000:3:10:2", "--model", "model", "--token", "token"]
    with running(command(*verb), cwd=tmp_path) as process:
        wait_until_busy(process)
    assert (tmp_path / "token").read_bytes() == before
    assert [path.name for path in tmp_path.glob(".token*")] == [".token.lock"]  # which the next run takes over


@pytest.mark.data
@pytest.mark.skipif(not DATA.exists(), reason=f"the real data sets are not in {DATA}; set CHAINFOLD_DATA")
def test_kdd_in_three_processes(tmp_path: Path) -> None:
    chain = kdd(tmp_path)
    assert chain.vocabulary is not None
    save_model(tmp_path / "model", replace(Model.random(Layout.observed(chain)), vocabulary=chain.vocabulary))
    found: dict[str, Any] = {}
    for k, some in enumerate(pieces(chain, [20_001, 47_777])):
        marked = replace(some, starts=frozen(np.append(True, some.starts[1:]), np.bool_))
        write_chain(tmp_path / "part.chain", marked.with_vocabulary(chain.vocabulary))
        verb = ["gradient", "part.chain", "--model", "model", "--token", "token", "--json"]
        verb += ["--continues"] * (k > 0) + ["--last"] * (k == 2)
        done = chainfold(*verb, cwd=tmp_path)
        found = json.loads(done.stdout)
    whole = json.loads(succeeded("gradient", tmp_path / "kdd.chain", "--model", tmp_path / "model", "--json"))
    for name in ("positions", "log_z", "log_likelihood", "gradient_sha256", "blocks", "lookahead_max"):
        assert found[name] == whole[name]
