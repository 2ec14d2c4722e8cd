"""The scikit-learn estimator.

    estimator      CRF: fit, partial_fit, predict, score
    crf_inputs     what X and y may be: sequences, files, tables, chains; each becomes a chain or blocks
    arrays         sequences that are arrays of numbers; one long array with lengths
    sentences      sequences that are lists of tokens, or mappings with a list of tokens and one of labels
    fit_record     what a model remembers of X and y: labels that are numbers, the columns of arrays
    predictions    results of the tagger by sequence
    log            the iterations of `fit`, in memory and on stderr
    base           scikit-learn's BaseEstimator, which is optional

`estimator` imports the others; `predictions` imports `crf_inputs`. All packages but
`cli` may be imported here. Begin reading with `estimator.CRF.fit`.
"""
