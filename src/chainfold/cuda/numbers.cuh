// Positions of a sequence in scaled numbers and in double, by a block with one thread a label: for any number of labels
// and edges of positions' own.
//
//     predicted_t(j) = sum_i alpha_{t-1}(i) E_t(i, j)    E_t(i, j) = exp(transition(i, j) + edges_t(i, j) - shift)
//     alpha_t(j)     = exp(s_t(j) - peak) predicted_t(j), scaled by a power of two
//     v_t(j)         = g_t(j) / predicted_t(j)           g_t = gamma_t
//     g_{t-1}(i)     = alpha_{t-1}(i) sum_j E_t(i, j) v_t(j)
//
// Without edges, E is the same everywhere: in shared memory up to 64 labels; beyond it in `matrix`, with its transpose, and
// read through the caches. With edges, shift is zero and E is computed where it is needed.

#define FETCHED (N <= 512 ? 8 : 2) // positions whose scores are read together
#if N <= 64
#define SHARED_MATRIX
#define STRIDE (N + 1)
#define MATRIX_SIZE (N * STRIDE)
#else
#define STRIDE N
#define MATRIX_SIZE 1 // of shared memory that is not used
#endif

struct Matrix {
    const double *by_row, *by_column; // E(i, j) at by_row[i * STRIDE + j]; beyond 64 labels, also at by_column[j * N + i]
    double shift;
    bool in_range; // E has the range of REAL
    bool watch;    // some transition may be forbidden, or as good as that
    double floor;  // see `Edges` of chunk.cuh
    int lowest;    // the least power of two for which products with E keep their digits
    double least;  // the least share of a kept vector for which they do in REAL
};

__device__ inline double two_to(int k) { return __hiloint2double((1023 + k) << 20, 0); }

__device__ inline void set_range(Matrix &matrix, double span) {
    const int powers = matrix.in_range && span > 0.0 ? (int)(span * 1.4427) + 1 : 0;
    matrix.lowest = powers - 1000;
    matrix.least = two_to(powers + LOWEST);
}

// The range of the transitions, by a block. That of edges is found position by position.
__device__ inline void range_of(const Batch &b, Matrix &matrix, double *room) {
    double most = NEVER, least = INFINITE;
    bool watch = false, vanish = false;
#pragma unroll 4
    for (int k = threadIdx.x; k < N * N; k += blockDim.x) {
        double score = (double)b.transitions[k];
        if (!(score <= most)) most = score == score ? score : (double)INFINITE;
    }
    most = block_max(most, room);
#pragma unroll 4
    for (int k = threadIdx.x; k < N * N; k += blockDim.x) {
        double score = (double)b.transitions[k];
        bool vanishes = score < most - VANISHING;
        watch = watch || vanishes;
        vanish = vanish || (vanishes && score > NEVER);
        if (!vanishes && score < least) least = score;
    }
    least = -block_max(-least, room);
    matrix.in_range = most < INFINITE && !(most - least > EDGE_RANGE);
    matrix.shift = most > NEVER && most < INFINITE ? most : 0.0;
    matrix.watch = __syncthreads_or(watch);
    matrix.floor = __syncthreads_or(vanish) ? -1.0 : 0.0;
    set_range(matrix, most - least);
}

__device__ inline Matrix load_matrix(const Batch &b, double *shared, double *room) {
    Matrix matrix = {b.matrix, b.matrix + N * N, 0.0, true, true, 0.0};
    set_range(matrix, EDGE_RANGE);
    if (b.edges) return matrix;
    range_of(b, matrix, room);
#ifdef SHARED_MATRIX
    for (int k = threadIdx.x; k < N * N; k += blockDim.x)
        shared[k / N * STRIDE + k % N] = exp((double)b.transitions[k] - matrix.shift);
    __syncthreads();
    matrix.by_row = shared;
#endif
    return matrix;
}

