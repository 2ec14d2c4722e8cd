// Forward vectors of a chunk of positions, one warp a chunk and one lane a label (N <= 32).
//
//     predicted_t(j) = sum_i alpha_{t-1}(i) E(i, j)       E(i, j) = exp(transition(i, j) - shift)
//     alpha_t(j)     = exp(s_t(j) - peak) predicted_t(j), scaled by a power of two now and then
//
// from the forward vector before the chunk (`chunk_past.cu`). Numbers near the end of the range flag the sequence, which
// is then done in order (`ordered.cu`). Where each sequence is one chunk, its value is complete here; otherwise the
// shares of chunks are added in `ordered.cu`.

#undef AHEAD
#define AHEAD 8
#define SCALED 4 // positions after which a vector is scaled
#define LN2 0.693147180559945309417

// The forward vectors and the share of log Z; false where numbers near the end of the range.
__device__ inline bool forward_of(const Batch &b, const Part &chunk, const Edges &edges, const Rows &where, REAL alpha,
                                  const REAL (*shared)[PADDED], REAL *row, double &share) {
    const int lane = threadIdx.x % 32, size = chunk.size;
    const long long a = chunk.a;
    REAL column[PADDED];
#pragma unroll
    for (int i = 0; i < PADDED; ++i) column[i] = i < N && lane < N ? shared[i][lane] : (REAL)0;
    if (lane < PADDED) row[lane] = row[PADDED + lane] = 0;
    const REAL start = lane < N ? b.start[lane] : (REAL)0, end = lane < N ? b.end[lane] : (REAL)0;
    const int starts = a == 0 ? 0 : -1, ends = a + size == chunk.length ? size - 1 : -1;
    double total = 0.0;
    int powers = 0;
    bool lost = false;
    auto load = [&](int t) {
        REAL score = -INFINITE;
        if (lane < N && t < size) {
            long long at = where.at(a + t) * N + lane;
            score = b.emissions[at];
            if (b.allowed && !b.allowed[at]) score = -INFINITE;
        }
        return score;
    };
    REAL next[AHEAD];
#pragma unroll
    for (int k = 0; k < AHEAD; ++k) next[k] = load(k);
    REAL *out = b.vectors + (kept(b, chunk.s) + a) * N + lane;
    for (int t = 0; t < size; t += AHEAD) {
        REAL potentials[AHEAD]; // of the group at once: they wait for one another in nothing
        unsigned seen = 0;
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) {
            REAL now = next[k];
            if (t + k == starts) now += start;
            if (t + k == ends) now += end;
            float peak = warp_peak((float)now);
            potentials[k] = exponential(now - (REAL)peak);
            if (now > -INFINITE) seen |= 1u << k;
            if (t + k < size) total += (double)peak;
        }
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) next[k] = load(t + k + AHEAD);
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) {
            if (t + k < size) {
                REAL predicted = 1;
                if (t + k != starts) {
                    REAL *own = row + (k % 2) * PADDED; // two rows in turns: one barrier a position
                    if (lane < N) own[lane] = alpha;
                    __syncwarp();
                    predicted = dot_row(column, own);
                }
                alpha = lane < N ? potentials[k] * predicted : (REAL)0;
                lost = lost || (edges.watch && alpha < LEAST && predicted > 0 && (seen >> k & 1));
                if (t + k + 1 == size) {
                    REAL sum = warp_sum(alpha);
                    lost = lost || !(sum > LEAST && sum < INFINITE);
                    total += log((double)sum);
                    alpha /= sum;
                } else if (k % SCALED == SCALED - 1) {
                    int power = peak_exponent(alpha);
                    lost = lost || power < LEAST_EXPONENT || power > MOST_EXPONENT;
                    alpha *= power_of_two(-power);
                    powers += power;
                }
                if (lane < N) *out = alpha;
                out += N;
            }
        }
        if (__any_sync(FULL, lost)) return false;
    }
    int moves = a == 0 ? size - 1 : size;
    share = total + (powers * LN2 + moves * (double)edges.shift);
    return true;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS) chunk_forward(Batch b) {
    __shared__ __align__(16) REAL shared[N][PADDED];
    __shared__ __align__(16) REAL rows[WARPS][2][PADDED];
    Edges edges = load_edges(b, shared);
    int lane = threadIdx.x % 32;
    long long number = (long long)blockIdx.x * WARPS + threadIdx.x / 32;
    if (number >= chunk_count(b)) return;
    Part chunk = chunk_at(b, number);
    const Rows where = rows_of(b, chunk.s);
    double own = 0.0, share = 0.0;
    bool flagged = b.whole ? chunk.size && !edges.in_range && chunk.length > 1 : b.flag[chunk.s] != 0;
    if (b.tags && chunk.size)
        own = warp_sum(score_of_tags(b, where, chunk.length, chunk.a + lane, chunk.a + chunk.size, 32));
    if (chunk.size && !flagged) {
        REAL alpha = chunk.a > 0 && lane < N ? b.entries[number * N + lane] : (REAL)0;
        flagged = !forward_of(b, chunk, edges, where, alpha, shared, rows[threadIdx.x / 32][0], share);
    }
    if (lane) return;
    if (b.whole) {
        b.values[chunk.s] = (REAL)(b.tags ? own - share : share);
        b.flag[chunk.s] = flagged;
    } else if (chunk.size) {
        b.scale[number] = share;
        if (b.tags) b.score[number] = own;
        if (flagged) b.flag[chunk.s] = 1;
    }
    if (flagged && b.status) b.status[2] = 1;
}
