// Recursive filters, y[t] = sum_k b[k] x[t - k] - sum_{k > 0} a[k] y[t - k], over rows of samples.
//
// Sums are kept in double whatever the samples are: the rounding of a feedback of floats grows with the order and with
// every pole's nearness to the unit circle.

#include <flambeau/kernel.h>

#include <cmath>
#include <new>

namespace {

// Samples between two looks at whether the filter has fallen silent.
constexpr int64_t kStretch = 1024;
// A state below this decays no further: denormal numbers would be slow, and are of no use.
constexpr double kSilence = 1e-250;

inline double settle(double value) noexcept { return std::fabs(value) < kSilence ? 0.0 : value; }

// Up to two poles and two zeros, for `kRows` rows at once: each row waits for its own last sample, so that the
// processor works on the others meanwhile. Rows of missing taps have coefficients of zero.
template <typename T, int kRows>
void second_order(const T* const* x, const double (*a)[3], const double (*b)[3], T* const* y, int64_t size) noexcept {
    double x1[kRows] = {}, x2[kRows] = {}, y1[kRows] = {}, y2[kRows] = {};
    for (int64_t begin = 0; begin < size; begin += kStretch) {
        const int64_t end = begin + kStretch < size ? begin + kStretch : size;
        for (int64_t t = begin; t < end; ++t) {
            for (int r = 0; r < kRows; ++r) {
                const double in = double(x[r][t]);
                const double forward = b[r][0] * in + b[r][1] * x1[r] + b[r][2] * x2[r];
                const double out = (forward - a[r][2] * y2[r]) - a[r][1] * y1[r];
                x2[r] = x1[r];
                x1[r] = in;
                y2[r] = y1[r];
                y1[r] = out;
                y[r][t] = T(out);
            }
        }
        for (int r = 0; r < kRows; ++r) y1[r] = settle(y1[r]), y2[r] = settle(y2[r]);
    }
}

// The transposed direct form. The order is known to the compiler, which keeps all of it in registers.
template <typename T, int kOrder>
void fixed_order(const T* x, const double* a, const double* b, T* y, int64_t size) noexcept {
    double poles[kOrder + 1], zeros[kOrder + 1], state[kOrder + 1] = {};
    for (int k = 0; k <= kOrder; ++k) poles[k] = a[k], zeros[k] = b[k];
    for (int64_t begin = 0; begin < size; begin += kStretch) {
        const int64_t end = begin + kStretch < size ? begin + kStretch : size;
        for (int64_t t = begin; t < end; ++t) {
            const double in = double(x[t]);
            const double out = zeros[0] * in + state[0];
            // state[kOrder] stays 0. What does not need `out` is ready before it.
            for (int k = 0; k < kOrder; ++k) state[k] = (state[k + 1] + zeros[k + 1] * in) - poles[k + 1] * out;
            y[t] = T(out);
        }
        for (int k = 0; k < kOrder; ++k) state[k] = settle(state[k]);
    }
}

// Any order: `state` holds order values.
template <typename T>
void any_order(const T* x, const double* a, const double* b, T* y, int64_t size, int64_t order, double* state) noexcept {
    for (int64_t k = 0; k < order; ++k) state[k] = 0;
    for (int64_t begin = 0; begin < size; begin += kStretch) {
        const int64_t end = begin + kStretch < size ? begin + kStretch : size;
        for (int64_t t = begin; t < end; ++t) {
            const double in = double(x[t]);
            const double out = b[0] * in + state[0];
            for (int64_t k = 0; k + 1 < order; ++k) state[k] = state[k + 1] + b[k + 1] * in - a[k + 1] * out;
            state[order - 1] = b[order] * in - a[order] * out;
            y[t] = T(out);
        }
        for (int64_t k = 0; k < order; ++k) state[k] = settle(state[k]);
    }
}

template <typename T>
struct Job {
    const T* x;
    const double* a;  // filters x taps
    const double* b;
    T* y;
    int64_t filters, size, taps;

    template <int kRows>
    void second(int64_t row) const noexcept {
        const T* in[kRows];
        T* out[kRows];
        double poles[kRows][3] = {}, zeros[kRows][3] = {};
        for (int r = 0; r < kRows; ++r) {
            in[r] = x + (row + r) * size;
            out[r] = y + (row + r) * size;
            const int64_t filter = (row + r) % filters;
            for (int64_t k = 0; k < taps; ++k) {
                poles[r][k] = a[filter * taps + k];
                zeros[r][k] = b[filter * taps + k];
            }
        }
        second_order<T, kRows>(in, poles, zeros, out, size);
    }

    void one(const T* in, const double* poles, const double* zeros, T* out, double* state) const noexcept {
        switch (taps - 1) {
            case 3: return fixed_order<T, 3>(in, poles, zeros, out, size);
            case 4: return fixed_order<T, 4>(in, poles, zeros, out, size);
            case 5: return fixed_order<T, 5>(in, poles, zeros, out, size);
            case 6: return fixed_order<T, 6>(in, poles, zeros, out, size);
            case 7: return fixed_order<T, 7>(in, poles, zeros, out, size);
            case 8: return fixed_order<T, 8>(in, poles, zeros, out, size);
            default: return any_order(in, poles, zeros, out, size, taps - 1, state);
        }
    }

