// Microscaling formats of four bits (Rouhani et al. 2023, arXiv:2310.10537): groups of numbers share a power of two.
//
// A group of n numbers is n / 2 bytes, the first of two numbers in the lower half, then the exponent of the shared power
// of two plus 127. A code is a sign, an exponent and a significand of few bits; the nearest one is taken, ties away from
// zero, and the largest one for all that is larger.

#include "quantize.h"

namespace rec {
namespace {

enum class Rounding : int64_t { Nearest, Floor, Even, Stochastic, Ceil };

struct Format {
    int exponent_bits, significand_bits;
    Rounding rounding;

    int bias() const noexcept { return (1 << (exponent_bits - 1)) - 1; }
    int largest_code() const noexcept { return 7; }
};

// A good mixture of 64 bits, for rounding by chance (splitmix64).
inline uint32_t mixed(uint64_t seed) noexcept {
    seed += 0x9e3779b97f4a7c15ull;
    seed = (seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9ull;
    seed = (seed ^ (seed >> 27)) * 0x94d049bb133111ebull;
    return uint32_t((seed ^ (seed >> 31)) >> 32);
}

inline int exponent_of(float value) noexcept {  // of a normal number
    return int(fb::bits<uint32_t>(value) >> 23 & 0xff) - 127;
}

// The exponent that a group shares, by its largest number.
int shared_exponent(float most, const Format& format, uint32_t chance) noexcept {
    const float size = most < 0x1p-126f ? 0x1p-126f : most > 3.402823466e+38f ? 3.402823466e+38f : most;
    const uint32_t raw = fb::bits<uint32_t>(size), fraction = raw & 0x7fffff;
    int exponent = exponent_of(size);
    const uint32_t half_step = 1u << (22 - format.significand_bits);  // of the significand that is kept
    switch (format.rounding) {
        case Rounding::Nearest: exponent += fraction > 0x3504f3; break;  // the fraction of the square root of two
        case Rounding::Floor: break;
        case Rounding::Even: exponent += fraction + (half_step - 1) > 0x7fffff; break;
        case Rounding::Stochastic: exponent += fraction + (chance & (2 * half_step - 1)) > 0x7fffff; break;
        case Rounding::Ceil: exponent += fraction != 0; break;
    }
    exponent -= format.exponent_bits;
    return exponent < -127 ? -127 : exponent > 125 ? 125 : exponent;
}

// The code of a number that was divided by the shared power of two.
FB_INLINE uint32_t code_of(float value, const Format& format, uint32_t chance, bool stochastic) noexcept {
    const uint32_t raw = fb::bits<uint32_t>(value), sign = raw >> 31;
    const float size = fb::bits<float>(raw & 0x7fffffff);
    if (size != size) return sign << 3;
    const float limited = size < 0x1p20f ? size : 0x1p20f;
    const int smallest = 1 - format.bias();
    int exponent = exponent_of(limited);
    // Upstream: without a significand, numbers below the smallest one are not rounded up to it.
    if (!format.significand_bits && exponent < smallest) return sign << 3;
    exponent = exponent < smallest ? smallest : exponent;
    // In steps of the last bit that is kept; both factors are powers of two, so that nothing is lost.
    const float steps = limited * fb::bits<float>(uint32_t(127 + format.significand_bits - exponent) << 23);
    const float fraction = stochastic ? float(chance >> 8) * 0x1p-24f : 0.5f;
    uint32_t whole = uint32_t(steps + fraction);
    const uint32_t unit = 1u << format.significand_bits;
    // `whole` counts steps; a code counts them from zero on through all exponents.
    const int64_t code = whole < unit ? int64_t(whole) : int64_t(whole) + int64_t(exponent - smallest) * unit;
    return sign << 3 | uint32_t(code < 7 ? code : 7);
}

FB_INLINE float value_of(uint32_t code, const Format& format) noexcept {
    const uint32_t unit = 1u << format.significand_bits, size = code & 7;
    const int smallest = 1 - format.bias();
    const uint32_t exponent = size >> format.significand_bits, rest = size & (unit - 1);
    const float step = fb::bits<float>(uint32_t(127 + smallest - format.significand_bits) << 23);
    const float number =
        exponent ? float(unit + rest) * step * float(1u << (exponent - 1)) : float(rest) * step;
    return code & 8 ? -number : number;
}

// Powers of two from -127 on, which floats begin a little above.
inline float power_of_two(int exponent) noexcept {
    return exponent > -127 ? fb::bits<float>(uint32_t(exponent + 127) << 23) : 0x1p-127f;
}

void encode_group(const float* values, int64_t count, int64_t size, const Format& format, bool stochastic, uint64_t seed,
                  uint8_t* output) noexcept {
    float most = 0.0f;
    for (int64_t i = 0; i < count; ++i) {
        const float one = values[i] < 0 ? -values[i] : values[i];
        most = one > most ? one : most;
    }
    const int exponent = shared_exponent(most, format, format.rounding == Rounding::Stochastic ? mixed(~seed) : 0);
    // Twice, because the inverse of the smallest power is none.
    const float half_inverse = power_of_two(-exponent - 1);
    for (int64_t i = 0; i < size / 2; ++i) output[i] = 0;
    for (int64_t i = 0; i < count; ++i) {
        const uint32_t chance = stochastic ? mixed(seed + uint64_t(i)) : 0;
        output[i / 2] |= uint8_t(code_of(values[i] * half_inverse * 2.0f, format, chance, stochastic) << (i % 2 * 4));
    }
    output[size / 2] = uint8_t(exponent + 127);
}

bool arguments_fit(fb::Call& call, const char* name, int64_t group, int64_t exponent_bits, int64_t significand_bits) {
    if (group < 2 || group % 2) {
        call.fail("%s: mx_group_size is %lld, expected a positive even number.", name, (long long)group);
        return false;
    }
    if (exponent_bits < 2 || exponent_bits + significand_bits != 3) {
        call.fail("%s: codes of %lld bits for exponents and %lld for significands, expected 2 and 1, or 3 and 0.", name,
                  (long long)exponent_bits, (long long)significand_bits);
        return false;
    }
    return true;
}

void encode(fb::Call& call, const fb::Tensor& given, int64_t group, int64_t exponent_bits, int64_t significand_bits,
            int64_t rounding, bool stochastic, int64_t seed) noexcept {
    const char* name = "quantize_mx4";
    if (given.dim < 1 || given.dim > 16 || given.dtype != fb::DType::Float32)
        return call.fail("%s: input has shape %s and dtype %s, expected (..., columns) of float32.", name,
                         fb::Shape(given).text, fb::name(given.dtype));
    if (!arguments_fit(call, name, group, exponent_bits, significand_bits)) return;
    if (rounding < 0 || rounding > 4)
        return call.fail("%s: rounding_mode is %lld, expected 0 (nearest), 1 (floor), 2 (even), 3 (stochastic) or 4 "
                         "(ceil).",
                         name, (long long)rounding);
    const fb::Tensor input = call.contiguous(given);
    if (!input.defined()) return;
    const Rows rows(input);
    const int64_t groups = (rows.width + group - 1) / group, bytes = group / 2 + 1;
    fb::Tensor output = with_width(call, input, fb::DType::UInt8, groups * bytes);
    if (!output.defined()) return;
    const Format format{int(exponent_bits), int(significand_bits), Rounding(rounding)};
    each_row(rows, [&](int64_t row) noexcept {
        for (int64_t g = 0; g < groups; ++g) {
            const int64_t from = row * rows.width + g * group, rest = rows.width - g * group;
            encode_group(input.as<float>() + from, rest < group ? rest : group, group, format, stochastic,
                         uint64_t(seed) + uint64_t(from), output.as<uint8_t>() + (row * groups + g) * bytes);
        }
    });
    call.give(output);
}

void decode(fb::Call& call, const fb::Tensor& given, int64_t group, int64_t exponent_bits,
            int64_t significand_bits) noexcept {
    const char* name = "dequantize_mx4";
    if (!arguments_fit(call, name, group, exponent_bits, significand_bits)) return;
    const int64_t bytes = group / 2 + 1;
    if (given.dim < 1 || given.dim > 16 || given.dtype != fb::DType::UInt8 || given.sizes[given.dim - 1] % bytes)
        return call.fail("%s: input has shape %s and dtype %s, expected (..., groups * %lld) of uint8.", name,
                         fb::Shape(given).text, fb::name(given.dtype), (long long)bytes);
    const fb::Tensor input = call.contiguous(given);
    if (!input.defined()) return;
    const Rows rows(input);
    const int64_t groups = rows.width / bytes;
    fb::Tensor output = with_width(call, input, fb::DType::Float32, groups * group);
    if (!output.defined()) return;
    const Format format{int(exponent_bits), int(significand_bits), Rounding::Even};
    float values[16];
    for (uint32_t code = 0; code < 16; ++code) values[code] = value_of(code, format);
    each_row(rows, [&](int64_t row) noexcept {
        for (int64_t g = 0; g < groups; ++g) {
            const uint8_t* from = input.as<uint8_t>() + (row * groups + g) * bytes;
            float* to = output.as<float>() + (row * groups + g) * group;
            const float scale = power_of_two(int(from[group / 2]) - 127);
            for (int64_t i = 0; i < group / 2; ++i) {
                to[2 * i] = values[from[i] & 15] * scale;
                to[2 * i + 1] = values[from[i] >> 4] * scale;
            }
        }
    });
    call.give(output);
}

FB_OPERATOR("quantize_mx4", encode);
FB_OPERATOR("dequantize_mx4", decode);

}  // namespace
}  // namespace rec
