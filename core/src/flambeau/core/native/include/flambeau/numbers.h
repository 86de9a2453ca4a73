// Number formats: half precision read as float, and written with rounding to nearest, ties to even.

#pragma once

#include <stdint.h>
#include <string.h>

namespace fb {

template <typename To, typename From>
inline To bits(From value) noexcept {
    static_assert(sizeof(To) == sizeof(From), "same size");
    To result;
    memcpy(&result, &value, sizeof result);
    return result;
}

// Storage formats without arithmetic of their own.
struct Half {
    uint16_t raw;
};
struct BFloat16 {
    uint16_t raw;
};

inline float widen(float value) noexcept { return value; }
inline double widen(double value) noexcept { return value; }
inline float widen(BFloat16 value) noexcept { return bits<float>(uint32_t(value.raw) << 16); }
inline float widen(Half value) noexcept {
    const uint32_t sign = uint32_t(value.raw & 0x8000) << 16, rest = value.raw & 0x7fff;
    if (rest >= 0x7c00) return bits<float>(sign | 0x7f800000 | (rest & 0x3ff) << 13);  // infinite, or not a number
    // A half's exponent bias is 112 less than a float's; the product also makes denormals normal.
    return bits<float>(sign | bits<uint32_t>(bits<float>(rest << 13) * 0x1p112f));
}

// The same numbers in a storage format, rounded to nearest, ties to even.
template <typename S>
inline S narrow(float value) noexcept;
template <>
inline float narrow<float>(float value) noexcept {
    return value;
}
template <>
inline BFloat16 narrow<BFloat16>(float value) noexcept {
    const uint32_t raw = bits<uint32_t>(value);
    if (value != value) return {uint16_t(raw >> 16 | 0x40)};
    return {uint16_t((raw + 0x7fff + (raw >> 16 & 1)) >> 16)};
}
template <>
inline Half narrow<Half>(float value) noexcept {
    const uint32_t raw = bits<uint32_t>(value), rest = raw & 0x7fffffff;
    const uint16_t sign = uint16_t(raw >> 16 & 0x8000);
    if (rest > 0x7f800000) return {uint16_t(sign | 0x7e00)};
    if (rest >= 0x477ff000) return {uint16_t(sign | 0x7c00)};  // 65520 and more round to infinity
    if (rest < 0x38800000)  // denormal: adding 1/2 leaves the wanted bits, rounded, at the end of the significand
        return {uint16_t(sign | (bits<uint32_t>(bits<float>(rest) + 0.5f) - bits<uint32_t>(0.5f)))};
    return {uint16_t(sign | (rest - (112u << 23) + 0xfff + (rest >> 13 & 1)) >> 13)};
}
template <typename S>
inline S narrow(double value) noexcept {
    return value;
}

// The type that numbers of a storage format are computed in.
template <typename S>
using Wide = decltype(widen(S()));

}  // namespace fb
