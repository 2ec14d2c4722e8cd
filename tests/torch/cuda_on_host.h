// CUDA C++ compiled by g++ and run on the host, for tests without a card.
//
// A block's threads are fibers of one thread of the host. A fiber runs until it waits at a barrier; the scheduler then
// resumes the next one, in ascending or descending order. What is stored between two barriers without one is therefore
// seen or not seen according to the order: results that depend on it differ between two runs. Shared memory is filled
// with NaN before each block. A barrier that not all threads reach, or a warp whose lanes are at different operations,
// is an error.

#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#define __global__
#define __device__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static __attribute__((section("cuda_shared")))

extern char __start_cuda_shared[], __stop_cuda_shared[];

struct Dimension { unsigned x, y, z; };
static Dimension threadIdx, blockIdx, blockDim, gridDim;

enum { MOST_FIBERS = 1024, STACK = 256 << 10 };
enum Fault { FINE, BARRIER_MISSED, MIXED_OPERATIONS };

struct Barrier {
    unsigned arrived, round;
    int operation;
    bool verdict[2]; // of a vote over a block, for even and odd rounds
};
struct Fiber {
    jmp_buf state;
    ucontext_t begin;
    bool begun, done;
    Barrier *at;
    unsigned round;
    uint64_t given[2]; // to the other lanes of the warp, for even and odd rounds
};
static Fiber fibers[MOST_FIBERS];
static Barrier warps[MOST_FIBERS / 32], whole;
static jmp_buf scheduler;
static unsigned alive;
static int fault;

static Fiber &me() { return fibers[threadIdx.x]; }

// Wait until `count` fibers are here; returns the parity of the round.
static unsigned wait_at(Barrier &barrier, unsigned count, int operation) {
    unsigned round = barrier.round;
    if (barrier.arrived && barrier.operation != operation) fault = MIXED_OPERATIONS;
    barrier.operation = operation;
    if (++barrier.arrived >= count) {
        barrier.arrived = 0;
        ++barrier.round;
        barrier.verdict[barrier.round % 2] = false;
    }
    Fiber &fiber = me();
    fiber.at = &barrier;
    fiber.round = round;
    if (!_setjmp(fiber.state)) _longjmp(scheduler, 1);
    return round % 2;
}

static void __syncthreads() { wait_at(whole, alive, 1); }
static int __syncthreads_or(int x) {
    if (x) whole.verdict[whole.round % 2] = true;
    return whole.verdict[wait_at(whole, alive, 2)];
}
static void __syncwarp(unsigned = 0xffffffffu) { wait_at(warps[threadIdx.x / 32], 32, 3); }

// What each lane of the warp has given: lane k's is at result[k].
struct Given {
    unsigned parity;
    uint64_t operator[](int lane) const { return fibers[threadIdx.x / 32 * 32 + lane].given[parity]; }
};
static Given exchange(uint64_t bits, int operation) {
    Barrier &warp = warps[threadIdx.x / 32];
    me().given[warp.round % 2] = bits;
    return Given{wait_at(warp, 32, operation)};
}
template <class T> static uint64_t bits_of(T x) { uint64_t bits = 0; memcpy(&bits, &x, sizeof x); return bits; }
template <class T> static T value_of(uint64_t bits) { T x; memcpy(&x, &bits, sizeof x); return x; }

template <class T> static T __shfl_sync(unsigned, T x, int lane, int = 32) {
    return value_of<T>(exchange(bits_of(x), 4)[lane & 31]);
}
template <class T> static T __shfl_xor_sync(unsigned, T x, int mask, int = 32) {
    return value_of<T>(exchange(bits_of(x), 5)[(threadIdx.x % 32) ^ mask]);
}
template <class T> static T __shfl_up_sync(unsigned, T x, unsigned by, int = 32) {
    unsigned lane = threadIdx.x % 32;
    return value_of<T>(exchange(bits_of(x), 6)[lane >= by ? lane - by : lane]);
}
static unsigned __ballot_sync(unsigned, int x) {
    Given given = exchange(x != 0, 7);
    unsigned votes = 0;
    for (int k = 0; k < 32; ++k) votes |= (unsigned)given[k] << k;
    return votes;
}
static int __any_sync(unsigned mask, int x) { return __ballot_sync(mask, x) != 0; }
static int __all_sync(unsigned mask, int x) { return __ballot_sync(mask, x) == 0xffffffffu; }
static int __reduce_max_sync(unsigned, int x) {
    Given given = exchange(bits_of(x), 8);
    int most = value_of<int>(given[0]);
    for (int k = 1; k < 32; ++k) most = value_of<int>(given[k]) > most ? value_of<int>(given[k]) : most;
    return most;
}

