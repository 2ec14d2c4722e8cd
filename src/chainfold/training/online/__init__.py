"""Training on rows as they arrive: one pass, in memory that does not depend on their number.

    adagrad        weights of hashed attributes and AdaGrad's sums, with sparse steps
    share          the share of a batch in the gradient of its sequence, and its labels before the step
    row_arrays     rows as arrays on disk, checked
    trainer        blocks in, steps on batches
    prequential    how well each batch was tagged before its step
    arriving       files, pipes and chains to blocks
    journal        rows of a pipe since the last saved state
    run            all of it, in a run that can be killed and resumed

A module imports those above it. Begin reading with `trainer`.
"""
