"""The paper's own algorithms, in the log domain, as published: the reference for numerical stability.

Begin reading with `fb_log` (Algorithm 1) and `emp` (Algorithm 2).

    log_domain          local kernels in logarithms, and the frames that the engines share
    fb_log              Algorithm 1, forward-backward             O(N²T)
    fb_log_recompute    its Case II: kernels computed again       O(NT)
    fb_log_spill        its Case IV: forward vectors on disk      O(B)
    emp                 Algorithm 2, one forward pass             O(N² + NM)
    forward_only        the older one-pass algorithm, slow        O(N²M)

They import `log_domain`, and of `engines` only what is above its own engines.
"""
