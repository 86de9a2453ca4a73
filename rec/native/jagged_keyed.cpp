// Indices of several features made unique, table by table, and weights added up by what they were made of.

#include "jagged.h"
#include "radix_sort.h"

namespace rec {
namespace {

// Distinct rows of all tables: see ops/jagged_keyed.py. Indices are sorted by (row of all tables, place).
struct Unique {
    using Entry = Pair<uint64_t, int64_t>;
    Entry *entries = nullptr, *other = nullptr;
    int64_t* counters = nullptr;
    void* memory = nullptr;
    ~Unique() { free(memory); }

    bool make(int64_t count, int64_t parts) noexcept {
        const size_t pairs = size_t(count) * sizeof(Entry);
        memory = malloc(2 * pairs + radix_counters(parts) + 1);
        if (!memory) return false;
        entries = static_cast<Entry*>(memory);
        other = entries + count;
        counters = reinterpret_cast<int64_t*>(static_cast<char*>(memory) + 2 * pairs);
        return true;
    }
};

void put(fb::Tensor& tensor, int64_t at, int64_t value) noexcept {
    if (tensor.dtype == fb::DType::Int64)
        tensor.as<int64_t>()[at] = value;
    else
        tensor.as<int32_t>()[at] = int32_t(value);
}

void unique_indices(fb::Call& call, const fb::Tensor& given_sums, const fb::Tensor& given_groups,
                    const fb::Tensor& given_offsets, const fb::Tensor& given_indices) noexcept {
    constexpr const char* op = "jagged_unique_indices";
    if (!check_whole(call, op, "hash_size_cumsum", given_sums) ||
        !check_whole(call, op, "hash_size_offsets", given_groups) ||
        !check_whole(call, op, "offsets", given_offsets) || !check_whole(call, op, "indices", given_indices))
        return;
    const fb::Tensor held[] = {call.contiguous(given_sums), call.contiguous(given_groups),
                               call.contiguous(given_offsets), call.contiguous(given_indices)};
    for (const fb::Tensor& one : held)
        if (!one.defined()) return;
    const Whole sums(held[0]), groups(held[1]), offsets(held[2]), indices(held[3]);
    if (!check_offsets(call, op, "offsets", offsets, indices.count) ||
        !check_offsets(call, op, "hash_size_cumsum", sums, INT64_MAX) ||
        !check_offsets(call, op, "hash_size_offsets", groups, sums.count - 1))
        return;
    const int64_t features = sums.count - 1, bags = offsets.count - 1;
    if (groups.count != sums.count || groups[features] != features)
        return call.fail("%s: hash_size_offsets has %lld entries and ends at %lld, expected %lld entries that end at %lld.",
                         op, (long long)groups.count, (long long)groups[groups.count - 1], (long long)sums.count,
                         (long long)features);
    if (features ? bags % features != 0 : bags != 0)
        return call.fail("%s: offsets has %lld bags, expected a multiple of the %lld features.", op, (long long)bags,
                         (long long)features);
    const int64_t batch = features ? bags / features : 0, count = offsets[bags];

    const int64_t threads = fb::threads(16 * count);
    const int64_t parts = larger(1, smaller(smaller(threads, most_parts), count / digits));
    Unique work;
    if (!work.make(count, parts)) return call.fail("%s: no memory left to sort %lld indices", op, (long long)count);
    uint64_t highest = 0;
    for (int64_t f = 0; f < features; ++f) {
        for (int64_t i = offsets[f * batch]; i < offsets[(f + 1) * batch]; ++i) {
            const int64_t index = indices[i];
            if (index < 0)
                return call.fail("%s: indices has %lld at %lld, expected 0 or more.", op, (long long)index, (long long)i);
            const uint64_t row = uint64_t(sums[f]) + uint64_t(index);
            highest = row > highest ? row : highest;
            work.entries[i - offsets[0]] = {row, i};
        }
    }
    const int64_t sorted_count = count - offsets[0];
    int bits = 1;
    while (bits < 64 && highest >> bits) ++bits;
    const Unique::Entry* sorted =
        radix_sort(work.entries, work.other, sorted_count, bits, work.counters, parts, int32_t(parts));

    int64_t distinct = 0;
    for (int64_t i = 0; i < sorted_count; ++i) distinct += i == 0 || sorted[i].key != sorted[i - 1].key;
    fb::Tensor lengths = call.empty(held[2].dtype, {bags}), ends = call.empty(held[2].dtype, {bags + 1});
    fb::Tensor unique = call.empty(held[3].dtype, {distinct}), inverse = call.empty(fb::DType::Int64, {indices.count});
    if (!lengths.defined() || !ends.defined() || !unique.defined() || !inverse.defined()) return;
    int64_t* places = inverse.as<int64_t>();
    memset(places, 0, size_t(indices.count) * sizeof(int64_t));
    for (int64_t i = 0, at = -1; i < sorted_count; ++i) {
        if (i == 0 || sorted[i].key != sorted[i - 1].key) put(unique, ++at, indices[sorted[i].payload]);
        places[sorted[i].payload] = at;
    }
    // A table's distinct rows are spread evenly over the bags of its features.
    put(ends, 0, 0);
    for (int64_t bag = 0; bag < bags; ++bag) put(lengths, bag, 0);
    for (int64_t group = 0; group < features; ++group) {
        const int64_t first = groups[group] * batch, last = groups[group + 1] * batch;
        if (first == last || offsets[first] == offsets[last]) continue;
        int64_t least = INT64_MAX, most = -1;
        for (int64_t i = offsets[first]; i < offsets[last]; ++i) {
            least = smaller(least, places[i]);
            most = larger(most, places[i]);
        }
        const int64_t rows = most - least + 1, each = rows / (last - first), more = rows % (last - first);
        for (int64_t bag = first; bag < last; ++bag) put(lengths, bag, each + (bag - first < more));
    }
    const Whole made(lengths);
    for (int64_t bag = 0, end = 0; bag < bags; ++bag) put(ends, bag + 1, end += made[bag]);
    call.give(lengths);
    call.give(ends);
    call.give(unique);
    call.give(inverse);
}

// (num_unique, 2) float32: for each distinct index the sum of its weights, and how often it occurs.
void weights_and_counts(fb::Call& call, const fb::Tensor& given_weights, const fb::Tensor& given_places,
                        int64_t count) noexcept {
    constexpr const char* op = "jagged_acc_weights_and_counts";
    const bool known = for_floating(given_weights.dtype, [](auto) noexcept {});
    if (!known || given_weights.dim != 1)
        return call.fail("%s: weights has shape %s and dtype %s, expected (items,) of a floating dtype.", op,
                         fb::Shape(given_weights).text, fb::name(given_weights.dtype));
    if (!check_whole(call, op, "reverse_indices", given_places)) return;
    const fb::Tensor weights = call.contiguous(given_weights), held = call.contiguous(given_places);
    if (!weights.defined() || !held.defined()) return;
    const Whole places(held);
    if (places.count != weights.sizes[0])
        return call.fail("%s: reverse_indices has %lld entries, expected %lld: one for each weight.", op,
                         (long long)places.count, (long long)weights.sizes[0]);
    if (count < 0) return call.fail("%s: num_unique_indices is %lld, expected 0 or more.", op, (long long)count);
    for (int64_t i = 0; i < places.count; ++i)
        if (places[i] < 0 || places[i] >= count)
            return call.fail("%s: reverse_indices has %lld at %lld, expected 0 to %lld.", op, (long long)places[i],
                             (long long)i, (long long)(count - 1));
    fb::Tensor out = call.empty(fb::DType::Float32, {count, 2});
    if (!out.defined()) return;
    float* sums = out.as<float>();
    memset(sums, 0, size_t(count) * 2 * sizeof(float));
    for_floating(weights.dtype, [&](auto tag) noexcept {
        using T = typename decltype(tag)::type;
        const T* from = weights.as<const T>();
        for (int64_t i = 0; i < places.count; ++i) {
            float* pair = sums + 2 * places[i];
            pair[0] += float(fb::widen(from[i]));
            pair[1] += 1.0f;
        }
    });
    call.give(out);
}

FB_OPERATOR("jagged_unique_indices", unique_indices);
FB_OPERATOR("jagged_acc_weights_and_counts", weights_and_counts);

}  // namespace
}  // namespace rec
