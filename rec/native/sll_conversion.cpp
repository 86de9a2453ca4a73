// Square matrices of sequences end to end: padded to one size, multiplied by a mask; and two makers of sequences.

#include "jagged.h"

namespace rec {
namespace {

// The n of n * n numbers, or -1.
int64_t side(int64_t numbers) noexcept {
    int64_t low = 0, high = 3037000499;  // the largest whose square fits
    while (low < high) {
        const int64_t middle = (low + high + 1) / 2;
        if (middle * middle <= numbers)
            low = middle;
        else
            high = middle - 1;
    }
    return low * low == numbers ? low : -1;
}

bool check_squares(fb::Call& call, const char* op, const Whole& offsets, int64_t total) noexcept {
    if (!check_offsets(call, op, "offsets", offsets, total)) return false;
    for (int64_t row = 0; row + 1 < offsets.count; ++row)
        if (side(offsets[row + 1] - offsets[row]) < 0) {
            call.fail("%s: offsets gives %lld numbers to sequence %lld, expected the square of its length.", op,
                      (long long)(offsets[row + 1] - offsets[row]), (long long)row);
            return false;
        }
    return true;
}

void refuse(fb::Call& call, const char* op, const fb::Tensor& x) noexcept {
    call.fail("%s: values has shape %s and dtype %s, expected (numbers,) of a floating dtype, int32 or int64.", op,
              fb::Shape(x).text, fb::name(x.dtype));
}

// (B, N, N): the first N rows and columns of each matrix, padded.
void to_padded(fb::Call& call, const fb::Tensor& given, const fb::Tensor& given_offsets, int64_t longest,
               double padding) noexcept {
    constexpr const char* op = "sll_jagged2_to_padded_dense";
    if (!check_whole(call, op, "offsets", given_offsets)) return;
    if (longest < 0) return call.fail("%s: max_length is %lld, expected 0 or more.", op, (long long)longest);
    const fb::Tensor values = call.contiguous(given), held = call.contiguous(given_offsets);
    if (!values.defined() || !held.defined()) return;
    const Whole offsets(held);
    if (values.dim != 1) return refuse(call, op, values);
    if (!check_squares(call, op, offsets, values.sizes[0])) return;
    const int64_t rows = offsets.count - 1;
    fb::Tensor dense = call.empty(values.dtype, {rows, longest, longest});
    if (!dense.defined()) return;
    const bool known = for_numbers(values.dtype, [&](auto tag) noexcept {
        using T = typename decltype(tag)::type;
        T filler;
        if constexpr (std::is_integral<T>::value)
            filler = T(padding);
        else
            filler = fb::narrow<T>(fb::Wide<T>(padding));
        over_rows(rows, dense.numel(), [&](int64_t begin, int64_t end) noexcept {
            for (int64_t row = begin; row < end; ++row) {
                const int64_t n = side(offsets[row + 1] - offsets[row]), count = smaller(n, longest);
                T* to = dense.as<T>() + row * longest * longest;
                for (int64_t i = 0; i < longest; ++i, to += longest) {
                    const int64_t some = i < count ? count : 0;
                    if (some) memcpy(to, values.as<const T>() + offsets[row] + i * n, size_t(some) * sizeof(T));
                    for (int64_t j = some; j < longest; ++j) to[j] = filler;
                }
            }
        });
    });
    if (!known) return refuse(call, op, values);
    call.give(dense);
}

// The numbers of the matrices again; 0 beyond the dense ones.
void from_padded(fb::Call& call, const fb::Tensor& given, const fb::Tensor& given_offsets, int64_t total) noexcept {
    constexpr const char* op = "sll_jagged2_to_padded_dense_backward";
    if (!check_whole(call, op, "offsets", given_offsets)) return;
    const fb::Tensor dense = call.contiguous(given), held = call.contiguous(given_offsets);
    if (!dense.defined() || !held.defined()) return;
    const Whole offsets(held);
    if (dense.dim != 3 || dense.sizes[0] != offsets.count - 1 || dense.sizes[1] != dense.sizes[2])
        return call.fail("%s: dense has shape %s, expected (%lld, longest, longest).", op, fb::Shape(dense).text,
                         (long long)(offsets.count - 1));
    if (!check_squares(call, op, offsets, total)) return;
    fb::Tensor values = call.empty(dense.dtype, {total});
    if (!values.defined()) return;
    const int64_t bytes = fb::dtype_bytes[int32_t(dense.dtype)], longest = dense.sizes[1];
    memset(values.data, 0, size_t(total * bytes));
    over_rows(dense.sizes[0], total, [&](int64_t begin, int64_t end) noexcept {
        for (int64_t row = begin; row < end; ++row) {
            const int64_t n = side(offsets[row + 1] - offsets[row]), count = smaller(n, longest);
            for (int64_t i = 0; i < count; ++i)
                memcpy(values.as<char>() + (offsets[row] + i * n) * bytes,
                       dense.as<const char>() + (row * longest + i) * longest * bytes, size_t(count * bytes));
        }
    });
    call.give(values);
}

// Each matrix times the upper left of one matrix (N, N).
void times_dense(fb::Call& call, const fb::Tensor& given, const fb::Tensor& given_y, const fb::Tensor& given_lengths,
                 const fb::Tensor& given_offsets) noexcept {
    constexpr const char* op = "sll_jagged_dense_elementwise_mul_jagged_out";
    if (!check_whole(call, op, "x_seq_lengths", given_lengths) || !check_whole(call, op, "x_offsets", given_offsets))
        return;
    if (given_y.dim != 2 || given_y.dtype != given.dtype)
        return call.fail("%s: y has shape %s and dtype %s, expected (longest, longest) of %s as x.", op,
                         fb::Shape(given_y).text, fb::name(given_y.dtype), fb::name(given.dtype));
    const fb::Tensor x = call.contiguous(given), y = call.contiguous(given_y), held = call.contiguous(given_lengths),
                     ends = call.contiguous(given_offsets);
    if (!x.defined() || !y.defined() || !held.defined() || !ends.defined()) return;
    const Whole lengths(held), offsets(ends);
    const int64_t most = smaller(y.sizes[0], y.sizes[1]), wide_y = y.sizes[1];
    if (x.dim != 1) return refuse(call, op, x);
    if (!check_offsets(call, op, "x_offsets", offsets, x.sizes[0])) return;
    if (lengths.count != offsets.count - 1)
        return call.fail("%s: x_seq_lengths has %lld entries for %lld sequences, expected as many.", op,
                         (long long)lengths.count, (long long)(offsets.count - 1));
    for (int64_t row = 0; row < lengths.count; ++row) {
        if (lengths[row] > most)
            return call.fail("%s: sequence %lld has length %lld, but y has shape %s.", op, (long long)row,
                             (long long)lengths[row], fb::Shape(y).text);
        if (lengths[row] < 0 || side(offsets[row + 1] - offsets[row]) != lengths[row])
            return call.fail("%s: sequence %lld of length %lld has %lld numbers, expected its square.", op,
                             (long long)row, (long long)lengths[row], (long long)(offsets[row + 1] - offsets[row]));
    }
    fb::Tensor out = call.empty(x.dtype, x.sizes, 1);
    if (!out.defined()) return;
    const bool known = for_numbers(x.dtype, [&](auto tag) noexcept {
        using T = typename decltype(tag)::type;
        memset(out.data, 0, size_t(x.sizes[0]) * sizeof(T));
        over_rows(lengths.count, x.sizes[0], [&](int64_t begin, int64_t end) noexcept {
            for (int64_t row = begin; row < end; ++row) {
                const int64_t n = lengths[row];
                for (int64_t i = 0; i < n; ++i) {
                    const T *a = x.as<const T>() + offsets[row] + i * n, *b = y.as<const T>() + i * wide_y;
                    T* to = out.as<T>() + offsets[row] + i * n;
                    for (int64_t j = 0; j < n; ++j) to[j] = narrowed<T>(widened(a[j]) * widened(b[j]));
                }
            }
        });
    });
    if (!known) return refuse(call, op, x);
    call.give(out);
}

// Each sequence with one item before it, and the new offsets, int64 as FBGEMM's.
void put_before(fb::Call& call, const fb::Tensor& given_a, const fb::Tensor& given_b, const fb::Tensor& given_offsets,
                int64_t) noexcept {
    constexpr const char* op = "sll_dense_jagged_cat_jagged_out";
    if (given_a.dim != 1 || given_b.dim != 1 || given_a.dtype != given_b.dtype || given_a.dtype == fb::DType::Other)
        return call.fail("%s: a has shape %s and dtype %s, b %s and %s, expected (sequences,) and (items,) of one dtype.",
                         op, fb::Shape(given_a).text, fb::name(given_a.dtype), fb::Shape(given_b).text,
                         fb::name(given_b.dtype));
    if (!check_whole(call, op, "a_offsets", given_offsets)) return;
    const fb::Tensor a = call.contiguous(given_a), b = call.contiguous(given_b), held = call.contiguous(given_offsets);
    if (!a.defined() || !b.defined() || !held.defined()) return;
    const Whole offsets(held);
    if (!check_offsets(call, op, "a_offsets", offsets, b.sizes[0])) return;
    const int64_t rows = offsets.count - 1;
    if (a.sizes[0] != rows)
        return call.fail("%s: a has %lld items, expected %lld: one for each sequence.", op, (long long)a.sizes[0],
                         (long long)rows);
    const int64_t bytes = fb::dtype_bytes[int32_t(a.dtype)];
    fb::Tensor out = call.empty(a.dtype, {offsets[rows] - offsets[0] + rows});
    fb::Tensor ends = call.empty(fb::DType::Int64, {rows + 1});
    if (!out.defined() || !ends.defined()) return;
    char* to = out.as<char>();
    for (int64_t row = 0; row <= rows; ++row) {
        ends.as<int64_t>()[row] = offsets[row] + row;
        if (row == rows) break;
        const size_t size = size_t((offsets[row + 1] - offsets[row]) * bytes);
        memcpy(to, a.as<const char>() + row * bytes, size_t(bytes));
        memcpy(to + bytes, b.as<const char>() + offsets[row] * bytes, size);
        to += size + size_t(bytes);
    }
    call.give(out);
    call.give(ends);
}

// Of each sequence of n items a matrix of (n - 1) * (n - 1) differences: a[i] - a[j + 1].
void differences(fb::Call& call, const fb::Tensor& given, const fb::Tensor& given_a, const fb::Tensor& given_b,
                 int64_t) noexcept {
    constexpr const char* op = "sll_jagged_self_substraction_jagged_out";
    if (!check_whole(call, op, "offsets_a", given_a) || !check_whole(call, op, "offsets_b", given_b)) return;
    const fb::Tensor a = call.contiguous(given), from = call.contiguous(given_a), to = call.contiguous(given_b);
    if (!a.defined() || !from.defined() || !to.defined()) return;
    const Whole sources(from), targets(to);
    if (a.dim != 1) return refuse(call, op, a);
    if (!check_offsets(call, op, "offsets_a", sources, a.sizes[0])) return;
    const int64_t numbers = targets.count ? targets[targets.count - 1] : 0;
    if (!check_offsets(call, op, "offsets_b", targets, numbers)) return;
    if (sources.count != targets.count)
        return call.fail("%s: offsets_a has %lld entries and offsets_b %lld, expected as many.", op,
                         (long long)sources.count, (long long)targets.count);
    for (int64_t row = 0; row + 1 < sources.count; ++row) {
        const int64_t n = larger(0, sources[row + 1] - sources[row] - 1), there = targets[row + 1] - targets[row];
        if (side(there) != n)
            return call.fail("%s: offsets_b gives sequence %lld %lld numbers, expected %lld squared: one item fewer than "
                             "it has.",
                             op, (long long)row, (long long)there, (long long)n);
    }
    fb::Tensor out = call.empty(a.dtype, {numbers});
    if (!out.defined()) return;
    const bool known = for_numbers(a.dtype, [&](auto tag) noexcept {
        using T = typename decltype(tag)::type;
        memset(out.data, 0, size_t(numbers) * sizeof(T));
        over_rows(sources.count - 1, numbers, [&](int64_t begin, int64_t end) noexcept {
            for (int64_t row = begin; row < end; ++row) {
                const int64_t n = sources[row + 1] - sources[row] - 1;
                const T* item = a.as<const T>() + sources[row];
                T* place = out.as<T>() + targets[row];
                for (int64_t i = 0; i < n; ++i)
                    for (int64_t j = 0; j < n; ++j) *place++ = narrowed<T>(widened(item[i]) - widened(item[j + 1]));
            }
        });
    });
    if (!known) return refuse(call, op, a);
    call.give(out);
}

FB_OPERATOR("sll_jagged2_to_padded_dense", to_padded);
FB_OPERATOR("_sll_padded_dense_to_jagged2", from_padded);
FB_OPERATOR("_sll_times_dense", times_dense);
FB_OPERATOR("sll_dense_jagged_cat_jagged_out", put_before);
FB_OPERATOR("sll_jagged_self_substraction_jagged_out", differences);

}  // namespace
}  // namespace rec
