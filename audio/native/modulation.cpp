// Delay lines whose length moves with a table: the phaser's echo, and the flanger's interpolated tap with feedback.
//
// Histories are read from the results themselves instead of from a ring: what lies before the first sample is 0. Each
// operator is linear in the samples, and its twin walks backwards in time through the same table: the gradient.

#include <flambeau/kernel.h>

#include <cmath>
#include <cstring>

namespace {

// --- echo: y[t] = x[t] + decay * y[t - delay[t % table]] ---------------------------------------------------------

template <typename T>
void echo(const T* x, const int64_t* delays, int64_t table, double decay, T* y, int64_t rows, int64_t size,
          int32_t nthreads) noexcept {
    fb::parallel_for(0, rows, 1, nthreads, [&](int64_t begin, int64_t end) noexcept {
        for (int64_t row = begin; row < end; ++row) {
            const T* in = x + row * size;
            T* out = y + row * size;
            for (int64_t t = 0, place = 0; t < size; ++t) {
                const int64_t from = t - delays[place];
                out[t] = from < 0 ? in[t] : T(in[t] + T(decay) * out[from]);
                place = place + 1 == table ? 0 : place + 1;
            }
        }
    });
}

template <typename T>
void echo_backward(const T* grad, const int64_t* delays, int64_t table, double decay, T* flow, int64_t rows, int64_t size,
                   int32_t nthreads) noexcept {
    fb::parallel_for(0, rows, 1, nthreads, [&](int64_t begin, int64_t end) noexcept {
        for (int64_t row = begin; row < end; ++row) {
            T* w = flow + row * size;
            if (size) memcpy(w, grad + row * size, size_t(size) * sizeof(T));
            int64_t place = size ? (size - 1) % table : 0;
            for (int64_t t = size; t-- > 0;) {
                const int64_t to = t - delays[place];
                if (to >= 0) w[to] += T(decay) * w[t];
                place = place ? place - 1 : table - 1;
            }
        }
    });
}

// --- tap: u[t] = x[t] + feedback * y[t - 1], y[t] = u at t - delay[t % table], interpolated ----------------------

// Weights of the samples at delays whole, whole + 1, whole + 2.
template <typename T>
struct Tap {
    int64_t whole;
    T weight[3];

    Tap(double delay, bool quadratic) noexcept : whole(int64_t(std::floor(delay))) {
        const T f = T(delay - std::floor(delay));
        if (quadratic) {
            // The parabola through three points, at f between the first two.
            weight[0] = (T(1) - f) * (T(2) - f) / T(2);
            weight[1] = f * (T(2) - f);
            weight[2] = f * (f - T(1)) / T(2);
        } else {
            weight[0] = T(1) - f;
            weight[1] = f;
            weight[2] = T(0);
        }
    }
};

struct Line {
    const double* delays;  // channels x table
    int64_t table, channels, rows, size;
    double feedback;
    bool quadratic;
    int32_t nthreads;
};

template <typename T>
void tap(const Line& given, const T* x, T* history, T* y) noexcept {
    fb::parallel_for(0, given.rows, 1, given.nthreads, [&](int64_t begin, int64_t end) noexcept {
        for (int64_t row = begin; row < end; ++row) {
            const double* delays = given.delays + row % given.channels * given.table;
            const T* in = x + row * given.size;
            T* u = history + row * given.size;
            T* out = y + row * given.size;
            T last = 0;
            for (int64_t t = 0, place = 0; t < given.size; ++t) {
                u[t] = in[t] + T(given.feedback) * last;
                const Tap<T> at(delays[place], given.quadratic);
                T sum = 0;
                for (int k = 0; k < 3; ++k) {
                    const int64_t from = t - at.whole - k;
                    if (from >= 0) sum += at.weight[k] * u[from];
                }
                out[t] = last = sum;
                place = place + 1 == given.table ? 0 : place + 1;
            }
        }
    });
}

template <typename T>
void tap_backward(const Line& given, const T* grad, T* flow) noexcept {
    fb::parallel_for(0, given.rows, 1, given.nthreads, [&](int64_t begin, int64_t end) noexcept {
        for (int64_t row = begin; row < end; ++row) {
            const double* delays = given.delays + row % given.channels * given.table;
            const T* from_output = grad + row * given.size;
            T* w = flow + row * given.size;
            for (int64_t t = 0; t < given.size; ++t) w[t] = 0;
            int64_t place = given.size ? (given.size - 1) % given.table : 0;
            for (int64_t t = given.size; t-- > 0;) {
                const T next = t + 1 < given.size ? w[t + 1] : T(0);
                const T here = from_output[t] + T(given.feedback) * next;
                const Tap<T> at(delays[place], given.quadratic);
                for (int k = 0; k < 3; ++k) {
                    const int64_t to = t - at.whole - k;
                    if (to >= 0) w[to] += at.weight[k] * here;
                }
                place = place ? place - 1 : given.table - 1;
            }
        }
    });
}

}  // namespace

