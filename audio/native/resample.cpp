// Sums of neighbouring samples with weights that repeat: the core of changing a sample rate (polyphase filtering).
//
//     y[i] = sum over k of taps[i % phases][k] * x[(first + i) * orig / new - reach + k]      (x is 0 outside)
//
// and the transpose of that, which is its gradient. The weights are made in Python, see
// `flambeau.audio.functional.resampling`; their number per phase is a multiple of 8, by zeros.

#include <flambeau/kernel.h>
#include <string.h>

namespace {

constexpr int64_t lanes = 8;
constexpr int64_t grain = 4096;  // results that one piece of work should have at least

// The old sample under new sample `index`, and how far beyond it, in parts of `new_rate`; moved on without division.
struct Place {
    int64_t sample, part;

    Place(int64_t index, int64_t orig, int64_t new_rate) noexcept
        : sample(index * orig / new_rate), part(index * orig % new_rate) {}
    FB_INLINE void next(int64_t whole, int64_t rest, int64_t new_rate) noexcept {
        sample += whole;
        part += rest;
        if (part >= new_rate) {
            part -= new_rate;
            ++sample;
        }
    }
};

template <typename T>
FB_INLINE T dot(const T* x, const T* taps, int64_t count) noexcept {
    T sums[lanes] = {};
    int64_t k = 0;
    for (; k + lanes <= count; k += lanes)
        for (int64_t l = 0; l < lanes; ++l) sums[l] += x[k + l] * taps[k + l];
    for (int64_t l = 0; k < count; ++k, ++l) sums[l] += x[k] * taps[k];
    for (int64_t half = lanes / 2; half; half /= 2)
        for (int64_t l = 0; l < half; ++l) sums[l] += sums[l + half];
    return sums[0];
}

FB_INLINE int64_t larger(int64_t a, int64_t b) noexcept { return a > b ? a : b; }
FB_INLINE int64_t smaller(int64_t a, int64_t b) noexcept { return a < b ? a : b; }

// Eight sums at once, for which compilers have vectors: 8 weights of each in a vector, and one transposition for all
// eight in place of one summation across a vector for each.
#if defined(__GNUC__)
#define AUDIO_EIGHT 1
constexpr int64_t group = 8;
typedef float Eight __attribute__((vector_size(32)));

FB_INLINE void eight(const float* const (&x)[group], const float* const (&weights)[group], int64_t count,
                     float* y) noexcept {
    Eight s[group] = {};
    for (int64_t k = 0; k < count; k += lanes)
        for (int64_t i = 0; i < group; ++i) {
            Eight samples, factors;
            memcpy(&samples, x[i] + k, sizeof samples);
            memcpy(&factors, weights[i] + k, sizeof factors);
            s[i] += samples * factors;
        }
    Eight pairs[4], fours[2];
    for (int64_t i = 0; i < 4; ++i)
        pairs[i] = __builtin_shufflevector(s[2 * i], s[2 * i + 1], 0, 8, 1, 9, 4, 12, 5, 13) +
                   __builtin_shufflevector(s[2 * i], s[2 * i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    for (int64_t i = 0; i < 2; ++i)
        fours[i] = __builtin_shufflevector(pairs[2 * i], pairs[2 * i + 1], 0, 1, 8, 9, 4, 5, 12, 13) +
                   __builtin_shufflevector(pairs[2 * i], pairs[2 * i + 1], 2, 3, 10, 11, 6, 7, 14, 15);
    const Eight sums = __builtin_shufflevector(fours[0], fours[1], 0, 1, 2, 3, 8, 9, 10, 11) +
                       __builtin_shufflevector(fours[0], fours[1], 4, 5, 6, 7, 12, 13, 14, 15);
    memcpy(y, &sums, sizeof sums);
}
#endif

struct Rates {
    int64_t orig, new_rate, reach, first;
    int64_t phases, count;  // rows of weights, weights in each
};

// Where the next results of a row lie, and which weights are theirs.
struct Walk {
    const Rates& rates;
    const int64_t whole, rest;
    Place place;
    int64_t phase;

    Walk(const Rates& rates, int64_t begin) noexcept
        : rates(rates), whole(rates.orig / rates.new_rate), rest(rates.orig % rates.new_rate),
          place(rates.first + begin, rates.orig, rates.new_rate), phase(begin % rates.phases) {}
    FB_INLINE int64_t start() const noexcept { return place.sample - rates.reach; }
    FB_INLINE void next() noexcept {
        place.next(whole, rest, rates.new_rate);
        if (++phase == rates.phases) phase = 0;
    }
};

template <typename T>
FB_INLINE T gather_one(const T* x, int64_t time, const T* taps, const Walk& walk) noexcept {
    const int64_t start = walk.start(), count = walk.rates.count;
    const int64_t from = larger(0, -start), to = smaller(count, time - start);
    return from < to ? dot(x + start + from, taps + walk.phase * count + from, to - from) : T(0);
}

// y[begin, end) of one row of `time` samples.
template <typename T>
FB_INLINE void gather(const T* x, int64_t time, const T* taps, const Rates& rates, T* y, int64_t begin,
                      int64_t end) noexcept {
    Walk walk(rates, begin);
    for (int64_t i = begin; i < end; ++i, walk.next()) y[i] = gather_one(x, time, taps, walk);
}

#if defined(AUDIO_EIGHT)
// The same, by eights where all that they need is there.
template <>
FB_INLINE void gather(const float* x, int64_t time, const float* taps, const Rates& rates, float* y, int64_t begin,
                      int64_t end) noexcept {
    Walk walk(rates, begin);
    int64_t i = begin;
    if (rates.count % lanes == 0)
        for (; i < end && walk.start() < 0; ++i, walk.next()) y[i] = gather_one(x, time, taps, walk);
    while (rates.count % lanes == 0 && i + group <= end) {
        const Walk before = walk;
        const float* samples[group];
        const float* weights[group];
        for (int64_t j = 0; j < group; ++j, walk.next()) {
            samples[j] = x + walk.start();
            weights[j] = taps + walk.phase * rates.count;
        }
        if (samples[group - 1] + rates.count > x + time) {
            walk.place = before.place;
            walk.phase = before.phase;
            break;
        }
        eight(samples, weights, rates.count, y + i);
        i += group;
    }
    for (; i < end; ++i, walk.next()) y[i] = gather_one(x, time, taps, walk);
}
#endif

// g[begin, end) of one row: the transpose, for `length` results y.
template <typename T>
FB_INLINE void scatter(const T* y, int64_t length, const T* taps, const Rates& rates, T* g, int64_t begin,
                       int64_t end) noexcept {
    memset(g + begin, 0, size_t(end - begin) * sizeof(T));
    // The first result that reaches `begin`.
    const int64_t sample = larger(0, begin - rates.count + rates.reach + 1);
    const int64_t index = (sample * rates.new_rate + rates.orig - 1) / rates.orig;
    int64_t i = larger(0, index - rates.first);
    for (Walk walk(rates, i); i < length && walk.start() < end; ++i, walk.next()) {
        const int64_t start = walk.start();
        const T* weights = taps + walk.phase * rates.count;
        const T value = y[i];
        T* target = g + start;
        const int64_t to = smaller(rates.count, end - start);
        for (int64_t k = larger(0, begin - start); k < to; ++k) target[k] += weights[k] * value;
    }
}

FB_CLONES void gather_row(const float* x, int64_t time, const float* taps, const Rates& rates, float* y, int64_t begin,
                          int64_t end) noexcept {
    gather(x, time, taps, rates, y, begin, end);
}
FB_CLONES void gather_row(const double* x, int64_t time, const double* taps, const Rates& rates, double* y,
                          int64_t begin, int64_t end) noexcept {
    gather(x, time, taps, rates, y, begin, end);
}
FB_CLONES void scatter_row(const float* y, int64_t length, const float* taps, const Rates& rates, float* g,
                           int64_t begin, int64_t end) noexcept {
    scatter(y, length, taps, rates, g, begin, end);
}
FB_CLONES void scatter_row(const double* y, int64_t length, const double* taps, const Rates& rates, double* g,
                           int64_t begin, int64_t end) noexcept {
    scatter(y, length, taps, rates, g, begin, end);
}

// Calls `work(row, begin, end)` for pieces of all rows' results.
template <typename Work>
void over(int64_t rows, int64_t length, int64_t count, const Work& work) noexcept {
    if (length <= 0) return;
    const int64_t total = rows * length;
    fb::parallel_for(0, total, larger(grain, 8 * count), fb::threads(total * count / 8),
                     [&](int64_t begin, int64_t end) noexcept {
                         while (begin < end) {
                             const int64_t row = begin / length, at = begin % length;
                             const int64_t stop = smaller(length, at + end - begin);
                             work(row, at, stop);
                             begin += stop - at;
                         }
                     });
}

}  // namespace

// fb_resample_<dtype>(x, x_stride, rows, time, taps, phases, count, orig, new, reach, first, y, length)
//
// x       rows of `time` samples, row r at r * x_stride
// taps    (phases, count), without gaps
// y       receives (rows, length), without gaps
//
// fb_resample_backward_<dtype>: the same with x and y exchanged: reads rows of `length`, receives (rows, time).
#define AUDIO_RESAMPLE(dtype, T)                                                                                    \
    FB_EXPORT void fb_resample_##dtype(const T* x, int64_t x_stride, int64_t rows, int64_t time, const T* taps,     \
                                       int64_t phases, int64_t count, int64_t orig, int64_t new_rate,              \
                                       int64_t reach, int64_t first, T* y, int64_t length) noexcept {              \
        const Rates rates{orig, new_rate, reach, first, phases, count};                                            \
        over(rows, length, count, [&](int64_t row, int64_t begin, int64_t end) noexcept {                          \
            gather_row(x + row * x_stride, time, taps, rates, y + row * length, begin, end);                       \
        });                                                                                                        \
    }                                                                                                              \
    FB_EXPORT void fb_resample_backward_##dtype(const T* y, int64_t y_stride, int64_t rows, int64_t length,        \
                                                const T* taps, int64_t phases, int64_t count, int64_t orig,        \
                                                int64_t new_rate, int64_t reach, int64_t first, T* g,              \
                                                int64_t time) noexcept {                                           \
        const Rates rates{orig, new_rate, reach, first, phases, count};                                            \
        over(rows, time, count, [&](int64_t row, int64_t begin, int64_t end) noexcept {                            \
            scatter_row(y + row * y_stride, length, taps, rates, g + row * time, begin, end);                      \
        });                                                                                                        \
    }
