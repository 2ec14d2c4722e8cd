"""The command line of the experiments: `python -m experiments paper` and `python -m experiments bench`."""

from __future__ import annotations

import typer

from chainfold.cli.failures import guarded
from chainfold.system import signals
from experiments.bench.command import bench
from experiments.paper.command import paper

app = typer.Typer(
    name="experiments",
    help="The paper's experiments and the benchmarks of chainfold.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(guarded(paper))
app.command()(guarded(bench))


if __name__ == "__main__":
    signals.listen()
    app(prog_name="python -m experiments")