    void rows(int64_t begin, int64_t end, double* state) const noexcept {
        if (taps > 3) {
            for (int64_t row = begin; row < end; ++row) {
                const int64_t filter = row % filters;
                one(x + row * size, a + filter * taps, b + filter * taps, y + row * size, state);
            }
            return;
        }
        for (; begin + 4 <= end; begin += 4) second<4>(begin);
        for (; begin + 2 <= end; begin += 2) second<2>(begin);
        for (; begin < end; ++begin) second<1>(begin);
    }
};

template <typename T>
int64_t run(const T* x, const double* a, const double* b, T* y, int64_t rows, int64_t filters, int64_t size, int64_t taps,
            int32_t nthreads) noexcept {
    const Job<T> job{x, a, b, y, filters, size, taps};
    const int64_t pieces = nthreads < rows ? nthreads : rows;
    if (pieces < 1) return 0;
    const int64_t share = (rows + pieces - 1) / pieces;
    double* states = new (std::nothrow) double[size_t(pieces * taps)];
    if (!states) return -1;
    fb::parallel_for(0, pieces, 1, nthreads, [&](int64_t begin, int64_t end) noexcept {
        for (int64_t piece = begin; piece < end; ++piece) {
            const int64_t last = (piece + 1) * share < rows ? (piece + 1) * share : rows;
            if (piece * share < last) job.rows(piece * share, last, states + piece * taps);
        }
    });
    delete[] states;
    return 0;
}

}  // namespace

// int64_t fb_lfilter_<dtype>(x, a, b, y, rows, filters, size, taps, nthreads)
//
// x, y      rows x size samples; row r belongs to filter r % filters
// a, b      filters x taps coefficients, lower delays first; a[0] is taken to be 1 and not read
// returns   0, or -1 when there is no memory
FB_EXPORT int64_t fb_lfilter_f32(const float* x, const double* a, const double* b, float* y, int64_t rows,
                                 int64_t filters, int64_t size, int64_t taps, int32_t nthreads) noexcept {
    return run(x, a, b, y, rows, filters, size, taps, nthreads);
}
FB_EXPORT int64_t fb_lfilter_f64(const double* x, const double* a, const double* b, double* y, int64_t rows,
                                 int64_t filters, int64_t size, int64_t taps, int32_t nthreads) noexcept {
    return run(x, a, b, y, rows, filters, size, taps, nthreads);
}

namespace {

// The same sentences as `_check` in `flambeau/audio/functional/iir.py`.
bool valid(fb::Call& call, const fb::Tensor& x, const fb::Tensor& a, const fb::Tensor& b) noexcept {
    if (x.dim != 3)
        call.fail("lfilter: waveform has shape %s, expected (batch, filters, time).", fb::Shape(x).text);
    else if (x.dtype != fb::DType::Float32 && x.dtype != fb::DType::Float64)
        call.fail("lfilter: waveform has dtype %s, expected float32 or float64; convert it.", fb::name(x.dtype));
    else if (a.dtype != fb::DType::Float64 || b.dtype != fb::DType::Float64)
        call.fail("lfilter: coefficients have dtypes %s and %s, expected float64.", fb::name(a.dtype), fb::name(b.dtype));
    else if (a.dim != 2 || b.dim != 2 || a.sizes[0] != x.sizes[1] || b.sizes[0] != x.sizes[1] ||
             a.sizes[1] != b.sizes[1] || a.sizes[1] < 1)
        call.fail("lfilter: coefficients have shapes %s and %s, expected (%lld, taps) both.", fb::Shape(a).text,
                  fb::Shape(b).text, static_cast<long long>(x.sizes[1]));
    else
        return true;
    return false;
}

void lfilter(fb::Call& call, const fb::Tensor& waveform, const fb::Tensor& a_coeffs, const fb::Tensor& b_coeffs) noexcept {
    if (!valid(call, waveform, a_coeffs, b_coeffs)) return;
    const fb::Tensor x = call.contiguous(waveform), a = call.contiguous(a_coeffs), b = call.contiguous(b_coeffs);
    fb::Tensor y = call.empty(waveform.dtype, waveform.sizes, waveform.dim);
    if (!x.defined() || !a.defined() || !b.defined() || !y.defined()) return;
    const int64_t filters = x.sizes[1], rows = x.sizes[0] * filters, size = x.sizes[2], taps = a.sizes[1];
    const int32_t nthreads = fb::threads(rows * size * taps);
    const int64_t status = x.dtype == fb::DType::Float32
                               ? fb_lfilter_f32(x.as<float>(), a.as<double>(), b.as<double>(), y.as<float>(), rows,
                                                filters, size, taps, nthreads)
                               : fb_lfilter_f64(x.as<double>(), a.as<double>(), b.as<double>(), y.as<double>(), rows,
                                                filters, size, taps, nthreads);
    if (status < 0) return call.fail("lfilter: no memory left for the filters' states.");
    call.give(y);
}

FB_OPERATOR("lfilter", lfilter);

}  // namespace
