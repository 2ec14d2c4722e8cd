"""Experiments with chainfold that are not part of the package: `python -m experiments paper` and `... bench`.

paper/    the experiments of Ilić et al., reproduced; begin with `paper/experiment.py`
bench/    speed, memory and quality beside other programs; begin with `bench/command.py`
"""

from pathlib import Path

ROOT = Path(__file__).parents[1]
"""The root of the repository."""
