"""Raw files, tables and chains: tag them with a model, evaluate a model on them. One pass, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.any_chain import is_chain
from chainfold.chain.block import Block, KnownBlock
from chainfold.errors import BadFile, ChainfoldError, EmptyChain
from chainfold.features.for_model import ChainBlocks, ModelBlocks, blocks_for_model
from chainfold.inference.buffer import Buffer
from chainfold.inference.result import Tagged
from chainfold.inference.tagger import Tagger, Want
from chainfold.metrics import Count, Scores
from chainfold.model.layout import Floats
from chainfold.model.model import Model, vocabulary_of_model
from chainfold.readers.annotate import Annotator, Labelling
from chainfold.readers.inputs import Raw, RawLines

_PREDICTED, _PROBABILITY = "predicted", "probability"


def evaluate(
    model: Model,
    inputs: Any,
    *,
    spans: bool | None = None,
    memory: int | None = None,
    **options: Any,
) -> Scores:
    """Score a model on inputs whose labels are known.

    inputs    files, tables or a chain, as for `tag_to`; labels that the model does not have are always wrong
    spans     compare labelled spans, too; by default where labels look like those of a scheme
    memory    bytes of pending results before they go to disk
    options   how to read the inputs, as for `encode`

    Returns `Scores`: accuracy, and precision, recall and F1 of labels and spans. Raises `ChainfoldError` where no
    position has a known label.

    >>> import chainfold as cf
    >>> import pyarrow as pa
    >>> table = pa.table({"word": ["a", "b", "a", "b"], "label": ["X", "Y", "X", "Y"]})
    >>> model = cf.train(cf.chain_from_table(table))
    >>> cf.evaluate(model, table).accuracy
    1.0
    """
    vocabulary = vocabulary_of_model(model)
    options["labels"] = True
    known = blocks_for_model(inputs, vocabulary, **options)
    scores = compared(model, known, spans, memory)
    if not scores.tokens:
        raise ChainfoldError("no position has a known label, so there is nothing to compare with.")
    return scores


def compared(
    model: Model, known: ModelBlocks | ChainBlocks, spans: bool | None = None, memory: int | None = None
) -> Scores:
    """The scores of the model on blocks with labels."""
    gold = Buffer({"label": np.empty(0, np.int32)})

    def blocks() -> Iterator[Block]:
        for known_block in known:
            gold.add({"label": known_block.gold})
            yield known_block.block

    count, unseen = Count(vocabulary_of_model(model).labels, spans), 0
    for tagged in Tagger(model, memory=memory).run(blocks()):
        count.extend(known.unseen[unseen:])
        unseen = len(known.unseen)
        count.add(gold["label"][: len(tagged)], tagged.labels, tagged.starts)
        gold.drop(len(tagged))
    return count.scores()


def tag_to(
    sink: IO[bytes],
    model: Model,
    inputs: Any,
    *,
    piped: bool = False,
    marginals: bool = False,
    all_marginals: bool = False,
    nbest: int = 0,
    samples: int = 0,
    seed: int = 0,
    sequences: IO[bytes] | None = None,
    memory: int | None = None,
    **options: Any,
) -> None:
    """Write the inputs in their own format, with the model's labels in new columns.

    sink                       a binary file, open for writing
    inputs                     files, or a stored chain
    marginals, all_marginals   the probability of the predicted label, of every label
    nbest                      number of best labellings of each sequence, written one after another
    samples, seed              number of labellings drawn from their distribution
    sequences                  a binary file for a CSV with the length, log probability and entropy of each sequence
    memory                     bytes of pending results before they go to disk
    piped                      the sink is standard output
    options                    how to read the inputs, as for `encode`

    Inputs without rows are written as they are. Raises `ChainfoldError` where the inputs cannot be read or labelled.

    >>> import io, pathlib, tempfile
    >>> import chainfold as cf
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "words.txt"
    >>> _ = path.write_text("a X\\nb Y\\n")
    >>> model = cf.train(cf.encode(path, path.with_suffix(".chain")))
    >>> sink = io.BytesIO()
    >>> cf.tag_to(sink, model, path)
    >>> sink.getvalue()
    b'a X X\\nb Y Y\\n'
    """
    if nbest and (marginals or all_marginals or samples):
        raise ChainfoldError("`nbest` cannot be combined with `marginals`, `all_marginals` or `samples`.")
    labels = vocabulary_of_model(model).labels
    want = Want(
        labels=not nbest,
        posteriors=marginals or all_marginals,
        probability=sequences is not None or nbest > 0,
        entropy=sequences is not None,
        nbest=nbest,
        samples=samples,
        seed=seed,
    )
    columns = new_columns(labels, marginals, all_marginals)
    columns |= {f"sample {k + 1}": labels for k in range(samples)}
    options["labels"] = False
    rows = LabelWriter(sink, columns) if is_chain(inputs) else RowWriter(Annotator(sink, columns, piped), nbest > 0)
    with rows as writer:
        known: Iterable[KnownBlock] = ()
        with suppress(EmptyChain):  # no input has rows: there is nothing to label
            known = blocks_for_model(inputs, vocabulary_of_model(model), keep=writer.keep, empty=True, **options)
        results = Tagger(model, memory=memory).run((known_block.block for known_block in known), want)
        if sequences is not None:
            results = _with_sequences(results, sequences)
        if nbest:
            _write_best(writer, results)
            return
        for tagged in results:
            writer.add(tagged.starts, *new_values(tagged, marginals, all_marginals))


def new_columns(labels: Sequence[str], marginals: bool, all_marginals: bool) -> dict[str, Sequence[str] | None]:
    """The columns to put after the input's own, each with its labels, or None where it holds numbers."""
    columns: dict[str, Sequence[str] | None] = {_PREDICTED: labels}
    if marginals:
        columns[_PROBABILITY] = None
    if all_marginals:
        columns |= {f"{_PROBABILITY}({label})": None for label in labels}
    return columns


