// A sequence in order, in logarithms and in double, by a block with one thread a label: for any scores, and slow.
//
//     predicted_t(j) = log sum_i exp(alpha_{t-1}(i) + transition(i, j) + edges_t(i, j))
//     alpha_t(j)     = s_t(j) + predicted_t(j), less the largest of them
//     gamma_{t-1}(i) = sum_j exp(alpha_{t-1}(i) + transition(i, j) + edges_t(i, j) - predicted_t(j)) gamma_t(j)
//
// A score that is not a number makes log Z not a number and the first kept vector too; a sequence without a possible
// labelling has log Z = -inf.

#define NOT_A_NUMBER ((double)INFINITE - (double)INFINITE)

__device__ inline double edge_of(const Batch &b, long long row, int i, int j) {
    double score = (double)b.transitions[i * N + j];
    return b.edges ? score + (double)b.edges[(row * N + i) * N + j] : score;
}

__device__ inline double log_predicted(const Batch &b, const double *alpha, long long row, int j) {
    double most = NEVER, sum = 0.0;
#pragma unroll 1
    for (int i = 0; i < N; ++i) {
        double x = alpha[i] + edge_of(b, row, i, j);
        if (!(x <= most)) most = x; // also where it is not a number
    }
    if (!(most > NEVER && most < INFINITE)) return most;
#pragma unroll 1
    for (int i = 0; i < N; ++i) sum += exp(alpha[i] + edge_of(b, row, i, j) - most);
    return most + log(sum);
}

// log Z; `pool`: [N], `room`: [32], both shared.
__device__ inline double forward_in_logarithms(const Batch &b, long long s, long long length, double *pool,
                                               double *room) {
    const int j = threadIdx.x;
    const Rows rows = rows_of(b, s);
    REAL *out = b.vectors + kept(b, s) * N;
    double *alpha = pool, total = 0.0;
    bool wrong = false;
    for (long long t = 0; t < length && !wrong; ++t) {
        long long row = rows.at(t);
        double now = NEVER;
        if (j < N) {
            now = score_of(b, b.emissions[row * N + j], t, length, j);
            if (t > 0) now += log_predicted(b, alpha, row, j);
        }
        bool bad = __syncthreads_or(!(now < INFINITE));
        double peak = block_max(bad ? NEVER : now, room);
        wrong = bad || peak == NEVER;
        total = bad ? NOT_A_NUMBER : total + peak;
        if (j < N) {
            alpha[j] = now - peak;
            out[t * N + j] = (REAL)(now - peak);
        }
        __syncthreads();
    }
    if (!wrong) return total + log(block_sum(j < N ? exp(alpha[j]) : 0.0, room));
    if (j < N) out[j] = INFINITE - INFINITE;
    return total;
}

// Posteriors into the gradient; `pool`: [3, N], `room`: [32], both shared.
__device__ inline void backward_in_logarithms(const Batch &b, long long s, long long length, double *pool,
                                              double *room) {
    const int j = threadIdx.x;
    const Rows rows = rows_of(b, s);
    const REAL *own = b.vectors + kept(b, s) * N;
    const bool wrong = own[0] != own[0];
    double *alpha = pool, *flow = pool + N, *predicted = pool + 2 * N;
    double last = j < N ? (double)own[(length - 1) * N + j] : NEVER;
    const double peak = block_max(last, room);
    double g = j < N ? exp(last - peak) : 0.0;
    g *= 1.0 / block_sum(g, room);
    if (wrong) g = NOT_A_NUMBER;
    for (long long t = length - 1;; --t) {
        long long row = rows.at(t);
        if (j < N) b.gradient[row * N + j] = (REAL)g;
        if (t == 0) break;
        if (wrong) continue;
        if (j < N) alpha[j] = (double)own[(t - 1) * N + j];
        __syncthreads();
        if (j < N) {
            flow[j] = g;
            predicted[j] = log_predicted(b, alpha, row, j);
        }
        __syncthreads();
        g = 0.0;
#pragma unroll 1
        for (int k = 0; j < N && k < N; ++k) {
            double joint = alpha[j] + edge_of(b, row, j, k) - predicted[k];
            if (flow[k] != 0.0 && joint > NEVER) g += exp(joint) * flow[k];
        }
        g /= block_sum(g, room);
        __syncthreads();
    }
}
