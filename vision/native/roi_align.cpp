// Region align: each bin of a region is the mean of samples, interpolated between pixels (arXiv:1703.06870).
//
// `samples.h` turns regions into taps. Maps that lie channel by channel (NCHW) are pooled one plane after the other,
// first over rows, where neighbouring columns share a vector, then over columns. Maps whose channels are
// neighbours (NHWC) are pooled tap by tap, channels in vectors. Threads share planes or channels, so no two ever add to
// the same gradient, and neither values nor gradients depend on their number.

#include "samples.h"

namespace vision {
namespace {

// --- NCHW -----------------------------------------------------------------------------------------------------------

// Regions pooled from one plane before the next: a plane is fetched once, and their taps come in a stream.
constexpr int64_t block_size = 512;
constexpr int64_t lanes = 8;

// line[x] = sum over taps of weight * map[row, x], for `width` columns from `first`. Four rows at a time.
template <typename T, typename S>
FB_INLINE void sum_rows(const Region<T>& region, Bin bin, const S* plane, int64_t stride, int64_t width,
                        T* line) noexcept {
    const S* base = plane + region.first;
    for (int64_t x = 0; x < width; ++x) line[x] = 0;
    int32_t t = bin.begin;
    for (; t + 4 <= bin.end; t += 4) {
        const Tap<T>* tap = region.taps + t;
        const S *a = base + tap[0].at * stride, *b = base + tap[1].at * stride;
        const S *c = base + tap[2].at * stride, *d = base + tap[3].at * stride;
        const T wa = tap[0].weight, wb = tap[1].weight, wc = tap[2].weight, wd = tap[3].weight;
        for (int64_t x = 0; x < width; ++x)
            line[x] += (wa * widen(a[x]) + wb * widen(b[x])) + (wc * widen(c[x]) + wd * widen(d[x]));
    }
    for (; t < bin.end; ++t) {
        const S* a = base + region.taps[t].at * stride;
        const T wa = region.taps[t].weight;
        for (int64_t x = 0; x < width; ++x) line[x] += wa * widen(a[x]);
    }
}

template <typename T, typename S>
FB_INLINE void sum_listed(const Region<T>& region, Bin bin, const S* plane, int64_t stride, T* line) noexcept {
    for (int64_t x = 0; x < region.width; ++x) line[x] = 0;
    for (int32_t t = bin.begin; t < bin.end; ++t) {
        const S* row = plane + region.taps[t].at * stride;
        const T weight = region.taps[t].weight;
        for (int64_t x = 0; x < region.width; ++x) line[x] += weight * widen(row[region.listed[x]]);
    }
}

// How many columns to compute: whole vectors where the map goes on that far.
template <typename T>
FB_INLINE int64_t padded(const Region<T>& region, int64_t map_width) noexcept {
    const int64_t width = (region.width + lanes - 1) / lanes * lanes;
    return region.first + width <= map_width ? width : region.width;
}

template <typename T, typename S>
FB_INLINE void pool_plane(const Region<T>& region, const S* plane, int64_t map_width, int64_t bins_high,
                          int64_t bins_wide, S* pooled, T* line) noexcept {
    const int64_t width = padded(region, map_width);
    for (int64_t i = 0; i < bins_high; ++i, pooled += bins_wide) {
        if (region.listed)
            sum_listed(region, region.rows[i], plane, map_width, line);
        else
            sum_rows(region, region.rows[i], plane, map_width, width, line);
        const T* shifted = line - region.first;
        for (int64_t j = 0; j < bins_wide; ++j) {
            const Bin bin = region.columns[j];
            T sum = 0;
            for (int32_t t = bin.begin; t < bin.end; ++t) sum += region.taps[t].weight * shifted[region.taps[t].at];
            pooled[j] = narrow<S>(sum);
        }
    }
}

// Adds to `plane`, which is in the dtype of computation.
template <typename T, typename S>
FB_INLINE void spread_plane(const Region<T>& region, const S* grad, int64_t map_width, int64_t bins_high,
                            int64_t bins_wide, T* plane, T* line) noexcept {
    const int64_t width = region.listed ? region.width : padded(region, map_width);
    for (int64_t i = 0; i < bins_high; ++i, grad += bins_wide) {
        for (int64_t x = 0; x < width; ++x) line[x] = 0;
        T* shifted = line - region.first;
        for (int64_t j = 0; j < bins_wide; ++j) {
            const Bin bin = region.columns[j];
            const T value = widen(grad[j]);
            for (int32_t t = bin.begin; t < bin.end; ++t) shifted[region.taps[t].at] += region.taps[t].weight * value;
        }
        for (int32_t t = region.rows[i].begin; t < region.rows[i].end; ++t) {
            T* row = plane + region.taps[t].at * map_width;
            const T weight = region.taps[t].weight;
            if (region.listed) {
                for (int64_t x = 0; x < width; ++x) row[region.listed[x]] += weight * line[x];
            } else {
                row += region.first;
                for (int64_t x = 0; x < width; ++x) row[x] += weight * line[x];
            }
        }
    }
}

// --- NHWC -----------------------------------------------------------------------------------------------------------

constexpr int64_t strip = 64;  // channels whose sums stay in registers

template <typename T, typename S>
FB_INLINE void pool_channels(const Region<T>& region, const S* map, int64_t map_width, int64_t channels,
                             int64_t bins_high, int64_t bins_wide, S* pooled, T* sums) noexcept {
    for (int64_t i = 0; i < bins_high; ++i)
        for (int64_t j = 0; j < bins_wide; ++j, pooled += channels) {
            const Bin rows = region.rows[i], columns = region.columns[j];
            for (int64_t begin = 0; begin < channels; begin += strip) {
                const int64_t count = channels - begin < strip ? channels - begin : strip;
                for (int64_t c = 0; c < count; ++c) sums[c] = 0;
                for (int32_t y = rows.begin; y < rows.end; ++y)
                    for (int32_t x = columns.begin; x < columns.end; ++x) {
                        const Tap<T> row = region.taps[y], column = region.taps[x];
                        const T weight = row.weight * column.weight;
                        const S* pixel = map + (row.at * map_width + column.at) * channels + begin;
                        for (int64_t c = 0; c < count; ++c) sums[c] += weight * widen(pixel[c]);
                    }
                for (int64_t c = 0; c < count; ++c) pooled[begin + c] = narrow<S>(sums[c]);
            }
        }
}

// Adds to channels [begin, end) of `map`, which is in the dtype of computation.
template <typename T, typename S>
FB_INLINE void spread_channels(const Region<T>& region, const S* grad, int64_t map_width, int64_t channels,
                               int64_t begin, int64_t end, int64_t bins_high, int64_t bins_wide, T* map) noexcept {
    for (int64_t i = 0; i < bins_high; ++i)
        for (int64_t j = 0; j < bins_wide; ++j, grad += channels)
            for (int32_t y = region.rows[i].begin; y < region.rows[i].end; ++y)
                for (int32_t x = region.columns[j].begin; x < region.columns[j].end; ++x) {
                    const Tap<T> row = region.taps[y], column = region.taps[x];
                    const T weight = row.weight * column.weight;
                    T* pixel = map + (row.at * map_width + column.at) * channels;
                    for (int64_t c = begin; c < end; ++c) pixel[c] += weight * widen(grad[c]);
                }
}

// Each loop for each instruction set. Plain functions, because templates cannot have clones.
#define VISION_ROI_ALIGN_LOOPS(T, S)                                                                                  \
    FB_CLONES void pool(const Region<T>& region, const S* plane, int64_t width, int64_t high, int64_t wide,           \
            S* pooled,                                                                                                \
                        T* line) noexcept {                                                                           \
        pool_plane<T, S>(region, plane, width, high, wide, pooled, line);                                             \
    }                                                                                                                 \
    FB_CLONES void spread(const Region<T>& region, const S* grad, int64_t width, int64_t high, int64_t wide,          \
                          T* plane, T* line) noexcept {                                                               \
        spread_plane<T, S>(region, grad, width, high, wide, plane, line);                                             \
    }                                                                                                                 \
    FB_CLONES void pool(const Region<T>& region, const S* map, int64_t width, int64_t channels, int64_t high,         \
                        int64_t wide, S* pooled) noexcept {                                                           \
        T sums[strip];                                                                                                \
        pool_channels<T, S>(region, map, width, channels, high, wide, pooled, sums);                                  \
    }                                                                                                                 \
    FB_CLONES void spread(const Region<T>& region, const S* grad, int64_t width, int64_t channels, int64_t begin,     \
                          int64_t end, int64_t high, int64_t wide, T* map) noexcept {                                 \
        spread_channels<T, S>(region, grad, width, channels, begin, end, high, wide, map);                            \
    }
VISION_ROI_ALIGN_LOOPS(float, float)
VISION_ROI_ALIGN_LOOPS(double, double)
VISION_ROI_ALIGN_LOOPS(float, Half)
VISION_ROI_ALIGN_LOOPS(float, BFloat16)

// --- whole calls ----------------------------------------------------------------------------------------------------

template <typename T, typename S>
int64_t forward(const fb_regions& given, const S* maps, S* pooled) noexcept {
    const int64_t stray = first_stray<S>(given);
    if (stray < given.count) return stray + 1;
    Plan<T> plan;
    if (!plan.template make<S>(given, !given.channels_last)) return no_memory;
    const int64_t high = given.bins_high, wide = given.bins_wide, channels = given.channels;
    const int64_t area = given.height * given.width, bins = high * wide;
    if (given.channels_last) {
        fb::parallel_for(0, given.count, 1, given.nthreads, [&](int64_t begin, int64_t end) noexcept {
            for (int64_t k = begin; k < end; ++k)
                pool(plan[k], maps + plan[k].image * area * channels, given.width, channels, high, wide,
                     pooled + plan[k].place * bins * channels);
        });
        return done;
    }
    const int64_t blocks = (given.count + block_size - 1) / block_size, line_size = plan.widest + lanes;
    Array<T> lines;
    if (!lines.make(line_size * given.nthreads)) return no_memory;
    const int64_t share = (blocks * channels + given.nthreads - 1) / given.nthreads;
    fb::parallel_for(0, given.nthreads, 1, given.nthreads, [&](int64_t first, int64_t last) noexcept {
        const int64_t end = last * share < blocks * channels ? last * share : blocks * channels;
        for (int64_t task = first * share; task < end; ++task) {
            const int64_t block = task / channels, channel = task % channels;
            const int64_t stop = (block + 1) * block_size < given.count ? (block + 1) * block_size : given.count;
            for (int64_t k = block * block_size; k < stop; ++k)
                pool(plan[k], maps + (plan[k].image * channels + channel) * area, given.width, high, wide,
                     pooled + (plan[k].place * channels + channel) * bins, lines.get() + first * line_size);
        }
    });
    return done;
}

template <typename T, typename S>
int64_t backward(const fb_regions& given, const S* grad, S* maps) noexcept {
    const int64_t stray = first_stray<S>(given);
    if (stray < given.count) return stray + 1;
    Plan<T> plan;
    if (!plan.template make<S>(given, !given.channels_last)) return no_memory;
    const int64_t high = given.bins_high, wide = given.bins_wide, channels = given.channels;
    const int64_t area = given.height * given.width, bins = high * wide, total = given.images * channels * area;
    Array<T> memory;
    T* sums = sums_for(maps, memory, total);
    if (!sums) return no_memory;
    if (given.channels_last) {
        constexpr int64_t line = 16;  // channels that share a cache line stay with one thread
        memset(static_cast<void*>(sums), 0, size_t(total) * sizeof(T));
        fb::parallel_for(0, (channels + line - 1) / line, 1, given.nthreads, [&](int64_t from, int64_t to) noexcept {
            const int64_t begin = from * line, end = to * line < channels ? to * line : channels;
            for (int64_t k = 0; k < given.count; ++k)
                spread(plan[k], grad + plan[k].place * bins * channels, given.width, channels, begin, end, high, wide,
                       sums + plan[k].image * area * channels);
        });
    } else {
        const int64_t line_size = plan.widest + lanes;
        const int64_t planes = given.images * channels, share = (planes + given.nthreads - 1) / given.nthreads;
        Array<T> lines;
        if (!lines.make(line_size * given.nthreads)) return no_memory;
        fb::parallel_for(0, given.nthreads, 1, given.nthreads, [&](int64_t first, int64_t last) noexcept {
            const int64_t end = last * share < planes ? last * share : planes;
            for (int64_t p = first * share; p < end; ++p) {
                const int64_t image = p / channels, channel = p % channels;
                memset(static_cast<void*>(sums + p * area), 0, size_t(area) * sizeof(T));
                for (int64_t k = plan.begin(image); k < plan.begin(image + 1); ++k)
                    spread(plan[k], grad + (plan[k].place * channels + channel) * bins, given.width, high, wide,
                           sums + p * area, lines.get() + first * line_size);
            }
        });
    }
    round_sums(sums, maps, total);
    return done;
}

}  // namespace
}  // namespace vision

