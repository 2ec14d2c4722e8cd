// Sequences in order, one block a sequence and one thread a label: those that are not done in chunks, in scaled numbers
// (`numbers.cuh`) or, where these would leave the range, in logarithms (`logarithms.cuh`). The vectors tell which of both
// they are.
//
// flag: 0 the sequence was done in chunks, whose shares are added here; 1 forward in order; on the way back, not 0: in order.

#define MOST_THREADS (LABEL_THREADS > 512 ? LABEL_THREADS : 512)

// E and its transpose in `matrix`, for more than 64 labels.
extern "C" __global__ void __launch_bounds__(256) edge_matrix(Batch b) {
    __shared__ double room[32];
    Matrix matrix;
    range_of(b, matrix, room);
    for (int k = blockIdx.x * blockDim.x + threadIdx.x; k < N * N; k += gridDim.x * blockDim.x) {
        double e = exp((double)b.transitions[k] - matrix.shift);
        b.matrix[k] = e;
        b.matrix[N * N + k % N * N + k / N] = e;
    }
}

extern "C" __global__ void __launch_bounds__(MOST_THREADS) ordered_forward(Batch b) {
    __shared__ double pool[2 * N], room[32], edges[MATRIX_SIZE];
    Matrix matrix;
    bool loaded = false;
    const int j = threadIdx.x;
    for (long long s = blockIdx.x; s < b.sequences; s += gridDim.x) {
        const long long length = length_of(b, s);
        const bool in_chunks = b.flag && b.flag[s] != 1;
        if (in_chunks && b.whole) continue;
        double total = 0.0, own = 0.0;
        if (length > 0 && in_chunks) {
            long long first = first_part(b, s, b.chunk), count = (length + b.chunk - 1) / b.chunk;
            for (long long c = j; c < count; c += blockDim.x) {
                total += b.scale[first + c];
                if (b.tags) own += b.score[first + c];
            }
            total = block_sum(total, room);
            own = block_sum(own, room);
        } else if (length > 0) {
            if (!loaded) matrix = load_matrix(b, edges, room);
            loaded = true;
            if (b.tags) own = block_sum(score_of_tags(b, rows_of(b, s), length, j, length, blockDim.x), room);
            double alpha;
            bool done = matrix.in_range && forward_in_numbers(b, matrix, s, length, 0, length, true, true, pool, room,
                                                              alpha, total);
            __syncthreads();
            if (!done) total = forward_in_logarithms(b, s, length, pool, room);
        }
        if (j == 0) b.values[s] = (REAL)(b.tags ? own - total : total);
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(LABEL_THREADS) ordered_backward(Batch b) {
    __shared__ double pool[3 * N], room[32], edges[MATRIX_SIZE];
    Matrix matrix;
    bool loaded = false;
    const int j = threadIdx.x;
    for (long long s = blockIdx.x; s < b.sequences; s += gridDim.x) {
        const long long length = length_of(b, s);
        if (length == 0 || (b.flag && b.flag[s] == 0)) continue;
        const REAL *own = b.vectors + kept(b, s) * N;
        if (in_logarithms(own)) {
            backward_in_logarithms(b, s, length, pool, room);
        } else {
            if (!loaded) matrix = load_matrix(b, edges, room);
            loaded = true;
            double g = share_of(own + (length - 1) * N, room);
            backward_in_numbers(b, matrix, s, length - 1, 0, true, pool, room, g);
        }
        __syncthreads();
    }
}
