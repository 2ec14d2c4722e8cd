// Forward vectors of a chunk of positions, one warp a chunk and one lane a label (N <= 32).
//
//     predicted_t(j) = sum_i alpha_{t-1}(i) E(i, j)       E(i, j) = exp(transition(i, j) - shift)
//     alpha_t(j)     = exp(s_t(j) - peak) predicted_t(j), scaled by a power of two now and then
//
// from the forward vector before the chunk (`chunk_past.cu`). Numbers near the end of the range flag the sequence, which
// is then done in order (`ordered.cu`). Where each sequence is one chunk, its value is complete here; otherwise the
// shares of chunks are added in `ordered.cu`.
//
// A position waits for the one before it only: what else it needs is read and computed for the next AHEAD positions together.

#undef AHEAD
#define AHEAD 8
#define SCALED 4                 // positions after which a vector is scaled
#define GROWTH (5 * (SCALED - 1)) // powers of two by which its largest number may have grown since any of them
#define LN2 0.693147180559945309417

#ifndef EDGES
// The forward vectors and the share of log Z; false where numbers near the end of the range. row: [2, 32], shared.
__device__ inline bool forward_of(const Batch &b, const Part &chunk, const Edges &edges, const Rows &where, REAL alpha,
                                  const REAL (*shared)[PADDED], REAL *row, double &share) {
    const int lane = threadIdx.x % 32, label = lane < N ? lane : N - 1, size = chunk.size;
    REAL column[PADDED];
#pragma unroll
    for (int i = 0; i < PADDED; ++i) column[i] = i < N && lane < N ? shared[i][label] : (REAL)0;
    const REAL start = b.start[label], end = b.end[label];
    const int starts = chunk.a == 0 ? 0 : -1, ends = chunk.a + size == chunk.length ? size - 1 : -1;
    const REAL least = edges.watch ? edges.least : (REAL)0;
    double total = 0.0;
    int power = 0, powers = 0;
    bool lost = false;
    long long place; // a lane has the row of one position of the group that is read next
    auto find = [&](int t) {
        t += lane % AHEAD;
        place = where.at(chunk.a + (t < size ? t : size - 1));
    };
    REAL next[AHEAD];
    auto read = [&]() {
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) next[k] = b.emissions[__shfl_sync(FULL, place, k) * N + label];
    };
    find(0);
    read();
    find(AHEAD);
    REAL *out = b.vectors + (kept(b, chunk.s) + chunk.a) * N + lane;
    for (int t = 0; t < size; t += AHEAD) {
        REAL potentials[AHEAD];
        unsigned seen = 0;
        const bool border = t == 0 || t + AHEAD >= size;
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) {
            const REAL now = lane < N ? next[k] : (REAL)-INFINITE;
            REAL more = border && t + k == starts ? start : (REAL)0;
            if (border && t + k == ends) more += end;
            const float peak = warp_peak((float)(now + more));
            potentials[k] = exponential((now - (REAL)peak) + more);
            if (now + more > -INFINITE && t + k < size) seen |= 1u << k;
            total += t + k < size ? (double)peak : 0.0;
        }
        read();
        find(t + 2 * AHEAD);
        if (__any_sync(FULL, lost)) return false;
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) {
            const bool on = t + k < size; // no branch: those of the last group that are not on change nothing
            if (k % SCALED == 0) { // by what the position before has found
                potentials[k] *= power_of_two(-power);
                powers += on ? power : 0;
            }
            REAL *own = row + k % 2 * 32; // two rows in turns: one barrier a position
            own[lane] = alpha;
            __syncwarp();
            REAL predicted = dot_row(column, own);
            if (k == 0 && t == starts) predicted = 1;
            alpha = on ? potentials[k] * predicted : alpha;
            lost = lost || (alpha < least && predicted > edges.floor && (seen >> k & 1));
            if (k % SCALED == SCALED - 1) {
                power = peak_exponent(alpha);
                lost = lost || power < edges.lowest + GROWTH || power > MOST_EXPONENT;
            }
            if (on && lane < N) out[k * N] = alpha;
        }
        out += AHEAD * N;
    }
    const REAL sum = warp_sum(alpha);
    const int moves = chunk.a == 0 ? size - 1 : size;
    share = total + log((double)sum) + (powers * LN2 + moves * (double)edges.shift);
    return !__any_sync(FULL, lost) && peak_exponent(sum) >= edges.lowest + GROWTH && sum < INFINITE;
}

#else

// The same with edges of positions' own: a vector is scaled at every position, and what a position can bear depends on
// the edges that lead into it.
__device__ inline bool forward_of(const Batch &b, const Part &chunk, const Edges &edges, const Rows &where, REAL alpha,
                                  const REAL (*shared)[PADDED], REAL *row, double &share) {
    const int lane = threadIdx.x % 32, label = lane < N ? lane : N - 1, size = chunk.size;
    const int starts = chunk.a == 0 ? 0 : -1, ends = chunk.a + size == chunk.length ? size - 1 : -1;
    const REAL start = b.start[label], end = b.end[label];
    auto place_of = [&](int t) { return where.at(chunk.a + (t < size ? t : size - 1)); };
    Column column;
    column.begin(b, label);
    long long place = place_of(0);
    column.read(b, place, label);
    REAL next = b.emissions[place * N + label];
    place = place_of(1);
    REAL *out = b.vectors + (kept(b, chunk.s) + chunk.a) * N + lane;
    double total = 0.0;
    long long powers = 0;
    int power = 0, least = exponent_of_least(alpha);
    bool lost = false;
    for (int t = 0; t < size; ++t) {
        const bool moves = t != starts;
        column.make();
        double now = lane < N ? (double)next + (moves ? column.most : 0.0) : NEVER;
        column.read(b, place, label);
        next = b.emissions[place * N + label];
        place = place_of(t + 2);
        if (t == starts) now += (double)start;
        if (t == ends) now += (double)end;
        const float peak = warp_peak((float)now);
        REAL potential = exponential((REAL)(now - (double)peak));
        total += (double)peak;
        REAL *own = row + t % 2 * 32;
        own[lane] = alpha;
        __syncwarp();
        REAL predicted = 1;
        if (moves) {
            predicted = dot_row(column.e, own);
            const int needed = LOWEST + (int)(column.span * 1.4427f) + 1;
            lost = lost || !column.in_range || power < needed || (column.zero && least < needed);
            potential *= power_of_two(-power);
            powers += power;
        }
        alpha = lane < N ? potential * predicted : (REAL)0;
        const bool possible = now > -INFINITE && (predicted > 0 || (moves && column.vanished));
        power = peak_exponent(alpha);
        least = exponent_of_least(possible ? Most()(alpha, power_of_two(LOWEST - 5)) : (REAL)0);
        if (power < LOWEST || power > MOST_EXPONENT || __any_sync(FULL, lost)) return false;
        if (lane < N) *out = alpha;
        out += N;
    }
    const REAL sum = warp_sum(alpha);
    share = total + log((double)sum) + powers * LN2;
    return sum < INFINITE && (ends >= 0 || power >= edges.lowest); // the next chunk reads the last vector
}
#endif

extern "C" __global__ void __launch_bounds__(32 * WARPS) chunk_forward(Batch b) {
    __shared__ __align__(16) REAL shared[N][PADDED];
    __shared__ __align__(16) REAL rows[WARPS][2][32];
    const Edges edges = load_edges(b, shared);
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
