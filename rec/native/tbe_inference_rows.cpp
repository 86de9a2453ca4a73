// Sums of rows, in blocks of columns that fit the registers. A row that will be needed is asked for while others are added:
// tables are larger than caches.
//
// Codes of two and four bits stay where they are in their bytes: numbers at the same place of all bytes are summed
// together, and only the sums are brought into order. A bag's biases are one number, added at its end.

#include "tbe_inference_rows.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define REC_X86 1
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

#ifdef REC_X86
// What compilers do not find by themselves: conversions of the processor, and sums that stay in registers.
#define REC_TARGET __attribute__((target("avx2,fma,f16c")))
#define REC_INLINE REC_TARGET inline __attribute__((always_inline))

inline bool has_vectors() noexcept { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

// Asks for `bytes` of a later row, from byte `first` on: each pass over a bag asks for what it will need itself, so that
// the memory is never idle.
template <int bytes, typename I>
REC_INLINE void ask_ahead(const Bag<I>& bag, int64_t at, int64_t first) noexcept {
    if (bag.last - (bag.ids + at) <= ahead) return;
    const uint8_t* row = bag.table + int64_t(bag.ids[at + ahead]) * bag.row_bytes + first;
    for (int byte = 0; byte < bytes; byte += 64) __builtin_prefetch(row + byte);
}

// Eight columns of a row.
REC_INLINE __m256i eight_bytes(const uint8_t* from) noexcept {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
}
struct EightFloats {
    static constexpr int bytes = 4;
    REC_INLINE __m256 operator()(const uint8_t* row, int64_t column) const noexcept {
        return _mm256_loadu_ps(reinterpret_cast<const float*>(row) + column);
    }
};
struct EightHalves {
    static constexpr int bytes = 2;
    REC_INLINE __m256 operator()(const uint8_t* row, int64_t column) const noexcept {
        return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row + 2 * column)));
    }
};
struct EightBFloat16s {
    static constexpr int bytes = 2;
    REC_INLINE __m256 operator()(const uint8_t* row, int64_t column) const noexcept {
        const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + 2 * column));
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
    }
};
struct EightFloat8s {
    static constexpr int bytes = 1;
    Float8 format;
    REC_INLINE __m256 operator()(const uint8_t* row, int64_t column) const noexcept {
        // Sign-extended, so that one shift brings sign and size to their places; between them are copies of the sign.
        const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(row + column));
        const __m256i moved = _mm256_sllv_epi32(_mm256_cvtepi8_epi32(bytes), _mm256_set1_epi32(format.shift));
        const __m256i kept = _mm256_set1_epi32(int32_t(0x80000000u | ((1u << (format.shift + 7)) - 1)));
        const __m256 number = _mm256_castsi256_ps(_mm256_and_si256(moved, kept));
        return _mm256_mul_ps(number, _mm256_set1_ps(format.multiplier));
    }
};

// The same by way of halves, which have one exponent bit more than formats of up to four: small numbers are no denormal
// floats on the way, which processors are slow with.
struct EightFloat8sAsHalves {
    static constexpr int bytes = 1;
    Float8 format;
    REC_INLINE __m256 operator()(const uint8_t* row, int64_t column) const noexcept {
        const int32_t shift = format.shift - 13;  // a half's significand is 13 bits shorter than a float's
        const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(row + column));
        const __m128i moved = _mm_sll_epi16(_mm_cvtepi8_epi16(bytes), _mm_cvtsi32_si128(shift));
        const __m128i kept = _mm_set1_epi16(int16_t(0x8000u | ((1u << (shift + 7)) - 1)));
        const __m256 number = _mm256_cvtph_ps(_mm_and_si128(moved, kept));
        return _mm256_mul_ps(number, _mm256_set1_ps(format.multiplier * 0x1p-112f));
    }
};

