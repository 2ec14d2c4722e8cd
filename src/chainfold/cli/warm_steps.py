"""Small work of each kind, by which kernels are compiled and kept.

A step is a function of a folder for its files. Running the library itself gives exactly the types that users' work will
have; the kernels read input, so that the number of labels and the algorithm do not matter.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

Step = Callable[[Path], None]

_ROWS = [(f"w{k % 7}", f"s{k % 3}", f"L{k % 2}") for k in range(160)]  # words, shapes and labels
_SEQUENCE = 8  # rows
_COLUMNS: dict[str, Any] = {"columns": ["word", "shape", "label"]}


def _text(path: Path, lines: list[str]) -> Path:
    """A file with a blank line after each sequence."""
    ends = ("\n\n" if k % _SEQUENCE == 0 else "\n" for k in range(1, len(lines) + 1))
    path.write_text("".join(line + end for line, end in zip(lines, ends, strict=True)))
    return path


def _conll(path: Path) -> Path:
    return _text(path, [" ".join(row) for row in _ROWS])


def _used(path: Path, **options: Any) -> None:
    """A file encoded, and tagged and evaluated by the model that it gives."""
    from chainfold.features.encode import encode
    from chainfold.inference.tag_files import evaluate, tag_to
    from chainfold.training.loop import Training, train

    model = train(encode([path], path.with_suffix(".chain"), **options), Training("ap", {"max_iterations": 1}))
    for more in ({}, {"marginals": True}):
        with path.with_suffix(".tagged").open("wb") as sink, path.with_suffix(".rows").open("wb") as sequences:
            tag_to(sink, model, [path], sequences=sequences, **more)
    evaluate(model, [path])


def columns(folder: Path) -> None:
    """Columns of words, with templates and numbers."""
    _used(_conll(folder / "plain"), **_COLUMNS)
    _used(_conll(folder / "templates"), attributes="word[-1] word word[1] word|shape", **_COLUMNS)


def attributes(folder: Path) -> None:
    """Lines of attributes."""
    _used(_text(folder / "plain", [f"{label}\tword={word}\tshape={shape}" for word, shape, label in _ROWS]))
    _used(_text(folder / "values", [f"{label}\tword={word}:0.5\tshape={shape}" for word, shape, label in _ROWS]))


def quoted(folder: Path) -> None:
    """Tables with quotes."""
    (folder / "rows.csv").write_text("".join(",".join(row) + "\n" for row in [("word", "shape", "label"), *_ROWS]))
    _used(folder / "rows.csv")


def arriving(folder: Path) -> None:
    """Rows as they arrive, whose names are hashed."""
    from chainfold.training.online.adagrad import OnlineSettings
    from chainfold.training.online.arriving import arriving as rows_of
    from chainfold.training.online.run import OnlineRun

    text = _conll(folder / "rows.txt")
    run = OnlineRun(folder / "learnt", OnlineSettings())
    run.run(run.wait(lambda: rows_of([str(text)], piped=run.piped, hash_bits=10, **_COLUMNS)))


def items(folder: Path) -> None:
    """An estimator on lists of dicts."""
    from chainfold.inference.stream_tagger import StreamTagger
    from chainfold.sklearn.estimator import CRF

    dicts, labels = [{"word": word, "long": shape > "s1"} for word, shape, _ in _ROWS], [row[-1] for row in _ROWS]
    crf = CRF(max_iterations=1).fit([dicts], [labels])
    crf.predict([dicts])
    crf.predict_marginals([dicts])
    crf.predict_single(dicts)
    crf.predict_marginals_single(dicts)
    StreamTagger(crf.model_, marginals=True).push(dicts[0])


def synthetic(folder: Path) -> None:
    """A random chain, written to a file."""
    from chainfold.chain.stored import write_chain
    from chainfold.chain.synthetic import SyntheticChain

    write_chain(folder / "random", SyntheticChain(len(_ROWS), 2, 20, 4))


STEPS: tuple[Step, ...] = (columns, attributes, quoted, arriving, items, synthetic)


def run_step(step: Step) -> None:
    """Run a step in a folder that is removed."""
    with tempfile.TemporaryDirectory(prefix="chainfold-warm-") as folder:
        step(Path(folder))
