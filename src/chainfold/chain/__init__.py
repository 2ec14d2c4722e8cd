"""Chains, in memory and on disk.

    block              Block and Source: the arrays that engines read, and their checks
    chain              Chain: a chain in memory
    vocabulary         names of labels and attributes, counts, pairs that occur
    views              other sources as a source: weighted, joined, cut
    renumbered         a chain under the numbers of another vocabulary
    matrix             a chain from a NumPy or SciPy matrix
    synthetic          a seeded random chain of any length
    strings            tables of strings to numbers
    entries            attributes of positions without gaps
    builder            ids, counts and pairs while a vocabulary grows
    batches            chain files and pipes, read batch by batch (header, arrow_messages, flatbuffer: their parts)
    parts              a chain in a folder of files, read as one (part_index: the table of its files)
    stored             write_chain
    any_chain          open_chain: a file, a folder of parts, or a pipe

`block`, `chain`, `vocabulary` and `views` need NumPy alone, neither numba nor Arrow. It imports
`errors`, `escape`, `system` and `jit` only. Begin reading with `block`.
"""
