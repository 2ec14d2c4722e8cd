// Positions of a sequence in scaled numbers and in double, by a block with SHARES threads a label, each of which adds a
// share of the terms of a sum: for any number of labels, edges of positions' own, and weights of positions.
//
//     predicted_t(j) = sum_i alpha_{t-1}(i) E_t(i, j)    E_t(i, j) = exp(transition(i, j) + edges_t(i, j) - shift)
//     alpha_t(j)     = exp(s_t(j) - peak) predicted_t(j), scaled by a power of two
//     v_t(j)         = g_t(j) / predicted_t(j)           g_t = gamma_t, or with weights of positions the flow
//     g_{t-1}(i)     = alpha_{t-1}(i) sum_j E_t(i, j) v_t(j)
//
// With weights w, g begins as w times the posterior, and w_{t-1} - w_t is added at the tag of t before it goes back.
// Without edges, E is the same everywhere: in shared memory up to 64 labels; beyond it in `matrix`, with its transpose, and
// read through the caches. With edges, shift is zero and E is computed where it is needed.

#define FETCHED (N <= 512 ? 8 : 2) // positions whose scores are read together
#define FETCHES ((FETCHED + SHARES - 1) / SHARES) // of them by a thread
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

// The label of a thread, and which share of its terms is the thread's.
__device__ inline int own_label() { return (int)threadIdx.x / SHARES; }
__device__ inline int own_share() { return (int)threadIdx.x % SHARES; }
__device__ inline bool leads() { return own_share() == 0 && own_label() < N; }

