"""docs/cli.md, generated from the command line itself: python tests/reference.py > docs/cli.md"""

from __future__ import annotations

import inspect
from typing import Any

import typer

from chainfold.cli import app


def option(parameter: Any) -> str:
    """One line of a verb's table."""
    names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
    if parameter.param_type_name == "argument":
        names = f"`{parameter.metavar or parameter.name.upper()}`"
    default = "" if parameter.default is None or parameter.default is False else f"`{parameter.default}`"
    return f"| {names} | {parameter.help or ''} | {default} |"


def reference() -> str:
    command: Any = typer.main.get_command(app)
    lines = ["# The command line", "", "Generated from the code; `chainfold VERB --help` says the same.", ""]
    lines += ["Bad input ends with one sentence on standard error and exit code 2; Ctrl-C with exit code 130.", ""]
    for name, verb in command.commands.items():
        text = inspect.cleandoc(verb.help)
        summary, _, example = text.partition("Example: ")
        lines += [f"## chainfold {name}", "", summary.strip(), "", "```sh", example.strip(), "```", ""]
        rows = [option(parameter) for parameter in verb.params if parameter.name != "help"]
        if rows:
            lines += ["| option | meaning | default |", "|---|---|---|", *rows, ""]
    return "\n".join(lines)


if __name__ == "__main__":
    print(reference(), end="")