class RowWriter:
    """Rows as they were read, with new columns."""

    def __init__(self, annotator: Annotator, best: bool = False) -> None:
        """best: sequences come several times."""
        self._annotator, self._best = annotator, best
        self.add_sequence = annotator.add_sequence

    def keep(self, raw: Raw) -> None:
        if self._best and not isinstance(raw, RawLines):
            raise BadFile(
                raw.source, "several labellings of a sequence can be written only as CoNLL or CRFsuite lines."
            )
        self._annotator.keep(raw)

    def __enter__(self) -> RowWriter:
        self._annotator.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._annotator.__exit__(*error)

    def add(self, starts: NDArray[np.bool_], *values: NDArray[Any]) -> None:
        self._annotator.add(*values)


class LabelWriter:
    """A chain has no rows to write again: a line of new columns for each position, a blank line between sequences."""

    keep = None

    def __init__(self, sink: IO[bytes], columns: dict[str, Sequence[str] | None]) -> None:
        self._sink, self._names = sink, list(columns.values())
        self._begun = False

    def __enter__(self) -> LabelWriter:
        return self

    def __exit__(self, *error: Any) -> None:
        pass

    def add(self, starts: NDArray[np.bool_], *values: NDArray[Any]) -> None:
        fields = [_texts(names, part) for names, part in zip(self._names, values, strict=True)]
        lines = [f"{line}\n" for line in map("\t".join, zip(*fields, strict=True))]
        for t in np.flatnonzero(starts).tolist():
            if t or self._begun:
                lines[t] = f"\n{lines[t]}"
        self._begun |= bool(lines)
        self._sink.write("".join(lines).encode())

    def add_sequence(self, best: Sequence[Labelling]) -> None:
        for rank, labelling in enumerate(best):
            codes = labelling.columns[0]
            self._sink.write(f"{chr(10) if self._begun else ''}# {rank} {labelling.probability:.6g}\n".encode())
            self.add(np.zeros(codes.size, np.bool_), codes)


def _texts(names: Sequence[str] | None, values: NDArray[Any]) -> list[str]:
    return [f"{value:.6g}" if names is None else names[value] for value in values.tolist()]


def new_values(tagged: Tagged, marginals: bool, all_marginals: bool) -> list[NDArray[Any]]:
    """The values of the new columns in the next rows."""
    values: list[NDArray[Any]] = [tagged.labels]
    if marginals:
        values.append(tagged.probabilities)
    if all_marginals and tagged.posteriors is not None:
        values += list(np.ascontiguousarray(tagged.posteriors.T))
    return values if tagged.samples is None else [*values, *tagged.samples]


def _with_sequences(results: Iterable[Tagged], sink: IO[bytes]) -> Iterator[Tagged]:
    """Write a line for each sequence that ends in the results to the sink, and pass the results on."""
    sink.write(b"sequence,positions,log_probability,entropy\n")
    number, end = 0, -1
    for tagged in results:
        ended = tagged.sequences
        rows = zip(ended.ends.tolist(), _known(ended.log_probability), _known(ended.entropy), strict=True)
        for last, log_probability, entropy in rows:
            sink.write(f"{number},{last - end},{log_probability:.10g},{entropy:.10g}\n".encode())
            number, end = number + 1, last
        yield tagged


def _write_best(writer: RowWriter | LabelWriter, results: Iterable[Tagged]) -> None:
    """Each sequence once for each of its best labellings; its positions are put together first."""
    waiting: list[NDArray[np.int32]] = []
    for tagged in results:
        assert tagged.nbest is not None, "they were wanted"
        cuts = tagged.sequences.ends - tagged.low + 1
        *whole, rest = np.split(tagged.nbest, cuts, axis=1)
        for part, gaps, log_probability in zip(
            whole, _known(tagged.sequences.gaps), _known(tagged.sequences.log_probability), strict=True
        ):
            labels = np.concatenate([*waiting, part], axis=1)
            waiting = []
            probabilities = np.exp(log_probability + gaps[gaps > -np.inf])
            writer.add_sequence([Labelling(float(p), [labels[rank]]) for rank, p in enumerate(probabilities)])
        if rest.shape[1]:
            waiting.append(rest)


def _known(values: Floats | None) -> Floats:
    assert values is not None, "they were wanted"
    return values