// The sum of N terms for each label, by all threads of a warp; all threads of the label get it.
template <class Term> __device__ inline double sum_of_terms(Term term) {
    double sums[2] = {0.0, 0.0};
#pragma unroll 8
    for (int k = 0; k < (N + SHARES - 1) / SHARES; ++k) {
        const int i = k * SHARES + own_share();
        if (N % SHARES == 0 || i < N) sums[k % 2] += term(i);
    }
    double sum = sums[0] + sums[1];
#pragma unroll
    for (int width = SHARES / 2; width; width /= 2) sum += __shfl_xor_sync(FULL, sum, width);
    return sum;
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

// Is every edge into label j of a row, of a thread's share, in the range in which exp neither over- nor underflows, or as
// good as forbidden? `vanished`: some finite one is.
__device__ inline bool edges_in_range(const Batch &b, long long row, int j, bool &vanished) {
    bool fit = true;
    vanished = false;
#pragma unroll 8
    for (int i = own_share(); i < N; i += SHARES) {
        const double score = edge_of(b, row, i, j);
        const bool vanishes = score < -(EDGE_RANGE + VANISHING);
        vanished = vanished || (vanishes && score > NEVER);
        fit = fit && (vanishes || fabs(score) <= EDGE_RANGE / 2);
    }
    return fit;
}

// Forward vectors of positions from, ..., until - 1. A label's `alpha` is of the vector before them, which adds up to one;
// where `fresh`, there is none: position 0, or equal shares. It becomes that of the last of them, normalised, and `total`
// the log of what the vectors have grown by. With `keep`, they are stored, each when its power of two is known.
// False where numbers near the end of the range. `pool`: [2, N], `room`: [32], both shared.
static __device__ bool forward_in_numbers(const Batch &b, const Matrix &matrix, long long s, long long length,
                                          long long from, long long until, bool fresh, bool keep, double *pool,
                                          double *room, double &alpha, double &total) {
    __shared__ float peaks[FETCHED][32];
    __shared__ int powers[2][32];
    const int j = own_label(), label = j < N ? j : N - 1, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int warps = blockDim.x / 32;
    const bool leader = leads();
    const Rows rows = rows_of(b, s);
    REAL *out = b.vectors + kept(b, s) * N + j;
    long long exponents = 0;
    bool lost = false, risky = false; // risky: the share of `alpha` has to be large enough
    total = 0.0;
    if (!fresh) {
        if (leader) pool[(from + 1) % 2 * N + j] = alpha;
        if (lane == 0) powers[(from + 1) % 2][warp] = 0;
    }
    for (long long first = from; first < until; first += FETCHED) {
        REAL scores[FETCHES]; // of every SHARES-th position
#pragma unroll
        for (int r = 0; r < FETCHES; ++r) {
            const long long t = first + r * SHARES + own_share();
            scores[r] = -INFINITE;
            if (j < N && r * SHARES + own_share() < FETCHED && t < until) scores[r] = score_of(b, rows.at(t), t, length, j);
        }
#pragma unroll
        for (int k = 0; k < FETCHED; ++k) {
            const float peak = warp_peak(own_share() == k % SHARES ? (float)scores[k / SHARES] : -INFINITE);
            if (lane == 0) peaks[k][warp] = peak;
        }
        if (__syncthreads_or(lost)) return false;
        double potentials[FETCHES]; // negative where the score is -inf
#pragma unroll
        for (int r = 0; r < FETCHES; ++r) {
            float peak = -INFINITE;
            for (int w = 0; w < warps && r * SHARES + own_share() < FETCHED; ++w)
                peak = fmaxf(peak, peaks[r * SHARES + own_share()][w]);
            potentials[r] = scores[r] > -INFINITE ? exp((double)scores[r] - (double)peak) : -1.0;
        }
#pragma unroll
        for (int k = 0; k < FETCHED; ++k) {
            const long long t = first + k;
            if (t >= until) break;
            const float peak = warp_peak(lane < warps ? peaks[k][lane] : -INFINITE);
            if (!(peak > -INFINITE && peak < INFINITE)) return false;
            total += (double)peak;
            const double potential = __shfl_sync(FULL, potentials[k / SHARES], lane / SHARES * SHARES + k % SHARES);
            double *before = pool + (t + 1) % 2 * N, *now = pool + t % 2 * N, predicted = 1.0;
            bool vanished = false;
            if (t > from || !fresh) {
                const int power = __reduce_max_sync(FULL, lane < warps ? powers[(t + 1) % 2][lane] : -2000);
                if (power < matrix.lowest || power > 1000) return false; // of what the block has in common
                exponents += power;
                const double share = alpha * two_to(-power);
                lost = lost || (risky && share < matrix.least);
                if (keep && t > from && leader) out[(t - 1) * N] = (REAL)share;
                predicted = to_label(b, matrix, before, rows.at(t), label) * two_to(-power);
                if (b.edges) lost = lost || !edges_in_range(b, rows.at(t), label, vanished);
            }
            alpha = j < N && potential > 0.0 ? potential * predicted : 0.0;
            risky = j < N && matrix.watch && (vanished || predicted > matrix.floor) && potential >= 0.0;
            const int power = (__reduce_max_sync(FULL, __double2hiint(alpha)) >> 20) - 1023;
            if (lane == 0) powers[t % 2][warp] = power;
            if (leader) now[j] = alpha;
            __syncthreads();
        }
    }
    const double sum = block_sum(leader ? alpha : 0.0, room);
    const long long moves = until - from - (fresh ? 1 : 0);
    alpha /= sum;
    lost = lost || (risky && alpha < matrix.least);
    if (keep && leader) out[(until - 1) * N] = (REAL)alpha;
    total += log(sum) + ((double)exponents * 0.693147180559945309417 + (double)moves * matrix.shift);
    return !__syncthreads_or(lost) && sum > two_to(matrix.lowest) && sum < INFINITE;
}

// A label's `g` at position `from` goes back to position `until`. With `keep`, it is stored in the gradient on its way.
// `pool`: [2, N], `room`: [32], both shared.
static __device__ void backward_in_numbers(const Batch &b, const Matrix &matrix, long long s, long long from,
                                           long long until, bool keep, double *pool, double *room, double &g) {
    const int j = own_label(), label = j < N ? j : N - 1;
    const bool leader = leads();
    const Rows rows = rows_of(b, s);
    const REAL *own = b.vectors + kept(b, s) * N + label;
    double *alphas = pool, *flows = pool + N;
    REAL next = from > until ? own[(from - 1) * N] : (REAL)0;
    for (long long t = from;; --t) {
        const long long row = rows.at(t);
        if (keep && leader) b.gradient[row * N + j] = (REAL)g;
        if (t == until) return;
        const double alpha = (double)next;
        if (leader) alphas[j] = alpha;
        if (t - 1 > until) next = own[(t - 2) * N];
        __syncthreads();
        const double predicted = to_label(b, matrix, alphas, row, label);
        if (b.weights && j == (int)b.tags[row]) g += b.weights[rows.at(t - 1)] - b.weights[row];
        if (leader) flows[j] = predicted > 0.0 ? g / predicted : 0.0;
        __syncthreads();
        g = alpha * from_label(b, matrix, flows, row, label);
        if (!b.weights && (from - t) % FETCHED == FETCHED - 1) g /= block_sum(leader ? g : 0.0, room);
    }
}

// The share of a thread's label in a forward vector, normalised: the posterior of a sequence's last position.
__device__ inline double share_of(const REAL *vector, double *room) {
    const double share = own_label() < N ? (double)vector[own_label()] : 0.0;
    return share / block_sum(leads() ? share : 0.0, room);
}