AUDIO_RESAMPLE(f32, float)
AUDIO_RESAMPLE(f64, double)

namespace {

// The same sentences as `_check` in `flambeau/audio/functional/_polyphase.py`.
bool valid(fb::Call& call, const char* op, const fb::Tensor& input, const fb::Tensor& taps, int64_t orig,
           int64_t new_rate, int64_t first, int64_t length) noexcept {
    if (input.dim != 2)
        call.fail("%s: the input has shape %s, expected (rows, time).", op, fb::Shape(input).text);
    else if (input.dtype != fb::DType::Float32 && input.dtype != fb::DType::Float64)
        call.fail("%s: the input has dtype %s, expected float32 or float64.", op, fb::name(input.dtype));
    else if (taps.dim != 2 || taps.dtype != input.dtype || (taps.sizes[0] == 0 && length > 0))
        call.fail("%s: taps is %s of shape %s, expected (phases, weights) in the input's dtype.", op,
                  fb::name(taps.dtype), fb::Shape(taps).text);
    else if (orig < 1 || new_rate < 1 || first < 0 || length < 0)
        call.fail("%s: orig, new, first and length are %lld, %lld, %lld and %lld; expected at least 1, 1, 0 and 0.", op,
                  static_cast<long long>(orig), static_cast<long long>(new_rate), static_cast<long long>(first),
                  static_cast<long long>(length));
    else
        return true;
    return false;
}

template <typename T>
using Kernel = void (*)(const T*, int64_t, int64_t, int64_t, const T*, int64_t, int64_t, int64_t, int64_t, int64_t,
                        int64_t, T*, int64_t) noexcept;

template <typename T>
void run(Kernel<T> kernel, const fb::Tensor& input, const fb::Tensor& taps, int64_t orig, int64_t new_rate,
         int64_t reach, int64_t first, const fb::Tensor& result) noexcept {
    kernel(input.as<T>(), input.strides[0], input.sizes[0], input.sizes[1], taps.as<T>(), taps.sizes[0], taps.sizes[1],
           orig, new_rate, reach, first, result.as<T>(), result.sizes[1]);
}

void apply(fb::Call& call, const char* op, Kernel<float> single, Kernel<double> wide, const fb::Tensor& input,
           const fb::Tensor& taps, int64_t orig, int64_t new_rate, int64_t reach, int64_t first,
           int64_t length) noexcept {
    if (!valid(call, op, input, taps, orig, new_rate, first, length)) return;
    const bool direct = input.strides[1] == 1 || input.sizes[1] <= 1;
    const fb::Tensor source = direct ? call.borrow(input) : call.contiguous(input);
    const fb::Tensor weights = call.contiguous(taps);
    fb::Tensor result = call.empty(input.dtype, {input.sizes[0], length});
    if (!source.defined() || !weights.defined() || !result.defined()) return;
    if (input.dtype == fb::DType::Float32)
        run<float>(single, source, weights, orig, new_rate, reach, first, result);
    else
        run<double>(wide, source, weights, orig, new_rate, reach, first, result);
    call.give(result);
}

void resample(fb::Call& call, const fb::Tensor& waveform, const fb::Tensor& taps, int64_t orig, int64_t new_rate,
              int64_t reach, int64_t first, int64_t length) noexcept {
    apply(call, "resample", fb_resample_f32, fb_resample_f64, waveform, taps, orig, new_rate, reach, first, length);
}

void resample_backward(fb::Call& call, const fb::Tensor& grad, const fb::Tensor& taps, int64_t orig, int64_t new_rate,
                       int64_t reach, int64_t first, int64_t time) noexcept {
    apply(call, "_resample_backward", fb_resample_backward_f32, fb_resample_backward_f64, grad, taps, orig, new_rate,
          reach, first, time);
}

FB_OPERATOR("resample", resample);
FB_OPERATOR("_resample_backward", resample_backward);

}  // namespace