template <int vectors, bool weighted, typename Load, typename I>
REC_INLINE void sum_vectors(const Bag<I>& bag, const Load& load, int64_t from, float scale, float* output) noexcept {
    __m256 sums[vectors];
    for (int k = 0; k < vectors; ++k) sums[k] = _mm256_setzero_ps();
    for (int64_t i = 0; i < bag.count; ++i) {
        ask_ahead<8 * vectors * Load::bytes>(bag, i, from * Load::bytes);
        if (bag.ids[i] < 0) continue;
        const uint8_t* row = bag.table + int64_t(bag.ids[i]) * bag.row_bytes;
        if (weighted) {
            const __m256 factor = _mm256_set1_ps(bag.factors[i]);
            for (int k = 0; k < vectors; ++k) sums[k] = _mm256_fmadd_ps(load(row, from + 8 * k), factor, sums[k]);
        } else {
            for (int k = 0; k < vectors; ++k) sums[k] = _mm256_add_ps(sums[k], load(row, from + 8 * k));
        }
    }
    const __m256 factor = _mm256_set1_ps(scale);
    for (int k = 0; k < vectors; ++k) _mm256_storeu_ps(output + 8 * k, _mm256_mul_ps(sums[k], factor));
}

// Numbers at the same place of all bytes, brought into their order.
template <int parts>
REC_INLINE void store_in_order(const __m256* sums, float* output) noexcept;
template <>
REC_INLINE void store_in_order<1>(const __m256* sums, float* output) noexcept {
    _mm256_storeu_ps(output, sums[0]);
}
template <>
REC_INLINE void store_in_order<2>(const __m256* sums, float* output) noexcept {
    const __m256 low = _mm256_unpacklo_ps(sums[0], sums[1]), high = _mm256_unpackhi_ps(sums[0], sums[1]);
    _mm256_storeu_ps(output, _mm256_permute2f128_ps(low, high, 0x20));
    _mm256_storeu_ps(output + 8, _mm256_permute2f128_ps(low, high, 0x31));
}
template <>
REC_INLINE void store_in_order<4>(const __m256* sums, float* output) noexcept {
    const __m256d front_low = _mm256_castps_pd(_mm256_unpacklo_ps(sums[0], sums[1]));
    const __m256d front_high = _mm256_castps_pd(_mm256_unpackhi_ps(sums[0], sums[1]));
    const __m256d back_low = _mm256_castps_pd(_mm256_unpacklo_ps(sums[2], sums[3]));
    const __m256d back_high = _mm256_castps_pd(_mm256_unpackhi_ps(sums[2], sums[3]));
    const __m256 first = _mm256_castpd_ps(_mm256_unpacklo_pd(front_low, back_low));  // bytes 0 and 4
    const __m256 second = _mm256_castpd_ps(_mm256_unpackhi_pd(front_low, back_low));  // 1 and 5
    const __m256 third = _mm256_castpd_ps(_mm256_unpacklo_pd(front_high, back_high));  // 2 and 6
    const __m256 fourth = _mm256_castpd_ps(_mm256_unpackhi_pd(front_high, back_high));  // 3 and 7
    _mm256_storeu_ps(output, _mm256_permute2f128_ps(first, second, 0x20));
    _mm256_storeu_ps(output + 8, _mm256_permute2f128_ps(third, fourth, 0x20));
    _mm256_storeu_ps(output + 16, _mm256_permute2f128_ps(first, second, 0x31));
    _mm256_storeu_ps(output + 24, _mm256_permute2f128_ps(third, fourth, 0x31));
}

// `groups` of eight bytes, from column `from` on.
template <int bits, int groups, bool weighted, typename I>
REC_INLINE void sum_groups(const Bag<I>& bag, int64_t from, float scale, float* output) noexcept {
    constexpr int parts = 8 / bits;
    __m256 sums[groups * parts];
    for (int k = 0; k < groups * parts; ++k) sums[k] = _mm256_setzero_ps();
    float biases = 0;
    const __m256i mask = _mm256_set1_epi32((1 << bits) - 1);
    for (int64_t i = 0; i < bag.count; ++i) {
        ask_ahead<8 * groups + 4>(bag, i, from / parts);
        if (bag.ids[i] < 0) continue;
        const uint8_t* row = bag.table + int64_t(bag.ids[i]) * bag.row_bytes;
        const __m128 both = _mm_cvtph_ps(_mm_cvtsi32_si128(read<int32_t>(row)));
        float factor = _mm_cvtss_f32(both), bias = _mm_cvtss_f32(_mm_movehdup_ps(both));
        if (weighted) factor *= bag.factors[i], bias *= bag.factors[i];
        const __m256 factors = _mm256_set1_ps(factor);
        for (int group = 0; group < groups; ++group) {
            const __m256i bytes = eight_bytes(row + 4 + from / parts + 8 * group);
            for (int part = 0; part < parts; ++part) {
                __m256i codes = part ? _mm256_srli_epi32(bytes, part * bits) : bytes;
                if (part + 1 < parts) codes = _mm256_and_si256(codes, mask);
                __m256& sum = sums[group * parts + part];
                sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(codes), factors, sum);
            }
        }
        biases += bias;
    }
    const __m256 all_biases = _mm256_set1_ps(biases), scales = _mm256_set1_ps(scale);
    for (int k = 0; k < groups * parts; ++k) sums[k] = _mm256_mul_ps(_mm256_add_ps(sums[k], all_biases), scales);
    for (int group = 0; group < groups; ++group)
        store_in_order<parts>(sums + group * parts, output + 8 * parts * group);
}

