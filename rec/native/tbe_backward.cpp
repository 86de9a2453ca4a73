// The backward pass of table-batched embeddings with the optimizer in it: no gradient of a table is ever made.
//
// Indices are sorted by row, so that all gradients of a row are added up, in the order of the batch, before its optimizer
// runs once. Rows are then independent of one another: the result does not depend on threads.

#include <stdlib.h>

#include "pooling.h"
#include "radix_sort.h"
#include "tbe.h"
#include "tbe_optimizers.h"

namespace rec {

FB_CLONES void add_scaled(float* sum, const float* part, float factor, int64_t dim) noexcept {
    for (int64_t i = 0; i < dim; ++i) sum[i] += factor * part[i];
}

namespace {

constexpr int64_t ahead = 8;  // gradients between asking for one, or for the row it belongs to, and adding it up

FB_CLONES void set_scaled(float* sum, const float* part, float factor, int64_t dim) noexcept {
    for (int64_t i = 0; i < dim; ++i) sum[i] = factor * part[i];
}

FB_CLONES void update(float* w, float* g, int64_t dim, const States& state, const Settings& s) noexcept {
    switch (s.optimizer) {
        case Optimizer::Sgd: return sgd(w, g, dim, s);
        case Optimizer::Adagrad: return adagrad(w, g, dim, state, s);
        case Optimizer::RowWiseAdagrad: return rowwise_adagrad(w, g, dim, state, s);
        case Optimizer::RowWiseAdagradWithCounter: return rowwise_adagrad_with_counter(w, g, dim, state, s);
        case Optimizer::Adam: return adam(w, g, dim, state, s, false);
        case Optimizer::PartialRowWiseAdam: return adam(w, g, dim, state, s, true);
        case Optimizer::Lamb: return lamb(w, g, dim, state, s, false);
        case Optimizer::PartialRowWiseLamb: return lamb(w, g, dim, state, s, true);
        case Optimizer::LarsSgd: return lars_sgd(w, g, dim, state, s);
        case Optimizer::RowWiseRmspropAr: return rowwise_rmsprop_ar(w, g, dim, state, s);
    }
}

// A number from a counter, the same on every machine (SplitMix64, Steele et al. 2014).
inline uint64_t mixed(uint64_t x) noexcept {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

// Rounds up or down by chance, so that the mean is the number itself.
inline fb::Half by_chance(float value, uint32_t chance, fb::Half) noexcept {
    // 13 bits of the significand are lost; a denormal half loses more, and is rounded to nearest.
    const uint32_t raw = fb::bits<uint32_t>(value), rest = raw & 0x7fffffff;
    if (rest < 0x38800000 || rest >= 0x477fe000) return fb::narrow<fb::Half>(value);
    return fb::narrow<fb::Half>(fb::bits<float>((raw + (chance & 0x1fff)) & ~uint32_t(0x1fff)));
}
inline fb::BFloat16 by_chance(float value, uint32_t chance, fb::BFloat16) noexcept {
    const uint32_t raw = fb::bits<uint32_t>(value);
    if (value != value || (raw & 0x7f800000) == 0x7f800000) return fb::narrow<fb::BFloat16>(value);
    return {uint16_t((raw + (chance & 0xffff)) >> 16)};
}
inline float by_chance(float value, uint32_t, float) noexcept { return value; }

}  // namespace

// Where states are, and what gradients come in.
struct Gradients {
    const float* output;            // the gradient of the output, float32, laid out as the output
    const uint8_t* wanted;          // (features): whether its table learns; null where all do
    float *m1, *m2, *prev_iter, *counter;
    const int64_t* m1_offsets;      // (features): where a table's state begins, in elements
    const int64_t* m2_offsets;
    const int64_t* row_offsets;     // (features): of prev_iter and counter
    uint64_t seed;                  // of rounding by chance
    int32_t stochastic;
};

namespace {

// What one call works with.
struct Work {
    int64_t* bags;     // (total): the bag of each index, where pairs say which index they are of
    int64_t* places;   // (bags): where a bag's gradient begins
    float* scales;     // (bags): what it counts, 1 / length for means
    int64_t* tables;   // (features): a feature of each table, in the order of their first rows
    int64_t count;     // of tables
    int64_t widest;
};

template <typename W>
void update_row(W* weights, float* gradient, float* row, int64_t dim, int64_t number, const States& state,
                const Gradients& gradients, const Settings& settings) noexcept {
    for (int64_t i = 0; i < dim; ++i) row[i] = fb::widen(weights[i]);
    update(row, gradient, dim, state, settings);
    if (!gradients.stochastic) {
        for (int64_t i = 0; i < dim; ++i) weights[i] = fb::narrow<W>(row[i]);
        return;
    }
    for (int64_t i = 0; i < dim; ++i) {
        const uint64_t chance = mixed(gradients.seed ^ mixed(uint64_t(number) << 20 ^ uint64_t(i)));
        weights[i] = by_chance(row[i], uint32_t(chance >> 32), W());
    }
}
void update_row(float* weights, float* gradient, float*, int64_t dim, int64_t, const States& state, const Gradients&,
                const Settings& settings) noexcept {
    update(weights, gradient, dim, state, settings);
}

FB_INLINE void ask_for(const void* from, int64_t bytes) noexcept {
#if defined(__GNUC__)
    for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(static_cast<const char*>(from) + at, 1);
#else
    (void)from, (void)bytes;
#endif
}

// Where everything of a row is that an update reads and writes.
template <typename W>
struct Places {
    const Batch& batch;
    const Gradients& gradients;
    const Settings& settings;
    bool one, two;  // whether the states m1 and m2 are by element

