// Posteriors of a chunk of positions and the expected transitions, one warp a chunk and one lane a label (N <= 32).
//
//     v_t(j)         = gamma_t(j) / predicted_t(j)        predicted_t(j) = sum_i alpha_{t-1}(i) E(i, j)
//     gamma_{t-1}(i) = alpha_{t-1}(i) sum_j E(i, j) v_t(j)
//     pairs(i, j)    = E(i, j) sum_t alpha_{t-1}(i) v_t(j)
//
// from the posterior of the chunk's last position (`chunk_future.cu`). The gradient is factor(s) * (sign * gamma + tag);
// a warp adds the counts of its chunks, in their order, to a table of its own: [N + 2, N], the transitions, then what
// starts and what ends a sequence.
//
// A position waits for the one after it with v alone: predicted is computed one position ahead of that, forward vectors
// are read two groups of AHEAD positions ahead, and rows and tags for 32 positions together. With EDGES, E is made at each
// position, and the pairs of each position are a gradient, too.

#undef AHEAD
#define AHEAD 4
#ifdef REAL_IS_DOUBLE
#define BLOCKS 2 // of a multiprocessor, for which there are registers
#else
#define BLOCKS 3
#endif

// A row and a tag for each lane.
struct Place {
    long long row;
    int tag;
};

