// Running sums of lengths: where each bag begins, and where the last ends.
//
// One pass over memory; the additions depend on one another, so threads would have to read everything twice.

#include <flambeau/kernel.h>

namespace rec {
namespace {

// What stands in front of and behind the sums of a row of n numbers.
enum class Ends { Complete, Exclusive, Inclusive };  // n + 1 entries from 0; n from 0; n to the total

template <typename T>
void sum_rows(const T* input, int64_t rows, int64_t count, Ends ends, T* output) noexcept {
    for (int64_t row = 0; row < rows; ++row, input += count) {
        T total = 0;
        if (ends == Ends::Complete) *output++ = 0;
        for (int64_t i = 0; i < count; ++i) {
            if (ends == Ends::Exclusive) *output++ = total;
            total = T(total + input[i]);
            if (ends != Ends::Exclusive) *output++ = total;
        }
    }
}

bool sum(const fb::Tensor& input, int64_t rows, Ends ends, fb::Tensor& output) noexcept {
    const int64_t count = rows ? input.numel() / rows : 0;
    switch (input.dtype) {
        case fb::DType::Int32: sum_rows(input.as<int32_t>(), rows, count, ends, output.as<int32_t>()); return true;
        case fb::DType::Int64: sum_rows(input.as<int64_t>(), rows, count, ends, output.as<int64_t>()); return true;
        case fb::DType::Float32: sum_rows(input.as<float>(), rows, count, ends, output.as<float>()); return true;
        case fb::DType::Float64: sum_rows(input.as<double>(), rows, count, ends, output.as<double>()); return true;
        default: return false;
    }
}

void cumsum(fb::Call& call, const fb::Tensor& given, Ends ends, const char* name, bool one_dimension) noexcept {
    const bool complete = ends == Ends::Complete;
    if (complete && given.dim != 2 && !(given.dim == 1 && one_dimension))
        return call.fail("%s: input has shape %s, expected %s.", name, fb::Shape(given).text,
                         one_dimension ? "(n,) or (rows, n)" : "(rows, n)");
    const fb::Tensor input = call.contiguous(given);
    if (!input.defined()) return;
    int64_t longer[2] = {0, 0};
    if (complete) {
        for (int64_t i = 0; i < input.dim; ++i) longer[i] = input.sizes[i];
        ++longer[input.dim - 1];
    }
    fb::Tensor output = call.empty(input.dtype, complete ? longer : input.sizes, input.dim);
    if (!output.defined()) return;
    if (!sum(input, complete && input.dim == 2 ? input.sizes[0] : 1, ends, output))
        return call.fail("%s: input has dtype %s, expected int32, int64, float32 or float64; convert it.", name,
                         fb::name(input.dtype));
    call.give(output);
}

void complete(fb::Call& call, const fb::Tensor& input) noexcept {
    cumsum(call, input, Ends::Complete, "asynchronous_complete_cumsum", true);
}
void exclusive(fb::Call& call, const fb::Tensor& input) noexcept {
    cumsum(call, input, Ends::Exclusive, "asynchronous_exclusive_cumsum", true);
}
void inclusive(fb::Call& call, const fb::Tensor& input) noexcept {
    cumsum(call, input, Ends::Inclusive, "asynchronous_inclusive_cumsum", true);
}
void batched(fb::Call& call, const fb::Tensor& input) noexcept {
    cumsum(call, input, Ends::Complete, "asynchronous_batched_complete_cumsum", false);
}

FB_OPERATOR("asynchronous_complete_cumsum", complete);
FB_OPERATOR("asynchronous_exclusive_cumsum", exclusive);
FB_OPERATOR("asynchronous_inclusive_cumsum", inclusive);
FB_OPERATOR("asynchronous_batched_complete_cumsum", batched);

}  // namespace
}  // namespace rec
