// Weights of resampling filters as fixed-point integers.

#pragma once

#include <math.h>
#include <stdint.h>

#include "workspace.h"

namespace vision {

// Fraction bits of what the first direction hands to the second: int16 then holds the 255 * 1.4 that a cubic may give.
constexpr int32_t line_bits = 6;

// For each place of a row (or column) of the result: which source places it is the weighted sum of. Neither their first
// nor their last goes back from place to place.
struct Weights {
    Array<int32_t> first, count;
    Array<int16_t> values;  // `stride` for each place, zeros after its `count`
    int64_t stride = 0;     // even
    int32_t bits = 0;       // the weights of a place sum to 1 << bits
    int64_t begin = 0, end = 0;  // the source places that are needed

    // For places [from, from + places) of `out` ones that `in` are resized to. False when there is no memory.
    bool make(int64_t in, int64_t out, int64_t from, int64_t places, bool cubic, bool antialias) noexcept;
};

inline double triangle(double x) noexcept {
    x = x < 0 ? -x : x;
    return x < 1 ? 1 - x : 0;
}

// Keys 1981, "Cubic convolution interpolation for digital image processing".
inline double cubic_kernel(double x, double a) noexcept {
    x = x < 0 ? -x : x;
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
    return 0;
}

// Rounds sums from the left rather than weights one by one: they sum to `one` exactly, and what rounding takes from one
// weight its neighbour gets, so that even thousands of tiny weights stay right together.
inline void quantize(const double* weights, int64_t count, double total, double one, int16_t* values) noexcept {
    constexpr int64_t far = 1 << 20;
    double sum = 0;
    int64_t before = 0;
    for (int64_t k = 0; k < count; ++k) {
        sum += weights[k];
        const int64_t now = int64_t(sum / total * one + (far + 0.5)) - far;  // rounds down below 0 as well
        values[k] = int16_t(now - before);
        before = now;
    }
}

inline bool Weights::make(int64_t in, int64_t out, int64_t from, int64_t places, bool cubic, bool antialias) noexcept {
    const double scale = double(in) / double(out);
    const double widening = antialias && scale > 1 ? scale : 1;
    const double support = (cubic ? 2 : 1) * widening;
    // With a low-pass filter Pillow's cubic, else that of torch's interpolation.
    const double a = antialias ? -0.5 : -0.75;
    const int64_t most = int64_t(ceil(support)) * 2 + 1;
    stride = (most + 1) / 2 * 2;
    Array<double> given;
    if (places > 0 && stride > INT64_MAX / 64 / places) return false;
    if (!first.make(places) || !count.make(places) || !values.make(places * stride) || !given.make(most)) return false;

    bits = widening < 1.5 ? 14 : 15;  // a weight may be 1 itself, or a little less: int16 has to hold it
    begin = in;
    end = 0;
    for (int64_t place = 0; place < places; ++place) {
        const double center = (double(from + place) + 0.5) * scale;
        int64_t low, high;
        if (antialias || !cubic) {
            low = int64_t(floor(center - support + 0.5));
            high = int64_t(floor(center + support + 0.5));
            low = low < 0 ? 0 : low;
            high = high > in ? in : high;
            for (int64_t k = low; k < high; ++k) {
                const double x = (double(k) + 0.5 - center) / widening;
                given[k - low] = cubic ? cubic_kernel(x, a) : triangle(x);
            }
        } else {  // outside of the picture its border goes on
            const double left = floor(center - 0.5);
            low = int64_t(left) - 1 < 0 ? 0 : int64_t(left) - 1;
            high = int64_t(left) + 3 > in ? in : int64_t(left) + 3;
            for (int64_t k = low; k < high; ++k) given[k - low] = 0;
            for (int64_t k = int64_t(left) - 1; k < int64_t(left) + 3; ++k) {
                const int64_t inside = k < low ? low : k >= high ? high - 1 : k;
                given[inside - low] += cubic_kernel(double(k) + 0.5 - center, a);
            }
        }
        // The edges of a triangle weigh nothing. (A cubic's zeros lie inside of it: to cut there would mix up the order.)
        int64_t skipped = 0;
        if (!cubic) {
            while (high - low > 1 && given[high - low - 1] == 0) --high;
            while (high - low - skipped > 1 && given[skipped] == 0) ++skipped;
            low += skipped;
        }
        double total = 0;
        for (int64_t k = 0; k < high - low; ++k) total += given[skipped + k];
        int16_t* row = values.get() + place * stride;
        for (int64_t k = high - low; k < stride; ++k) row[k] = 0;
        quantize(given.get() + skipped, high - low, total, double(1 << bits), row);
        first[place] = int32_t(low);
        count[place] = int32_t(high - low);
        begin = low < begin ? low : begin;
        end = high > end ? high : end;
    }
    return true;
}

}  // namespace vision
