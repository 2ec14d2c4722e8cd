// What the kernels of chunks share: E = exp(transition - shift) in shared memory and registers. N is at most 32.

struct Edges {
    REAL shift;    // what was taken out of the transitions
    bool watch;    // some transition is forbidden
    bool in_range; // E has the range of REAL
};

// E into `shared` [N][PADDED], by all threads of a block; columns and rows of it can then be read into registers.
__device__ inline Edges load_edges(const Batch &b, REAL (*shared)[PADDED]) {
    float most = -INFINITE, least = INFINITE;
    bool watch = false;
    for (int k = threadIdx.x % 32; k < N * N; k += 32) {
        float score = (float)b.transitions[k];
        most = fmaxf(most, score);
        if (score > -INFINITE) least = fminf(least, score); else watch = true;
        if (score != score) most = INFINITE;
    }
    most = warp_peak(most);
    least = -warp_peak(-least);
    Edges edges;
    edges.shift = most > -INFINITE ? (REAL)most : (REAL)0;
    edges.watch = __any_sync(FULL, watch);
    edges.in_range = most < INFINITE && !(most - least > EDGE_RANGE);
    for (int k = threadIdx.x; k < N * PADDED; k += blockDim.x) {
        int i = k / PADDED, j = k % PADDED;
        shared[i][j] = j < N ? exponential(b.transitions[i * N + j] - edges.shift) : (REAL)0;
    }
    __syncthreads();
    return edges;
}

// The power of two below the largest of the numbers of a warp, none of which is negative: one instruction, and exact.
__device__ inline int peak_exponent(float x) { return (__reduce_max_sync(FULL, __float_as_int(x)) >> 23) - 127; }
__device__ inline int peak_exponent(double x) { return (__reduce_max_sync(FULL, __double2hiint(x)) >> 20) - 1023; }
#ifdef REAL_IS_DOUBLE
#define LEAST_EXPONENT -930 // of LEAST
#define MOST_EXPONENT 1000
__device__ inline double power_of_two(int k) { return __hiloint2double((k + 1023) << 20, 0); }
#else
#define LEAST_EXPONENT -99
#define MOST_EXPONENT 120
__device__ inline float power_of_two(int k) { return __int_as_float((k + 127) << 23); }
#endif

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
