// What the kernels of chunks share: E = exp(transition - shift) in shared memory and registers. N is at most 32.

#define WARPS 4

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

// The power of two below a positive number, and powers of two between 2^-126 and 2^126: both exact.
__device__ inline int exponent_of(float x) { return (__float_as_int(x) >> 23) - 127; }
__device__ inline int exponent_of(double x) { return (__double2hiint(x) >> 20) - 1023; }
#ifdef REAL_IS_DOUBLE
__device__ inline double power_of_two(int k) { return __hiloint2double((k + 1023) << 20, 0); }
#else
__device__ inline float power_of_two(int k) { return __int_as_float((k + 127) << 23); }
#endif

// sum_k matrix(k) row[k], the row being the same for all lanes.
__device__ inline REAL dot(const REAL (&matrix)[PADDED], const REAL *row) {
    REAL even = 0, odd = 0;
    const REAL4 *four = (const REAL4 *)row;
#pragma unroll
    for (int k = 0; k < PADDED / 4; ++k) {
        REAL4 x = four[k];
        even += matrix[4 * k] * x.x;
        odd += matrix[4 * k + 1] * x.y;
        even += matrix[4 * k + 2] * x.z;
        odd += matrix[4 * k + 3] * x.w;
    }
    return even + odd;
}
