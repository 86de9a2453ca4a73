// Indices of a sparse batch given to the shards that own their rows, each bag becoming one bag for every shard.
//
// Two passes over the indices: the first finds the owner of each and counts, the second puts them in their places. Bags
// do not depend on one another, and what a bag gives to a shard is one run of the output in the bag's own order.

#include "indices.h"

namespace rec {
namespace {

// Divides by one number many times. Upstream reads indices as unsigned, so that negative ones are very large.
template <typename U>
class Divisor {
  public:
    explicit Divisor(U divisor) noexcept
        : divisor_(divisor), magic_(divisor > 1 && uint64_t(divisor) <= 0xffffffffu ? ~uint64_t(0) / divisor + 1 : 0) {}
    U quotient(U value) const noexcept {
        if (divisor_ == 1) return value;
#if defined(__SIZEOF_INT128__)
        // Exact for numbers below 2^32 (D. Lemire, O. Kaser, N. Kurz, 2019, arXiv:1902.01961, section 3).
        if (magic_ && uint64_t(value) <= 0xffffffffu) return U((unsigned __int128)(magic_) * uint64_t(value) >> 64);
#endif
        return value / divisor_;
    }
    U rest(U value) const noexcept { return U(value - quotient(value) * divisor_); }

  private:
    U divisor_;
    uint64_t magic_;
};

// How the owner of an index is found: by blocks of one size, by its remainder, or by all that a feature may say.
enum class Rule { Blocks, Turns, Any };

// Who owns an index, and what is left of it there.
template <typename U>
struct Part {
    int64_t shard;
    U local;
};

// The rule of a feature.
template <typename U>
struct Owner {
    Divisor<U> rows_of_shard, blocks_of_shard, all_blocks, shards;
    U rows;                 // of a shard
    U covered;              // indices below are owned by blocks, the others by their remainder
    bool kept;              // whether indices stay as they are
    const int64_t* bounds;  // (shards + 1) where blocks of different sizes begin; null where all are equal
    int64_t count;          // of shards
    bool one_block_each;

    Rule rule() const noexcept {
        if (bounds) return Rule::Any;
        return covered ? Rule::Blocks : one_block_each ? Rule::Turns : Rule::Any;
    }

    template <Rule rule>
    FB_INLINE Part<U> part(U index) const noexcept {
        if (rule == Rule::Turns) {
            const U round = all_blocks.quotient(index);
            return {int64_t(index - round * U(count)), kept ? index : round};
        }
        if (rule == Rule::Any && bounds) {
            const int64_t place = interval(index);
            const bool inside = place < count;
            const int64_t shard = inside ? place : int64_t(shards.rest(index));
            return {shard, kept ? index : inside ? U(index - U(bounds[shard])) : shards.quotient(index)};
        }
        if (index < covered) {
            const U shard = rows_of_shard.quotient(index);
            // Blocks and bounds that contradict each other must not lead outside.
            return {int64_t(shard) < count ? int64_t(shard) : count - 1, kept ? index : U(index - shard * rows)};
        }
        const int64_t shard = int64_t(blocks_of_shard.quotient(all_blocks.rest(index)));
        return {shard < count ? shard : count - 1, kept ? index : all_blocks.quotient(index)};
    }

