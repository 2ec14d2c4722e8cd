"""Kernels that read input, compiled by numba, and the decorator that compiles them.

    kernel_cache        compiled kernels on disk
    decorator           `kernel`: numba's njit with explicit arithmetic
    intrinsics          words and prefetch instructions for kernels
    objects             Python's own objects for kernels that hold the interpreter lock
    text_kernels        fields of lines: columns of words, lines of attributes, rows of quoted fields
    splice_kernels      new fields in old lines
    digit_kernels       numbers as text
    string_kernels      strings and pairs of numbers to codes
    entry_kernels       counts of attributes
    attribute_kernels   shifted codes, names of rows
    item_kernels        attributes of items, from dicts, lists and texts in memory
    item_id_kernels     ids of items
    marginal_kernels    marginals as dicts
    synthetic_kernels   a seeded random chain

No other package imports numba or llvmlite; the arithmetic of models is `core`. Only `errors` and `system` are imported
here. Begin reading with `decorator`, then `text_kernels`.
"""
