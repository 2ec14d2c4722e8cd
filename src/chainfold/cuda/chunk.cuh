// What the kernels of chunks share: E = exp(transition - shift) in shared memory and registers. N is at most 32.

struct Edges {
    REAL shift;    // what was taken out of the transitions
    bool in_range; // E has the range of REAL
    bool watch;    // some transition is forbidden, or E(i, j) = 0 stands for it
    REAL floor;    // a predicted number up to it is zero because it is impossible; none is where E is zero for a finite score
    int lowest;    // the least power of two for which products with E keep their digits
    REAL least;    // two to it
    REAL negligible; // a share of a forward vector below it changes no predicted number by more than TOLERANCE
};

// The power of two below the largest of the numbers of a warp, none of which is negative: one instruction, and exact.
__device__ inline int peak_exponent(float x) { return (__reduce_max_sync(FULL, __float_as_int(x)) >> 23) - 127; }
__device__ inline int peak_exponent(double x) { return (__reduce_max_sync(FULL, __double2hiint(x)) >> 20) - 1023; }
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
