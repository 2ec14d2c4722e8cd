"""The model: which weights there are, their values, and its file.

    layout         Layout: which weights there are, in which order, and in padded slots; NumPy alone
    model          Model: a layout with weights, names and a training record
    block_rows     the rows of weights that a block needs, for kernels
    constraints    which labels may follow, start and end: BIO, IOB1, IOBES, BILOU, transitions by hand
    remap          weights moved to other numbers of labels and attributes, or without zeros
    file           save_model, open_model, model_bytes: the model file with its checks
    named_weights  all weights by the names of attributes and labels
    inspection     weights by name, largest first

`layout` is imported by `model`, and `model` by the others. Packages up to `features` may be imported here. Begin
reading with `layout`.
"""
