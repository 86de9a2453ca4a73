// Features of a batch put into another order, left out or repeated.
//
// Lengths are feature-major, so that all bags of a feature lie together: one feature is one block of values to copy.

#include <flambeau/kernel.h>

namespace rec {
namespace {

// What one call works with: `rows` features of `columns` bags each.
struct Plan {
    int64_t rows, columns, chosen;
    int64_t* starts;    // (rows + 1) where each feature's values begin
    int64_t* order;     // (chosen) the features wanted
    int64_t* targets;   // (chosen + 1) where they go
    void* memory;
    ~Plan() { free(memory); }
};

template <typename T>
int64_t total(const T* lengths, int64_t count) noexcept {
    int64_t sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += lengths[i];
    return sum;
}

int64_t number(const fb::Tensor& tensor, int64_t at) noexcept {
    return tensor.dtype == fb::DType::Int32 ? tensor.as<int32_t>()[at] : tensor.as<int64_t>()[at];
}

bool indices(const fb::Tensor& tensor) noexcept {
    return tensor.dtype == fb::DType::Int32 || tensor.dtype == fb::DType::Int64;
}

// Finds out what goes where; false with a complaint where that is impossible.
bool prepare(fb::Call& call, const char* name, const fb::Tensor& permute, const fb::Tensor& lengths, int64_t values,
             Plan& plan) noexcept {
    plan.rows = lengths.sizes[0];
    plan.columns = lengths.dim == 2 ? lengths.sizes[1] : 1;
    plan.chosen = permute.sizes[0];
    plan.memory = malloc(size_t(plan.rows + 1 + 2 * plan.chosen + 1) * sizeof(int64_t));
    if (!plan.memory) return call.fail("%s: no memory left for %lld features", name, (long long)plan.rows), false;
    plan.starts = static_cast<int64_t*>(plan.memory);
    plan.order = plan.starts + plan.rows + 1;
    plan.targets = plan.order + plan.chosen;
    plan.starts[0] = 0;
    for (int64_t row = 0; row < plan.rows; ++row) {
        const int64_t at = row * plan.columns;
        const int64_t length = lengths.dtype == fb::DType::Int32 ? total(lengths.as<int32_t>() + at, plan.columns)
                                                                 : total(lengths.as<int64_t>() + at, plan.columns);
        plan.starts[row + 1] = plan.starts[row] + length;
        if (length < 0 || plan.starts[row + 1] > values)
            return call.fail("%s: the lengths of feature %lld end at %lld of %lld values; lengths are not negative and "
                             "add up to the number of values.",
                             name, (long long)row, (long long)plan.starts[row + 1], (long long)values),
                   false;
    }
    plan.targets[0] = 0;
    for (int64_t i = 0; i < plan.chosen; ++i) {
        const int64_t row = number(permute, i);
        if (row < 0 || row >= plan.rows)
            return call.fail("%s: permute has %lld at %lld, expected 0 to %lld: there are %lld features.", name,
                             (long long)row, (long long)i, (long long)(plan.rows - 1), (long long)plan.rows),
                   false;
        plan.order[i] = row;
        plan.targets[i + 1] = plan.targets[i] + plan.starts[row + 1] - plan.starts[row];
    }
    return true;
}

// The rows of `input` (its first dimension is values) in the order of the plan.
fb::Tensor moved(fb::Call& call, const fb::Tensor& input, const Plan& plan) noexcept {
    int64_t sizes[8];
    int64_t bytes = fb::dtype_bytes[int32_t(input.dtype)];
    for (int64_t i = 1; i < input.dim; ++i) bytes *= sizes[i] = input.sizes[i];
    const int64_t count = plan.targets[plan.chosen];
    sizes[0] = count;
    fb::Tensor output = call.empty(input.dtype, sizes, input.dim);
    if (!output.defined()) return output;
    const char* from = static_cast<const char*>(input.data);
    char* to = static_cast<char*>(output.data);
    const int64_t per_feature = count * bytes / (plan.chosen ? plan.chosen : 1) + 1;
    fb::parallel_for(0, plan.chosen, 8 * fb::serial_below / per_feature + 1, fb::threads(count * bytes / 8),
                     [&](int64_t begin, int64_t end) noexcept {
                         for (int64_t i = begin; i < end; ++i) {
                             const int64_t row = plan.order[i], length = plan.starts[row + 1] - plan.starts[row];
                             memcpy(to + plan.targets[i] * bytes, from + plan.starts[row] * bytes,
                                    size_t(length * bytes));
                         }
                     });
    return output;
}

fb::Tensor moved_lengths(fb::Call& call, const fb::Tensor& lengths, const Plan& plan) noexcept {
    const int64_t sizes[2] = {plan.chosen, plan.columns};
    fb::Tensor output = call.empty(lengths.dtype, sizes, lengths.dim);
    if (!output.defined()) return output;
    const size_t bytes = size_t(plan.columns * fb::dtype_bytes[int32_t(lengths.dtype)]);
    for (int64_t i = 0; i < plan.chosen; ++i)
        memcpy(output.as<char>() + size_t(i) * bytes, lengths.as<char>() + size_t(plan.order[i]) * bytes, bytes);
    return output;
}

void permute_rows(fb::Call& call, const char* name, int64_t dim, const fb::Tensor& permute, const fb::Tensor& lengths,
                  const fb::Tensor& values, const fb::OptionalTensor& weights) noexcept {
    if (permute.dim != 1 || !indices(permute))
        return call.fail("%s: permute has shape %s and dtype %s, expected (features,) of int32 or int64.", name,
                         fb::Shape(permute).text, fb::name(permute.dtype));
    if (lengths.dim != dim || !indices(lengths))
        return call.fail("%s: lengths has shape %s and dtype %s, expected %s of int32 or int64.", name,
                         fb::Shape(lengths).text, fb::name(lengths.dtype), dim == 1 ? "(bags,)" : "(features, batch)");
    if (values.dim < 1 || values.dim > 8 || values.dtype == fb::DType::Other)
        return call.fail("%s: indices has shape %s and dtype %s, expected (values, ...).", name,
                         fb::Shape(values).text, fb::name(values.dtype));
    if (weights.defined() && (weights.dim < 1 || weights.dim > 8 || weights.sizes[0] != values.sizes[0]))
        return call.fail("%s: weights has shape %s, expected (%lld, ...): one for each value.", name,
                         fb::Shape(weights).text, (long long)values.sizes[0]);
    const fb::Tensor order = call.contiguous(permute), counts = call.contiguous(lengths);
    const fb::Tensor from = call.contiguous(values);
    if (!order.defined() || !counts.defined() || !from.defined()) return;
    Plan plan{};
    if (!prepare(call, name, order, counts, from.sizes[0], plan)) return;
    fb::Tensor new_lengths = moved_lengths(call, counts, plan);
    if (!new_lengths.defined()) return;
    fb::Tensor new_values = moved(call, from, plan);
    if (!new_values.defined()) return;
    call.give(new_lengths);
    call.give(new_values);
    if (!weights.defined()) return call.give_none();
    const fb::Tensor heavy = call.contiguous(weights);
    if (!heavy.defined()) return;
    fb::Tensor new_weights = moved(call, heavy, plan);
    if (new_weights.defined()) call.give_optional(new_weights);
}

// The sum of the lengths is found in passing; who knows it need not say it, and whoever says it wrong is not believed.
void permute_2d(fb::Call& call, const fb::Tensor& permute, const fb::Tensor& lengths, const fb::Tensor& values,
                const fb::OptionalTensor& weights, const fb::OptionalInt&) noexcept {
    permute_rows(call, "permute_2D_sparse_data", 2, permute, lengths, values, weights);
}
void permute_1d(fb::Call& call, const fb::Tensor& permute, const fb::Tensor& lengths, const fb::Tensor& values,
                const fb::OptionalTensor& weights, const fb::OptionalInt&) noexcept {
    permute_rows(call, "permute_1D_sparse_data", 1, permute, lengths, values, weights);
}

FB_OPERATOR("permute_2D_sparse_data", permute_2d);
FB_OPERATOR("permute_1D_sparse_data", permute_1d);

}  // namespace
}  // namespace rec
