"""The page of the paper's experiments, in Markdown: the claims first, then what was measured, and the figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from experiments.formatting import digits, markdown_table, size, wrapped
from experiments.paper.counting import EXAMPLE, TABLES, report
from experiments.paper.run_plan import MAIN, SETTINGS
from experiments.paper.series import OWN, Points, Results, elements, section

_TITLE = "# The entropy message passing paper, measured here"
_PAPER = (
    "V. M. Ilić, D. I. Mančev, B. T. Todorović and M. S. Stanković: Gradient Computation in Linear-Chain Conditional "
    "Random Fields Using the Entropy Message Passing Algorithm."
)
_NAMES = (
    f"Times and memory are those of {SETTINGS[MAIN].title}, the setting that is kindest to EMP, unless said otherwise. "
    "FB is forward-backward in logarithms, the paper's Algorithm 1; it keeps everything, recomputes the kernels, or "
    "spills its vectors to disk as well. EMP is the paper's Algorithm 2. FB scaled is forward-backward as it is done "
    "today, in scaled real numbers; checkpoint keeps few of its vectors; stream is chainfold's own, one pass in memory "
    "that does not depend on the length. docs/paper.md says how everything is measured. results.json has all numbers."
)
_ALT = {
    "cases": "Time and memory against the length in Cases I to IV",
    "limit": "Time a position against the length, under each memory limit",
    "settings": "Time a position against the length in each setting",
    "numerics": "Errors of each method against the length",
    "weights": "Time a position of EMP and stream against the number of weights",
    "certificate": "Boundaries certified against the lookahead; errors against tolerance",
}


def page(results: Results, figures: Sequence[str]) -> str:
    """The page; `figures` are the names of those that were drawn."""
    parts = [
        *(_TITLE, _PAPER, _lead(results), "## The claims", verdict_table(elements(results, "verdicts")), _NAMES),
        *("## Machine and data", *_setting(results)),
        *(f"## Table {number}, counted\n\n{report(number, EXAMPLE)}" for number in TABLES),
        "## Figures",
        *(f"![{_ALT[name]}]({name}.png)" for name in figures),
    ]
    return "\n\n".join(part if part[0] in "#|!" else wrapped(part) for part in parts) + "\n"


def verdict_table(verdicts: Points) -> str:
    """Claims, verdicts and evidence."""
    rows = [[one[key] for key in ("case", "claim", "verdict", "evidence")] for one in verdicts]
    return markdown_table(["case", "claim", "here", "evidence"], rows)


def _lead(results: Results) -> str:
    found = Counter(one["verdict"] for one in elements(results, "verdicts") if one["case"] != OWN)
    told = ", ".join(f"{number} {verdict}" for verdict, number in found.items())
    quick = " This was a quick run: short sequences, each measured once." if results["about"]["quick"] else ""
    return f"Of {found.total()} claims of the paper: {told}.{quick}"


def _setting(results: Results) -> list[str]:
    """Sentences and a table on the machine, the data and the settings."""
    about, corpus = section(results, "about"), section(results, "corpus")
    machine = section(about, "machine")
    memory = "unknown" if machine["memory"] is None else size(machine["memory"])
    software = ", ".join(f"{name} {machine[name.lower()]}" for name in ("Python", "NumPy", "Numba"))
    rows = [
        [
            *(one["title"], one["described"].replace("|", r"\|")),
            *(f"{one[key]:,}" for key in ("n_labels", "attributes", "weights")),
            *(digits(one["active"]), digits(one["bytes_a_position"]), f"{100 * one['training']['accuracy']:.1f} %"),
        ]
        for one in section(corpus, "settings").values()
    ]
    names = ["setting", "attributes", "N", "V", "M", "attributes a position", "bytes a position", "right in training"]
    return [
        f"Measured on {about['date']} on {machine['processor']}, {machine['cores']} cores, {memory} of memory, "
        f"{machine['system']}, with chainfold {about['chainfold']}, {software}.",
        corpus["title"],
        about["limit"],
        markdown_table(names, rows),
    ]
