// `resample` with vector instructions of x86-64 (AVX2 and FMA).
//
// Along a row, neighbouring results have different sources and weights; results above each other have the same. Groups
// of rows are therefore turned, so that one vector holds the same place of every row, and turned back afterwards.

#pragma once

#include "resample.h"

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define VISION_AVX2 1

#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif

namespace vision {
namespace avx2 {

inline __m256i load(const void* from) noexcept { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
inline void store(void* to, __m256i value) noexcept { _mm256_storeu_si256(static_cast<__m256i*>(to), value); }

// Two neighbouring weights in every lane.
inline __m256i weight_pair(const int16_t* weights) noexcept {
    int32_t both;
    memcpy(&both, weights, sizeof both);
    return _mm256_set1_epi32(both);
}

// Two sums of 8 lanes each get what 16 values of `a` and of `b` have to give.
inline void add_pair(__m256i a, __m256i b, __m256i pair, __m256i& low, __m256i& high) noexcept {
    low = _mm256_add_epi32(low, _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), pair));
    high = _mm256_add_epi32(high, _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), pair));
}

// In each half of the vectors, 16 x 16 bytes change rows and columns, in four steps that each pair what is half of the
// rows apart.
inline void turn_sixteens(__m256i (&a)[16]) noexcept {
    __m256i b[16];
    for (int twice = 0; twice < 2; ++twice) {
        for (int i = 0; i < 8; ++i) {
            b[2 * i] = _mm256_unpacklo_epi8(a[i], a[i + 8]);
            b[2 * i + 1] = _mm256_unpackhi_epi8(a[i], a[i + 8]);
        }
        for (int i = 0; i < 8; ++i) {
            a[2 * i] = _mm256_unpacklo_epi8(b[i], b[i + 8]);
            a[2 * i + 1] = _mm256_unpackhi_epi8(b[i], b[i + 8]);
        }
    }
}

// In each half of the vectors, 8 x 8 values change rows and columns.
inline void turn_eights(__m256i (&v)[8]) noexcept {
    __m256i a[8];
    for (int i = 0; i < 4; ++i) {
        a[2 * i] = _mm256_unpacklo_epi16(v[i], v[i + 4]);
        a[2 * i + 1] = _mm256_unpackhi_epi16(v[i], v[i + 4]);
    }
    for (int i = 0; i < 4; ++i) {
        v[2 * i] = _mm256_unpacklo_epi16(a[i], a[i + 4]);
        v[2 * i + 1] = _mm256_unpackhi_epi16(a[i], a[i + 4]);
    }
    for (int i = 0; i < 4; ++i) {
        a[2 * i] = _mm256_unpacklo_epi16(v[i], v[i + 4]);
        a[2 * i + 1] = _mm256_unpackhi_epi16(v[i], v[i + 4]);
    }
    for (int i = 0; i < 8; ++i) v[i] = a[i];
}

// 16 columns of 16 values become rows[i][0..15], in rows that are not neighbours.
inline void turn_back(const int16_t* columns, int16_t* const (&rows)[group_rows], int64_t count, int64_t at) noexcept {
    __m256i left[8], right[8];
    for (int i = 0; i < 8; ++i) {
        left[i] = load(columns + i * group_rows);
        right[i] = load(columns + (i + 8) * group_rows);
    }
    turn_eights(left);
    turn_eights(right);
    for (int i = 0; i < 8 && i < count; ++i) store(rows[i] + at, _mm256_permute2x128_si256(left[i], right[i], 0x20));
    for (int i = 0; i < 8 && i + 8 < count; ++i)
        store(rows[i + 8] + at, _mm256_permute2x128_si256(left[i], right[i], 0x31));
}

// `number_of` for 8 levels. Quotients are made of products: the reciprocal is right to half a unit in the last place, so
// one step of correction gives the quotient that division would (Markstein 1990, IBM J. Res. Dev. 34, theorem 8).
class Scale {
  public:
    Scale(float mean, float std) noexcept
        : mean_(_mm256_set1_ps(mean)), std_(_mm256_set1_ps(std)), inverse_(_mm256_set1_ps(1 / std)) {}
    __m256 operator()(__m256i levels) const noexcept {
        return quotient(_mm256_sub_ps(alone(levels), mean_), std_, inverse_);
    }
    // With mean 0 and deviation 1.
    static __m256 alone(__m256i levels) noexcept {
        return quotient(_mm256_cvtepi32_ps(levels), _mm256_set1_ps(255), _mm256_set1_ps(1.0f / 255));
    }

  private:
    static __m256 quotient(__m256 a, __m256 b, __m256 inverse) noexcept {
        const __m256 near = _mm256_mul_ps(a, inverse);
        return _mm256_fmadd_ps(_mm256_fnmadd_ps(near, b, a), inverse, near);
    }
    __m256 mean_, std_, inverse_;
};

