"""Experiments with chainfold, outside of the package: `python -m experiments paper` and `python -m experiments bench`.

paper/       the experiments of Ilić et al., reproduced; begin with `paper/experiment.py`
bench/       speed and memory beside other programs; begin with `bench/command.py`

Both use:

ledger       runs pieces one after another, and keeps their results in results.json
machine      the machine on which is measured
formatting   numbers as text, tables of Markdown
"""

from pathlib import Path

ROOT = Path(__file__).parents[1]
"""The root of the repository."""
