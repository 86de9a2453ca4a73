// Products of small matrices, for sequences of which each has a size of its own.
//
// A block of the result is summed in registers over the whole depth. Half precision is summed in float.

#pragma once

#include "jagged.h"

namespace rec {

// Where the numbers of one product lie: c[m][n] = sum over k of a[k * a_k + m * a_m] * b[k * b_k + n].
template <typename T>
struct Product {
    const T* a;
    int64_t a_k, a_m;
    const T* b;
    int64_t b_k;
    T* c;
    int64_t c_m;
    int64_t rows, columns, depth;
};

template <int rows, int columns, typename T>
FB_INLINE void multiply_block(const Product<T>& p, int64_t m, int64_t n) noexcept {
    using W = fb::Wide<T>;
    W sum[rows][columns] = {};
    const T *a = p.a + m * p.a_m, *b = p.b + n;
    for (int64_t k = 0; k < p.depth; ++k, a += p.a_k, b += p.b_k) {
        W line[columns];
        for (int j = 0; j < columns; ++j) line[j] = fb::widen(b[j]);
        for (int i = 0; i < rows; ++i) {
            const W factor = fb::widen(a[i * p.a_m]);
            for (int j = 0; j < columns; ++j) sum[i][j] += factor * line[j];
        }
    }
    for (int i = 0; i < rows; ++i)
        for (int j = 0; j < columns; ++j) p.c[(m + i) * p.c_m + n + j] = fb::narrow<T>(sum[i][j]);
}

template <int rows, typename T>
FB_INLINE void multiply_rows(const Product<T>& p, int64_t m) noexcept {
    int64_t n = 0;
    for (; n + 16 <= p.columns; n += 16) multiply_block<rows, 16>(p, m, n);
    if (n + 8 <= p.columns) multiply_block<rows, 8>(p, m, n), n += 8;
    if (n + 4 <= p.columns) multiply_block<rows, 4>(p, m, n), n += 4;
    for (; n < p.columns; ++n) multiply_block<rows, 1>(p, m, n);
}

template <typename T>
FB_INLINE void multiply_all(const Product<T>& p) noexcept {
    int64_t m = 0;
    for (; m + 4 <= p.rows; m += 4) multiply_rows<4>(p, m);
    for (; m < p.rows; ++m) multiply_rows<1>(p, m);
}

// Several sums at a time: one would wait for itself.
template <typename T>
FB_INLINE fb::Wide<T> dot_all(const T* a, const T* b, int64_t count) noexcept {
    using W = fb::Wide<T>;
    constexpr int lanes = 16;
    W sums[lanes] = {};
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes)
        for (int k = 0; k < lanes; ++k) sums[k] += fb::widen(a[i + k]) * fb::widen(b[i + k]);
    W total = 0;
    for (int k = 0; k < lanes; ++k) total += sums[k];
    for (; i < count; ++i) total += fb::widen(a[i]) * fb::widen(b[i]);
    return total;
}

// Compiled for several instruction sets in matrix.cpp.
void multiply(const Product<float>& product) noexcept;
void multiply(const Product<double>& product) noexcept;
void multiply(const Product<fb::Half>& product) noexcept;
void multiply(const Product<fb::BFloat16>& product) noexcept;
float dot(const float* a, const float* b, int64_t count) noexcept;
double dot(const double* a, const double* b, int64_t count) noexcept;
float dot(const fb::Half* a, const fb::Half* b, int64_t count) noexcept;
float dot(const fb::BFloat16* a, const fb::BFloat16* b, int64_t count) noexcept;

}  // namespace rec
