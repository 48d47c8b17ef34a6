// 16-bit numbers with the exponent range of float, with the operations that kernels use.
#pragma once

#include <cuda_fp16.h>

struct __nv_bfloat16 {
    uint16_t bits;

    __nv_bfloat16() = default;
    template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>> __nv_bfloat16(T x) {
        const float wide = float(x);
        uint32_t word;
        memcpy(&word, &wide, sizeof word);
        // Round to nearest, ties to even.
        bits = isnan(wide) ? uint16_t(0x7fff) : uint16_t((word + 0x7fff + (word >> 16 & 1)) >> 16);
    }
    operator float() const {
        const uint32_t word = uint32_t(bits) << 16;
        float wide;
        memcpy(&wide, &word, sizeof wide);
        return wide;
    }
};

CUDA_ON_CPU_NUMBER(__nv_bfloat16)
CUDA_ON_CPU_PAIR(__nv_bfloat162, __nv_bfloat16)
