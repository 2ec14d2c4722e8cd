// Entropies of the labellings of each sequence, from forward vectors and posteriors; all positions at once.
//
//     pi_t(i | j) = Pr(y_{t-1} = i | y_t = j, x up to t) = alpha_{t-1}(i) exp(e_t(i, j)) / predicted_t(j)
//     H           = H(gamma_{T-1}) + sum_t sum_j gamma_t(j) H(pi_t(. | j))
//
// No term is negative, so that nothing cancels. A lane takes labels j, j + 32, ...

__device__ inline double term_of(double share) { return share > 0.0 ? -share * log(share) : share == share ? 0.0 : share; }

// H(pi_t(. | j))
__device__ inline double conditional_entropy(const Batch &b, const Sequence &sequence, long long t, int j) {
    const long long row = sequence.rows.at(t);
    auto score = [&](int i) { return sequence.log_alpha(t - 1, i) + edge_of(b, row, i, j); };
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
    add_shares(b, [&](const Sequence &sequence, long long t, int lane) {
        double sum = 0.0;
        for (int j = lane; j < N; j += 32) {
            double gamma = (double)b.gradient[sequence.rows.at(t) * N + j];
            if (t == sequence.length - 1) sum += term_of(gamma);
            if (t > 0 && gamma != 0.0) sum += gamma * conditional_entropy(b, sequence, t, j);
        }
        return sum;
    });
}
