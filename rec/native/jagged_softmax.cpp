// Softmax over the items of each row, column by column; and over the rows or columns of square matrices.

#include "jagged.h"

#include <math.h>

namespace rec {
namespace {

// exp for arguments that are at most 0, to 2 units in the last place; below -87 it is 0. The C library's is called
// for one number at a time, which takes most of a softmax.
FB_INLINE float exponential(float x) noexcept {
    const float turns = (x * 1.44269504f + 12582912.0f) - 12582912.0f;  // rounded to a whole number
    const float rest = (x - turns * 0.693359375f) + turns * 2.12194440e-4f;
    float sum = 1.9875691500e-4f;
    sum = sum * rest + 1.3981999507e-3f;
    sum = sum * rest + 8.3334519073e-3f;
    sum = sum * rest + 4.1665795894e-2f;
    sum = sum * rest + 1.6666665459e-1f;
    sum = sum * rest + 5.0000001201e-1f;
    sum = sum * rest * rest + rest + 1.0f;
    const float within = turns > -126.0f ? turns : -126.0f;
    const float power = fb::bits<float>((int32_t(within) + 127) << 23);
    return x < -87.0f ? 0.0f : sum * power;
}
FB_INLINE double exponential(double x) noexcept { return exp(x); }

// Lengthwise: `count` items `step` apart, of which `columns` (at most `block`) lie side by side.
constexpr int64_t block = 32;

template <typename T>
FB_INLINE void normalise(const T* from, int64_t count, int64_t step, int64_t columns, T* to) noexcept {
    using W = fb::Wide<T>;
    W best[block], sum[block], scale[block];
    for (int64_t j = 0; j < columns; ++j) best[j] = fb::widen(from[j]), sum[j] = 0;
    for (int64_t i = 1; i < count; ++i)
        for (int64_t j = 0; j < columns; ++j) {
            const W value = fb::widen(from[i * step + j]);
            best[j] = value > best[j] ? value : best[j];
        }
    for (int64_t i = 0; i < count; ++i)
        for (int64_t j = 0; j < columns; ++j) sum[j] += exponential(fb::widen(from[i * step + j]) - best[j]);
    for (int64_t j = 0; j < columns; ++j) scale[j] = W(1) / sum[j];
    for (int64_t i = 0; i < count; ++i)
        for (int64_t j = 0; j < columns; ++j)
            to[i * step + j] = fb::narrow<T>(exponential(fb::widen(from[i * step + j]) - best[j]) * scale[j]);
}

// The gradient of the above: output * (grad - <grad, output>).
template <typename T>
FB_INLINE void normalise_backward(const T* grad, const T* output, int64_t count, int64_t step, int64_t columns,
                                  T* to) noexcept {
    using W = fb::Wide<T>;
    W sum[block];
    for (int64_t j = 0; j < columns; ++j) sum[j] = 0;
    for (int64_t i = 0; i < count; ++i)
        for (int64_t j = 0; j < columns; ++j) sum[j] += fb::widen(grad[i * step + j]) * fb::widen(output[i * step + j]);
    for (int64_t i = 0; i < count; ++i)
        for (int64_t j = 0; j < columns; ++j)
            to[i * step + j] =
                fb::narrow<T>(fb::widen(output[i * step + j]) * (fb::widen(grad[i * step + j]) - sum[j]));
}

// The same along items that lie side by side, several sums at a time.
constexpr int64_t lanes = 16;

template <typename T>
FB_INLINE void normalise_line(const T* from, int64_t count, T* to) noexcept {
    using W = fb::Wide<T>;
    W best = fb::widen(from[0]), sums[lanes] = {}, sum = 0;
    for (int64_t i = 1; i < count; ++i) {
        const W value = fb::widen(from[i]);
        best = value > best ? value : best;
    }
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes)
        for (int64_t k = 0; k < lanes; ++k) sums[k] += exponential(fb::widen(from[i + k]) - best);
    for (; i < count; ++i) sum += exponential(fb::widen(from[i]) - best);
    for (int64_t k = 0; k < lanes; ++k) sum += sums[k];
    const W scale = W(1) / sum;
    for (i = 0; i < count; ++i) to[i] = fb::narrow<T>(exponential(fb::widen(from[i]) - best) * scale);
}

template <typename T>
FB_INLINE void normalise_line_backward(const T* grad, const T* output, int64_t count, T* to) noexcept {
    using W = fb::Wide<T>;
    W sums[lanes] = {}, sum = 0;
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes)
        for (int64_t k = 0; k < lanes; ++k) sums[k] += fb::widen(grad[i + k]) * fb::widen(output[i + k]);
    for (; i < count; ++i) sum += fb::widen(grad[i]) * fb::widen(output[i]);
    for (int64_t k = 0; k < lanes; ++k) sum += sums[k];
    for (i = 0; i < count; ++i) to[i] = fb::narrow<T>(fb::widen(output[i]) * (fb::widen(grad[i]) - sum));
}

