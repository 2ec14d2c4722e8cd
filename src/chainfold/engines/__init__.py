"""Engines: exact ways to compute log Z and the expected counts of a chain under given weights.

All agree; they differ in what they keep and how often they read. Begin reading with `problem` and `block_pass`, then
`memory_cases` and `stream`. An engine gets blocks of arrays and a layout of weights, through `Problem`.

    rounding            how large scores can be; error bounds
    ranges              ranges of positions
    settings            Settings and Shape: what an engine is asked to do, and the sizes that decide its memory
    pool                arrays that are lent and given back
    workspace           a chain in memory, kept from one evaluation to the next
    problem             Problem: a model on a chain, with the settings
    sums                sums over stretches, and the tree in which they are added
    tally               Tally: log Z and expected counts, score and counts of the observed labels
    engine              Engine, Report
    belief              forward vectors that sum to one, in doubles or wide numbers
    transitions         scores of transitions as the core takes them
    forward_pass        forward over scored positions
    scores              sources of scores, and their sinks
    block_pass          forward and back over one block, from any source
    certificate         the posterior of a position, known before the future is read
    halo                the past and the future of a stretch, certified
    emissions           a source: dense scores of sequences, with their gradient
    potentials          the weights of a model as the core takes them
    weight_scores       a source: sums of weights, with expected counts
    short_sequences     whole sequences, forward and back in one go
    memory_cases        forward over the blocks, then back over them
                          fb             keeps everything                O(NT)
                          fb-recompute   keeps the forward vectors       O(NT), half
                          fb-spill       keeps them on disk              O(B)
                          checkpoint     keeps one in √T                 O(N√T)
    stream              one pass, certified collapse           O(M + N(B + L))
    stretch             the share of a stretch of the chain, with halos
    emissions           dense scores as a source: log Z and gradients of a batch
    parallel            `stream` on many stretches at once
    published/          the paper's own algorithms, in the log domain
    registry            the engines by name
    log_likelihood      log Z, log likelihood and gradient, by any engine
    observed            the counts of the observed labels
    piecewise           the gradient of a chain that comes in pieces

Each module imports those above it only; no engine imports another, except that `parallel` imports `stream`. The
registry imports an engine when it is asked for it.
"""