// Both return how many columns they have done; the rest is for the portable code.
template <bool weighted, typename Load, typename I>
REC_INLINE int64_t pool_blocks(const Bag<I>& bag, const Load& load, int64_t from, int64_t columns, float scale,
                               float* output) noexcept {
    const int64_t end = from + columns;
    int64_t at = from;
    for (; at + 64 <= end; at += 64, output += 64) sum_vectors<8, weighted>(bag, load, at, scale, output);
    if (at + 32 <= end) sum_vectors<4, weighted>(bag, load, at, scale, output), at += 32, output += 32;
    if (at + 16 <= end) sum_vectors<2, weighted>(bag, load, at, scale, output), at += 16, output += 16;
    if (at + 8 <= end) sum_vectors<1, weighted>(bag, load, at, scale, output), at += 8, output += 8;
    if (at < end && columns >= 8) {
        sum_vectors<1, weighted>(bag, load, end - 8, scale, output - (8 - (end - at)));
        at = end;
    }
    return at - from;
}
template <typename Load, typename I>
REC_TARGET int64_t pool_vectors(const Bag<I>& bag, const Load& load, int64_t from, int64_t columns, float scale,
                                float* output) noexcept {
    return bag.factors ? pool_blocks<true>(bag, load, from, columns, scale, output)
                       : pool_blocks<false>(bag, load, from, columns, scale, output);
}

template <int bits, bool weighted, typename I>
REC_INLINE int64_t pool_bytes(const Bag<I>& bag, int64_t from, int64_t columns, float scale, float* output) noexcept {
    constexpr int parts = 8 / bits, unit = 8 * parts;
    const int64_t end = from + columns;
    int64_t at = from;
    for (; at + 64 <= end; at += 64, output += 64) sum_groups<bits, 8 / parts, weighted>(bag, at, scale, output);
    for (; at + unit <= end; at += unit, output += unit) sum_groups<bits, 1, weighted>(bag, at, scale, output);
    if (at < end && columns >= unit && end % parts == 0) {
        sum_groups<bits, 1, weighted>(bag, end - unit, scale, output - (unit - (end - at)));
        at = end;
    }
    return at - from;
}
template <int bits, typename I>
REC_TARGET int64_t pool_groups(const Bag<I>& bag, int64_t from, int64_t columns, float scale, float* output) noexcept {
    return bag.factors ? pool_bytes<bits, true>(bag, from, columns, scale, output)
                       : pool_bytes<bits, false>(bag, from, columns, scale, output);
}

REC_TARGET void store_halves(const float* from, int64_t count, fb::Half* to) noexcept {
    for (int64_t i = 0; i + 8 <= count; i += 8)
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
}

#define REC_WITH_VECTORS(call)                                                      \
    if (has_vectors()) {                                                            \
        const int64_t done = call;                                                  \
        from += done, columns -= done, output += done;                              \
        if (!columns) return;                                                       \
    }
#else
#define REC_WITH_VECTORS(call)
#endif

}  // namespace

