// The best labelling of each sequence in order; the recursion is that of `viterbi.cuh`. flag: 0 or a fault.

#if N <= 32

extern "C" __global__ void __launch_bounds__(32) viterbi(Batch b) {
    __shared__ __align__(16) double rows[2][32 + PADDED];
    const Lane own = lane_of(b, 1);
    for (long long s = blockIdx.x; s < b.sequences; s += gridDim.x) {
        const long long length = length_of(b, s);
        double delta = 0.0, total = 0.0, most = 0.0;
        int fault = 0, label = 0;
        if (length > 0) {
            fault = best_scores<true>(b, own, s, length, 0, length, rows, delta, total);
            label = best_label(delta, most);
            __syncwarp();
        }
        if (threadIdx.x == 0) {
            b.best[s] = total + most;
            b.flag[s] = fault;
        }
        if (!fault) followed<true>(b, s, 0, length, label);
    }
}

#else

// A block: SHARES threads a label, of which each has a share of the labels before it.
#define SHARES (1024 / LABEL_THREADS)
#define SHARE ((N + SHARES - 1) / SHARES)
#define TAKEN 16                    // positions after which a peak is taken out
#define STAGED (N <= 256 ? 16 : 8)  // positions whose pointers are read together

extern "C" __global__ void __launch_bounds__(LABEL_THREADS * SHARES) viterbi(Batch b) {
    __shared__ double delta[N], most[SHARES][LABEL_THREADS], room[32];
    __shared__ POINTER first[SHARES][LABEL_THREADS], staged[STAGED][N];
    __shared__ int label;
    POINTER *back = (POINTER *)b.back;
    const int j = threadIdx.x % LABEL_THREADS, own = j < N ? j : N - 1, share = threadIdx.x / LABEL_THREADS;
    const int from = share * SHARE, until = from + SHARE < N ? from + SHARE : N;
    const bool leads = share == 0 && j < N;
    for (long long s = blockIdx.x; s < b.sequences; s += gridDim.x) {
        const long long length = length_of(b, s), base = kept(b, s);
        const Rows where = rows_of(b, s);
        double total = 0.0;
        int fault = 0;
        REAL next = leads && length > 0 ? b.emissions[where.at(0) * N + j] : (REAL)0;
        for (long long t = 0; t < length && !fault; ++t) {
            const long long row = where.at(t);
            bool wrong = false;
            double now = NEVER;
            if (leads) {
                now = (double)next;
                if (t == 0) now += (double)b.start[j];
                if (t == length - 1) now += (double)b.end[j];
                if (t + 1 < length) next = b.emissions[where.at(t + 1) * N + j];
            }
            if (t > 0) {
                double high = NEVER;
                int chosen = 0;
#pragma unroll 8
                for (int i = from; i < until; ++i) {
                    double score = (double)b.transitions[i * N + own];
                    if (b.edges) score += (double)b.edges[(row * N + i) * N + own];
                    const double reached = delta[i] + score;
                    wrong = wrong || !(score < INFINITE);
                    if (reached > high) { high = reached; chosen = i; }
                }
                most[share][j] = high;
                first[share][j] = (POINTER)chosen;
                __syncthreads();
                if (leads) {
#pragma unroll
                    for (int k = 1; k < SHARES; ++k) {
                        if (most[k][j] > high) { high = most[k][j]; chosen = first[k][j]; }
                    }
                    back[(base + t) * N + j] = (POINTER)chosen;
                    now += high;
                }
            }
            wrong = __syncthreads_or(wrong || !(now < INFINITE));
            if (wrong) fault = UNUSABLE;
            if (!wrong && (t % TAKEN == TAKEN - 1 || t == length - 1)) {
                const double peak = block_max(now, room);
                if (peak > NEVER) now -= peak, total += peak; else fault = IMPOSSIBLE;
            }
            if (leads) delta[j] = now;
            __syncthreads();
        }
        if (threadIdx.x == 0) {
            b.best[s] = total;
            b.flag[s] = fault;
            label = 0;
            while (!fault && length > 0 && label < N - 1 && delta[label] < 0.0) ++label;
        }
        __syncthreads();
        for (long long t = length - 1; t >= 0 && !fault; t -= STAGED) {
            const long long low = t - STAGED + 1 > 0 ? t - STAGED + 1 : 0;
            for (long long k = threadIdx.x; k < (t - low + 1) * N; k += blockDim.x)
                ((POINTER *)staged)[k] = back[(base + low) * N + k];
            __syncthreads();
            if (threadIdx.x == 0) {
                for (long long k = t; k >= low; --k) {
                    b.labels[base + k] = label;
                    if (k > 0) label = staged[k - low][label];
                }
            }
            __syncthreads();
        }
    }
}

#endif
