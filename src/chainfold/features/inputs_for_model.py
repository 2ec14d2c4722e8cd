"""Whatever a model is given to work on, files, a table or a stored chain, in blocks with the model's numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Unpack

from chainfold.chain.block import KnownBlock, vocabulary_of
from chainfold.chain.renumbered import Renumbered
from chainfold.chain.stored import PipedChain, StoredChain, is_chain, open_chain
from chainfold.chain.vocabulary import Vocabulary
from chainfold.errors import BadFile, ChainfoldError
from chainfold.features.encode import are_files, check_options
from chainfold.features.encoder import Progress
from chainfold.features.for_model import Known, KnownOptions, known_blocks
from chainfold.readers.inputs import Inputs, Raw

_BLOCK = 65536


def known_inputs(
    inputs: Any, vocabulary: Vocabulary, *, keep: Callable[[Raw], None] | None = None, **options: Unpack[KnownOptions]
) -> Known | KnownChain:
    """The inputs in blocks; `keep` gets what is read of files, as it was."""
    if is_chain(inputs):
        check_options(options, KnownOptions)
        path = inputs[0] if isinstance(inputs, (list, tuple)) else inputs
        return KnownChain(open_chain(path), vocabulary, bool(options.get("labels")))
    if are_files(inputs) and not isinstance(inputs, Inputs):
        progress = options.get("progress") or Progress()
        inputs = Inputs(inputs, options.get("encoding", "utf-8"), progress.read, keep)
    return known_blocks(inputs, vocabulary, **options)


class KnownChain:
    """A stored or piped chain in blocks with the numbers of a model, by its names."""

    def __init__(self, chain: StoredChain | PipedChain, vocabulary: Vocabulary, labels: bool) -> None:
        own, path = vocabulary_of(chain), chain.path
        if own is None:
            raise BadFile(path, "has no names for its attributes, so the model cannot know them; give the raw file.")
        if labels and not own.labels:
            raise BadFile(path, "has no labels, and labels are needed here.")
        try:
            self._chain = Renumbered(chain, vocabulary)
        except ChainfoldError as error:  # they were not made for each other
            raise BadFile(path, str(error)) from None
        self.unseen = self._chain.unseen

    def held(self) -> int:
        """Nothing waits for a template: attributes are there."""
        return 0

    def __iter__(self) -> Iterator[KnownBlock]:
        positions = self._chain.positions
        return (self._chain.known(low, min(low + _BLOCK, positions)) for low in range(0, positions, _BLOCK))
