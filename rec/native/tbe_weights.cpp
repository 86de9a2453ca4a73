// Gradients of table-batched embeddings that are not of tables by an optimizer: of the weights of indices, and dense.

#include "pooling.h"
#include "tbe.h"

namespace rec {

FB_CLONES float dot(const float* a, const float* b, int64_t dim) noexcept {
    float partial[8] = {};
    int64_t i = 0;
    for (; i + 8 <= dim; i += 8)
        for (int k = 0; k < 8; ++k) partial[k] += a[i + k] * b[i + k];
    float sum = 0;
    for (int k = 0; k < 8; ++k) sum += partial[k];
    for (; i < dim; ++i) sum += a[i] * b[i];
    return sum;
}

namespace {

template <typename W>
FB_INLINE float dot_wide(const W* a, const float* b, int64_t dim) noexcept {
    float sum = 0;
    for (int64_t i = 0; i < dim; ++i) sum += fb::widen(a[i]) * b[i];
    return sum;
}

}  // namespace

FB_CLONES float dot(const fb::Half* a, const float* b, int64_t dim) noexcept { return dot_wide(a, b, dim); }
FB_CLONES float dot(const fb::BFloat16* a, const float* b, int64_t dim) noexcept { return dot_wide(a, b, dim); }

namespace {

template <typename W>
void weigh(const Batch& batch, const float* gradient, const uint8_t* wanted, float* result) noexcept {
    const W* weights = static_cast<const W*>(batch.weights);
    const int64_t bags = batch.bags();
    fb::parallel_for(0, bags, bags / (4 * batch.threads) + 1, batch.total < 1024 ? 1 : batch.threads,
                     [&](int64_t begin, int64_t end) noexcept {
        int64_t f = batch.feature_of(begin);
        for (int64_t bag = begin; bag < end; ++bag) {
            while (batch.bag_starts[f + 1] <= bag) ++f;
            const int64_t first = batch.offsets[bag], last = batch.offsets[bag + 1], dim = batch.dims[f];
            const float* above = gradient + batch.place(f, bag);
            const float scale = batch.pooling == Pooling::Mean ? 1.0f / float(last - first) : 1.0f;
            for (int64_t i = first; i < last; ++i) {
                const int64_t index = batch.index(i);
                const W* row = weights + batch.weights_offsets[f] + index * dim;
                if (batch.slots && batch.slots[i] >= 0)
                    row = static_cast<const W*>(batch.cache) + batch.slots[i] * batch.cache_width;
                result[i] = !wanted || wanted[f] ? scale * dot(row, above, dim) : 0.0f;
            }
        }
    });
}

}  // namespace

// The gradient of each index's weight: the row that it brings into its bag, times the bag's gradient.
FB_EXPORT void fb_tbe_weights_gradient(const Batch* batch, const float* gradient, const uint8_t* wanted,
                                       float* result) noexcept {
    if (!batch->total) return;
    switch (batch->format) {
        case Format::Float32: return weigh<float>(*batch, gradient, wanted, result);
        case Format::Float16: return weigh<fb::Half>(*batch, gradient, wanted, result);
        case Format::BFloat16: return weigh<fb::BFloat16>(*batch, gradient, wanted, result);
    }
}

}  // namespace rec
