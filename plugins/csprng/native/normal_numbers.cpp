// Normal numbers by Box and Muller (1958): sqrt(-2 log(1 - u2)) cos(2 pi u1), u1 and u2 of [0, 1) in steps of 2^-53.
//
// Each element has the two words of one block. Logarithm and cosine are polynomials, without branches and tables, so that
// loops become vectors and no bit depends on which instructions those are. Both are evaluated in float64; of float32 they
// have as many terms as rounding to it leaves to be seen.

#include "stream.h"

#include <math.h>

namespace csprng {
namespace {

FB_INLINE double from_bits(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
FB_INLINE uint64_t bits_of(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

// The low 53 bits of a word as a number. 2^52 + n is what an exponent and the 52 bits of n say; bit 53 says whether to keep
// that 2^52. (Processors before AVX-512 convert no vectors of 64-bit integers.)
FB_INLINE double low_53(uint64_t word) {
    const uint64_t one = 0x4330000000000000;  // 2^52
    const double known = from_bits((word & 0xfffffffffffff) | one);
    return known - (word & 0x10000000000000 ? 0.0 : 0x1p52);
}

template <typename Out>
struct Terms;

// Of 2 atanh(s) / s in s^2, |s| <= (sqrt 2 - 1) / (sqrt 2 + 1), and of sin(2 pi w) / w in w^2, |w| <= 1/4: interpolation at
// Chebyshev's nodes. Relative errors 4e-12 and 3e-11.
template <>
struct Terms<float> {
    static constexpr double log[] = {0x1.0000000004991p+1, 0x1.555554db60926p-1, 0x1.999a9bd409d19p-2,
                                     0x1.2432e793be597p-2, 0x1.e3aa7f87ec3e2p-3};
    static constexpr double sin[] = {0x1.921fb54425516p+2,  -0x1.4abbce51c31dap+5, 0x1.466bc06900900p+6,
                                     -0x1.32d12ebe6b560p+6, 0x1.5014072bd9ca2p+5,  -0x1.cc9b5f3456b49p+3};
};
// 3e-18 and 4e-17.
template <>
struct Terms<double> {
    static constexpr double log[] = {0x1.0000000000000p+1, 0x1.55555555555aep-1, 0x1.999999997ae5dp-2,
                                     0x1.2492494518370p-2, 0x1.c71c4ffcc4142p-3, 0x1.74669a1004d6ep-3,
                                     0x1.3999ab33ca2e3p-3, 0x1.2f4e5bc67e798p-3};
    static constexpr double sin[] = {0x1.921fb54442d18p+2,  -0x1.4abbce625be52p+5, 0x1.466bc6775aa7dp+6,
                                     -0x1.32d2cce627c86p+6, 0x1.5078348551854p+5,  -0x1.e3074dfaf87afp+3,
                                     0x1.e8f3675ee37ddp+1,  -0x1.6f7acdb8f6580p-1, 0x1.9d462020fcc78p-4};
};

template <size_t count>
FB_INLINE double polynomial(const double (&terms)[count], double x) {
    double value = terms[count - 1];
    for (size_t i = count - 1; i-- > 0;) value = value * x + terms[i];
    return value;
}

// The natural logarithm of n 2^-53, n of 1 to 2^53.
template <typename Out>
FB_INLINE double logarithm(double n) {
    const uint64_t root = 0x3fe6a09e667f3bcd, one = 0x3ff0000000000000;  // 1/sqrt(2), 1
    const uint64_t shifted = bits_of(n) + (one - root);
    const double exponent = from_bits((shifted >> 52) | 0x4330000000000000) - (0x1p52 + 1023 + 53);
    const double mantissa = from_bits((shifted & 0xfffffffffffff) + root);  // of [1/sqrt(2), sqrt(2))
    const double f = mantissa - 1, s = f / (f + 2);
    // ln 2 in two parts, of which the first times an exponent is exact.
    const double high = 0x1.62e42fefa3800p-1, low = 0x1.ef35793c76730p-45;
    return exponent * high + (exponent * low + s * polynomial(Terms<Out>::log, s * s));
}

// cos(2 pi u) for u of [0, 1): the sine of what is left to a quarter, which is exact.
template <typename Out>
FB_INLINE double cosine_of_turn(double u) {
    const double back = 1 - u, w = 0.25 - (u < back ? u : back);
    return w * polynomial(Terms<Out>::sin, w * w);
}

template <typename Out>
FB_INLINE void normal(const uint64_t* words, int64_t count, double mean, double deviation, Out* to) {
    for (int64_t i = 0; i < count; ++i) {
        const double turn = low_53(words[2 * i]) * 0x1p-53, left = 0x1p53 - low_53(words[2 * i + 1]);
        const double radius = sqrt(-2 * logarithm<Out>(left));
        to[i] = Out(radius * cosine_of_turn<Out>(turn) * deviation + mean);
    }
}

FB_CLONES static void normal_f32(const uint64_t* words, int64_t count, double mean, double deviation, float* to) {
    normal(words, count, mean, deviation, to);
}
FB_CLONES static void normal_f64(const uint64_t* words, int64_t count, double mean, double deviation, double* to) {
    normal(words, count, mean, deviation, to);
}

}  // namespace
}  // namespace csprng

// Normal numbers of a mean and a standard deviation. `kind` is that of float32 or float64; else nothing is done: 1.
FB_EXPORT int32_t fb_fill_normal(const uint8_t* key, void* to, int64_t total, int32_t kind, double mean,
                                 double deviation, int32_t nthreads) noexcept {
    using namespace csprng;
    const bool wide = Kind(kind) == Kind::f64;
    if (!wide && Kind(kind) != Kind::f32) return 1;
    over_words<uint64_t>(key, 2 * total, nthreads,
                         [&](const aes::Engine&, const aes::Schedule&, int64_t first, const uint64_t* words,
                             int64_t count) noexcept {
                             if (wide)
                                 normal_f64(words, count / 2, mean, deviation, static_cast<double*>(to) + first / 2);
                             else
                                 normal_f32(words, count / 2, mean, deviation, static_cast<float*>(to) + first / 2);
                         });
    return 0;
}

namespace csprng {
namespace {

void fill_normal(fb::Call& call, const fb::Tensor& output, const fb::Tensor& given_key, double mean,
                 double deviation) noexcept {
    const char* op = "fill_normal";
    if (!checked_key(call, op, given_key)) return;
    const fb::Tensor key = call.contiguous(given_key);
    if (!key.defined()) return;
    const Kind kind = kind_of(output.dtype);
    if ((kind != Kind::f32 && kind != Kind::f64) || !output.contiguous()) {
        checked_output(call, op, output, "float32 or float64");
        return;
    }
    fb_fill_normal(key.as<uint8_t>(), output.data, output.numel(), int32_t(kind), mean, deviation,
                   fb::threads(output.numel()));
}

FB_OPERATOR("fill_normal", fill_normal);

}  // namespace
}  // namespace csprng