// int64_t fb_roi_align_<dtype>(regions, maps, pooled)
// int64_t fb_roi_align_backward_<dtype>(regions, grad, maps)
//
// maps     images x channels x height x width; the second writes its gradient
// pooled   count x channels x bins_high x bins_wide, as grad, its gradient; both without gaps, in the given layout
// returns  0, -1 when there is no memory, i + 1 when region i names an image that is not there
#define VISION_ROI_ALIGN(dtype, Compute, Storage)                                                                     \
    FB_EXPORT int64_t fb_roi_align_##dtype(const fb_regions* regions, const void* maps, void* pooled) noexcept {      \
        return vision::forward<Compute, Storage>(*regions, static_cast<const Storage*>(maps),                         \
                                                 static_cast<Storage*>(pooled));                                      \
    }                                                                                                                 \
    FB_EXPORT int64_t fb_roi_align_backward_##dtype(const fb_regions* regions, const void* grad,                      \
            void* maps) noexcept {                                                                                    \
        return vision::backward<Compute, Storage>(*regions, static_cast<const Storage*>(grad),                        \
                                                  static_cast<Storage*>(maps));                                       \
    }
VISION_ROI_ALIGN(f32, float, float)
VISION_ROI_ALIGN(f64, double, double)
VISION_ROI_ALIGN(f16, float, vision::Half)
VISION_ROI_ALIGN(bf16, float, vision::BFloat16)

