// 16-bit numbers, with the operations that kernels use.
#pragma once

#include <cuda_runtime.h>

struct __half {
    _Float16 value;

    __half() = default;
    template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>> __half(T x) : value(_Float16(float(x))) {}
    operator float() const { return float(value); }
};

#define CUDA_ON_CPU_OPERATOR(type, op)                                                                                               \
    inline type operator op(type a, type b) { return type(float(a) op float(b)); }                                                   \
    inline type &operator op##=(type &a, type b) { return a = a op b; }
#define CUDA_ON_CPU_COMPARISON(type, op)                                                                                             \
    inline bool operator op(type a, type b) { return float(a) op float(b); }
#define CUDA_ON_CPU_NUMBER(type)                                                                                                     \
    CUDA_ON_CPU_OPERATOR(type, +)                                                                                                    \
    CUDA_ON_CPU_OPERATOR(type, -)                                                                                                    \
    CUDA_ON_CPU_OPERATOR(type, *)                                                                                                    \
    CUDA_ON_CPU_OPERATOR(type, /)                                                                                                    \
    CUDA_ON_CPU_COMPARISON(type, <)                                                                                                  \
    CUDA_ON_CPU_COMPARISON(type, >)                                                                                                  \
    CUDA_ON_CPU_COMPARISON(type, <=)                                                                                                 \
    CUDA_ON_CPU_COMPARISON(type, >=)                                                                                                 \
    CUDA_ON_CPU_COMPARISON(type, ==)                                                                                                 \
    CUDA_ON_CPU_COMPARISON(type, !=)                                                                                                 \
    inline type operator-(type a) { return type(-float(a)); }                                                                        \
    inline type __hmax(type a, type b) { return type(fmaxf(float(a), float(b))); }                                                   \
    inline type __hmin(type a, type b) { return type(fminf(float(a), float(b))); }                                                   \
    inline type hexp(type a) { return type(expf(float(a))); }                                                                        \
    inline type hlog(type a) { return type(logf(float(a))); }                                                                        \
    inline type hsqrt(type a) { return type(sqrtf(float(a))); }                                                                      \
    inline type hrsqrt(type a) { return type(1.0f / sqrtf(float(a))); }                                                              \
    inline type hsin(type a) { return type(sinf(float(a))); }                                                                        \
    inline type hcos(type a) { return type(cosf(float(a))); }                                                                        \
    inline type hfloor(type a) { return type(floorf(float(a))); }                                                                    \
    inline type hceil(type a) { return type(ceilf(float(a))); }                                                                      \
    inline type htrunc(type a) { return type(truncf(float(a))); }                                                                    \
    inline type hrint(type a) { return type(rintf(float(a))); }                                                                      \
    inline type __habs(type a) { return type(fabsf(float(a))); }                                                                     \
    inline bool __hisnan(type a) { return isnan(float(a)); }                                                                         \
    inline type __hfma(type a, type b, type c) { return type(fmaf(float(a), float(b), float(c))); }

// Pairs of numbers.
#define CUDA_ON_CPU_PAIR(pair, type)                                                                                                 \
    struct pair {                                                                                                                    \
        type x, y;                                                                                                                   \
    };                                                                                                                               \
    inline pair operator+(pair a, pair b) { return {a.x + b.x, a.y + b.y}; }                                                         \
    inline pair operator-(pair a, pair b) { return {a.x - b.x, a.y - b.y}; }                                                         \
    inline pair operator*(pair a, pair b) { return {a.x * b.x, a.y * b.y}; }                                                         \
    inline pair operator/(pair a, pair b) { return {a.x / b.x, a.y / b.y}; }                                                         \
    inline pair operator-(pair a) { return {-a.x, -a.y}; }                                                                           \
    inline pair __hmax2(pair a, pair b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }                                             \
    inline pair __hmin2(pair a, pair b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; }                                             \
    inline pair __hfma2(pair a, pair b, pair c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }

CUDA_ON_CPU_NUMBER(__half)
CUDA_ON_CPU_PAIR(__half2, __half)
