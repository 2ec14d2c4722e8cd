// Weighted log likelihoods of each sequence's tags, from forward vectors; all positions at once.
//
//     sum_t w_t log Pr(y_t | y_{t+1}, x up to t)     Pr(i | j) = alpha_t(i) exp(e_{t+1}(i, j)) / predicted_{t+1}(j)
//
// where the last position has Pr(y_t | x) = alpha_t(y_t) / sum_i alpha_t(i). A lane takes labels i, i + 32, ... The way
// back is in `numbers.cuh` and `logarithms.cuh`.

extern "C" __global__ void __launch_bounds__(32 * WARPS) weighted(Batch b) {
    add_shares(b, [&](const Sequence &sequence, long long t, int lane) {
        const long long row = sequence.rows.at(t), next = t + 1 < sequence.length ? sequence.rows.at(t + 1) : -1;
        const long long tag = b.tags[row], after = next < 0 ? 0 : b.tags[next];
        const double weight = b.weights[row];
        if (tag < 0 || tag >= N) b.status[tag == UNKNOWN ? 1 : 0] = 1;
        if (tag < 0 || tag >= N || after < 0 || after >= N || weight == 0.0) return 0.0;
        auto score = [&](int i) {
            return sequence.log_alpha(t, i) + (next < 0 ? 0.0 : edge_of(b, next, i, (int)after));
        };
        double most = NEVER, total = 0.0;
        for (int i = lane; i < N; i += 32) most = Most()(most, score(i));
        most = warp_max(most);
        for (int i = lane; i < N; i += 32) total += exp(score(i) - most);
        total = warp_sum(total);
        return lane == 0 ? weight * (score((int)tag) - most - log(total)) : 0.0;
    });
}
