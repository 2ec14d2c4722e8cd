// Best scores of a sequence by a warp, one lane a label (N <= 32), in double.
//
//     delta_t(j) = s_t(j) + max_i (delta_{t-1}(i) + transition(i, j) + edges_t(i, j)), less a peak now and then
//
// Of equal ones the smaller i is chosen: it is the pointer of label j at position t.

#if N <= 256
typedef unsigned char POINTER;
#else
typedef unsigned short POINTER;
#endif

#define IMPOSSIBLE 2 // no labelling is possible
#define UNUSABLE 3   // a score is NaN or +inf

#if N <= 32

#define GROUP 8 // positions whose scores are read together, and after which a peak is taken out

// A lane's label; where a warp works for several labels before a chunk, which of them; and the scores of the transitions
// into its label.
struct Lane {
    int label, slot;
    bool works;
    double scores[PADDED];
    bool unusable;
};
__device__ inline Lane lane_of(const Batch &b, int slots) {
    const int lane = threadIdx.x % 32;
    Lane own;
    own.works = lane < slots * N;
    own.label = own.works ? lane % N : N - 1;
    own.slot = own.works ? lane / N : 0;
    own.unusable = false;
#pragma unroll
    for (int i = 0; i < PADDED; ++i) {
        own.scores[i] = i < N && own.works ? (double)b.transitions[i % N * N + own.label] : NEVER;
        own.unusable = own.unusable || !(own.scores[i] < INFINITE);
    }
    return own;
}

// The largest of delta(i) + score(i), and the first i that has it: pairs, pairs of pairs, and so on.
template <class Score> __device__ inline double best_of(const double *delta, Score score, int &chosen) {
    double most[PADDED];
    int first[PADDED];
#pragma unroll
    for (int i = 0; i < PADDED; ++i) {
        most[i] = delta[i] + score(i);
        first[i] = i;
    }
#pragma unroll
    for (int width = 1; width < PADDED; width *= 2) {
#pragma unroll
        for (int i = 0; i + width < PADDED; i += 2 * width) {
            const bool later = most[i + width] > most[i];
            most[i] = later ? most[i + width] : most[i];
            first[i] = later ? first[i + width] : first[i];
        }
    }
    chosen = first[0];
    return most[0];
}

// A lane's `delta`, of the position before `from` unless that is 0, becomes that of position until - 1; what is taken out
// is added to `total`. With KEEP, pointers go to `back`. Returns a fault or 0. rows: [2, 32 + PADDED], shared; a slot of
// it has the delta of its lanes, and then some that do not count.
template <bool KEEP>
__device__ inline int best_scores(const Batch &b, const Lane &own, long long s, long long length, long long from,
                                  long long until, double (*rows)[32 + PADDED], double &delta, double &total) {
    const int lane = threadIdx.x % 32, label = own.label;
    const Rows where = rows_of(b, s);
    POINTER *back = (POINTER *)b.back + kept(b, s) * N + label;
    const double start = (double)b.start[label], end = (double)b.end[label];
    long long place; // a lane has the row of one position of the group that is read next
    auto find = [&](long long t) {
        t += lane % GROUP;
        place = where.at(t < until ? t : until - 1);
    };
    REAL next[GROUP];
    auto read = [&]() {
#pragma unroll
        for (int k = 0; k < GROUP; ++k) next[k] = b.emissions[__shfl_sync(FULL, place, k) * N + label];
    };
    find(from);
    read();
    find(from + GROUP);
    bool wrong = false;
    if (from == 0) delta = 0.0;
    if (lane < PADDED) rows[0][32 + lane] = rows[1][32 + lane] = NEVER;
    for (long long t = from; t < until; t += GROUP) {
        double scores[GROUP];
        const bool border = t == 0 || t + GROUP >= length;
#pragma unroll
        for (int k = 0; k < GROUP; ++k) {
            scores[k] = own.works ? (double)next[k] : NEVER;
            if (border && t + k == 0) scores[k] += start;
            if (border && t + k == length - 1) scores[k] += end;
        }
        read();
        find(t + 2 * GROUP);
#pragma unroll
        for (int k = 0; k < GROUP; ++k) {
            const bool on = t + k < until, moves = on && (k > 0 || t > 0);
            const double *row = rows[k % 2] + own.slot * N;
            rows[k % 2][lane] = own.works ? delta : NEVER;
            __syncwarp();
            int chosen;
            double most;
            if (b.edges) {
                const long long into = __shfl_sync(FULL, on ? where.at(t + k) : 0, 0) * N * N + label;
                most = best_of(row, [&](int i) {
                    const double score = own.scores[i] + (i < N ? (double)b.edges[into + i % N * N] : 0.0);
                    wrong = wrong || (moves && !(score < INFINITE));
                    return score;
                }, chosen);
            } else {
                most = best_of(row, [&](int i) { return own.scores[i]; }, chosen);
            }
            if (KEEP && moves && own.works) back[(t + k) * N] = (POINTER)chosen;
            delta = on ? scores[k] + (moves ? most : 0.0) : delta;
            wrong = wrong || (on && (!(delta < INFINITE) || (moves && own.unusable)));
        }
        double peak = (double)warp_peak(own.works ? (float)delta : -INFINITE);
        if (!(fabs(peak) < INFINITE)) peak = warp_max(own.works ? delta : NEVER); // beyond the range of a float, or none
        if (__any_sync(FULL, wrong)) return UNUSABLE;
        if (!(peak > NEVER)) return IMPOSSIBLE;
        delta -= peak;
        total += peak;
    }
    return 0;
}

// The label at position until - 1 goes back along the pointers to the label at position from - 1. `label` may differ from
// lane to lane; with KEEP, it is the same, and the labels on the way are stored.
template <bool KEEP>
__device__ inline int followed(const Batch &b, long long s, long long from, long long until, int label) {
    const int lane = threadIdx.x % 32, own = lane < N ? lane : N - 1;
    const long long base = kept(b, s);
    const POINTER *back = (const POINTER *)b.back + base * N + own;
    auto pointer = [&](long long t) { return (int)back[(t > from ? t : from) * N]; };
    int ahead[GROUP];
#pragma unroll
    for (int k = 0; k < GROUP; ++k) ahead[k] = pointer(until - 1 - k);
    for (long long t = until - 1; t >= from; t -= GROUP) {
        int here[GROUP], found = 0;
#pragma unroll
        for (int k = 0; k < GROUP; ++k) {
            here[k] = ahead[k];
            ahead[k] = pointer(t - k - GROUP);
        }
#pragma unroll
        for (int k = 0; k < GROUP; ++k) {
            if (lane == k) found = label;
            const int before = __shfl_sync(FULL, here[k], label);
            label = t - k >= from ? before : label;
        }
        if (KEEP && lane < GROUP && t - lane >= from) b.labels[base + t - lane] = found;
    }
    return label;
}

// The first label with the largest delta.
__device__ inline int best_label(double delta, double &most) {
    const int lane = threadIdx.x % 32;
    most = warp_max(lane < N ? delta : NEVER);
    return __ffs(__ballot_sync(FULL, lane < N && delta == most)) - 1;
}

#endif
