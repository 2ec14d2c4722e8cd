// Sequences in order: for more than 32 labels, for edges of positions' own, for weights of positions, and for what was
// not done in chunks. One block a sequence, one thread a label, in double.
//
//     predicted_t(j) = sum_i alpha_{t-1}(i) E(i, j)         E(i, j) = exp(transition(i, j) - shift)
//     alpha_t(j)     = exp(s_t(j) - peak) predicted_t(j), scaled by a power of two
//     v_t(j)         = g_t(j) / predicted_t(j)              g_t = gamma_t, or with weights of positions the flow
//     g_{t-1}(i)     = alpha_{t-1}(i) sum_j E(i, j) v_t(j)
//     pairs(i, j)    = E(i, j) sum_t alpha_{t-1}(i) v_t(j)
//
// With weights w, g ends as w times the posterior, and w_{t-1} - w_t is added at the tag of t before it goes back.
// E is in shared memory up to 64 labels; beyond it in `matrix`, with its transpose, and read through the caches. Pairs are
// added for TOGETHER positions at a time. Numbers near the end of the range, and edges of positions' own, take the
// logarithms of `logarithms.cuh`; the vectors tell which of both they are.
//
// flag: 0 the sequence was done in chunks, whose shares are added here; 1 forward in order; 2 back in order.

#define MOST_THREADS (LABEL_THREADS > 512 ? LABEL_THREADS : 512)
#undef GROUP
#define GROUP 8 // positions whose scores are read together
#if N <= 64
#define SHARED_MATRIX
#define STRIDE (N + 1)
#define TOGETHER 8
#else
#define STRIDE N
#define TOGETHER (N <= 128 ? 16 : 2048 / N)
#endif
#define POOL (2 * TOGETHER * N)

struct Matrix {
    const double *by_row, *by_column; // E(i, j) at by_row[i * STRIDE + j]; beyond 64 labels, also at by_column[j * N + i]
    double shift;
    bool watch, in_range;
};

// The range of the transitions, by a block.
__device__ inline void range_of(const Batch &b, Matrix &matrix, double *room) {
    double most = NEVER, least = INFINITE;
    bool watch = false;
#pragma unroll 4
    for (int k = threadIdx.x; k < N * N; k += blockDim.x) {
        double score = (double)b.transitions[k];
        if (!(score <= most)) most = score == score ? score : (double)INFINITE;
        if (score > NEVER) least = score < least ? score : least; else watch = true;
    }
    most = block_max(most, room);
    least = -block_max(-least, room);
    matrix.shift = most > NEVER ? most : 0.0;
    matrix.watch = __syncthreads_or(watch);
    matrix.in_range = !b.edges && most < INFINITE && !(most - least > EDGE_RANGE);
}

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

__device__ inline Matrix load_matrix(const Batch &b, double *shared, double *room) {
    Matrix matrix;
    range_of(b, matrix, room);
#ifdef SHARED_MATRIX
    for (int k = threadIdx.x; k < N * N; k += blockDim.x)
        shared[k / N * STRIDE + k % N] = exp((double)b.transitions[k] - matrix.shift);
    __syncthreads();
    matrix.by_row = shared;
    matrix.by_column = 0;
#else
    matrix.by_row = b.matrix;
    matrix.by_column = b.matrix + N * N;
#endif
    return matrix;
}

// sum_i row(i) E(i, j), and sum_k E(i, k) row(k): four sums in turns.
__device__ inline double to_label(const Matrix &matrix, const double *row, int j) {
    double sums[4] = {0.0, 0.0, 0.0, 0.0};
#pragma unroll 8
    for (int i = 0; i < N; ++i) sums[i % 4] += row[i] * matrix.by_row[i * STRIDE + j];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}
