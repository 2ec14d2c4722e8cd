// Entropies of the labellings of each sequence, from forward vectors and posteriors; all positions at once.
//
//     pi_t(i | j) = Pr(y_{t-1} = i | y_t = j, x up to t) = alpha_{t-1}(i) exp(e_t(i, j)) / predicted_t(j)
//     H           = H(gamma_{T-1}) + sum_t sum_j gamma_t(j) H(pi_t(. | j))
//
// No term is negative, so that nothing cancels. A warp takes a part of `group` positions and leaves its share of the sum in
// `scale`, a lane labels j, j + 32, ...; `sum_shares` adds the shares.

__device__ inline double term_of(double share) { return share > 0.0 ? -share * log(share) : share == share ? 0.0 : share; }

// H(pi_t(. | j)); alpha: forward vector of the position before, in logarithms or not
__device__ inline double conditional_entropy(const Batch &b, const REAL *alpha, bool logs, long long row, int j) {
    auto score = [&](int i) { return log_of(alpha[i], logs) + edge_of(b, row, i, j); };
    double most = NEVER, sum = 0.0, mean = 0.0;
    for (int i = 0; i < N; ++i) most = Most()(most, score(i));
    for (int i = 0; i < N; ++i) {
        double x = score(i) - most, share = exp(x);
        sum += share;
        if (share > 0.0) mean += share * x;
    }
    return log(sum) - mean / sum;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS) entropy(Batch b) {
    const int lane = threadIdx.x % 32;
    const long long number = (long long)blockIdx.x * WARPS + threadIdx.x / 32;
    if (number >= all_parts(b, b.group)) return;
    const Part part = part_at(b, number, b.group);
    if (!part.size) return;
    const Rows rows = rows_of(b, part.s);
    const REAL *vectors = b.vectors + kept(b, part.s) * N;
    const bool logs = in_logarithms(vectors);
    double sum = 0.0;
    for (long long t = part.a; t < part.a + part.size; ++t) {
        const long long row = rows.at(t);
        double here = 0.0;
        for (int j = lane; j < N; j += 32) {
            double gamma = (double)b.gradient[row * N + j];
            if (t == part.length - 1) here += term_of(gamma);
            if (t > 0 && gamma != 0.0) here += gamma * conditional_entropy(b, vectors + (t - 1) * N, logs, row, j);
        }
        sum += here;
    }
    sum = warp_sum(sum);
    if (lane == 0) b.scale[number] = sum;
}