namespace {

using Kernel = int64_t (*)(const fb_regions*, const void*, void*) noexcept;

void roi_align(fb::Call& call, const fb::Tensor& input, const fb::Tensor& rois, double spatial_scale,
               int64_t pooled_height, int64_t pooled_width, int64_t sampling_ratio, bool aligned) noexcept {
    static constexpr Kernel kernels[] = {fb_roi_align_f16, fb_roi_align_bf16, fb_roi_align_f32, fb_roi_align_f64};
    if (!vision::valid_regions(call, "roi_align", "input", input, rois, pooled_height, pooled_width)) return;
    const bool last = vision::channels_last(input);
    const fb::Tensor boxes = call.contiguous(rois);
    const fb::Tensor maps = last ? call.borrow(input) : call.contiguous(input);
    fb::Tensor pooled = vision::empty_maps(call, input.dtype, rois.sizes[0], input.sizes[1], pooled_height,
                                           pooled_width, last);
    if (!boxes.defined() || !maps.defined() || !pooled.defined()) return;
    const fb_regions regions =
        vision::describe(boxes, input.sizes[0], input.sizes[1], input.sizes[2], input.sizes[3], pooled_height,
                         pooled_width, spatial_scale, sampling_ratio, aligned, last, last);
    const Kernel kernel = kernels[vision::dtype_index(input.dtype)];
    if (vision::settled(call, "roi_align", regions, kernel(&regions, maps.data, pooled.data))) call.give(pooled);
}

void roi_align_backward(fb::Call& call, const fb::Tensor& grad, const fb::Tensor& rois, double spatial_scale,
                        int64_t pooled_height, int64_t pooled_width, int64_t batch_size, int64_t channels,
                        int64_t height, int64_t width, int64_t sampling_ratio, bool aligned) noexcept {
    static constexpr Kernel kernels[] = {fb_roi_align_backward_f16, fb_roi_align_backward_bf16,
                                         fb_roi_align_backward_f32, fb_roi_align_backward_f64};
    const char* op = "_roi_align_backward";
    if (!vision::valid_regions(call, op, "grad", grad, rois, pooled_height, pooled_width)) return;
    if (!vision::valid_grad(call, op, grad, {rois.sizes[0], channels, pooled_height, pooled_width})) return;
    const bool last = vision::channels_last(grad);
    const fb::Tensor boxes = call.contiguous(rois);
    const fb::Tensor pooled = last ? call.borrow(grad) : call.contiguous(grad);
    fb::Tensor maps = vision::empty_maps(call, grad.dtype, batch_size, channels, height, width, last);
    if (!boxes.defined() || !maps.defined() || !pooled.defined()) return;
    const fb_regions regions = vision::describe(boxes, batch_size, channels, height, width, pooled_height,
                                                pooled_width, spatial_scale, sampling_ratio, aligned, last, last);
    const Kernel kernel = kernels[vision::dtype_index(grad.dtype)];
    if (vision::settled(call, op, regions, kernel(&regions, pooled.data, maps.data))) call.give(maps);
}

FB_OPERATOR("roi_align", roi_align);
FB_OPERATOR("_roi_align_backward", roi_align_backward);

}  // namespace
