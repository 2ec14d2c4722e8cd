"""Training: from a labelled chain to a model.

    loop           train: iterations, development set, runs that can be resumed
    passes         the passes over a whole chain, which may be made elsewhere
    objective      the negative log likelihood with its penalty, on all or a part of the chain
    optimisers/    L-BFGS and OWL-QN, SGD, AdaGrad and Adam; they know nothing of chains
    perceptron     averaged perceptron, passive-aggressive, AROW
    incremental    one pass over one more piece of data, for `CRF.partial_fit`
    online/        rows as they arrive, in constant memory: `chainfold learn`

`loop` imports objective, optimisers and perceptron; `incremental` and `online` import `loop`, and `incremental` imports
`online`. Packages up to `inference` may be imported here. Begin reading with `loop.train`.
"""
