// The inverse transform of two blocks at once, one in each half of the registers (AVX2), into samples of full, half,
// quarter and eighth size.
//
// The accurate integer method that libjpeg calls ISLOW: Loeffler, Ligtenberg and Moschytz 1989, "Practical fast 1-D DCT
// algorithms with 11 multiplications", in fixed point of 13 bits; columns first, with 2 bits kept between the passes.
// Every rounding is where libjpeg has it, so that the samples are the same. A block of reduced size is the transform of
// its lower frequencies, likewise by libjpeg's choice of them: for 4 x 4 all but the fifth, for 2 x 2 the first and
// the odd ones.

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
    c0_211 = 1730, c0_509 = 4176, c0_601 = 4926, c0_720 = 5906, c0_850 = 6967, c1_061 = 8697, c1_272 = 10426,
    c1_451 = 11893, c2_172 = 17799, c3_624 = 29692,
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
// Times 2^bits, plus what rounds the result of the pass.
template <int bits = 13>
FB_AVX2 Wide scaled(__m256i a, __m256i rounding) noexcept {
    const Wide wide = pairs(_mm256_setzero_si256(), a);
    return {_mm256_add_epi32(_mm256_srai_epi32(wide.low, 16 - bits), rounding),
            _mm256_add_epi32(_mm256_srai_epi32(wide.high, 16 - bits), rounding)};
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

// Rows of two blocks, their quantization undone.
FB_AVX2 void load_rows(const int16_t* blocks, const int16_t* quantizers, __m256i (&v)[8]) noexcept {
    for (int i = 0; i < 8; ++i) {
        const __m256i both = _mm256_inserti128_si256(
            _mm256_castsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(blocks + 8 * i))),
            _mm_load_si128(reinterpret_cast<const __m128i*>(blocks + 64 + 8 * i)), 1);
        v[i] = _mm256_mullo_epi16(both, _mm256_broadcastsi128_si256(_mm_load_si128(
                                            reinterpret_cast<const __m128i*>(quantizers + 8 * i))));
    }
}

FB_AVX2 void transform_8x8(const int16_t* blocks, const int16_t* quantizers, uint8_t* samples,
                           int64_t stride) noexcept {
    __m256i v[8];
    load_rows(blocks, quantizers, v);
    pass<11>(v);
    transpose(v);
    pass<18>(v);
    store_rows(v, samples, stride);
}

// The products of one row with each row of factors, summed: four results in each half.
FB_AVX2 __m256i dot4(__m256i row, const __m256i (&by)[4]) noexcept {
    return _mm256_hadd_epi32(_mm256_hadd_epi32(_mm256_madd_epi16(row, by[0]), _mm256_madd_epi16(row, by[1])),
                             _mm256_hadd_epi32(_mm256_madd_epi16(row, by[2]), _mm256_madd_epi16(row, by[3])));
}

FB_AVX2 __m256i row_of(int16_t a, int16_t b, int16_t c, int16_t d, int16_t e, int16_t f, int16_t g,
                       int16_t h) noexcept {
    return _mm256_broadcastsi128_si256(_mm_setr_epi16(a, b, c, d, e, f, g, h));
}

FB_AVX2 __m256i rounded(__m256i a, int shift) noexcept {
    return _mm256_srai_epi32(_mm256_add_epi32(a, _mm256_set1_epi32(1 << (shift - 1))), shift);
}

