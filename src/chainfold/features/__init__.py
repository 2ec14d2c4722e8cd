"""Columns to attributes with numbers: what the user asks, what it resolves to, and the encoder.

Begin with `spec` and `schema`, then `encode` (a chain from an input) or `for_model` (blocks for a model).

    regex              regular expressions that take no hours
    functions          the functions of templates: lower, shape, prefix, suffix, test, match
    template           templates: CRF++ and Wapiti files, expressions, every column; kept as JSON
    spec               `InputSpec`: what the user asks of the input
    schema             `Schema`: what that resolves to for the columns of an input; kept in the vocabulary as JSON
    numbers            columns of numbers: reading, bins, scales
    attributes         the codes of each feature at each row, and their ids
    labels             labels, sequence starts, groups and weights of rows
    spool, row_spool   blocks and rows spilled to disk while an input is encoded
    encoder            rows to numbered blocks, and to a chain with its final numbers
    encode             `encode`, `encode_sequences`, `chain_from_table`, `chain_from_sequences`
    parts              a chain in parts: the steps that a scheduler can do anywhere, and all of them here
    part_plan          the jobs: pieces of files, by their sizes
    part_encoder       one job: statistics of numbers, the first and the second pass
    part_merge         one vocabulary from the names and counts of all jobs
    part_files         working files of these steps
    cache              encodes an input again only if it has changed
    for_model          further input for a model: blocks with its numbers, or a chain that extends its vocabulary
    streaming          the same for a pipe or a growing file
    row_columns        rows that a program has, as columns of the kinds that a model uses
    item_ids           items to ids of a model without columns
    item_blocks        sequences of Python's objects for a model, whether it was trained on items or on columns
    row_encoder        rows that a program pushes, one or many at a time

May import `errors`, `system`, `jit`, `chain` and `readers`. Modules import from those listed before them, not after.
"""
