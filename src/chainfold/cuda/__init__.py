"""CUDA kernels, one file a recursion, and how they are compiled and launched.

    batch.cuh, chunk.cuh   a batch as kernels see it; what kernels of chunks share
    chunk_forward.cu       forward vectors of a chunk, the past before it certified
    chunk_future.cu        the posterior of a chunk's last position, certified
    chunk_backward.cu      posteriors and expected transitions of a chunk
    ordered.cu             sequences in order, in logarithms
    viterbi.cu             the best labelling
    sums.cu                sums of tables in a fixed order
    compiler               NVRTC: source to machine code, kept on disk
    launch                 Kernels: the functions of one number of labels and type, ready to launch

Neither numba nor Arrow is imported here. Only `errors` and `system.files` are. Begin reading with `chunk_forward.cu`.
"""
