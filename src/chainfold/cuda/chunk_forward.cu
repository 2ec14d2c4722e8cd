// Forward vectors of a chunk of positions, one warp a chunk and one lane a label (N <= 32).
//
//     predicted_t(j) = sum_i alpha_{t-1}(i) E(i, j)       E(i, j) = exp(transition(i, j) - shift)
//     alpha_t(j)     = exp(s_t(j) - peak) predicted_t(j), scaled by a power of two now and then
//
// from the forward vector before the chunk (`chunk_past.cu`). Numbers near the end of the range flag the sequence, which
// is then done in order (`ordered.cu`).

#define AHEAD 8
#define SCALED 4 // positions after which a vector is scaled
#define LN2 0.693147180559945309417

extern "C" __global__ void __launch_bounds__(32 * WARPS) chunk_forward(Batch b) {
    __shared__ __align__(16) REAL shared[N][PADDED];
    __shared__ __align__(16) REAL rows[WARPS][2][PADDED];
    Edges edges = load_edges(b, shared);
    int lane = threadIdx.x % 32;
    long long chunk = (long long)blockIdx.x * WARPS + threadIdx.x / 32;
    if (chunk >= all_chunks(b)) return;
    long long s = sequence_of(b, chunk), length = length_of(b, s);
    long long a = (chunk - first_chunk(b, s)) * b.chunk;
    if (a >= length) return;
    int size = (int)(a + b.chunk < length ? b.chunk : length - a);
    if (b.tags) {
        double own = warp_sum(score_of_tags(b, s, length, a + lane, a + size, 32));
        if (lane == 0) b.score[chunk] = own;
    }
    if (b.flag[s]) return;
    REAL column[PADDED];
#pragma unroll
    for (int i = 0; i < PADDED; ++i) column[i] = i < N && lane < N ? shared[i][lane] : (REAL)0;
    REAL *row = rows[threadIdx.x / 32][0];
    if (lane < PADDED) row[lane] = row[PADDED + lane] = 0;
    REAL alpha = a > 0 && lane < N ? b.entries[chunk * N + lane] : (REAL)0;
    const Rows where = rows_of(b, s);
    const REAL start = lane < N ? b.start[lane] : (REAL)0, end = lane < N ? b.end[lane] : (REAL)0;
    const int starts = a == 0 ? 0 : -1, ends = a + size == length ? size - 1 : -1;
    double total = 0.0;
    int powers = 0;
    bool lost = false;
    auto load = [&](int t) {
        REAL score = -INFINITE;
        if (lane < N && t < size) {
            long long at = place_of(b, where, s, a + t) + lane;
            score = b.emissions[at];
            if (b.allowed && !b.allowed[at]) score = -INFINITE;
        }
        return score;
    };
    REAL next[AHEAD];
#pragma unroll
    for (int k = 0; k < AHEAD; ++k) next[k] = load(k);
    REAL *out = b.vectors + (kept(b, s) + a) * N + lane;
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
                    predicted = dot(column, own);
                }
                alpha = lane < N ? potentials[k] * predicted : (REAL)0;
                lost = lost || (edges.watch && alpha < LEAST && predicted > 0 && (seen >> k & 1));
                if (k % SCALED == SCALED - 1 || t + k + 1 == size) {
                    REAL sum = warp_sum(alpha);
                    lost = lost || !(sum > LEAST && sum < INFINITE);
                    if (t + k + 1 == size) {
                        total += log((double)sum);
                        alpha /= sum;
                    } else {
                        int power = exponent_of(sum);
                        alpha *= power_of_two(-power);
                        powers += power;
                    }
                }
                if (lane < N) *out = alpha;
                out += N;
            }
        }
        if (__any_sync(FULL, lost)) {
            if (lane == 0) b.flag[s] = 1;
            return;
        }
    }
    int moves = a == 0 ? size - 1 : size;
    if (lane == 0) b.scale[chunk] = total + (powers * LN2 + moves * (double)edges.shift);
}
