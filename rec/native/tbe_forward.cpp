// Table-batched embeddings: rows of many tables looked up, and summed or averaged over each bag, in one pass.
//
// A bag is summed in blocks of columns that fit the registers, its rows in the order of its indices, so that the result
// does not depend on threads. Rows that are needed soon are asked for early: look-ups wait for memory, not for additions.

#include "pooling.h"
#include "tbe.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define REC_X86 1
#endif

namespace rec {
namespace {

constexpr int64_t ahead = 12;  // look-ups between asking for a row and reading it

template <typename W>
FB_INLINE void ask_for(const W* row, int64_t dim) noexcept {
#if defined(__GNUC__)
    const char* bytes = reinterpret_cast<const char*>(row);
    for (int64_t at = 0; at < dim * int64_t(sizeof(W)); at += 64) __builtin_prefetch(bytes + at);
#else
    (void)row, (void)dim;
#endif
}

// Where the row of the index i of a bag is: in its table, or in a cache.
template <typename W, typename I>
struct InTable {
    const W* table;
    int64_t dim;
    const I* ids;
    FB_INLINE const W* row(int64_t i) const noexcept { return table + ids[i] * dim; }
};
template <typename W, typename I>
struct InEither {
    InTable<W, I> rest;
    Cached<W> cache;
    FB_INLINE const W* row(int64_t i) const noexcept {
        return cache.slots[i] < 0 ? rest.row(i) : cache.rows + cache.slots[i] * cache.width;
    }
};

// Columns [from, from + width) of a bag of `count` rows; `rest` are those of all later bags of the feature as well.
template <int width, typename Rows>
FB_INLINE void pool_columns(const Rows& rows, int64_t dim, int64_t from, int64_t count, int64_t rest,
                            const float* factors, float scale, float* output) noexcept {
    float sum[width] = {};
    for (int64_t i = 0; i < count; ++i) {
        if (from == 0 && rest - i > ahead) ask_for(rows.row(i + ahead), dim);
        const auto* row = rows.row(i) + from;
        if (factors) {
            const float factor = factors[i];
            for (int k = 0; k < width; ++k) sum[k] += factor * fb::widen(row[k]);
        } else {
            for (int k = 0; k < width; ++k) sum[k] += fb::widen(row[k]);
        }
    }
    for (int k = 0; k < width; ++k) output[from + k] = sum[k] * scale;
}

template <typename Rows>
FB_INLINE void pool_bag(const Rows& rows, int64_t dim, int64_t count, int64_t rest, const float* factors, float scale,
                        float* output) noexcept {
    int64_t from = 0;
    for (; from + 64 <= dim; from += 64) pool_columns<64>(rows, dim, from, count, rest, factors, scale, output);
    if (from + 32 <= dim) pool_columns<32>(rows, dim, from, count, rest, factors, scale, output), from += 32;
    if (from + 16 <= dim) pool_columns<16>(rows, dim, from, count, rest, factors, scale, output), from += 16;
    if (from + 8 <= dim) pool_columns<8>(rows, dim, from, count, rest, factors, scale, output), from += 8;
    if (from + 4 <= dim) pool_columns<4>(rows, dim, from, count, rest, factors, scale, output), from += 4;
    for (; from < dim; ++from) pool_columns<1>(rows, dim, from, count, rest, factors, scale, output);
}

#ifdef REC_X86
// Compilers leave a block's sums in memory; here they stay in registers.
#define REC_TARGET __attribute__((target("avx2,f16c")))
#define REC_INLINE REC_TARGET inline __attribute__((always_inline))

inline bool has_vectors() noexcept { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c"); }

REC_INLINE __m256 eight(const float* from) noexcept { return _mm256_loadu_ps(from); }
REC_INLINE __m256 eight(const fb::Half* from) noexcept {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
REC_INLINE __m256 eight(const fb::BFloat16* from) noexcept {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}

// As `pool_columns`, but each block asks for its own columns of later rows, so that memory is never idle.
template <int vectors, typename Rows>
REC_INLINE void pool_vectors(const Rows& rows, int64_t from, int64_t count, int64_t rest, const float* factors,
                             float scale, float* output) noexcept {
    __m256 sums[vectors];
    for (int k = 0; k < vectors; ++k) sums[k] = _mm256_setzero_ps();
    for (int64_t i = 0; i < count; ++i) {
        if (rest - i > ahead) ask_for(rows.row(i + ahead) + from, 8 * vectors);
        const auto* row = rows.row(i) + from;
        if (factors) {
            const __m256 factor = _mm256_set1_ps(factors[i]);
            for (int k = 0; k < vectors; ++k)
                sums[k] = _mm256_add_ps(sums[k], _mm256_mul_ps(factor, eight(row + 8 * k)));
        } else {
            for (int k = 0; k < vectors; ++k) sums[k] = _mm256_add_ps(sums[k], eight(row + 8 * k));
        }
    }
    const __m256 scales = _mm256_set1_ps(scale);
    for (int k = 0; k < vectors; ++k) _mm256_storeu_ps(output + from + 8 * k, _mm256_mul_ps(sums[k], scales));
}

template <typename Rows>
REC_TARGET void pool_bag_by_vectors(const Rows& rows, int64_t dim, int64_t count, int64_t rest, const float* factors,
                                    float scale, float* output) noexcept {
    int64_t from = 0;
    for (; from + 64 <= dim; from += 64) pool_vectors<8>(rows, from, count, rest, factors, scale, output);
    if (from + 32 <= dim) pool_vectors<4>(rows, from, count, rest, factors, scale, output), from += 32;
    if (from + 16 <= dim) pool_vectors<2>(rows, from, count, rest, factors, scale, output), from += 16;
    if (from + 8 <= dim) pool_vectors<1>(rows, from, count, rest, factors, scale, output), from += 8;
    if (from + 4 <= dim) pool_columns<4>(rows, dim, from, count, rest, factors, scale, output), from += 4;
    for (; from < dim; ++from) pool_columns<1>(rows, dim, from, count, rest, factors, scale, output);
}
#endif

}  // namespace

// One function for each pair of types: only plain functions are compiled for several instruction sets.
#define REC_POOL_PLAIN(W, I)                                                                                      \
    FB_CLONES static void pool_plain(const InTable<W, I>& rows, int64_t dim, int64_t count, int64_t rest,          \
                                     const float* factors, float scale, float* output) noexcept {                 \
        pool_bag(rows, dim, count, rest, factors, scale, output);                                                  \
    }                                                                                                              \
    FB_CLONES static void pool_plain(const InEither<W, I>& rows, int64_t dim, int64_t count, int64_t rest,         \
                                     const float* factors, float scale, float* output) noexcept {                 \
        pool_bag(rows, dim, count, rest, factors, scale, output);                                                  \
    }
REC_POOL_PLAIN(float, int32_t)
REC_POOL_PLAIN(float, int64_t)
REC_POOL_PLAIN(fb::Half, int32_t)
REC_POOL_PLAIN(fb::Half, int64_t)
REC_POOL_PLAIN(fb::BFloat16, int32_t)
REC_POOL_PLAIN(fb::BFloat16, int64_t)
#undef REC_POOL_PLAIN

namespace {

template <typename Rows>
FB_INLINE void pool_rows(const Rows& rows, int64_t dim, int64_t count, int64_t rest, const float* factors, float scale,
                         float* output) noexcept {
#ifdef REC_X86
    if (has_vectors()) return pool_bag_by_vectors(rows, dim, count, rest, factors, scale, output);
#endif
    pool_plain(rows, dim, count, rest, factors, scale, output);
}

}  // namespace

#define REC_POOL(W, I)                                                                                             \
    void pool(const W* table, int64_t dim, const I* ids, int64_t count, const I* last, const float* factors,       \
              float scale, float* output) noexcept {                                                               \
        pool_rows(InTable<W, I>{table, dim, ids}, dim, count, last - ids, factors, scale, output);                 \
    }                                                                                                              \
    void pool_cached(const W* table, const Cached<W>& cache, int64_t dim, const I* ids, int64_t count,             \
                     const I* last, const float* factors, float scale, float* output) noexcept {                   \
        pool_rows(InEither<W, I>{{table, dim, ids}, cache}, dim, count, last - ids, factors, scale, output);       \
    }
REC_POOL(float, int32_t)
REC_POOL(float, int64_t)
REC_POOL(fb::Half, int32_t)
REC_POOL(fb::Half, int64_t)
REC_POOL(fb::BFloat16, int32_t)
REC_POOL(fb::BFloat16, int64_t)
#undef REC_POOL

namespace {

template <typename W, typename I>
void forward(const Batch& batch, float* output) noexcept {
    const I* ids = static_cast<const I*>(batch.indices);
    const W* weights = static_cast<const W*>(batch.weights);
    const int64_t bags = batch.bags();
    int64_t widest = 1;
    for (int64_t f = 0; f < batch.features; ++f) widest = batch.dims[f] > widest ? batch.dims[f] : widest;
    const int64_t work = (batch.total + bags) * widest;
    const int64_t grain = fb::serial_below * bags / (work + 1) + 1;
    const int32_t threads = work < fb::serial_below ? 1 : batch.threads;
    fb::parallel_for(0, bags, grain, threads, [&](int64_t begin, int64_t end) noexcept {
        int64_t f = batch.feature_of(begin);
        for (int64_t bag = begin; bag < end; ++bag) {
            while (batch.bag_starts[f + 1] <= bag) ++f;
            const W* table = weights + batch.weights_offsets[f];
            const int64_t dim = batch.dims[f], first = batch.offsets[bag], count = batch.offsets[bag + 1] - first;
            const I* last = ids + batch.offsets[batch.bag_starts[f + 1]];
            const float* factors = batch.bag_weights ? batch.bag_weights + first : nullptr;
            const auto pool_some = [&](int64_t at, int64_t some, const float* by, float scale, float* to) noexcept {
                if (!batch.slots) return pool(table, dim, ids + at, some, last, by, scale, to);
                const Cached<W> cache = {static_cast<const W*>(batch.cache), batch.cache_width, batch.slots + at};
                pool_cached(table, cache, dim, ids + at, some, last, by, scale, to);
            };
            if (batch.pooling == Pooling::None) {
                for (int64_t i = first; i < first + count; ++i)
                    pool_some(i, 1, nullptr, 1.0f, output + i * batch.row_width);
                continue;
            }
            const float scale = batch.pooling == Pooling::Mean && count ? 1.0f / float(count) : 1.0f;
            pool_some(first, count, factors, scale, output + batch.place(f, bag));
        }
    });
}

}  // namespace

// Looks for an index outside of its table; 1 with the first one in `stray` where there is one. Nothing is read by an
// index that was not looked at here.
FB_EXPORT int32_t fb_tbe_check(const Batch* batch, Stray* stray) noexcept {
    stray->place = -1;
    for (int64_t f = 0; f < batch->features; ++f) {
        const int64_t begin = batch->offsets[batch->bag_starts[f]], end = batch->offsets[batch->bag_starts[f + 1]];
        const bool good = batch->wide_indices
                              ? inside(static_cast<const int64_t*>(batch->indices) + begin, end - begin, batch->rows[f])
                              : inside(static_cast<const int32_t*>(batch->indices) + begin, end - begin, batch->rows[f]);
        if (good) continue;
        for (int64_t at = begin; at < end; ++at) {
            const int64_t index = batch->index(at);
            if (index >= 0 && index < batch->rows[f]) continue;
            *stray = {at, f, index};
            return 1;
        }
    }
    return 0;
}

// Whether offsets rise from 0 to the number of indices, and every index is a row of its feature's table.
FB_EXPORT int32_t fb_tbe_fits(const Batch* batch) noexcept {
    const int64_t bags = batch->bags();
    const int64_t* offsets = batch->offsets;
    bool rises = offsets[0] == 0 && offsets[bags] == batch->total;
    for (int64_t bag = 0; bag < bags; ++bag) rises &= offsets[bag] <= offsets[bag + 1];
    Stray stray;
    return rises && !fb_tbe_check(batch, &stray);
}

// `output` holds float32; every place that belongs to a bag is written.
FB_EXPORT void fb_tbe_forward(const Batch* batch, float* output) noexcept {
    const bool wide = batch->wide_indices != 0;
    switch (batch->format) {
        case Format::Float32:
            return wide ? forward<float, int64_t>(*batch, output) : forward<float, int32_t>(*batch, output);
        case Format::Float16:
            return wide ? forward<fb::Half, int64_t>(*batch, output) : forward<fb::Half, int32_t>(*batch, output);
        case Format::BFloat16:
            return wide ? forward<fb::BFloat16, int64_t>(*batch, output)
                        : forward<fb::BFloat16, int32_t>(*batch, output);
    }
}

}  // namespace rec
