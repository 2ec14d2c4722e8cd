"""Files, pipes, tables and sequences to columns, and columns back to the same formats.

Begin with `columns` (what every reader gives) and `formats` (which reader reads what).

    columns          stretches of rows: the types of columns, and their names
    progress         callbacks for progress
    inputs           paths, globs, pipes and open files: opened, decompressed, cut into chunks of whole lines
    text             readers of lines, and their state
    conll            CoNLL and CoNLL-U: width of lines, comments, ragged lines
    crfsuite         CRFsuite's lines of attributes
    tables           tables in memory, and the types of columns of all tables
    csv_tsv          CSV and TSV: header, quotes, types of columns, ragged lines
    jsonl            JSON lines: an object a row, or a sequence
    parquet, arrow   tables in files
    items            lists of dicts and texts to attributes, without a step of Python for each
    sequences        Python's sequences of dicts and lists
    formats          the format of an input, detected or given, and the reader for it: `InputReader`
    pieces           files in pieces that are read one by one, with the rows around each
    growing          bytes of a growing file or a pipe, as they arrive
    whole_lines      pieces of text as they arrive, to whole lines
    skipped_lines    chunks without their bad lines
    live             rows of a pipe or a growing file as they arrive, and what happens to lines that cannot be read
    annotate         writes an input again with new columns, in its own format
    chain_text       writes a chain as CRFsuite's lines
    row_digest       a digest of rows, by which rows that were appended before are recognised

May import `errors`, `escape`, `system`, `jit` and `chain`. Modules import from those listed before them, not after.
"""
