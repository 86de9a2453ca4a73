// Lists of indices, of offsets or lengths, and of weights made the input of one look-up: int32, one after another.

#include "indices.h"

namespace rec {

// Python fills this in; see `flambeau.rec.ops.combining`. `bags` are offsets or lengths of each feature.
struct Lists {
    const void* const* indices;
    const int64_t* index_counts;
    const int32_t* wide_indices;
    const void* const* bags;
    const int64_t* bag_counts;     // without a last offset
    const int32_t* wide_bags;
    const void* const* weights;    // float32; null for a feature without
    int64_t features, batch;       // batch: bags of each feature after padding; -1: as many as it has
    int32_t offsets;               // whether `bags` are offsets rather than lengths
    int32_t* new_indices;
    int32_t* new_bags;
    float* new_weights;            // null where no feature has weights
};

namespace {

void combine(const Lists& lists) noexcept {
    int64_t base = 0;
    int32_t* bags = lists.new_bags;
    for (int64_t feature = 0; feature < lists.features; ++feature) {
        const int64_t count = lists.index_counts[feature], given = lists.bag_counts[feature];
        with_indices(lists.indices[feature], lists.wide_indices[feature], [&](auto* from) noexcept {
            for (int64_t i = 0; i < count; ++i) lists.new_indices[base + i] = int32_t(from[i]);
        });
        const int64_t added = lists.offsets ? base : 0;
        with_indices(lists.bags[feature], lists.wide_bags[feature], [&](auto* from) noexcept {
            for (int64_t i = 0; i < given; ++i) *bags++ = int32_t(int64_t(from[i]) + added);
        });
        for (int64_t i = given; i < lists.batch; ++i) *bags++ = int32_t(lists.offsets ? base + count : 0);
        if (lists.new_weights) {
            float* to = lists.new_weights + base;
            if (lists.weights[feature])
                memcpy(to, lists.weights[feature], size_t(count) * sizeof(float));
            else
                for (int64_t i = 0; i < count; ++i) to[i] = 1;
        }
        base += count;
    }
    if (lists.offsets) *bags = int32_t(base);
}

}  // namespace
}  // namespace rec

FB_EXPORT void fb_rec_combine(const rec::Lists* lists) noexcept { rec::combine(*lists); }
