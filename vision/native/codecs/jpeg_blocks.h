// The inverse transform of two blocks at once, one in each half of the registers (AVX2).
//
// The accurate integer method that libjpeg calls ISLOW: Loeffler, Ligtenberg and Moschytz 1989, "Practical fast 1-D DCT
// algorithms with 11 multiplications", in fixed point of 13 bits; columns first, with 2 bits kept between the passes.
// Every rounding is where libjpeg has it, so that the samples are the same.

#pragma once

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

namespace fb::codecs {
namespace {

#define FB_AVX2 inline __attribute__((always_inline))

// Pairs of factors for the products of two inputs that are summed.
FB_AVX2 __m256i factors(int first, int second) noexcept {
    return _mm256_set1_epi32(int(uint32_t(uint16_t(first)) | uint32_t(uint16_t(second)) << 16));
}

// The constants of the method times 2^13: cosines and their sums.
enum : int {
    c0_298 = 2446, c0_390 = 3196, c0_541 = 4433, c0_765 = 6270, c0_899 = 7373, c1_175 = 9633, c1_501 = 12299,
    c1_847 = 15137, c1_961 = 16069, c2_053 = 16819, c2_562 = 20995, c3_072 = 25172,
};

// Values of 32 bits in the order of two registers of 16-bit values.
struct Wide {
    __m256i low, high;
};

FB_AVX2 Wide plus(Wide a, Wide b) noexcept { return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)}; }
FB_AVX2 Wide minus(Wide a, Wide b) noexcept {
    return {_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)};
}
FB_AVX2 Wide pairs(__m256i a, __m256i b) noexcept { return {_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)}; }
FB_AVX2 Wide products(Wide pair, __m256i factor) noexcept {
    return {_mm256_madd_epi16(pair.low, factor), _mm256_madd_epi16(pair.high, factor)};
}
// Times 2^13, plus what rounds the result of the pass.
FB_AVX2 Wide scaled(__m256i a, __m256i rounding) noexcept {
    const Wide wide = pairs(_mm256_setzero_si256(), a);
    return {_mm256_add_epi32(_mm256_srai_epi32(wide.low, 3), rounding),
            _mm256_add_epi32(_mm256_srai_epi32(wide.high, 3), rounding)};
}
template <int shift>
FB_AVX2 __m256i narrowed(Wide a) noexcept {
    return _mm256_packs_epi32(_mm256_srai_epi32(a.low, shift), _mm256_srai_epi32(a.high, shift));
}

// One dimension, over the eight registers.
template <int shift>
FB_AVX2 void pass(__m256i (&v)[8]) noexcept {
    const __m256i rounding = _mm256_set1_epi32(1 << (shift - 1));
    const Wide sum = scaled(_mm256_add_epi16(v[0], v[4]), rounding);
    const Wide difference = scaled(_mm256_sub_epi16(v[0], v[4]), rounding);
    const Wide v26 = pairs(v[2], v[6]);
    const Wide even3 = products(v26, factors(c0_541 + c0_765, c0_541));
    const Wide even2 = products(v26, factors(c0_541, c0_541 - c1_847));
    const Wide even[] = {plus(sum, even3), plus(difference, even2), minus(difference, even2), minus(sum, even3)};

    const Wide z = pairs(_mm256_add_epi16(v[7], v[3]), _mm256_add_epi16(v[5], v[1]));
    const Wide z3 = products(z, factors(c1_175 - c1_961, c1_175));
    const Wide z4 = products(z, factors(c1_175, c1_175 - c0_390));
    const Wide v71 = pairs(v[7], v[1]), v53 = pairs(v[5], v[3]);
    const Wide odd[] = {
        plus(products(v71, factors(-c0_899, c1_501 - c0_899)), z4),
        plus(products(v53, factors(-c2_562, c3_072 - c2_562)), z3),
        plus(products(v53, factors(c2_053 - c2_562, -c2_562)), z4),
        plus(products(v71, factors(c0_298 - c0_899, -c0_899)), z3),
    };
    for (int i = 0; i < 4; ++i) {
        v[i] = narrowed<shift>(plus(even[i], odd[i]));
        v[7 - i] = narrowed<shift>(minus(even[i], odd[i]));
    }
}

