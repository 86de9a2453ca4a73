// What the kernels of table-batched embeddings are given: many tables in one piece of memory, and the bags of a batch.
//
// Bags are feature-major. Feature f reads the table that begins at `weights_offsets[f]` (in elements), has `rows[f]` rows
// of `dims[f]` numbers, and whose first row has the number `row_bases[f]` among all rows of all tables. Several features
// may read one table.

#pragma once

#include <flambeau/kernel.h>
#include <flambeau/numbers.h>

namespace rec {

enum class Format : int32_t { Float32, Float16, BFloat16 };
enum class Pooling : int32_t { Sum, Mean, None };

// Python fills this in; see `flambeau.rec.ops._tbe_native`.
struct Batch {
    const void* weights;
    const int64_t* weights_offsets;  // (features)
    const int64_t* rows;             // (features)
    const int64_t* dims;             // (features)
    const int64_t* row_bases;        // (features)
    const void* indices;             // (total), int32 or int64
    const int64_t* offsets;          // (bags + 1)
    const float* bag_weights;        // (total): a factor for each index; null without
    const int64_t* bag_starts;       // (features + 1): which bags are a feature's
    const int64_t* columns;          // (features): where in a row of the output each begins
    const int64_t* outputs;          // (bags): where in the output each begins; null where a row is an example
    int64_t row_width;               // of the output: all features of an example, or without pooling one index
    int64_t features;
    int64_t total;
    int32_t wide_indices;  // whether they are int64
    Format format;
    Pooling pooling;
    int32_t threads;
    const void* cache;      // (slots, cache_width): rows that are kept here rather than in their tables; null without
    const int32_t* slots;   // (total): which of them each index's row is, -1 for rows in their tables
    int64_t cache_width;

    int64_t bags() const noexcept { return bag_starts[features]; }
    int64_t index(int64_t at) const noexcept {
        return wide_indices ? static_cast<const int64_t*>(indices)[at] : static_cast<const int32_t*>(indices)[at];
    }
    // Where in the output a bag of a feature begins.
    int64_t place(int64_t feature, int64_t bag) const noexcept {
        return outputs ? outputs[bag] : (bag - bag_starts[feature]) * row_width + columns[feature];
    }
    // The feature that a bag belongs to.
    int64_t feature_of(int64_t bag) const noexcept {
        int64_t low = 0, high = features;
        while (high - low > 1) {
            const int64_t middle = (low + high) / 2;
            (bag_starts[middle] <= bag ? low : high) = middle;
        }
        while (bag_starts[low + 1] <= bag) ++low;  // features without bags
        return low;
    }
};

// The first index found outside of its table, for the message; `place` is -1 where there is none.
struct Stray {
    int64_t place, feature, index;
};

}  // namespace rec
