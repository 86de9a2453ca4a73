// MurmurHash3 of pairs of integers, and a table that gives every id a slot of its own as long as there is room.

#include "indices.h"
#include "murmur.h"

namespace rec {
namespace {

uint64_t rotated(uint64_t value, int bits) noexcept { return value << bits | value >> (64 - bits); }

// MurmurHash3 x64 128 of the 16 bytes (x, y), its halves joined by exclusive or (A. Appleby, public domain).
uint64_t murmur(uint64_t x, uint64_t y, uint64_t seed) noexcept {
    constexpr uint64_t c1 = 0x87c37b91114253d5, c2 = 0x4cf5ad432745937f;
    uint64_t h1 = seed ^ rotated(x * c1, 31) * c2, h2 = seed;
    h1 = (rotated(h1, 27) + h2) * 5 + 0x52dce729;
    h2 ^= rotated(y * c2, 33) * c1;
    h2 = (rotated(h2, 31) + h1) * 5 + 0x38495ab5;
    h1 ^= 16, h2 ^= 16;
    h1 += h2, h2 += h1;
    h1 = mixed(h1), h2 = mixed(h2);
    h1 += h2, h2 += h1;
    return h1 ^ h2;
}

void murmur_hash3(fb::Call& call, const fb::Tensor& given, int64_t y, int64_t seed) noexcept {
    if (given.dtype != fb::DType::Int64)
        return call.fail("murmur_hash3: input has dtype %s, expected int64; convert it.", fb::name(given.dtype));
    const fb::Tensor input = call.contiguous(given);
    if (!input.defined()) return;
    // Upstream: one number gives a number, not a tensor of one.
    fb::Tensor output = call.empty(fb::DType::Int64, input.sizes, input.dim == 1 && input.sizes[0] == 1 ? 0 : input.dim);
    if (!output.defined()) return;
    for (int64_t i = 0; i < input.numel(); ++i)
        output.as<int64_t>()[i] = int64_t(murmur(uint64_t(input.as<int64_t>()[i]), uint64_t(y), uint64_t(seed)));
    call.give(output);
}
FB_OPERATOR("murmur_hash3", murmur_hash3);

}  // namespace

// One call. Python fills it in; see `flambeau.rec.ops.hashing`.
struct Hashing {
    const void* ids;               // (count)
    void* identities;              // (slots): the id in each slot, -1 where it is free
    const int64_t* sizes;          // (count) slots that an id may use, from `offsets` on; null: all
    const int64_t* offsets;        // (count); null: 0
    int32_t* metadata;             // (slots): what decides about eviction; null: nothing is evicted
    const int32_t* new_metadata;   // (count): what an id leaves there; null: `now`
    const int32_t* draws;          // (count) in [0, 100): ids below `opt_in` may be put in; null: all may
    void* output;                  // (count): the slot of each id; -1 where it has none
    int64_t* evicted;              // (count): the slot whose id had to go, or -1; null where nobody asks
    int64_t count, slots, probes, reserved, threshold, opt_in;
    int32_t wide_ids, wide_identities, readonly, fallback, by_age, now;
};

namespace {

template <typename I, typename T>
void place_ids(const Hashing& job) noexcept {
    const I* ids = static_cast<const I*>(job.ids);
    T* identities = static_cast<T*>(job.identities);
    I* output = static_cast<I*>(job.output);
    for (int64_t i = 0; i < job.count; ++i) {
        const int64_t size = job.sizes ? job.sizes[i] : job.slots, offset = job.offsets ? job.offsets[i] : 0;
        const int64_t open = size - job.reserved;  // the last slots are for ids that are not let in
        const uint64_t hash = murmur(uint64_t(int64_t(ids[i])), 0, 0);
        if (job.evicted) job.evicted[i] = -1;
        if (open <= 0) {
            output[i] = I(-1);
            continue;
        }
        const int64_t start = int64_t(hash % uint64_t(open));
        const bool let_in = !job.readonly && (!job.draws || job.draws[i] < job.opt_in);
        int64_t found = -1, oldest = -1;
        for (int64_t probe = 0; probe < job.probes && probe < open; ++probe) {
            const int64_t slot = offset + (start + probe) % open;
            if (identities[slot] == T(ids[i])) {
                found = slot;
                break;
            }
            if (!let_in) continue;
            if (identities[slot] == T(-1)) {
                identities[slot] = T(ids[i]);
                found = slot;
                break;
            }
            if (job.metadata && (job.by_age || job.metadata[slot] < job.threshold) &&
                (oldest < 0 || job.metadata[slot] < job.metadata[oldest]))
                oldest = slot;
        }
        if (found < 0 && oldest >= 0) {
            identities[oldest] = T(ids[i]);
            if (job.evicted) job.evicted[i] = oldest;
            found = oldest;
        }
        if (found >= 0 && job.metadata && !job.readonly)
            job.metadata[found] = job.new_metadata ? job.new_metadata[i] : job.now;
        if (found < 0 && job.reserved > 0)
            found = offset + open + int64_t(hash % uint64_t(job.reserved));
        else if (found < 0 && job.fallback)
            found = offset + start;
        output[i] = I(found);
    }
}

}  // namespace
}  // namespace rec

FB_EXPORT void fb_rec_place_ids(const rec::Hashing* job) noexcept {
    if (job->wide_ids)
        return job->wide_identities ? rec::place_ids<int64_t, int64_t>(*job) : rec::place_ids<int64_t, int32_t>(*job);
    return job->wide_identities ? rec::place_ids<int32_t, int64_t>(*job) : rec::place_ids<int32_t, int32_t>(*job);
}
