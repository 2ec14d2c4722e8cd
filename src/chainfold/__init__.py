"""Linear-chain conditional random fields on sequences of any length."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from chainfold.data.chain import Block, Chain, Source
    from chainfold.data.encode import encode, encode_sequences
    from chainfold.data.store import StoredChain, open_chain, write_chain
    from chainfold.data.synthetic import SyntheticChain
    from chainfold.data.template import Template
    from chainfold.data.vocabulary import Vocabulary
    from chainfold.errors import ChainfoldError
    from chainfold.evaluation import Evaluation, evaluate
    from chainfold.model import Layout, Model

__all__ = [
    "Block",
    "Chain",
    "ChainfoldError",
    "Evaluation",
    "Layout",
    "Model",
    "Source",
    "StoredChain",
    "SyntheticChain",
    "Template",
    "Vocabulary",
    "encode",
    "encode_sequences",
    "evaluate",
    "open_chain",
    "write_chain",
]

_HOME = {
    "Block": "data.chain",
    "Chain": "data.chain",
    "ChainfoldError": "errors",
    "Evaluation": "evaluation",
    "Layout": "model",
    "Model": "model",
    "Source": "data.chain",
    "StoredChain": "data.store",
    "SyntheticChain": "data.synthetic",
    "Template": "data.template",
    "Vocabulary": "data.vocabulary",
    "encode": "data.encode",
    "encode_sequences": "data.encode",
    "evaluate": "evaluation",
    "open_chain": "data.store",
    "write_chain": "data.store",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: numba takes longer to load than `chainfold --help` may take."""
    if name not in _HOME:
        raise AttributeError(f"module 'chainfold' has no attribute {name!r}")
    return getattr(import_module(f"chainfold.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
