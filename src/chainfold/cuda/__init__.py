"""CUDA kernels, one file a recursion, and how they are compiled and launched.

    batch.cuh, chunk.cuh   a batch as kernels see it; what kernels of chunks share
    logarithms.cuh         positions of a sequence forward and back, in logarithms
    numbers.cuh            the same in scaled numbers
    rows.cu                the rows of the positions that a mask leaves

    viterbi.cuh            best scores of positions, and the way back along pointers

    chunk_past.cu          chunks by warps, up to 32 labels: the forward vector before a chunk, certified
    chunk_forward.cu       forward vectors of a chunk
    chunk_future.cu        the posterior of a chunk's last position, certified
    chunk_backward.cu      posteriors and expected transitions of a chunk

    blocks.cu              chunks by blocks, more than 32 labels: forward vectors and posteriors, certified
    ordered.cu             whole sequences by blocks, in order
    counts.cu              expected transitions of both

    sums.cu                sums of tables in a fixed order
    viterbi.cu, ranked.cu  the best labelling in order, the k best
    best_chunks.cu         the best labelling of long sequences, in chunks
    drawn.cu               drawn labellings
    entropy.cu             entropies

    compiler               NVRTC: source to machine code, kept on disk
    launch                 Kernels: the functions of one number of labels and type, ready to launch

Neither numba nor Arrow is imported here. Only `errors` and `system.files` are. Begin reading with `chunk_forward.cu`.
"""
