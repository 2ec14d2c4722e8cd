"""Compare the code with the recorded answers, or record them: `python -m tests.freeze --help`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the helpers that the tests share

from freeze import fixed, layer, learned, samples
from freeze.answers import Answers, compare, recorded


def answered(folder: Path, only: str) -> Answers:
    """The answers of the code as it is, of the parts whose names begin so."""
    answers, available = Answers(), [*samples.made_up(folder)]
    if samples.DATA.exists():
        available += samples.real(folder)
    else:
        print(f"the real data sets are not in {samples.DATA}: their answers are not compared")
    for sample in available:
        if sample.name.startswith(only):
            begin = time.perf_counter()
            fixed.answer(answers, sample, folder)
            print(f"{sample.name}: {time.perf_counter() - begin:.1f} s", flush=True)
    for name, part in (("learned", learned.answer), ("layer", layer.answer)):
        if name == "layer" and find_spec("torch") is None:
            print("torch is not installed: the layer's answers are not compared")
        elif name.startswith(only):
            begin = time.perf_counter()
            part(answers, {sample.name: sample for sample in available}, folder)
            print(f"{name}: {time.perf_counter() - begin:.1f} s", flush=True)
    return answers


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.freeze", description=__doc__)
    parser.add_argument("--record", action="store_true", help="write answers.json, or its parts in --only")
    parser.add_argument("--models", action="store_true", help="train the fixed models anew first")
    parser.add_argument("--only", default="", help="parts whose names begin so")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.models:
            samples.write_models(folder, [*samples.made_up(folder), *samples.real(folder)])
            learned.write_models()
        answers = answered(folder, options.only)
    if options.record:
        kept = {
            name: answer for name, answer in recorded().items() if options.only and not name.startswith(options.only)
        }
        Answers(kept | answers).write()
        print(f"{len(answers)} answers recorded.")
        return 0
    old = recorded()
    if options.only:
        old = Answers({name: answer for name, answer in old.items() if name.startswith(options.only)})
    return 1 if compare(answers, old) else 0


if __name__ == "__main__":
    sys.exit(main())
