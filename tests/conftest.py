"""Settings of the whole suite: how long an example takes depends on the machine and on what is compiled already."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("chainfold", deadline=None)
settings.load_profile("chainfold")
