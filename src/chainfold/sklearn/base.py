"""scikit-learn's `BaseEstimator` and `NotFittedError`, or as much of them as `CRF` needs where it is not installed."""

from __future__ import annotations

import inspect
from typing import Any, Self

try:
    from sklearn.base import BaseEstimator
    from sklearn.exceptions import NotFittedError
except ImportError:

    class NotFittedError(ValueError, AttributeError):  # type: ignore[no-redef]
        """The estimator was not fitted."""

    class BaseEstimator:  # type: ignore[no-redef]
        """Parameters are the arguments of the constructor, kept as attributes."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """The parameters by name; `deep` is there for scikit-learn and has no effect."""
            return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

        def set_params(self, **params: Any) -> Self:
            """Set parameters by name. Raises `ValueError` for an unknown name."""
            known = self.get_params()
            for name, value in params.items():
                if name not in known:
                    raise ValueError(f"Invalid parameter {name!r}; valid parameters are {list(known)}.")
                setattr(self, name, value)
            return self

        def __repr__(self) -> str:
            defaults = {name: entry.default for name, entry in inspect.signature(type(self)).parameters.items()}
            given = {name: value for name, value in self.get_params().items() if value is not defaults[name]}
            return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"


__all__ = ["BaseEstimator", "NotFittedError"]
