"""Options that several verbs share, in groups, and the flags by which errors name them.

Group       options that stand together, and the object made of their values
grouped     a verb that takes one object for each group; typer sees the options
with_option a verb with one more option, which it does not see
in_flags    an error of the library with the flags of the verb that runs instead of parameter names
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import MISSING, dataclass, fields
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import typer

from chainfold.errors import BadFile, BadSetting

Verb = Callable[..., None]


class Parameter(NamedTuple):
    """One option: its type with a `typer.Option`, and its default."""

    annotation: Any
    default: Any = None


@dataclass(frozen=True)
class Group:
    """Options by name, and a callable that gets their values by name."""

    parameters: Mapping[str, Parameter]
    build: Callable[..., Any]

    @classmethod
    def of(cls, made: type) -> Group:
        """The fields of a dataclass, annotated as typer's parameters are."""
        hints = get_type_hints(made, include_extras=True)
        defaults = {field.name: field.default for field in fields(made)}
        missing = inspect.Parameter.empty
        return cls({name: Parameter(hints[name], missing if d is MISSING else d) for name, d in defaults.items()}, made)

    def only(self, *names: str) -> Group:
        return Group({name: self.parameters[name] for name in names}, self.build)

    def without(self, *names: str) -> Group:
        return self.only(*(name for name in self.parameters if name not in names))


def grouped(**groups: Group) -> Callable[[Verb], Verb]:
    """A decorator: the parameters of these names are replaced by the options of their groups."""

    def decorate(verb: Verb) -> Verb:
        @functools.wraps(verb)
        def run(**values: Any) -> None:
            for name, group in groups.items():
                values[name] = group.build(**{option: values.pop(option) for option in group.parameters})
            verb(**values)

        given = inspect.signature(verb, eval_str=True).parameters.values()
        return _with_parameters(run, [parameter for one in given for parameter in _expanded(one)])

    def _expanded(given: inspect.Parameter) -> Iterator[inspect.Parameter]:
        if given.name not in groups:
            yield given
            return
        for name, (annotation, default) in groups[given.name].parameters.items():
            yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)

    return decorate


def with_option(name: str, annotation: Any, around: Callable[[Any], AbstractContextManager[None]]) -> Any:
    """A decorator: the verb has one more option, False by default, and runs in the context made of its value."""

    def decorate(verb: Verb) -> Verb:
        @functools.wraps(verb)
        def run(**values: Any) -> None:
            with around(values.pop(name)):
                verb(**values)

        more = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=annotation)
        return _with_parameters(run, [*inspect.signature(verb, eval_str=True).parameters.values(), more])

    return decorate


def _with_parameters(run: Verb, parameters: Iterable[inspect.Parameter]) -> Verb:
    """A verb that typer sees with these parameters."""
    named = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    run.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in named}
    return run


# Flags

_flags: ContextVar[Mapping[str, tuple[str, str | None]]] = ContextVar("flags", default={})  # noqa: B039
_QUOTED = r"""(?<!\w)(?P<quote>['"])(?:\\.|(?!(?P=quote))[^\\])*(?P=quote)"""  # as by repr
_NAMED = r"(?<![^\s(])`(?P<name>[a-z]\w*)(?:=(?P<value>[^`]+))?`(?=[\s,;:)]|\.(?:\s|$)|$)"
_PARTS = re.compile(f"{_NAMED}|{_QUOTED}")


@contextmanager
def flags_of(verb: Verb) -> Iterator[None]:
    """While a verb runs, `in_flags` knows its options."""
    before = _flags.set({p.name: _flag(p) for p in inspect.signature(verb, eval_str=True).parameters.values()})
    try:
        yield
    finally:
        _flags.reset(before)


def in_flags(sentence: object) -> str:
    """A sentence in which `name` and `name=value`, in backquotes, are written as the verb's options.

    File names at its beginning and quoted text stay as they are.
    """
    text, head = str(sentence), ""
    if isinstance(sentence, BadSetting):
        text, head = text.removeprefix(sentence.name), flag(sentence.name)
    elif isinstance(sentence, BadFile):
        text, head = text.removeprefix(sentence.name), sentence.name
    return head + _PARTS.sub(_as_given, text)


def flag(name: str) -> str:
    """An option's flag, or the name where the verb that runs has no such option."""
    return _flags.get().get(name, (name, None))[0]


def _as_given(match: re.Match[str]) -> str:
    name, value = match["name"], match["value"]
    if name not in _flags.get():  # or it is quoted text
        return match.group()
    yes, no = _flags.get()[name]
    if value is None or value == "True":
        return yes
    return no or f"without {yes}" if value == "False" else f"{yes} {value.strip(chr(34) + chr(39))}"


def _flag(parameter: inspect.Parameter) -> tuple[str, str | None]:
    """The flag of the option, and the one that denies it."""
    metadata = get_args(parameter.annotation)[1:] if get_origin(parameter.annotation) is Annotated else ()
    for info in metadata:
        if isinstance(info, typer.models.OptionInfo):
            declared = [info.default] if isinstance(info.default, str) else []
            yes, _, no = (declared or [f"--{parameter.name.replace('_', '-')}"])[0].partition("/")
            return yes, no or None
    return f"`{parameter.name}`", None