  private:
    // The interval between two bounds that holds an index; `count` and more beyond the last.
    int64_t interval(U index) const noexcept {
        int64_t low = 0, high = count + 1;  // bounds below `low` are not above the index
        while (low < high) {
            const int64_t middle = (low + high) / 2;
            if (uint64_t(bounds[middle]) <= uint64_t(index)) low = middle + 1;
            else high = middle;
        }
        return low == 0 ? count + 1 : low - 1;
    }
};

}  // namespace

// One call. Tensors are contiguous; `wide_*` say whether they are of int64.
struct Bucketing {
    const void* lengths;    // (bags)
    const void* indices;    // (total)
    const void* weights;    // (total) rows of `weight_bytes` each; null without
    const int64_t* blocks;  // (features) size of a block; null: an index is owned by its remainder
    const int64_t* all_blocks;    // (features) how many blocks the shards have together; null: one each
    const int64_t* bounds;        // (features, shards + 1), see `Owner`; null without
    const uint8_t* kept;          // (features) whether indices stay as they are
    const int64_t* first_bags;    // (features + 1)
    void* new_lengths;      // (shards * bags), as `lengths`
    void* new_indices;      // (total), as `indices`
    void* new_weights;      // (total); null without
    void* positions;        // (total) the place of each in its bag, as `indices`; null where nobody asks
    void* order;            // (total) where each index went, as `indices`; null where nobody asks
    void* mapping;          // (total) the shard of each, as `indices`; null where nobody asks
    int64_t bags, features, total, shards, weight_bytes;
    int32_t wide_lengths, wide_indices, threads;
};

namespace {

template <typename U>
Owner<U> owner(const Bucketing& job, int64_t feature) noexcept {
    const int64_t shards = job.shards, block = job.blocks ? job.blocks[feature] : 0;
    const int64_t blocks = job.all_blocks ? job.all_blocks[feature] : shards;
    const int64_t each = blocks / shards > 0 ? blocks / shards : 1;
    const U covered = U(uint64_t(block) * uint64_t(blocks)), rows = U(uint64_t(block) * uint64_t(each));
    return Owner<U>{Divisor<U>(rows ? rows : 1),
                    Divisor<U>(U(each)),
                    Divisor<U>(U(blocks > 0 ? blocks : 1)),
                    Divisor<U>(U(shards)),
                    rows,
                    covered,
                    job.kept && job.kept[feature],
                    job.bounds ? job.bounds + feature * (shards + 1) : nullptr,
                    shards,
                    blocks == shards};
}

// Calls `body(feature, first bag, last bag)` for what of each feature lies in a range of bags.
template <typename Body>
void by_feature(const Bucketing& job, int64_t begin, int64_t end, const Body& body) noexcept {
    for (int64_t feature = 0; feature < job.features; ++feature) {
        const int64_t first = job.first_bags[feature] > begin ? job.first_bags[feature] : begin;
        const int64_t last = job.first_bags[feature + 1] < end ? job.first_bags[feature + 1] : end;
        if (first < last) body(feature, first, last);
    }
}

// What a range of bags, whose first index is the number `first_index`, has for each shard: (shards, bags) in `lengths`.
template <Rule rule, typename L, typename I>
int64_t count_owners(const Owner<std::make_unsigned_t<I>>& owns, const L* lengths, const I* indices, int64_t begin,
                     int64_t end, int64_t bags, int64_t first_index, L* new_lengths) noexcept {
    using U = std::make_unsigned_t<I>;
    int64_t i = first_index;
    for (int64_t bag = begin; bag < end; ++bag)
        for (const int64_t last = i + lengths[bag]; i < last; ++i)
            ++new_lengths[owns.template part<rule>(U(indices[i])).shard * bags + bag];
    return i;
}

// Puts them where the next one of their shard goes, which `next` (shards) says.
template <Rule rule, typename L, typename I>
int64_t put_indices(const Bucketing& job, const Owner<std::make_unsigned_t<I>>& owns, int64_t begin, int64_t end,
                    int64_t first_index, int64_t* next) noexcept {
    using U = std::make_unsigned_t<I>;
    const L* lengths = static_cast<const L*>(job.lengths);
    const I* indices = static_cast<const I*>(job.indices);
    I* new_indices = static_cast<I*>(job.new_indices);
    I* positions = static_cast<I*>(job.positions);
    I* order = static_cast<I*>(job.order);
    I* mapping = static_cast<I*>(job.mapping);
    const char* weights = static_cast<const char*>(job.weights);
    char* new_weights = static_cast<char*>(job.new_weights);
    const int64_t bytes = job.weight_bytes;
    int64_t i = first_index;
    for (int64_t bag = begin; bag < end; ++bag)
        for (const int64_t first = i, last = i + lengths[bag]; i < last; ++i) {
            const Part<U> part = owns.template part<rule>(U(indices[i]));
            const int64_t to = next[part.shard]++;
            new_indices[to] = I(part.local);
            if (positions) positions[to] = I(i - first);
            if (order) order[i] = I(to);
            if (mapping) mapping[i] = I(part.shard);
            if (weights) {
                if (bytes == 4) memcpy(new_weights + to * 4, weights + i * 4, 4);
                else memcpy(new_weights + to * bytes, weights + i * bytes, size_t(bytes));
            }
        }
    return i;
}

// Calls `body(rule)`, which is a constant then.
template <typename Body>
FB_INLINE int64_t by_rule(Rule rule, const Body& body) noexcept {
    if (rule == Rule::Blocks) return body(std::integral_constant<Rule, Rule::Blocks>());
    if (rule == Rule::Turns) return body(std::integral_constant<Rule, Rule::Turns>());
    return body(std::integral_constant<Rule, Rule::Any>());
}

// The number of indices in a range of bags; -1 where a length is negative.
template <typename L>
int64_t indices_of(const L* lengths, int64_t begin, int64_t end) noexcept {
    int64_t sum = 0, negative = 0;
    for (int64_t bag = begin; bag < end; ++bag) sum += lengths[bag], negative |= int64_t(lengths[bag]);
    return negative < 0 ? -1 : sum;
}

// 0: done; 1: no memory; 2: lengths that are negative or do not add up to the indices.
template <typename L, typename I>
int32_t bucketize(const Bucketing& job) noexcept {
    using U = std::make_unsigned_t<I>;
    const L* lengths = static_cast<const L*>(job.lengths);
    const I* indices = static_cast<const I*>(job.indices);
    L* new_lengths = static_cast<L*>(job.new_lengths);
    const int64_t bags = job.bags, shards = job.shards;
    const int32_t threads = fb::threads(8 * (job.total + bags)) > 1 ? job.threads : 1;
    const int64_t parts = threads > 1 ? threads : 1;  // of the bags, one after another
    for (int64_t feature = 0; feature < job.features; ++feature)
        if (job.first_bags[feature] > job.first_bags[feature + 1]) return 2;
    // (parts) the first index of each, and (parts, shards) how many indices a part has for a shard, then where the next
    // one goes: bags of a shard lie one after another, as do the parts, so that a place for each bag is not needed.
    int64_t* starts = static_cast<int64_t*>(malloc(size_t(parts + shards * parts) * sizeof(int64_t)));
    if (!starts) return 1;
    int64_t* places = starts + parts;
    int64_t total = 0;
    for (int64_t part = 0; part < parts; ++part) {
        starts[part] = total;
        const int64_t count = indices_of(lengths, bags * part / parts, bags * (part + 1) / parts);
        if (count < 0 || count > job.total - total) return free(starts), 2;
        total += count;
    }
    if (total != job.total) return free(starts), 2;

    const auto by_part = [&](const auto& body) noexcept {
        fb::parallel_for(0, parts, 1, threads, [&](int64_t from, int64_t to) noexcept {
            for (int64_t part = from; part < to; ++part)
                body(places + part * shards, starts[part], bags * part / parts, bags * (part + 1) / parts);
        });
    };
    by_part([&](int64_t* counts, int64_t index, int64_t begin, int64_t end) noexcept {
        for (int64_t shard = 0; shard < shards; ++shard)
            memset(new_lengths + shard * bags + begin, 0, size_t(end - begin) * sizeof(L));
        by_feature(job, begin, end, [&](int64_t feature, int64_t first, int64_t last) noexcept {
            const Owner<U> owns = owner<U>(job, feature);
            index = by_rule(owns.rule(), [&](auto rule) noexcept {
                return count_owners<rule()>(owns, lengths, indices, first, last, bags, index, new_lengths);
            });
        });
        for (int64_t shard = 0; shard < shards; ++shard)
            counts[shard] = indices_of(new_lengths + shard * bags, begin, end);
    });
    int64_t place = 0;
    for (int64_t shard = 0; shard < shards; ++shard)
        for (int64_t part = 0; part < parts; ++part) {
            const int64_t count = places[part * shards + shard];
            places[part * shards + shard] = place;
            place += count;
        }
    by_part([&](int64_t* next, int64_t index, int64_t begin, int64_t end) noexcept {
        by_feature(job, begin, end, [&](int64_t feature, int64_t first, int64_t last) noexcept {
            const Owner<U> owns = owner<U>(job, feature);
            index = by_rule(owns.rule(), [&](auto rule) noexcept {
                return put_indices<rule(), L, I>(job, owns, first, last, index, next);
            });
        });
    });
    free(starts);
    return 0;
}

int32_t bucketized(const Bucketing& job) noexcept {
    if (job.wide_lengths) return job.wide_indices ? bucketize<int64_t, int64_t>(job) : bucketize<int64_t, int32_t>(job);
    return job.wide_indices ? bucketize<int32_t, int64_t>(job) : bucketize<int32_t, int32_t>(job);
}

// Indices owned by their remainders: what needs nothing but the batch.
void in_turn(fb::Call& call, const fb::Tensor& given, const fb::Tensor& all, bool with_positions, int64_t shards,
             const fb::OptionalTensor& heavy) noexcept {
    constexpr const char* op = "bucketize_sparse_features";
    if (!index_vector(call, op, "lengths", given) || !index_vector(call, op, "indices", all)) return;
    const int64_t bags = given.sizes[0], total = all.sizes[0];
    if (shards <= 0) return call.fail("%s: my_size is %lld, expected at least 1.", op, (long long)shards);
    if (heavy.defined() && (heavy.dim < 1 || heavy.dim > 8 || heavy.sizes[0] != total ||
                            heavy.dtype == fb::DType::Other))
        return call.fail("%s: weights has shape %s and dtype %s, expected (%lld, ...): one for each index.", op,
                         fb::Shape(heavy).text, fb::name(heavy.dtype), (long long)total);
    const fb::Tensor lengths = call.contiguous(given), indices = call.contiguous(all);
    if (!lengths.defined() || !indices.defined()) return;
    fb::Tensor new_lengths = call.empty(lengths.dtype, {shards * bags});
    fb::Tensor new_indices = call.empty(indices.dtype, {total});
    if (!new_lengths.defined() || !new_indices.defined()) return;
    const bool weighted = heavy.defined();
    int64_t bytes = weighted ? fb::dtype_bytes[int32_t(heavy.dtype)] : 0;
    int64_t sizes[8] = {total};
    for (int64_t i = 1; weighted && i < heavy.dim; ++i) bytes *= sizes[i] = heavy.sizes[i];
    const fb::Tensor weights = weighted ? call.contiguous(heavy) : fb::Tensor();
    fb::Tensor new_weights = weighted ? call.empty(heavy.dtype, sizes, heavy.dim) : fb::Tensor();
    fb::Tensor positions = with_positions ? call.empty(indices.dtype, {total}) : fb::Tensor();
    if ((weighted && (!weights.defined() || !new_weights.defined())) || (with_positions && !positions.defined())) return;
    const int64_t first_bags[2] = {0, bags};
    Bucketing job{};
    job.lengths = lengths.data;
    job.indices = indices.data;
    job.weights = bytes ? weights.data : nullptr;
    job.first_bags = first_bags;
    job.new_lengths = new_lengths.data;
    job.new_indices = new_indices.data;
    job.new_weights = bytes ? new_weights.data : nullptr;
    job.positions = with_positions ? positions.data : nullptr;
    job.bags = bags;
    job.features = 1;
    job.total = total;
    job.shards = shards;
    job.weight_bytes = bytes;
    job.wide_lengths = lengths.dtype == fb::DType::Int64;
    job.wide_indices = indices.dtype == fb::DType::Int64;
    job.threads = fb::threads(8 * (total + bags));
    const int32_t status = bucketized(job);
    if (status == 1)
        return call.fail("%s: no memory left to give %lld indices to %lld shards.", op, (long long)total,
                         (long long)shards);
    if (status)
        return call.fail("%s: lengths has negative numbers, or does not add up to the %lld indices.", op,
                         (long long)total);
    call.give(new_lengths);
    call.give(new_indices);
    if (weighted) call.give_optional(new_weights);
    else call.give_none();
    if (with_positions) call.give_optional(positions);
    else call.give_none();
}
FB_OPERATOR("bucketize_sparse_features", in_turn);

// Where each item went, from what became of its bag: items of a bag and a shard keep their order.
template <typename L, typename M>
bool place_items(const L* lengths, int64_t bags, const L* bucketized, int64_t shards, const M* mapping, int64_t total,
                 int64_t* places, M* output) noexcept {
    int64_t place = 0;
    for (int64_t i = 0; i < shards * bags; ++i) {
        if (bucketized[i] < 0) return false;
        places[i] = place;
        place += bucketized[i];
    }
    int64_t item = 0;
    for (int64_t bag = 0; bag < bags; ++bag) {
        if (lengths[bag] < 0 || lengths[bag] > total - item) return false;
        for (const int64_t end = item + lengths[bag]; item < end; ++item) {
            if (mapping[item] < 0 || int64_t(mapping[item]) >= shards) return false;
            output[item] = M(places[int64_t(mapping[item]) * bags + bag]++);
        }
    }
    return item == total && place == total;
}

void populate_bucketized_permute(fb::Call& call, const fb::Tensor& given, const fb::Tensor& also,
                                 const fb::Tensor& shards) noexcept {
    constexpr const char* op = "populate_bucketized_permute";
    if (!index_vector(call, op, "lengths", given) || !index_vector(call, op, "bucketized_lengths", also) ||
        !index_vector(call, op, "bucket_mapping", shards))
        return;
    const int64_t bags = given.sizes[0], total = shards.sizes[0], counted = also.sizes[0];
    if (given.dtype != also.dtype || (bags ? counted % bags != 0 : counted != 0))
        return call.fail("%s: lengths has %lld entries of %s and bucketized_lengths %lld of %s; expected the same dtype, "
                         "and one entry for each bag and bucket.",
                         op, (long long)bags, fb::name(given.dtype), (long long)counted, fb::name(also.dtype));
    const fb::Tensor lengths = call.contiguous(given), bucketized = call.contiguous(also);
    const fb::Tensor mapping = call.contiguous(shards);
    if (!lengths.defined() || !bucketized.defined() || !mapping.defined()) return;
    fb::Tensor output = call.empty(mapping.dtype, {total});
    int64_t* places = static_cast<int64_t*>(malloc(size_t(counted + 1) * sizeof(int64_t)));
    if (!output.defined() || !places) return free(places), call.fail("%s: no memory left", op);
    const bool fits = with_indices(lengths, [&](auto* counts) noexcept {
        using L = std::remove_const_t<std::remove_pointer_t<decltype(counts)>>;
        return with_indices(mapping, [&](auto* owners) noexcept {
            using M = std::remove_const_t<std::remove_pointer_t<decltype(owners)>>;
            return place_items(counts, bags, bucketized.as<const L>(), bags ? counted / bags : 0, owners, total, places,
                               output.as<M>());
        });
    });
    free(places);
    if (!fits)
        return call.fail("%s: lengths, bucketized_lengths and bucket_mapping do not belong together: all lengths are at "
                         "least 0 and add up to the %lld items, whose buckets are those that there are.",
                         op, (long long)total);
    call.give(output);
}
FB_OPERATOR("populate_bucketized_permute", populate_bucketized_permute);

}  // namespace
}  // namespace rec

// 0: done; 1: no memory; 2: lengths that are negative or do not add up to the indices. Nothing is written unless done.
FB_EXPORT int32_t fb_rec_bucketize(const rec::Bucketing* job) noexcept { return rec::bucketized(*job); }
