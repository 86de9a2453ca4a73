// Filters over frequencies, of whose weights most are 0: the range in which each has others.

#pragma once

#include <flambeau/kernel.h>

namespace filter_bank {

struct Band {
    int64_t begin, end;  // frequencies
    const float* weights;
};

// The bands of a dense matrix (frequencies, bands), row k at k * stride.
class Bands {
  public:
    Bands(const float* filters, int64_t frequencies, int64_t count, int64_t stride) noexcept
        : memory_(static_cast<char*>(malloc(size_t(count + 1) * sizeof(Band) +
                                            size_t(frequencies * count) * sizeof(float)))) {
        if (!memory_) return;
        Band* bands = reinterpret_cast<Band*>(memory_);
        for (int64_t b = 0; b < count; ++b) bands[b] = Band{frequencies, 0, nullptr};
        for (int64_t k = 0; k < frequencies; ++k)
            for (int64_t b = 0; b < count; ++b)
                if (filters[k * stride + b] != 0) {
                    if (k < bands[b].begin) bands[b].begin = k;
                    bands[b].end = k + 1;
                }
        float* weights = reinterpret_cast<float*>(bands + count);
        for (int64_t b = 0; b < count; ++b) {
            bands[b].weights = weights;
            for (int64_t k = bands[b].begin; k < bands[b].end; ++k) *weights++ = filters[k * stride + b];
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
FB_INLINE void pass(const Band& band, const float* x, int64_t stride, float (&sums)[width]) noexcept {
    for (int64_t l = 0; l < width; ++l) sums[l] = 0;
    for (int64_t k = band.begin; k < band.end; ++k) {
        const float weight = band.weights[k - band.begin];
        const float* row = x + k * stride;
        for (int64_t l = 0; l < width; ++l) sums[l] += weight * row[l];
    }
}

}  // namespace filter_bank
