// Matrix products of a warp, which GPUs compute on tensor cores. The whole fragment is in the first thread of its warp,
// which does all the work.
#pragma once

#include <cuda_runtime.h>

namespace nvcuda {
namespace wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };

namespace precision {
// A float of which only 10 bits of the fraction are used.
struct tf32;
} // namespace precision

inline float __float_to_tf32(float x) {
    uint32_t word;
    memcpy(&word, &x, sizeof word);
    word = (word + 0x1000) & ~uint32_t(0x1fff);
    memcpy(&x, &word, sizeof x);
    return x;
}

template <typename T> struct stored {
    using type = T;
};
template <> struct stored<precision::tf32> {
    using type = float;
};

template <typename Use, int M, int N, int K, typename T, typename Layout = void> struct fragment {
    static constexpr int rows = std::is_same_v<Use, matrix_b> ? K : M, columns = std::is_same_v<Use, matrix_a> ? K : N;
    static constexpr int num_elements = rows * columns;
    typename stored<T>::type x[num_elements];
};

inline bool works() { return cuda_on_cpu::block->current->flat % cuda_on_cpu::WARP == 0; }

template <typename Fragment, typename T> void fill_fragment(Fragment &fragment, T value) {
    for (auto &x : fragment.x)
        x = value;
}

template <typename Fragment, typename T> void load(Fragment &fragment, const T *from, unsigned stride, bool by_row) {
    __syncwarp();
    if (works())
        for (int row = 0; row < Fragment::rows; row++)
            for (int column = 0; column < Fragment::columns; column++)
                fragment.x[row * Fragment::columns + column] = from[by_row ? row * stride + column : column * stride + row];
    __syncwarp();
}

template <typename Use, int M, int N, int K, typename T, typename Layout, typename S>
void load_matrix_sync(fragment<Use, M, N, K, T, Layout> &fragment, const S *from, unsigned stride) {
    load(fragment, from, stride, std::is_same_v<Layout, row_major>);
}
template <int M, int N, int K, typename T, typename S>
void load_matrix_sync(fragment<accumulator, M, N, K, T> &fragment, const S *from, unsigned stride, layout_t layout) {
    load(fragment, from, stride, layout == mem_row_major);
}

template <int M, int N, int K, typename T, typename S>
void store_matrix_sync(S *to, const fragment<accumulator, M, N, K, T> &fragment, unsigned stride, layout_t layout) {
    __syncwarp();
    if (works())
        for (int row = 0; row < M; row++)
            for (int column = 0; column < N; column++)
                to[layout == mem_row_major ? row * stride + column : column * stride + row] = fragment.x[row * N + column];
    __syncwarp();
}

template <int M, int N, int K, typename T, typename LayoutA, typename LayoutB, typename S>
void mma_sync(fragment<accumulator, M, N, K, S> &d, const fragment<matrix_a, M, N, K, T, LayoutA> &a,
              const fragment<matrix_b, M, N, K, T, LayoutB> &b, const fragment<accumulator, M, N, K, S> &c) {
    __syncwarp();
    if (works())
        for (int row = 0; row < M; row++)
            for (int column = 0; column < N; column++) {
                float sum = float(c.x[row * N + column]);
                for (int k = 0; k < K; k++)
                    sum += float(a.x[row * K + k]) * float(b.x[k * N + column]);
                d.x[row * N + column] = S(sum);
            }
    __syncwarp();
}

} // namespace wmma
} // namespace nvcuda
