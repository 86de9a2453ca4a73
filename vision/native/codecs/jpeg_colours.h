// Chroma to the resolution of luma, and YCbCr to RGB (AVX2), with libjpeg's roundings.
//
// Rows may be read up to 32 bytes past their ends, and all but the pixels written so.

#pragma once

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

namespace fb::codecs {
namespace {

FB_AVX2 __m256i load16(const uint8_t* samples) noexcept {
    return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(samples)));
}

FB_AVX2 __m256i thrice(__m256i a) noexcept { return _mm256_add_epi16(a, _mm256_add_epi16(a, a)); }

// Bytes out of the low halves of `even` and `odd`, in turn.
FB_AVX2 void store_in_turn(uint8_t* to, __m256i even, __m256i odd) noexcept {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_or_si256(even, _mm256_slli_epi16(odd, 8)));
}

// Each sample becomes two: three parts of its own, one of the neighbour's on that side. `row[-1]` and `row[width]` are
// there. Exact halves are rounded up to the right and down to the left.
inline void widen(const uint8_t* row, uint8_t* wide, int64_t width) noexcept {
    for (int64_t x = 0; x < width; x += 16) {
        const __m256i own = thrice(load16(row + x));
        const __m256i left = _mm256_add_epi16(load16(row + x - 1), _mm256_set1_epi16(1));
        const __m256i right = _mm256_add_epi16(load16(row + x + 1), _mm256_set1_epi16(2));
        store_in_turn(wide + 2 * x, _mm256_srli_epi16(_mm256_add_epi16(own, left), 2),
                      _mm256_srli_epi16(_mm256_add_epi16(own, right), 2));
    }
}

// The same between two rows, of which the near one counts threefold. `sums` has room for 16 before and behind.
inline void widen_between(const uint8_t* near, const uint8_t* far, int16_t* sums, uint8_t* wide,
                          int64_t width) noexcept {
    for (int64_t x = -16; x <= width; x += 16) {
        const __m256i sum = _mm256_add_epi16(thrice(load16(near + x)), load16(far + x));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums + x), sum);
    }
    for (int64_t x = 0; x < width; x += 16) {
        const __m256i own = thrice(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums + x)));
        const __m256i left = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums + x - 1));
        const __m256i right = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums + x + 1));
        const __m256i even = _mm256_add_epi16(_mm256_add_epi16(own, left), _mm256_set1_epi16(8));
        const __m256i odd = _mm256_add_epi16(_mm256_add_epi16(own, right), _mm256_set1_epi16(7));
        store_in_turn(wide + 2 * x, _mm256_srli_epi16(even, 4), _mm256_srli_epi16(odd, 4));
    }
}

// (factor * a + 2^15) >> 16, for |a| < 2^14.
FB_AVX2 __m256i part(__m256i a, int factor) noexcept {
    const __m256i twice = _mm256_mulhi_epi16(_mm256_add_epi16(a, a), _mm256_set1_epi16(int16_t(factor)));
    return _mm256_srai_epi16(_mm256_add_epi16(twice, _mm256_set1_epi16(1)), 1);
}

// 16 pixels, of which 48 bytes are stored.
FB_AVX2 void to_rgb_16(const uint8_t* y, const uint8_t* cb, const uint8_t* cr, uint8_t* rgb) noexcept {
    const __m256i luma = load16(y), middle = _mm256_set1_epi16(128);
    const __m256i blue = _mm256_sub_epi16(load16(cb), middle), red = _mm256_sub_epi16(load16(cr), middle);
    // ITU-R BT.601 in 16 bits of fraction: R = Y + 1.402 Cr, B = Y + 1.772 Cb, G = Y - 0.34414 Cb - 0.71414 Cr. What is
    // beyond a factor's range is added whole.
    const __m256i r = _mm256_add_epi16(_mm256_add_epi16(luma, red), part(red, 26345));
    const __m256i b = _mm256_add_epi16(_mm256_add_epi16(luma, _mm256_add_epi16(blue, blue)), part(blue, -14942));
    const __m256i factor = factors(-22554, 18734), half = _mm256_set1_epi32(1 << 15);
    const __m256i low = _mm256_madd_epi16(_mm256_unpacklo_epi16(blue, red), factor);
    const __m256i high = _mm256_madd_epi16(_mm256_unpackhi_epi16(blue, red), factor);
    const __m256i both = _mm256_packs_epi32(_mm256_srai_epi32(_mm256_add_epi32(low, half), 16),
                                            _mm256_srai_epi32(_mm256_add_epi32(high, half), 16));
    const __m256i g = _mm256_add_epi16(_mm256_sub_epi16(luma, red), both);

    // In each half eight pixels: first 16 of their 24 bytes, then 8.
    const __m256i rg = _mm256_packus_epi16(r, g), bb = _mm256_packus_epi16(b, b);
    const __m256i rg16 = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 8, -1, 1, 9, -1, 2, 10, -1, 3, 11, -1, 4, 12, -1, 5));
    const __m256i bb16 = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(-1, -1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1));
    const __m256i rg8 = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(13, -1, 6, 14, -1, 7, 15, -1, -1, -1, -1, -1, -1, -1, -1, -1));
    const __m256i bb8 = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(-1, 5, -1, -1, 6, -1, -1, 7, -1, -1, -1, -1, -1, -1, -1, -1));
    const __m256i first = _mm256_or_si256(_mm256_shuffle_epi8(rg, rg16), _mm256_shuffle_epi8(bb, bb16));
    const __m256i rest = _mm256_or_si256(_mm256_shuffle_epi8(rg, rg8), _mm256_shuffle_epi8(bb, bb8));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(rgb), _mm256_castsi256_si128(first));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(rgb + 16), _mm256_castsi256_si128(rest));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(rgb + 24), _mm256_extracti128_si256(first, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(rgb + 40), _mm256_extracti128_si256(rest, 1));
}

inline void to_rgb(const uint8_t* y, const uint8_t* cb, const uint8_t* cr, uint8_t* rgb, int64_t width) noexcept {
    int64_t x = 0;
    for (; x + 16 <= width; x += 16) to_rgb_16(y + x, cb + x, cr + x, rgb + 3 * x);
    if (x < width) {
        uint8_t last[48];
        to_rgb_16(y + x, cb + x, cr + x, last);
        memcpy(rgb + 3 * x, last, size_t(3 * (width - x)));
    }
}

}  // namespace
}  // namespace fb::codecs
