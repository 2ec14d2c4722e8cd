"""Errors of chainfold as data: a task returns what went wrong, and the client raises it.

An exception that is raised in a task would come with the traceback of another machine, and be tried again there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar

from chainfold import errors
from chainfold.errors import ChainfoldError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Failure(NamedTuple):
    """An error of chainfold, by its name, its sentence and what else it says."""

    kind: str
    sentence: str
    facts: dict[str, Any]

    @classmethod
    def of(cls, error: ChainfoldError) -> Failure:
        facts = {name: value for name, value in vars(error).items() if isinstance(value, (int, str))}
        return cls(type(error).__name__, str(error), facts)

    def error(self) -> ChainfoldError:
        kind = getattr(errors, self.kind, ChainfoldError)
        error: ChainfoldError = kind.__new__(kind, self.sentence)
        ChainfoldError.__init__(error, self.sentence)
        vars(error).update(self.facts)
        return error


def returned(work: Callable[Parameters, Result]) -> Callable[Parameters, Result | Failure]:
    """A task that returns its failure."""

    @wraps(work)
    def task(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result | Failure:
        try:
            return work(*args, **kwargs)
        except ChainfoldError as error:
            return Failure.of(error)
        except MemoryError:
            return Failure("ChainfoldError", "a worker has too little memory for its task; give workers more.", {})

    return task
