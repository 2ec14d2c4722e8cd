"""Streams: labels, posteriors and sums of a chain that has no end, as its rows come.

buffer       the rows that are not final yet
quantities   what is summed up over a stream
window       blocks in, final rows out
tagger       rows in, names out; saved and loaded
monitor      what a person would want to see of a stream
follow       a file or pipe, labelled as it grows
"""
