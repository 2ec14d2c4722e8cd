"""Engines: exact ways to compute log Z and the expected counts of a chain under given weights.

All agree; they differ in what they keep and how often they read.

    rounding ── how large scores can be, error bounds         what can be promised of an evaluation
    base ── Problem, Tally, Report, Engine                    what an engine is given and gives back
      ├── sweep ── forward and back over one block            the two movements of the production engines
      │     ├── twice ── there and back again
      │     │     ├── fb              keeps everything                       O(NT)
      │     │     ├── fb_recompute    keeps the forward vectors              O(NT), half
      │     │     ├── fb_spill        keeps them on disk                     O(B)
      │     │     └── checkpoint      keeps one in √T                        O(N√T)
      │     └── stream                one pass, certified collapse           O(M + N(B + L))
      │           └── parallel        stream on many stretches at once
      ├── logdomain
      │     ├── fb_log                Algorithm 1 as published               O(N²T)
      │     ├── fb_log_recompute      its Case II                            O(NT)
      │     ├── fb_log_spill          its Case IV                            O(B)
      │     ├── emp                   Algorithm 2 as published               O(N² + NM)
      │     └── forward_only          the slow baseline                      O(N²M)
      └── plan                        which one, and why
"""

from __future__ import annotations

from chainfold.engines import checkpoint, fb, fb_recompute, fb_spill, parallel, stream
from chainfold.engines.engine import Engine
from chainfold.engines.published import emp, fb_log, fb_log_recompute, fb_log_spill, forward_only

ENGINES: dict[str, Engine] = {
    engine.name: engine
    for engine in (
        fb.ENGINE,
        fb_log.ENGINE,
        fb_log_recompute.ENGINE,
        fb_log_spill.ENGINE,
        fb_recompute.ENGINE,
        fb_spill.ENGINE,
        checkpoint.ENGINE,
        forward_only.ENGINE,
        emp.ENGINE,
        stream.ENGINE,
        parallel.ENGINE,
    )
}
