// The forward vector before each chunk, certified without its past; one warp a chunk (N <= 32).
//
// With M = I, from the position before the chunk back,
//
//     M(i, f) <- sum_k E(i, k) exp(s_t(k)) M(k, f)        E(i, j) = exp(transition(i, j) - shift)
//
// row i of M is what the label i, pinned before t, makes of the forward vector before the chunk. Where all rows agree,
// each of them is that vector, whatever the past; where t is the first position, s_0 weighs the rows. A chunk for which
// they do not agree within LIMIT positions, and numbers near the end of the range, flag the sequence, which is then done
// in order (`ordered.cu`).

#define LIMIT 512

__device__ bool entry_of(const Batch &b, const Edges &edges, const REAL (*shared)[PADDED], REAL *row,
                         const Part &chunk, REAL &alpha) {
    const int lane = threadIdx.x % 32;
    const Rows where = rows_of(b, chunk.s);
    REAL m[PADDED];
    unsigned follows = 0, reach = N == 32 ? FULL : (1u << N) - 1; // labels that may follow mine; rows that are not zero
#pragma unroll
    for (int i = 0; i < PADDED; ++i) m[i] = i == lane ? 1 : 0;
    if (lane < N) {
        for (int k = 0; k < N; ++k) follows |= shared[lane][k] > 0 ? 1u << k : 0u;
    }
    unsigned boundary = 0;
    int depth = 0;
    for (long long t = chunk.a - 1;; --t) {
        REAL score = lane < N ? score_of(b, where.at(t), t, chunk.length, lane) : (REAL)-INFINITE;
        float peak = warp_peak((float)score);
        if (!(peak > -INFINITE && peak < INFINITE)) return false;
        unsigned possible = __ballot_sync(FULL, score > -INFINITE);
        if (depth == 0) boundary = possible;
        __syncwarp();
        if (lane < PADDED) row[lane] = lane < N ? exponential(score - (REAL)peak) : (REAL)0;
        __syncwarp();
        if (t == 0) {
            alpha = dot_row(m, row);
            REAL sum = warp_sum(alpha);
            alpha /= sum;
            bool lost = edges.watch && lane < N && alpha < LEAST && (boundary >> lane & 1);
            return sum > LEAST && !__any_sync(FULL, lost);
        }
        REAL next[PADDED];
#pragma unroll
        for (int k = 0; k < PADDED; ++k) m[k] *= row[k];
        REAL most = 0;
#pragma unroll
        for (int i = 0; i < PADDED; ++i) {
            next[i] = i < N ? dot_row(m, shared[i]) : (REAL)0;
            most = next[i] > most ? next[i] : most;
        }
        reach = __ballot_sync(FULL, (follows & possible & reach) != 0);
        most = (REAL)warp_peak((float)most);
        if (!(most > LEAST)) return false;
#pragma unroll
        for (int i = 0; i < PADDED; ++i) m[i] = next[i] / most;
        ++depth;
        if (depth % 4 == 0) {
            REAL low = 1, high = 0, total = 0;
            bool lost = false;
#pragma unroll
            for (int i = 0; i < N; ++i) {
                if (reach >> i & 1) {
                    REAL sum = warp_sum(m[i]);
                    lost = lost || !(sum > LEAST);
                    REAL share = m[i] / sum;
                    low = share < low ? share : low;
                    high = share > high ? share : high;
                    total += share;
                }
            }
            bool agrees = lane >= N || high - low <= TOLERANCE * high || high < LEAST;
            if (edges.watch && lane < N && high < LEAST && (boundary >> lane & 1)) lost = true;
            if (__all_sync(FULL, agrees && !lost) && reach) {
                alpha = lane < N ? total : (REAL)0;
                alpha /= warp_sum(alpha);
                return true;
            }
        }
        if (depth >= LIMIT) return false;
    }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS) chunk_past(Batch b) {
    __shared__ __align__(16) REAL shared[N][PADDED];
    __shared__ __align__(16) REAL rows[WARPS][PADDED];
    Edges edges = load_edges(b, shared);
    int lane = threadIdx.x % 32;
    long long number = (long long)blockIdx.x * WARPS + threadIdx.x / 32;
    if (number >= chunk_count(b)) return;
    Part chunk = chunk_at(b, number);
    if (!chunk.size) return;
    REAL alpha = 0;
    bool known = edges.in_range;
    if (known && chunk.a > 0) known = entry_of(b, edges, shared, rows[threadIdx.x / 32], chunk, alpha);
    if (lane < N) b.entries[number * N + lane] = alpha;
    if (!known && lane == 0) b.flag[chunk.s] = 1;
}
