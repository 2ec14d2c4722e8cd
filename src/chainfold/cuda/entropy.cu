// Shares of the entropy of each sequence's labelling, from its forward vectors and posteriors; all positions at once.
//
//     pi_t(i | j) = Pr(y_{t-1} = i | y_t = j, x up to t) = alpha_{t-1}(i) exp(e_t(i, j)) / predicted_t(j)
//     H           = H(gamma_{T-1}) + sum_t sum_j gamma_t(j) H(pi_t(. | j))
//
// No term is negative, so that nothing cancels. A warp takes POSITIONS positions, a lane labels j, j + 32, ...; its share
// is scale(s, group).

#define POSITIONS 32

__device__ inline double term_of(double share) { return share > 0.0 ? -share * log(share) : share == share ? 0.0 : share; }

// H(pi_t(. | j))
__device__ inline double conditional_entropy(const Batch &b, const REAL *vector, bool logs, long long row, int j) {
    double most = NEVER, sum = 0.0, mean = 0.0;
    for (int i = 0; i < N; ++i) most = Most()(most, log_of(vector[i], logs) + edge_of(b, row, i, j));
    for (int i = 0; i < N; ++i) {
        double x = log_of(vector[i], logs) + edge_of(b, row, i, j) - most, share = exp(x);
        sum += share;
        if (share > 0.0) mean += share * x;
    }
    return log(sum) - mean / sum;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS) entropy(Batch b) {
    const int lane = threadIdx.x % 32;
    const long long groups = (b.length + POSITIONS - 1) / POSITIONS;
    const long long warp = (long long)blockIdx.x * WARPS + threadIdx.x / 32, s = warp / groups;
    if (s >= b.sequences) return;
    const long long length = length_of(b, s), from = warp % groups * POSITIONS;
    const Rows rows = rows_of(b, s);
    const REAL *vectors = b.vectors + kept(b, s) * N;
    const bool logs = length > 0 && in_logarithms(vectors);
    double sum = 0.0;
    for (long long t = from; t < from + POSITIONS && t < length; ++t) {
        long long row = rows.at(t);
        for (int j = lane; j < N; j += 32) {
            double gamma = (double)b.gradient[row * N + j];
            if (t == length - 1) sum += term_of(gamma);
            if (t > 0 && gamma != 0.0) sum += gamma * conditional_entropy(b, vectors + (t - 1) * N, logs, row, j);
        }
    }
    sum = warp_sum(sum);
    if (lane == 0) b.scale[warp] = sum;
}
