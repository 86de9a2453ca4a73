// Rows of tables that lie anywhere in memory, pooled over bags, with dense gradients of the tables.
//
// A call serves all features of a collection. Results and gradients do not depend on threads: each bag is summed, and each
// row's gradient added up, by one thread, in the order of the batch.

#include "pooling.h"

namespace rec {
namespace {

enum class Format : int64_t { Float32, Float16, BFloat16 };

// What a feature reads and where its bags go; Python fills it in, see `flambeau.rec.ops._pooled_native`.
struct Feature {
    const void* table;
    int64_t rows, dim;
    int64_t start, size;    // its first bag, and their number
    int64_t place, stride;  // where in the output its first bag goes, and from one to the next
    int64_t mean;           // whether bags are averaged
    int64_t slot;           // the number of its table among all
    int64_t before;         // bags of all features before it
    int64_t format;         // of its table, a `Format`
};

struct Bags {
    const Feature* features;
    const void* indices;
    const void* offsets;
    const float* weights;  // null without
    int64_t count;         // of features
    int64_t total;         // of indices
    int64_t bags;          // of all features
    int32_t wide_indices, wide_offsets, threads;

    int64_t offset(int64_t bag) const noexcept {
        return wide_offsets ? static_cast<const int64_t*>(offsets)[bag] : static_cast<const int32_t*>(offsets)[bag];
    }
    int64_t index(int64_t at) const noexcept {
        return wide_indices ? static_cast<const int64_t*>(indices)[at] : static_cast<const int32_t*>(indices)[at];
    }
};

// What does not fit: an index outside of its table, or offsets that fall or leave the indices.
struct Fault {
    int64_t kind, feature, value;
};

bool fits(const Bags& bags, Fault* fault) noexcept {
    for (int64_t f = 0; f < bags.count; ++f) {
        const Feature& feature = bags.features[f];
        int64_t before = bags.offset(feature.start);
        const int64_t first = before;
        bool rising = before >= 0;
        for (int64_t bag = 1; bag <= feature.size; ++bag) {
            const int64_t next = bags.offset(feature.start + bag);
            rising &= next >= before;
            before = next;
        }
        if (!rising || before > bags.total) {
            *fault = {1, f, before};
            return false;
        }
        const bool good =
            bags.wide_indices
                ? inside(static_cast<const int64_t*>(bags.indices) + first, before - first, feature.rows)
                : inside(static_cast<const int32_t*>(bags.indices) + first, before - first, feature.rows);
        for (int64_t at = first; !good && at < before; ++at) {
            const int64_t index = bags.index(at);
            if (index >= 0 && index < feature.rows) continue;
            *fault = {2, f, index};
            return false;
        }
    }
    return true;
}

int64_t widest(const Bags& bags) noexcept {
    int64_t dim = 1;
    for (int64_t f = 0; f < bags.count; ++f) dim = bags.features[f].dim > dim ? bags.features[f].dim : dim;
    return dim;
}

// Calls body(feature, bag of the feature) for all bags of all features.
template <typename Body>
void for_each_bag(const Bags& bags, const Body& body) noexcept {
    const int64_t work = (bags.total + bags.bags) * widest(bags);
    const int64_t grain = fb::serial_below * bags.bags / (work + 1) + 1;
    fb::parallel_for(0, bags.bags, grain, work < fb::serial_below ? 1 : bags.threads,
                     [&](int64_t begin, int64_t end) noexcept {
        int64_t f = 0;
        while (bags.features[f].before + bags.features[f].size <= begin) ++f;
        for (int64_t at = begin; at < end; ++at) {
            while (bags.features[f].before + bags.features[f].size <= at) ++f;
            body(bags.features[f], at - bags.features[f].before);
        }
    });
}

// Calls body(table) with the type of its elements.
template <typename Body>
void with_format(const Feature& feature, const Body& body) noexcept {
    switch (Format(feature.format)) {
        case Format::Float32: return body(static_cast<const float*>(feature.table));
        case Format::Float16: return body(static_cast<const fb::Half*>(feature.table));
        case Format::BFloat16: return body(static_cast<const fb::BFloat16*>(feature.table));
    }
}

template <typename I>
void forward(const Bags& bags, float* output) noexcept {
    const I* ids = static_cast<const I*>(bags.indices);
    for_each_bag(bags, [&](const Feature& feature, int64_t bag) noexcept {
        const int64_t first = bags.offset(feature.start + bag), count = bags.offset(feature.start + bag + 1) - first;
        const float scale = feature.mean && count ? 1.0f / float(count) : 1.0f;
        with_format(feature, [&](const auto* table) noexcept {
            pool(table, feature.dim, ids + first, count, ids + bags.offset(feature.start + feature.size),
                 bags.weights ? bags.weights + first : nullptr, scale, output + feature.place + bag * feature.stride);
        });
    });
}

// Adds the gradients of rows [low, high) of a table.
void scatter(const Bags& bags, const float* gradient, int64_t slot, float* table, int64_t low, int64_t high) noexcept {
    for (int64_t f = 0; f < bags.count; ++f) {
        const Feature& feature = bags.features[f];
        if (feature.slot != slot) continue;
        int64_t at = bags.offset(feature.start);
        for (int64_t bag = 0; bag < feature.size; ++bag) {
            const int64_t end = bags.offset(feature.start + bag + 1);
            const float scale = feature.mean && end > at ? 1.0f / float(end - at) : 1.0f;
            const float* part = gradient + feature.place + bag * feature.stride;
            for (; at < end; ++at) {
                const int64_t row = bags.index(at);
                if (row < low || row >= high) continue;
                add_scaled(table + row * feature.dim, part, bags.weights ? scale * bags.weights[at] : scale,
                           feature.dim);
            }
        }
    }
}

void weigh(const Bags& bags, const float* gradient, float* result) noexcept {
    for (int64_t i = 0; i < bags.total; ++i) result[i] = 0;
    // Features may share bags: their shares are added one feature after another.
    for (int64_t f = 0; f < bags.count; ++f) {
        Feature feature = bags.features[f];
        feature.before = 0;
        Bags one = bags;
        one.features = &feature, one.count = 1, one.bags = feature.size;
        for_each_bag(one, [&](const Feature& only, int64_t bag) noexcept {
            const int64_t first = bags.offset(only.start + bag), last = bags.offset(only.start + bag + 1);
            const float scale = only.mean && last > first ? 1.0f / float(last - first) : 1.0f;
            const float* part = gradient + only.place + bag * only.stride;
            with_format(only, [&](const auto* table) noexcept {
                for (int64_t i = first; i < last; ++i)
                    result[i] += scale * dot(table + bags.index(i) * only.dim, part, only.dim);
            });
        });
    }
}

}  // namespace

// `output` holds float32. Returns 0, or 1 with what does not fit; nothing is written then.
FB_EXPORT int32_t fb_pooled_forward(const Bags* bags, float* output, Fault* fault) noexcept {
    if (!fits(*bags, fault)) return 1;
    bags->wide_indices ? forward<int64_t>(*bags, output) : forward<int32_t>(*bags, output);
    return 0;
}

// `tables` are (rows, columns) of zeros, float32, one for each slot; `rows` says how many rows each has.
FB_EXPORT void fb_pooled_tables_backward(const Bags* bags, const float* gradient, float* const* tables,
                                         const int64_t* rows, int64_t slots) noexcept {
    const int64_t work = bags->total * widest(*bags);
    // Each piece has its share of the rows of every table, and looks at all indices for it.
    const int64_t pieces = work < fb::serial_below ? 1 : bags->threads;
    fb::parallel_for(0, pieces, 1, int32_t(pieces), [&](int64_t begin, int64_t end) noexcept {
        for (int64_t slot = 0; slot < slots; ++slot)
            scatter(*bags, gradient, slot, tables[slot], rows[slot] * begin / pieces, rows[slot] * end / pieces);
    });
}

// The gradient of each index's weight: the row that it brings into its bag, times the bag's gradient.
FB_EXPORT void fb_pooled_weights_backward(const Bags* bags, const float* gradient, float* result) noexcept {
    weigh(*bags, gradient, result);
}

}  // namespace rec
