"""Groups of options: what typer sees, what a verb gets, and parameter names of errors as flags."""

from __future__ import annotations

import ast
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

import chainfold.cli
from chainfold.cli.failures import guarded
from chainfold.cli.input_options import FOR_MODEL, INPUT
from chainfold.cli.parameters import Group, grouped
from chainfold.cli.training_options import ONLINE_SETTINGS, SETTINGS
from chainfold.errors import BadFile, BadSetting, ChainfoldError
from chainfold.features.spec import FOR_MODEL as SPEC_FOR_MODEL
from chainfold.features.spec import InputSpec
from chainfold.training.loop import ALGORITHMS, option_names
from chainfold.training.online.adagrad import OnlineSettings
from verbs import conll, failed

MODULES = sorted(Path(chainfold.cli.__file__).parent.glob("*.py"))


@dataclass(frozen=True)
class Colours:
    hash_bits: Annotated[int | None, typer.Option(help="Bits.")] = None
    labels: Annotated[bool | None, typer.Option("--labels/--no-labels")] = None
    pa_type: Annotated[str, typer.Option("--type")] = "a"


def ended(error: ChainfoldError, *arguments: str) -> tuple[list[Colours], str]:
    """What a verb with a group of options gets, and how its error is shown."""
    given: list[Colours] = []

    @grouped(colours=Group.of(Colours).without("labels") if "plain" in arguments else Group.of(Colours))
    def verb(name: Annotated[str, typer.Argument()], colours: Colours) -> None:
        given.append(colours)
        raise error

    app = typer.Typer()
    app.command()(guarded(verb))
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 2
    return given, done.stderr


def test_a_verb_gets_one_object_for_a_group() -> None:
    given, _ = ended(ChainfoldError("x."), "name", "--hash-bits", "3", "--no-labels", "--type", "b")
    assert given == [Colours(3, False, "b")]
    given, text = ended(ChainfoldError("x."), "plain", "--no-labels")
    assert not given
    assert "No such option: --no-labels" in text


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ChainfoldError("give `hash_bits` or not."), "give --hash-bits or not."),
        (ChainfoldError("use `hash_bits=8`."), "use --hash-bits 8."),
        (ChainfoldError("set `pa_type='b'`."), "set --type b."),
        (ChainfoldError("say `labels=False`."), "say --no-labels."),
        (ChainfoldError("say `labels=True`."), "say --labels."),
        (ChainfoldError("`gamma` is `not one` of them."), "`gamma` is `not one` of them."),
        (ChainfoldError("`hash_bits` requires `labels`."), "--hash-bits requires --labels."),
        (ChainfoldError("label 'a `labels` b': give `hash_bits`."), "label 'a `labels` b': give --hash-bits."),
        (ChainfoldError(f"{chr(39) + '`labels`'!r}, `labels`."), '"\'`labels`", --labels.'),
        (ChainfoldError(f"{chr(39) + chr(34) + ' `labels` '!r}, `labels`."), "'\\'\" `labels` ', --labels."),
        (ChainfoldError("the model's `labels`, others' (`labels`)."), "the model's --labels, others' (--labels)."),
        (
            ChainfoldError("q`labels`.txt and `labels`.txt: no `labels`."),
            "q`labels`.txt and `labels`.txt: no --labels.",
        ),
        (BadFile("my `labels` .txt", "give `labels`."), "my `labels` .txt: give --labels."),
        (BadSetting("hash_bits", " `labels` ", "more"), "--hash-bits is ' `labels` ', but must be more."),
        (BadSetting("hash_bits", 0, "more"), "--hash-bits is 0, but must be more."),
        (BadSetting("gamma", 0, "more"), "gamma is 0, but must be more."),
    ],
)
def test_errors_name_flags(error: ChainfoldError, sentence: str) -> None:
    assert ended(error, "name")[1] == f"chainfold: {sentence}\n"


@pytest.mark.parametrize("name", ["q`columns`.txt", "my `columns` of.txt"])
def test_names_in_data_stay_as_they_are(tmp_path: Path, name: str) -> None:
    (rows := tmp_path / name).write_text("a b\nc\n")
    assert failed("encode", rows, "-o", tmp_path / "c").startswith(f"{rows}: line 2 ")
    rows.write_text("a b\nc d\n")
    assert "'a `columns` b'" in failed("encode", rows, "-o", tmp_path / "c", "--label", "a `columns` b")


@pytest.mark.parametrize(
    ("algorithm", "option"), [("ap", "--gamma"), ("arow", "--type"), ("pa", "--variance"), ("ap", "--num-memories")]
)
def test_a_setting_of_another_algorithm_is_named_by_its_flag(tmp_path: Path, algorithm: str, option: str) -> None:
    rows, model = conll(tmp_path / "t", 5), tmp_path / "m"
    sentence = failed("train", rows, "-o", model, "--algorithm", algorithm, option, 2)
    assert sentence.startswith(f"{option} does not apply to algorithm '{algorithm}', whose settings are --")


def test_the_options_of_inputs_are_those_of_the_library() -> None:
    assert list(INPUT.parameters) == [field.name for field in fields(InputSpec)]
    assert set(FOR_MODEL.parameters) < set(SPEC_FOR_MODEL)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_settings_of_algorithms_are_those_of_the_library(algorithm: str) -> None:
    used = {name for name, setting in SETTINGS.items() if algorithm in setting.algorithms.split()}
    assert used == option_names(algorithm)


def test_the_settings_of_online_training_are_those_of_the_library() -> None:
    assert list(ONLINE_SETTINGS.parameters) == [field.name for field in fields(OnlineSettings)]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_functions_are_short(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            assert (node.end_lineno or 0) - node.lineno < 60, node.name
