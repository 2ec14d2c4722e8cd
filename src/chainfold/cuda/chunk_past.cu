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
#undef AHEAD
#define AHEAD 4 // positions whose scores are read together, and after which the rows are compared

__device__ bool entry_of(const Batch &b, const Edges &edges, REAL (*shared)[PADDED], REAL *row, const Part &chunk,
                         REAL &alpha) {
    const int lane = threadIdx.x % 32, label = lane < N ? lane : N - 1;
    const Rows where = rows_of(b, chunk.s);
    REAL m[PADDED], sum = 1; // the sum of row `lane` follows the same recursion
    unsigned follows = 0, reach = N == 32 ? FULL : (1u << N) - 1; // labels that may follow mine; rows that are not zero
#pragma unroll
    for (int i = 0; i < PADDED; ++i) m[i] = i == lane ? 1 : 0;
#ifdef EDGES
    Column column;
    column.begin(b, label);
#else
    for (int k = 0; k < N; ++k) follows |= b.transitions[label * N + k] > -INFINITE ? 1u << k : 0u;
    if (lane >= N) follows = 0;
#endif
    REAL next[AHEAD];
    auto read = [&](long long t) {
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) next[k] = b.emissions[where.at(t > k ? t - k : 0) * N + label];
    };
    read(chunk.a - 1);
    unsigned boundary = 0;
    for (int depth = 0; depth < LIMIT; depth += AHEAD) {
        double scores[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) scores[k] = lane < N ? (double)next[k] : NEVER;
        read(chunk.a - 1 - depth - AHEAD);
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) {
            const long long t = chunk.a - 1 - depth - k;
            if (t == 0 && lane < N) scores[k] += (double)b.start[lane];
#ifdef EDGES
            if (t > 0) {
                column.read(b, where.at(t), label);
                column.make();
                if (!column.put(shared)) return false;
                if (lane < N) scores[k] += column.most;
#pragma unroll
                for (int i = 0; i < N; ++i) {
                    const unsigned after = __ballot_sync(FULL, lane < N && column.scores[i] + column.edges[i] > -INFINITE);
                    if (i == lane) follows = after;
                }
            }
#endif
            const float peak = warp_peak((float)scores[k]);
            if (!(peak > -INFINITE && peak < INFINITE)) return false;
            const unsigned possible = __ballot_sync(FULL, scores[k] > -INFINITE);
            if (depth + k == 0) boundary = possible;
            const REAL potential = exponential((REAL)(scores[k] - (double)peak));
            __syncwarp();
            row[lane] = potential;
            row[32 + lane] = potential * sum;
            __syncwarp();
            if (t == 0) {
                alpha = dot_row(m, row);
                const REAL all = warp_sum(alpha);
                alpha /= all;
                const bool lost = edges.watch && lane < N && alpha < edges.least && (boundary >> lane & 1);
                return all > LEAST && !__any_sync(FULL, lost);
            }
            REAL weights[PADDED], following[PADDED];
            read_row(row, weights);
#pragma unroll
            for (int i = 0; i < PADDED; ++i) m[i] *= weights[i];
            REAL most = 0;
#pragma unroll
            for (int i = 0; i < PADDED; ++i) {
                following[i] = i < N ? dot_row(m, shared[i]) : (REAL)0;
                most = following[i] > most ? following[i] : most;
            }
            sum = lane < N ? dot_rows(shared[label], row + 32) : (REAL)0;
            reach = __ballot_sync(FULL, (follows & possible & reach) != 0);
            const int power = peak_exponent(most);
            if (power < edges.lowest || power > MOST_EXPONENT) return false;
#pragma unroll
            for (int i = 0; i < PADDED; ++i) m[i] = following[i] * power_of_two(-power);
            sum *= power_of_two(-power);
        }
        __syncwarp();
        row[lane] = sum;
        __syncwarp();
        REAL sums[PADDED], low = 1, high = 0, total = 0;
        read_row(row, sums);
        bool lost = false;
#pragma unroll
        for (int i = 0; i < N; ++i) {
            if (reach >> i & 1) {
                lost = lost || !(sums[i] > LEAST);
                const REAL share = m[i] / sums[i];
                low = share < low ? share : low;
                high = share > high ? share : high;
                total += share;
            }
        }
        const bool agrees = lane >= N || high - low <= TOLERANCE * high || high < edges.negligible;
        if (edges.watch && lane < N && high < edges.least && (boundary >> lane & 1)) lost = true;
        if (__all_sync(FULL, agrees && !lost) && reach) {
            alpha = lane < N ? total : (REAL)0;
            alpha /= warp_sum(alpha);
            return true;
        }
    }
    return false;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS) chunk_past(Batch b) {
    __shared__ __align__(16) REAL shared[TILES][N][PADDED];
    __shared__ __align__(16) REAL rows[WARPS][2][32];
    Edges edges = load_edges(b, shared[0]);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    long long number = (long long)blockIdx.x * WARPS + warp;
    if (number >= chunk_count(b)) return;
    Part chunk = chunk_at(b, number);
    if (!chunk.size) return;
    REAL alpha = 0;
    bool known = edges.in_range;
    if (known && chunk.a > 0) known = entry_of(b, edges, shared[warp % TILES], rows[warp][0], chunk, alpha);
    if (lane < N) b.entries[number * N + lane] = alpha;
    if (!known && lane == 0) b.flag[chunk.s] = 1;
}
