// Position-sensitive region pooling: each bin is the mean of its pixels, from channels of its own (arXiv:1605.06409).
//
// Channel (c * bins_high + i) * bins_wide + j of the maps belongs to bin (i, j) of the pooled channel c. Corners are
// rounded to pixels, and the last one is not of the region.

#include "pooling.h"
#include "spans.h"

namespace vision {
namespace {

// The channel that a bin reads.
inline int64_t channel_of(const fb_regions& given, int64_t c, int64_t i, int64_t j) noexcept {
    return (c * given.bins_high + i) * given.bins_wide + j;
}

// Rows and columns of one region's bins.
template <typename T, typename S>
struct Region {
    int64_t image;
    Cuts<T> rows, columns;

    Region(const fb_regions& given, const S* roi) noexcept
        : image(int64_t(widen(roi[0]))),
          rows(cut(widen(roi[2]) * T(given.scale), widen(roi[4]) * T(given.scale), given.bins_high, given.height)),
          columns(cut(widen(roi[1]) * T(given.scale), widen(roi[3]) * T(given.scale), given.bins_wide, given.width)) {}

  private:
    // Upstream: the map's last row and column are never read.
    static Cuts<T> cut(T from, T to, int64_t bins, int64_t size) noexcept {
        return Cuts<T>(to_pixel(from), to_pixel(to) - to_pixel(from), bins, size > 0 ? size - 1 : 0);
    }
};

template <typename T, typename S>
int64_t forward(const fb_regions& given, const S* maps, S* pooled, int32_t* channels) noexcept {
    const int64_t stray = first_stray<S>(given);
    if (stray < given.count) return stray + 1;
    const int64_t outputs = given.channels / (given.bins_high * given.bins_wide);
    const Layout from = maps_layout(given), to = pooled_layout(given, outputs);
    fb::parallel_for(0, given.count, 1, given.nthreads, [&](int64_t begin, int64_t end) noexcept {
        for (int64_t k = begin; k < end; ++k) {
            const Region<T, S> region(given, static_cast<const S*>(given.rois) + 5 * k);
            for (int64_t c = 0; c < outputs; ++c)
                for (int64_t i = 0; i < given.bins_high; ++i)
                    for (int64_t j = 0; j < given.bins_wide; ++j) {
                        const Span high = region.rows[i], wide = region.columns[j];
                        const int64_t channel = channel_of(given, c, i, j);
                        const S* map = maps + region.image * from.image + channel * from.channel;
                        const int64_t area = (high.end - high.begin) * (wide.end - wide.begin);
                        T sum = 0;
                        for (int64_t y = high.begin; y < high.end; ++y)
                            for (int64_t x = wide.begin; x < wide.end; ++x)
                                sum += widen(map[y * from.row + x * from.column]);
                        const int64_t place = k * to.image + c * to.channel + i * to.row + j * to.column;
                        pooled[place] = narrow<S>(area > 0 ? sum / T(area) : T(0));
                        channels[place] = int32_t(channel);
                    }
        }
    });
    return done;
}

template <typename T, typename S>
int64_t backward(const fb_regions& given, const S* grad, S* maps) noexcept {
    const int64_t stray = first_stray<S>(given);
    if (stray < given.count) return stray + 1;
    const int64_t outputs = given.channels / (given.bins_high * given.bins_wide);
    const Layout to = maps_layout(given), from = pooled_layout(given, outputs);
    const int64_t total = given.images * to.image;
    Array<T> memory;
    T* sums = sums_for(maps, memory, total);
    if (!sums) return no_memory;
    memset(static_cast<void*>(sums), 0, size_t(total) * sizeof(T));
    // Bins of one pooled channel read channels of their own: no two threads add to the same one.
    fb::parallel_for(0, outputs, 1, given.nthreads, [&](int64_t begin, int64_t end) noexcept {
        for (int64_t k = 0; k < given.count; ++k) {
            const Region<T, S> region(given, static_cast<const S*>(given.rois) + 5 * k);
            for (int64_t c = begin; c < end; ++c)
                for (int64_t i = 0; i < given.bins_high; ++i)
                    for (int64_t j = 0; j < given.bins_wide; ++j) {
                        const Span high = region.rows[i], wide = region.columns[j];
                        const int64_t area = (high.end - high.begin) * (wide.end - wide.begin);
                        if (area <= 0) continue;
                        const T value =
                            widen(grad[k * from.image + c * from.channel + i * from.row + j * from.column]) / T(area);
                        T* map = sums + region.image * to.image + channel_of(given, c, i, j) * to.channel;
                        for (int64_t y = high.begin; y < high.end; ++y)
                            for (int64_t x = wide.begin; x < wide.end; ++x)
                                map[y * to.row + x * to.column] += value;
                    }
        }
    });
    round_sums(sums, maps, total);
    return done;
}

}  // namespace
}  // namespace vision

