"""The vocabulary of an encoding in parts, from the names and counts of its jobs.

Jobs are taken in their order, and of each the names in the order in which they first appear in it; so ids by first
appearance are those of one encoding of all files, and so are those by falling frequency. In memory is the vocabulary;
the numbers of each job are spilled until the final ones are known.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.builder import Census, Names
from chainfold.chain.part_index import WholeFile, vocabulary_name
from chainfold.chain.stored import write_vocabulary
from chainfold.chain.strings import spans
from chainfold.chain.vocabulary import Vocabulary
from chainfold.errors import EmptyChain, EmptyInput
from chainfold.features.encoder import FinalNames, Lexicon, final_names, vocabulary_of_names
from chainfold.features.labels import SeenGroups
from chainfold.features.part_encoder import NUMBERS, SUMMARY, Merged, Sizes, working_file
from chainfold.features.part_files import write_arrays
from chainfold.features.part_plan import PartsEncoding
from chainfold.features.schema import Schema
from chainfold.readers.formats import NO_ROWS
from chainfold.readers.pieces import Hashes
from chainfold.system.spill import SpillFile
from chainfold.system.storage import storage_of


def merge(encoding: PartsEncoding) -> Merged:
    """Merge what the first pass of all jobs has found: writes the vocabulary, and the numbers of each job."""
    schema = encoding.schema(encoding.reader().first)
    with _Merger(schema) as merger:
        rows = np.zeros(len(encoding.files), np.int64)
        for job in range(len(encoding.jobs)):
            summary = working_file(encoding, SUMMARY, job)
            merger.add(summary, encoding.source(job))
            np.add.at(rows, summary["files"], summary["rows"])
        for number in np.flatnonzero(rows == 0).tolist():
            raise EmptyInput(encoding.files[number].name, NO_ROWS[encoding.files[number].form])
        return merger.finish(encoding)


class _KindOfNames:
    """The attributes of one kind."""

    def __init__(self, names: Names) -> None:
        self.names, self._census = names, Census()
        self._codes, self._sizes = SpillFile(np.int32), [0]
        self.final: FinalNames | None = None

    def close(self) -> None:
        self._codes.close()

    def add(self, names: Any, ids: Any, counts: Any, marks: Any, labels: NDArray[np.int32]) -> None:
        """Add the names of a job, or its hashes."""
        if self.names.exact:
            ids = self.names.ids(*spans(names)) if len(names) else ids
            self._codes.append(ids)
        self._sizes.append(ids.size if self.names.exact else 0)
        if ids.size:
            self._census.merge(ids, counts, marks.reshape(ids.size, -1), labels, len(self.names))

    def finish(self, entries: int, min_count: int) -> FinalNames:
        self._codes.seek(0)
        self.final = final_names(self.names, self._census, entries, min_count)
        return self.final

    def numbers(self, job: int) -> NDArray[np.int32]:
        """The final ids of a job's names, whose turn it is."""
        assert self.final is not None, "all jobs are there"
        codes = self._codes.read(self._sizes[job + 1])
        ids = self.final.numbering.ids
        return codes if ids is None else ids[codes]


class _Merger:
    """The names and sizes of the jobs so far."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        lexicon = Lexicon.new(schema)
        self._labels = lexicon.labels
        self._state, self._edge = _KindOfNames(lexicon.names), _KindOfNames(lexicon.edge_names)
        self._groups, self._hashes = SeenGroups(), Hashes()
        self._sizes, self._firsts = Sizes(), [0]
        self._label_numbers: list[NDArray[np.int32]] = []

    def __enter__(self) -> _Merger:
        return self

    def __exit__(self, *_: object) -> None:
        self._state.close()
        self._edge.close()

    def add(self, summary: dict[str, Any], source: str) -> None:
        """Add the next job."""
        labels = self._labels.merge(summary["labels"].to_pylist(), source, self._schema.label or "")
        self._label_numbers.append(labels)
        for prefix, kind in (("", self._state), ("edge_", self._edge)):
            names, ids, counts, marks = (summary[f"{prefix}{name}"] for name in ("names", "ids", "counts", "marks"))
            kind.add(names, ids, counts, marks, labels)
        self._hashes = self._hashes.and_those(Hashes(*summary["hashes"].tolist()), source)
        self._groups.merge(summary["groups"], source, self._schema.group or "")
        self._sizes = self._sizes.and_those(Sizes(*summary["sizes"].tolist()))
        self._firsts.append(self._sizes.positions)

    def finish(self, encoding: PartsEncoding) -> Merged:
        """Write the vocabulary and the numbers of all jobs."""
        if not self._sizes.positions:
            raise EmptyChain
        state = self._state.finish(self._sizes.entries, self._schema.min_count)
        edge = self._edge.finish(self._sizes.edge_entries, self._schema.min_count)
        vocabulary = vocabulary_of_names(self._schema, self._labels.names, state, edge)
        storage = storage_of(encoding.output)
        with storage.digested(f"{encoding.folder}/vocabulary.arrow", vocabulary_name) as file:
            header = write_vocabulary(file, self._totals(vocabulary, state, edge))
        for job, labels in enumerate(self._label_numbers):
            row = {"labels": labels, "ids": self._state.numbers(job), "edge_ids": self._edge.numbers(job)}
            with storage.written(encoding.working(NUMBERS, job), lasting=False) as numbers:
                write_arrays(numbers, iter([row]))
        whole = WholeFile(vocabulary_name(file.sha256), file.size, file.sha256)
        return Merged(header, whole, tuple(self._firsts[:-1]))

    def _totals(self, vocabulary: Vocabulary, state: FinalNames, edge: FinalNames) -> Any:
        """A source with the sizes and the vocabulary of the chain, and no blocks."""
        sizes = self._sizes
        return SimpleNamespace(
            positions=sizes.positions,
            sequences=sizes.sequences,
            active=state.numbering.entries / sizes.positions,
            labelled=not sizes.unlabelled,
            valued=bool(sizes.valued),
            edge_valued=bool(sizes.edge_valued),
            weighted=bool(sizes.weighted),
            n_labels=len(vocabulary.labels),
            n_attributes=state.numbering.size,
            n_edge_attributes=edge.numbering.size,
            vocabulary=vocabulary,
        )