static float __fdividef(float x, float y) { return x / y; }
static int atomicAdd(int *sum, int x) { int before = *sum; *sum += x; return before; }

static int __float_as_int(float x) { return value_of<int>(bits_of(x)); }
static float __int_as_float(int x) { return value_of<float>(bits_of(x)); }
static int __double2hiint(double x) { return (int)(bits_of(x) >> 32); }
static double __hiloint2double(int high, int low) { return value_of<double>((uint64_t)high << 32 | (unsigned)low); }
static int __ffs(int x) { return __builtin_ffs(x); }
static int __popc(unsigned x) { return __builtin_popcount(x); }

static void (*body)();
static void begin_fiber() {
    body();
    me().done = true;
    --alive;
    if (whole.arrived && whole.arrived >= alive) { // those who have returned are not waited for
        whole.arrived = 0;
        ++whole.round;
        whole.verdict[whole.round % 2] = false;
    }
    _longjmp(scheduler, 1);
}

// Run until all fibers are done; `turned`: the last thread first.
static int run_block(unsigned threads, bool turned, char *stacks) {
    static volatile unsigned k, moved;
    static bool reversed;
    static unsigned count;
    reversed = turned;
    count = threads;
    memset(warps, 0, sizeof warps);
    memset(&whole, 0, sizeof whole);
    alive = threads;
    for (unsigned i = 0; i < threads; ++i) {
        Fiber &fiber = fibers[i];
        fiber.begun = fiber.done = false;
        fiber.at = 0;
        getcontext(&fiber.begin);
        fiber.begin.uc_stack.ss_sp = stacks + (size_t)i * STACK;
        fiber.begin.uc_stack.ss_size = STACK;
        fiber.begin.uc_link = 0;
        makecontext(&fiber.begin, begin_fiber, 0);
    }
    do {
        moved = 0;
        for (k = 0; k < count; ++k) {
            unsigned i = reversed ? count - 1 - k : k;
            if (fibers[i].done || (fibers[i].at && fibers[i].at->round == fibers[i].round)) continue;
            moved = moved + 1;
            fibers[i].at = 0;
            threadIdx.x = i;
            if (!_setjmp(scheduler)) {
                if (fibers[i].begun) _longjmp(fibers[i].state, 1);
                fibers[i].begun = true;
                setcontext(&fibers[i].begin);
            }
            if (fault) return fault;
        }
    } while (moved);
    return alive ? BARRIER_MISSED : FINE;
}

template <class Argument> struct Launch {
    static void (*kernel)(Argument);
    static const Argument *argument;
    static void call() { kernel(*argument); }
};
template <class Argument> void (*Launch<Argument>::kernel)(Argument);
template <class Argument> const Argument *Launch<Argument>::argument;

template <class Argument>
static int run_grid(void (*kernel)(Argument), const Argument *argument, unsigned blocks, unsigned threads, int turned) {
    static char *stacks = 0;
    if (!stacks) {
        stacks = (char *)mmap(0, (size_t)MOST_FIBERS * STACK, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    Launch<Argument>::kernel = kernel;
    Launch<Argument>::argument = argument;
    body = Launch<Argument>::call;
    blockDim.x = threads;
    gridDim.x = blocks;
    fault = FINE;
    for (unsigned k = 0; k < blocks && !fault; ++k) {
        blockIdx.x = turned ? blocks - 1 - k : k;
        memset(__start_cuda_shared, 0xff, __stop_cuda_shared - __start_cuda_shared);
        fault = run_block(threads, turned, stacks);
    }
    return fault;
}
