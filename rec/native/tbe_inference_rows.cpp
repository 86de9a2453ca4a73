// Sums of rows, in blocks of columns that fit the registers. A row that will be needed is asked for while others are added:
// tables are larger than caches.
//
// Codes of two and four bits stay where they are in their bytes: numbers at the same place of all bytes are summed
// together, and only the sums are brought into order. A bag's biases are one number, added at its end.

#include "tbe_inference_rows.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define REC_F16C 1
#endif

namespace rec {
namespace {

constexpr int64_t ahead = 12;  // look-ups between asking for a row and reading it

template <typename I>
FB_INLINE void ask_for_later_row(const Bag<I>& bag, int64_t at) noexcept {
#if defined(__GNUC__)
    if (bag.last - (bag.ids + at) <= ahead) return;
    const uint8_t* row = bag.table + int64_t(bag.ids[at + ahead]) * bag.row_bytes;
    for (int64_t byte = 0; byte < bag.row_bytes; byte += 64) __builtin_prefetch(row + byte);
    __builtin_prefetch(row + bag.row_bytes - 1);  // rows begin anywhere in a cache line
#else
    (void)bag, (void)at;
#endif
}

// Columns [from, from + width): all of them begin at a whole byte.
template <int bits, int width, typename I>
FB_INLINE void sum_codes(const Bag<I>& bag, int64_t from, float scale, float* output) noexcept {
    constexpr int parts = 8 / bits, lanes = width / parts, mask = (1 << bits) - 1;
    float sums[parts][lanes] = {};
    float biases = 0;
    for (int64_t i = 0; i < bag.count; ++i) {
        if (from == 0) ask_for_later_row(bag, i);
        if (bag.ids[i] < 0) continue;
        const uint8_t* row = bag.table + int64_t(bag.ids[i]) * bag.row_bytes;
        float factor = fb::widen(read<fb::Half>(row)), bias = fb::widen(read<fb::Half>(row + 2));
        if (bag.factors) factor *= bag.factors[i], bias *= bag.factors[i];
        const uint8_t* bytes = row + 4 + from / parts;
        for (int part = 0; part < parts; ++part)
            for (int k = 0; k < lanes; ++k)
                sums[part][k] =
                    __builtin_fmaf(float((int32_t(bytes[k]) >> (part * bits)) & mask), factor, sums[part][k]);
        biases += bias;
    }
    for (int k = 0; k < lanes; ++k)
        for (int part = 0; part < parts; ++part) output[k * parts + part] = (sums[part][k] + biases) * scale;
}

template <int bits, typename I>
FB_INLINE void sum_code(const Bag<I>& bag, int64_t column, float scale, float* output) noexcept {
    constexpr int parts = 8 / bits, mask = (1 << bits) - 1;
    float sum = 0, biases = 0;
    for (int64_t i = 0; i < bag.count; ++i) {
        if (column == 0) ask_for_later_row(bag, i);
        if (bag.ids[i] < 0) continue;
        const uint8_t* row = bag.table + int64_t(bag.ids[i]) * bag.row_bytes;
        float factor = fb::widen(read<fb::Half>(row)), bias = fb::widen(read<fb::Half>(row + 2));
        if (bag.factors) factor *= bag.factors[i], bias *= bag.factors[i];
        sum = __builtin_fmaf(float((row[4 + column / parts] >> (column % parts * bits)) & mask), factor, sum);
        biases += bias;
    }
    *output = (sum + biases) * scale;
}

// What a row's column holds.
struct AsFloat {
    FB_INLINE float operator()(const uint8_t* row, int64_t column) const noexcept { return read<float>(row + 4 * column); }
};
struct AsHalf {
    FB_INLINE float operator()(const uint8_t* row, int64_t column) const noexcept {
        return fb::widen(read<fb::Half>(row + 2 * column));
    }
};
struct AsBFloat16 {
    FB_INLINE float operator()(const uint8_t* row, int64_t column) const noexcept {
        return fb::widen(read<fb::BFloat16>(row + 2 * column));
    }
};
struct AsFloat8 {
    Float8 format;
    FB_INLINE float operator()(const uint8_t* row, int64_t column) const noexcept {
        const uint32_t byte = row[column];
        const float size = fb::bits<float>((byte & 0x7f) << format.shift) * format.multiplier;
        return fb::bits<float>(fb::bits<uint32_t>(size) | (byte & 0x80) << 24);
    }
};

template <int width, typename Format, typename I>
FB_INLINE void sum_numbers(const Bag<I>& bag, const Format& format, int64_t from, float scale, float* output) noexcept {
    float sums[width] = {};
    for (int64_t i = 0; i < bag.count; ++i) {
        if (from == 0) ask_for_later_row(bag, i);
        if (bag.ids[i] < 0) continue;
        const uint8_t* row = bag.table + int64_t(bag.ids[i]) * bag.row_bytes;
        if (bag.factors) {
            const float factor = bag.factors[i];
            for (int k = 0; k < width; ++k) sums[k] = __builtin_fmaf(format(row, from + k), factor, sums[k]);
        } else {
            for (int k = 0; k < width; ++k) sums[k] += format(row, from + k);
        }
    }
    for (int k = 0; k < width; ++k) output[k] = sums[k] * scale;
}

// Cuts columns into blocks. Those that are left over are done with some of their neighbours once more, where a block may
// begin there: the same numbers are written twice.
#define REC_BLOCKS(unit, BLOCK, SINGLE)                                                    \
    const int64_t end = from + columns;                                                    \
    int64_t at = from;                                                                     \
    float* out = output;                                                                   \
    for (; at + 64 <= end; at += 64, out += 64) BLOCK(64);                                 \
    if (at + 32 <= end) BLOCK(32), at += 32, out += 32;                                    \
    if (at + 16 <= end) BLOCK(16), at += 16, out += 16;                                    \
    if (at + 8 <= end) BLOCK(8), at += 8, out += 8;                                        \
    if (at < end && columns >= 8 && (end - 8) % (unit) == 0) {                             \
        out -= 8 - (end - at), at = end - 8;                                               \
        BLOCK(8);                                                                          \
        at = end;                                                                          \
    }                                                                                      \
    for (; at < end; ++at, ++out) SINGLE

template <int bits, typename I>
FB_INLINE void pool_codes(const Bag<I>& bag, int64_t from, int64_t columns, float scale, float* output) noexcept {
#define REC_BLOCK(width) sum_codes<bits, width>(bag, at, scale, out)
    REC_BLOCKS(8 / bits, REC_BLOCK, (sum_code<bits>(bag, at, scale, out)));
#undef REC_BLOCK
}

template <typename Format, typename I>
FB_INLINE void pool_numbers(const Bag<I>& bag, const Format& format, int64_t from, int64_t columns, float scale,
                            float* output) noexcept {
#define REC_BLOCK(width) sum_numbers<width>(bag, format, at, scale, out)
    REC_BLOCKS(1, REC_BLOCK, (sum_numbers<1>(bag, format, at, scale, out)));
#undef REC_BLOCK
}

#ifdef REC_F16C
#define REC_TARGET __attribute__((target("avx2,fma,f16c")))

// The processor's own conversions of half precision, which compilers do not find by themselves.
inline bool has_f16c() noexcept { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

template <int vectors, typename I>
REC_TARGET inline void sum_halves(const Bag<I>& bag, int64_t from, float scale, float* output) noexcept {
    __m256 sums[vectors];
    for (int k = 0; k < vectors; ++k) sums[k] = _mm256_setzero_ps();
    for (int64_t i = 0; i < bag.count; ++i) {
        if (from == 0 && bag.last - (bag.ids + i) > ahead) {
            const uint8_t* later = bag.table + int64_t(bag.ids[i + ahead]) * bag.row_bytes;
            for (int64_t byte = 0; byte < bag.row_bytes; byte += 64) __builtin_prefetch(later + byte);
            __builtin_prefetch(later + bag.row_bytes - 1);
        }
        if (bag.ids[i] < 0) continue;
        const __m128i* row = reinterpret_cast<const __m128i*>(bag.table + int64_t(bag.ids[i]) * bag.row_bytes + 2 * from);
        if (bag.factors) {
            const __m256 factor = _mm256_set1_ps(bag.factors[i]);
            for (int k = 0; k < vectors; ++k)
                sums[k] = _mm256_fmadd_ps(_mm256_cvtph_ps(_mm_loadu_si128(row + k)), factor, sums[k]);
        } else {
            for (int k = 0; k < vectors; ++k)
                sums[k] = _mm256_add_ps(sums[k], _mm256_cvtph_ps(_mm_loadu_si128(row + k)));
        }
    }
    const __m256 factor = _mm256_set1_ps(scale);
    for (int k = 0; k < vectors; ++k) _mm256_storeu_ps(output + 8 * k, _mm256_mul_ps(sums[k], factor));
}

// `columns` is a multiple of 8.
template <typename I>
REC_TARGET void pool_halves(const Bag<I>& bag, int64_t from, int64_t columns, float scale, float* output) noexcept {
    const int64_t end = from + columns;
    for (; from + 64 <= end; from += 64, output += 64) sum_halves<8>(bag, from, scale, output);
    if (from + 32 <= end) sum_halves<4>(bag, from, scale, output), from += 32, output += 32;
    if (from + 16 <= end) sum_halves<2>(bag, from, scale, output), from += 16, output += 16;
    if (from + 8 <= end) sum_halves<1>(bag, from, scale, output);
}

REC_TARGET void store_halves(const float* from, int64_t count, fb::Half* to) noexcept {
    for (int64_t i = 0; i + 8 <= count; i += 8)
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
}
#endif

}  // namespace

// One function for each format and type of indices: only plain functions are compiled for several instruction sets.
#define REC_POOLS(I)                                                                                                 \
    FB_CLONES void pool_int8(const Bag<I>& bag, int64_t from, int64_t columns, float scale, float* output) noexcept { \
        pool_codes<8>(bag, from, columns, scale, output);                                                            \
    }                                                                                                                \
    FB_CLONES void pool_int4(const Bag<I>& bag, int64_t from, int64_t columns, float scale, float* output) noexcept { \
        pool_codes<4>(bag, from, columns, scale, output);                                                            \
    }                                                                                                                \
    FB_CLONES void pool_int2(const Bag<I>& bag, int64_t from, int64_t columns, float scale, float* output) noexcept { \
        pool_codes<2>(bag, from, columns, scale, output);                                                            \
    }                                                                                                                \
    FB_CLONES void pool_float(const Bag<I>& bag, int64_t from, int64_t columns, float scale, float* output) noexcept { \
        pool_numbers(bag, AsFloat(), from, columns, scale, output);                                                  \
    }                                                                                                                \
    FB_CLONES static void pool_half_anywhere(const Bag<I>& bag, int64_t from, int64_t columns, float scale,          \
                                             float* output) noexcept {                                               \
        pool_numbers(bag, AsHalf(), from, columns, scale, output);                                                   \
    }                                                                                                                \
    FB_CLONES void pool_bfloat16(const Bag<I>& bag, int64_t from, int64_t columns, float scale,                      \
                                 float* output) noexcept {                                                           \
        pool_numbers(bag, AsBFloat16(), from, columns, scale, output);                                               \
    }                                                                                                                \
    FB_CLONES void pool_float8(const Bag<I>& bag, Float8 format, int64_t from, int64_t columns, float scale,         \
                               float* output) noexcept {                                                             \
        pool_numbers(bag, AsFloat8{format}, from, columns, scale, output);                                           \
    }
REC_POOLS(int32_t)
REC_POOLS(int64_t)
#undef REC_POOLS

template <typename I>
static void pool_halves_somehow(const Bag<I>& bag, int64_t from, int64_t columns, float scale, float* output) noexcept {
#ifdef REC_F16C
    if (has_f16c() && columns >= 8) {
        const int64_t whole = columns / 8 * 8;
        pool_halves(bag, from, whole, scale, output);
        if (whole < columns) pool_halves(bag, from + columns - 8, 8, scale, output + columns - 8);
        return;
    }
#endif
    pool_half_anywhere(bag, from, columns, scale, output);
}
void pool_half(const Bag<int32_t>& bag, int64_t from, int64_t columns, float scale, float* output) noexcept {
    pool_halves_somehow(bag, from, columns, scale, output);
}
void pool_half(const Bag<int64_t>& bag, int64_t from, int64_t columns, float scale, float* output) noexcept {
    pool_halves_somehow(bag, from, columns, scale, output);
}

void store(const float* from, int64_t count, float* to) noexcept { memcpy(to, from, size_t(count) * sizeof(float)); }
FB_CLONES void store(const float* from, int64_t count, fb::BFloat16* to) noexcept {
    for (int64_t i = 0; i < count; ++i) to[i] = given_as<fb::BFloat16>(from[i]);
}
void store(const float* from, int64_t count, fb::Half* to) noexcept {
    int64_t at = 0;
#ifdef REC_F16C
    if (has_f16c()) store_halves(from, count, to), at = count / 8 * 8;
#endif
    for (; at < count; ++at) to[at] = fb::narrow<fb::Half>(from[at]);
}

}  // namespace rec