FB_AVX2 void transpose(__m256i (&v)[8]) noexcept {
    __m256i a[8], b[8];
    for (int i = 0; i < 4; ++i) {
        a[2 * i] = _mm256_unpacklo_epi16(v[2 * i], v[2 * i + 1]);
        a[2 * i + 1] = _mm256_unpackhi_epi16(v[2 * i], v[2 * i + 1]);
    }
    for (int half = 0; half < 2; ++half) {
        for (int i = 0; i < 2; ++i) {
            b[4 * half + 2 * i] = _mm256_unpacklo_epi32(a[4 * half + i], a[4 * half + 2 + i]);
            b[4 * half + 2 * i + 1] = _mm256_unpackhi_epi32(a[4 * half + i], a[4 * half + 2 + i]);
        }
    }
    for (int i = 0; i < 4; ++i) {
        v[2 * i] = _mm256_unpacklo_epi64(b[i], b[4 + i]);
        v[2 * i + 1] = _mm256_unpackhi_epi64(b[i], b[4 + i]);
    }
}

// Eight columns of samples around zero become eight rows of bytes, each 16 bytes of two blocks.
FB_AVX2 void store_rows(const __m256i (&v)[8], uint8_t* samples, int64_t stride) noexcept {
    const __m256i columns04 = _mm256_packs_epi16(v[0], v[4]), columns15 = _mm256_packs_epi16(v[1], v[5]),
                  columns26 = _mm256_packs_epi16(v[2], v[6]), columns37 = _mm256_packs_epi16(v[3], v[7]);
    const __m256i columns02 = _mm256_unpacklo_epi8(columns04, columns26),
                  columns46 = _mm256_unpackhi_epi8(columns04, columns26),
                  columns13 = _mm256_unpacklo_epi8(columns15, columns37),
                  columns57 = _mm256_unpackhi_epi8(columns15, columns37);
    const __m256i left[] = {_mm256_unpacklo_epi8(columns02, columns13), _mm256_unpackhi_epi8(columns02, columns13)};
    const __m256i right[] = {_mm256_unpacklo_epi8(columns46, columns57), _mm256_unpackhi_epi8(columns46, columns57)};
    for (int i = 0; i < 4; ++i) {
        const __m256i rows = i % 2 ? _mm256_unpackhi_epi32(left[i / 2], right[i / 2])
                                   : _mm256_unpacklo_epi32(left[i / 2], right[i / 2]);
        const __m256i bytes = _mm256_permute4x64_epi64(_mm256_add_epi8(rows, _mm256_set1_epi8(-128)), 0xd8);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(samples + 2 * i * stride), _mm256_castsi256_si128(bytes));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(samples + (2 * i + 1) * stride),
                         _mm256_extracti128_si256(bytes, 1));
    }
}

// A block without anything but its mean.
FB_AVX2 uint64_t flat(int16_t mean) noexcept {
    const int value = ((mean + 4) >> 3) + 128;
    return uint64_t(value < 0 ? 0 : value > 255 ? 255 : value) * 0x0101010101010101u;
}

// Transforms two blocks that lie behind each other into 8 rows of 16 samples. `even`: neither has more than its mean.
FB_AVX2 void transform_pair(const int16_t* blocks, bool even, uint8_t* samples, int64_t stride) noexcept {
    if (even) {
        const __m128i row = _mm_set_epi64x(int64_t(flat(blocks[64])), int64_t(flat(blocks[0])));
        for (int y = 0; y < 8; ++y) _mm_storeu_si128(reinterpret_cast<__m128i*>(samples + y * stride), row);
        return;
    }
    __m256i v[8];
    for (int i = 0; i < 8; ++i)
        v[i] = _mm256_inserti128_si256(
            _mm256_castsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(blocks + 8 * i))),
            _mm_load_si128(reinterpret_cast<const __m128i*>(blocks + 64 + 8 * i)), 1);
    pass<11>(v);
    transpose(v);
    pass<18>(v);
    store_rows(v, samples, stride);
}

}  // namespace
}  // namespace fb::codecs
