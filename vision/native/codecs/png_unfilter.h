// Undoing PNG's filters: each byte of a row was stored as its difference from a guess made of its neighbours.

#pragma once

#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "png_format.h"

namespace fb::codecs {

// Of left, above and upper left the one nearest to left + above - upper left (section 9.4).
FB_INLINE uint8_t paeth(int left, int above, int corner) noexcept {
    const int by_left = above - corner, by_above = left - corner;
    const int to_left = by_left < 0 ? -by_left : by_left;
    const int to_above = by_above < 0 ? -by_above : by_above;
    const int both = by_left + by_above;
    const int to_corner = both < 0 ? -both : both;
    const int nearest = to_left <= to_above && to_left <= to_corner ? left : to_above <= to_corner ? above : corner;
    return uint8_t(nearest);
}

// The rows hold `bytes` bytes of pixels of `step` bytes. `above` is the row before, decoded; `row` may be `stored`.
template <int step>
inline void unfilter_plain(uint8_t filter, const uint8_t* stored, const uint8_t* above, uint8_t* row,
                           int64_t bytes) noexcept {
    const int64_t first = bytes < step ? bytes : step;  // bytes without a neighbour to the left
    switch (filter) {
        case None:
            if (row != stored) memcpy(row, stored, size_t(bytes));
            return;
        case Sub:
            if (row != stored) memcpy(row, stored, size_t(first));
            for (int64_t i = first; i < bytes; ++i) row[i] = uint8_t(stored[i] + row[i - step]);
            return;
        case Up:
            for (int64_t i = 0; i < bytes; ++i) row[i] = uint8_t(stored[i] + above[i]);
            return;
        case Average:
            for (int64_t i = 0; i < first; ++i) row[i] = uint8_t(stored[i] + above[i] / 2);
            for (int64_t i = first; i < bytes; ++i) row[i] = uint8_t(stored[i] + (row[i - step] + above[i]) / 2);
            return;
        case Paeth:
            for (int64_t i = 0; i < first; ++i) row[i] = uint8_t(stored[i] + above[i]);
            for (int64_t i = first; i < bytes; ++i)
                row[i] = uint8_t(stored[i] + paeth(row[i - step], above[i], above[i - step]));
            return;
    }
}

#if defined(__SSE2__)

// A pixel in the low bytes of a register; with `wide`, and a byte or two of the next one.
template <int step>
FB_INLINE __m128i load_pixel(const uint8_t* from, bool wide) noexcept {
    if (step <= 4) {
        uint32_t bits;
        if (step == 4 || wide)
            memcpy(&bits, from, 4);
        else
            bits = uint32_t(from[0]) | uint32_t(from[1]) << 8 | uint32_t(from[2]) << 16;
        return _mm_cvtsi32_si128(int32_t(bits));
    }
    uint64_t bits;
    if (step == 8 || wide) {
        memcpy(&bits, from, 8);
    } else {
        uint32_t low;
        uint16_t high;
        memcpy(&low, from, 4);
        memcpy(&high, from + 4, 2);
        bits = low | uint64_t(high) << 32;
    }
    return _mm_cvtsi64_si128(int64_t(bits));
}

template <int step>
FB_INLINE void store_pixel(uint8_t* to, __m128i pixel, bool wide) noexcept {
    const uint64_t bits = uint64_t(_mm_cvtsi128_si64(pixel));
    if (step <= 4 && (step == 4 || wide))
        memcpy(to, &bits, 4);
    else if (step == 8 || wide)
        memcpy(to, &bits, 8);
    else
        memcpy(to, &bits, step);
}

// A row's pixels one after the other: what one needs of the pixel before it stays in registers. Pixels of 3 and 6 bytes
// are read and written with bytes of the next, which is written next. That goes where `row` is not `stored`, and not
// at the end of the row.
template <int step, typename Guess>
FB_INLINE void each_pixel(const uint8_t* stored, const uint8_t* above, uint8_t* row, int64_t bytes,
                          Guess guess) noexcept {
    __m128i left = _mm_setzero_si128(), corner = _mm_setzero_si128();
    const auto pixel = [&](int64_t i, bool wide) {
        const __m128i up = load_pixel<step>(above + i, wide);
        left = _mm_add_epi8(load_pixel<step>(stored + i, wide), guess(left, up, corner));
        corner = up;
        store_pixel<step>(row + i, left, wide);
    };
    int64_t i = 0;
    if (stored != row)
        for (; i + 8 <= bytes; i += step) pixel(i, true);
    for (; i < bytes; i += step) pixel(i, false);
}

FB_INLINE __m128i average(__m128i left, __m128i above, __m128i) noexcept {
    // The instruction rounds up; PNG rounds down.
    const __m128i odd = _mm_and_si128(_mm_xor_si128(left, above), _mm_set1_epi8(1));
    return _mm_sub_epi8(_mm_avg_epu8(left, above), odd);
}

FB_INLINE __m128i magnitude(__m128i values) noexcept {
    return _mm_max_epi16(values, _mm_sub_epi16(_mm_setzero_si128(), values));
}

FB_INLINE __m128i choose(__m128i condition, __m128i yes, __m128i no) noexcept {
    return _mm_or_si128(_mm_and_si128(condition, yes), _mm_andnot_si128(condition, no));
}

// The chain from one pixel to the next is what takes the time: all that does not need `left` is beside it.
FB_INLINE __m128i paeth_of(__m128i left8, __m128i above8, __m128i corner8) noexcept {
    const __m128i zero = _mm_setzero_si128();
    const __m128i left = _mm_unpacklo_epi8(left8, zero), above = _mm_unpacklo_epi8(above8, zero),
                  corner = _mm_unpacklo_epi8(corner8, zero);
    const __m128i by_left = _mm_sub_epi16(above, corner);
    const __m128i to_left = magnitude(by_left), to_above = magnitude(_mm_sub_epi16(left, corner)),
                  to_corner = magnitude(_mm_add_epi16(left, _mm_sub_epi16(by_left, corner)));
    const __m128i upper = choose(_mm_cmpgt_epi16(to_above, to_corner), corner, above);
    const __m128i nearest = choose(_mm_cmpgt_epi16(to_left, _mm_min_epi16(to_above, to_corner)), upper, left);
    return _mm_packus_epi16(nearest, nearest);
}

template <int step>
inline void unfilter(uint8_t filter, const uint8_t* stored, const uint8_t* above, uint8_t* row,
                     int64_t bytes) noexcept {
    if (step > 2 && filter == Sub)
        each_pixel<step>(stored, above, row, bytes, [](__m128i left, __m128i, __m128i) { return left; });
    else if (step > 2 && filter == Average)
        each_pixel<step>(stored, above, row, bytes, average);
    else if (step > 2 && filter == Paeth)
        each_pixel<step>(stored, above, row, bytes, paeth_of);
    else
        unfilter_plain<step>(filter, stored, above, row, bytes);
}

#else

template <int step>
inline void unfilter(uint8_t filter, const uint8_t* stored, const uint8_t* above, uint8_t* row,
                     int64_t bytes) noexcept {
    unfilter_plain<step>(filter, stored, above, row, bytes);
}

#endif

using Unfilter = void (*)(uint8_t, const uint8_t*, const uint8_t*, uint8_t*, int64_t) noexcept;

// The function for pixels of so many bytes; fewer than 8 bits count as one byte.
inline Unfilter unfilter_of(int64_t step) noexcept {
    switch (step) {
        case 2: return unfilter<2>;
        case 3: return unfilter<3>;
        case 4: return unfilter<4>;
        case 6: return unfilter<6>;
        case 8: return unfilter<8>;
        default: return unfilter<1>;
    }
}

}  // namespace fb::codecs
