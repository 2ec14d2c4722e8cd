// Shares of the weighted log likelihood of each sequence's tags, from its forward vectors; all positions at once.
//
//     sum_t w_t log Pr(y_t | y_{t+1}, x up to t)     Pr(i | j) = alpha_t(i) exp(e_{t+1}(i, j)) / predicted_{t+1}(j)
//
// where the last position has Pr(y_t | x) = alpha_t(y_t) / sum_i alpha_t(i). A warp takes POSITIONS positions and a lane
// labels i, i + 32, ...; its share is scale(s, group). The way back is in `ordered.cu`.

#undef POSITIONS
#define POSITIONS 32

extern "C" __global__ void __launch_bounds__(32 * WARPS) weighted(Batch b) {
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
        const REAL *vector = vectors + t * N;
        const long long row = rows.at(t), next = t + 1 < length ? rows.at(t + 1) : -1;
        const long long tag = b.tags[row], after = next < 0 ? 0 : b.tags[next];
        const double weight = b.weights[row];
        if (tag < 0 || tag >= N) b.status[tag == UNKNOWN ? 1 : 0] = 1;
        if (tag < 0 || tag >= N || after < 0 || after >= N || weight == 0.0) continue;
        double most = NEVER, total = 0.0;
        auto score = [&](int i) {
            return log_of(vector[i], logs) + (next < 0 ? 0.0 : edge_of(b, next, i, (int)after));
        };
        for (int i = lane; i < N; i += 32) most = Most()(most, score(i));
        most = warp_max(most);
        for (int i = lane; i < N; i += 32) total += exp(score(i) - most);
        total = warp_sum(total);
        sum += weight * (score((int)tag) - most - log(total));
    }
    if (lane == 0) b.scale[warp] = sum;
}