// void fb_modulated_echo_<dtype>(x, delays, table, decay, y, rows, size, nthreads)
// void fb_modulated_echo_backward_<dtype>(grad, delays, table, decay, flow, rows, size, nthreads)
//
// x, y, grad, flow   rows x size
// delays             table whole numbers of samples, each at least 1
//
// void fb_modulated_tap_<dtype>(x, delays, table, channels, feedback, quadratic, history, y, rows, size, nthreads)
// void fb_modulated_tap_backward_<dtype>(grad, delays, table, channels, feedback, quadratic, flow, rows, size, nthreads)
//
// x, history, y      rows x size; row r is of channel r % channels; `history` is room to work in
// delays             channels x table, in samples, each at least 0
#define AUDIO_MODULATION(dtype, T)                                                                                    \
    FB_EXPORT void fb_modulated_echo_##dtype(const T* x, const int64_t* delays, int64_t table, double decay, T* y,    \
                                             int64_t rows, int64_t size, int32_t nthreads) noexcept {                 \
        echo(x, delays, table, decay, y, rows, size, nthreads);                                                       \
    }                                                                                                                 \
    FB_EXPORT void fb_modulated_echo_backward_##dtype(const T* grad, const int64_t* delays, int64_t table,            \
                                                      double decay, T* flow, int64_t rows, int64_t size,              \
                                                      int32_t nthreads) noexcept {                                    \
        echo_backward(grad, delays, table, decay, flow, rows, size, nthreads);                                        \
    }                                                                                                                 \
    FB_EXPORT void fb_modulated_tap_##dtype(const T* x, const double* delays, int64_t table, int64_t channels,        \
                                            double feedback, bool quadratic, T* history, T* y, int64_t rows,          \
                                            int64_t size, int32_t nthreads) noexcept {                                \
        tap(Line{delays, table, channels, rows, size, feedback, quadratic, nthreads}, x, history, y);                 \
    }                                                                                                                 \
    FB_EXPORT void fb_modulated_tap_backward_##dtype(const T* grad, const double* delays, int64_t table,              \
                                                     int64_t channels, double feedback, bool quadratic, T* flow,      \
                                                     int64_t rows, int64_t size, int32_t nthreads) noexcept {         \
        tap_backward(Line{delays, table, channels, rows, size, feedback, quadratic, nthreads}, grad, flow);           \
    }
AUDIO_MODULATION(f32, float)
AUDIO_MODULATION(f64, double)

