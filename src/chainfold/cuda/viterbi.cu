// The best labelling of each sequence, one block a sequence and one thread a label, in double.
//
//     delta_t(j) = s_t(j) + max_i (delta_{t-1}(i) + transition(i, j) + edges_t(i, j)), less the largest of them
//
// Of equal ones the smaller i is chosen, and the arithmetic is that of the kernel for the host: labels are the same.
// flag: 0, 2 where no labelling is possible, 3 where a score is not a number or +inf.

#define NEVER (-(double)INFINITE)
#define STAGED 16

#if N <= 256
typedef unsigned char POINTER;
#else
typedef unsigned short POINTER;
#endif

extern "C" __global__ void viterbi(Batch b) {
    POINTER *back = (POINTER *)b.back;
    __shared__ double delta[N], room[33];
    __shared__ POINTER staged[STAGED][N];
    __shared__ int label;
    int j = threadIdx.x;
#if N <= 32
    double column[N];
#pragma unroll
    for (int i = 0; i < N; ++i) column[i] = j < N ? (double)b.transitions[i * N + j] : NEVER;
#endif
    for (long long s = blockIdx.x; s < b.sequences; s += gridDim.x) {
        long long length = length_of(b, s), base = kept(b, s);
        double total = 0.0;
        int fault = 0;
        double ahead = j < N && length > 0 ? (double)b.emissions[row_of(b, s, 0) * N + j] : NEVER;
        for (long long t = 0; t < length && !fault; ++t) {
            long long row = row_of(b, s, t);
            double now = ahead, high = 0.0;
            ahead = j < N && t + 1 < length ? (double)b.emissions[row_of(b, s, t + 1) * N + j] : NEVER;
            if (j < N) {
                if (t == 0) now += (double)b.start[j];
                if (t == length - 1) now += (double)b.end[j];
                if (t > 0) {
                    int chosen = 0;
                    high = NEVER;
#pragma unroll
                    for (int i = 0; i < N; ++i) {
#if N <= 32
                        double edge = column[i];
#else
                        double edge = (double)b.transitions[i * N + j];
#endif
                        if (b.edges) edge += (double)b.edges[(row * N + i) * N + j];
                        double reached = delta[i] + edge;
                        if (reached > high) { high = reached; chosen = i; }
                        if (reached != reached) now = reached;
                    }
                    back[(base + t) * N + j] = (POINTER)chosen;
                }
                now += high;
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
        for (long long t = length - 1; t >= 0 && !fault; t -= STAGED) {
            long long from = t - STAGED + 1 > 0 ? t - STAGED + 1 : 0;
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
