// Indices of tables whose rows were pruned, looked up in an array or in a hash table for each table.

#include "indices.h"
#include "murmur.h"

namespace rec {
namespace {

// Which table a bag is of, with as many bags for each; false with a complaint where that is impossible.
bool by_table(fb::Call& call, const char* op, const fb::Tensor& indices, const fb::Tensor& offsets,
              const fb::Tensor& starts, int64_t& batch) noexcept {
    if (!index_vector(call, op, "indices", indices) || !index_vector(call, op, "offsets", offsets) ||
        !index_vector(call, op, "the tables' offsets", starts))
        return false;
    const int64_t tables = starts.sizes[0] - 1, bags = offsets.sizes[0] - 1;
    bool fits = tables >= 0 && bags >= 0 && (tables ? bags % tables == 0 : bags == 0);
    batch = tables > 0 ? bags / tables : 0;
    const int64_t total = indices.sizes[0];
    for (int64_t i = 0; fits && i < bags; ++i)
        fits = index_at(offsets, i) >= 0 && index_at(offsets, i) <= index_at(offsets, i + 1) &&
               index_at(offsets, i + 1) <= total;
    if (!fits)
        call.fail("%s: offsets has %lld bags for %lld tables; expected as many for each table, and offsets that do not "
                  "decrease, from 0 to the %lld indices.",
                  op, (long long)bags, (long long)tables, (long long)total);
    return fits;
}

template <typename Body>
void each_table(const fb::Tensor& offsets, const fb::Tensor& starts, int64_t batch, const Body& body) noexcept {
    for (int64_t table = 0; table + 1 < starts.sizes[0]; ++table)
        body(index_at(starts, table), index_at(starts, table + 1), index_at(offsets, table * batch),
             index_at(offsets, (table + 1) * batch));
}

void pruned_array_lookup(fb::Call& call, const fb::Tensor& given, const fb::Tensor& bounds, const fb::Tensor& mapping,
                         const fb::Tensor& tables) noexcept {
    constexpr const char* op = "pruned_array_lookup";
    const fb::Tensor indices = call.contiguous(given), offsets = call.contiguous(bounds);
    const fb::Tensor remapped = call.contiguous(mapping), starts = call.contiguous(tables);
    if (!indices.defined() || !offsets.defined() || !remapped.defined() || !starts.defined()) return;
    int64_t batch = 0;
    if (!by_table(call, op, indices, offsets, starts, batch) || !index_vector(call, op, "index_remappings", remapped))
        return;
    fb::Tensor output = call.empty(indices.dtype, indices.sizes, 1);
    if (!output.defined()) return;
    with_indices(indices, [&](auto* from) noexcept {
        using I = std::remove_const_t<std::remove_pointer_t<decltype(from)>>;
        I* to = output.as<I>();
        bool fits = true, said = false;
        // What belongs to no bag stays.
        for (int64_t i = 0; i < indices.sizes[0]; ++i) to[i] = from[i];
        each_table(offsets, starts, batch, [&](int64_t first, int64_t last, int64_t begin, int64_t end) noexcept {
            if (first < 0 || last > remapped.sizes[0]) fits = false;
            if (!fits || first >= last) return;  // a table that was not pruned
            for (int64_t i = begin; i < end; ++i) {
                if (from[i] < 0 || int64_t(from[i]) >= last - first) {
                    fits = false, said = true;
                    return call.fail("%s: indices has %lld at %lld, expected 0 to %lld: the rows of its table.", op,
                                     (long long)from[i], (long long)i, (long long)(last - first - 1));
                }
                to[i] = I(index_at(remapped, first + from[i]));
            }
        });
        if (fits) return call.give(output);
        if (!said) call.fail("%s: index_remappings_offsets leads beyond index_remappings.", op);
    });
}

// Upstream: tables of 64 bits hash 64 bits of an index.
inline uint64_t hashed(const int32_t*, int64_t index) noexcept { return mixed(uint32_t(index)); }
inline uint64_t hashed(const int64_t*, int64_t index) noexcept { return mixed(uint64_t(index)); }

// The entry of an index among `capacity` pairs (index, row) with linear probing, or the free one; -1 where there is none.
template <typename T>
int64_t probe(const T* pairs, int64_t capacity, int64_t index) noexcept {
    int64_t slot = int64_t(hashed(pairs, index) % uint64_t(capacity));
    for (int64_t tried = 0; tried < capacity; ++tried) {
        if (int64_t(pairs[2 * slot]) == index || pairs[2 * slot] == T(-1)) return slot;
        slot = slot + 1 == capacity ? 0 : slot + 1;
    }
    return -1;
}

bool good_table(fb::Call& call, const char* op, const fb::Tensor& table, const fb::Tensor& starts) noexcept {
    bool fits = table.dim == 2 && table.sizes[1] == 2 && is_index(table) && starts.sizes[0] > 0;
    for (int64_t i = 0; fits && i + 1 < starts.sizes[0]; ++i)
        fits = index_at(starts, i) >= 0 && index_at(starts, i) <= index_at(starts, i + 1) &&
               index_at(starts, i + 1) <= table.sizes[0];
    if (!fits)
        call.fail("%s: hash_table has shape %s and dtype %s, expected (entries, 2) of int32 or int64, with "
                  "entries for all of hash_table_offsets.",
                  op, fb::Shape(table).text, fb::name(table.dtype));
    return fits;
}

void pruned_hashmap_insert(fb::Call& call, const fb::Tensor& given, const fb::Tensor& dense, const fb::Tensor& bounds,
                           const fb::Tensor& changed, const fb::Tensor& tables) noexcept {
    constexpr const char* op = "pruned_hashmap_insert";
    const fb::Tensor indices = call.contiguous(given), rows = call.contiguous(dense), offsets = call.contiguous(bounds);
    const fb::Tensor starts = call.contiguous(tables), table = call.contiguous(changed);
    if (!indices.defined() || !rows.defined() || !offsets.defined() || !starts.defined() || !table.defined()) return;
    int64_t batch = 0;
    if (!by_table(call, op, indices, offsets, starts, batch) || !index_vector(call, op, "dense_indices", rows) ||
        !good_table(call, op, table, starts))
        return;
    if (rows.sizes[0] != indices.sizes[0])
        return call.fail("%s: dense_indices has %lld entries, expected %lld: one for each index.", op,
                         (long long)rows.sizes[0], (long long)indices.sizes[0]);
    with_indices(table, [&](auto* content) noexcept {
        using T = std::remove_const_t<std::remove_pointer_t<decltype(content)>>;
        bool full = false;
        each_table(offsets, starts, batch, [&](int64_t first, int64_t last, int64_t begin, int64_t end) noexcept {
            T* pairs = table.as<T>() + 2 * first;
            for (int64_t i = begin; !full && i < end && last > first; ++i) {
                const int64_t row = index_at(rows, i), index = index_at(indices, i);
                if (row == -1) continue;  // pruned: what is not there
                const int64_t slot = probe(pairs, last - first, index);
                if (slot < 0) {
                    full = true;
                    return call.fail("%s: no entry is left for index %lld; give hash_table more than the %lld that its "
                                     "table has.",
                                     op, (long long)index, (long long)(last - first));
                }
                pairs[2 * slot] = T(index);
                pairs[2 * slot + 1] = T(row);
            }
        });
    });
    if (table.data != changed.data && fb::torch.copy(changed.handle(), table.handle(), 0) != 0)
        call.fail("%s: hash_table could not be written to.", op);
}

void pruned_hashmap_lookup(fb::Call& call, const fb::Tensor& given, const fb::Tensor& bounds, const fb::Tensor& table,
                           const fb::Tensor& tables) noexcept {
    constexpr const char* op = "pruned_hashmap_lookup";
    const fb::Tensor indices = call.contiguous(given), offsets = call.contiguous(bounds);
    const fb::Tensor pairs = call.contiguous(table), starts = call.contiguous(tables);
    if (!indices.defined() || !offsets.defined() || !pairs.defined() || !starts.defined()) return;
    int64_t batch = 0;
    if (!by_table(call, op, indices, offsets, starts, batch) || !good_table(call, op, pairs, starts)) return;
    fb::Tensor output = call.empty(indices.dtype, indices.sizes, 1);
    if (!output.defined()) return;
    with_indices(indices, [&](auto* from) noexcept {
        using I = std::remove_const_t<std::remove_pointer_t<decltype(from)>>;
        I* to = output.as<I>();
        for (int64_t i = 0; i < indices.sizes[0]; ++i) to[i] = from[i];
        with_indices(pairs, [&](auto* content) noexcept {
            each_table(offsets, starts, batch, [&](int64_t first, int64_t last, int64_t begin, int64_t end) noexcept {
                if (first >= last) return;  // a table that was not pruned
                fb::parallel_for(begin, end, fb::serial_below / 8, fb::threads((end - begin) * 8),
                                 [&](int64_t low, int64_t high) noexcept {
                                     for (int64_t i = low; i < high; ++i) {
                                         const int64_t slot = probe(content + 2 * first, last - first, from[i]);
                                         const bool found = slot >= 0 && content[2 * (first + slot)] != -1;
                                         to[i] = found ? I(content[2 * (first + slot) + 1]) : I(-1);
                                     }
                                 });
            });
        });
    });
    call.give(output);
}

FB_OPERATOR("pruned_array_lookup", pruned_array_lookup);
FB_OPERATOR("pruned_hashmap_insert", pruned_hashmap_insert);
FB_OPERATOR("pruned_hashmap_lookup", pruned_hashmap_lookup);

}  // namespace
}  // namespace rec
