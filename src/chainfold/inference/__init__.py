"""Inference: labels, posteriors, samples and sums of chains and of streams.

Begin reading with `decoder`, the core of both taggers, then `tagger` for whole chains and `stream_window` for streams.

    decoder          scores, Viterbi, forward vectors and posteriors of one block after the other
    result           Tagged, the one result type
    sentence         one sequence of items at a time, without blocks
    tagger           Tagger: a chain block by block, exact in bounded memory
    emission_paths   labels, posteriors and samples of dense scores
    whole_chain      tag, marginals, sample, nbest, entropies, log_probabilities
    explanation      why a position has its label: the terms that set it apart from the next best one
    buffer           rows that wait, in columns
    stream_viterbi   Viterbi for a stream: labels that are final
    quantities       sums over a stream: log likelihood, entropy, expected counts
    stream_window    blocks of a stream in, final rows out
    stream_tagger    StreamTagger: rows in, labels out; saved and loaded
    tag_files        files, tables and chains: tag them, evaluate a model on them
    monitor          the state of a stream over time, and alarms
    follow           a file or pipe, labelled as it grows

A module imports those above it only.
"""
