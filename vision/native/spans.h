// Whole pixels of a region's bins, for `roi_pool` and `ps_roi_pool`.

#pragma once

#include <math.h>

#include "regions.h"

namespace vision {

// Rounded half away from zero, to an integer that small sums cannot overflow. NaN lies far outside.
template <typename T>
inline int64_t to_pixel(T position) noexcept {
    constexpr T limit = T(1 << 30);
    const T whole = round(position);
    return whole > limit ? int64_t(limit) : whole > -limit ? int64_t(whole) : -int64_t(limit);
}

struct Span {
    int64_t begin, end;
};

// One direction of one region, `pixels` long from `start`, cut into bins; bins share pixels where cuts are within one.
template <typename T>
struct Cuts {
    int64_t start, limit;  // bins stop at the limit
    T bin;

    Cuts(int64_t start, int64_t pixels, int64_t bins, int64_t limit) noexcept
        : start(start), limit(limit), bin(T(pixels > 1 ? pixels : 1) / T(bins)) {}
    Span operator[](int64_t index) const noexcept {
        return {clip(start + int64_t(floor(T(index) * bin))), clip(start + int64_t(ceil(T(index + 1) * bin)))};
    }

  private:
    int64_t clip(int64_t pixel) const noexcept { return pixel < 0 ? 0 : pixel > limit ? limit : pixel; }
};

}  // namespace vision
