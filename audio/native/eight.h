// Eight numbers at a time, each of another signal or frame.

#pragma once

#include <flambeau/kernel.h>

constexpr int64_t lanes = 8;

// Plain loops over eight numbers in memory are not enough: where pointers may point at the same numbers, compilers keep
// every step in memory, at several times the cost.
#if defined(__GNUC__)
typedef float Eight __attribute__((vector_size(32), may_alias));
#else
struct alignas(32) Eight {
    float at[lanes];
    float& operator[](int64_t l) noexcept { return at[l]; }
    float operator[](int64_t l) const noexcept { return at[l]; }
};
#define FB_EIGHT(op)                                                          \
    FB_INLINE Eight operator op(const Eight& x, const Eight& y) noexcept {    \
        Eight z;                                                              \
        for (int64_t l = 0; l < lanes; ++l) z.at[l] = x.at[l] op y.at[l];     \
        return z;                                                             \
    }                                                                         \
    FB_INLINE Eight operator op(float x, const Eight& y) noexcept {           \
        Eight z;                                                              \
        for (int64_t l = 0; l < lanes; ++l) z.at[l] = x op y.at[l];           \
        return z;                                                             \
    }                                                                         \
    FB_INLINE Eight& operator op##=(Eight& x, const Eight& y) noexcept {      \
        for (int64_t l = 0; l < lanes; ++l) x.at[l] = x.at[l] op y.at[l];     \
        return x;                                                             \
    }
FB_EIGHT(+)
FB_EIGHT(-)
FB_EIGHT(*)
#undef FB_EIGHT
#endif

// y[l][i] = x[i][l] for eight rows of eight.
FB_INLINE void transpose(Eight (&rows)[lanes]) noexcept {
#if defined(__GNUC__)
    Eight pairs[lanes], fours[lanes];
    for (int64_t l = 0; l < lanes; l += 2) {
        pairs[l] = __builtin_shufflevector(rows[l], rows[l + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        pairs[l + 1] = __builtin_shufflevector(rows[l], rows[l + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int64_t l = 0; l < lanes; l += 4) {
        fours[l] = __builtin_shufflevector(pairs[l], pairs[l + 2], 0, 1, 8, 9, 4, 5, 12, 13);
        fours[l + 1] = __builtin_shufflevector(pairs[l], pairs[l + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        fours[l + 2] = __builtin_shufflevector(pairs[l + 1], pairs[l + 3], 0, 1, 8, 9, 4, 5, 12, 13);
        fours[l + 3] = __builtin_shufflevector(pairs[l + 1], pairs[l + 3], 2, 3, 10, 11, 6, 7, 14, 15);
    }
    for (int64_t l = 0; l < 4; ++l) {
        rows[l] = __builtin_shufflevector(fours[l], fours[l + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        rows[l + 4] = __builtin_shufflevector(fours[l], fours[l + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
#else
    for (int64_t i = 0; i < lanes; ++i)
        for (int64_t l = 0; l < i; ++l) {
            const float kept = rows[i][l];
            rows[i][l] = rows[l][i];
            rows[l][i] = kept;
        }
#endif
}
