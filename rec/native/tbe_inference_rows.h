// How rows of tables for inference are summed: numbers as they are, eight-bit floats, or a few bits with a scale and a
// bias in front of each row. `tbe_inference.cpp` says which rows.

#pragma once

#include "quantize.h"

namespace rec {

// The rows of one bag. `last` is where the indices of the feature end: rows of later bags are asked for early.
template <typename I>
struct Bag {
    const uint8_t* table;
    int64_t row_bytes;
    const I* ids;
    int64_t count;
    const I* last;
    const float* factors;  // of the rows; null without
};

// Of eight-bit floats: where their exponent stands among a float's bits, and what brings it to the float's bias.
struct Float8 {
    int32_t shift;
    float multiplier;
};

inline Float8 float8_format(int64_t exponent_bits, int64_t exponent_bias) noexcept {
    return {int32_t(16 + exponent_bits), fb::bits<float>(uint32_t(254 - exponent_bias) << 23)};
}

// columns [from, from + columns) of the sum of a bag's rows, times `scale`; negative indices are rows that were pruned.
#define REC_POOLS(I)                                                                                                 \
    void pool_int8(const Bag<I>& bag, int64_t from, int64_t columns, float scale, float* output) noexcept;           \
    void pool_int4(const Bag<I>& bag, int64_t from, int64_t columns, float scale, float* output) noexcept;           \
    void pool_int2(const Bag<I>& bag, int64_t from, int64_t columns, float scale, float* output) noexcept;           \
    void pool_float(const Bag<I>& bag, int64_t from, int64_t columns, float scale, float* output) noexcept;          \
    void pool_half(const Bag<I>& bag, int64_t from, int64_t columns, float scale, float* output) noexcept;           \
    void pool_bfloat16(const Bag<I>& bag, int64_t from, int64_t columns, float scale, float* output) noexcept;       \
    void pool_float8(const Bag<I>& bag, Float8 format, int64_t from, int64_t columns, float scale,                   \
                     float* output) noexcept;
REC_POOLS(int32_t)
REC_POOLS(int64_t)
#undef REC_POOLS

// Rounds numbers to a storage format.
void store(const float* from, int64_t count, float* to) noexcept;
void store(const float* from, int64_t count, fb::Half* to) noexcept;
void store(const float* from, int64_t count, fb::BFloat16* to) noexcept;

}  // namespace rec