    Places(const Batch& b, const Gradients& g, const Settings& s) noexcept
        : batch(b), gradients(g), settings(s), one(first_by_element(s.optimizer)), two(second_by_element(s.optimizer)) {}

    // Of the row `index` of the table of feature f; `place` is that of one of its indices, where there is a cache.
    W* row(int64_t f, int64_t index, int64_t place) const noexcept {
        if (batch.slots && batch.slots[place] >= 0)
            return static_cast<W*>(const_cast<void*>(batch.cache)) + batch.slots[place] * batch.cache_width;
        return static_cast<W*>(const_cast<void*>(batch.weights)) + batch.weights_offsets[f] + index * batch.dims[f];
    }
    States states(int64_t f, int64_t index) const noexcept {
        const int64_t dim = batch.dims[f];
        return {
            gradients.m1 ? gradients.m1 + gradients.m1_offsets[f] + (one ? index * dim : index) : nullptr,
            gradients.m2 ? gradients.m2 + gradients.m2_offsets[f] + (two ? index * dim : index) : nullptr,
            gradients.prev_iter ? gradients.prev_iter + gradients.row_offsets[f] + index : nullptr,
            gradients.counter ? gradients.counter + gradients.row_offsets[f] + index : nullptr,
        };
    }
    void ask_for_all(int64_t f, int64_t index, int64_t place) const noexcept {
        const int64_t dim = batch.dims[f];
        const States kept = states(f, index);
        ask_for(row(f, index, place), dim * int64_t(sizeof(W)));
        if (kept.m1) ask_for(kept.m1, one ? dim * int64_t(sizeof(float)) : 1);
        if (kept.m2) ask_for(kept.m2, two ? dim * int64_t(sizeof(float)) : 1);
        if (kept.prev_iter) ask_for(kept.prev_iter, 1);
        if (kept.counter) ask_for(kept.counter, 1);
    }
};

// The pairs [begin, end) are sorted, and all that are of one row lie between the two.
template <typename W, typename P>
void update_rows(const Batch& batch, const Gradients& gradients, const Settings& settings, const Work& work,
                 const P* pairs, int64_t begin, int64_t end, float* memory) noexcept {
    float* sum = memory;
    float* row = memory + work.widest;
    const Places<W> places(batch, gradients, settings);
    // Where in the gradient that of a pair begins.
    const auto gradient_of = [&](const P& pair) noexcept {
        const int64_t place = int64_t(pair.payload);
        if (batch.pooling == Pooling::None) return place * batch.row_width;
        return work.places[work.bags ? work.bags[place] : place];
    };
    int64_t at = 0;  // of the table
    for (int64_t i = begin; i < end;) {
        const int64_t number = int64_t(pairs[i].key), place = int64_t(pairs[i].payload);
        while (at + 1 < work.count && batch.row_bases[work.tables[at + 1]] <= number) ++at;
        const int64_t f = work.tables[at], dim = batch.dims[f], index = number - batch.row_bases[f];
        bool first = true;
        for (; i < end && int64_t(pairs[i].key) == number; ++i) {
            if (i + ahead < end) {
                const P& soon = pairs[i + ahead];
                const int64_t other = int64_t(soon.key) - batch.row_bases[f];
                if (other < batch.rows[f]) {  // the next table begins without being asked for
                    ask_for(gradients.output + gradient_of(soon), dim * int64_t(sizeof(float)));
                    if (soon.key != pairs[i + ahead - 1].key)
                        places.ask_for_all(f, other, int64_t(soon.payload));
                }
            }
            float factor = 1;
            if (batch.pooling != Pooling::None) {
                const int64_t item = int64_t(pairs[i].payload);
                if (work.scales) factor = work.scales[work.bags ? work.bags[item] : item];
                if (batch.bag_weights) factor *= batch.bag_weights[item];
            }
            (first ? set_scaled : add_scaled)(sum, gradients.output + gradient_of(pairs[i]), factor, dim);
            first = false;
        }
        update_row(places.row(f, index, place), sum, row, dim, number, places.states(f, index), gradients, settings);
    }
}

template <typename W, typename K, typename V>
int32_t backward(const Batch& batch, const Gradients& gradients, const Settings& settings) noexcept {
    using P = Pair<K, V>;
    const int64_t bags = batch.bags();
    const bool pooled = batch.pooling != Pooling::None;
    // A pair says which bag an index is of; with weights or a cache, which index it is, and the bag is looked up.
    const bool by_index = !pooled || batch.bag_weights || batch.slots;
    const bool mean = batch.pooling == Pooling::Mean;
    Work work{};
    for (int64_t f = 0; f < batch.features; ++f) work.widest = batch.dims[f] > work.widest ? batch.dims[f] : work.widest;
    int64_t parts = batch.total < (1 << 16) ? 1 : batch.threads;
    if (parts > most_parts) parts = most_parts;

    const size_t pair_bytes = (size_t(batch.total) * sizeof(P) + 63) & ~size_t(63);
    const size_t bag_bytes = pooled && by_index ? size_t(batch.total) * sizeof(int64_t) : 0;
    const size_t place_bytes = pooled ? size_t(bags) * sizeof(int64_t) : 0;
    const size_t scale_bytes = mean ? (size_t(bags) * sizeof(float) + 63) & ~size_t(63) : 0;
    const int64_t pieces = parts == 1 ? 1 : 4 * parts;
    const size_t buffer = (size_t(2 * work.widest) * sizeof(float) + 63) & ~size_t(63);
    const size_t bytes = 2 * pair_bytes + bag_bytes + place_bytes + scale_bytes + radix_counters(parts) +
                         size_t(batch.features) * sizeof(int64_t) + size_t(pieces) * buffer + 64;
    char* memory = static_cast<char*>(malloc(bytes));
    if (!memory) return -1;
    char* next = memory;
    const auto take = [&next](size_t size) noexcept {
        char* taken = next;
        next += size;
        return taken;
    };
    P* pairs = reinterpret_cast<P*>(take(pair_bytes));
    P* other = reinterpret_cast<P*>(take(pair_bytes));
    int64_t* counters = reinterpret_cast<int64_t*>(take(radix_counters(parts)));
    if (bag_bytes) work.bags = reinterpret_cast<int64_t*>(take(bag_bytes));
    if (place_bytes) work.places = reinterpret_cast<int64_t*>(take(place_bytes));
    work.tables = reinterpret_cast<int64_t*>(take(size_t(batch.features) * sizeof(int64_t)));
    if (mean) work.scales = reinterpret_cast<float*>(take(scale_bytes));
    char* buffers = take(size_t(pieces) * buffer);

    // Tables in the order of their rows; a feature stands for its table.
    int64_t rows = 0;
    for (int64_t f = 0; f < batch.features; ++f) {
        const int64_t base = batch.row_bases[f];
        rows = base + batch.rows[f] > rows ? base + batch.rows[f] : rows;
        int64_t at = work.count;
        bool known = false;
        for (int64_t t = 0; t < work.count; ++t) known |= batch.row_bases[work.tables[t]] == base;
        if (known || !batch.rows[f]) continue;
        for (; at > 0 && batch.row_bases[work.tables[at - 1]] > base; --at) work.tables[at] = work.tables[at - 1];
        work.tables[at] = f;
        ++work.count;
    }

    int64_t count = 0;
    for (int64_t f = 0; f < batch.features; ++f) {
        if (gradients.wanted && !gradients.wanted[f]) continue;
        for (int64_t bag = batch.bag_starts[f]; bag < batch.bag_starts[f + 1]; ++bag) {
            const int64_t first = batch.offsets[bag], last = batch.offsets[bag + 1];
            if (pooled) work.places[bag] = batch.place(f, bag);
            if (mean) work.scales[bag] = last > first ? 1.0f / float(last - first) : 1.0f;
            for (int64_t i = first; i < last; ++i) {
                if (work.bags) work.bags[i] = bag;
                pairs[count++] = {K(batch.row_bases[f] + batch.index(i)), V(by_index ? i : bag)};
            }
        }
    }
    int bits = 1;
    while (bits < 63 && rows >> bits) ++bits;
    const P* sorted = radix_sort(pairs, other, count, bits, counters, parts, batch.threads);

    const int64_t share = (count + pieces - 1) / pieces;
    fb::parallel_for(0, pieces, 1, parts == 1 ? 1 : batch.threads, [&](int64_t from, int64_t to) noexcept {
        for (int64_t piece = from; piece < to; ++piece) {
            int64_t begin = piece * share, end = begin + share < count ? begin + share : count;
            // A row that begins in a piece is that piece's, however far it reaches.
            while (begin > 0 && begin < count && sorted[begin].key == sorted[begin - 1].key) ++begin;
            while (end > 0 && end < count && sorted[end].key == sorted[end - 1].key) ++end;
            update_rows<W>(batch, gradients, settings, work, sorted, begin, end,
                           reinterpret_cast<float*>(buffers + size_t(piece) * buffer));
        }
    });
    free(memory);
    return 0;
}

template <typename W>
int32_t of_size(const Batch& batch, const Gradients& gradients, const Settings& settings) noexcept {
    int64_t rows = 0;
    for (int64_t f = 0; f < batch.features; ++f) {
        const int64_t end = batch.row_bases[f] + batch.rows[f];
        rows = end > rows ? end : rows;
    }
    const bool small = rows <= UINT32_MAX && batch.total <= UINT32_MAX && batch.bags() <= UINT32_MAX;
    return small ? backward<W, uint32_t, uint32_t>(batch, gradients, settings)
                 : backward<W, uint64_t, uint64_t>(batch, gradients, settings);
}

}  // namespace

// Updates tables and states by the gradient of the output; -1 where memory ran out, and nothing is changed then. The
// indices were checked by `fb_tbe_check`.
FB_EXPORT int32_t fb_tbe_backward(const Batch* batch, const Gradients* gradients, const Settings* settings) noexcept {
    if (!batch->total) return 0;
    switch (batch->format) {
        case Format::Float32: return of_size<float>(*batch, *gradients, *settings);
        case Format::Float16: return of_size<fb::Half>(*batch, *gradients, *settings);
        case Format::BFloat16: return of_size<fb::BFloat16>(*batch, *gradients, *settings);
    }
    return 0;
}

}  // namespace rec
