"""Semirings and the algorithms over them: an alias of their modules in `chainfold.reference`."""

from chainfold.reference.entropies import *  # noqa: F403
from chainfold.reference.forward_backward import *  # noqa: F403
from chainfold.reference.semirings import *  # noqa: F403
