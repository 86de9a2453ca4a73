// Normalised cross-correlation of each frame with what follows it, at every lag: the pitch detector's work.

#include <flambeau/kernel.h>

#include <cmath>

namespace {

// Sums kept side by side: what lets the compiler use wide registers although it may not reorder sums by itself.
constexpr int kLanes = 16;

template <typename T>
struct Sums {
    T product, energy;
};

// sum here[i] * there[i] and sum there[i]^2.
template <typename T>
FB_INLINE Sums<T> sums_of(const T* here, const T* there, int64_t count) noexcept {
    T product[kLanes] = {}, energy[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes)
        for (int k = 0; k < kLanes; ++k) {
            product[k] += here[i + k] * there[i + k];
            energy[k] += there[i + k] * there[i + k];
        }
    for (; i < count; ++i) {
        product[0] += here[i] * there[i];
        energy[0] += there[i] * there[i];
    }
    Sums<T> sums{0, 0};
    for (int k = 0; k < kLanes; ++k) {
        sums.product += product[k];
        sums.energy += energy[k];
    }
    return sums;
}

template <typename T>
FB_INLINE T norm(T energy) noexcept {
    const T root = T(1e-9) + std::sqrt(energy);
    return root * root;
}

// One frame at all lags.
template <typename T>
FB_INLINE void correlate(const T* row, int64_t time, int64_t start, int64_t frame, int64_t lags, T* result) noexcept {
    const int64_t size = start + frame < time ? frame : time - start;  // past the end all is 0
    const T own = norm(sums_of(row + start, row + start, size).energy);
    for (int64_t lag = 1; lag <= lags; ++lag) {
        const int64_t from = start + lag;
        const int64_t both = from >= time ? 0 : (from + frame < time ? frame : time - from);
        const Sums<T> sums = sums_of(row + start, row + from, both);
        result[lag - 1] = sums.product / own / norm(sums.energy);
    }
}

FB_CLONES void correlate_f32(const float* row, int64_t time, int64_t start, int64_t frame, int64_t lags,
                             float* result) noexcept {
    correlate(row, time, start, frame, lags, result);
}
FB_CLONES void correlate_f64(const double* row, int64_t time, int64_t start, int64_t frame, int64_t lags,
                             double* result) noexcept {
    correlate(row, time, start, frame, lags, result);
}

template <typename T, typename Kernel>
void run(const T* x, T* result, int64_t rows, int64_t time, int64_t frame, int64_t lags, int32_t nthreads,
         Kernel one) noexcept {
    const int64_t frames = (time + frame - 1) / frame;
    fb::parallel_for(0, rows * frames, 16, nthreads, [&](int64_t begin, int64_t end) noexcept {
        for (int64_t i = begin; i < end; ++i)
            one(x + i / frames * time, time, i % frames * frame, frame, lags, result + i * lags);
    });
}

}  // namespace

// void fb_nccf_<dtype>(x, result, rows, time, frame, lags, nthreads)
//
// x         rows x time
// result    rows x frames x lags, frames = ceil(time / frame); entry l is of lag l + 1
FB_EXPORT void fb_nccf_f32(const float* x, float* result, int64_t rows, int64_t time, int64_t frame, int64_t lags,
                           int32_t nthreads) noexcept {
    run(x, result, rows, time, frame, lags, nthreads, correlate_f32);
}
FB_EXPORT void fb_nccf_f64(const double* x, double* result, int64_t rows, int64_t time, int64_t frame, int64_t lags,
                           int32_t nthreads) noexcept {
    run(x, result, rows, time, frame, lags, nthreads, correlate_f64);
}

namespace {

// The same sentences as `_check` in `flambeau/audio/functional/pitch_detection.py`.
void nccf(fb::Call& call, const fb::Tensor& waveform, int64_t frame, int64_t lags) noexcept {
    if (waveform.dim != 2)
        return call.fail("nccf: waveform has shape %s, expected (rows, time).", fb::Shape(waveform).text);
    if (waveform.dtype != fb::DType::Float32 && waveform.dtype != fb::DType::Float64)
        return call.fail("nccf: waveform has dtype %s, expected float32 or float64; convert it.",
                         fb::name(waveform.dtype));
    if (frame < 1 || lags < 1)
        return call.fail("nccf: frame is %lld and lags is %lld, expected numbers above 0.", static_cast<long long>(frame),
                         static_cast<long long>(lags));
    const fb::Tensor x = call.contiguous(waveform);
    const int64_t rows = waveform.sizes[0], time = waveform.sizes[1], frames = (time + frame - 1) / frame;
    fb::Tensor result = call.empty(waveform.dtype, {rows, frames, lags});
    if (!x.defined() || !result.defined()) return;
    const int32_t nthreads = fb::threads(rows * time * lags);
    if (waveform.dtype == fb::DType::Float32)
        fb_nccf_f32(x.as<float>(), result.as<float>(), rows, time, frame, lags, nthreads);
    else
        fb_nccf_f64(x.as<double>(), result.as<double>(), rows, time, frame, lags, nthreads);
    call.give(result);
}

FB_OPERATOR("nccf", nccf);

}  // namespace
