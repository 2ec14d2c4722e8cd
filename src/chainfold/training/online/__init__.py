"""Online training: one pass over rows as they arrive, in memory that does not depend on their number.

    adagrad        weights of hashed attributes and AdaGrad's sums, with sparse steps
    share          the gradient of a batch within its sequence, and its labels before the step
    trainer        cuts blocks of rows into batches, and takes a step on each
    prequential    accuracy and loss of each interval before training on it
    arriving       files, pipes and chains to blocks
    run            a run that can be killed and resumed

A module imports those above it. Begin reading with `trainer`.
"""
