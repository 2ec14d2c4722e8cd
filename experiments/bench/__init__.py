"""What chainfold costs, beside other programs and on its own: `python -m benchmarks`.

measure ── interleaved rounds, ratios, fresh processes      results ── tables, bars, charts, the file they are kept in
corpora ── the data sets, as files and as attributes        peers ── other programs behind one interface
  └── the pieces: gradient, kdd, training, encoding, tagging, memory, scaling, startup, roofline, quality
        └── __main__ ── one after another; page and pictures draw what the file says
"""
