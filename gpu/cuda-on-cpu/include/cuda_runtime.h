// The CUDA C++ environment of kernels on the CPU: qualifiers, thread indices, barriers, warps, atomics and functions.
// compiler.cpp compiles kernels with this header in place of NVIDIA's.
//
// The threads of a block take turns on one CPU thread, each until it waits for others. A kernel in which threads wait
// for something that never happens would hang on a GPU, or be undefined. Here it fails.
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <memory>
#include <tuple>
#include <type_traits>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) alignas(bytes)

struct uint3 {
    unsigned x, y, z;
};
using dim3 = uint3;
inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }

namespace cuda_on_cpu {

constexpr unsigned WARP = 32;
constexpr size_t STACK_BYTES = 256 << 10;

enum class Wait { NOTHING, WARP_MATES, BLOCK, DONE };

struct Thread {
    uint3 index;
    unsigned flat;
    Wait wait;
    // The number of warp exchanges that the thread has taken part in.
    unsigned exchanges;
    ucontext_t context;
};

// The values that the threads of a warp exchange. There are two sets, since the first thread may continue to the next
// exchange while the last one still reads this one.
struct Warp {
    uint64_t shown[2][WARP];
    bool there[2][WARP];
};

struct Block {
    uint3 grid, block, index;
    std::vector<char> shared;
    std::vector<Thread> threads;
    std::vector<Warp> warps;
    Thread *current;
    ucontext_t scheduler;
    void (*body)(void *);
    void *argument;
};

// Not static, so that the compiler cannot assume that no other code changes it.
extern thread_local Block *block;
thread_local Block *block = nullptr;

inline void *shared_memory() {
    char *start = block->shared.data();
    return start + (128 - reinterpret_cast<uintptr_t>(start) % 128) % 128;
}

inline void wait(Wait what) {
    Thread *self = block->current;
    self->wait = what;
    swapcontext(&self->context, &block->scheduler);
}

// Returns the value of the thread in lane `source(own lane)` of the warp, or the own value if that lane does not exist.
template <typename T, typename Source> T exchange(T value, Source source) {
    static_assert(sizeof(T) <= sizeof(uint64_t), "a register or two");
    Thread *self = block->current;
    const unsigned lane = self->flat % WARP, turn = self->exchanges++ % 2;
    Warp &warp = block->warps[self->flat / WARP];
    memcpy(&warp.shown[turn][lane], &value, sizeof(T));
    warp.there[turn][lane] = true;
    wait(Wait::WARP_MATES);
    const unsigned from = source(lane);
    if (from < WARP && warp.there[turn][from])
        memcpy(&value, &warp.shown[turn][from], sizeof(T));
    return value;
}

inline uint32_t ballot(bool value) {
    Thread *self = block->current;
    const unsigned lane = self->flat % WARP, turn = self->exchanges++ % 2;
    Warp &warp = block->warps[self->flat / WARP];
    warp.shown[turn][lane] = value;
    warp.there[turn][lane] = true;
    wait(Wait::WARP_MATES);
    uint32_t all = 0;
    for (unsigned i = 0; i < WARP; i++)
        all |= uint32_t(warp.there[turn][i] && (warp.shown[turn][i] & 1)) << i;
    return all;
}

inline void thread_body() {
    block->body(block->argument);
    wait(Wait::DONE);
}

// Returns a stack for a thread of a block. Stacks are kept by the CPU thread of the stream.
inline char *stack(size_t thread) {
    static thread_local std::vector<char *> stacks;
    while (stacks.size() <= thread) {
        void *memory = mmap(nullptr, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) {
            perror("CUDA on the CPU: stacks of threads");
            abort();
        }
        stacks.push_back(static_cast<char *>(memory));
    }
    return stacks[thread];
}

// Lets threads continue whose wait is over. Returns false if there are none.
inline bool release(Block &b) {
    bool any = false, all_at_barrier = true;
    const size_t count = b.threads.size();
    for (size_t start = 0; start < count; start += WARP) {
        const size_t end = start + WARP < count ? start + WARP : count;
        bool together = true, waits = false;
        for (size_t i = start; i < end; i++) {
            const Wait what = b.threads[i].wait;
            together &= what == Wait::WARP_MATES || what == Wait::DONE;
            waits |= what == Wait::WARP_MATES;
            all_at_barrier &= what == Wait::BLOCK || what == Wait::DONE;
        }
        if (!together || !waits)
            continue;
        any = true;
        Warp &warp = b.warps[start / WARP];
        unsigned turn = 0;
        for (size_t i = start; i < end; i++)
            if (b.threads[i].wait == Wait::WARP_MATES)
                turn = (b.threads[i].exchanges - 1) % 2, b.threads[i].wait = Wait::NOTHING;
        // All threads have finished reading the other turn.
        for (bool &there : warp.there[1 - turn])
            there = false;
    }
    if (any)
        return true;
    if (all_at_barrier)
        for (Thread &thread : b.threads)
            if (thread.wait == Wait::BLOCK)
                thread.wait = Wait::NOTHING, any = true;
    return any;
}

// Runs a block whose threads wait for each other. Returns false if some wait for ever.
inline bool run_together(Block &b) {
    for (Warp &warp : b.warps)
        memset(&warp, 0, sizeof warp);
    for (Thread &thread : b.threads) {
        thread.wait = Wait::NOTHING;
        thread.exchanges = 0;
        getcontext(&thread.context);
        thread.context.uc_stack.ss_sp = stack(thread.flat);
        thread.context.uc_stack.ss_size = STACK_BYTES;
        thread.context.uc_link = nullptr;
        makecontext(&thread.context, thread_body, 0);
    }
    do {
        for (Thread &thread : b.threads)
            if (thread.wait == Wait::NOTHING) {
                b.current = &thread;
                swapcontext(&b.scheduler, &thread.context);
            }
    } while (release(b));
    for (Thread &thread : b.threads)
        if (thread.wait != Wait::DONE)
            return false;
    return true;
}

// A launch: the kernel and a copy of its arguments.
template <typename... Args> struct Call {
    void (*kernel)(Args...);
    std::tuple<std::remove_cv_t<Args>...> arguments;
};

template <typename... Args, size_t... I>
void *capture(void (*kernel)(Args...), void **parameters, std::index_sequence<I...>) {
    auto *call = new Call<Args...>{kernel, {}};
    (memcpy(static_cast<void *>(&std::get<I>(call->arguments)), parameters[I], sizeof(std::get<I>(call->arguments))), ...);
    return call;
}

template <typename... Args> void *capture(void (*kernel)(Args...), void **parameters) {
    return capture(kernel, parameters, std::index_sequence_for<Args...>());
}

// Runs all blocks of a launch. Returns zero on success.
template <typename... Args>
int run(void (*)(Args...), const char *name, bool together, void *captured, const unsigned *grid, const unsigned *dim,
        unsigned shared_bytes) {
    std::unique_ptr<Call<Args...>> call(static_cast<Call<Args...> *>(captured));
    Block b;
    b.grid = {grid[0], grid[1], grid[2]};
    b.block = {dim[0], dim[1], dim[2]};
    b.body = [](void *call) {
        auto *typed = static_cast<Call<Args...> *>(call);
        std::apply(typed->kernel, typed->arguments);
    };
    b.argument = call.get();
    const size_t count = size_t(dim[0]) * dim[1] * dim[2];
    b.threads.resize(count);
    b.warps.resize((count + WARP - 1) / WARP);
    for (size_t i = 0; i < count; i++) {
        b.threads[i].flat = unsigned(i);
        b.threads[i].index = {unsigned(i % dim[0]), unsigned(i / dim[0] % dim[1]), unsigned(i / dim[0] / dim[1])};
    }
    block = &b;
    for (unsigned z = 0; z < grid[2]; z++)
        for (unsigned y = 0; y < grid[1]; y++)
            for (unsigned x = 0; x < grid[0]; x++) {
                b.index = {x, y, z};
                // NaN, so that reads of unwritten shared memory show in results.
                b.shared.assign(shared_bytes + 128, char(0xff));
                if (together) {
                    if (!run_together(b)) {
                        fprintf(stderr, "CUDA on the CPU: %s: in block %u, %u, %u some threads wait for others for ever\n", name, x, y, z);
                        return 1;
                    }
                    continue;
                }
                for (Thread &thread : b.threads) {
                    b.current = &thread;
                    b.body(b.argument);
                }
            }
    return 0;
}

} // namespace cuda_on_cpu

