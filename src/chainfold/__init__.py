"""Linear-chain conditional random fields on sequences of any length."""

from __future__ import annotations

__version__ = "0.1.0"

TYPE_CHECKING = False  # nothing is imported here: the command has to hear of Ctrl-C first

if TYPE_CHECKING:
    from typing import Any

    from chainfold.apply import score, tag_to
    from chainfold.constraints import Constraints
    from chainfold.data.chain import Block, Chain, Source
    from chainfold.data.encode import encode, encode_sequences
    from chainfold.data.store import StoredChain, open_chain, write_chain
    from chainfold.data.synthetic import SyntheticChain
    from chainfold.data.template import Template
    from chainfold.data.vocabulary import Vocabulary
    from chainfold.errors import ChainfoldError, ChainfoldWarning
    from chainfold.estimator import CRF
    from chainfold.evaluation import Evaluation, evaluate
    from chainfold.live.quantities import Quantities
    from chainfold.live.tagger import StreamTagger
    from chainfold.metrics import Count, Scores
    from chainfold.model import Layout, Model
    from chainfold.model_file import open_model, save_model
    from chainfold.pieces import PiecewiseGradient
    from chainfold.tagging import Tagger, Want, entropies, log_probabilities, marginals, nbest, sample, tag
    from chainfold.training import Saving, Training, train

__all__ = [
    "CRF",
    "Block",
    "Chain",
    "ChainfoldError",
    "ChainfoldWarning",
    "Constraints",
    "Count",
    "Evaluation",
    "Layout",
    "Model",
    "PiecewiseGradient",
    "Quantities",
    "Saving",
    "Scores",
    "Source",
    "StoredChain",
    "StreamTagger",
    "SyntheticChain",
    "Tagger",
    "Template",
    "Training",
    "Vocabulary",
    "Want",
    "encode",
    "encode_sequences",
    "entropies",
    "evaluate",
    "log_probabilities",
    "marginals",
    "nbest",
    "open_chain",
    "open_model",
    "sample",
    "save_model",
    "score",
    "tag",
    "tag_to",
    "train",
    "write_chain",
]

_HOME = {
    "Block": "data.chain",
    "CRF": "estimator",
    "Chain": "data.chain",
    "ChainfoldError": "errors",
    "ChainfoldWarning": "errors",
    "Constraints": "constraints",
    "Count": "metrics",
    "Evaluation": "evaluation",
    "Layout": "model",
    "Model": "model",
    "PiecewiseGradient": "pieces",
    "Quantities": "live.quantities",
    "Saving": "training",
    "Scores": "metrics",
    "Source": "data.chain",
    "StoredChain": "data.store",
    "StreamTagger": "live.tagger",
    "SyntheticChain": "data.synthetic",
    "Tagger": "tagging",
    "Template": "data.template",
    "Training": "training",
    "Vocabulary": "data.vocabulary",
    "Want": "tagging",
    "encode": "data.encode",
    "encode_sequences": "data.encode",
    "entropies": "tagging",
    "evaluate": "evaluation",
    "log_probabilities": "tagging",
    "marginals": "tagging",
    "nbest": "tagging",
    "open_chain": "data.store",
    "open_model": "model_file",
    "sample": "tagging",
    "save_model": "model_file",
    "score": "apply",
    "tag": "tagging",
    "tag_to": "apply",
    "train": "training",
    "write_chain": "data.store",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: numba takes longer to load than `chainfold --help` may take."""
    if name not in _HOME:
        raise AttributeError(f"module 'chainfold' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"chainfold.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
