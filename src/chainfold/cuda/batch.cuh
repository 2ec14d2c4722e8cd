// A batch as kernels see it, and sums and maxima over a warp or a block, always in one order.
//
// Position t of sequence s is row rows_of(b, s).at(t) of the emissions and row kept(b, s) + t of the forward vectors.

#define PADDED ((N + 3) / 4 * 4)
#define FULL 0xffffffffu
#define WARPS 4 // of a block whose warps work on their own
#define LABEL_THREADS ((N + 31) / 32 * 32)
#define UNKNOWN -100 // the tag of a position whose tag is unknown

#ifdef REAL_IS_DOUBLE
typedef double REAL;
struct __align__(16) REAL4 { double x, y, z, w; };
#define EDGE_RANGE 500.0   // transitions that span more are not done in scaled numbers
#define VANISHING 760.0    // but those so far below the largest are as good as forbidden, and watched
#define LOWEST (-1000)     // power of two down to which numbers keep their digits
#define LEAST 1e-280       // a share below it is negligible
#define TOLERANCE 1e-13    // of a certificate, relative
#else
typedef float REAL;
struct __align__(16) REAL4 { float x, y, z, w; };
#define EDGE_RANGE 60.0
#define VANISHING 120.0
#define LOWEST (-115)
#define LEAST 1e-30f
#define TOLERANCE 1e-6f
#endif

#define INFINITE __int_as_float(0x7f800000)
#define NEVER (-(double)INFINITE)

__device__ inline float exponential(float x) { return expf(x); }
__device__ inline double exponential(double x) { return exp(x); }

struct Batch {
    // what is asked
    const REAL *emissions;        // [R, N]
    const REAL *transitions;      // [N, N]
    const REAL *start, *end;      // [N]
    const REAL *edges;            // [R, N, N] or null
    const long long *tags;        // [R] or null
    const unsigned char *mask;    // [R] or null
    double *matrix;               // [2, N, N] exp(transition - shift) and its transpose; see numbers.cuh
    long long *index;             // [S, T] rows of the unmasked positions, then of the others; null without a mask
    long long *lengths;           // [S] or null: all T
    const long long *packed;      // [S + 1] first row of each sequence, or null
    // forward
    REAL *vectors;                // [R, N] forward vectors
    REAL *entries;                // [chunks, N] the forward vector before each chunk
    double *borders;              // [3, chunks, N] what chunks begin and end with; see blocks.cu
    double *scale, *score;        // [chunks] shares of log Z and of the score of the tags
    int *flag;                    // [S] 0: done in chunks; see ordered.cu
    int *status;                  // [3] is some tag no label, is some tag unknown, has some sequence a flag
    REAL *values;                 // [S] results
    // backward
    const REAL *factor;           // factor[s * factor_step] of sequence s
    REAL *posteriors;             // [chunks, N] of the last position of each chunk
    REAL *gradient;               // [R, N]
    REAL *edge_gradient;          // [R, N, N] or null
    double *tables;               // [tables, N + 2, N]
    REAL *pairs, *first, *last;   // [N, N], [N], [N] their sums
    // labels
    unsigned char *back;          // [R, N] of POINTER
    double *between;              // [chunks, N, N] best scores of chunks; see best_chunks.cu
    unsigned char *turns;         // [chunks, N] labels before chunks
    int *faults;                  // [chunks]
    long long *labels;            // [R], or [R, draws]
    double *best;                 // [S], or [S, draws]
    const double *uniforms;       // [R, draws] from [0, 1)
    double *ranked;               // [blocks, 2, N, draws] the best scores of each label; see ranked.cu
    unsigned *choices;            // [R, N, draws]
    long long sequences, length;  // S, and T or the length of the longest packed sequence
    long long row_sequence, row_position; // row = s * row_sequence + t * row_position without an index
    long long chunk;              // positions of a chunk
    long long whole;              // is every sequence one chunk?
    long long group;              // positions whose counts or shares are added in order
    long long halo;               // positions that a block begins early; see blocks.cu
    long long round, rounds;      // of kernels that repair what does not agree; see blocks.cu
    long long warps, table_count; // warps with a table, and all tables
    long long factor_step;        // 0 where all sequences have one factor
    long long draws;              // labellings of each sequence
    double sign;                  // of posteriors in the gradient
};

__device__ inline long long length_of(const Batch &b, long long s) {
    return b.packed ? b.packed[s + 1] - b.packed[s] : b.lengths ? b.lengths[s] : b.length;
}
__device__ inline long long kept(const Batch &b, long long s) { return b.packed ? b.packed[s] : s * b.length; }
__device__ inline REAL factor_of(const Batch &b, long long s) { return b.factor[s * b.factor_step]; }

// The rows of a sequence.
struct Rows {
    const long long *index;
    long long first, step;
    __device__ long long at(long long t) const { return index ? index[t] : first + t * step; }
};
__device__ inline Rows rows_of(const Batch &b, long long s) {
    Rows rows;
    rows.index = b.index ? b.index + s * b.length : 0;
    rows.first = b.packed ? b.packed[s] : s * b.row_sequence;
    rows.step = b.packed ? 1 : b.row_position;
    return rows;
}