#define threadIdx (cuda_on_cpu::block->current->index)
#define blockIdx (cuda_on_cpu::block->index)
#define blockDim (cuda_on_cpu::block->block)
#define gridDim (cuda_on_cpu::block->grid)
#define warpSize 32

// The entry points that compiler.cpp adds to a kernel.
#define CUDA_ON_CPU_KERNEL(kernel, together)                                                                                         \
    extern "C" __attribute__((visibility("default"))) void *cuda_on_cpu_capture(void **parameters) {                                 \
        return cuda_on_cpu::capture(&kernel, parameters);                                                                            \
    }                                                                                                                                \
    extern "C" __attribute__((visibility("default"))) int cuda_on_cpu_run(void *call, const unsigned *grid, const unsigned *dim,     \
                                                                          unsigned shared_bytes) {                                   \
        return cuda_on_cpu::run(&kernel, #kernel, together, call, grid, dim, shared_bytes);                                          \
    }

inline void __syncthreads() { cuda_on_cpu::wait(cuda_on_cpu::Wait::BLOCK); }
inline void __syncwarp(unsigned = ~0u) { cuda_on_cpu::ballot(false); }
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

// Masks are ignored: they always name the whole warp.
template <typename T> T __shfl_sync(unsigned, T value, int lane) {
    return cuda_on_cpu::exchange(value, [=](unsigned) { return unsigned(lane) % 32; });
}
template <typename T> T __shfl_xor_sync(unsigned, T value, int mask) {
    return cuda_on_cpu::exchange(value, [=](unsigned own) { return own ^ unsigned(mask); });
}
template <typename T> T __shfl_up_sync(unsigned, T value, unsigned delta) {
    return cuda_on_cpu::exchange(value, [=](unsigned own) { return own >= delta ? own - delta : own; });
}
template <typename T> T __shfl_down_sync(unsigned, T value, unsigned delta) {
    return cuda_on_cpu::exchange(value, [=](unsigned own) { return own + delta < 32 ? own + delta : own; });
}
inline unsigned __ballot_sync(unsigned, bool value) { return cuda_on_cpu::ballot(value); }
inline bool __any_sync(unsigned, bool value) { return cuda_on_cpu::ballot(value) != 0; }
inline bool __all_sync(unsigned, bool value) { return cuda_on_cpu::ballot(!value) == 0; }

template <typename T, typename Change> T cuda_on_cpu_atomic(T *at, Change change) {
    T old, next;
    __atomic_load(at, &old, __ATOMIC_RELAXED);
    do
        next = change(old);
    while (!__atomic_compare_exchange(at, &old, &next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return old;
}
template <typename T> T atomicAdd(T *at, T value) { return cuda_on_cpu_atomic(at, [=](T old) { return T(old + value); }); }
template <typename T> T atomicSub(T *at, T value) { return cuda_on_cpu_atomic(at, [=](T old) { return T(old - value); }); }
template <typename T> T atomicMax(T *at, T value) { return cuda_on_cpu_atomic(at, [=](T old) { return old < value ? value : old; }); }
template <typename T> T atomicMin(T *at, T value) { return cuda_on_cpu_atomic(at, [=](T old) { return value < old ? value : old; }); }
template <typename T> T atomicAnd(T *at, T value) { return cuda_on_cpu_atomic(at, [=](T old) { return T(old & value); }); }
template <typename T> T atomicOr(T *at, T value) { return cuda_on_cpu_atomic(at, [=](T old) { return T(old | value); }); }
template <typename T> T atomicXor(T *at, T value) { return cuda_on_cpu_atomic(at, [=](T old) { return T(old ^ value); }); }
template <typename T> T atomicExch(T *at, T value) { return cuda_on_cpu_atomic(at, [=](T) { return value; }); }
template <typename T> T atomicCAS(T *at, T expected, T value) {
    return cuda_on_cpu_atomic(at, [=](T old) { return old == expected ? value : old; });
}

// As in CUDA, a number wins over NaN.
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
template <typename A, typename B, typename = std::enable_if_t<std::is_integral_v<A> && std::is_integral_v<B>>>
auto min(A a, B b) -> std::common_type_t<A, B> {
    using C = std::common_type_t<A, B>;
    return C(a) < C(b) ? C(a) : C(b);
}
template <typename A, typename B, typename = std::enable_if_t<std::is_integral_v<A> && std::is_integral_v<B>>>
auto max(A a, B b) -> std::common_type_t<A, B> {
    using C = std::common_type_t<A, B>;
    return C(a) < C(b) ? C(b) : C(a);
}

inline float rsqrt(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __tanhf(float x) { return tanhf(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __frsqrt_rn(float x) { return 1.0f / sqrtf(x); }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fdividef(float x, float y) { return x / y; }

inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)(x)) : 64; }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((uint64_t(a) * b) >> 32); }
inline int __mulhi(int a, int b) { return int((int64_t(a) * b) >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)(((unsigned __int128)(a) * b) >> 64);
}
