// The best labelling of each sequence, in double: one block a sequence and one thread a label.
//
//     delta_t(j) = s_t(j) + max_i (delta_{t-1}(i) + transition(i, j) + edges_t(i, j)), less a peak now and then
//
// Of equal ones the smaller i is chosen. flag: 0, 2 where no labelling is possible, 3 where a score is NaN or +inf.

#define GROUP 16

#if N <= 256
typedef unsigned char POINTER;
#else
typedef unsigned short POINTER;
#endif

#if N <= 32

// One warp: a sequence in groups of positions, whose emissions and pointers are read before they are needed.
extern "C" __global__ void __launch_bounds__(32) viterbi(Batch b) {
    __shared__ __align__(16) double rows[2][PADDED];
    int lane = threadIdx.x;
    double column[PADDED];
#pragma unroll
    for (int i = 0; i < PADDED; ++i) column[i] = i < N && lane < N ? (double)b.transitions[i * N + lane] : NEVER;
    bool unusable = false; // a transition is NaN or +inf
#pragma unroll
    for (int i = 0; i < PADDED; ++i) unusable = unusable || !(column[i] < INFINITE);
    const double start = lane < N ? (double)b.start[lane] : 0.0, end = lane < N ? (double)b.end[lane] : 0.0;
    for (long long s = blockIdx.x; s < b.sequences; s += gridDim.x) {
        const long long length = length_of(b, s), base = kept(b, s);
        const Rows where = rows_of(b, s);
        auto load = [&](long long t) {
            return lane < N && t < length ? (double)b.emissions[where.at(t) * N + lane] : NEVER;
        };
        double total = 0.0, delta = NEVER, next[GROUP];
        int fault = 0;
#pragma unroll
        for (int k = 0; k < GROUP; ++k) next[k] = load(k);
        for (long long t = 0; t < length && !fault; t += GROUP) {
            bool wrong = unusable && length > 1;
            double now[GROUP];
#pragma unroll
            for (int k = 0; k < GROUP; ++k) {
                now[k] = next[k];
                next[k] = load(t + k + GROUP);
            }
#pragma unroll
            for (int k = 0; k < GROUP; ++k) {
                if (t + k < length) {
                    if (t + k == 0) now[k] += start;
                    if (t + k == length - 1) now[k] += end;
                    double *row = rows[k % 2];
                    if (lane < PADDED) row[lane] = lane < N ? delta : NEVER;
                    __syncwarp();
                    if (t + k > 0) {
                        double here[PADDED];
#pragma unroll
                        for (int i = 0; i < PADDED; ++i) here[i] = column[i];
                        if (b.edges && lane < N) {
                            const REAL *edges = b.edges + where.at(t + k) * N * N + lane;
#pragma unroll
                            for (int i = 0; i < N; ++i) {
                                here[i] += (double)edges[i * N];
                                wrong = wrong || !(here[i] < INFINITE);
                            }
                        }
                        double high[4];
                        int chosen[4];
#pragma unroll
                        for (int q = 0; q < 4; ++q) {
                            high[q] = NEVER;
                            chosen[q] = 0;
#pragma unroll
                            for (int i = q * (PADDED / 4); i < (q + 1) * (PADDED / 4); ++i) {
                                double reached = row[i] + here[i];
                                if (reached > high[q]) { high[q] = reached; chosen[q] = i; }
                            }
                        }
#pragma unroll
                        for (int q = 1; q < 4; ++q)
                            if (high[q] > high[0]) { high[0] = high[q]; chosen[0] = chosen[q]; }
                        if (lane < N) b.back[(base + t + k) * N + lane] = (POINTER)chosen[0];
                        now[k] += high[0];
                    }
                    delta = lane < N ? now[k] : NEVER;
                    wrong = wrong || !(delta < INFINITE);
                }
            }
            float peak = warp_peak((float)delta);
            wrong = __any_sync(FULL, wrong);
            fault = wrong ? 3 : peak > -INFINITE ? 0 : 2;
            if (!fault) {
                delta -= (double)peak;
                total += (double)peak;
            }
        }
        double most = warp_max(delta);
        int label = __ffs(__ballot_sync(FULL, lane < N && delta == most)) - 1;
        if (lane == 0) {
            b.best[s] = length > 0 ? total + most : 0.0;
            b.flag[s] = fault;
        }
        if (fault) continue;
        auto pointer = [&](long long t) { return lane < N && t > 0 ? (int)b.back[(base + t) * N + lane] : 0; };
        int ahead[GROUP];
        __syncwarp();
#pragma unroll
        for (int k = 0; k < GROUP; ++k) ahead[k] = pointer(length - 1 - k);
        for (long long t = length - 1; t >= 0; t -= GROUP) {
            int own = 0, here[GROUP];
#pragma unroll
            for (int k = 0; k < GROUP; ++k) {
                here[k] = ahead[k];
                ahead[k] = pointer(t - k - GROUP);
            }
#pragma unroll
            for (int k = 0; k < GROUP; ++k) {
                if (lane == k) own = label;
                label = __shfl_sync(FULL, here[k], label);
            }
            if (lane < GROUP && t - lane >= 0) b.labels[base + t - lane] = own;
        }
    }
}

#else

extern "C" __global__ void __launch_bounds__(LABEL_THREADS) viterbi(Batch b) {
    __shared__ double delta[N], room[32];
    __shared__ POINTER staged[GROUP][N];
    __shared__ int label;
    POINTER *back = (POINTER *)b.back;
    int j = threadIdx.x;
    for (long long s = blockIdx.x; s < b.sequences; s += gridDim.x) {
        const long long length = length_of(b, s), base = kept(b, s);
        const Rows where = rows_of(b, s);
        double total = 0.0;
        int fault = 0;
        for (long long t = 0; t < length && !fault; ++t) {
            long long row = where.at(t);
            double now = NEVER;
            if (j < N) {
                now = (double)b.emissions[row * N + j];
                if (t == 0) now += (double)b.start[j];
                if (t == length - 1) now += (double)b.end[j];
                if (t > 0) {
                    int chosen = 0;
                    double high = NEVER;
#pragma unroll 4
                    for (int i = 0; i < N; ++i) {
                        double reached = delta[i] + (double)b.transitions[i * N + j];
                        if (b.edges) reached += (double)b.edges[(row * N + i) * N + j];
                        if (reached > high) { high = reached; chosen = i; }
                        if (reached != reached) now = reached;
                    }
                    back[(base + t) * N + j] = (POINTER)chosen;
                    now += high;
                }
            }
            bool wrong = __syncthreads_or(!(now < INFINITE));
            double peak = block_max(now, room);
            fault = wrong ? 3 : peak > NEVER ? 0 : 2;
            if (j < N) delta[j] = now - peak;
            total += peak;
            __syncthreads();
        }
        if (j == 0) {
            b.best[s] = total;
            b.flag[s] = fault;
            label = 0;
            while (!fault && length > 0 && label < N - 1 && delta[label] < 0.0) ++label;
        }
        __syncthreads();
        for (long long t = length - 1; t >= 0 && !fault; t -= GROUP) {
            long long from = t - GROUP + 1 > 0 ? t - GROUP + 1 : 0;
            for (long long k = j; k < (t - from + 1) * N; k += blockDim.x)
                ((POINTER *)staged)[k] = back[(base + from) * N + k];
            __syncthreads();
            if (j == 0) {
                for (long long k = t; k >= from; --k) {
                    b.labels[base + k] = label;
                    if (k > 0) label = staged[k - from][label];
                }
            }
            __syncthreads();
        }
    }
}

#endif
