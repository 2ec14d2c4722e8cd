// Tables of counts added up, each number by one block in one order: out(k) = sum_w table(w, k).

extern "C" __global__ void sum_tables(Batch b) {
    __shared__ double room[33];
    const long long size = (N + 2) * N;
    for (long long k = blockIdx.x; k < size; k += gridDim.x) {
        double sum = 0.0;
        for (long long w = threadIdx.x; w < b.table_count; w += blockDim.x) sum += b.tables[w * size + k];
        sum = block_sum(sum, room);
        REAL *out = k < N * N ? b.pairs + k : k < (N + 1) * N ? b.first + (k - N * N) : b.last + (k - (N + 1) * N);
        if (threadIdx.x == 0) *out = (REAL)sum;
    }
}
