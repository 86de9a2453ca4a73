// Indices and offsets checked against the tables that they are for, and repaired where that is wanted.

#include "indices.h"

namespace rec {

// What is wrong where, for the message. Python reads it; see `flambeau.rec.ops.bounds`.
struct Fault {
    int64_t kind;  // 0: nothing; 1: an index; 2: the offsets of a bag; 3: the last offset
    int64_t feature, bag, place, value, limit, end;
};

namespace {

// Offsets [begin, end] of a bag brought into order, and into [0, total].
template <typename O>
bool repair(O& begin, O& end, int64_t total) noexcept {
    const O limit = O(total);
    const bool good = begin >= 0 && begin <= end && end <= limit;
    if (begin < 0) begin = 0;
    if (begin > limit) begin = limit;
    if (end > limit) end = limit;
    if (end < begin) end = begin;
    return good;
}

// How many indices, bags and last offsets are wrong; -1 where `fatal` and something is, which is left as it is then.
template <typename I, typename O>
int64_t check(const int64_t* rows, I* indices, O* offsets, const int64_t* first_bags, int64_t features, int64_t total,
              bool fatal, Fault& fault) noexcept {
    int64_t wrong = 0;
    const auto note = [&](const Fault& found) noexcept {
        if (!wrong++) fault = found;
    };
    for (int64_t feature = 0; feature < features; ++feature) {
        for (int64_t bag = first_bags[feature]; bag < first_bags[feature + 1]; ++bag) {
            O begin = offsets[bag], end = offsets[bag + 1];
            if (!repair(begin, end, total)) {
                note(Fault{2, feature, bag, bag, offsets[bag], total, offsets[bag + 1]});
                if (fatal) return -1;
                offsets[bag] = begin;
                offsets[bag + 1] = end;
            }
            for (int64_t i = begin; i < end; ++i) {
                // -1 is an index that was pruned.
                if ((indices[i] >= 0 && int64_t(indices[i]) < rows[feature]) || indices[i] == I(-1)) continue;
                note(Fault{1, feature, bag, i, indices[i], rows[feature], 0});
                if (fatal) return -1;
                indices[i] = 0;
            }
        }
    }
    const int64_t bags = first_bags[features];
    if (int64_t(offsets[bags]) != total) {
        note(Fault{3, features, bags, bags, offsets[bags], total, 0});
        if (fatal) return -1;
        offsets[bags] = O(total);
    }
    return wrong;
}

}  // namespace
}  // namespace rec

FB_EXPORT int64_t fb_rec_check_bounds(const int64_t* rows, void* indices, int32_t wide_indices, void* offsets,
                                      int32_t wide_offsets, const int64_t* first_bags, int64_t features, int64_t total,
                                      int32_t fatal, rec::Fault* fault) noexcept {
    *fault = rec::Fault{};
    const auto with = [&](auto* ids) noexcept {
        return wide_offsets ? rec::check(rows, ids, static_cast<int64_t*>(offsets), first_bags, features, total,
                                         fatal != 0, *fault)
                            : rec::check(rows, ids, static_cast<int32_t*>(offsets), first_bags, features, total,
                                         fatal != 0, *fault);
    };
    return wide_indices ? with(static_cast<int64_t*>(indices)) : with(static_cast<int32_t*>(indices));
}