// One function for each type: only plain functions are compiled for several instruction sets. `grad` is null forward.
#define REC_SOFTMAX(T)                                                                                                \
    FB_CLONES void softmax(const T* grad, const T* from, int64_t count, int64_t step, int64_t columns,                \
                           T* to) noexcept {                                                                          \
        for (int64_t at = 0; count > 0 && at < columns; at += block) {                                                \
            const int64_t some = columns - at < block ? columns - at : block;                                         \
            if (grad)                                                                                                 \
                normalise_backward(grad + at, from + at, count, step, some, to + at);                                 \
            else                                                                                                      \
                normalise(from + at, count, step, some, to + at);                                                     \
        }                                                                                                             \
    }                                                                                                                 \
    FB_CLONES void softmax_line(const T* grad, const T* from, int64_t count, T* to) noexcept {                        \
        if (count <= 0) return;                                                                                       \
        if (grad)                                                                                                     \
            normalise_line_backward(grad, from, count, to);                                                           \
        else                                                                                                          \
            normalise_line(from, count, to);                                                                          \
    }
REC_SOFTMAX(float)
REC_SOFTMAX(double)
REC_SOFTMAX(fb::Half)
REC_SOFTMAX(fb::BFloat16)
#undef REC_SOFTMAX

bool check(fb::Call& call, const char* op, const fb::Tensor* grad, const fb::Tensor& x, int64_t least,
           const fb::Tensor& given) noexcept {
    const bool known = for_floating(x.dtype, [](auto) noexcept {});
    if (!known || x.dim < least || x.dim > 2) {
        call.fail("%s: values has shape %s and dtype %s, expected %s of a floating dtype.", op, fb::Shape(x).text,
                  fb::name(x.dtype), least == 2 ? "(items, columns)" : "(items,)");
        return false;
    }
    if (grad && (grad->dtype != x.dtype || grad->dim != x.dim || !same_inner(*grad, 0, x, 0))) {
        call.fail("%s: grad_output has shape %s and dtype %s, expected %s of %s as the output.", op,
                  fb::Shape(*grad).text, fb::name(grad->dtype), fb::Shape(x).text, fb::name(x.dtype));
        return false;
    }
    return check_whole(call, op, "offsets", given);
}

// From the max_L-th item of a row on, the result is 0.
void over_items(fb::Call& call, const char* op, const fb::Tensor* given_grad, const fb::Tensor& values,
                const fb::Tensor& given, int64_t max_l) noexcept {
    if (!check(call, op, given_grad, values, 2, given)) return;
    const fb::Tensor x = call.contiguous(values), held = call.contiguous(given);
    const fb::Tensor grad = given_grad ? call.contiguous(*given_grad) : fb::Tensor();
    if (!x.defined() || !held.defined() || (given_grad && !grad.defined())) return;
    const Whole offsets(held);
    if (!check_offsets(call, op, "x_offsets", offsets, x.sizes[0])) return;
    fb::Tensor out = call.empty(x.dtype, x.sizes, x.dim);
    if (!out.defined()) return;
    const int64_t rows = offsets.count - 1, width = x.sizes[1];
    for_floating(x.dtype, [&](auto tag) noexcept {
        using T = typename decltype(tag)::type;
        T* to = out.as<T>();
        const auto clear = [&](int64_t from, int64_t until) noexcept {
            memset(static_cast<void*>(to + from * width), 0, size_t((until - from) * width) * sizeof(T));
        };
        clear(0, offsets[0]);
        clear(offsets[rows], x.sizes[0]);
        over_rows(rows, 16 * x.numel(), [&](int64_t begin, int64_t end) noexcept {
            for (int64_t row = begin; row < end; ++row) {
                const int64_t first = offsets[row], last = offsets[row + 1], at = first * width;
                const int64_t count = larger(0, smaller(last - first, max_l));
                softmax(given_grad ? grad.as<const T>() + at : nullptr, x.as<const T>() + at, count, width, width,
                        to + at);
                clear(first + count, last);
            }
        });
    });
    call.give(out);
}