// int64_t fb_ps_roi_pool_<dtype>(regions, maps, pooled, channels)
// int64_t fb_ps_roi_pool_backward_<dtype>(regions, grad, maps)
//
// maps      images x channels x height x width; the second writes its gradient
// pooled    count x channels / bins x bins_high x bins_wide, as grad, its gradient
// channels  the channel of the maps that each bin reads; laid out as pooled
// returns   0, -1 when there is no memory, i + 1 when region i names an image that is not there
#define VISION_PS_ROI_POOL(dtype, Compute, Storage)                                                                   \
    FB_EXPORT int64_t fb_ps_roi_pool_##dtype(const fb_regions* regions, const void* maps, void* pooled,               \
                                      void* channels) noexcept {                                                      \
        return vision::forward<Compute, Storage>(*regions, static_cast<const Storage*>(maps),                         \
                                                 static_cast<Storage*>(pooled), static_cast<int32_t*>(channels));     \
    }                                                                                                                 \
    FB_EXPORT int64_t fb_ps_roi_pool_backward_##dtype(const fb_regions* regions, const void* grad,                    \
                                               void* maps) noexcept {                                                 \
        return vision::backward<Compute, Storage>(*regions, static_cast<const Storage*>(grad),                        \
                                                  static_cast<Storage*>(maps));                                       \
    }
VISION_PS_ROI_POOL(f32, float, float)
VISION_PS_ROI_POOL(f64, double, double)
VISION_PS_ROI_POOL(f16, float, vision::Half)
VISION_PS_ROI_POOL(bf16, float, vision::BFloat16)

namespace {

using Forward = int64_t (*)(const fb_regions*, const void*, void*, void*) noexcept;
using Backward = int64_t (*)(const fb_regions*, const void*, void*) noexcept;

void ps_roi_pool(fb::Call& call, const fb::Tensor& input, const fb::Tensor& rois, double spatial_scale,
                  int64_t pooled_height, int64_t pooled_width) noexcept {
    static constexpr Forward kernels[] = {fb_ps_roi_pool_f16, fb_ps_roi_pool_bf16, fb_ps_roi_pool_f32,
                                          fb_ps_roi_pool_f64};
    const char* op = "ps_roi_pool";
    vision::Pooling p =
        vision::pooling(call, op, input, rois, pooled_height, pooled_width, spatial_scale, 0, true);
    if (!p.ready) return;
    const Forward kernel = kernels[vision::dtype_index(input.dtype)];
    p.settle(call, op, kernel(&p.regions, p.maps.data, p.pooled.data, p.extra.data), true);
}

void ps_roi_pool_backward(fb::Call& call, const fb::Tensor& grad, const fb::Tensor& rois,
                           const fb::Tensor& channel_mapping, double spatial_scale, int64_t pooled_height,
                           int64_t pooled_width, int64_t batch_size, int64_t channels,
                           int64_t height, int64_t width) noexcept {
    static constexpr Backward kernels[] = {fb_ps_roi_pool_backward_f16, fb_ps_roi_pool_backward_bf16,
                                           fb_ps_roi_pool_backward_f32, fb_ps_roi_pool_backward_f64};
    const char* op = "_ps_roi_pool_backward";
    vision::Pooling p = vision::pooling_backward(call, op, grad, rois, channel_mapping, pooled_height, pooled_width,
                                                 spatial_scale, 0, {batch_size, channels, height, width},
                                                 true);
    if (!p.ready) return;
    const Backward kernel = kernels[vision::dtype_index(grad.dtype)];
    p.settle(call, op, kernel(&p.regions, p.pooled.data, p.maps.data), false);
}

FB_OPERATOR("ps_roi_pool", ps_roi_pool);
FB_OPERATOR("_ps_roi_pool_backward", ps_roi_pool_backward);

}  // namespace
