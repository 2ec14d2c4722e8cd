"""What chainfold costs, beside other programs and on its own: `python -m experiments bench`.

timing ── interleaved rounds, ratios, fresh processes      findings ── tables, bars, charts, the file they are kept in
datasets ── the data sets, as files and as attributes        peers ── other programs behind one interface
  └── the pieces: gradient, kdd, training, encoding, tagging, memory, scaling, startup, roofline, quality
        └── command ── one after another; report and charts draw what the file says
"""