struct Steps {
    static inline void along(const Resampling& job, const uint8_t* const* rows, int64_t count, const Workspace& space,
                             int64_t index) noexcept {
        turn(job, rows, space.turned.get());
        int64_t channel = 0;
        for (; channel + 3 <= job.channels; channel += 3) sums<3>(job, space, channel);
        for (; channel < job.channels; ++channel) sums<1>(job, space, channel);
        int16_t* lines[group_rows];
        for (int64_t i = 0; i < group_rows; ++i) lines[i] = space.line(job, index + i);
        for (int64_t at = 0; at < job.line_size(); at += 16)
            turn_back(space.placed.get() + at * group_rows, lines, count, at);
    }

    // Row by row bytes -> column by column int16.
    static inline void turn(const Resampling& job, const uint8_t* const* rows, int16_t* turned) noexcept {
        const int64_t used = job.used_bytes();
        __m256i block[16];
        for (int64_t begin = 0; begin < used; begin += 32) {
            // The last block overlaps the one before, so as to end with the row.
            const int64_t at = used - begin >= 32 ? begin : used >= 32 ? used - 32 : 0;
            for (int i = 0; i < 16; ++i) {
                if (used >= 32) {
                    block[i] = load(rows[i] + at);
                } else {
                    alignas(32) uint8_t few[32] = {};
                    memcpy(few, rows[i], size_t(used));
                    block[i] = load(few);
                }
            }
            turn_sixteens(block);
            int16_t* const to = turned + at * group_rows;
            for (int i = 0; i < 16; ++i) {
                store(to + i * group_rows, _mm256_cvtepu8_epi16(_mm256_castsi256_si128(block[i])));
                store(to + (i + 16) * group_rows, _mm256_cvtepu8_epi16(_mm256_extracti128_si256(block[i], 1)));
            }
        }
    }

    // So many values of every pixel, from `channel` on.
    template <int channels>
    static inline void sums(const Resampling& job, const Workspace& space, int64_t channel) noexcept {
        const Weights& columns = job.columns;
        const __m128i shift = _mm_cvtsi32_si128(columns.bits - line_bits);
        const __m256i half = _mm256_set1_epi32(line_half(columns.bits));
        const __m256i most = _mm256_set1_epi16(255 << line_bits);
        // In variables of their own: as far as the compiler knows, storing a vector may change what `job` refers to.
        const int64_t apart = (job.planes ? job.line_part() : 1) * group_rows, pixel = job.pixel_stride * group_rows;
        const int64_t step = (job.planes ? 1 : job.channels) * group_rows, width = job.width, stride = columns.stride;
        const int32_t *const first = columns.first.get(), *const counts = columns.count.get();
        const int16_t* const values = columns.values.get();
        const int16_t* const turned = space.turned.get() + channel * group_rows - columns.begin * pixel;
        int16_t* to = space.placed.get() + channel * apart;
        const bool flip = job.flip;
        for (int64_t place = 0; place < width; ++place, to += step) {
            const int64_t x = flip ? width - 1 - place : place, count = counts[x];
            const int16_t* weights = values + x * stride;
            const int16_t* from = turned + first[x] * pixel;
            __m256i low[channels], high[channels];
            for (int c = 0; c < channels; ++c) low[c] = high[c] = half;
            for (int64_t k = 0; k < count; k += 2, from += 2 * pixel) {
                const __m256i pair = weight_pair(weights + k);
                for (int c = 0; c < channels; ++c)
                    add_pair(load(from + c * group_rows), load(from + pixel + c * group_rows), pair, low[c], high[c]);
            }
            for (int c = 0; c < channels; ++c) {
                __m256i value = _mm256_packs_epi32(_mm256_sra_epi32(low[c], shift), _mm256_sra_epi32(high[c], shift));
                value = _mm256_min_epi16(_mm256_max_epi16(value, _mm256_setzero_si256()), most);
                store(to + c * apart, value);
            }
        }
    }

    static inline void down(const Resampling& job, int64_t y, const int16_t* const* lines,
                            const Target& target) noexcept {
        const int16_t* weights = job.rows.values.get() + y * job.rows.stride;
        const int64_t count = job.rows.count[y];
        const int32_t bits = job.rows.bits;
        if (!job.planes) {
            const int64_t length = job.width * job.channels;
            uint8_t* to = target.bytes + y * length;
            for (int64_t at = 0; at < length; at += 32) {
                alignas(32) uint8_t last[32];
                const int64_t many = length - at;
                __m256i first, second;
                levels(weights, count, bits, lines, at, first, second);
                store(many >= 32 ? to + at : last, _mm256_permute4x64_epi64(_mm256_packus_epi16(first, second), 0xd8));
                if (many < 32) memcpy(to + at, last, size_t(many));
            }
            return;
        }
        const int64_t width = job.width, part = job.line_part();
        for (int64_t c = 0; c < job.channels; ++c) {
            const Scale scale(target.mean[c], target.std[c]);
            float* to = target.numbers + (c * job.height + y) * width;
            for (int64_t at = 0; at < width; at += 32) {
                alignas(32) float last[32];
                const int64_t many = width - at;
                float* place = many >= 32 ? to + at : last;
                __m256i both[2];
                levels(weights, count, bits, lines, c * part + at, both[0], both[1]);
                for (int i = 0; i < 2; ++i) {
                    const __m256i near = _mm256_cvtepi16_epi32(_mm256_castsi256_si128(both[i]));
                    const __m256i far = _mm256_cvtepi16_epi32(_mm256_extracti128_si256(both[i], 1));
                    _mm256_storeu_ps(place + 16 * i, scale(near));
                    _mm256_storeu_ps(place + 16 * i + 8, scale(far));
                }
                if (many < 32) memcpy(to + at, last, size_t(many) * sizeof(float));
            }
        }
    }