namespace {

// The same sentences as `_check_*` in `flambeau/audio/functional/modulation.py`.
bool valid_rows(fb::Call& call, const char* op, const fb::Tensor& x, int64_t dim) noexcept {
    if (x.dim != dim)
        call.fail("%s: waveform has shape %s, expected %s.", op, fb::Shape(x).text,
                  dim == 2 ? "(rows, time)" : "(batch, channels, time)");
    else if (x.dtype != fb::DType::Float32 && x.dtype != fb::DType::Float64)
        call.fail("%s: waveform has dtype %s, expected float32 or float64; convert it.", op, fb::name(x.dtype));
    else
        return true;
    return false;
}

using Echo = void (*)(const void*, const int64_t*, int64_t, double, void*, int64_t, int64_t, int32_t) noexcept;

template <typename T, void (*kernel)(const T*, const int64_t*, int64_t, double, T*, int64_t, int64_t, int32_t) noexcept>
void erased(const void* x, const int64_t* delays, int64_t table, double decay, void* y, int64_t rows, int64_t size,
            int32_t nthreads) noexcept {
    kernel(static_cast<const T*>(x), delays, table, decay, static_cast<T*>(y), rows, size, nthreads);
}

void run_echo(fb::Call& call, const char* op, const fb::Tensor& given, const fb::Tensor& table, double decay,
              Echo narrow, Echo wide) noexcept {
    if (!valid_rows(call, op, given, 2)) return;
    if (table.dim != 1 || table.dtype != fb::DType::Int64 || table.sizes[0] < 1)
        return call.fail("%s: delays has shape %s and dtype %s, expected (table,) of int64.", op, fb::Shape(table).text,
                         fb::name(table.dtype));
    const fb::Tensor x = call.contiguous(given), delays = call.contiguous(table);
    fb::Tensor y = call.empty(given.dtype, given.sizes, given.dim);
    if (!x.defined() || !delays.defined() || !y.defined()) return;
    for (int64_t i = 0; i < delays.sizes[0]; ++i)
        if (delays.as<int64_t>()[i] < 1) return call.fail("%s: delays holds a number below 1.", op);
    (given.dtype == fb::DType::Float32 ? narrow : wide)(x.data, delays.as<int64_t>(), delays.sizes[0], decay, y.data,
                                                        x.sizes[0], x.sizes[1], fb::threads(x.numel() * 4));
    call.give(y);
}

void modulated_echo(fb::Call& call, const fb::Tensor& waveform, const fb::Tensor& delays, double decay) noexcept {
    run_echo(call, "modulated_echo", waveform, delays, decay, erased<float, fb_modulated_echo_f32>,
             erased<double, fb_modulated_echo_f64>);
}

void modulated_echo_backward(fb::Call& call, const fb::Tensor& grad, const fb::Tensor& delays, double decay) noexcept {
    run_echo(call, "modulated_echo_backward", grad, delays, decay, erased<float, fb_modulated_echo_backward_f32>,
             erased<double, fb_modulated_echo_backward_f64>);
}

// Checks, makes contiguous, and hands everything to `work(x, delays, y, rows, size, threads)`.
template <typename Work>
void run_tap(fb::Call& call, const char* op, const fb::Tensor& given, const fb::Tensor& table, const Work& work) noexcept {
    if (!valid_rows(call, op, given, 3)) return;
    if (table.dim != 2 || table.dtype != fb::DType::Float64 || table.sizes[0] != given.sizes[1] || table.sizes[1] < 1)
        return call.fail("%s: delays has shape %s and dtype %s, expected (%lld, table) of float64.", op,
                         fb::Shape(table).text, fb::name(table.dtype), static_cast<long long>(given.sizes[1]));
    const fb::Tensor x = call.contiguous(given), delays = call.contiguous(table);
    fb::Tensor y = call.empty(given.dtype, given.sizes, given.dim);
    if (!x.defined() || !delays.defined() || !y.defined()) return;
    for (int64_t i = 0; i < delays.numel(); ++i)
        if (!(delays.as<double>()[i] >= 0)) return call.fail("%s: delays holds a number below 0.", op);
    work(x, delays, y, x.sizes[0] * x.sizes[1], x.sizes[2], fb::threads(x.numel() * 8));
    call.give(y);
}

void modulated_tap(fb::Call& call, const fb::Tensor& waveform, const fb::Tensor& table, double feedback,
                   bool quadratic) noexcept {
    const fb::Tensor history = call.empty(waveform.dtype, waveform.sizes, waveform.dim);
    if (!history.defined()) return;
    run_tap(call, "modulated_tap", waveform, table,
            [&](const fb::Tensor& x, const fb::Tensor& delays, const fb::Tensor& y, int64_t rows, int64_t size,
                int32_t nthreads) noexcept {
                const double* at = delays.as<double>();
                const int64_t length = delays.sizes[1], channels = delays.sizes[0];
                if (x.dtype == fb::DType::Float32)
                    fb_modulated_tap_f32(x.as<float>(), at, length, channels, feedback, quadratic, history.as<float>(),
                                         y.as<float>(), rows, size, nthreads);
                else
                    fb_modulated_tap_f64(x.as<double>(), at, length, channels, feedback, quadratic,
                                         history.as<double>(), y.as<double>(), rows, size, nthreads);
            });
}

void modulated_tap_backward(fb::Call& call, const fb::Tensor& grad, const fb::Tensor& table, double feedback,
                            bool quadratic) noexcept {
    run_tap(call, "modulated_tap_backward", grad, table,
            [&](const fb::Tensor& x, const fb::Tensor& delays, const fb::Tensor& y, int64_t rows, int64_t size,
                int32_t nthreads) noexcept {
                const double* at = delays.as<double>();
                const int64_t length = delays.sizes[1], channels = delays.sizes[0];
                if (x.dtype == fb::DType::Float32)
                    fb_modulated_tap_backward_f32(x.as<float>(), at, length, channels, feedback, quadratic,
                                                  y.as<float>(), rows, size, nthreads);
                else
                    fb_modulated_tap_backward_f64(x.as<double>(), at, length, channels, feedback, quadratic,
                                                  y.as<double>(), rows, size, nthreads);
            });
}

FB_OPERATOR("modulated_echo", modulated_echo);
FB_OPERATOR("modulated_echo_backward", modulated_echo_backward);
FB_OPERATOR("modulated_tap", modulated_tap);
FB_OPERATOR("modulated_tap_backward", modulated_tap_backward);

}  // namespace
