"""Answers of the fixed models."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import chainfold as cf
from freeze.answers import Answers
from freeze.samples import REFUSED, Sample, chainfold

ENGINES = ("stream", "parallel", "checkpoint", "fb", "fb-recompute", "fb-spill")
PUBLISHED = ("emp", "forward-only", "fb-log", "fb-log-recompute", "fb-log-spill")
_SMALL = 1000  # positions up to which the published engines are asked, too
_FORMATS = ("crfsuite", "wapiti", "crf++")


def answer(answers: Answers, sample: Sample, folder: Path) -> None:
    """Add what a fixed model says of its sample."""
    model = cf.open_model(sample.model)
    chain_file = folder / f"{sample.name}.chain"
    chainfold("encode", sample.train, *sample.options, "-o", chain_file, folder=folder)
    chain = cf.open_chain(chain_file)
    _gradients(answers, f"{sample.name}/gradient", model, chain)
    if chain.positions <= 110_000:
        _quantities(answers, f"{sample.name}/python", model, chain)
    _tables(answers, sample, folder)
    _exports(answers, sample, folder)


def _gradients(answers: Answers, name: str, model: cf.Model, chain: cf.Source) -> None:
    as_published = chain.positions <= _SMALL and model.first is None and model.last is None
    for engine in ENGINES + (PUBLISHED if as_published else ()):
        result = cf.log_likelihood(model, chain, engine, threads=2)
        answers.close(f"{name}/{engine}/log_z", result.log_z)
        if result.log_likelihood is not None and result.gradient is not None:
            answers.close(f"{name}/{engine}/log_likelihood", result.log_likelihood)
            answers.close(f"{name}/{engine}/gradient", result.gradient)


def _quantities(answers: Answers, name: str, model: cf.Model, chain: Any) -> None:
    answers.exact(f"{name}/labels", cf.tag(model, chain).tolist())
    answers.close(f"{name}/marginals", cf.marginals(model, chain))
    answers.close(f"{name}/entropies", cf.entropies(model, chain))
    answers.close(f"{name}/log_probabilities", cf.log_probabilities(model, chain))
    answers.exact(f"{name}/samples", cf.sample(model, chain, 2, seed=3).tolist())
    ranked = cf.nbest(model, chain, 3)
    answers.exact(f"{name}/nbest", [result.labels.tolist() for result in ranked])
    answers.close(f"{name}/nbest/scores", [score for result in ranked for score in result.scores])


def _tables(answers: Answers, sample: Sample, folder: Path) -> None:
    """What the verbs write."""
    name, model = f"{sample.name}/verbs", sample.model
    options, skipped = [], False
    for option in sample.options:  # `tag` knows attributes by the model
        if option in ("--attributes", "--template", "--hash-bits", "--label"):
            skipped = True
        elif skipped:
            skipped = False
        elif option != "--one-sequence":
            options.append(option)

    def tag(kind: str, *arguments: object, given: bytes | None = None) -> None:
        source = sample.test if given is None else "-"
        output = chainfold("tag", model, source, *options, *arguments, folder=folder, given=given)
        answers.exact(f"{name}/tag{kind}", output)

    sequences = folder / "sequences.csv"
    tag("", "--sequences", sequences)
    answers.exact(f"{name}/tag/sequences", sequences.read_bytes())
    tag("/marginals", "--marginals")
    tag("/all-marginals", "--all-marginals")
    tag("/nbest", "--nbest", 3)
    tag("/samples", "--samples", 2, "--seed", 5)
    command = {".gz": ["gzip", "-dc"], ".xz": ["xz", "-dc"]}.get(sample.test.suffix, ["cat"])
    text = subprocess.run([*command, str(sample.test)], capture_output=True, check=True).stdout
    format_options = ["--format", "conllu"] if ".conllu" in sample.test.name else []
    rows = b"".join(text.splitlines(keepends=True)[:20_000])
    tag("/follow", *format_options, "--follow", "--marginals", given=rows)
    evaluation = ["eval", model, sample.test, *options]
    answers.exact(f"{name}/eval", chainfold(*evaluation, "--confusion", folder=folder))
    answers.exact(f"{name}/eval/json", _without_seconds(chainfold(*evaluation, "--json", folder=folder)))
    (folder / model.name).write_bytes(model.read_bytes())  # its path is part of what is shown
    answers.exact(f"{name}/inspect", chainfold("inspect", model.name, folder=folder))
    answers.exact(f"{name}/inspect/json", chainfold("inspect", model.name, "--json", folder=folder))
    explained = chainfold("explain", model, sample.test, *options, "--position", 2, "--json", folder=folder)
    answers.exact(f"{name}/explain/json", explained)


def _without_seconds(text: bytes) -> str:
    """JSON without the numbers that a clock gives."""
    facts = json.loads(text)
    return json.dumps({key: value for key, value in facts.items() if "second" not in key}, sort_keys=True)


def _exports(answers: Answers, sample: Sample, folder: Path) -> None:
    """Models for other programs; None where the format cannot hold the model."""
    for form in _FORMATS:
        target = folder / f"{sample.name}.exported"
        if chainfold("export", sample.model, "-o", target, "--format", form, folder=folder) == REFUSED:
            answers.exact(f"{sample.name}/export/{form}", REFUSED)
            continue
        answers.exact(f"{sample.name}/export/{form}", target.read_bytes())
        back = folder / f"{sample.name}.imported"
        chainfold("import", target, "-o", back, folder=folder)
        imported = cf.open_model(back)
        answers.close(f"{sample.name}/import/{form}", imported.weights)
        target.unlink()
        back.unlink()