    // Levels of 32 places of the result from `at` in the lines, as int16 from 0 to 255.
    static inline void levels(const int16_t* weights, int64_t count, int32_t bits, const int16_t* const* lines,
                              int64_t at, __m256i& first, __m256i& second) noexcept {
        const __m128i shift = _mm_cvtsi32_si128(bits + line_bits);
        const __m256i most = _mm256_set1_epi16(255), zero = _mm256_setzero_si256();
        __m256i low0 = _mm256_set1_epi32(level_half(bits)), high0 = low0, low1 = low0, high1 = low0;
        for (int64_t k = 0; k < count; k += 2) {
            const int16_t *a = lines[k] + at, *b = lines[k + 1] + at;
            const __m256i pair = weight_pair(weights + k);
            add_pair(load(a), load(b), pair, low0, high0);
            add_pair(load(a + 16), load(b + 16), pair, low1, high1);
        }
        first = _mm256_packs_epi32(_mm256_sra_epi32(low0, shift), _mm256_sra_epi32(high0, shift));
        second = _mm256_packs_epi32(_mm256_sra_epi32(low1, shift), _mm256_sra_epi32(high1, shift));
        first = _mm256_min_epi16(_mm256_max_epi16(first, zero), most);
        second = _mm256_min_epi16(_mm256_max_epi16(second, zero), most);
    }
};

// 16 levels, `step` apart, which is 1 or 3; of 3, as many bytes are read as 16 pixels have.
template <int step>
inline __m128i sixteen(const uint8_t* levels) noexcept {
    const __m128i* at = reinterpret_cast<const __m128i*>(levels);
    __m128i value = _mm_loadu_si128(at);
    if constexpr (step == 3) {
        const char no = -1;
        value = _mm_or_si128(
            _mm_or_si128(_mm_shuffle_epi8(value, _mm_setr_epi8(0, 3, 6, 9, 12, 15, no, no, no, no, no, no, no, no, no, no)),
                         _mm_shuffle_epi8(_mm_loadu_si128(at + 1),
                                          _mm_setr_epi8(no, no, no, no, no, no, 2, 5, 8, 11, 14, no, no, no, no, no))),
            _mm_shuffle_epi8(_mm_loadu_si128(at + 2),
                             _mm_setr_epi8(no, no, no, no, no, no, no, no, no, no, no, 1, 4, 7, 10, 13)));
    }
    return value;
}

template <int step>
inline void convert_row(const uint8_t* levels, int64_t count, bool flip, float mean, float std,
                        float* numbers) noexcept {
    const Scale scale(mean, std);
    int64_t x = 0;
    if (step == 1 && !flip && mean == 0 && std == 1)
        for (; x + 8 <= count; x += 8) {
            const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(levels + x));
            _mm256_storeu_ps(numbers + x, Scale::alone(_mm256_cvtepu8_epi32(eight)));
        }
    for (; x + 16 < count; x += 16) {
        __m128i value = sixteen<step>(levels + x * step);
        if (flip) value = _mm_shuffle_epi8(value, _mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
        float* to = numbers + (flip ? count - 16 - x : x);
        _mm256_storeu_ps(to, scale(_mm256_cvtepu8_epi32(value)));
        _mm256_storeu_ps(to + 8, scale(_mm256_cvtepu8_epi32(_mm_srli_si128(value, 8))));
    }
    for (; x < count; ++x) numbers[flip ? count - 1 - x : x] = number_of(levels[x * step], mean, std);
}

inline void convert(const uint8_t* levels, int64_t step, int64_t count, bool flip, float mean, float std,
                    float* numbers) noexcept {
    if (step == 1)
        convert_row<1>(levels, count, flip, mean, std, numbers);
    else if (step == 3)
        convert_row<3>(levels, count, flip, mean, std, numbers);
    else
        for (int64_t x = 0; x < count; ++x) numbers[flip ? count - 1 - x : x] = number_of(levels[x * step], mean, std);
}

inline void resample(const Resampling& job, const uint8_t* source, int64_t begin, int64_t end, const Workspace& space,
                     const Target& target) noexcept {
    resample_with<Steps>(job, source, begin, end, space, target);
}

}  // namespace avx2
}  // namespace vision

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
