// Matrix products within sequences: every item with every item, and such a matrix with items again.
//
// Sequence b of a "matrix" tensor is m * n numbers, row after row, where m and n are lengths of sequence b in two others.

#include "matrix.h"

namespace rec {
namespace {

// Whether the offsets of three tensors of sequences belong together.
bool find(fb::Call& call, const char* op, const fb::Tensor& left, int64_t left_items, const fb::Tensor& right,
          int64_t right_items, const fb::Tensor& matrix, int64_t numbers, const Whole& l, const Whole& r,
          const Whole& m) noexcept {
    if (!check_whole(call, op, "offsets of the matrices' rows", left) ||
        !check_whole(call, op, "offsets of the matrices' columns", right) ||
        !check_whole(call, op, "offsets of the matrices", matrix) ||
        !check_offsets(call, op, "offsets of the matrices' rows", l, left_items) ||
        !check_offsets(call, op, "offsets of the matrices' columns", r, right_items) ||
        !check_offsets(call, op, "offsets of the matrices", m, numbers))
        return false;
    if (l.count != r.count || l.count != m.count) {
        call.fail("%s: offsets have %lld, %lld and %lld entries, expected as many.", op, (long long)l.count,
                  (long long)r.count, (long long)m.count);
        return false;
    }
    for (int64_t b = 0; b + 1 < l.count; ++b) {
        const int64_t rows = l[b + 1] - l[b], columns = r[b + 1] - r[b], size = m[b + 1] - m[b];
        if (columns ? size / columns != rows || size % columns : size != 0) {
            call.fail("%s: sequence %lld has a matrix of %lld numbers, expected %lld x %lld.", op, (long long)b,
                      (long long)size, (long long)rows, (long long)columns);
            return false;
        }
    }
    return true;
}

// (numbers,): matrix b is x_b y_b^T.
void outer(fb::Call& call, const fb::Tensor& given_x, const fb::Tensor& given_y, const fb::Tensor& x_offsets,
           const fb::Tensor& y_offsets, const fb::Tensor& z_offsets, const fb::OptionalInt& wanted) noexcept {
    constexpr const char* op = "sll_jagged_jagged_bmm_jagged_out";
    if (given_x.dim != 2 || given_y.dim != 2 || given_x.sizes[1] != given_y.sizes[1])
        return call.fail("%s: x has shape %s and y %s, expected (items, width) both.", op, fb::Shape(given_x).text,
                         fb::Shape(given_y).text);
    if (!check_floating(call, op, given_x, given_y)) return;
    const fb::Tensor x = call.contiguous(given_x), y = call.contiguous(given_y), xo = call.contiguous(x_offsets),
                     yo = call.contiguous(y_offsets), zo = call.contiguous(z_offsets);
    if (!x.defined() || !y.defined() || !xo.defined() || !yo.defined() || !zo.defined()) return;
    const Whole left(xo), right(yo), matrix(zo);
    const int64_t numbers = wanted.given ? wanted.value : is_whole(zo) && matrix.count ? matrix[matrix.count - 1] : 0;
    if (!find(call, op, xo, x.sizes[0], yo, y.sizes[0], zo, numbers, left, right, matrix)) return;
    fb::Tensor out = call.empty(x.dtype, {numbers});
    if (!out.defined()) return;
    const int64_t sequences = left.count - 1, width = x.sizes[1];
    int64_t longest = 0;
    for (int64_t b = 0; b < sequences; ++b) longest = larger(longest, right[b + 1] - right[b]);
    for_floating(x.dtype, [&](auto tag) noexcept {
        using T = typename decltype(tag)::type;
        T* to = out.as<T>();
        memset(static_cast<void*>(to), 0, size_t(numbers) * sizeof(T));
        over_rows(sequences, numbers * width, [&](int64_t begin, int64_t end) noexcept {
            // y_b with its columns lengthwise, so that products run along memory.
            T* turned = static_cast<T*>(malloc(size_t(longest * width) * sizeof(T) + 1));
            for (int64_t b = begin; b < end; ++b) {
                const int64_t m = left[b + 1] - left[b], n = right[b + 1] - right[b];
                const T *from = y.as<const T>() + right[b] * width, *rows = x.as<const T>() + left[b] * width;
                if (turned) {
                    for (int64_t j = 0; j < n; ++j)
                        for (int64_t k = 0; k < width; ++k) turned[k * n + j] = from[j * width + k];
                    multiply({rows, 1, width, turned, n, to + matrix[b], n, m, n, width});
                } else {
                    for (int64_t i = 0; i < m; ++i)
                        for (int64_t j = 0; j < n; ++j)
                            to[matrix[b] + i * n + j] =
                                fb::narrow<T>(dot(rows + i * width, from + j * width, width));
                }
            }
            free(turned);
        });
    });
    call.give(out);
}

// (items, width): sequence b is a_b y_b, or a_b^T y_b where `transpose`; of the first max_len rows and columns of a_b.
void matrix_times_items(fb::Call& call, const fb::Tensor& given_a, const fb::Tensor& given_y,
                        const fb::Tensor& a_offsets, const fb::Tensor& y_offsets, const fb::Tensor& z_offsets,
                        int64_t max_len, int64_t items, bool transpose) noexcept {
    constexpr const char* op = "sll_array_jagged_bmm_jagged_out";
    if (given_a.dim != 1 || given_y.dim != 2)
        return call.fail("%s: x has shape %s and y %s, expected (numbers,) and (items, width).", op,
                         fb::Shape(given_a).text, fb::Shape(given_y).text);
    if (!check_floating(call, op, given_a, given_y)) return;
    const fb::Tensor a = call.contiguous(given_a), y = call.contiguous(given_y), ao = call.contiguous(a_offsets),
                     yo = call.contiguous(y_offsets), zo = call.contiguous(z_offsets);
    if (!a.defined() || !y.defined() || !ao.defined() || !yo.defined() || !zo.defined()) return;
    const Whole matrix(ao), inner(yo), outside(zo);
    const bool good = transpose ? find(call, op, yo, y.sizes[0], zo, items, ao, a.sizes[0], inner, outside, matrix)
                                : find(call, op, zo, items, yo, y.sizes[0], ao, a.sizes[0], outside, inner, matrix);
    if (!good) return;
    const int64_t sequences = inner.count - 1, width = y.sizes[1];
    fb::Tensor out = call.empty(y.dtype, {items, width});
    if (!out.defined()) return;
    for_floating(y.dtype, [&](auto tag) noexcept {
        using T = typename decltype(tag)::type;
        T* to = out.as<T>();
        memset(static_cast<void*>(to), 0, size_t(items * width) * sizeof(T));
        over_rows(sequences, a.sizes[0] * width, [&](int64_t begin, int64_t end) noexcept {
            for (int64_t b = begin; b < end; ++b) {
                const int64_t k = inner[b + 1] - inner[b], m = outside[b + 1] - outside[b];
                multiply({a.as<const T>() + matrix[b], transpose ? m : 1, transpose ? 1 : k,
                          y.as<const T>() + inner[b] * width, width, to + outside[b] * width, width,
                          larger(0, smaller(m, max_len)), width, larger(0, smaller(k, max_len))});
            }
        });
    });
    call.give(out);
}

FB_OPERATOR("_sll_outer", outer);
FB_OPERATOR("_sll_matrix_times_items", matrix_times_items);

}  // namespace
}  // namespace rec
