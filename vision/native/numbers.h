// Thresholds and scores as something that integers can be compared by.

#pragma once

#include <flambeau/numbers.h>
#include <math.h>

namespace vision {

using fb::bits;
using fb::BFloat16;
using fb::Half;
using fb::narrow;
using fb::widen;
template <typename S>
using Wide = fb::Wide<S>;

// The largest number of type T that is not above `limit`: for every T, `value > limit` is `value > floor_to<T>(limit)`.
template <typename T>
inline T floor_to(double limit) noexcept {
    const T rounded = T(limit);
    return double(rounded) > limit ? T(nextafterf(float(rounded), -INFINITY)) : rounded;
}
template <>
inline double floor_to<double>(double limit) noexcept {
    return limit;
}

// Keys whose ascending order is the numbers' descending order, as torch sorts: NaN first, and -0 equal to 0.
inline uint64_t descending_key(float value) noexcept {
    if (value != value) return 0;
    const uint32_t raw = bits<uint32_t>(value + 0.0f);
    return uint32_t(~(raw & 0x80000000 ? ~raw : raw | 0x80000000));
}
inline uint64_t descending_key(double value) noexcept {
    if (value != value) return 0;
    const uint64_t raw = bits<uint64_t>(value + 0.0), top = uint64_t(1) << 63;
    return ~(raw & top ? ~raw : raw | top);
}

}  // namespace vision
