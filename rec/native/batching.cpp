// Requests with several ads each, put from (request, feature, ad) into (feature, request, ad) order for one look-up.
//
// Of a request, the entries of one feature lie together before and afterwards: each is one block to copy, or, where ads
// share what the request says, one entry to repeat.

#include "indices.h"

namespace rec {
namespace {

struct Ads {
    int64_t requests, features, ads;
    bool shared;  // whether a request has one entry for all of its ads

    // Entries of a feature in a request, and where they begin before and afterwards.
    int64_t begin(const fb::Tensor& offsets, int64_t request, int64_t feature) const noexcept {
        if (shared) return request * features + feature;
        const int64_t first = index_at(offsets, request), count = index_at(offsets, request + 1) - first;
        return features * first + feature * count;
    }
    int64_t target(const fb::Tensor& offsets, int64_t request, int64_t feature) const noexcept {
        return feature * ads + index_at(offsets, request);
    }
};

// Whether `batch_offsets` goes from 0 to the ads without decreasing.
bool good_offsets(fb::Call& call, const char* op, const fb::Tensor& offsets, int64_t ads) noexcept {
    const int64_t requests = offsets.sizes[0] - 1;
    bool fits = requests >= 0 && index_at(offsets, 0) == 0 && index_at(offsets, requests) == ads;
    for (int64_t i = 0; fits && i < requests; ++i) fits = index_at(offsets, i) <= index_at(offsets, i + 1);
    if (!fits)
        call.fail("%s: batch_offsets does not go from 0 to %lld, the number of ads, without decreasing.", op,
                  (long long)ads);
    return fits;
}

// `most`: requests to make room for, those that there are not have lengths of 0; 0: as many as there are ads.
void reorder_lengths(fb::Call& call, const fb::Tensor& given, const fb::Tensor& batch, int64_t ads, bool shared,
                     int64_t most) noexcept {
    constexpr const char* op = "reorder_batched_ad_lengths";
    if (given.dim != 1 || given.dtype == fb::DType::Other)
        return call.fail("%s: cat_ad_lengths has shape %s, expected (entries,).", op, fb::Shape(given).text);
    if (!index_vector(call, op, "batch_offsets", batch)) return;
    const fb::Tensor lengths = call.contiguous(given), offsets = call.contiguous(batch);
    if (!lengths.defined() || !offsets.defined() || !good_offsets(call, op, offsets, ads)) return;
    const int64_t requests = offsets.sizes[0] - 1, entries = lengths.sizes[0], each = shared ? requests : ads;
    if (each ? entries % each != 0 : entries != 0)
        return call.fail("%s: cat_ad_lengths has %lld entries, which %lld %s do not divide.", op, (long long)entries,
                         (long long)each, shared ? "requests" : "ads");
    if (most > 0 && (shared || most < ads))
        return call.fail("%s: max_batch_size is %lld for %lld ads; expected at least as many, and no broadcast.", op,
                         (long long)most, (long long)ads);
    const int64_t room = most > 0 ? most : ads;
    const Ads plan{requests, each ? entries / each : 0, room, shared};
    fb::Tensor output = call.empty(lengths.dtype, {plan.features * room});
    if (!output.defined()) return;
    const size_t size = size_t(fb::dtype_bytes[int32_t(lengths.dtype)]);
    if (room > ads) memset(output.data, 0, size_t(output.sizes[0]) * size);
    for (int64_t request = 0; request < requests; ++request) {
        const int64_t count = index_at(offsets, request + 1) - index_at(offsets, request);
        for (int64_t feature = 0; feature < plan.features; ++feature) {
            const char* from = lengths.as<char>() + size_t(plan.begin(offsets, request, feature)) * size;
            char* to = output.as<char>() + size_t(plan.target(offsets, request, feature)) * size;
            if (shared)
                for (int64_t ad = 0; ad < count; ++ad) memcpy(to + size_t(ad) * size, from, size);
            else
                memcpy(to, from, size_t(count) * size);
        }
    }
    call.give(output);
}

// Items of `size` bytes; `total` are given, `room` are taken. False where offsets lead outside.
bool move_items(const Ads& plan, const fb::Tensor& before, const fb::Tensor& after, const fb::Tensor& offsets,
                const char* from, int64_t total, char* to, int64_t room, size_t size) noexcept {
    for (int64_t request = 0; request < plan.requests; ++request) {
        const int64_t ads = index_at(offsets, request + 1) - index_at(offsets, request);
        for (int64_t feature = 0; feature < plan.features; ++feature) {
            const int64_t first = plan.begin(offsets, request, feature), target = plan.target(offsets, request, feature);
            const int64_t begin = index_at(before, first), end = index_at(before, first + (plan.shared ? 1 : ads));
            if (begin < 0 || end < begin || end > total) return false;
            for (int64_t ad = 0; ad < (plan.shared ? ads : ads ? 1 : 0); ++ad) {
                const int64_t place = index_at(after, target + ad);
                if (place < 0 || end - begin > room - place) return false;
                memcpy(to + size_t(place) * size, from + size_t(begin) * size, size_t(end - begin) * size);
            }
        }
    }
    return true;
}

void reorder_items(fb::Call& call, const char* op, const fb::Tensor& old_offsets, const fb::Tensor& given,
                   const fb::Tensor& new_offsets, const fb::Tensor& batch, int64_t ads, bool shared,
                   int64_t room) noexcept {
    if (!index_vector(call, op, "offsets", old_offsets) || !index_vector(call, op, "reordered offsets", new_offsets) ||
        !index_vector(call, op, "batch_offsets", batch))
        return;
    if (given.dim < 1 || given.dim > 8 || given.dtype == fb::DType::Other)
        return call.fail("%s: what is reordered has shape %s, expected (items, ...).", op, fb::Shape(given).text);
    const fb::Tensor before = call.contiguous(old_offsets), after = call.contiguous(new_offsets);
    const fb::Tensor offsets = call.contiguous(batch), items = call.contiguous(given);
    if (!before.defined() || !after.defined() || !offsets.defined() || !items.defined()) return;
    if (!good_offsets(call, op, offsets, ads)) return;
    const int64_t requests = offsets.sizes[0] - 1, slots = after.sizes[0] - 1;
    const int64_t features = ads > 0 ? slots / ads : 0;
    if (slots < 0 || slots != features * ads || before.sizes[0] != (shared ? requests : ads) * features + 1)
        return call.fail("%s: offsets has %lld entries and the reordered ones %lld, for %lld requests with %lld ads; "
                         "expected one more than there are features of %s, and of ads.",
                         op, (long long)before.sizes[0], (long long)(slots + 1), (long long)requests, (long long)ads,
                         shared ? "requests" : "ads");
    if (shared && room < 0)
        return call.fail("%s: with broadcast_indices, num_indices_after_broadcast is needed.", op);
    int64_t sizes[8];
    size_t size = size_t(fb::dtype_bytes[int32_t(items.dtype)]);
    sizes[0] = shared ? room : items.sizes[0];
    for (int64_t i = 1; i < items.dim; ++i) size *= size_t(sizes[i] = items.sizes[i]);
    fb::Tensor output = call.empty(items.dtype, sizes, items.dim);
    if (!output.defined()) return;
    if (!move_items(Ads{requests, features, ads, shared}, before, after, offsets, items.as<char>(), items.sizes[0],
                    output.as<char>(), sizes[0], size))
        return call.fail("%s: offsets lead beyond the %lld items that there are, or the %lld that there is room for.", op,
                         (long long)items.sizes[0], (long long)sizes[0]);
    call.give(output);
}

void reorder_indices(fb::Call& call, const fb::Tensor& before, const fb::Tensor& indices, const fb::Tensor& after,
                     const fb::Tensor& batch, int64_t ads, bool shared, int64_t room) noexcept {
    reorder_items(call, "reorder_batched_ad_indices", before, indices, after, batch, ads, shared, room);
}
void reorder_embeddings(fb::Call& call, const fb::Tensor& before, const fb::Tensor& embeddings, const fb::Tensor& after,
                        const fb::Tensor& batch, int64_t items) noexcept {
    reorder_items(call, "reorder_batched_sequence_embeddings", before, embeddings, after, batch, items, false, -1);
}

FB_OPERATOR("reorder_batched_ad_lengths", reorder_lengths);
FB_OPERATOR("reorder_batched_ad_indices", reorder_indices);
FB_OPERATOR("reorder_batched_sequence_embeddings", reorder_embeddings);

}  // namespace
}  // namespace rec
