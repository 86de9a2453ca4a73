// Recursions from the last time step to the first, of which returns and advantages are made.

#include <flambeau/kernel.h>

namespace rl {
namespace {

// Rows of time steps, each of `inner` numbers side by side; result[t] = values[t] + discounts[t] * result[t + 1].
template <typename T>
void recur(const T* values, const T* discounts, int64_t rows, int64_t steps, int64_t inner, T* results) noexcept {
    for (int64_t row = 0; row < rows; ++row) {
        const int64_t begin = row * steps * inner;
        const T *value = values + begin, *discount = discounts + begin;
        T* result = results + begin;
        for (int64_t i = (steps - 1) * inner; i < steps * inner; ++i) result[i] = value[i];
        for (int64_t t = steps - 2; t >= 0; --t) {
            const int64_t now = t * inner;
            for (int64_t i = now; i < now + inner; ++i) result[i] = value[i] + discount[i] * result[i + inner];
        }
    }
}

void backward_recursion(fb::Call& call, const fb::Tensor& given_values, const fb::Tensor& given_discounts) noexcept {
    if (given_values.dim != 3)
        return call.fail("backward_recursion: values have shape %s, expected (rows, time, features).",
                         fb::Shape(given_values).text);
    bool same = given_discounts.dim == 3;
    for (int64_t i = 0; same && i < 3; ++i) same = given_discounts.sizes[i] == given_values.sizes[i];
    if (!same)
        return call.fail("backward_recursion: discounts have shape %s, expected %s as the values.",
                         fb::Shape(given_discounts).text, fb::Shape(given_values).text);
    if (given_discounts.dtype != given_values.dtype)
        return call.fail("backward_recursion: discounts have dtype %s, expected %s as the values.",
                         fb::name(given_discounts.dtype), fb::name(given_values.dtype));
    const fb::Tensor values = call.contiguous(given_values);
    const fb::Tensor discounts = call.contiguous(given_discounts);
    if (!values.defined() || !discounts.defined()) return;
    fb::Tensor results = call.empty(values.dtype, values.sizes, values.dim);
    if (!results.defined()) return;
    const int64_t rows = values.sizes[0], steps = values.sizes[1], inner = values.sizes[2];
    if (values.numel() > 0) {
        if (values.dtype == fb::DType::Float32)
            recur(values.as<float>(), discounts.as<float>(), rows, steps, inner, results.as<float>());
        else if (values.dtype == fb::DType::Float64)
            recur(values.as<double>(), discounts.as<double>(), rows, steps, inner, results.as<double>());
        else
            return call.fail("backward_recursion: values have dtype %s, expected float32 or float64; convert them.",
                             fb::name(values.dtype));
    }
    call.give(results);
}

FB_OPERATOR("backward_recursion", backward_recursion);

}  // namespace
}  // namespace rl
