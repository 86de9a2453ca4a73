// Sums and products of jagged and dense rows: item i of row b meets dense[b][i], where there is one.

#include "jagged.h"

namespace rec {
namespace {

// One function for each type: only plain functions are compiled for several instruction sets.
#define REC_ELEMENTWISE(T)                                                                           \
    FB_CLONES void add(const T* a, const T* b, int64_t count, T* out) noexcept {                     \
        for (int64_t i = 0; i < count; ++i) out[i] = narrowed<T>(widened(a[i]) + widened(b[i]));     \
    }                                                                                                \
    FB_CLONES void multiply(const T* a, const T* b, int64_t count, T* out) noexcept {                \
        for (int64_t i = 0; i < count; ++i) out[i] = narrowed<T>(widened(a[i]) * widened(b[i]));     \
    }
REC_ELEMENTWISE(float)
REC_ELEMENTWISE(double)
REC_ELEMENTWISE(fb::Half)
REC_ELEMENTWISE(fb::BFloat16)
REC_ELEMENTWISE(int32_t)
REC_ELEMENTWISE(int64_t)
#undef REC_ELEMENTWISE

bool check(fb::Call& call, const char* op, const fb::Tensor& x, const fb::Tensor& given, const fb::Tensor& y) noexcept {
    if (!check_whole(call, op, "x_offsets", given)) return false;
    if (x.dim < 1 || y.dim < 2 || !same_inner(x, 1, y, 2) || y.sizes[0] != given.sizes[0] - 1) {
        call.fail("%s: x_values has shape %s and y %s for %lld rows, expected (items, ...) and (rows, longest, ...).", op,
                  fb::Shape(x).text, fb::Shape(y).text, (long long)(given.sizes[0] - 1));
        return false;
    }
    if (x.dtype != y.dtype) {
        call.fail("%s: x_values is %s and y %s, expected one dtype; convert one of them.", op, fb::name(x.dtype),
                  fb::name(y.dtype));
        return false;
    }
    return true;
}

void refuse(fb::Call& call, const char* op, fb::DType dtype) noexcept {
    call.fail("%s: x_values is %s, expected a floating dtype, int32 or int64; convert it.", op, fb::name(dtype));
}

enum class Way { Add, Multiply };

// jagged = x + y_0 (+ y_1), or x * y_0; what lies beyond the dense rows meets 0.
void to_jagged(fb::Call& call, const char* op, Way way, const fb::Tensor& x_values, const fb::Tensor& x_offsets,
               const fb::Tensor& y_0, const fb::OptionalTensor* y_1) noexcept {
    if (!check(call, op, x_values, x_offsets, y_0)) return;
    const bool second = y_1 && y_1->defined();
    if (second && (!check(call, op, x_values, x_offsets, *y_1))) return;
    if (second && y_1->sizes[1] != y_0.sizes[1])
        return call.fail("%s: y_0 has shape %s and y_1 %s, expected one shape.", op, fb::Shape(y_0).text,
                         fb::Shape(*y_1).text);
    const fb::Tensor x = call.contiguous(x_values), held = call.contiguous(x_offsets), y = call.contiguous(y_0);
    if (!x.defined() || !held.defined() || !y.defined()) return;
    const fb::Tensor z = second ? call.contiguous(*y_1) : fb::Tensor();
    if (second && !z.defined()) return;
    const Whole offsets(held);
    if (!check_offsets(call, op, "x_offsets", offsets, x.sizes[0])) return;
    fb::Tensor out = call.empty(x.dtype, x.sizes, x.dim);
    if (!out.defined()) return;

    const int64_t rows = offsets.count - 1, longest = y.sizes[1], width = width_of(x);
    const bool known = for_numbers(x.dtype, [&](auto tag) noexcept {
        using T = typename decltype(tag)::type;
        const T *a = x.as<const T>(), *b = y.as<const T>(), *c = second ? z.as<const T>() : nullptr;
        T* to = out.as<T>();
        // What is in no row meets nothing.
        const auto rest = [&](int64_t from, int64_t until) noexcept {
            const size_t bytes = size_t((until - from) * width) * sizeof(T);
            if (way == Way::Add)
                memcpy(to + from * width, a + from * width, bytes);
            else
                memset(to + from * width, 0, bytes);
        };
        rest(0, offsets[0]);
        rest(offsets[rows], x.sizes[0]);
        over_rows(rows, x.numel(), [&](int64_t begin, int64_t end) noexcept {
            for (int64_t row = begin; row < end; ++row) {
                const int64_t first = offsets[row], last = offsets[row + 1], count = smaller(last - first, longest);
                const int64_t from = first * width, there = row * longest * width, numbers = count * width;
                if (way == Way::Add) {
                    add(a + from, b + there, numbers, to + from);
                    if (c) add(to + from, c + there, numbers, to + from);
                } else {
                    multiply(a + from, b + there, numbers, to + from);
                }
                rest(first + count, last);
            }
        });
    });
    if (!known) return refuse(call, op, x.dtype);
    call.give(out);
}

void add_to_jagged(fb::Call& call, const fb::Tensor& x, const fb::Tensor& offsets, const fb::Tensor& y_0,
                   const fb::OptionalTensor& y_1) noexcept {
    to_jagged(call, "jagged_dense_elementwise_add_jagged_output", Way::Add, x, offsets, y_0, &y_1);
}

void multiply_to_jagged(fb::Call& call, const fb::Tensor& x, const fb::Tensor& offsets, const fb::Tensor& y) noexcept {
    to_jagged(call, "jagged_dense_elementwise_mul", Way::Multiply, x, offsets, y, nullptr);
}

// dense = y + x, where there is an x.
void add_to_dense(fb::Call& call, const fb::Tensor& x_values, const fb::Tensor& x_offsets,
                  const fb::Tensor& given) noexcept {
    constexpr const char* op = "jagged_dense_elementwise_add";
    if (!check(call, op, x_values, x_offsets, given)) return;
    const fb::Tensor x = call.contiguous(x_values), held = call.contiguous(x_offsets), y = call.contiguous(given);
    if (!x.defined() || !held.defined() || !y.defined()) return;
    const Whole offsets(held);
    if (!check_offsets(call, op, "x_offsets", offsets, x.sizes[0])) return;
    fb::Tensor out = call.empty(y.dtype, y.sizes, y.dim);
    if (!out.defined()) return;
    const int64_t rows = offsets.count - 1, longest = y.sizes[1], width = width_of(x);
    const bool known = for_numbers(x.dtype, [&](auto tag) noexcept {
        using T = typename decltype(tag)::type;
        const T *a = x.as<const T>(), *b = y.as<const T>();
        T* to = out.as<T>();
        over_rows(rows, out.numel(), [&](int64_t begin, int64_t end) noexcept {
            for (int64_t row = begin; row < end; ++row) {
                const int64_t first = offsets[row], count = smaller(offsets[row + 1] - first, longest);
                const int64_t there = row * longest * width, numbers = count * width;
                add(a + first * width, b + there, numbers, to + there);
                memcpy(to + there + numbers, b + there + numbers, size_t(longest * width - numbers) * sizeof(T));
            }
        });
    });
    if (!known) return refuse(call, op, x.dtype);
    call.give(out);
}

FB_OPERATOR("_jagged_dense_add", add_to_jagged);
FB_OPERATOR("_jagged_dense_mul", multiply_to_jagged);
FB_OPERATOR("_jagged_dense_add_dense", add_to_dense);

}  // namespace
}  // namespace rec
