"""Small work of each kind, by which kernels are compiled and kept.

    warm_up           all kinds, for `chainfold warm`, in processes side by side
    compile_beside    what a verb will need later, in a second process, once the verb finds that it has to compile;
                      the process is stopped with the verb

A step is a function of a folder for its files and of a number of labels; `python -m chainfold.cli.warm_steps STEP …`
runs the steps that it names. Kernels are compiled for a number of labels once for each width of a row, and some of them
for none; running the library itself gives exactly the types that users' work will have.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chainfold.errors import ChainfoldError
from chainfold.system.machine import cores

if TYPE_CHECKING:
    from chainfold.chain.chain import Chain
    from chainfold.model.model import Model
    from chainfold.training.loop import Training

_ROWS = 160
_SEPARATE = ":"  # between a step and its number of labels
_LONG = 20_000  # positions of a sequence that takes several blocks


def _table(labels: int) -> list[tuple[str, str, str]]:
    """Words, shapes and labels, of which every one occurs."""
    return [(f"w{k % 7}", f"s{k % 3}", f"L{k % labels:05}") for k in range(max(_ROWS, 2 * labels))]


def _text(path: Path, labels: int) -> Path:
    rows = [" ".join(row) + ("\n\n" if k % 8 == 7 else "\n") for k, row in enumerate(_table(labels))]
    path.write_text("".join(rows))
    return path


def _chain(labels: int) -> Chain:
    """Labels in memory, without names."""
    from chainfold.chain.chain import Chain

    size = max(_ROWS, 2 * labels)
    ids = [k % 7 for k in range(size)]
    return Chain.from_arrays(offsets=range(size + 1), ids=ids, labels=[k % labels for k in range(size)])


def _model(chain: Chain) -> Model:
    """A model whose weights are zero."""
    import numpy as np

    from chainfold.model.layout import Layout
    from chainfold.model.model import Model

    layout = Layout.observed(chain)
    return Model(layout, np.zeros(layout.size))


def names(folder: Path, labels: int) -> None:
    """Names to numbers."""
    from chainfold.features.encode import encode

    encode([_text(folder / "names.txt", 2)], folder / "names.chain", columns=["word", "shape", "label"])


def decode(folder: Path, labels: int) -> None:
    """The best labels."""
    from chainfold.inference.whole_chain import tag

    chain = _chain(labels)
    tag(_model(chain), chain)


def backward(folder: Path, labels: int) -> None:
    """The kernel that takes longest to compile, alone: a pass back over one position without attributes."""
    import numpy as np

    from chainfold.core.slots import BlockRows, aligned, is_few
    from chainfold.engines.belief import Belief
    from chainfold.engines.forward_pass import lattice_of
    from chainfold.engines.pool import ArrayPool
    from chainfold.engines.tally import Accumulator
    from chainfold.kernels.backward import backward
    from chainfold.kernels.few import backward_few

    chain = _chain(labels)
    layout, block = _model(chain).layout, chain.block(0, 1)
    width, nowhere = layout.width, np.zeros(0, np.int64)
    alpha, predicted, edge, edge_t, pairs = (
        np.ones((rows, size)) for rows, size in ((1, width),) * 2 + ((1, labels * width),) + ((labels, width),) * 2
    )
    lattice = lattice_of(block.starts, block.labels, alpha, predicted, edge, Belief(np.ones(width)))
    rows = BlockRows(np.zeros(2, np.int64), np.zeros(1, np.int64), nowhere, np.zeros(0))
    kernel = backward_few if is_few(labels) else backward
    kernel(rows, lattice, edge_t, aligned(width), layout.rows, pairs, Accumulator(layout, ArrayPool()).slots)


def formats(folder: Path, labels: int) -> None:
    """Files of columns and of attributes, read for training and for tagging, and written again."""
    from chainfold.features.encode import encode
    from chainfold.inference.tag_files import evaluate
    from chainfold.training.loop import train

    lines = [f"{label}\tword={word}\tshape={shape}\n" for word, shape, label in _table(labels)]
    (folder / "rows.crfsuite").write_text("".join(lines))
    _text(folder / "rows.txt", labels)
    columns: dict[str, Any] = {"columns": ["word", "shape", "label"], "attributes": "word[-1] word word[1] word|shape"}
    for name, options in (("rows.txt", columns), ("rows.crfsuite", {})):
        source: Any = [folder / name]
        model = train(encode(source, folder / f"{name}.chain", **options), _training("lbfgs"))
        _tag(model, source, folder)
        evaluate(model, source)


def _estimator(labels: int) -> None:
    """An estimator on lists of dicts."""
    from chainfold.inference.stream_tagger import StreamTagger
    from chainfold.sklearn.estimator import CRF

    rows = _table(labels)
    items, targets = [{"word": word, "long": len(shape) > 1} for word, shape, _ in rows], [label for *_, label in rows]
    crf = CRF(max_iterations=2).fit([items], [targets])
    crf.predict([items])
    crf.predict_single(items)
    crf.predict_marginals_single(items)
    StreamTagger(crf.model_, marginals=True).push(items[0])


def labels(folder: Path, labels: int) -> None:
    """All algorithms, sequences of any length, Python's sequences, and whatever can be asked of a model."""
    from chainfold.chain.batches import StoredChain
    from chainfold.chain.stored import write_chain
    from chainfold.chain.synthetic import SyntheticChain
    from chainfold.features.encode import encode
    from chainfold.model.constraints import Constraints
    from chainfold.training.loop import train
    from chainfold.training.online.adagrad import OnlineSettings
    from chainfold.training.online.arriving import arriving
    from chainfold.training.online.run import OnlineRun

    text = _text(folder / f"{labels}.txt", labels)
    columns: dict[str, Any] = {"columns": ["word", "shape", "label"]}
    chain = encode([text], folder / f"{labels}.chain", **columns)
    for algorithm in ("sgd", "adagrad", "adam", "ap", "pa", "arow", "lbfgs"):
        model = train(chain, _training(algorithm))
    train(chain, _training("lbfgs", c1=0.1))
    assert chain.vocabulary is not None, "it was encoded"
    last = chain.vocabulary.labels[1]
    limits = Constraints.of(chain.vocabulary.labels, forbid=[f"{last}>{last}"])
    train(chain, _training("lbfgs"), constraints=limits)
    for more in ({"marginals": True}, {"nbest": 2}, {"samples": 1}, {}):
        _tag(model, [text], folder, **more)
    _estimator(labels)
    long = SyntheticChain(_LONG, labels, 20, 4)
    write_chain(folder / f"{labels}.long", long)
    stored = StoredChain(folder / f"{labels}.long")
    train(stored, _training("lbfgs"), threads=2)
    run = OnlineRun(folder / f"{labels}.learn", OnlineSettings())
    run.run(run.wait(lambda: arriving([str(text)], piped=run.piped, hash_bits=10, **columns)))


