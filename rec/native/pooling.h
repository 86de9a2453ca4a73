// What is done with single rows of tables; every kernel that looks rows up shares it.

#pragma once

#include <flambeau/kernel.h>
#include <flambeau/numbers.h>

namespace rec {

// Rows that may be kept in a cache: row i there at slots[i], unless that is -1.
template <typename W>
struct Cached {
    const W* rows;
    int64_t width;
    const int32_t* slots;
};

// The sum of the rows of one bag, times `scale`; `factors` weigh them where given. `last` is where the indices of the
// feature end: rows of later bags are asked for early. Defined in tbe_forward.cpp.
#define REC_POOL(W, I)                                                                                               \
    void pool(const W* table, int64_t dim, const I* ids, int64_t count, const I* last, const float* factors,         \
              float scale, float* output) noexcept;                                                                  \
    void pool_cached(const W* table, const Cached<W>& cache, int64_t dim, const I* ids, int64_t count,               \
                     const I* last, const float* factors, float scale, float* output) noexcept;
REC_POOL(float, int32_t)
REC_POOL(float, int64_t)
REC_POOL(fb::Half, int32_t)
REC_POOL(fb::Half, int64_t)
REC_POOL(fb::BFloat16, int32_t)
REC_POOL(fb::BFloat16, int64_t)
#undef REC_POOL

// Whether all indices are at least 0 and below `rows`.
template <typename I>
bool inside(const I* ids, int64_t count, int64_t rows) noexcept {
    using Unsigned = typename std::conditional<sizeof(I) == 4, uint32_t, uint64_t>::type;
    Unsigned worst = 0;  // negative ones are the largest
    for (int64_t i = 0; i < count; ++i) worst = Unsigned(ids[i]) > worst ? Unsigned(ids[i]) : worst;
    return !count || worst < Unsigned(rows);
}

// sum += factor * part. Defined in tbe_backward.cpp.
void add_scaled(float* sum, const float* part, float factor, int64_t dim) noexcept;

// Defined in tbe_weights.cpp.
float dot(const float* a, const float* b, int64_t dim) noexcept;
float dot(const fb::Half* a, const float* b, int64_t dim) noexcept;
float dot(const fb::BFloat16* a, const float* b, int64_t dim) noexcept;

}  // namespace rec
