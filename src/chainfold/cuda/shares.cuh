// Sums over the positions of each sequence: a warp takes a part of `group` positions and leaves its share of the sum in
// `scale`; `sum_shares` adds the shares.

// A sequence after the forward pass.
struct Sequence {
    Rows rows;
    const REAL *vectors;
    long long length;
    bool logs; // are the vectors logarithms?
    __device__ double log_alpha(long long t, int j) const { return log_of(vectors[t * N + j], logs); }
};

// `term(sequence, t, lane)` is what a lane adds for position t.
template <class Term> __device__ inline void add_shares(const Batch &b, Term term) {
    const int lane = threadIdx.x % 32;
    const long long number = (long long)blockIdx.x * WARPS + threadIdx.x / 32;
    if (number >= all_parts(b, b.group)) return;
    const Part part = part_at(b, number, b.group);
    if (!part.size) return;
    Sequence sequence = {rows_of(b, part.s), b.vectors + kept(b, part.s) * N, part.length, false};
    sequence.logs = in_logarithms(sequence.vectors);
    double sum = 0.0;
    for (long long t = part.a; t < part.a + part.size; ++t) sum += term(sequence, t, lane);
    sum = warp_sum(sum);
    if (lane == 0) b.scale[number] = sum;
}
