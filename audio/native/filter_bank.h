// Filters over frequencies, of whose weights most are 0: the range in which each has others.

#pragma once

#include "eight.h"

namespace filter_bank {

struct Band {
    int32_t begin, end;  // frequencies
    const float* weights;
};

// Where the weights of each band begin and end. Forwards the last that is not 0 stays, backwards the first: choices
// between two numbers, which are made for many bands at once.
FB_CLONES static void find_ranges(const float* filters, int32_t frequencies, int64_t count, int64_t stride,
                                  int32_t* begins, int32_t* ends) noexcept {
    for (int64_t b = 0; b < count; ++b) {
        begins[b] = frequencies;
        ends[b] = 0;
    }
    for (int32_t k = 0; k < frequencies; ++k) {
        const float *up = filters + k * stride, *down = filters + (frequencies - 1 - k) * stride;
        for (int64_t b = 0; b < count; ++b) {
            ends[b] = up[b] != 0 ? k + 1 : ends[b];
            begins[b] = down[b] != 0 ? frequencies - 1 - k : begins[b];
        }
    }
}

// The bands of a dense matrix (frequencies, bands), row k at k * stride.
class Bands {
  public:
    Bands(const float* filters, int64_t frequencies, int64_t count, int64_t stride) noexcept
        : memory_(static_cast<char*>(malloc(size_t(count + 1) * (sizeof(Band) + 2 * sizeof(int32_t)) +
                                            size_t(frequencies * count) * sizeof(float)))) {
        if (!memory_) return;
        Band* bands = reinterpret_cast<Band*>(memory_);
        int32_t* begins = reinterpret_cast<int32_t*>(bands + count);
        int32_t* ends = begins + count;
        find_ranges(filters, int32_t(frequencies), count, stride, begins, ends);
        float* weights = reinterpret_cast<float*>(ends + count);
        for (int64_t b = 0; b < count; ++b) {
            bands[b] = Band{begins[b], ends[b], weights};
            for (int64_t k = begins[b]; k < ends[b]; ++k) *weights++ = filters[k * stride + b];
        }
    }
    Bands(const Bands&) = delete;
    ~Bands() { free(memory_); }

    explicit operator bool() const noexcept { return memory_ != nullptr; }
    const Band& operator[](int64_t b) const noexcept { return reinterpret_cast<const Band*>(memory_)[b]; }

  private:
    char* memory_;
};

// sums[l] = what the band lets pass of `width` neighbours; frequency k of them lies at x + k * stride.
template <int64_t width>
FB_INLINE void pass(const Band& band, const float* x, int64_t stride, float* sums) noexcept {
    constexpr int64_t count = width / lanes;
    Eight kept[count] = {};
    for (int64_t k = band.begin; k < band.end; ++k) {
        const float weight = band.weights[k - band.begin];
        for (int64_t i = 0; i < count; ++i) {
            Eight row;
            memcpy(&row, x + k * stride + i * lanes, sizeof row);
            kept[i] += weight * row;
        }
    }
    memcpy(sums, kept, sizeof kept);
}

}  // namespace filter_bank
