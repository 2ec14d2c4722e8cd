"""Every failure that a user can meet, each with its sentence: what is wrong, where, and what to do."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable
from typing import Any

from chainfold.escape import visible


class ChainfoldError(ValueError):
    """The base of all errors of chainfold; its text is one sentence in one line.

    >>> import chainfold
    >>> try:
    ...     chainfold.open_model("missing.model")
    ... except ChainfoldError as error:
    ...     print(error)
    missing.model: there is no such file.
    """

    def __init__(self, sentence: str) -> None:
        super().__init__(visible(sentence))


class ChainfoldWarning(UserWarning):
    """A warning of chainfold; its text is one sentence.

    >>> import warnings
    >>> warnings.simplefilter("error", ChainfoldWarning)
    """


_EXTRAS = {"dask": ("dask", "distributed"), "plot": ("matplotlib",), "sklearn": ("sklearn",), "torch": ("torch",)}


class MissingPackage(ChainfoldError, ImportError):
    """A package of an extra is not installed."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(
            f"{what} needs the package {package!r}, which is not installed; in a clone of chainfold, run "
            f"`pip install '.[{extra}]'`."
        )


def require(extra: str, what: str) -> None:
    """Raise `MissingPackage` unless the packages of an extra, which something needs, are installed."""
    for package in _EXTRAS[extra]:
        if importlib.util.find_spec(package) is None:
            raise MissingPackage(what, package, extra)


class UnknownEngine(ChainfoldError):
    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(f"there is no engine {name!r}; choose one of {', '.join(known)}.")


class BadSetting(ChainfoldError):
    """A parameter with a value that it cannot have; `name` is the parameter's."""

    def __init__(self, name: str, value: object, expected: str) -> None:
        self.name = name
        shown = " ".join(line.strip() for line in repr(value).splitlines())  # an array has several
        super().__init__(f"{name} is {shown}, but must be {expected}.")


class ToleranceTooSmall(ChainfoldError):
    def __init__(self, tolerance: float, least: float) -> None:
        super().__init__(f"`tolerance` is {tolerance:g}, but must be at least {least:g} (rounding error).")


class MemoryTooSmall(ChainfoldError):
    def __init__(self, engine: str, needed: int, allowed: int, remedy: str) -> None:
        super().__init__(
            f"engine {engine!r} needs about {needed / 1e6:,.3g} MB for this chain, and {allowed / 1e6:,.3g} MB are "
            f"allowed; {remedy}."
        )


class WeightShape(ChainfoldError):
    def __init__(self, given: tuple[int, ...], expected: int) -> None:
        super().__init__(f"the weights have shape {given}, but the layout of the model has {expected} weights.")


class WeightNotANumber(ChainfoldError):
    def __init__(self, index: int, value: float, name: str) -> None:
        super().__init__(
            f"weight {index} ({name}) is {value}; weights are finite, or -inf to forbid a label or a transition."
        )


class ModelMismatch(ChainfoldError):
    """A chain and a model that were not made for each other."""

    def __init__(self, what: str, chain: int, model: int) -> None:
        super().__init__(f"the chain has {chain} {what}, but the model knows {model}.")


class UnseenLabel(ChainfoldError):
    """A label that is needed, and that the model has no number for."""

    def __init__(self, position: int, label: str) -> None:
        super().__init__(
            f"position {position} has label {label!r}, which the model has never seen, so the chain has no likelihood; "
            f"correct the label, or leave its sequence out."
        )


class BadChain(ChainfoldError):
    """Arrays that do not make a chain."""


class EmptyChain(BadChain):
    def __init__(self) -> None:
        super().__init__("the chain has no positions; give it at least one.")


class LabelOutOfRange(BadChain):
    def __init__(self, position: int, label: int, n_labels: int) -> None:
        super().__init__(
            f"position {position} has label {label}, but labels go from 0 to {n_labels - 1} (-1 for an unknown one)."
        )


class AttributeOutOfRange(BadChain):
    def __init__(self, position: int, attribute: int, count: int, kind: str) -> None:
        super().__init__(f"position {position} has {kind} {attribute}, but they go from 0 to {count - 1}.")


class ValueNotFinite(BadChain):
    def __init__(self, position: int, value: float, kind: str) -> None:
        super().__init__(f"position {position} has {kind} with value {value}; values must be finite numbers.")


class ScoreNotFinite(ChainfoldError):
    def __init__(self, position: int) -> None:
        self.position = position
        super().__init__(
            f"a score at position {position} is not a finite number: the weights and values there are too large, or a "
            f"negative value meets a weight of -inf; rescale the values or the weights."
        )


class ResultNotFinite(ChainfoldError):
    """Sums that leave the range of a double, though every score is finite."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is too large for a number: rescale the values of the attributes, or the weights.")


class ZeroProbability(ChainfoldError):
    def __init__(self, position: int) -> None:
        self.position = position
        super().__init__(
            f"no labelling of the chain is possible: at position {position} every label is forbidden; allow a label "
            f"or a transition there."
        )


class ForbiddenLabel(ChainfoldError):
    def __init__(self, position: int) -> None:
        self.position = position
        super().__init__(
            f"the label observed at position {position} is forbidden by a weight of -inf, so the likelihood of the "
            f"chain is zero; allow it, or correct the label."
        )


class BadSyntheticSpec(ChainfoldError):
    def __init__(self, text: str) -> None:
        super().__init__(
            f"cannot read {text!r} as a synthetic chain; write T:N:V:A, positions, labels, attributes and attributes a "
            f"position, for instance 100000:5:100:8."
        )


class BadSize(ChainfoldError):
    def __init__(self, text: str) -> None:
        super().__init__(f"cannot read {text!r} as an amount of memory; write for instance 256MB or 1.5GB.")


class BadFile(ChainfoldError):
    """A file that cannot be read as what it should be, or written; `name` is the file's, as the text begins with it."""

    def __init__(self, path: object, problem: str) -> None:
        called = str(path) or repr("")
        self.name = visible(called)
        super().__init__(f"{called}: {problem}")


class NotOpened(ChainfoldError, RuntimeError):
    """A tagger was asked while no model was open."""

    def __init__(self) -> None:
        super().__init__("the tagger has no model; open one first.")


class NoModelFile(ChainfoldError, AttributeError):
    """An estimator was asked for the file that its model is in."""

    def __init__(self) -> None:
        super().__init__("a CRF has no `modelfile`: its model is in memory; `save` and `model_filename` write it.")


class AlreadyAppended(BadFile):
    def __init__(self, path: object, positions: int) -> None:
        super().__init__(
            path,
            f"has the {positions:,} positions of the input already, from an earlier `append`, and is not changed; use "
            f"`again=True` to append them once more.",
        )


class EmptyInput(BadFile):
    """A file or a pipe that can be read, and has no rows."""


class BadLines(BadFile):
    """A line that cannot be read; `lines` finds others of which the same is as certain, and this one, if it can."""

    def __init__(self, path: object, problem: str, lines: Callable[[], Any]) -> None:
        """lines: gives an array of their numbers, of those of the text that was read."""
        super().__init__(path, problem)
        self.lines = lines
