// Chunks of long sequences by blocks, one thread a label: for more labels than a warp has lanes. What surrounds a chunk is
// certified by its borders.
//
// A chunk begins `halo` positions early, with equal shares. Its entry is the forward vector that it has before its first
// position, its exit that of its last one. A step takes x to x E diag(exp s), which is linear and has no negative number:
//
//     low y <= x <= high y in every label   implies   low y' <= x' <= high y'
//
// The entry of the second chunk is compared with the exit of the first, which is exact, and so on: where entries and exits
// agree to within BORDER in every label, the k-th entry is exact to within k BORDER, and in fact nearly always to within
// BORDER, since steps also make vectors alike. The way back is linear and has no negative number, too: there, the entry is
// the posterior of the last position of a chunk, and the exit that of the position before its first one.
//
// Round 0 goes through all chunks. In each later one, a chunk whose entry is not the exit of its neighbour begins anew
// from that, without a halo; in the last round it flags the sequence, which is then done in order (`ordered.cu`).
// borders: [3, chunks, N], the entries, and the exits of even and of odd rounds.

#ifdef REAL_IS_DOUBLE
#define BORDER 1e-13
#else
#define BORDER 1e-9
#endif
#define NEGLIGIBLE 1e-290 // of a share; all that LEAST lets pass are above it

// Do two vectors agree in every label? Each thread has a number of both; by a block.
__device__ inline bool agree(double x, double y, double *room) {
    const bool counts = threadIdx.x < N && !(x < NEGLIGIBLE && y < NEGLIGIBLE);
    const double ratio = x / y;
    if (__syncthreads_or(counts && !(ratio > 0.0 && ratio < INFINITE))) return false;
    const double high = block_max(counts ? ratio : 0.0, room), low = -block_max(counts ? -ratio : NEVER, room);
    return high <= low * (1.0 + BORDER);
}

// What a chunk has to do in this round.
struct Turn {
    bool done;     // nothing
    double *entry; // this thread's numbers
    double *exit;
    const double *beside; // the exit of the neighbour, in the round before
};
__device__ inline Turn turn_of(const Batch &b, long long number, long long neighbour, bool alone, double *room) {
    const long long size = all_parts(b, b.chunk) * N, j = threadIdx.x < N ? threadIdx.x : 0;
    const double *earlier = b.borders + (1 + (b.round + 1) % 2) * size;
    Turn turn;
    turn.entry = b.borders + number * N + j;
    turn.exit = b.borders + (1 + b.round % 2) * size + number * N + j;
    turn.beside = earlier + neighbour * N + j;
    turn.done = false;
    if (b.round == 0) return turn;
    turn.done = alone || agree(*turn.entry, *turn.beside, room);
    if (turn.done && threadIdx.x < N) *turn.exit = earlier[number * N + j];
    if (!turn.done && b.round == b.rounds - 1) {
        turn.done = true;
        if (threadIdx.x == 0) b.flag[part_at(b, number, b.chunk).s] = 1;
    }
    return turn;
}

extern "C" __global__ void __launch_bounds__(LABEL_THREADS) block_forward(Batch b) {
    __shared__ double pool[2 * N], room[32], edges[MATRIX_SIZE];
    const int j = threadIdx.x;
    const long long number = blockIdx.x;
    const Part chunk = part_at(b, number, b.chunk);
    if (!chunk.size) return;
    const long long a = chunk.a, until = a + chunk.size;
    if (b.round == 0 && b.tags) {
        double own = block_sum(score_of_tags(b, rows_of(b, chunk.s), chunk.length, a + j, until, blockDim.x), room);
        if (j == 0) b.score[number] = own;
    }
    const Turn turn = turn_of(b, number, number - 1, a == 0, room);
    if (turn.done) return;
    const Matrix matrix = load_matrix(b, edges, room);
    bool known = matrix.in_range;
    double alpha = 0.0, total = 0.0;
    if (known && a > 0) {
        if (b.round == 0) {
            const long long from = a > b.halo ? a - b.halo : 0;
            known = forward_in_numbers(b, matrix, chunk.s, chunk.length, from, a, true, false, pool, room, alpha, total);
        } else if (j < N) {
            alpha = *turn.beside;
        }
        if (j < N) *turn.entry = alpha;
        __syncthreads();
    }
    known = known && forward_in_numbers(b, matrix, chunk.s, chunk.length, a, until, a == 0, true, pool, room, alpha, total);
    if (j < N) *turn.exit = alpha;
    if (j == 0) {
        b.scale[number] = total;
        if (!known) b.flag[chunk.s] = 1;
    }
}

extern "C" __global__ void __launch_bounds__(LABEL_THREADS) block_backward(Batch b) {
    __shared__ double pool[2 * N], room[32], edges[MATRIX_SIZE];
    const int j = threadIdx.x;
    const long long number = blockIdx.x;
    const Part chunk = part_at(b, number, b.chunk);
    if (!chunk.size) return;
    const REAL *own = b.vectors + kept(b, chunk.s) * N;
    if (in_logarithms(own)) {
        if (j == 0) b.flag[chunk.s] = 1;
        return;
    }
    const long long last = chunk.a + chunk.size - 1, end = chunk.length - 1;
    const Turn turn = turn_of(b, number, number + 1, last == end, room);
    if (turn.done) return;
    const Matrix matrix = load_matrix(b, edges, room);
    double gamma;
    if (b.round == 0) {
        const long long from = end - last > b.halo ? last + b.halo : end;
        gamma = share_of(own + from * N, room);
        backward_in_numbers(b, matrix, chunk.s, from, last, false, pool, room, gamma);
    } else {
        gamma = j < N ? *turn.beside : 0.0;
    }
    if (j < N) *turn.entry = gamma;
    __syncthreads();
    backward_in_numbers(b, matrix, chunk.s, last, chunk.a, true, pool, room, gamma);
    if (chunk.a > 0) backward_in_numbers(b, matrix, chunk.s, chunk.a, chunk.a - 1, false, pool, room, gamma);
    if (j < N) *turn.exit = gamma;
}
