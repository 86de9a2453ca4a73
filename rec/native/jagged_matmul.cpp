// Matrix products of jagged rows: with rows of another jagged tensor, with a dense matrix for each row, with vectors.

#include "matrix.h"

namespace rec {
namespace {

// (B, M, N): for each row b the sum over its first max_L items of x[i] outer y[i].
void jagged_jagged(fb::Call& call, const fb::Tensor& x_values, const fb::Tensor& y_values, const fb::Tensor& given,
                   int64_t max_l) noexcept {
    constexpr const char* op = "jagged_jagged_bmm";
    if (x_values.dim != 2 || y_values.dim != 2 || x_values.sizes[0] != y_values.sizes[0])
        return call.fail("%s: x_values has shape %s and y_values %s, expected (items, M) and (items, N).", op,
                         fb::Shape(x_values).text, fb::Shape(y_values).text);
    if (!check_floating(call, op, x_values, y_values) || !check_whole(call, op, "x_offsets", given)) return;
    const fb::Tensor x = call.contiguous(x_values), y = call.contiguous(y_values), held = call.contiguous(given);
    if (!x.defined() || !y.defined() || !held.defined()) return;
    const Whole offsets(held);
    if (!check_offsets(call, op, "x_offsets", offsets, x.sizes[0])) return;
    const int64_t rows = offsets.count - 1, m = x.sizes[1], n = y.sizes[1];
    fb::Tensor out = call.empty(x.dtype, {rows, m, n});
    if (!out.defined()) return;
    for_floating(x.dtype, [&](auto tag) noexcept {
        using T = typename decltype(tag)::type;
        over_rows(rows, x.sizes[0] * m * n + rows * m * n, [&](int64_t begin, int64_t end) noexcept {
            for (int64_t row = begin; row < end; ++row) {
                const int64_t first = offsets[row], count = larger(0, smaller(offsets[row + 1] - first, max_l));
                multiply({x.as<const T>() + first * m, m, 1, y.as<const T>() + first * n, n, out.as<T>() + row * m * n,
                          n, m, n, count});
            }
        });
    });
    call.give(out);
}

// (items, T): item i of row b times y[b]; 0 from the max_L-th item of a row on.
void jagged_dense(fb::Call& call, const fb::Tensor& x_values, const fb::Tensor& given, const fb::Tensor& given_y,
                  int64_t max_l) noexcept {
    constexpr const char* op = "jagged_dense_bmm";
    if (!check_whole(call, op, "x_offsets", given)) return;
    if (x_values.dim != 2 || given_y.dim != 3 || x_values.sizes[1] != given_y.sizes[1] ||
        given_y.sizes[0] != given.sizes[0] - 1)
        return call.fail("%s: x_values has shape %s and y %s for %lld rows, expected (items, D) and (rows, D, T).", op,
                         fb::Shape(x_values).text, fb::Shape(given_y).text, (long long)(given.sizes[0] - 1));
    if (!check_floating(call, op, x_values, given_y)) return;
    const fb::Tensor x = call.contiguous(x_values), y = call.contiguous(given_y), held = call.contiguous(given);
    if (!x.defined() || !y.defined() || !held.defined()) return;
    const Whole offsets(held);
    const int64_t items = x.sizes[0];
    if (!check_offsets(call, op, "x_offsets", offsets, items)) return;
    const int64_t rows = offsets.count - 1, d = y.sizes[1], t = y.sizes[2];
    fb::Tensor out = call.empty(x.dtype, {items, t});
    if (!out.defined()) return;
    for_floating(x.dtype, [&](auto tag) noexcept {
        using T = typename decltype(tag)::type;
        T* to = out.as<T>();
        const auto clear = [&](int64_t from, int64_t until) noexcept {
            memset(static_cast<void*>(to + from * t), 0, size_t((until - from) * t) * sizeof(T));
        };
        clear(0, offsets[0]);
        clear(offsets[rows], items);
        over_rows(rows, items * d * t, [&](int64_t begin, int64_t end) noexcept {
            for (int64_t row = begin; row < end; ++row) {
                const int64_t first = offsets[row], last = offsets[row + 1];
                const int64_t count = larger(0, smaller(last - first, max_l));
                multiply({x.as<const T>() + first * d, 1, d, y.as<const T>() + row * d * t, t, to + first * t, t, count,
                          t, d});
                clear(first + count, last);
            }
        });
    });
    call.give(out);
}

// Sizes of a product of vectors v (B * H, N) with items of width H * D.
struct Heads {
    int64_t rows, heads, longest, width;
};

bool find_heads(fb::Call& call, const char* op, const fb::Tensor& v, const fb::Tensor& a, const fb::Tensor& given,
                Heads& sizes) noexcept {
    if (!check_whole(call, op, "a_offsets", given)) return false;
    const int64_t rows = given.sizes[0] - 1;
    if (v.dim != 2 || a.dim != 2 || (rows > 0 ? v.sizes[0] % rows != 0 : v.sizes[0] != 0)) {
        call.fail("%s: v has shape %s and a_values %s for %lld rows, expected (rows * heads, longest) and "
                  "(items, heads * width).",
                  op, fb::Shape(v).text, fb::Shape(a).text, (long long)rows);
        return false;
    }
    const int64_t heads = rows > 0 ? v.sizes[0] / rows : 1;
    if (heads ? a.sizes[1] % heads != 0 : a.sizes[1] != 0) {
        call.fail("%s: a_values has shape %s, expected (items, heads * width) with %lld heads: v has %lld for %lld rows.",
                  op, fb::Shape(a).text, (long long)heads, (long long)v.sizes[0], (long long)rows);
        return false;
    }
    sizes = {rows, heads, v.sizes[1], heads ? a.sizes[1] / heads : 0};
    return check_floating(call, op, v, a);
}

// (B * H, D): out[b * H + h] = sum over j of v[b * H + h][j] * a[offsets[b] + j][h * D to (h + 1) * D].
void vectors(fb::Call& call, const fb::Tensor& given_v, const fb::Tensor& values, const fb::Tensor& given) noexcept {
    constexpr const char* op = "batched_dense_vec_jagged_2d_mul";
    Heads sizes{};
    if (!find_heads(call, op, given_v, values, given, sizes)) return;
    const fb::Tensor v = call.contiguous(given_v), a = call.contiguous(values), held = call.contiguous(given);
    if (!v.defined() || !a.defined() || !held.defined()) return;
    const Whole offsets(held);
    if (!check_offsets(call, op, "a_offsets", offsets, a.sizes[0])) return;
    const int64_t heads = sizes.heads, width = sizes.width, wide = heads * width;
    fb::Tensor out = call.empty(a.dtype, {v.sizes[0], width});
    if (!out.defined()) return;
    for_floating(a.dtype, [&](auto tag) noexcept {
        using T = typename decltype(tag)::type;
        over_rows(sizes.rows, a.numel() + out.numel(), [&](int64_t begin, int64_t end) noexcept {
            for (int64_t row = begin; row < end; ++row) {
                const int64_t first = offsets[row], count = smaller(offsets[row + 1] - first, sizes.longest);
                for (int64_t h = 0, vector = row * heads; h < heads; ++h, ++vector)
                    multiply({v.as<const T>() + vector * sizes.longest, 1, 0, a.as<const T>() + first * wide + h * width,
                              wide, out.as<T>() + vector * width, width, 1, width, count});
            }
        });
    });
    call.give(out);
}

void vectors_backward(fb::Call& call, const fb::Tensor& given_grad, const fb::Tensor& given_v, const fb::Tensor& values,
                      const fb::Tensor& given) noexcept {
    constexpr const char* op = "batched_dense_vec_jagged_2d_mul_backward";
    Heads sizes{};
    if (!find_heads(call, op, given_v, values, given, sizes) || !check_floating(call, op, given_grad, given_v)) return;
    if (given_grad.dim != 2 || given_grad.sizes[0] != given_v.sizes[0] || (sizes.rows > 0 && given_grad.sizes[1] != sizes.width))
        return call.fail("%s: grad_output has shape %s, expected (%lld, %lld).", op, fb::Shape(given_grad).text,
                         (long long)given_v.sizes[0], (long long)sizes.width);
    const fb::Tensor grad = call.contiguous(given_grad), v = call.contiguous(given_v), a = call.contiguous(values);
    const fb::Tensor held = call.contiguous(given);
    if (!grad.defined() || !v.defined() || !a.defined() || !held.defined()) return;
    const Whole offsets(held);
    if (!check_offsets(call, op, "a_offsets", offsets, a.sizes[0])) return;
    const int64_t heads = sizes.heads, width = sizes.width, wide = heads * width, longest = sizes.longest;
    fb::Tensor v_grad = call.empty(v.dtype, v.sizes, v.dim), a_grad = call.empty(a.dtype, a.sizes, a.dim);
    if (!v_grad.defined() || !a_grad.defined()) return;
    for_floating(a.dtype, [&](auto tag) noexcept {
        using T = typename decltype(tag)::type;
        T *to_v = v_grad.as<T>(), *to_a = a_grad.as<T>();
        const auto clear = [&](int64_t from, int64_t until) noexcept {
            memset(static_cast<void*>(to_a + from * wide), 0, size_t((until - from) * wide) * sizeof(T));
        };
        clear(0, offsets[0]);
        clear(offsets[sizes.rows], a.sizes[0]);
        over_rows(sizes.rows, 2 * a.numel() + v.numel(), [&](int64_t begin, int64_t end) noexcept {
            for (int64_t row = begin; row < end; ++row) {
                const int64_t first = offsets[row], last = offsets[row + 1], count = smaller(last - first, longest);
                for (int64_t h = 0, vector = row * heads; h < heads; ++h, ++vector) {
                    const T *g = grad.as<const T>() + vector * width, *factors = v.as<const T>() + vector * longest;
                    const int64_t from = first * wide + h * width;
                    T* flow = to_v + vector * longest;
                    for (int64_t j = 0; j < count; ++j)
                        flow[j] = fb::narrow<T>(dot(g, a.as<const T>() + from + j * wide, width));
                    memset(static_cast<void*>(flow + count), 0, size_t(longest - count) * sizeof(T));
                    multiply({factors, 0, 1, g, 0, to_a + from, wide, count, width, 1});
                }
                clear(first + count, last);
            }
        });
    });
    call.give(v_grad);
    call.give(a_grad);
}

FB_OPERATOR("jagged_jagged_bmm", jagged_jagged);
FB_OPERATOR("jagged_dense_bmm_forward", jagged_dense);
FB_OPERATOR("batched_dense_vec_jagged_2d_mul", vectors);
FB_OPERATOR("batched_dense_vec_jagged_2d_mul_backward", vectors_backward);

}  // namespace
}  // namespace rec
