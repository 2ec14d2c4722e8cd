"""The experiments of Ilić et al. on the gradient of a linear-chain CRF, reproduced: `python -m experiments paper`.

Begin with `experiment`, which runs everything.

command          the command
experiment       the pieces, the ledger, and what figures and page are made from
run_plan         settings, algorithms, and the lengths and limits of a full and a quick run
corpus           the data and the trained models
counting         Algorithms 1 and 2 with every operation counted, beside the paper's Tables 1 and 2
numerics         where plain sums and products leave the range of a double
lookahead        how far the certificate of `stream` looks ahead, and the error it leaves
entropy          the entropy of the labels, exactly and by sampling
many_weights     time as the number of weights and of labels grows
cases            Cases I to IV: time and memory against the length
measurement      one engine on one chain in a fresh process
prefix           the first positions of a chain
paging           a memory limit in user space
memory_limited   the paper's algorithms under it
series           curves, slopes and limits, read from the results
verdicts         each claim of the paper: confirmed or refuted
figures, report  the figures and the HTML page
"""
