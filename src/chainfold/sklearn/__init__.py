"""The scikit-learn estimator.

    estimator      CRF: fit, partial_fit, predict, score
    crf_inputs     what X and y may be: dicts and lists, files, tables, chains; each becomes a chain or blocks
    predictions    results of the tagger by sequence
    log            the iterations of `fit`, in memory and on stderr
    base           scikit-learn's BaseEstimator, which is optional

`estimator` imports the others; `predictions` imports `crf_inputs`. All packages but
`cli` may be imported here. Begin reading with `estimator.CRF.fit`.
"""
