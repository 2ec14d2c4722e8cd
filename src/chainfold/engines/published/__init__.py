"""The paper's own algorithms, in the log domain, as published: the reference for numerical stability.

    log_domain     scores in logarithms, the beginning and the end of a run
    algorithm_1    forward-backward: fb-log           O(N²T)
                                     fb-log-recompute O(NT)
                                     fb-log-spill     O(B)
    algorithm_2    one forward pass: emp              O(N² + NM)
                                     forward-only     O(N²M), slow

They import `log_domain`, and of `engines` only what is above its own engines.
"""