__device__ inline double from_label(const Matrix &matrix, const double *row, int i) {
    double sums[4] = {0.0, 0.0, 0.0, 0.0};
#pragma unroll 8
#ifdef SHARED_MATRIX
    for (int k = 0; k < N; ++k) sums[k % 4] += row[k] * matrix.by_row[i * STRIDE + k];
#else
    for (int k = 0; k < N; ++k) sums[k % 4] += row[k] * matrix.by_column[k * N + i];
#endif
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// Forward vectors and log Z; false where numbers near the end of the range. `pool`: [2, N].
static __device__ bool forward_in_numbers(const Batch &b, long long s, long long length, const Matrix &matrix,
                                          double *pool, double *room, double &total) {
    __shared__ float peaks[GROUP][32];
    __shared__ int powers[2][32];
    const int j = threadIdx.x, warp = j / 32, warps = blockDim.x / 32;
    const Rows rows = rows_of(b, s);
    REAL *out = b.vectors + kept(b, s) * N + j;
    double alpha = 0.0;
    long long exponents = 0;
    bool lost = false;
    total = 0.0;
    for (long long from = 0; from < length; from += GROUP) {
        REAL scores[GROUP];
#pragma unroll
        for (int k = 0; k < GROUP; ++k) {
            scores[k] = -INFINITE;
            if (j < N && from + k < length) scores[k] = score_of(b, rows.at(from + k), from + k, length, j);
            float peak = warp_peak((float)scores[k]);
            if (j % 32 == 0) peaks[k][warp] = peak;
        }
        if (__syncthreads_or(lost)) return false;
#pragma unroll
        for (int k = 0; k < GROUP; ++k) {
            const long long t = from + k;
            if (t >= length) break;
            float peak = peaks[k][0];
            for (int w = 1; w < warps; ++w) peak = !(peaks[k][w] <= peak) ? peaks[k][w] : peak;
            if (!(peak > -INFINITE && peak < INFINITE)) return false;
            total += (double)peak;
            double *before = pool + (t + 1) % 2 * N, *now = pool + t % 2 * N, predicted = 1.0;
            if (t > 0) {
                int power = powers[(t + 1) % 2][0];
                for (int w = 1; w < warps; ++w) power = Most()(power, powers[(t + 1) % 2][w]);
                if (power < -930 || power > 1000) return false; // of what the block has in common
                exponents += power;
                if (j < N) predicted = to_label(matrix, before, j) * __hiloint2double((1023 - power) << 20, 0);
            }
            alpha = j < N ? exp((double)scores[k] - (double)peak) * predicted : 0.0;
            lost = lost || (j < N && matrix.watch && alpha < (double)LEAST && predicted > 0 && scores[k] > -INFINITE);
            int power = (__reduce_max_sync(FULL, __double2hiint(alpha)) >> 20) - 1023;
            if (j % 32 == 0) powers[t % 2][warp] = power;
            if (j < N) {
                now[j] = alpha;
                out[t * N] = (REAL)alpha;
            }
            __syncthreads();
        }
    }
    double sum = block_sum(alpha, room);
    total += log(sum) + ((double)exponents * 0.693147180559945309417 + (double)(length - 1) * matrix.shift);
    return !__syncthreads_or(lost) && sum > (double)LEAST && sum < INFINITE;
}

// Posteriors and their counts from vectors that are numbers. `pool`: [2, TOGETHER, N].
__device__ inline void backward_in_numbers(const Batch &b, long long s, long long length, const Matrix &matrix,
                                           double *pool, double *room, double *table) {
    const int j = threadIdx.x;
    const Rows rows = rows_of(b, s);
    const REAL *own = b.vectors + kept(b, s) * N;
    const double share = (double)factor_of(b, s);
    double *alphas = pool, *flows = pool + TOGETHER * N;
    long long row = rows.at(length - 1);
    int tag = b.tags ? (int)b.tags[row] : -1, count = 0;
    double weight = weight_of(b, row), gamma = j < N ? (double)own[(length - 1) * N + j] : 0.0;
    gamma *= weight / block_sum(gamma, room);
    if (j < N) table[(N + 1) * N + j] += share * (b.sign * gamma + weight * (j == tag));
    for (long long t = length - 1; t >= 0; --t) {
        if (j < N) b.gradient[row * N + j] = (REAL)(share * (b.sign * gamma + weight * (j == tag)));
        if (t > 0) {
            row = rows.at(t - 1);
            const int last = b.tags ? (int)b.tags[row] : -1;
            const double before = weight_of(b, row);
            double *alpha = alphas + count * N, *flow = flows + count * N, own_alpha = 0.0;
            if (j < N) alpha[j] = own_alpha = (double)own[(t - 1) * N + j];
            __syncthreads();
            if (j < N) {
                double predicted = to_label(matrix, alpha, j);
                if (j == tag) {
                    gamma += before - weight;
                    table[last * N + tag] += share * before;
                }
                flow[j] = predicted > 0.0 ? gamma / predicted : 0.0;
            }
            __syncthreads();
            if (j < N) gamma = own_alpha * from_label(matrix, flow, j);
            ++count;
            tag = last;
            weight = before;
        }
        if (count == TOGETHER || (t == 0 && count)) {
            for (int i = 0; j < N && i < N; ++i) {
                double sum = 0.0;
                for (int k = 0; k < count; ++k) sum += alphas[k * N + i] * flows[k * N + j];
                table[i * N + j] += share * b.sign * matrix.by_row[i * STRIDE + j] * sum;
            }
            count = 0;
            if (!b.weights && t > 0) gamma /= block_sum(gamma, room);
            __syncthreads();
        }
    }
    if (j < N) table[N * N + j] += share * (b.sign * gamma + weight * (j == tag));
}

extern "C" __global__ void __launch_bounds__(MOST_THREADS) ordered_forward(Batch b) {
    __shared__ double pool[POOL], room[32];
#ifdef SHARED_MATRIX
    __shared__ double edges[N * STRIDE];
#else
    double *edges = 0;
#endif
    Matrix matrix;
    bool loaded = false;
    const int j = threadIdx.x;
    for (long long s = blockIdx.x; s < b.sequences; s += gridDim.x) {
        const long long length = length_of(b, s);
        const bool in_chunks = b.flag && b.flag[s] != 1;
        if (in_chunks && b.whole) continue;
        double total = 0.0, own = 0.0;
        if (length > 0 && in_chunks) {
            long long first = first_chunk(b, s), count = (length + b.chunk - 1) / b.chunk;
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
            bool done = matrix.in_range && forward_in_numbers(b, s, length, matrix, pool, room, total);
            __syncthreads();
            if (!done) total = forward_in_logarithms(b, s, length, pool, room);
        }
        if (j == 0) b.values[s] = (REAL)(b.tags ? own - total : total);
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(LABEL_THREADS) ordered_backward(Batch b) {
    __shared__ double pool[POOL], room[32];
#ifdef SHARED_MATRIX
    __shared__ double edges[N * STRIDE];
#else
    double *edges = 0;
#endif
    Matrix matrix;
    bool loaded = false;
    const int j = threadIdx.x;
    double *table = b.tables + (b.warps + blockIdx.x) * (N + 2) * N;
    for (int k = j; k < (N + 2) * N; k += blockDim.x) table[k] = 0.0;
    __syncthreads();
    for (long long s = blockIdx.x; s < b.sequences; s += gridDim.x) {
        const long long length = length_of(b, s);
        if (length == 0 || (b.flag && b.flag[s] == 0)) continue;
        const REAL *own = b.vectors + kept(b, s) * N;
        const bool numbers = __syncthreads_or(j < N && own[j] > 0);
        if (numbers) {
            if (!loaded) matrix = load_matrix(b, edges, room);
            loaded = true;
            backward_in_numbers(b, s, length, matrix, pool, room, table);
        } else {
            backward_in_logarithms(b, s, length, pool, room, table);
        }
        __syncthreads();
    }
}
