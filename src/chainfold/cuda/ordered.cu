// Sequences in order, in logarithms and in double: for any number of labels up to 1,024 and any scores. One block a
// sequence, one thread a label.
//
//     predicted_t(j) = log sum_i exp(alpha_{t-1}(i) + transition(i, j) + edges_t(i, j))
//     alpha_t(j)     = s_t(j) + predicted_t(j), less the largest of them
//     gamma_{t-1}(i) = sum_j exp(alpha_{t-1}(i) + transition(i, j) + edges_t(i, j) - predicted_t(j)) gamma_t(j)
//
// A sequence without a flag was done in chunks; only their shares are added here. Flag 1: forward and back in order, the
// vectors are logarithms; flag 2: back in order, they are numbers. A score that is not a number makes log Z not a number
// and the first kept vector too; a sequence without a possible labelling has log Z = -inf.

#define MOST_THREADS (LABEL_THREADS > 512 ? LABEL_THREADS : 512)

__device__ inline double edge_of(const Batch &b, long long row, int i, int j) {
    double score = (double)b.transitions[i * N + j];
    return b.edges ? score + (double)b.edges[(row * N + i) * N + j] : score;
}

__device__ inline double predicted_of(const Batch &b, const double *alpha, long long row, int j) {
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

extern "C" __global__ void __launch_bounds__(MOST_THREADS) ordered_forward(Batch b) {
    __shared__ double alpha[N], room[32];
    int j = threadIdx.x;
    for (long long s = blockIdx.x; s < b.sequences; s += gridDim.x) {
        const long long length = length_of(b, s);
        const bool in_chunks = b.flag && b.flag[s] != 1;
        if (in_chunks && b.whole) continue;
        double total = 0.0, own = 0.0;
        if (length > 0 && in_chunks) {
            long long first = first_chunk(b, s), count = (length + b.chunk - 1) / b.chunk;
            for (long long c = j; c < count; c += blockDim.x) {
                total += b.scale[first + c];
                if (b.tags) own += b.score[first + c];
            }
            total = block_sum(total, room);
            own = block_sum(own, room);
        } else if (length > 0) {
            const Rows rows = rows_of(b, s);
            REAL *out = b.vectors + kept(b, s) * N;
            if (b.tags) own = block_sum(score_of_tags(b, rows, length, j, length, blockDim.x), room);
            bool wrong = false;
            for (long long t = 0; t < length && !wrong; ++t) {
                long long row = rows.at(t);
                double now = NEVER;
                if (j < N) {
                    now = (double)score_of(b, row, t, length, j);
                    if (t > 0) now += predicted_of(b, alpha, row, j);
                }
                bool bad = __syncthreads_or(!(now < INFINITE));
                double peak = block_max(bad ? NEVER : now, room);
                wrong = bad || peak == NEVER;
                total = bad ? (double)INFINITE - (double)INFINITE : total + peak;
                if (j < N) {
                    alpha[j] = now - peak;
                    out[t * N + j] = (REAL)(now - peak);
                }
                __syncthreads();
            }
            if (wrong) {
                if (j < N) out[j] = INFINITE - INFINITE;
            } else {
                total += log(block_sum(j < N ? exp(alpha[j]) : 0.0, room));
            }
        }
        if (j == 0) b.values[s] = (REAL)(b.tags ? own - total : total);
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(MOST_THREADS) ordered_backward(Batch b) {
    __shared__ double alpha[N], gamma[N], predicted[N], room[32];
    int j = threadIdx.x;
    double *table = b.tables + (b.warps + blockIdx.x) * (N + 2) * N;
    for (int k = j; k < (N + 2) * N; k += blockDim.x) table[k] = 0.0;
    __syncthreads();
    for (long long s = blockIdx.x; s < b.sequences; s += gridDim.x) {
        const long long length = length_of(b, s);
        if (length == 0 || (b.flag && b.flag[s] == 0)) continue;
        const Rows rows = rows_of(b, s);
        const REAL *own = b.vectors + kept(b, s) * N;
        const bool logs = !b.flag || b.flag[s] == 1, wrong = own[0] != own[0];
        const double share = (double)factor_of(b, s);
        for (long long t = length - 1; t >= 0; --t) {
            long long row = rows.at(t);
            int tag = b.tags ? (int)b.tags[row] : -1;
            if (t == length - 1) {
                double last = j < N ? (double)own[t * N + j] : NEVER;
                if (!logs && j < N) last = log(last);
                double peak = block_max(last, room), mine = j < N ? exp(last - peak) : 0.0;
                double sum = block_sum(mine, room);
                if (j < N) gamma[j] = wrong ? (double)INFINITE - (double)INFINITE : mine / sum;
                if (j < N) table[(N + 1) * N + j] += share * (b.sign * gamma[j] + (j == tag));
            }
            __syncthreads();
            double mine = j < N ? gamma[j] : 0.0;
            if (j < N) b.gradient[row * N + j] = (REAL)(share * (b.sign * mine + (j == tag)));
            if (t == 0) {
                if (j < N) table[N * N + j] += share * (b.sign * mine + (j == tag));
                break;
            }
            if (j < N) {
                double before = (double)own[(t - 1) * N + j];
                alpha[j] = logs ? before : log(before);
            }
            __syncthreads();
            int last = b.tags ? (int)b.tags[rows.at(t - 1)] : -1;
            if (j < N) {
                predicted[j] = predicted_of(b, alpha, row, j);
#pragma unroll 1
                for (int i = 0; i < N; ++i) {
                    double joint = alpha[i] + edge_of(b, row, i, j) - predicted[j];
                    joint = mine > 0.0 && joint > NEVER ? exp(joint) * mine : wrong ? mine : 0.0;
                    double count = share * (b.sign * joint + (i == last && j == tag));
                    table[i * N + j] += count;
                    if (b.edge_gradient) b.edge_gradient[(row * N + i) * N + j] = (REAL)count;
                }
            }
            __syncthreads();
            double next = 0.0;
            if (j < N) {
#pragma unroll 1
                for (int k = 0; k < N; ++k) {
                    double joint = alpha[j] + edge_of(b, row, j, k) - predicted[k];
                    if (gamma[k] > 0.0 && joint > NEVER) next += exp(joint) * gamma[k];
                }
                if (wrong) next = mine;
            }
            double sum = block_sum(next, room);
            if (j < N) gamma[j] = wrong ? next : next / sum;
        }
        __syncthreads();
    }
}
