// Numbers counted anew in every segment, and permutations spelled out: what lengths and offsets stand for.

#include <flambeau/numbers.h>

#include "indices.h"

namespace rec {
namespace {

template <typename T>
void count_up(T* output, int64_t count) noexcept {
    for (int64_t i = 0; i < count; ++i) output[i] = T(i);
}

// Segments of which it is known that they lie within the output, on several threads.
template <typename T, typename Place>
void count_segments(T* output, int64_t segments, int64_t total, const Place& place) noexcept {
    const int64_t grain = segments * fb::serial_below / (total + segments + 1) + 1;
    fb::parallel_for(0, segments, grain, fb::threads(total + segments), [&](int64_t first, int64_t last) noexcept {
        for (int64_t i = first; i < last; ++i) {
            const auto segment = place(i);
            count_up(output + segment.begin, segment.count);
        }
    });
}

struct Segment {
    int64_t begin, count;
};

void offsets_range(fb::Call& call, const fb::Tensor& given, int64_t total) noexcept {
    if (!index_vector(call, "offsets_range", "offsets", given)) return;
    if (total < 0) return call.fail("offsets_range: range_size is %lld, expected at least 0.", (long long)total);
    const fb::Tensor offsets = call.contiguous(given);
    if (!offsets.defined()) return;
    fb::Tensor output = call.empty(offsets.dtype, {total});
    if (!output.defined()) return;
    const int64_t segments = offsets.sizes[0];
    with_indices(offsets, [&](auto* starts) noexcept {
        using T = std::remove_const_t<std::remove_pointer_t<decltype(starts)>>;
        const auto end = [&](int64_t i) noexcept { return i + 1 < segments ? int64_t(starts[i + 1]) : total; };
        for (int64_t i = 0; i < segments; ++i)
            if (starts[i] < 0 || starts[i] > end(i))
                return call.fail("offsets_range: segment %lld goes from %lld to %lld; offsets do not decrease, from 0 "
                                 "to range_size, which is %lld.",
                                 (long long)i, (long long)starts[i], (long long)end(i), (long long)total);
        count_up(output.as<T>(), segments ? int64_t(starts[0]) : total);  // what lies before the first segment
        count_segments(output.as<T>(), segments, total,
                       [&](int64_t i) noexcept { return Segment{starts[i], end(i) - starts[i]}; });
        call.give(output);
    });
}

void repeat_arange(fb::Call& call, const fb::Tensor& given) noexcept {
    if (!is_index(given))
        return call.fail("repeat_arange: lengths has shape %s and dtype %s, expected int32 or int64.",
                         fb::Shape(given).text, fb::name(given.dtype));
    const fb::Tensor lengths = call.contiguous(given);
    if (!lengths.defined()) return;
    const int64_t segments = lengths.numel();
    with_indices(lengths, [&](auto* counts) noexcept {
        using T = std::remove_const_t<std::remove_pointer_t<decltype(counts)>>;
        int64_t total = 0;
        for (int64_t i = 0; i < segments; ++i) {
            if (counts[i] < 0)
                return call.fail("repeat_arange: lengths has %lld at %lld, expected at least 0.", (long long)counts[i],
                                 (long long)i);
            total += counts[i];
        }
        fb::Tensor output = call.empty(lengths.dtype, {total});
        if (!output.defined()) return;
        T* to = output.as<T>();
        for (int64_t i = 0; i < segments; to += counts[i++]) count_up(to, counts[i]);
        call.give(output);
    });
}

void invert_permute(fb::Call& call, const fb::Tensor& given) noexcept {
    if (!index_vector(call, "invert_permute", "permute", given)) return;
    const fb::Tensor permute = call.contiguous(given);
    if (!permute.defined()) return;
    fb::Tensor output = call.empty(permute.dtype, permute.sizes, 1);
    if (!output.defined()) return;
    const int64_t count = permute.sizes[0];
    with_indices(permute, [&](auto* from) noexcept {
        using T = std::remove_const_t<std::remove_pointer_t<decltype(from)>>;
        T* to = output.as<T>();
        for (int64_t i = 0; i < count; ++i) to[i] = -1;
        for (int64_t i = 0; i < count; ++i) {
            if (from[i] < 0 || from[i] >= count || to[from[i]] != -1)
                return call.fail("invert_permute: permute has %lld at %lld, expected each of 0 to %lld once.",
                                 (long long)from[i], (long long)i, (long long)(count - 1));
            to[from[i]] = T(i);
        }
        call.give(output);
    });
}

// Offsets are read as int64, so that those of one dtype may be mixed with those of another.
void expand_into_jagged_permute(fb::Call& call, const fb::Tensor& given, const fb::Tensor& inputs,
                                const fb::Tensor& outputs, int64_t total) noexcept {
    constexpr const char* op = "expand_into_jagged_permute";
    if (!index_vector(call, op, "permute", given) || !index_vector(call, op, "input_offset", inputs) ||
        !index_vector(call, op, "output_offset", outputs))
        return;
    const int64_t rows = given.sizes[0];
    if (inputs.sizes[0] < 1 || outputs.sizes[0] != rows + 1 || total < 0)
        return call.fail("%s: input_offset has shape %s, output_offset %s and output_size is %lld; expected one offset "
                         "more than there are rows, which are %lld.",
                         op, fb::Shape(inputs).text, fb::Shape(outputs).text, (long long)total, (long long)rows);
    const fb::Tensor permute = call.contiguous(given), from = call.contiguous(inputs), to = call.contiguous(outputs);
    if (!permute.defined() || !from.defined() || !to.defined()) return;
    fb::Tensor output = call.empty(from.dtype, {total});
    if (!output.defined()) return;
    const int64_t known = from.sizes[0] - 1;
    for (int64_t i = 0; i < rows; ++i) {
        const int64_t row = index_at(permute, i);
        const int64_t begin = index_at(to, i), end = index_at(to, i + 1);
        if (row < 0 || row >= known || begin < 0 || begin > end || end > total)
            return call.fail("%s: row %lld is row %lld of %lld of the input, and goes from %lld to %lld of %lld.", op,
                             (long long)i, (long long)row, (long long)known, (long long)begin, (long long)end,
                             (long long)total);
    }
    const int64_t grain = rows * fb::serial_below / (total + rows + 1) + 1;
    with_indices(from, [&](auto* starts) noexcept {
        using T = std::remove_const_t<std::remove_pointer_t<decltype(starts)>>;
        T* written = output.as<T>();
        // Places that no row covers, in front and behind.
        const int64_t first = rows ? index_at(to, 0) : total, last = rows ? index_at(to, rows) : total;
        for (int64_t i = 0; i < first; ++i) written[i] = 0;
        for (int64_t i = last; i < total; ++i) written[i] = 0;
        fb::parallel_for(0, rows, grain, fb::threads(total + rows), [&](int64_t begin, int64_t end) noexcept {
            for (int64_t i = begin; i < end; ++i) {
                const T start = starts[index_at(permute, i)];
                const int64_t at = index_at(to, i), count = index_at(to, i + 1) - at;
                for (int64_t j = 0; j < count; ++j) written[at + j] = T(start + T(j));
            }
        });
    });
    call.give(output);
}

// Halves are summed in float32 and rounded once; integers as they are.
inline int32_t widened(int32_t value) noexcept { return value; }
inline int64_t widened(int64_t value) noexcept { return value; }
template <typename T>
auto widened(T value) noexcept {
    return fb::widen(value);
}
template <typename T, typename S>
T narrowed(S sum) noexcept {
    if constexpr (std::is_same_v<T, S>)
        return sum;
    else
        return fb::narrow<T>(sum);
}

template <typename T, typename I>
void sum_segments(const T* values, const I* ends, int64_t segments, int64_t batch, T* output) noexcept {
    const int64_t total = segments ? (ends[segments] - ends[0]) * batch : 0;
    const int64_t grain = segments * fb::serial_below / (total + segments + 1) + 1;
    fb::parallel_for(0, segments, grain, fb::threads(total), [&](int64_t first, int64_t last) noexcept {
        for (int64_t s = first; s < last; ++s) {
            auto sum = widened(T{});
            for (int64_t i = ends[s] * batch; i < ends[s + 1] * batch; ++i) sum += widened(values[i]);
            output[s] = narrowed<T>(sum);
        }
    });
}

void segment_sum_csr(fb::Call& call, int64_t batch, const fb::Tensor& given, const fb::Tensor& numbers) noexcept {
    if (!index_vector(call, "segment_sum_csr", "csr_seg", given)) return;
    if (given.sizes[0] < 1) return call.fail("segment_sum_csr: csr_seg is empty, expected the ends of segments from 0.");
    if (batch < 0) return call.fail("segment_sum_csr: batch_size is %lld, expected at least 0.", (long long)batch);
    const fb::Tensor csr = call.contiguous(given), values = call.contiguous(numbers);
    if (!csr.defined() || !values.defined()) return;
    const int64_t segments = csr.sizes[0] - 1, count = values.numel();
    for (int64_t s = 0; s < segments; ++s)
        if (index_at(csr, s) < 0 || index_at(csr, s) > index_at(csr, s + 1) || index_at(csr, s + 1) * batch > count)
            return call.fail("segment_sum_csr: segment %lld goes from %lld to %lld, times batch_size %lld, of %lld "
                             "values; ends do not decrease.",
                             (long long)s, (long long)index_at(csr, s), (long long)index_at(csr, s + 1),
                             (long long)batch, (long long)count);
    fb::Tensor output = call.empty(values.dtype, {segments});
    if (!output.defined()) return;
    bool served = true;
    with_indices(csr, [&](auto* ends) noexcept {
        switch (values.dtype) {
            case fb::DType::Int32: return sum_segments(values.as<int32_t>(), ends, segments, batch, output.as<int32_t>());
            case fb::DType::Int64: return sum_segments(values.as<int64_t>(), ends, segments, batch, output.as<int64_t>());
            case fb::DType::Float32: return sum_segments(values.as<float>(), ends, segments, batch, output.as<float>());
            case fb::DType::Float64: return sum_segments(values.as<double>(), ends, segments, batch, output.as<double>());
            case fb::DType::Float16:
                return sum_segments(values.as<fb::Half>(), ends, segments, batch, output.as<fb::Half>());
            case fb::DType::BFloat16:
                return sum_segments(values.as<fb::BFloat16>(), ends, segments, batch, output.as<fb::BFloat16>());
            default: served = false;
        }
    });
    if (!served)
        return call.fail("segment_sum_csr: values has dtype %s, expected int32, int64 or a floating dtype; convert it.",
                         fb::name(values.dtype));
    call.give(output);
}

void get_source_mask(fb::Call& call, const fb::Tensor& given, const fb::Tensor& also, int64_t total) noexcept {
    if (!index_vector(call, "get_source_mask", "num_sources", given) ||
        !index_vector(call, "get_source_mask", "num_targets", also))
        return;
    if (given.sizes[0] != also.sizes[0] || total < 0)
        return call.fail("get_source_mask: num_sources has shape %s, num_targets %s and output_size is %lld; expected "
                         "one number of targets for each of sources.",
                         fb::Shape(given).text, fb::Shape(also).text, (long long)total);
    const fb::Tensor sources = call.contiguous(given), targets = call.contiguous(also);
    if (!sources.defined() || !targets.defined()) return;
    fb::Tensor output = call.empty(fb::DType::Bool, {total});
    if (!output.defined()) return;
    int64_t at = 0;
    for (int64_t i = 0; i < sources.sizes[0]; ++i) {
        const int64_t before = index_at(sources, i), behind = index_at(targets, i);
        if (before < 0 || behind < 0 || before + behind > total - at)
            return call.fail("get_source_mask: row %lld has %lld sources and %lld targets at %lld of output_size %lld; "
                             "expected numbers of at least 0 that add up to it.",
                             (long long)i, (long long)before, (long long)behind, (long long)at, (long long)total);
        memset(output.as<char>() + at, 1, size_t(before));
        memset(output.as<char>() + at + before, 0, size_t(behind));
        at += before + behind;
    }
    memset(output.as<char>() + at, 0, size_t(total - at));
    call.give(output);
}

FB_OPERATOR("offsets_range", offsets_range);
FB_OPERATOR("repeat_arange", repeat_arange);
FB_OPERATOR("invert_permute", invert_permute);
FB_OPERATOR("expand_into_jagged_permute", expand_into_jagged_permute);
FB_OPERATOR("segment_sum_csr", segment_sum_csr);
FB_OPERATOR("get_source_mask", get_source_mask);

}  // namespace
}  // namespace rec