// A part of a sequence: positions a, ..., a + size - 1 of sequence s; size is 0 for a number that no part has. Parts of
// `most` positions are numbered through all sequences. Packed sequences leave numbers unused, so that none has to count
// those before.
struct Part {
    long long s, a, length;
    int size;
};
__device__ inline long long first_part(const Batch &b, long long s, long long most) {
    return b.packed ? b.packed[s] / most + s : s * ((b.length + most - 1) / most);
}
__device__ inline long long all_parts(const Batch &b, long long most) { return first_part(b, b.sequences, most); }
__device__ inline Part part_of(const Batch &b, long long s, long long a, long long most) {
    Part part;
    part.s = s;
    part.a = a;
    part.length = length_of(b, s);
    long long rest = part.length - a;
    part.size = (int)(rest < 0 ? 0 : rest < most ? rest : most);
    return part;
}
__device__ inline Part part_at(const Batch &b, long long number, long long most) {
    long long low = 0, high = b.sequences;
    if (!b.packed) low = number / ((b.length + most - 1) / most);
    while (b.packed && high - low > 1) {
        long long middle = (low + high) / 2;
        if (first_part(b, middle, most) <= number) low = middle; else high = middle;
    }
    return part_of(b, low, (number - first_part(b, low, most)) * most, most);
}

// Chunks: parts of b.chunk positions, or whole sequences.
__device__ inline long long chunk_count(const Batch &b) { return b.whole ? b.sequences : all_parts(b, b.chunk); }
__device__ inline Part chunk_at(const Batch &b, long long number) {
    return b.whole ? part_of(b, number, 0, b.chunk) : part_at(b, number, b.chunk);
}

// Whether the forward vectors of a sequence are logarithms, of which the largest is zero, or not a number; by a warp.
__device__ inline bool in_logarithms(const REAL *vectors) {
    bool positive = false;
    for (int j = threadIdx.x % 32; j < N; j += 32) positive = positive || vectors[j] > 0;
    return !__any_sync(FULL, positive);
}
__device__ inline double log_of(REAL number, bool logs) { return logs ? (double)number : log((double)number); }

// s_t(j): an emission with the scores of starting and ending.
__device__ inline double score_of(const Batch &b, REAL emission, long long t, long long length, int j) {
    double score = (double)emission;
    if (t == 0) score += (double)b.start[j];
    if (t == length - 1) score += (double)b.end[j];
    return score;
}

struct Sum {
    template <class T> __device__ T operator()(T x, T y) const { return x + y; }
    __device__ static double least() { return 0.0; }
};
struct Most {
    template <class T> __device__ T operator()(T x, T y) const { return y > x ? y : x; }
    __device__ static double least() { return NEVER; }
};
template <class T, class Combine> __device__ inline T over_warp(T x, Combine combine) {
    for (int k = 16; k; k /= 2) x = combine(x, __shfl_xor_sync(FULL, x, k));
    return x;
}
// Over a block of at most 1,024 threads; every thread gets the result. `room`: 32 numbers, shared.
template <class T, class Combine> __device__ inline T over_block(T x, T *room, Combine combine) {
    x = over_warp(x, combine);
    __syncthreads();
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = x;
    __syncthreads();
    return over_warp(threadIdx.x % 32 < blockDim.x / 32 ? room[threadIdx.x % 32] : (T)combine.least(), combine);
}
template <class T> __device__ inline T warp_sum(T x) { return over_warp(x, Sum()); }
template <class T> __device__ inline T warp_max(T x) { return over_warp(x, Most()); }
template <class T> __device__ inline T block_sum(T x, T *room) { return over_block(x, room, Sum()); }
template <class T> __device__ inline T block_max(T x, T *room) { return over_block(x, room, Most()); }

// Some float that is at least nearly the largest of the warp: what is taken out of an exponent need not be exact.
__device__ inline float warp_peak(float x) {
    int bits = __float_as_int(x);
    bits ^= (bits >> 31) & 0x7fffffff;
    bits = __reduce_max_sync(FULL, bits);
    return __int_as_float(bits ^ ((bits >> 31) & 0x7fffffff));
}

// The score of the tags of positions t, t + step, ... below until.
// A tag that is no label is reported.
__device__ inline double score_of_tags(const Batch &b, const Rows &rows, long long length, long long t,
                                       long long until, int step) {
    double score = 0.0;
    for (; t < until; t += step) {
        long long row = rows.at(t), tag = b.tags[row], before = t > 0 ? b.tags[rows.at(t - 1)] : 0;
        if (tag < 0 || tag >= N) {
            b.status[tag == UNKNOWN ? 1 : 0] = 1;
            continue;
        }
        if (before < 0 || before >= N) continue;
        score += (double)b.emissions[row * N + tag];
        if (t == 0) score += (double)b.start[tag];
        if (t == length - 1) score += (double)b.end[tag];
        if (t > 0) {
            score += (double)b.transitions[before * N + tag];
            if (b.edges) score += (double)b.edges[(row * N + before) * N + tag];
        }
    }
    return score;
}
