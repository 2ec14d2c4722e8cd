"""Linear-chain conditional random fields on sequences of any length."""

from __future__ import annotations

__version__ = "0.1.0"

TYPE_CHECKING = False  # nothing is imported here: signal handlers are installed first

if TYPE_CHECKING:
    from typing import Any

    from chainfold.chain.any_chain import open_chain
    from chainfold.chain.batches import StoredChain
    from chainfold.chain.block import Block, Source
    from chainfold.chain.chain import Chain
    from chainfold.chain.matrix import chain_from_matrix
    from chainfold.chain.parts import ChainInParts
    from chainfold.chain.stored import write_chain
    from chainfold.chain.synthetic import SyntheticChain
    from chainfold.chain.vocabulary import Vocabulary
    from chainfold.engines.log_likelihood import Evaluation, log_likelihood
    from chainfold.engines.piecewise import PiecewiseGradient
    from chainfold.errors import ChainfoldError, ChainfoldWarning
    from chainfold.exchange.any_model import export_model, open_any_model
    from chainfold.features.encode import chain_from_sequences, chain_from_table, encode, encode_sequences
    from chainfold.features.parts import encode_in_parts
    from chainfold.features.template import Template
    from chainfold.inference.explanation import Explanation, Term, explain
    from chainfold.inference.quantities import Quantities
    from chainfold.inference.result import Tagged
    from chainfold.inference.stream_tagger import StreamTagger
    from chainfold.inference.tag_files import evaluate, tag_to
    from chainfold.inference.tagger import Tagger, Want
    from chainfold.inference.whole_chain import (
        Ranked,
        entropies,
        log_probabilities,
        marginals,
        nbest,
        sample,
        tag,
    )
    from chainfold.metrics import Count, Scores
    from chainfold.model.constraints import Constraints
    from chainfold.model.file import open_model, save_model
    from chainfold.model.layout import Layout
    from chainfold.model.model import Model
    from chainfold.sklearn.estimator import CRF
    from chainfold.training.loop import Saving, Training, train

__all__ = [
    "CRF",
    "Block",
    "Chain",
    "ChainInParts",
    "ChainfoldError",
    "ChainfoldWarning",
    "Constraints",
    "Count",
    "Evaluation",
    "Explanation",
    "Layout",
    "Model",
    "PiecewiseGradient",
    "Quantities",
    "Ranked",
    "Saving",
    "Scores",
    "Source",
    "StoredChain",
    "StreamTagger",
    "SyntheticChain",
    "Tagged",
    "Tagger",
    "Template",
    "Term",
    "Training",
    "Vocabulary",
    "Want",
    "chain_from_matrix",
    "chain_from_sequences",
    "chain_from_table",
    "encode",
    "encode_in_parts",
    "encode_sequences",
    "entropies",
    "evaluate",
    "explain",
    "export_model",
    "log_likelihood",
    "log_partition",
    "log_probabilities",
    "marginals",
    "nbest",
    "open_any_model",
    "open_chain",
    "open_model",
    "sample",
    "save_model",
    "tag",
    "tag_to",
    "train",
    "viterbi",
    "write_chain",
]

_HOME = {
    "Block": "chain.block",
    "CRF": "sklearn.estimator",
    "Chain": "chain.chain",
    "ChainInParts": "chain.parts",
    "ChainfoldError": "errors",
    "ChainfoldWarning": "errors",
    "Constraints": "model.constraints",
    "Count": "metrics",
    "Evaluation": "engines.log_likelihood",
    "Explanation": "inference.explanation",
    "Layout": "model.layout",
    "Model": "model.model",
    "PiecewiseGradient": "engines.piecewise",
    "Quantities": "inference.quantities",
    "Ranked": "inference.whole_chain",
    "Saving": "training.loop",
    "Scores": "metrics",
    "Source": "chain.block",
    "StoredChain": "chain.batches",
    "StreamTagger": "inference.stream_tagger",
    "SyntheticChain": "chain.synthetic",
    "Tagged": "inference.result",
    "Tagger": "inference.tagger",
    "Template": "features.template",
    "Term": "inference.explanation",
    "Training": "training.loop",
    "Vocabulary": "chain.vocabulary",
    "Want": "inference.tagger",
    "chain_from_matrix": "chain.matrix",
    "chain_from_sequences": "features.encode",
    "chain_from_table": "features.encode",
    "encode": "features.encode",
    "encode_in_parts": "features.parts",
    "encode_sequences": "features.encode",
    "entropies": "inference.whole_chain",
    "evaluate": "inference.tag_files",
    "export_model": "exchange.any_model",
    "explain": "inference.explanation",
    "log_likelihood": "engines.log_likelihood",
    "log_partition": "arrays",
    "log_probabilities": "inference.whole_chain",
    "marginals": "inference.whole_chain",
    "nbest": "inference.whole_chain",
    "open_chain": "chain.any_chain",
    "open_any_model": "exchange.any_model",
    "open_model": "model.file",
    "sample": "inference.whole_chain",
    "save_model": "model.file",
    "tag": "inference.whole_chain",
    "tag_to": "inference.tag_files",
    "train": "training.loop",
    "viterbi": "arrays",
    "write_chain": "chain.stored",
}


_MODULES = ("arrays", "metrics", "pycrfsuite", "reference", "scorers")


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: libraries take longer to load than `chainfold --help` may."""
    if name not in _HOME and name not in _MODULES:
        raise AttributeError(f"module 'chainfold' has no attribute {name!r}")
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"chainfold.{name}")
    return getattr(import_module(f"chainfold.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES, "__version__"])