def _training(algorithm: str, **options: Any) -> Training:
    from chainfold.training.loop import Training

    return Training(algorithm, {"max_iterations": 2, **options})


def _tag(model: Model, inputs: list[Path], folder: Path, **options: Any) -> None:
    from chainfold.inference.tag_files import tag_to

    with (folder / "tagged").open("wb") as sink, (folder / "sequences").open("wb") as sequences:
        tag_to(sink, model, inputs, sequences=None if options.get("nbest") else sequences, **options)


STEPS: dict[str, Callable[[Path, int], None]] = {
    step.__name__: step for step in (names, decode, backward, formats, labels)
}


def warm_up(numbers: Iterable[int], progress: Callable[[int], None]) -> None:
    """Compile the kernels for numbers of labels, in as many processes as there are cores.

    progress   called with the number of steps that are done

    Raises `ChainfoldError` if a process fails.
    """
    steps = ["formats", *(f"labels{_SEPARATE}{number}" for number in numbers)]
    with ThreadPoolExecutor(cores()) as pool:
        for done, _ in enumerate(pool.map(_in_a_process, steps)):
            progress(done + 1)


def _in_a_process(step: str) -> None:
    command = [sys.executable, "-m", __name__, step]
    done = subprocess.run(  # noqa: S603  (this program)
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        reason = done.stderr.strip().rpartition("\n")[2] or f"exit code {done.returncode}"
        raise ChainfoldError(f"a process that compiles kernels failed: {reason}.")


def run_steps(steps: Iterable[str]) -> None:
    """Run steps, each named as `name` or `name:labels`."""
    with tempfile.TemporaryDirectory(prefix="chainfold-warm-") as folder:
        for step in steps:
            name, _, labels = step.partition(_SEPARATE)
            STEPS[name](Path(folder), int(labels or 2))


_processes: list[subprocess.Popen[bytes]] = []
_waiting: list[list[Callable[[], None]]] = []


def compile_beside(*steps: str) -> None:
    """Run steps in a second process, should this verb have to compile kernels and another core be free."""
    from chainfold.jit.kernel_cache import compiling

    def start() -> None:
        if cores() > 1:
            command = [sys.executable, "-m", __name__, *steps]
            nothing = subprocess.DEVNULL
            _processes.append(subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing))  # noqa: S603

    compiling.append(start)
    _waiting.append(compiling)


@contextmanager
def stopped_with_verb() -> Iterator[None]:
    """At the end of a verb, stop what `compile_beside` has started, and forget what it has not."""
    try:
        yield
    finally:
        while _waiting:
            _waiting.pop().clear()
        while _processes:
            process = _processes.pop()
            process.kill()
            process.wait()


if __name__ == "__main__":
    run_steps(sys.argv[1:])
