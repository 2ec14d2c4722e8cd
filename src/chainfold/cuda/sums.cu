// Sums of what other kernels leave, each in one order.

// Tables of counts: out(k) = sum_w table(w, k). A lane adds one number; warp v of a block adds tables v, v + warps, ...,
// and the first warp the sums of all warps.
extern "C" __global__ void __launch_bounds__(1024) sum_tables(Batch b) {
    __shared__ double parts[32][32];
    const long long size = (N + 2) * N;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    const long long k = (long long)blockIdx.x * 32 + lane;
    double sum = 0.0;
    if (k < size) {
#pragma unroll 4
        for (long long w = warp; w < b.table_count; w += warps) sum += b.tables[w * size + k];
    }
    parts[warp][lane] = sum;
    __syncthreads();
    if (warp || k >= size) return;
    for (int v = 1; v < warps; ++v) sum += parts[v][lane];
    REAL *out = k < N * N ? b.pairs + k : k < (N + 1) * N ? b.first + (k - N * N) : b.last + (k - (N + 1) * N);
    *out = (REAL)sum;
}

// Shares of the parts of each sequence: values(s) = sum_g scale(s, g), by a warp; see `entropy.cu`.
extern "C" __global__ void __launch_bounds__(32 * WARPS) sum_shares(Batch b) {
    const long long s = (long long)blockIdx.x * WARPS + threadIdx.x / 32;
    if (s >= b.sequences) return;
    const double *shares = b.scale + first_part(b, s, b.group);
    const long long count = (length_of(b, s) + b.group - 1) / b.group;
    double sum = 0.0;
    for (long long g = threadIdx.x % 32; g < count; g += 32) sum += shares[g];
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) b.values[s] = (REAL)sum;
}
