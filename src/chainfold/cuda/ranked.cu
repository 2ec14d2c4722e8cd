// The k best labellings of each sequence, in double: one block a sequence and one thread a label.
//
//     delta_t(j, .) = s_t(j) + the k largest of delta_{t-1}(i, q) + e_t(i, j), over i and q, less a peak
//
// Of equal ones, those of the smaller i are first. ranked holds delta of two positions in turns, choices i * k + q of each.
// best: [S, k], scores less the best one, -inf where there are fewer labellings. labels: [R, k].

// Put x among the first `count` numbers of a descending list of at most `most`; its place comes along.
__device__ inline int insert(double *list, unsigned *places, int count, int most, double x, unsigned place) {
    int p = count < most ? count : most - 1;
    for (; p > 0 && list[p - 1] < x; --p) {
        list[p] = list[p - 1];
        places[p] = places[p - 1];
    }
    list[p] = x;
    places[p] = place;
    return count < most ? count + 1 : most;
}

extern "C" __global__ void __launch_bounds__(LABEL_THREADS) ranked(Batch b) {
    __shared__ double room[32];
    const int j = threadIdx.x, most = (int)b.draws;
    double *lists = b.ranked + (long long)blockIdx.x * 2 * N * most;
    for (long long s = blockIdx.x; s < b.sequences; s += gridDim.x) {
        const long long length = length_of(b, s), base = kept(b, s);
        const Rows rows = rows_of(b, s);
        double peak = 0.0;
        for (long long t = 0; t < length; ++t) {
            const long long row = rows.at(t);
            const double *before = lists + (t + 1) % 2 * N * most;
            double *now = lists + (t % 2 * N + j) * most, top = NEVER;
            if (j < N) {
                unsigned *places = b.choices + ((base + t) * N + j) * most;
                const double score = score_of(b, b.emissions[row * N + j], t, length, j);
                int count = 0;
                if (t == 0) count = insert(now, places, 0, most, 0.0, 0);
                for (int i = 0; t > 0 && i < N; ++i) {
                    const double edge = edge_of(b, row, i, j) - peak;
                    for (int q = 0; q < most; ++q) {
                        double x = before[i * most + q] + edge;
                        if (!(x > NEVER) || (count == most && x <= now[most - 1])) break;
                        count = insert(now, places, count, most, x, (unsigned)(i * most + q));
                    }
                }
                for (int q = 0; q < most; ++q) {
                    now[q] = q < count ? now[q] + score : NEVER;
                    if (q >= count) places[q] = 0;
                }
                top = now[0];
            }
            peak = block_max(top, room);
            __syncthreads();
        }
        if (length == 0) continue;
        const double *last = lists + (length - 1) % 2 * N * most;
        double *gaps = b.best + s * most;
        unsigned *states = (unsigned *)(lists + length % 2 * N * most);
        if (j == 0) {
            int count = 0;
            for (int i = 0; i < N; ++i) {
                for (int q = 0; q < most; ++q) {
                    double x = last[i * most + q] - peak;
                    if (!(x > NEVER) || (count == most && x <= gaps[most - 1])) break;
                    count = insert(gaps, states, count, most, x, (unsigned)(i * most + q));
                }
            }
            for (int q = count; q < most; ++q) {
                gaps[q] = NEVER;
                states[q] = 0;
            }
        }
        __syncthreads();
        for (int r = j; r < most; r += blockDim.x) {
            unsigned state = states[r];
            for (long long t = length - 1; t >= 0; --t) {
                b.labels[(base + t) * most + r] = state / most;
                state = b.choices[((base + t) * N + state / most) * most + state % most];
            }
        }
        __syncthreads();
    }
}
