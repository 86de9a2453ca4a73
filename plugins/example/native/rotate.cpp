// Rotation of points in the plane: the native kernel of `flambeau_plugin_example.ops.rotate`.

#include <flambeau/kernel.h>

#include <cmath>

// points, result: `count` pairs x, y, one after the other.
template <typename T>
FB_INLINE void turn(const T* points, int64_t begin, int64_t end, T cosine, T sine, T* result) {
    for (int64_t i = begin; i < end; ++i) {
        const T x = points[2 * i], y = points[2 * i + 1];
        result[2 * i] = cosine * x - sine * y;
        result[2 * i + 1] = sine * x + cosine * y;
    }
}

FB_CLONES static void turn_f32(const float* points, int64_t begin, int64_t end, float cosine, float sine,
                               float* result) {
    turn(points, begin, end, cosine, sine, result);
}

FB_CLONES static void turn_f64(const double* points, int64_t begin, int64_t end, double cosine, double sine,
                               double* result) {
    turn(points, begin, end, cosine, sine, result);
}

FB_EXPORT int32_t fb_rotate_f32(const float* points, int64_t count, double angle, float* result,
                                int32_t nthreads) noexcept {
    const float cosine = float(std::cos(angle)), sine = float(std::sin(angle));
    fb::parallel_for(0, count, 8192, nthreads, [&](int64_t begin, int64_t end) noexcept {
        turn_f32(points, begin, end, cosine, sine, result);
    });
    return 0;
}

FB_EXPORT int32_t fb_rotate_f64(const double* points, int64_t count, double angle, double* result,
                                int32_t nthreads) noexcept {
    const double cosine = std::cos(angle), sine = std::sin(angle);
    fb::parallel_for(0, count, 8192, nthreads, [&](int64_t begin, int64_t end) noexcept {
        turn_f64(points, begin, end, cosine, sine, result);
    });
    return 0;
}

// What torch's dispatcher calls.
static void rotate(fb::Call& call, const fb::Tensor& given, double angle) noexcept {
    if (given.dim < 1 || given.sizes[given.dim - 1] != 2)
        return call.fail("rotate: points has shape %s, expected (..., 2).", fb::Shape(given).text);
    const fb::Tensor points = call.contiguous(given);
    if (!points.defined()) return;
    fb::Tensor result = call.empty(points.dtype, points.sizes, points.dim);
    if (!result.defined()) return;
    const int64_t count = points.numel() / 2;
    const int32_t nthreads = fb::threads(points.numel());
    if (points.dtype == fb::DType::Float32)
        fb_rotate_f32(points.as<float>(), count, angle, result.as<float>(), nthreads);
    else if (points.dtype == fb::DType::Float64)
        fb_rotate_f64(points.as<double>(), count, angle, result.as<double>(), nthreads);
    else
        return call.fail("rotate: points has dtype %s, expected torch.float32 or torch.float64; convert it.",
                         fb::name(points.dtype));
    call.give(result);
}
FB_OPERATOR("rotate", rotate);