// The portable code, one function for each format and type of indices: only plain functions are compiled for several
// instruction sets.
#define REC_PORTABLE(I)                                                                                              \
    FB_CLONES static void codes_8(const Bag<I>& bag, int64_t from, int64_t columns, float scale, float* out) noexcept { \
        pool_codes<8>(bag, from, columns, scale, out);                                                               \
    }                                                                                                                \
    FB_CLONES static void codes_4(const Bag<I>& bag, int64_t from, int64_t columns, float scale, float* out) noexcept { \
        pool_codes<4>(bag, from, columns, scale, out);                                                               \
    }                                                                                                                \
    FB_CLONES static void codes_2(const Bag<I>& bag, int64_t from, int64_t columns, float scale, float* out) noexcept { \
        pool_codes<2>(bag, from, columns, scale, out);                                                               \
    }                                                                                                                \
    FB_CLONES static void floats(const Bag<I>& bag, int64_t from, int64_t columns, float scale, float* out) noexcept { \
        pool_numbers(bag, AsFloat(), from, columns, scale, out);                                                     \
    }                                                                                                                \
    FB_CLONES static void halves(const Bag<I>& bag, int64_t from, int64_t columns, float scale, float* out) noexcept { \
        pool_numbers(bag, AsHalf(), from, columns, scale, out);                                                      \
    }                                                                                                                \
    FB_CLONES static void bfloat16s(const Bag<I>& bag, int64_t from, int64_t columns, float scale,                   \
                                    float* out) noexcept {                                                           \
        pool_numbers(bag, AsBFloat16(), from, columns, scale, out);                                                  \
    }                                                                                                                \
    FB_CLONES static void float8s(const Bag<I>& bag, Float8 format, int64_t from, int64_t columns, float scale,      \
                                  float* out) noexcept {                                                             \
        pool_numbers(bag, AsFloat8{format}, from, columns, scale, out);                                              \
    }
REC_PORTABLE(int32_t)
REC_PORTABLE(int64_t)
#undef REC_PORTABLE

#define REC_POOLS(I)                                                                                                 \
    void pool_int8(const Bag<I>& bag, int64_t from, int64_t columns, float scale, float* output) noexcept {          \
        REC_WITH_VECTORS(pool_groups<8>(bag, from, columns, scale, output))                                          \
        codes_8(bag, from, columns, scale, output);                                                                  \
    }                                                                                                                \
    void pool_int4(const Bag<I>& bag, int64_t from, int64_t columns, float scale, float* output) noexcept {          \
        REC_WITH_VECTORS(pool_groups<4>(bag, from, columns, scale, output))                                          \
        codes_4(bag, from, columns, scale, output);                                                                  \
    }                                                                                                                \
    void pool_int2(const Bag<I>& bag, int64_t from, int64_t columns, float scale, float* output) noexcept {          \
        REC_WITH_VECTORS(pool_groups<2>(bag, from, columns, scale, output))                                          \
        codes_2(bag, from, columns, scale, output);                                                                  \
    }                                                                                                                \
    void pool_float(const Bag<I>& bag, int64_t from, int64_t columns, float scale, float* output) noexcept {         \
        REC_WITH_VECTORS(pool_vectors(bag, EightFloats(), from, columns, scale, output))                             \
        floats(bag, from, columns, scale, output);                                                                   \
    }                                                                                                                \
    void pool_half(const Bag<I>& bag, int64_t from, int64_t columns, float scale, float* output) noexcept {          \
        REC_WITH_VECTORS(pool_vectors(bag, EightHalves(), from, columns, scale, output))                             \
        halves(bag, from, columns, scale, output);                                                                   \
    }                                                                                                                \
    void pool_bfloat16(const Bag<I>& bag, int64_t from, int64_t columns, float scale, float* output) noexcept {      \
        REC_WITH_VECTORS(pool_vectors(bag, EightBFloat16s(), from, columns, scale, output))                          \
        bfloat16s(bag, from, columns, scale, output);                                                                \
    }                                                                                                                \
    void pool_float8(const Bag<I>& bag, Float8 format, int64_t from, int64_t columns, float scale,                   \
                     float* output) noexcept {                                                                       \
        REC_WITH_VECTORS(format.shift <= 20                                                                          \
                             ? pool_vectors(bag, EightFloat8sAsHalves{format}, from, columns, scale, output)         \
                             : pool_vectors(bag, EightFloat8s{format}, from, columns, scale, output))                \
        float8s(bag, format, from, columns, scale, output);                                                          \
    }
REC_POOLS(int32_t)
REC_POOLS(int64_t)
#undef REC_POOLS

void store(const float* from, int64_t count, float* to) noexcept { memcpy(to, from, size_t(count) * sizeof(float)); }
FB_CLONES void store(const float* from, int64_t count, fb::BFloat16* to) noexcept {
    for (int64_t i = 0; i < count; ++i) to[i] = given_as<fb::BFloat16>(from[i]);
}
void store(const float* from, int64_t count, fb::Half* to) noexcept {
    int64_t at = 0;
#ifdef REC_X86
    if (has_vectors()) store_halves(from, count, to), at = count / 8 * 8;
#endif
    for (; at < count; ++at) to[at] = fb::narrow<fb::Half>(from[at]);
}

}  // namespace rec
