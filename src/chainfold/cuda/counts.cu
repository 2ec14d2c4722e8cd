// Expected transitions and the gradient, from forward vectors and posteriors; all positions at once. One thread a label.
//
//     v_t(j)      = g_t(j) / predicted_t(j)         predicted_t(j) = sum_i alpha_{t-1}(i) E_t(i, j)
//     pairs(i, j) = sum_t E_t(i, j) alpha_{t-1}(i) v_t(j)
//
// g is gamma, which `numbers.cuh` or `logarithms.cuh` left in the gradient. The gradient is factor(s) * (sign * g + tag).
// A block adds the counts of its groups of positions, in their order, to a table of its own: [N + 2, N], the transitions,
// then what starts and what ends a sequence. E is read once for TOGETHER positions. flag: sequences that have 0 are left
// out.

#define TOGETHER (N <= 256 ? 8 : 2048 / N)

// Numbers of a position for thread j.
struct Own {
    long long row;
    double g;
    int tag, last; // its tag and the one before; -1 without tags
};

__device__ inline Own own_of(const Batch &b, const Rows &rows, const Part &group, long long t, double share, double *table) {
    const int j = threadIdx.x;
    Own own;
    own.row = rows.at(t);
    own.g = (double)b.gradient[own.row * N + j];
    own.tag = b.tags ? (int)b.tags[own.row] : -1;
    own.last = b.tags && t > 0 ? (int)b.tags[rows.at(t - 1)] : -1;
    const double count = share * (b.sign * own.g + (j == own.tag));
    b.gradient[own.row * N + j] = (REAL)count;
    if (t == 0) table[N * N + j] += count;
    if (t == group.length - 1) table[(N + 1) * N + j] += count;
    return own;
}

// Pairs of one position, where E is computed for it.
template <class Joint> __device__ inline void add_pairs(const Batch &b, const Own &own, double share, double *table, Joint joint) {
    const int j = threadIdx.x;
#pragma unroll 4
    for (int i = 0; i < N; ++i) {
        double pair = share * (b.sign * joint(i) + (i == own.last && j == own.tag));
        table[i * N + j] += pair;
        if (b.edge_gradient) b.edge_gradient[(own.row * N + i) * N + j] = (REAL)pair;
    }
}

// alphas: [N, TOGETHER] of the positions before, in shared memory.
__device__ inline void count_logarithms(const Batch &b, const Own &own, const double *alphas, double share, double *table) {
    const int j = threadIdx.x;
    const bool wrong = own.g != own.g;
    double most = NEVER, sum = 0.0;
    auto score = [&](int i) { return alphas[i * TOGETHER] + edge_of(b, own.row, i, j); };
#pragma unroll 1
    for (int i = 0; i < N; ++i) most = Most()(most, score(i));
#pragma unroll 1
    for (int i = 0; i < N && most > NEVER; ++i) sum += exp(score(i) - most);
    const double predicted = most + log(sum);
    add_pairs(b, own, share, table, [&](int i) {
        double joint = score(i) - predicted;
        return wrong ? own.g : own.g != 0.0 && joint > NEVER ? exp(joint) * own.g : 0.0;
    });
}

__device__ inline void count_edges(const Batch &b, const Own &own, const double *alphas, double share, double *table) {
    const int j = threadIdx.x;
    auto joint = [&](int i) { return alphas[i * TOGETHER] * exp(edge_of(b, own.row, i, j)); };
    const double predicted = sum_of_terms(joint), v = predicted > 0.0 ? own.g / predicted : 0.0;
    add_pairs(b, own, share, table, [&](int i) { return joint(i) * v; });
}

__device__ inline void count_numbers(const Batch &b, const Matrix &matrix, const Own (&own)[TOGETHER], int count,
                                     const double *alphas, double share, double *table) {
    const int j = threadIdx.x;
    double v[TOGETHER];
#pragma unroll
    for (int k = 0; k < TOGETHER; ++k) v[k] = 0.0;
#pragma unroll 2
    for (int i = 0; i < N; ++i) {
        const double e = matrix.by_row[i * STRIDE + j];
#pragma unroll
        for (int k = 0; k < TOGETHER; ++k) v[k] += alphas[i * TOGETHER + k] * e;
    }
#pragma unroll
    for (int k = 0; k < TOGETHER; ++k) {
        v[k] = v[k] > 0.0 ? own[k].g / v[k] : 0.0;
        if (k < count && own[k].last >= 0 && j == own[k].tag) table[own[k].last * N + j] += share;
    }
#pragma unroll 2
    for (int i = 0; i < N; ++i) {
        double sum = 0.0;
#pragma unroll
        for (int k = 0; k < TOGETHER; ++k) sum += alphas[i * TOGETHER + k] * v[k];
        table[i * N + j] += share * b.sign * matrix.by_row[i * STRIDE + j] * sum;
    }
}

extern "C" __global__ void __launch_bounds__(LABEL_THREADS) counts(Batch b) {
    __shared__ __align__(16) double alphas[N * TOGETHER];
    __shared__ double room[32], edges[MATRIX_SIZE];
    const int j = threadIdx.x;
    const Matrix matrix = load_matrix(b, edges, room);
    double *table = b.tables + (b.warps + blockIdx.x) * (N + 2) * N;
    for (int k = j; k < (N + 2) * N; k += blockDim.x) table[k] = 0.0;
    __syncthreads();
    for (long long number = blockIdx.x; number < all_parts(b, b.group); number += gridDim.x) {
        const Part group = part_at(b, number, b.group);
        if (!group.size || (b.flag && b.flag[group.s] == 0)) continue;
        const Rows rows = rows_of(b, group.s);
        const REAL *vectors = b.vectors + kept(b, group.s) * N;
        const bool logs = in_logarithms(vectors);
        const double share = (double)factor_of(b, group.s);
        for (long long first = group.a; first < group.a + group.size; first += TOGETHER) {
            const long long rest = group.a + group.size - first;
            const int count = rest < TOGETHER ? (int)rest : TOGETHER;
            Own own[TOGETHER];
#pragma unroll
            for (int k = 0; k < TOGETHER; ++k) {
                const bool moves = k < count && first + k > 0;
                if (j < N) alphas[j * TOGETHER + k] = moves ? (double)vectors[(first + k - 1) * N + j] : 0.0;
                if (j < N && k < count) own[k] = own_of(b, rows, group, first + k, share, table);
            }
            __syncthreads();
            if (j < N && !logs && !b.edges) {
                count_numbers(b, matrix, own, count, alphas, share, table);
            } else if (j < N) {
#pragma unroll
                for (int k = 0; k < TOGETHER; ++k) {
                    if (k >= count || first + k == 0) continue;
                    if (logs) count_logarithms(b, own[k], alphas + k, share, table);
                    else count_edges(b, own[k], alphas + k, share, table);
                }
            }
            __syncthreads();
        }
    }
}
