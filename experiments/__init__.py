"""Experiments with chainfold, outside of the package: `python -m experiments paper` and `python -m experiments bench`.

paper/       the experiments of Ilić et al., reproduced; begin with `paper/experiment.py`
bench/       speed, memory and quality beside other programs; begin with `bench/command.py`

Both use:

runner       runs pieces one after another and shows the progress
ledger       results.json: the result of every finished piece
page         elements of HTML and Markdown pages
plots        the style of figures, and helpers
machine      the machine on which is measured
formatting   numbers as text
"""

from pathlib import Path

ROOT = Path(__file__).parents[1]
"""The root of the repository."""