// The sum of N terms: four sums in turns.
template <class Term> __device__ inline double sum_of_terms(Term term) {
    double sums[4] = {0.0, 0.0, 0.0, 0.0};
#pragma unroll 8
    for (int k = 0; k < N; ++k) sums[k % 4] += term(k);
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// sum_i vector(i) E(i, j) and sum_k E(i, k) vector(k), for the move into a row of the emissions.
__device__ inline double to_label(const Batch &b, const Matrix &matrix, const double *vector, long long row, int j) {
    if (b.edges) return sum_of_terms([&](int i) { return vector[i] * exp(edge_of(b, row, i, j)); });
    return sum_of_terms([&](int i) { return vector[i] * matrix.by_row[i * STRIDE + j]; });
}
__device__ inline double from_label(const Batch &b, const Matrix &matrix, const double *vector, long long row, int i) {
    if (b.edges) return sum_of_terms([&](int k) { return vector[k] * exp(edge_of(b, row, i, k)); });
#ifdef SHARED_MATRIX
    return sum_of_terms([&](int k) { return vector[k] * matrix.by_row[i * STRIDE + k]; });
#else
    return sum_of_terms([&](int k) { return vector[k] * matrix.by_column[k * N + i]; });
#endif
}

// Is every edge into label j of a row in the range in which exp neither over- nor underflows, or as good as forbidden?
// `vanished`: some finite one is.
__device__ inline bool edges_in_range(const Batch &b, long long row, int j, bool &vanished) {
    bool fit = true;
#pragma unroll 8
    for (int i = 0; i < N; ++i) {
        const double score = edge_of(b, row, i, j);
        const bool vanishes = score < -(EDGE_RANGE + VANISHING);
        vanished = vanished || (vanishes && score > NEVER);
        fit = fit && (vanishes || fabs(score) <= EDGE_RANGE / 2);
    }
    return fit;
}

// Forward vectors of positions from, ..., until - 1. Thread j's `alpha` is of the vector before them, which adds up to
// one; where `fresh`, there is none: position 0, or equal shares. It becomes that of the last of them, normalised, and
// `total` the log of what the vectors have grown by. With `keep`, they are stored, each when its power of two is known.
// False where numbers near the end of the range. `pool`: [2, N], `room`: [32], both shared.
static __device__ bool forward_in_numbers(const Batch &b, const Matrix &matrix, long long s, long long length,
                                          long long from, long long until, bool fresh, bool keep, double *pool,
                                          double *room, double &alpha, double &total) {
    __shared__ float peaks[FETCHED][32];
    __shared__ int powers[2][32];
    const int j = threadIdx.x, warp = j / 32, warps = blockDim.x / 32;
    const Rows rows = rows_of(b, s);
    REAL *out = b.vectors + kept(b, s) * N + j;
    long long exponents = 0;
    bool lost = false, risky = false; // risky: the share of `alpha` has to be large enough
    total = 0.0;
    if (!fresh) {
        if (j < N) pool[(from + 1) % 2 * N + j] = alpha;
        if (j % 32 == 0) powers[(from + 1) % 2][warp] = 0;
    }
    REAL next[FETCHED]; // emissions of the positions that come
    auto read = [&](long long t) {
#pragma unroll
        for (int k = 0; k < FETCHED; ++k)
            next[k] = b.emissions[rows.at(t + k < until ? t + k : until - 1) * N + (j < N ? j : N - 1)];
    };
    read(from);
    for (long long first = from; first < until; first += FETCHED) {
        double potentials[FETCHED]; // scores, until the highest of the block is known
        float highest[FETCHED];
        unsigned possible = 0;
#pragma unroll
        for (int k = 0; k < FETCHED; ++k) {
            const long long t = first + k < until ? first + k : until - 1;
            potentials[k] = j < N ? score_of(b, next[k], t, length, j) : NEVER;
            if (potentials[k] > NEVER) possible |= 1u << k;
            float peak = warp_peak((float)potentials[k]);
            if (j % 32 == 0) peaks[k][warp] = peak;
        }
        read(first + FETCHED);
        if (__syncthreads_or(lost)) return false;
#pragma unroll
        for (int k = 0; k < FETCHED; ++k) {
            highest[k] = warp_peak(j % 32 < warps ? peaks[k][j % 32] : -INFINITE);
            potentials[k] = exp(potentials[k] - (double)highest[k]);
        }
#pragma unroll
        for (int k = 0; k < FETCHED; ++k) {
            const long long t = first + k;
            if (t >= until) break;
            if (!(highest[k] > -INFINITE && highest[k] < INFINITE)) return false;
            total += (double)highest[k];
            double *before = pool + (t + 1) % 2 * N, *now = pool + t % 2 * N, predicted = 1.0;
            bool vanished = false;
            if (t > from || !fresh) {
                const int power = __reduce_max_sync(FULL, j % 32 < warps ? powers[(t + 1) % 2][j % 32] : -2000);
                if (power < matrix.lowest || power > 1000) return false; // of what the block has in common
                exponents += power;
                const double share = alpha * two_to(-power);
                lost = lost || (risky && share < matrix.least);
                if (keep && t > from && j < N) out[(t - 1) * N] = (REAL)share;
                if (j < N) predicted = to_label(b, matrix, before, rows.at(t), j) * two_to(-power);
                if (b.edges && j < N) lost = lost || !edges_in_range(b, rows.at(t), j, vanished);
            }
            alpha = j < N ? potentials[k] * predicted : 0.0;
            risky = j < N && matrix.watch && (vanished || predicted > matrix.floor) && (possible >> k & 1);
            int power = (__reduce_max_sync(FULL, __double2hiint(alpha)) >> 20) - 1023;
            if (j % 32 == 0) powers[t % 2][warp] = power;
            if (j < N) now[j] = alpha;
            __syncthreads();
        }
    }
    const double sum = block_sum(alpha, room);
    const long long moves = until - from - (fresh ? 1 : 0);
    alpha /= sum;
    lost = lost || (risky && alpha < matrix.least);
    if (keep && j < N) out[(until - 1) * N] = (REAL)alpha;
    total += log(sum) + ((double)exponents * 0.693147180559945309417 + (double)moves * matrix.shift);
    return !__syncthreads_or(lost) && sum > two_to(matrix.lowest) && sum < INFINITE;
}

// Thread j's `g` at position `from` goes back to position `until`. With `keep`, it is stored in the gradient on its way.
// `pool`: [2, N], `room`: [32], both shared.
static __device__ void backward_in_numbers(const Batch &b, const Matrix &matrix, long long s, long long from,
                                           long long until, bool keep, double *pool, double *room, double &g) {
    const int j = threadIdx.x;
    const Rows rows = rows_of(b, s);
    const REAL *own = b.vectors + kept(b, s) * N;
    double *alphas = pool, *flows = pool + N;
    for (long long t = from;; --t) {
        const long long row = rows.at(t);
        if (keep && j < N) b.gradient[row * N + j] = (REAL)g;
        if (t == until) return;
        double alpha = 0.0;
        if (j < N) alphas[j] = alpha = (double)own[(t - 1) * N + j];
        __syncthreads();
        if (j < N) {
            double predicted = to_label(b, matrix, alphas, row, j);
            flows[j] = predicted > 0.0 ? g / predicted : 0.0;
        }
        __syncthreads();
        if (j < N) g = alpha * from_label(b, matrix, flows, row, j);
        if ((from - t) % FETCHED == FETCHED - 1) g /= block_sum(g, room);
    }
}

// Thread j's share of a forward vector, normalised: the posterior of a sequence's last position.
__device__ inline double share_of(const REAL *vector, double *room) {
    double share = threadIdx.x < N ? (double)vector[threadIdx.x] : 0.0;
    return share / block_sum(share, room);
}
