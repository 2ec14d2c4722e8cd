// The rows of the positions that a mask leaves, in their order, then those of the masked ones; one warp a sequence.
//
//     index(s, rank of t among the unmasked)          = row of t, where the mask is on
//     index(s, T - 1 - rank of t among the masked)    = row of t, elsewhere
//
// On the way back, the gradient of masked rows is set to zero.

#define AHEAD 8

extern "C" __global__ void __launch_bounds__(32 * WARPS) unmasked_rows(Batch b) {
    int lane = threadIdx.x % 32;
    long long s = (long long)blockIdx.x * WARPS + threadIdx.x / 32, length = 0;
    if (s >= b.sequences) return;
    long long *index = b.index + s * b.length;
    for (long long from = 0; from < b.length; from += 32 * AHEAD) {
        bool on[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) {
            long long t = from + 32 * k + lane;
            on[k] = t < b.length && b.mask[s * b.row_sequence + t * b.row_position];
        }
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) {
            long long t = from + 32 * k + lane, row = s * b.row_sequence + t * b.row_position;
            unsigned votes = __ballot_sync(FULL, on[k]);
            long long rank = length + __popc(votes & ((1u << lane) - 1));
            length += __popc(votes);
            if (t >= b.length) continue;
            index[on[k] ? rank : b.length - 1 - (t - rank)] = row;
            if (b.gradient && !on[k])
                for (int j = 0; j < N; ++j) b.gradient[row * N + j] = 0;
        }
    }
    if (lane == 0) b.lengths[s] = length;
}