extern "C" __global__ void __launch_bounds__(32 * WARPS, BLOCKS) chunk_backward(Batch b) {
    __shared__ __align__(16) REAL shared[N][PADDED];
    __shared__ __align__(16) REAL rows[WARPS][2 + 2 * AHEAD][32];
    __shared__ int counted[WARPS][N * N];
    load_edges(b, shared);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, label = lane < N ? lane : N - 1;
    const long long worker = (long long)blockIdx.x * WARPS + warp;
    if (worker >= b.warps) return;
#ifdef EDGES
    Column column;
    column.begin(b, label);
#else
    REAL column[PADDED], matrix[PADDED];
#pragma unroll
    for (int i = 0; i < PADDED; ++i) {
        column[i] = i < N && lane < N ? shared[i][label] : (REAL)0;
        matrix[i] = i < N && lane < N ? shared[label][i] : (REAL)0;
    }
    REAL(*flows)[32] = rows[warp], (*earlier)[AHEAD][32] = (REAL(*)[AHEAD][32])rows[warp][2];
#endif
    double *table = b.tables + worker * (N + 2) * N;
    for (int k = lane; k < (N + 2) * N; k += 32) table[k] = 0.0;
    __syncwarp();
    for (long long number = worker; number < chunk_count(b); number += b.warps) {
        const Part chunk = chunk_at(b, number);
        const long long a = chunk.a;
        const int size = chunk.size, moves = a == 0 ? size - 1 : size;
        if (!size) continue;
        const REAL *vectors = b.vectors + (kept(b, chunk.s) + a) * N + label; // of position 0 of the chunk
        if (b.whole) {
            bool logs = in_logarithms(vectors - label);
            if (lane == 0 && b.flag) b.flag[chunk.s] = logs;
            if (logs) continue;
        } else if (b.flag[chunk.s]) {
            continue;
        }
        const Rows where = rows_of(b, chunk.s);
        const bool last_chunk = a + size == chunk.length;
        REAL gamma = last_chunk ? vectors[(long long)(size - 1) * N] : b.posteriors[number * N + label];
        if (lane >= N) gamma = 0;
        if (last_chunk) gamma /= warp_sum(gamma);
        const REAL share = factor_of(b, chunk.s), signed_share = (REAL)(b.sign * share);
        REAL pairs[PADDED];
#pragma unroll
        for (int i = 0; i < PADDED; ++i) pairs[i] = 0;
        for (int k = lane; k < N * N; k += 32) counted[warp][k] = 0;
        // Move m goes from position size - 1 - m of the chunk to the one before it.
        auto find = [&](int m) { // rows and tags of 32 positions; a move is counted
            const int t = size - 1 - m - lane;
            Place place = {where.at(a + (t > 0 ? t : 0)), -1};
            if (b.tags) place.tag = (int)b.tags[place.row];
            if (b.tags && m + lane < moves) {
                const int last = (int)b.tags[where.at(a + t - 1)];
                atomicAdd(&counted[warp][last * N + place.tag], 1);
            }
            return place;
        };
#ifndef EDGES
        REAL next[AHEAD]; // forward vectors before the moves of a group
        auto read = [&](int m) {
#pragma unroll
            for (int k = 0; k < AHEAD; ++k) {
                const int t = size - 2 - (m + k < moves ? m + k : moves - 1);
                next[k] = vectors[(long long)t * N];
            }
        };
        auto put = [&](int m) {
#pragma unroll
            for (int k = 0; k < AHEAD; ++k) earlier[m / AHEAD % 2][k][lane] = lane < N ? next[k] : (REAL)0;
        };
#endif
        __syncwarp();
        Place place = find(0), coming = place;
        auto tag_of = [&](int m) { return __shfl_sync(FULL, place.tag, m % 32); };
        auto count_border = [&](double *counts, int tag) { // what starts or ends the sequence
            if (lane < N) counts[lane] += (double)share * (b.sign * gamma + (lane == tag));
        };
        const int last_tag = tag_of(0);
        if (last_chunk) count_border(table + (N + 1) * N, last_tag);
        auto store = [&](int m, const REAL *posteriors, int count) {
            long long places[AHEAD];
            REAL values[AHEAD];
#pragma unroll
            for (int k = 0; k < AHEAD; ++k) {
                places[k] = __shfl_sync(FULL, place.row, (m + k) % 32) * N + lane;
                values[k] = signed_share * posteriors[k] + (lane == tag_of(m + k) ? share : (REAL)0);
            }
#pragma unroll
            for (int k = 0; k < AHEAD; ++k)
                if (k < count && lane < N) b.gradient[places[k]] = values[k];
        };
#ifdef EDGES
        auto at = [&](int m) { return where.at(a + size - 1 - (m < moves ? m : moves)); };
        REAL before = vectors[(long long)(moves > 0 ? size - 2 : 0) * N], posteriors[AHEAD];
        long long row = at(0), row_before = at(1);
        column.read(b, row, label);
        for (int m = 0; m < moves; ++m) {
            if (m % 32 == 0) {
                if (m) place = coming;
                if (m + 32 < size) coming = find(m + 32);
            }
            posteriors[0] = gamma;
            store(m, posteriors, 1);
            REAL *alphas = rows[warp][m % 2];
            alphas[lane] = lane < N ? before : (REAL)0;
            before = vectors[(long long)(m + 1 < moves ? size - 3 - m : 0) * N];
            column.make();
            column.read(b, row_before, label);
            __syncwarp();
            REAL known[PADDED], joint[32];
            read_row(alphas, known);
            const REAL v = gamma * reciprocal(Most()(dot(known, column.e), power_of_two(LOWEST - 5)));
            const int tag = tag_of(m), last = b.tags ? (int)b.tags[row_before] : -1;
            REAL *out = b.edge_gradient ? b.edge_gradient + row * N * N + lane : 0;
#pragma unroll
            for (int i = 0; i < 32; ++i) {
                joint[i] = i < N ? known[i % PADDED] * column.e[i % PADDED] * v : (REAL)0;
                if (i >= N) continue;
                pairs[i % PADDED] += joint[i];
                if (out && lane < N) out[i * N] = signed_share * joint[i] + (i == last && lane == tag ? share : (REAL)0);
            }
            gamma = sum_for_lane(joint);
            if (m % AHEAD == AHEAD - 1) gamma *= reciprocal(warp_sum(gamma));
            row = row_before;
            row_before = at(m + 2);
        }
#else
        REAL known[2][PADDED], inverse[2];
        auto prepare = [&](const REAL *vector, int k) { // what a move needs of the forward vector before it
            read_row(vector, known[k]);
            const REAL predicted = dot(column, known[k]);
            inverse[k] = reciprocal(Most()(predicted, power_of_two(LOWEST - 5))); // of zero, too: then gamma is zero
        };
        if (moves > 0) {
            read(0);
            put(0);
            read(AHEAD);
            __syncwarp();
            prepare(earlier[0][0], 0);
        }
        for (int m = 0; m < moves; m += AHEAD) {
            if (m % 32 == 0) {
                if (m) place = coming;
                if (m + 32 < size) coming = find(m + 32);
            }
            put(m + AHEAD);
            read(m + 2 * AHEAD);
            REAL alphas[AHEAD], posteriors[AHEAD];
#pragma unroll
            for (int k = 0; k < AHEAD; ++k) alphas[k] = earlier[m / AHEAD % 2][k][lane];
#pragma unroll
            for (int k = 0; k < AHEAD; ++k) {
                const bool on = m + k < moves; // no branch: those of the last group that are not on change nothing
                posteriors[k] = gamma;
                const REAL v = on ? gamma * inverse[k % 2] : (REAL)0;
                flows[k % 2][lane] = v;
                __syncwarp();
                const REAL flown = dot_row(matrix, flows[k % 2]);
                gamma = on ? alphas[k] * flown : gamma;
#pragma unroll
                for (int i = 0; i < PADDED; ++i) pairs[i] += known[k % 2][i] * v;
                prepare(k + 1 < AHEAD ? earlier[m / AHEAD % 2][k + 1] : earlier[(m / AHEAD + 1) % 2][0], (k + 1) % 2);
            }
            inverse[0] *= reciprocal(warp_sum(gamma));
            store(m, posteriors, moves - m);
        }
#endif
        if (a == 0) {
            if (moves % 32 == 0) place = coming;
            const REAL last_posteriors[AHEAD] = {gamma};
            store(moves, last_posteriors, 1);
            const int first_tag = tag_of(moves);
            count_border(table + N * N, first_tag);
        }
#ifndef EDGES
#pragma unroll
        for (int i = 0; i < N; ++i) pairs[i] = column[i] > 0 ? pairs[i] * column[i] : (REAL)0; // which may have no end
#endif
        __syncwarp();
        if (lane < N) {
#pragma unroll
            for (int i = 0; i < N; ++i)
                table[i * N + lane] += (double)share * (b.sign * (double)pairs[i] + (double)counted[warp][i * N + lane]);
        }
        __syncwarp();
    }
}
