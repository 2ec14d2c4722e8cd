// The posterior of the last position of each chunk, certified without the future; one warp a chunk (N <= 32).
//
// With Q = I at the last position b of the chunk, over the positions that follow,
//
//     Q(i, g) <- sum_f Q(i, f) alpha_{t-1}(f) E(f, g) / predicted_t(g)     predicted_t(g) = sum_f alpha_{t-1}(f) E(f, g)
//
// is Pr(y_b = i | y_t = g, x up to t). Where all columns agree, each of them is gamma_b, whatever the future; at the end
// of the sequence alpha weighs them. A chunk for which they do not agree within LIMIT positions flags the sequence, which
// then goes back in order, as one whose vectors are logarithms (`ordered.cu`).

#undef LIMIT
#define LIMIT 512

__device__ bool posterior_of(const Batch &b, REAL (*shared)[PADDED], REAL *row, const Part &chunk, const REAL *vectors,
                             REAL &gamma) {
    const int lane = threadIdx.x % 32, label = lane < N ? lane : N - 1;
    const long long until = chunk.a + chunk.size, length = chunk.length;
#ifdef EDGES
    const Rows where = rows_of(b, chunk.s);
    Column column;
    column.begin(b, label);
#else
    REAL column[PADDED];
#pragma unroll
    for (int i = 0; i < PADDED; ++i) column[i] = i < N && lane < N ? shared[i][label] : (REAL)0;
#endif
    REAL q[PADDED];
#pragma unroll
    for (int g = 0; g < PADDED; ++g) q[g] = g == lane ? 1 : 0;
    REAL before = lane < N ? vectors[(until - 1) * N + lane] : (REAL)0;
    for (long long t = until;; ++t) {
        REAL now = lane < N ? vectors[t * N + lane] : (REAL)0;
        __syncwarp();
        if (lane < PADDED) row[lane] = lane < N ? before : (REAL)0;
        __syncwarp();
#ifdef EDGES
        column.read(b, where.at(t), label);
        column.make();
        column.put(shared);
        REAL predicted = lane < N ? dot_row(column.e, row) : (REAL)0;
#else
        REAL predicted = dot_row(column, row);
#endif
        REAL inverse = predicted > 0 ? 1 / predicted : (REAL)0, weight = now / warp_sum(now);
        if (lane < PADDED) {
            row[PADDED + lane] = lane < N ? inverse : (REAL)0;
            row[2 * PADDED + lane] = lane < N ? weight : (REAL)0;
        }
        __syncwarp();
        REAL next[PADDED];
#pragma unroll
        for (int g = 0; g < PADDED; ++g) next[g] = 0;
#pragma unroll
        for (int f = 0; f < N; ++f) {
            REAL own = q[f] * row[f];
            const REAL4 *four = (const REAL4 *)shared[f];
#pragma unroll
            for (int g = 0; g < PADDED / 4; ++g) {
                REAL4 x = four[g];
                next[4 * g] += own * x.x;
                next[4 * g + 1] += own * x.y;
                next[4 * g + 2] += own * x.z;
                next[4 * g + 3] += own * x.w;
            }
        }
        REAL low = 2, high = 0, mixed = 0;
#pragma unroll
        for (int g = 0; g < PADDED; ++g) {
            q[g] = next[g] * row[PADDED + g];
            REAL share = row[2 * PADDED + g];
            mixed += q[g] * share;
            if (share > 0) {
                low = q[g] < low ? q[g] : low;
                high = q[g] > high ? q[g] : high;
            }
        }
        bool agrees = high - low <= TOLERANCE * high || high < LEAST;
        if (t == length - 1 || __all_sync(FULL, agrees)) {
            REAL sum = warp_sum(mixed);
            gamma = mixed / sum;
            return sum > 0;
        }
        if (t - until >= LIMIT) return false;
        before = now;
    }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS) chunk_future(Batch b) {
    __shared__ __align__(16) REAL shared[TILES][N][PADDED];
    __shared__ __align__(16) REAL rows[WARPS][3][PADDED];
    load_edges(b, shared[0]);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    long long number = (long long)blockIdx.x * WARPS + warp;
    if (number >= chunk_count(b)) return;
    Part chunk = chunk_at(b, number);
    if (!chunk.size) return;
    const REAL *own = b.vectors + kept(b, chunk.s) * N;
    if (in_logarithms(own)) {
        if (chunk.a == 0 && lane == 0) b.flag[chunk.s] = 1;
        return;
    }
    if (chunk.a + chunk.size == chunk.length) return; // its posterior is the forward vector
    REAL gamma = 0;
    bool known = posterior_of(b, shared[warp % TILES], rows[warp][0], chunk, own, gamma);
    if (lane < N) b.posteriors[number * N + lane] = gamma;
    if (!known && lane == 0) b.flag[chunk.s] = 2;
}
