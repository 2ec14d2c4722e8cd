// What the kernels of chunks share: E = exp(transition - shift) in shared memory and registers. N is at most 32.
//
// With EDGES, potentials of each position are added to the transitions, and every position has an E of its own, in which
// the largest number of each column is one: what was taken out of a column is added to the score of its label.

struct Edges {
    REAL shift;      // what was taken out of the transitions
    bool in_range;   // E has the range of REAL
    bool watch;      // some E(i, j) is zero: then numbers that are too small to keep their digits may matter later
    REAL floor;      // labels predicted above it are possible: 0, or -1 where some E is zero although its score is finite
    int lowest;      // the least power of two for which products with E keep their digits
    REAL least;      // the least share that keeps its digits
    REAL negligible; // a share of a forward vector below it changes no predicted number by more than TOLERANCE
};

// The power of two below the largest of the numbers of a warp, none of which is negative: one instruction, and exact.
__device__ inline int peak_exponent(float x) { return (__reduce_max_sync(FULL, __float_as_int(x)) >> 23) - 127; }
__device__ inline int peak_exponent(double x) { return (__reduce_max_sync(FULL, __double2hiint(x)) >> 20) - 1023; }
// The power of two below the least of those that are not zero.
__device__ inline int exponent_of_least(float x) {
    return (-__reduce_max_sync(FULL, x > 0 ? -__float_as_int(x) : -0x7f000000) >> 23) - 127;
}
__device__ inline int exponent_of_least(double x) {
    return (-__reduce_max_sync(FULL, x > 0 ? -__double2hiint(x) : -0x7fe00000) >> 20) - 1023;
}
#ifdef REAL_IS_DOUBLE
#define MOST_EXPONENT 1000
__device__ inline double power_of_two(int k) { return __hiloint2double((k + 1023) << 20, 0); }
#else
#define MOST_EXPONENT 110
__device__ inline float power_of_two(int k) { return __int_as_float((k + 127) << 23); }
#endif

// The range of the transitions, by each warp.
__device__ inline Edges range_of_edges(const Batch &b) {
    float most = -INFINITE, least = INFINITE;
    bool watch = false, vanish = false;
    for (int k = threadIdx.x % 32; k < N * N; k += 32) {
        float score = (float)b.transitions[k];
        most = fmaxf(most, score);
        if (score != score) most = INFINITE;
    }
    most = warp_peak(most);
    for (int k = threadIdx.x % 32; k < N * N; k += 32) {
        float score = (float)b.transitions[k];
        bool vanishes = score < most - VANISHING;
        watch = watch || vanishes;
        vanish = vanish || (vanishes && score > -INFINITE);
        if (!vanishes) least = fminf(least, score);
    }
    least = -warp_peak(-least);
    Edges edges;
    edges.shift = most > -INFINITE && most < INFINITE ? (REAL)most : (REAL)0;
    edges.in_range = most < INFINITE && !(most - least > EDGE_RANGE);
    edges.watch = __any_sync(FULL, watch);
    edges.floor = __any_sync(FULL, vanish) ? (REAL)-1 : (REAL)0;
    edges.lowest = LOWEST + (edges.in_range && most > least ? (int)((most - least) * 1.4427f) + 1 : 0);
    edges.least = power_of_two(edges.lowest);
    edges.negligible = edges.watch ? (REAL)0 : power_of_two(LOWEST - edges.lowest) * (REAL)(TOLERANCE / 32);
    return edges;
}

#ifndef EDGES
#define TILES 1 // of E in shared memory

// E into `shared` [N][PADDED], by all threads of a block; columns and rows of it can then be read into registers.
__device__ inline Edges load_edges(const Batch &b, REAL (*shared)[PADDED]) {
    const Edges edges = range_of_edges(b);
    for (int k = threadIdx.x; k < N * PADDED; k += blockDim.x) {
        int i = k / PADDED, j = k % PADDED;
        shared[i][j] = j < N ? exponential(b.transitions[i * N + j] - edges.shift) : (REAL)0;
    }
    __syncthreads();
    return edges;
}

#else
#define TILES WARPS

// Lane k gets the sum of x[k] over the warp: each step halves what a lane has to add.
template <int WIDTH = 16> __device__ inline REAL sum_for_lane(REAL (&x)[32]) {
    const bool upper = threadIdx.x & WIDTH;
#pragma unroll
    for (int k = 0; k < WIDTH; ++k) {
        const REAL given = upper ? x[k] : x[k + WIDTH], own = upper ? x[k + WIDTH] : x[k];
        x[k] = own + __shfl_xor_sync(FULL, given, WIDTH);
    }
    if constexpr (WIDTH > 1) return sum_for_lane<WIDTH / 2>(x);
    return x[0];
}

