// Recursions over time: from the last step to the first, of which returns and advantages are made, and from the first
// to the last, which are their adjoints.
//
// Tensors are (rows, steps, inner), contiguous: rows of time steps, each of `inner` numbers side by side.

#include <flambeau/kernel.h>

namespace rl {
namespace {

template <typename T>
struct Rows {
    const T *values, *discounts;
    T* results;
    int64_t steps, inner;
};

// result[t] = value[t] + discount[t] * result[t + 1]
template <typename T>
void recur_backward(const Rows<T>& all, int64_t row) noexcept {
    const int64_t begin = row * all.steps * all.inner, inner = all.inner;
    const T *value = all.values + begin, *discount = all.discounts + begin;
    T* result = all.results + begin;
    if (inner == 1) {  // one number at a time: it stays in a register
        T next = value[all.steps - 1];
        result[all.steps - 1] = next;
        for (int64_t t = all.steps - 2; t >= 0; --t) result[t] = next = value[t] + discount[t] * next;
        return;
    }
    for (int64_t i = (all.steps - 1) * inner; i < all.steps * inner; ++i) result[i] = value[i];
    for (int64_t now = (all.steps - 2) * inner; now >= 0; now -= inner)
        for (int64_t i = now; i < now + inner; ++i) result[i] = value[i] + discount[i] * result[i + inner];
}

// result[t] = value[t] + discount[t - 1] * result[t - 1]
template <typename T>
void recur_forward(const Rows<T>& all, int64_t row) noexcept {
    const int64_t begin = row * all.steps * all.inner, inner = all.inner;
    const T *value = all.values + begin, *discount = all.discounts + begin;
    T* result = all.results + begin;
    for (int64_t i = 0; i < inner; ++i) result[i] = value[i];
    for (int64_t i = inner; i < all.steps * inner; ++i) result[i] = value[i] + discount[i - inner] * result[i - inner];
}

template <typename T>
void recur(const fb::Tensor& values, const fb::Tensor& discounts, const fb::Tensor& results, bool forward) noexcept {
    const int64_t rows = values.sizes[0], steps = values.sizes[1], inner = values.sizes[2];
    const Rows<T> all{values.as<T>(), discounts.as<T>(), results.as<T>(), steps, inner};
    const int64_t grain = fb::serial_below / (steps * inner) + 1;
    fb::parallel_for(0, rows, grain, fb::threads(values.numel()), [&](int64_t begin, int64_t end) noexcept {
        for (int64_t row = begin; row < end; ++row) forward ? recur_forward(all, row) : recur_backward(all, row);
    });
}

void recursion(fb::Call& call, const char* op, const fb::Tensor& given_values, const fb::Tensor& given_discounts,
               bool forward) noexcept {
    if (given_values.dim != 3)
        return call.fail("%s: values have shape %s, expected (rows, time, features).", op,
                         fb::Shape(given_values).text);
    bool same = given_discounts.dim == 3;
    for (int64_t i = 0; same && i < 3; ++i) same = given_discounts.sizes[i] == given_values.sizes[i];
    if (!same)
        return call.fail("%s: discounts have shape %s, expected %s as the values.", op,
                         fb::Shape(given_discounts).text, fb::Shape(given_values).text);
    if (given_discounts.dtype != given_values.dtype)
        return call.fail("%s: discounts have dtype %s, expected %s as the values.", op,
                         fb::name(given_discounts.dtype), fb::name(given_values.dtype));
    if (given_values.dtype != fb::DType::Float32 && given_values.dtype != fb::DType::Float64)
        return call.fail("%s: values have dtype %s, expected float32 or float64; convert them.", op,
                         fb::name(given_values.dtype));
    const fb::Tensor values = call.contiguous(given_values);
    const fb::Tensor discounts = call.contiguous(given_discounts);
    if (!values.defined() || !discounts.defined()) return;
    fb::Tensor results = call.empty(values.dtype, values.sizes, values.dim);
    if (!results.defined()) return;
    if (values.numel() > 0) {
        if (values.dtype == fb::DType::Float32)
            recur<float>(values, discounts, results, forward);
        else
            recur<double>(values, discounts, results, forward);
    }
    call.give(results);
}

void backward_recursion(fb::Call& call, const fb::Tensor& values, const fb::Tensor& discounts) noexcept {
    recursion(call, "backward_recursion", values, discounts, false);
}
void forward_recursion(fb::Call& call, const fb::Tensor& values, const fb::Tensor& discounts) noexcept {
    recursion(call, "forward_recursion", values, discounts, true);
}

FB_OPERATOR("backward_recursion", backward_recursion);
FB_OPERATOR("forward_recursion", forward_recursion);

}  // namespace
}  // namespace rl
