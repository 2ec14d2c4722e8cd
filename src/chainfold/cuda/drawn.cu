// Labellings drawn from their distribution, one warp a sequence and a drawing, from the last position to the first.
//
//     Pr(y_{T-1} = i) = alpha_{T-1}(i), normalised      Pr(y_{t-1} = i | y_t = j) = alpha_{t-1}(i) exp(e_t(i, j)), normalised
//
// The label is the first whose cumulative share is above uniforms(row, draw). labels: [R, draws].

extern "C" __global__ void __launch_bounds__(32 * WARPS) drawn(Batch b) {
    __shared__ double shares[WARPS][(N + 31) / 32 * 32];
    const int lane = threadIdx.x % 32;
    const long long warp = (long long)blockIdx.x * WARPS + threadIdx.x / 32, s = warp / b.draws, draw = warp % b.draws;
    if (s >= b.sequences) return;
    const long long length = length_of(b, s), base = kept(b, s);
    const Rows rows = rows_of(b, s);
    const REAL *vectors = b.vectors + base * N;
    const bool logs = length > 0 && in_logarithms(vectors);
    double *own = shares[threadIdx.x / 32];
    int label = 0;
    for (long long t = length - 1; t >= 0; --t) {
        const long long next = t + 1 < length ? rows.at(t + 1) : -1;
        double most = NEVER, before = 0.0;
        for (int i = lane; i < N; i += 32) {
            double x = log_of(vectors[t * N + i], logs) + (next < 0 ? 0.0 : edge_of(b, next, i, label));
            own[i] = x;
            most = Most()(most, x);
        }
        most = warp_max(most);
        for (int from = 0; from < N; from += 32) { // cumulative shares
            int i = from + lane;
            double share = i < N ? exp(own[i] - most) : 0.0;
            for (int k = 1; k < 32; k *= 2) {
                double other = __shfl_up_sync(FULL, share, k);
                if (lane >= k) share += other;
            }
            own[i] = before + share;
            before += __shfl_sync(FULL, share, 31);
        }
        const double rest = b.uniforms[(base + t) * b.draws + draw] * before;
        label = N;
        for (int from = 0; from < N && label == N; from += 32) {
            unsigned above = __ballot_sync(FULL, from + lane < N && own[from + lane] > rest);
            if (above) label = from + __ffs(above) - 1;
        }
        if (label == N) label = 0; // vectors that are not numbers
        if (lane == 0) b.labels[(base + t) * b.draws + draw] = label;
    }
}
