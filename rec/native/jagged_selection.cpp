// Rows and items of jagged tensors chosen, cut and added up.

#include "jagged.h"

namespace rec {
namespace {

constexpr int64_t most_dims = 8;

bool check_values(fb::Call& call, const char* op, const fb::Tensor& values) noexcept {
    if (values.dim >= 1 && values.dim <= most_dims && values.dtype != fb::DType::Other) return true;
    call.fail("%s: values has shape %s and dtype %s, expected (items, ...).", op, fb::Shape(values).text,
              fb::name(values.dtype));
    return false;
}

// A result like `values` with another number of items.
fb::Tensor with_items(fb::Call& call, const fb::Tensor& values, int64_t items) noexcept {
    int64_t sizes[most_dims] = {items};
    for (int64_t i = 1; i < values.dim; ++i) sizes[i] = values.sizes[i];
    return call.empty(values.dtype, sizes, values.dim);
}

int64_t bytes_of(const fb::Tensor& values) noexcept {
    return width_of(values) * fb::dtype_bytes[int32_t(values.dtype)];
}

// Where rows end: running sums of their lengths without the leading 0, as FBGEMM's selections take them.
struct Ends {
    Whole ends;
    int64_t first(int64_t row) const noexcept { return row ? ends[row - 1] : 0; }
    int64_t length(int64_t row) const noexcept { return ends[row] - first(row); }
    int64_t total() const noexcept { return ends.count ? ends[ends.count - 1] : 0; }
};

bool check_ends(fb::Call& call, const char* op, const char* what, const Ends& given, int64_t total) noexcept {
    int64_t before = 0;
    for (int64_t row = 0; row < given.ends.count; ++row) {
        const int64_t here = given.ends[row];
        if (here < before || here > total) {
            call.fail("%s: %s has %lld at %lld, expected %lld to %lld: rows end one after the other, within the values.",
                      op, what, (long long)here, (long long)row, (long long)before, (long long)total);
            return false;
        }
        before = here;
    }
    return true;
}

// `chosen` and `all` are the ends of the rows chosen and of all rows; row i of the former is row indices[i].
bool check_rows(fb::Call& call, const char* op, const Whole& indices, const Ends& chosen, const Ends& all) noexcept {
    if (indices.count != chosen.ends.count) {
        call.fail("%s: indices has %lld entries for %lld chosen rows, expected as many.", op, (long long)indices.count,
                  (long long)chosen.ends.count);
        return false;
    }
    for (int64_t i = 0; i < indices.count; ++i) {
        const int64_t row = indices[i];
        if (row < 0 || row >= all.ends.count) {
            call.fail("%s: indices has %lld at %lld, expected 0 to %lld: there are %lld rows.", op, (long long)row,
                      (long long)i, (long long)(all.ends.count - 1), (long long)all.ends.count);
            return false;
        }
        if (chosen.length(i) != all.length(row)) {
            call.fail("%s: row %lld has %lld items where it is chosen at %lld, and %lld where it comes from.", op,
                      (long long)row, (long long)chosen.length(i), (long long)i, (long long)all.length(row));
            return false;
        }
    }
    return true;
}

void select(fb::Call& call, const fb::Tensor& given, const fb::Tensor& given_indices, const fb::Tensor& given_input,
            const fb::Tensor& given_output, const fb::OptionalInt& wanted) noexcept {
    constexpr const char* op = "jagged_index_select";
    if (!check_values(call, op, given) || !check_whole(call, op, "indices", given_indices) ||
        !check_whole(call, op, "input_offsets", given_input) || !check_whole(call, op, "output_offsets", given_output))
        return;
    const fb::Tensor values = call.contiguous(given), chosen = call.contiguous(given_indices);
    const fb::Tensor input = call.contiguous(given_input), output = call.contiguous(given_output);
    if (!values.defined() || !chosen.defined() || !input.defined() || !output.defined()) return;
    const Whole indices(chosen);
    const Ends from{Whole(input)}, to{Whole(output)};
    if (!check_ends(call, op, "input_offsets", from, values.sizes[0]) ||
        !check_ends(call, op, "output_offsets", to, INT64_MAX) || !check_rows(call, op, indices, to, from))
        return;
    const int64_t items = wanted.given ? wanted.value : to.total();
    if (items < to.total())
        return call.fail("%s: num_dense_output_rows is %lld, expected %lld: as many items are chosen.", op,
                         (long long)items, (long long)to.total());
    fb::Tensor result = with_items(call, values, items);
    if (!result.defined()) return;
    const int64_t bytes = bytes_of(values);
    over_rows(indices.count, to.total() * bytes / 8, [&](int64_t begin, int64_t end) noexcept {
        for (int64_t i = begin; i < end; ++i)
            memcpy(result.as<char>() + to.first(i) * bytes, values.as<const char>() + from.first(indices[i]) * bytes,
                   size_t(to.length(i) * bytes));
    });
    memset(result.as<char>() + to.total() * bytes, 0, size_t((items - to.total()) * bytes));
    call.give(result);
}

void select_forward(fb::Call& call, const fb::Tensor& values, const fb::Tensor& indices, const fb::Tensor& input,
                    const fb::Tensor& output, int64_t items) noexcept {
    select(call, values, indices, input, output, {true, items});
}

// Adding by type: half precision adds up in float, in memory of its own.
template <typename T>
struct Sum {
    using type = T;
};
template <>
struct Sum<fb::Half> {
    using type = float;
};
template <>
struct Sum<fb::BFloat16> {
    using type = float;
};

template <typename T, typename W>
void accumulate(const T* from, int64_t count, W* to) noexcept {
    for (int64_t i = 0; i < count; ++i) to[i] = W(to[i] + W(fb::widen(from[i])));
}
void accumulate(const int32_t* from, int64_t count, int32_t* to) noexcept {
    for (int64_t i = 0; i < count; ++i) to[i] = int32_t(uint32_t(to[i]) + uint32_t(from[i]));
}
void accumulate(const int64_t* from, int64_t count, int64_t* to) noexcept {
    for (int64_t i = 0; i < count; ++i) to[i] = int64_t(uint64_t(to[i]) + uint64_t(from[i]));
}

// Items [first, last) of the result's numbers are a thread's own: rows may be chosen several times.
template <typename T, typename W>
void add_rows(const T* values, const Whole& indices, const Ends& from, const Ends& to, int64_t width, int64_t first,
              int64_t last, W* result) noexcept {
    for (int64_t i = 0; i < indices.count; ++i) {
        const int64_t length = from.length(i) * width, source = from.first(i) * width;
        const int64_t target = to.first(indices[i]) * width;
        const int64_t begin = larger(0, first - target), end = smaller(length, last - target);
        if (begin < end) accumulate(values + source + begin, end - begin, result + target + begin);
    }
}

void index_add(fb::Call& call, const fb::Tensor& given, const fb::Tensor& given_indices, const fb::Tensor& given_input,
               const fb::Tensor& given_output, int64_t input_items, int64_t output_items) noexcept {
    constexpr const char* op = "jagged_index_add_2d";
    if (!check_values(call, op, given) || !check_whole(call, op, "indices", given_indices) ||
        !check_whole(call, op, "input_offsets", given_input) || !check_whole(call, op, "output_offsets", given_output))
        return;
    const fb::Tensor values = call.contiguous(given), chosen = call.contiguous(given_indices);
    const fb::Tensor input = call.contiguous(given_input), output = call.contiguous(given_output);
    if (!values.defined() || !chosen.defined() || !input.defined() || !output.defined()) return;
    const Whole indices(chosen);
    const Ends from{Whole(input)}, to{Whole(output)};
    if (input_items > values.sizes[0])
        return call.fail("%s: num_dense_input_rows is %lld, but values has %lld items.", op, (long long)input_items,
                         (long long)values.sizes[0]);
    if (!check_ends(call, op, "input_offsets", from, values.sizes[0]) ||
        !check_ends(call, op, "output_offsets", to, output_items) || !check_rows(call, op, indices, from, to))
        return;
    fb::Tensor result = with_items(call, values, output_items);
    if (!result.defined()) return;
    const int64_t width = width_of(values), numbers = output_items * width;
    const auto add = [&](auto tag) noexcept {
        using T = typename decltype(tag)::type;
        using W = typename Sum<T>::type;
        const bool apart = !std::is_same<T, W>::value;
        void* memory = apart ? malloc(size_t(numbers) * sizeof(W) + 1) : result.data;
        if (!memory && numbers) return call.fail("%s: no memory left for %lld sums", op, (long long)numbers);
        W* sums = static_cast<W*>(memory);
        const int64_t work = numbers + from.total() * width;
        over_rows(numbers, work, [&](int64_t begin, int64_t end) noexcept {
            memset(static_cast<void*>(sums + begin), 0, size_t(end - begin) * sizeof(W));
            add_rows(values.as<const T>(), indices, from, to, width, begin, end, sums);
            if constexpr (!std::is_same<T, W>::value)
                for (int64_t i = begin; i < end; ++i) result.as<T>()[i] = fb::narrow<T>(sums[i]);
        });
        if (apart) free(memory);
    };
    if (!for_floating(values.dtype, add)) {
        if (values.dtype == fb::DType::Int32)
            add(Type<int32_t>());
        else if (values.dtype == fb::DType::Int64)
            add(Type<int64_t>());
        else
            return call.fail("%s: values is %s, expected a floating dtype, int32 or int64; convert it.", op,
                             fb::name(values.dtype));
    }
    call.give(result);
}

void index_add_v2(fb::Call& call, const fb::Tensor& values, const fb::Tensor& indices, const fb::Tensor& input,
                  const fb::Tensor& output, int64_t output_items, int64_t input_items) noexcept {
    index_add(call, values, indices, input, output, input_items, output_items);
}

// Short pieces of wide numbers are copied one by one: a call for each would take longer than that.
void copy_items(char* to, const char* from, int64_t count, int64_t bytes) noexcept {
    if (bytes == 8 && count <= 8) {
        for (int64_t i = 0; i < count; ++i) memcpy(to + 8 * i, from + 8 * i, 8);
    } else if (bytes == 4 && count <= 8) {
        for (int64_t i = 0; i < count; ++i) memcpy(to + 4 * i, from + 4 * i, 4);
    } else {
        memcpy(to, from, size_t(count * bytes));
    }
}

// Items source[b] + i of each row become items target[b] + i of another tensor's row, as long as both have them and i is
// below `most`; what is left of the result is 0.
void slice(fb::Call& call, const char* op, const fb::Tensor& values, const Whole& lengths, const Whole* sources,
           const Whole& new_lengths, const Whole* targets, int64_t items, int64_t most) noexcept {
    const int64_t bytes = bytes_of(values), rows = lengths.count;
    int64_t known = 0, made = 0;
    for (int64_t row = 0; row < rows; ++row) {
        const int64_t source = sources ? (*sources)[row] : 0, target = targets ? (*targets)[row] : 0;
        if (lengths[row] < 0 || new_lengths[row] < 0 || source < 0 || target < 0)
            return call.fail("%s: row %lld has length %lld, start %lld, expected 0 or more.", op, (long long)row,
                             (long long)smaller(lengths[row], new_lengths[row]), (long long)smaller(source, target));
        known += lengths[row];
        made += new_lengths[row];
    }
    if (known > values.sizes[0] || made > items)
        return call.fail("%s: lengths add up to %lld of %lld items, those of the result to %lld of %lld.", op,
                         (long long)known, (long long)values.sizes[0], (long long)made, (long long)items);
    fb::Tensor result = with_items(call, values, items);
    if (!result.defined()) return;
    if (targets || made < items) memset(result.data, 0, size_t(items * bytes));  // else every item is written below
    for (int64_t row = 0, first = 0, new_first = 0; row < rows; ++row) {
        const int64_t source = sources ? (*sources)[row] : 0, target = targets ? (*targets)[row] : 0;
        const int64_t count = smaller(most, smaller(lengths[row] - source, new_lengths[row] - target));
        if (count > 0)
            copy_items(result.as<char>() + (new_first + target) * bytes,
                       values.as<const char>() + (first + source) * bytes, count, bytes);
        first += lengths[row];
        new_first += new_lengths[row];
    }
    call.give(result);
}

void slice_forward(fb::Call& call, const fb::Tensor& given, const fb::Tensor& given_lengths,
                   const fb::Tensor& given_source, const fb::Tensor& given_new, const fb::Tensor& given_target,
                   int64_t items, int64_t most, bool) noexcept {
    constexpr const char* op = "jagged_slice";
    if (!check_values(call, op, given)) return;
    const fb::Tensor values = call.contiguous(given);
    fb::Tensor held[] = {call.contiguous(given_lengths), call.contiguous(given_source), call.contiguous(given_new),
                         call.contiguous(given_target)};
    const char* names[] = {"x_lengths", "src_start", "output_lengths", "tgt_start"};
    if (!values.defined()) return;
    Whole whole[4];
    for (int i = 0; i < 4; ++i) {
        if (!held[i].defined() || !check_whole(call, op, names[i], held[i])) return;
        whole[i] = Whole(held[i]);
        if (whole[i].count != whole[0].count)
            return call.fail("%s: %s has %lld entries, expected %lld as x_lengths.", op, names[i],
                             (long long)whole[i].count, (long long)whole[0].count);
    }
    slice(call, op, values, whole[0], &whole[1], whole[2], &whole[3], items, larger(most, 0));
}

// The piece of each row from its start on, at most `most` items; and how many that are.
void pieces(fb::Call& call, const fb::Tensor& given, const fb::Tensor& given_lengths, const fb::Tensor& given_start,
            int64_t most) noexcept {
    constexpr const char* op = "jagged_slice";
    if (!check_values(call, op, given) || !check_whole(call, op, "x_lengths", given_lengths) ||
        !check_whole(call, op, "start", given_start))
        return;
    const fb::Tensor values = call.contiguous(given), held = call.contiguous(given_lengths);
    const fb::Tensor starts = call.contiguous(given_start);
    if (!values.defined() || !held.defined() || !starts.defined()) return;
    const Whole lengths(held), start(starts);
    if (start.count != lengths.count)
        return call.fail("%s: start has %lld entries, expected %lld as x_lengths.", op, (long long)start.count,
                         (long long)lengths.count);
    if (most < 0) return call.fail("%s: slice_length is %lld, expected 0 or more.", op, (long long)most);
    fb::Tensor made = call.empty(held.dtype, held.sizes, 1);
    if (!made.defined()) return;
    int64_t items = 0;
    for (int64_t row = 0; row < lengths.count; ++row) {
        if (start[row] < 0 || start[row] > lengths[row])
            return call.fail("%s: start has %lld at %lld, expected 0 to %lld, the length of the row.", op,
                             (long long)start[row], (long long)row, (long long)lengths[row]);
        const int64_t count = smaller(most, lengths[row] - start[row]);
        items += count;
        if (lengths.wide)
            made.as<int64_t>()[row] = count;
        else
            made.as<int32_t>()[row] = int32_t(count);
    }
    slice(call, op, values, lengths, &start, Whole(made), nullptr, items, most);
    call.give(made);
}

void truncated(fb::Call& call, const fb::Tensor& given, const fb::Tensor& given_lengths, int64_t most) noexcept {
    constexpr const char* op = "jagged_1d_to_truncated_values";
    if (!check_values(call, op, given) || !check_whole(call, op, "lengths", given_lengths)) return;
    const fb::Tensor values = call.contiguous(given), held = call.contiguous(given_lengths);
    if (!values.defined() || !held.defined()) return;
    const Whole lengths(held);
    fb::Tensor cut = call.empty(fb::DType::Int64, {lengths.count});
    if (!cut.defined()) return;
    int64_t items = 0;
    for (int64_t row = 0; row < lengths.count; ++row)
        items += cut.as<int64_t>()[row] = larger(0, smaller(lengths[row], most));
    slice(call, op, values, lengths, nullptr, Whole(cut), nullptr, items, larger(most, 0));
}

template <typename T>
void choose(const fb::Tensor& values, const bool* mask, fb::Tensor& chosen) noexcept {
    const T* from = values.as<const T>();
    T* to = chosen.as<T>();
    for (int64_t i = 0; i < values.sizes[0]; ++i)
        if (mask[i]) *to++ = from[i];
}

// The items where the mask is true, and how many of them each row has.
void masked_select(fb::Call& call, const fb::Tensor& given, const fb::Tensor& given_lengths,
                   const fb::Tensor& given_mask) noexcept {
    constexpr const char* op = "masked_select_jagged_1d";
    if (given.dim != 1 || given.dtype == fb::DType::Other)
        return call.fail("%s: values has shape %s and dtype %s, expected (items,).", op, fb::Shape(given).text,
                         fb::name(given.dtype));
    if (!check_whole(call, op, "lengths", given_lengths)) return;
    if (given_mask.dim != 1 || given_mask.dtype != fb::DType::Bool || given_mask.sizes[0] != given.sizes[0])
        return call.fail("%s: mask has shape %s and dtype %s, expected (%lld,) of torch.bool.", op,
                         fb::Shape(given_mask).text, fb::name(given_mask.dtype), (long long)given.sizes[0]);
    const fb::Tensor values = call.contiguous(given), held = call.contiguous(given_lengths);
    const fb::Tensor mask = call.contiguous(given_mask);
    if (!values.defined() || !held.defined() || !mask.defined()) return;
    const Whole lengths(held);
    fb::Tensor left = call.empty(held.dtype, held.sizes, 1);
    if (!left.defined()) return;
    const bool* wanted = mask.as<const bool>();
    const int64_t items = values.sizes[0];
    int64_t at = 0, count = 0;
    for (int64_t row = 0; row < lengths.count; ++row) {
        const int64_t length = lengths[row];
        if (length < 0 || length > items - at)
            return call.fail("%s: lengths has %lld at %lld, but %lld of %lld items are left.", op, (long long)length,
                             (long long)row, (long long)(items - at), (long long)items);
        int64_t some = 0;
        for (int64_t i = at; i < at + length; ++i) some += wanted[i];
        at += length;
        count += some;
        if (lengths.wide)
            left.as<int64_t>()[row] = some;
        else
            left.as<int32_t>()[row] = int32_t(some);
    }
    for (; at < items; ++at) count += wanted[at];
    fb::Tensor chosen = call.empty(values.dtype, {count});
    if (!chosen.defined()) return;
    switch (fb::dtype_bytes[int32_t(values.dtype)]) {
        case 1: choose<uint8_t>(values, wanted, chosen); break;
        case 2: choose<uint16_t>(values, wanted, chosen); break;
        case 4: choose<uint32_t>(values, wanted, chosen); break;
        case 8: choose<uint64_t>(values, wanted, chosen); break;
        default:
            struct Sixteen {
                uint64_t halves[2];
            };
            choose<Sixteen>(values, wanted, chosen);
    }
    call.give(chosen);
    call.give(left);
}

FB_OPERATOR("jagged_index_select_2d_forward", select_forward);
FB_OPERATOR("jagged_index_select_2d_forward_v2", select);
FB_OPERATOR("jagged_index_add_2d_forward", index_add);
FB_OPERATOR("jagged_index_add_2d_forward_v2", index_add_v2);
FB_OPERATOR("jagged_slice", pieces);
FB_OPERATOR("jagged_slice_forward", slice_forward);
FB_OPERATOR("jagged_1d_to_truncated_values", truncated);
FB_OPERATOR("_masked_select_jagged_1d", masked_select);

}  // namespace
}  // namespace rec