// What holds for all positions. E of a position is made when it is reached, and its forward vector is checked then.
__device__ inline Edges load_edges(const Batch &b, REAL (*shared)[PADDED]) {
    Edges edges;
    edges.shift = edges.floor = edges.negligible = 0;
    edges.in_range = edges.watch = true;
    edges.lowest = LOWEST + (int)(EDGE_RANGE * 1.4427) + 1;
    edges.least = LEAST;
    return edges;
}

// The column of a lane's label in E of the move into a position, and what is known of it.
struct Column {
    REAL scores[PADDED]; // of the transitions
    REAL edges[PADDED];  // of the position that has been read
    REAL e[PADDED];
    double most;   // what was taken out of its scores
    REAL span;     // of those scores that are not as good as forbidden
    bool zero;     // some e is zero,
    bool vanished; // although its score is finite
    bool in_range;

    __device__ inline void begin(const Batch &b, int label) {
#pragma unroll
        for (int i = 0; i < PADDED; ++i) scores[i] = i < N ? b.transitions[i % N * N + label] : (REAL)-INFINITE;
    }
    __device__ inline void read(const Batch &b, long long row, int label) {
        const REAL *from = b.edges + row * N * N + label;
#pragma unroll
        for (int i = 0; i < PADDED; ++i) edges[i] = i < N ? from[i % N * N] : (REAL)0;
    }
    // Of what has been read; then the next position may be read.
    __device__ inline void make() {
        REAL high = -INFINITE, high_score = 0, high_edge = 0, low = 0;
        zero = vanished = false;
        in_range = true;
#pragma unroll
        for (int i = 0; i < N; ++i) {
            const REAL sum = scores[i] + edges[i];
            in_range = in_range && sum < INFINITE;
            if (sum > high) { high = sum; high_score = scores[i]; high_edge = edges[i]; }
        }
        most = (double)high_score + (double)high_edge;
#pragma unroll
        for (int i = 0; i < PADDED; ++i) {
            if (i >= N) {
                e[i] = 0;
                continue;
            }
            const REAL x = (scores[i] - high_score) + (edges[i] - high_edge); // of large scores, too, with all digits
            const bool vanishes = x < (REAL)-VANISHING;
            zero = zero || vanishes;
            vanished = vanished || (vanishes && x > -INFINITE);
            low = !vanishes && x < low ? x : low;
            e[i] = exponential(x);
        }
        span = -low;
        in_range = in_range && span <= (REAL)EDGE_RANGE;
    }
    // Into shared memory, by a warp; true where all columns are in range.
    __device__ inline bool put(REAL (*tile)[PADDED]) const {
        const int lane = threadIdx.x % 32;
        __syncwarp();
#pragma unroll
        for (int i = 0; i < N; ++i)
            if (lane < PADDED) tile[i][lane] = lane < N ? e[i] : (REAL)0;
        __syncwarp();
        return __all_sync(FULL, in_range);
    }
};
#endif

// 1 / x of a number in the range; without the branch that the quotient of floats needs for numbers near its end.
__device__ inline double reciprocal(double x) { return 1.0 / x; }
__device__ inline float reciprocal(float x) {
    const float near = __fdividef(1.0f, x);
    return fmaf(near, fmaf(-x, near, 1.0f), near);
}

// A row of shared memory, 16 bytes at a time, the same for all lanes.
__device__ inline void read_row(const REAL *row, REAL (&out)[PADDED]) {
    const REAL4 *four = (const REAL4 *)row;
#pragma unroll
    for (int k = 0; k < PADDED / 4; ++k) {
        REAL4 here = four[k];
        out[4 * k] = here.x; out[4 * k + 1] = here.y; out[4 * k + 2] = here.z; out[4 * k + 3] = here.w;
    }
}

// sum_k x(k) y(k): four sums in turns, which do not wait for one another.
__device__ inline REAL dot(const REAL (&x)[PADDED], const REAL (&y)[PADDED]) {
    REAL sums[4] = {0, 0, 0, 0};
#pragma unroll
    for (int k = 0; k < PADDED; ++k) sums[k % 4] += x[k] * y[k];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}
__device__ inline REAL dot_row(const REAL (&x)[PADDED], const REAL *row) {
    REAL y[PADDED];
    read_row(row, y);
    return dot(x, y);
}
__device__ inline REAL dot_rows(const REAL *x, const REAL *y) {
    REAL own[PADDED];
    read_row(x, own);
    return dot_row(own, y);
}
