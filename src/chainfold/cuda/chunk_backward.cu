// Posteriors of a chunk of positions and the expected transitions, one warp a chunk and one lane a label (N <= 32).
//
//     v_t(j)         = gamma_t(j) / predicted_t(j)        predicted_t(j) = sum_i alpha_{t-1}(i) E(i, j)
//     gamma_{t-1}(i) = alpha_{t-1}(i) sum_j E(i, j) v_t(j)
//     pairs(i, j)    = E(i, j) sum_t alpha_{t-1}(i) v_t(j)
//
// from the posterior of the chunk's last position (`chunk_future.cu`). The gradient is factor(s) * (sign * gamma + tag);
// a warp adds the counts of its chunks, in their order, to a table of its own: [N + 2, N], the transitions, then what
// starts and what ends a sequence.

#define AHEAD 4

extern "C" __global__ void __launch_bounds__(32 * WARPS) chunk_backward(Batch b) {
    __shared__ __align__(16) REAL shared[N][PADDED];
    __shared__ __align__(16) REAL rows[WARPS][4][PADDED];
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
    for (int k = lane; k < 4 * PADDED; k += 32) row[k] = 0;
    double *table = b.tables + own * (N + 2) * N;
    for (long long chunk = own; chunk < all_chunks(b); chunk += b.warps) {
        long long s = sequence_of(b, chunk), length = length_of(b, s);
        long long a = (chunk - first_chunk(b, s)) * b.chunk;
        if (a >= length || b.flag[s]) continue;
        int size = (int)(a + b.chunk < length ? b.chunk : length - a);
        const REAL *vectors = b.vectors + (kept(b, s) + a) * N + lane; // of position 0 of the chunk
        const Rows where = rows_of(b, s);
        const int starts = a == 0 ? 0 : -1;
        REAL gamma = lane < N ? b.posteriors[chunk * N + lane] : (REAL)0;
        const REAL share = b.factor[s], signed_share = (REAL)(b.sign * share);
        REAL pairs[PADDED];
#pragma unroll
        for (int i = 0; i < PADDED; ++i) pairs[i] = 0;
        if (b.tags)
            for (int k = lane; k < N * N; k += 32) counted[warp][k] = 0;
        __syncwarp();
        long long place = place_of(b, where, s, a + size - 1);
        int tag = b.tags ? (int)b.tags[place / N] : -1;
        if (a + size == length && lane < N) {
            table[(N + 1) * N + lane] += (double)share * (b.sign * gamma + (lane == tag));
        }
        REAL before[AHEAD]; // forward vectors of the positions before
#pragma unroll
        for (int k = 0; k < AHEAD; ++k)
            before[k] = lane < N && size - 2 - k >= starts ? vectors[(long long)(size - 2 - k) * N] : (REAL)0;
        bool more = true;
        for (int t = size - 1; more; t -= AHEAD) {
#pragma unroll
            for (int k = 0; k < AHEAD; ++k) {
                if (more) {
                    REAL value = signed_share * gamma;
                    if (lane == tag) value += share;
                    if (lane < N) b.gradient[place + lane] = value;
                    if (t - k == starts) {
                        if (lane < N) table[N * N + lane] += (double)share * (b.sign * gamma + (lane == tag));
                        more = false;
                        continue;
                    }
                    REAL earlier = before[k];
                    int later = t - k - 1 - AHEAD;
                    before[k] = lane < N && later >= starts ? vectors[(long long)later * N] : (REAL)0;
                    place = a + t - k > 0 ? place_of(b, where, s, a + t - k - 1) : 0;
                    int last = tag;
                    if (b.tags) {
                        tag = (int)b.tags[place / N];
                        if (lane == last) counted[warp][tag * N + last] += 1;
                    }
                    REAL *now = row + (k % 2) * 2 * PADDED; // two pairs of rows in turns
                    if (lane < N) now[lane] = earlier;
                    __syncwarp();
                    REAL known[PADDED], even = 0, odd = 0;
                    const REAL4 *four = (const REAL4 *)now;
#pragma unroll
                    for (int i = 0; i < PADDED / 4; ++i) {
                        REAL4 x = four[i];
                        known[4 * i] = x.x; known[4 * i + 1] = x.y; known[4 * i + 2] = x.z; known[4 * i + 3] = x.w;
                        even += column[4 * i] * x.x;
                        odd += column[4 * i + 1] * x.y;
                        even += column[4 * i + 2] * x.z;
                        odd += column[4 * i + 3] * x.w;
                    }
                    REAL predicted = even + odd;
                    REAL v = predicted > 0 ? gamma / predicted : (REAL)0;
#pragma unroll
                    for (int i = 0; i < PADDED; ++i) pairs[i] += known[i] * v;
                    if (t - k == 0) {
                        more = false;
                        continue;
                    }
                    if (lane < N) now[PADDED + lane] = v;
                    __syncwarp();
                    gamma = earlier * dot(matrix, now + PADDED);
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
