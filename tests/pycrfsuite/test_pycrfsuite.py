"""chainfold.pycrfsuite beside python-crfsuite: the same labels, probabilities, weights, logs and errors."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pycrfsuite._dumpparser import CRFsuiteDumpParser
from pycrfsuite._logparser import TrainLogParser as PeerLogParser

import pycrfsuite as peer
from chainfold import pycrfsuite
from chainfold.errors import BadChain, BadFile, BadSetting, ChainfoldError, EmptyChain, NotOpened
from chainfold.pycrfsuite import ItemSequence, Tagger, Trainer, TrainLogParser
from chainfold.pycrfsuite import instances as instances_module
from chainfold.pycrfsuite.instances import Instances

pytestmark = pytest.mark.quick

Sequences = tuple[list[list[dict[str, Any]]], list[list[str]]]
TIGHT = {"c2": 0.5, "epsilon": 1e-8, "delta": 1e-10, "feature.possible_transitions": True}


def corpus(sequences: int = 40, seed: int = 0) -> Sequences:
    random = np.random.default_rng(seed)
    items, labels = [], []
    for _ in range(sequences):
        theirs = random.integers(0, 3, int(random.integers(1, 8))).tolist()
        words = [label if random.random() < 0.8 else int(random.integers(3)) for label in theirs]
        items.append([{"word": f"w{word}", "length": 0.5 * word, "of": {"a": ["x", f"y{word}"]}} for word in words])
        labels.append([("sunny", "rainy", "好")[label] for label in theirs])
    return items, labels


X, Y = corpus()
NEW, NEW_Y = corpus(10, seed=1)


def trained(path: Path, module: Any = None, params: dict[str, Any] | None = None, **named: Any) -> Any:
    trainer = (module or __import__("chainfold.pycrfsuite", fromlist=["Trainer"])).Trainer(verbose=False, **named)
    trainer.set_params(params or TIGHT)
    for xseq, yseq in zip(X, Y, strict=True):
        trainer.append(xseq, yseq)
    trainer.train(str(path))
    return trainer


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pycrfsuite") / "weather.model"
    trained(path)
    return path


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("peer") / "weather.crfsuite"
    trained(path, peer)
    tagger = peer.Tagger()
    tagger.open(str(path))
    return tagger


def test_labels_and_probabilities_are_those_of_python_crfsuite(model: Path, theirs: Any) -> None:
    with Tagger().open(model) as tagger:
        assert set(tagger.labels()) == set(theirs.labels())
        for xseq in [*X, *NEW]:
            assert tagger.tag(xseq) == theirs.tag(xseq)
            assert tagger.probability(tagger.tag()) == pytest.approx(theirs.probability(theirs.tag()), abs=1e-4)
            for position in range(len(xseq)):
                for label in tagger.labels():
                    expected = theirs.marginal(label, position)
                    assert tagger.marginal(label, position) == pytest.approx(expected, abs=1e-4)
        assert tagger.tag([]) == []


def test_weights_are_those_of_python_crfsuite(model: Path, theirs: Any) -> None:
    with Tagger().open(model) as tagger:
        info, expected = tagger.info(), theirs.info()
    assert info.transitions == pytest.approx(expected.transitions, abs=1e-3)
    assert info.state_features.keys() == expected.state_features.keys()
    assert info.state_features == pytest.approx(expected.state_features, abs=1e-3)
    assert set(info.attributes) == set(expected.attributes)
    assert set(info.labels) == set(expected.labels)
    assert info.header["num_labels"] == expected.header["num_labels"] == "3"


def test_a_dump_is_read_by_the_parser_of_python_crfsuite(model: Path, tmp_path: Path) -> None:
    with Tagger().open(model) as tagger:
        tagger.dump(tmp_path / "dump.txt")
        info, parser = tagger.info(), CRFsuiteDumpParser()
    for line in (tmp_path / "dump.txt").read_text().splitlines(keepends=True):
        parser.feed(line)
    assert parser.result.labels == info.labels
    assert parser.result.attributes == info.attributes
    assert parser.result.transitions == pytest.approx(info.transitions, abs=1e-6)
    assert parser.result.state_features == pytest.approx(info.state_features, abs=1e-6)


def test_a_model_in_memory(model: Path) -> None:
    with Tagger().open_inmemory(model.read_bytes()) as tagger, Tagger().open(model) as other:
        assert tagger.tag(ItemSequence(X[0])) == other.tag(X[0])


def test_items_are_those_of_python_crfsuite() -> None:
    sequence = [
        {"foo": {"bar": "baz", "spam": 0.5, "egg": ["x", "y"], "ham": {"x": -0.5}}, "yes": True, "no": False},
        {"ключ": "мир", "bytes": "не".encode()},
        ["foo", "bar"],
        {},
    ]
    assert ItemSequence(sequence).items() == peer.ItemSequence(sequence).items()
    assert len(ItemSequence(sequence)) == 4
    assert repr(ItemSequence([])) == "<ItemSequence of size 0>"
    for wrong in ("foo", ["foo"], [[{"foo": 1.0}]]):
        with pytest.raises(BadChain):
            ItemSequence(wrong)


class Sky(str, Enum):  # noqa: UP042  # StrEnum shows its text, and not its name
    CLEAR = "clear"
    GREY = "grey"


@pytest.mark.parametrize("kind", [Sky, np.str_])
def test_a_text_is_its_characters_whatever_its_class(kind: Any, tmp_path: Path) -> None:
    clear, grey = kind("clear"), kind("grey")
    items = [{"sky": clear, grey: 0.5, "of": {clear: grey}}, {"sky": grey}]
    assert ItemSequence(items).items() == peer.ItemSequence(items).items()
    taggers = []
    for module, tagger in ((pycrfsuite, Tagger()), (peer, peer.Tagger())):
        trainer = module.Trainer("lbfgs", {"c2": 0.1, "epsilon": 1e-9, "delta": 1e-12}, verbose=False)
        for _ in range(5):
            trainer.append(items, [clear, grey])
        trainer.train(str(tmp_path / module.__name__))
        tagger.open(str(tmp_path / module.__name__))
        taggers.append(tagger)
    ours, reference = taggers
    assert ours.labels() == reference.labels() == ["clear", "grey"]
    assert set(ours.info().attributes) == set(reference.info().attributes)
    assert ours.tag(items) == reference.tag(items)
    assert ours.probability([clear, grey]) == pytest.approx(reference.probability(["clear", "grey"]), rel=1e-4)
    assert ours.marginal(grey, 1) == pytest.approx(reference.marginal("grey", 1), rel=1e-4)


def test_what_is_appended_is_copied_and_wrong_sequences_add_nothing(tmp_path: Path) -> None:
    trainer, item = Trainer(verbose=False), {"word": "a"}
    trainer.append((item for _ in range(2)), iter(["A", "B"]))
    item["word"] = "b"
    with pytest.raises(BadChain, match="has 1 label, but more items"):
        trainer.append([item, item], ["C"])
    with pytest.raises(BadChain, match="attributes are strings"):
        trainer.append([[1.0]], ["C"])
    trainer.append([], [])
    trainer.train(tmp_path / "a.model")
    with Tagger().open(tmp_path / "a.model") as tagger:
        assert tagger.labels() == ["A", "B"]
        assert list(tagger.info().attributes) == ["word:a"]
    trainer.clear()
    with pytest.raises(EmptyChain):
        trainer.train(tmp_path / "b.model")
    assert not (tmp_path / "b.model").exists()


def test_joined_instances_are_those_appended(monkeypatch: pytest.MonkeyPatch) -> None:
    def of(rows: int) -> Any:
        monkeypatch.setattr(instances_module, "_ROWS", rows)
        instances = Instances()
        for xseq, yseq in zip(X, Y, strict=True):
            instances.append([*xseq, ["plain", "plain"]], [*yseq, "sunny"])
        return instances.chain(1)

    one, many = of(10**9), of(7)
    assert many.vocabulary.labels == one.vocabulary.labels
    assert many.vocabulary.attributes.equals(one.vocabulary.attributes)
    for name in ("labels", "starts", "offsets", "ids", "values"):
        assert np.array_equal(getattr(many, name), getattr(one, name)), name
    assert one.positions == sum(map(len, Y)) + len(Y)


# Parameters


@pytest.mark.parametrize("name", ["lbfgs", "l2sgd", "ap", "averaged-perceptron", "PA", "passive-aggressive", "arow"])
def test_parameters_have_the_defaults_of_python_crfsuite(name: str) -> None:
    ours, reference = Trainer(name).get_params(), peer.Trainer(name).get_params()
    different = {"max_iterations", "delta"} if name == "l2sgd" else set()  # documented: our descent is another
    for parameter, value in reference.items():
        if not parameter.startswith("calibration.") and parameter not in different:
            assert ours[parameter] == value, parameter
            assert type(ours[parameter]) is type(value)
    assert all(Trainer(name).help(parameter) for parameter in Trainer(name).params())


def test_wrong_parameters() -> None:
    trainer = Trainer()
    trainer.set_params({"c1": "0.5", "max_iterations": "7", "feature.possible_states": "1"})
    assert [trainer.get(name) for name in ("c1", "max_iterations", "feature.possible_states")] == [0.5, 7, True]
    with pytest.raises(BadSetting, match="c1 is 'much', but must be of type float"):
        trainer.set("c1", "much")
    with pytest.raises(ChainfoldError, match=r"has no parameter 'calibration\.eta'.*`rate`"):
        Trainer("l2sgd").set("calibration.eta", 0.1)
    with pytest.raises(BadSetting, match="one of lbfgs"):
        trainer.select("newton")
    with pytest.raises(BadSetting, match="crf1d"):
        trainer.select("lbfgs", "tree")
    trainer.select("ap")
    assert "c1" not in trainer.params()
    with pytest.raises(ChainfoldError, match="has no parameter 'c1'"):
        trainer.help("c1")


def test_a_file_name_that_is_empty_writes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trainer = Trainer(verbose=False)
    trainer.append(X[0], Y[0])
    trainer.train("")
    assert not list(tmp_path.iterdir())


# Messages


class Recorder(Trainer):
    def __init__(self) -> None:  # as subclasses for python-crfsuite do, which has its state before
        self.lines: list[str] = []
        self.seen: list[dict[str, Any]] = []

    def message(self, message: str) -> None:
        self.lines.append(message)
        super().message(message)

    def on_iteration(self, log: str, info: dict[str, Any]) -> None:
        self.seen.append(dict(info))


def test_the_log_of_a_run_with_sequences_held_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trainer = Recorder()
    trainer.select("lbfgs")
    trainer.set("max_iterations", 12)
    for xseq, yseq in zip(X, Y, strict=True):
        trainer.append(xseq, yseq)
    trainer.append(NEW[0], ["never seen"] * len(NEW[0]), 1)
    for xseq, yseq in zip(NEW[1:], NEW_Y[1:], strict=True):
        trainer.append(xseq, yseq, 1)
    trainer.train(tmp_path / "a.model", holdout=1)
    log = trainer.logparser
    assert log is not None
    assert [info["num"] for info in trainer.seen] == list(range(1, len(log.iterations) + 1))
    assert log.last_iteration is not None
    assert log.last_iteration["loss"] < log.iterations[0]["loss"]
    assert log.featgen_percent == 100
    assert log.events[-1][0] == "end"
    printed = capsys.readouterr().out
    assert "type: CRF1d\n" in printed
    assert "c2: 1.000000\n" in printed
    with Tagger().open(tmp_path / "a.model") as tagger:
        assert "never seen" not in tagger.labels()
        predicted = [tagger.tag(xseq) for xseq in NEW]
        weights = tagger.info()
    gold = [["never seen"] * len(NEW[0]), *NEW_Y[1:]]
    right = sum(a == b for x, y in zip(predicted, gold, strict=True) for a, b in zip(x, y, strict=True))
    assert log.last_iteration["item_accuracy"] == pytest.approx(right / sum(map(len, gold)))
    assert log.last_iteration["scores"]["never seen"].ref == len(NEW[0])
    assert log.last_iteration["active_features"] >= len(weights.state_features)


@pytest.mark.parametrize("algorithm", ["lbfgs", "l2sgd", "ap", "arow"])
def test_the_parser_reads_the_log_of_crfsuite_as_python_crfsuite_does(algorithm: str, tmp_path: Path) -> None:
    lines: list[str] = []

    class Capturing(peer.Trainer):  # type: ignore[misc]
        def message(self, message: str) -> None:
            lines.append(message)

    trainer = Capturing(algorithm)
    trainer.set("max_iterations", 4)
    for number, (xseq, yseq) in enumerate(zip(X, Y, strict=True)):
        trainer.append(xseq, yseq, number % 3)
    trainer.train(str(tmp_path / "peer.crfsuite"), 2)
    ours, reference = TrainLogParser(), PeerLogParser()
    for line in lines:
        event = ours.feed(line)
        assert event == reference.feed(line)
        assert ours.last_log == reference.last_log
    assert ours.iterations == reference.iterations
    assert ours.iterations
    for name in ("featgen_percent", "featgen_num_features", "featgen_seconds", "training_seconds"):
        assert getattr(ours, name) == getattr(reference, name)
    assert ours.storing_seconds == (reference.storing_seconds or 0.0)


def test_a_base_trainer_gives_every_line_to_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Listening(pycrfsuite.BaseTrainer):
        def __init__(self) -> None:
            self.lines: list[str] = []

        def message(self, message: str) -> None:
            self.lines.append(message)

    listening, printing = Listening(), pycrfsuite.BaseTrainer()
    for trainer in (listening, printing):
        trainer.append(X[0], Y[0])
        trainer.train(tmp_path / "a.model")
    assert listening.lines[0] == "Feature generation\n"
    assert capsys.readouterr().out.startswith("Feature generation\n")
    assert issubclass(Trainer, pycrfsuite.BaseTrainer)


def test_errors_are_of_the_class_of_the_interface(tmp_path: Path) -> None:
    (tmp_path / "wrong").write_bytes(b"lCRFabc")
    wrong: list[Any] = [
        lambda: Trainer("newton"),
        lambda: Trainer(params={"nothing": 1}),
        lambda: Trainer(verbose=False).train(tmp_path / "model"),
        lambda: Trainer().append([{}], ["A", "B"]),
        lambda: ItemSequence([1]),
        lambda: Tagger().labels(),
        lambda: Tagger().open(tmp_path / "wrong"),
    ]
    for call in wrong:
        with pytest.raises(pycrfsuite.CRFSuiteError) as caught:
            call()
        assert isinstance(caught.value, ChainfoldError)


def test_an_error_in_a_message_ends_training(tmp_path: Path) -> None:
    class Failing(Trainer):
        def message(self, message: str) -> None:
            raise LookupError

    trainer = Failing()
    trainer.append(X[0], Y[0])
    with pytest.raises(LookupError):
        trainer.train(tmp_path / "a.model")


# Errors of taggers


def test_a_closed_tagger(model: Path) -> None:
    tagger = Tagger()
    for call in (tagger.labels, tagger.info, tagger.tag, lambda: tagger.set([]), lambda: tagger.probability([])):
        for kind in (NotOpened, ValueError, RuntimeError):
            with pytest.raises(kind, match="open one first"):
                call()
    tagger.open(model)
    tagger.close()
    with pytest.raises(NotOpened):
        tagger.labels()


def test_files_that_are_no_models(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Tagger().open(tmp_path / "missing")
    for content in (b"", b"lCRFabc", b"lCRFfoo" * 100):
        (tmp_path / "wrong").write_bytes(content)
        with pytest.raises(BadFile):
            Tagger().open(tmp_path / "wrong")
        with pytest.raises(BadFile, match="the bytes: "):
            Tagger().open_inmemory(content)


def test_questions_outside_of_the_sequence_or_the_model(model: Path) -> None:
    with Tagger().open(model) as tagger:
        tagger.set(X[0])
        with pytest.raises(BadSetting, match="y is 'windy', but must be one of"):
            tagger.marginal("windy", 0)
        for position in (-1, len(X[0])):
            with pytest.raises(BadSetting, match="a position of the sequence"):
                tagger.marginal("sunny", position)
        with pytest.raises(BadSetting, match="labels of the model"):
            tagger.probability(["windy"] * len(X[0]))
        with pytest.raises(BadChain):
            tagger.probability(["sunny"] * (len(X[0]) + 1))
        total = sum(tagger.marginal(label, 0) for label in tagger.labels())
        assert total == pytest.approx(1.0)
