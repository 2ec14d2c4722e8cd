// Posteriors of a chunk of positions and the expected transitions, one warp a chunk and one lane a label (N <= 32).
//
//     v_t(j)         = gamma_t(j) / predicted_t(j)        predicted_t(j) = sum_i alpha_{t-1}(i) E(i, j)
//     gamma_{t-1}(i) = alpha_{t-1}(i) sum_j E(i, j) v_t(j)
//     pairs(i, j)    = E(i, j) sum_t alpha_{t-1}(i) v_t(j)
//
// from the posterior of the chunk's last position (`chunk_future.cu`). The gradient is factor(s) * (sign * gamma + tag);
// a warp adds the counts of its chunks, in their order, to a table of its own: [N + 2, N], the transitions, then what
// starts and what ends a sequence.

#undef AHEAD
#define AHEAD 4

extern "C" __global__ void __launch_bounds__(32 * WARPS) chunk_backward(Batch b) {
    __shared__ __align__(16) REAL shared[N][PADDED];
    __shared__ __align__(16) REAL rows[WARPS][2][PADDED];
    __shared__ float counted[WARPS][N * N];
    load_edges(b, shared);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    long long own = (long long)blockIdx.x * WARPS + warp;
    if (own >= b.warps) return;
    REAL column[PADDED], matrix[PADDED];
#pragma unroll
    for (int i = 0; i < PADDED; ++i) {
        column[i] = i < N && lane < N ? shared[i][lane] : (REAL)0;
        matrix[i] = i < N && lane < N ? shared[lane][i] : (REAL)0;
    }
    REAL *row = rows[warp][0];
    for (int k = lane; k < 2 * PADDED; k += 32) row[k] = 0;
    double *table = b.tables + own * (N + 2) * N;
    for (int k = lane; k < (N + 2) * N; k += 32) table[k] = 0.0;
    __syncwarp();
    for (long long number = own; number < chunk_count(b); number += b.warps) {
        const Part chunk = chunk_at(b, number);
        const long long a = chunk.a;
        const int size = chunk.size, starts = a == 0 ? 0 : -1;
        if (!size) continue;
        const REAL *vectors = b.vectors + (kept(b, chunk.s) + a) * N + lane; // of position 0 of the chunk
        if (b.whole) {
            bool logs = in_logarithms(vectors - lane);
            if (lane == 0 && b.flag) b.flag[chunk.s] = logs;
            if (logs) continue;
        } else if (b.flag[chunk.s]) {
            continue;
        }
        const Rows where = rows_of(b, chunk.s);
        const bool last_chunk = a + size == chunk.length;
        REAL gamma = 0;
        if (lane < N) gamma = last_chunk ? vectors[(long long)(size - 1) * N] : b.posteriors[number * N + lane];
        if (last_chunk) gamma /= warp_sum(gamma);
        const REAL share = factor_of(b, chunk.s), signed_share = (REAL)(b.sign * share);
        REAL pairs[PADDED];
#pragma unroll
        for (int i = 0; i < PADDED; ++i) pairs[i] = 0;
        if (b.tags)
            for (int k = lane; k < N * N; k += 32) counted[warp][k] = 0;
        __syncwarp();
        long long place = where.at(a + size - 1);
        int tag = b.tags ? (int)b.tags[place] : -1;
        if (last_chunk && lane < N) table[(N + 1) * N + lane] += (double)share * (b.sign * gamma + (lane == tag));
        REAL before[AHEAD]; // of the positions before: forward vectors, rows and tags
        long long places[AHEAD];
        int tags[AHEAD];
        auto load = [&](int k, int t) {
            before[k] = lane < N && t >= starts ? vectors[(long long)t * N] : (REAL)0;
            places[k] = t >= starts && a + t >= 0 ? where.at(a + t) : 0;
            tags[k] = b.tags ? (int)b.tags[places[k]] : -1;
        };
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) load(k, size - 2 - k);
        bool more = true;
        for (int t = size - 1; more; t -= AHEAD) {
#pragma unroll
            for (int k = 0; k < AHEAD; ++k) {
                if (more) {
                    REAL value = signed_share * gamma;
                    if (lane == tag) value += share;
                    if (lane < N) b.gradient[place * N + lane] = value;
                    if (t - k == starts) {
                        if (lane < N) table[N * N + lane] += (double)share * (b.sign * gamma + (lane == tag));
                        more = false;
                        continue;
                    }
                    const REAL earlier = before[k];
                    const int last = tag;
                    place = places[k];
                    tag = tags[k];
                    load(k, t - k - 1 - AHEAD);
                    if (lane == last && b.tags) counted[warp][tag * N + last] += 1;
                    if (lane < N) row[lane] = earlier;
                    __syncwarp();
                    REAL known[PADDED];
                    read_row(row, known);
                    const REAL predicted = dot(column, known), v = predicted > 0 ? gamma / predicted : (REAL)0;
#pragma unroll
                    for (int i = 0; i < PADDED; ++i) pairs[i] += known[i] * v;
                    if (t - k == 0) {
                        more = false;
                        continue;
                    }
                    if (lane < N) row[PADDED + lane] = v;
                    __syncwarp();
                    gamma = earlier * dot_row(matrix, row + PADDED);
                    if (k == AHEAD - 1) gamma /= warp_sum(gamma);
                }
            }
        }
        __syncwarp();
        if (lane < N) {
#pragma unroll
            for (int i = 0; i < N; ++i) {
                double count = b.sign * (double)(pairs[i] * column[i]);
                if (b.tags) count += (double)counted[warp][i * N + lane];
                table[i * N + lane] += (double)share * count;
            }
        }
        __syncwarp();
    }
}