void forward(fb::Call& call, const fb::Tensor& values, const fb::Tensor& offsets, int64_t max_l) noexcept {
    over_items(call, "jagged_softmax", nullptr, values, offsets, max_l);
}
void backward(fb::Call& call, const fb::Tensor& grad, const fb::Tensor& output, const fb::Tensor& offsets,
              int64_t max_l) noexcept {
    over_items(call, "jagged_softmax_backward", &grad, output, offsets, max_l);
}

// Square matrices end to end: matrix b has n * n numbers from offsets_total[b], where n is row b's length. Each row of a
// matrix is normalised, or each column.
void over_squares(fb::Call& call, const char* op, const fb::Tensor* given_grad, const fb::Tensor& values,
                  const fb::Tensor& given, const fb::Tensor& given_total, bool columns) noexcept {
    if (!check(call, op, given_grad, values, 1, given) || !check_whole(call, op, "offsets_total", given_total)) return;
    if (values.dim != 1) return call.fail("%s: x has shape %s, expected (numbers,).", op, fb::Shape(values).text);
    const fb::Tensor x = call.contiguous(values), held = call.contiguous(given), all = call.contiguous(given_total);
    const fb::Tensor grad = given_grad ? call.contiguous(*given_grad) : fb::Tensor();
    if (!x.defined() || !held.defined() || !all.defined() || (given_grad && !grad.defined())) return;
    const Whole offsets(held), totals(all);
    if (!check_offsets(call, op, "offsets", offsets, INT64_MAX) ||
        !check_offsets(call, op, "offsets_total", totals, x.sizes[0]))
        return;
    if (offsets.count != totals.count)
        return call.fail("%s: offsets has %lld entries and offsets_total %lld, expected as many.", op,
                         (long long)offsets.count, (long long)totals.count);
    const int64_t rows = offsets.count - 1;
    for (int64_t row = 0; row < rows; ++row) {
        const int64_t n = offsets[row + 1] - offsets[row];
        if (n > 3000000000 || totals[row + 1] - totals[row] != n * n)
            return call.fail("%s: offsets_total gives %lld numbers to row %lld, expected %lld squared.", op,
                             (long long)(totals[row + 1] - totals[row]), (long long)row, (long long)n);
    }
    fb::Tensor out = call.empty(x.dtype, x.sizes, x.dim);
    if (!out.defined()) return;
    for_floating(x.dtype, [&](auto tag) noexcept {
        using T = typename decltype(tag)::type;
        T* to = out.as<T>();
        memset(static_cast<void*>(to), 0, size_t(x.numel()) * sizeof(T));
        over_rows(rows, 16 * x.numel(), [&](int64_t begin, int64_t end) noexcept {
            for (int64_t row = begin; row < end; ++row) {
                const int64_t n = offsets[row + 1] - offsets[row], at = totals[row];
                const T *from = x.as<const T>() + at, *flow = given_grad ? grad.as<const T>() + at : nullptr;
                if (columns) {
                    softmax(flow, from, n, n, n, to + at);
                } else {
                    for (int64_t i = 0; i < n; ++i)
                        softmax_line(flow ? flow + i * n : nullptr, from + i * n, n, to + at + i * n);
                }
            }
        });
    });
    call.give(out);
}

// The longest length is known from the offsets.
void squares_forward(fb::Call& call, const fb::Tensor& x, const fb::Tensor& offsets, const fb::Tensor& totals, int64_t,
                     bool columns) noexcept {
    over_squares(call, "sll_jagged2_softmax", nullptr, x, offsets, totals, columns);
}
void squares_backward(fb::Call& call, const fb::Tensor& grad, const fb::Tensor& output, const fb::Tensor& offsets,
                      const fb::Tensor& totals, bool columns) noexcept {
    over_squares(call, "sll_jagged2_softmax_backward", &grad, output, offsets, totals, columns);
}

FB_OPERATOR("jagged_softmax_forward", forward);
FB_OPERATOR("jagged_softmax_backward", backward);
FB_OPERATOR("sll_jagged2_softmax", squares_forward);
FB_OPERATOR("_sll_jagged2_softmax_backward", squares_backward);

}  // namespace
}  // namespace rec