inline void transform_4x4(const int16_t* blocks, const int16_t* quantizers, uint8_t* samples,
                          int64_t stride) noexcept {
    __m256i v[8];
    load_rows(blocks, quantizers, v);
    const Wide first = scaled<14>(v[0], _mm256_set1_epi32(1 << 11));
    const Wide even = products(pairs(v[2], v[6]), factors(c1_847, -c0_765));
    const Wide sum = plus(first, even), difference = minus(first, even);
    const Wide v75 = pairs(v[7], v[5]), v31 = pairs(v[3], v[1]);
    const Wide inner = plus(products(v75, factors(-c0_211, c1_451)), products(v31, factors(-c2_172, c1_061)));
    const Wide outer = plus(products(v75, factors(-c0_509, -c0_601)), products(v31, factors(c0_899, c2_562)));
    const __m256i rows[] = {narrowed<12>(plus(sum, outer)), narrowed<12>(plus(difference, inner)),
                            narrowed<12>(minus(difference, inner)), narrowed<12>(minus(sum, outer))};
    constexpr int one = 1 << 14;
    const __m256i by[] = {row_of(one, c2_562, c1_847, c0_899, 0, -c0_601, -c0_765, -c0_509),
                          row_of(one, c1_061, -c1_847, -c2_172, 0, c1_451, c0_765, -c0_211),
                          row_of(one, -c1_061, -c1_847, c2_172, 0, -c1_451, c0_765, c0_211),
                          row_of(one, -c2_562, c1_847, -c0_899, 0, c0_601, -c0_765, c0_509)};
    __m256i result[4];
    for (int y = 0; y < 4; ++y) result[y] = rounded(dot4(rows[y], by), 19);
    const __m256i upper = _mm256_packs_epi32(result[0], result[1]), lower = _mm256_packs_epi32(result[2], result[3]);
    const __m256i bytes = _mm256_add_epi8(_mm256_packs_epi16(upper, lower), _mm256_set1_epi8(-128));
    alignas(32) uint8_t of_both[2][4][4];
    _mm256_store_si256(reinterpret_cast<__m256i*>(of_both), bytes);
    for (int y = 0; y < 4; ++y) {
        memcpy(samples + y * stride, of_both[0][y], 4);
        memcpy(samples + y * stride + 4, of_both[1][y], 4);
    }
}

inline void transform_2x2(const int16_t* blocks, const int16_t* quantizers, uint8_t* samples,
                          int64_t stride) noexcept {
    __m256i v[8];
    load_rows(blocks, quantizers, v);
    const Wide first = scaled<15>(v[0], _mm256_set1_epi32(1 << 12));
    const Wide odd = plus(products(pairs(v[7], v[5]), factors(-c0_720, c0_850)),
                          products(pairs(v[3], v[1]), factors(-c1_272, c3_624)));
    const __m256i rows[] = {narrowed<13>(plus(first, odd)), narrowed<13>(minus(first, odd))};
    // 2^15 is more than 16 bits hold: the first column stands in the place of the third as well.
    constexpr int half = 1 << 14;
    const __m256i left = row_of(half, c3_624, half, -c1_272, 0, c0_850, 0, -c0_720);
    const __m256i right = row_of(half, -c3_624, half, c1_272, 0, -c0_850, 0, c0_720);
    const __m256i above = _mm256_shufflelo_epi16(rows[0], 0xc4), below = _mm256_shufflelo_epi16(rows[1], 0xc4);
    const __m256i by_row = _mm256_hadd_epi32(
        _mm256_hadd_epi32(_mm256_madd_epi16(above, left), _mm256_madd_epi16(above, right)),
        _mm256_hadd_epi32(_mm256_madd_epi16(below, left), _mm256_madd_epi16(below, right)));
    const __m256i words = _mm256_packs_epi32(rounded(by_row, 20), _mm256_setzero_si256());
    const __m256i bytes = _mm256_add_epi8(_mm256_packs_epi16(words, words), _mm256_set1_epi8(-128));
    alignas(32) uint8_t of_both[2][8][2];
    _mm256_store_si256(reinterpret_cast<__m256i*>(of_both), bytes);
    for (int y = 0; y < 2; ++y) {
        memcpy(samples + y * stride, of_both[0][y], 2);
        memcpy(samples + y * stride + 2, of_both[1][y], 2);
    }
}

// Transforms two blocks that lie behind each other into `size` rows of twice `size` samples. `even`: neither block has
// more than its mean.
FB_AVX2 void transform_pair(const int16_t* blocks, const int16_t* quantizers, bool even, int size, uint8_t* samples,
                            int64_t stride) noexcept {
    if (even || size == 1) {
        const uint64_t first = flat(int16_t(blocks[0] * quantizers[0])),
                       second = flat(int16_t(blocks[64] * quantizers[0]));
        for (int y = 0; y < size; ++y) {
            memcpy(samples + y * stride, &first, 8);
            memcpy(samples + y * stride + size, &second, 8);
        }
    } else if (size == 8) {
        transform_8x8(blocks, quantizers, samples, stride);
    } else if (size == 4) {
        transform_4x4(blocks, quantizers, samples, stride);
    } else {
        transform_2x2(blocks, quantizers, samples, stride);
    }
}

}  // namespace
}  // namespace fb::codecs
