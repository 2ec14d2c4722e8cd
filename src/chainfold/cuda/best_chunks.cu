// The best labelling of long sequences, whose chunks are worked on at the same time: one warp a chunk, or a chunk and
// SLOTS labels before it (N <= 32). The recursion is that of `viterbi.cuh`.
//
//     best_between   D_c(i, j), the best score of chunk c that ends in label j after label i; of the first chunk, delta
//     best_entries   delta before each chunk:  delta(j) <- max_i (delta(i) + D_c(i, j))
//     best_pointers  the chunk again from that, with pointers; the label before the chunk for each label that it ends in
//     best_labels    the labels of the chunk, from the label that it ends in
//
// between: [chunks, N, N]; borders: [chunks, N]; scale: [chunks] what was taken out of borders; turns: [chunks, N] labels;
// faults: [chunks]. Each of them is exact for any chain.

#define SLOTS (32 / N) // labels before a chunk that a warp works for

extern "C" __global__ void __launch_bounds__(32 * WARPS) best_between(Batch b) {
    __shared__ __align__(16) double rows[WARPS][2][32 + PADDED];
    const Lane own = lane_of(b, SLOTS);
    const int warp = threadIdx.x / 32, warps = (N + SLOTS - 1) / SLOTS; // of a chunk
    const long long number = (long long)blockIdx.x * WARPS + warp, chunk_number = number / warps;
    if (chunk_number >= all_parts(b, b.chunk)) return;
    const Part chunk = part_at(b, chunk_number, b.chunk);
    const int first = (int)(number % warps) * SLOTS, before = first + own.slot;
    if (!chunk.size || (chunk.a == 0 && first > 0)) return;
    double delta = own.label == before ? 0.0 : NEVER, total = 0.0;
    const long long until = chunk.a + chunk.size;
    const int fault = best_scores<false>(b, own, chunk.s, chunk.length, chunk.a, until, rows[warp], delta, total);
    if (own.works && before < N) b.between[(chunk_number * N + before) * N + own.label] = fault ? NEVER : delta + total;
}

extern "C" __global__ void __launch_bounds__(32) best_entries(Batch b) {
    __shared__ __align__(16) double rows[2][PADDED];
    const int lane = threadIdx.x, label = lane < N ? lane : N - 1;
    const long long s = blockIdx.x, length = length_of(b, s), first = first_part(b, s, b.chunk);
    const long long count = (length + b.chunk - 1) / b.chunk;
    if (lane == 0 && length == 0) {
        b.best[s] = 0.0;
        b.flag[s] = 0;
    }
    if (count < 2) return;
    double delta = b.between[first * N * N + label], total = 0.0, next[PADDED];
    auto read = [&](long long c) {
#pragma unroll
        for (int i = 0; i < PADDED; ++i) next[i] = i < N ? b.between[((first + c) * N + i % N) * N + label] : NEVER;
    };
    read(1);
    for (long long c = 1; c < count; ++c) {
        double most;
        best_label(delta, most);
        if (most > NEVER) {
            delta -= most;
            total += most;
        }
        if (lane < N) b.borders[(first + c) * N + lane] = delta;
        if (lane == 0) b.scale[first + c] = total;
        double *row = rows[c % 2], here[PADDED];
        if (lane < PADDED) row[lane] = lane < N ? delta : NEVER;
        __syncwarp();
#pragma unroll
        for (int i = 0; i < PADDED; ++i) here[i] = next[i];
        read(c + 1 < count ? c + 1 : c);
        int chosen;
        delta = best_of(row, [&](int i) { return here[i]; }, chosen);
    }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS) best_pointers(Batch b) {
    __shared__ __align__(16) double rows[WARPS][2][32 + PADDED];
    const Lane own = lane_of(b, 1);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const long long number = (long long)blockIdx.x * WARPS + warp;
    if (number >= all_parts(b, b.chunk)) return;
    const Part chunk = part_at(b, number, b.chunk);
    if (!chunk.size) return;
    const long long until = chunk.a + chunk.size;
    double delta = 0.0, total = 0.0, most;
    if (chunk.a > 0) {
        if (lane < N) delta = b.borders[number * N + lane];
        total = b.scale[number];
    }
    const int fault = best_scores<true>(b, own, chunk.s, chunk.length, chunk.a, until, rows[warp], delta, total);
    if (lane == 0) b.faults[number] = fault;
    __syncwarp();
    const int before = fault ? 0 : followed<false>(b, chunk.s, chunk.a, until, lane < N ? lane : N - 1);
    if (lane < N) b.turns[number * N + lane] = (unsigned char)before;
    if (until < chunk.length) return;
    const int label = best_label(delta, most);
    if (lane == 0) {
        b.best[chunk.s] = total + most;
        b.labels[kept(b, chunk.s) + until - 1] = label; // as `best_labels` will
    }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS) best_labels(Batch b) {
    const int lane = threadIdx.x % 32, own = lane < N ? lane : N - 1;
    const long long number = (long long)blockIdx.x * WARPS + threadIdx.x / 32;
    if (number >= all_parts(b, b.chunk)) return;
    const Part chunk = part_at(b, number, b.chunk);
    if (!chunk.size) return;
    const long long first = first_part(b, chunk.s, b.chunk), last = first + (chunk.length - 1) / b.chunk;
    int fault = 0;
    for (long long c = first; c <= last && !fault; c += 32) {
        const int its = c + lane <= last ? b.faults[c + lane] : 0;
        const unsigned votes = __ballot_sync(FULL, its != 0);
        if (votes) fault = __shfl_sync(FULL, its, __ffs(votes) - 1);
    }
    if (chunk.a == 0 && lane == 0) b.flag[chunk.s] = fault;
    if (fault) return;
    int label = (int)b.labels[kept(b, chunk.s) + chunk.length - 1];
    for (long long c = last; c > number; c -= GROUP) {
        int turns[GROUP];
#pragma unroll
        for (int k = 0; k < GROUP; ++k) turns[k] = b.turns[(c - k > number ? c - k : number) * N + own];
#pragma unroll
        for (int k = 0; k < GROUP; ++k) {
            const int before = __shfl_sync(FULL, turns[k], label);
            label = c - k > number ? before : label;
        }
    }
    followed<true>(b, chunk.s, chunk.a, chunk.a + chunk.size, label);
}
