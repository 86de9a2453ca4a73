// Region pooling: each bin of a region is the largest of its pixels (arXiv:1504.08083).
//
// A NaN counts as largest, as in torch's own pooling. The pixel that was chosen is written beside it, for the gradient.

#include "pooling.h"
#include "spans.h"

namespace vision {
namespace {

template <typename T, typename S>
int64_t forward(const fb_regions& given, const S* maps, S* pooled, int32_t* chosen) noexcept {
    const int64_t stray = first_stray<S>(given);
    if (stray < given.count) return stray + 1;
    const S* rois = static_cast<const S*>(given.rois);
    const Layout from = maps_layout(given), to = pooled_layout(given, given.channels);
    fb::parallel_for(0, given.count, 1, given.nthreads, [&](int64_t begin, int64_t end) noexcept {
        for (int64_t k = begin; k < end; ++k) {
            const S* roi = rois + 5 * k;
            const T scale = T(given.scale);
            const int64_t left = to_pixel(widen(roi[1]) * scale), top = to_pixel(widen(roi[2]) * scale);
            const int64_t right = to_pixel(widen(roi[3]) * scale), bottom = to_pixel(widen(roi[4]) * scale);
            const Cuts<T> rows(top, bottom - top + 1, given.bins_high, given.height);
            const Cuts<T> columns(left, right - left + 1, given.bins_wide, given.width);
            for (int64_t c = 0; c < given.channels; ++c) {
                const S* map = maps + int64_t(widen(roi[0])) * from.image + c * from.channel;
                for (int64_t i = 0; i < given.bins_high; ++i)
                    for (int64_t j = 0; j < given.bins_wide; ++j) {
                        const Span high = rows[i], wide = columns[j];
                        T largest = 0;
                        int64_t at = -1;
                        for (int64_t y = high.begin; y < high.end; ++y)
                            for (int64_t x = wide.begin; x < wide.end; ++x) {
                                const T value = widen(map[y * from.row + x * from.column]);
                                if (at >= 0 && !(value > largest) && (value == value || largest != largest)) continue;
                                largest = value;
                                at = y * given.width + x;
                            }
                        const int64_t place = k * to.image + c * to.channel + i * to.row + j * to.column;
                        pooled[place] = narrow<S>(largest);
                        chosen[place] = int32_t(at);
                    }
            }
        }
    });
    return done;
}

template <typename T, typename S>
int64_t backward(const fb_regions& given, const S* grad, const int32_t* chosen, S* maps) noexcept {
    const int64_t stray = first_stray<S>(given);
    if (stray < given.count) return stray + 1;
    const S* rois = static_cast<const S*>(given.rois);
    const Layout to = maps_layout(given), from = pooled_layout(given, given.channels);
    const int64_t total = given.images * to.image, area = given.height * given.width;
    Array<T> memory;
    T* sums = sums_for(maps, memory, total);
    if (!sums) return no_memory;
    memset(static_cast<void*>(sums), 0, size_t(total) * sizeof(T));
    fb::parallel_for(0, given.channels, 1, given.nthreads, [&](int64_t begin, int64_t end) noexcept {
        for (int64_t k = 0; k < given.count; ++k)
            for (int64_t c = begin; c < end; ++c) {
                T* map = sums + int64_t(widen(rois[5 * k])) * to.image + c * to.channel;
                for (int64_t i = 0; i < given.bins_high; ++i)
                    for (int64_t j = 0; j < given.bins_wide; ++j) {
                        const int64_t place = k * from.image + c * from.channel + i * from.row + j * from.column;
                        const int64_t at = chosen[place];
                        if (at >= 0 && at < area)
                            map[at / given.width * to.row + at % given.width * to.column] += widen(grad[place]);
                    }
            }
    });
    round_sums(sums, maps, total);
    return done;
}

}  // namespace
}  // namespace vision

// int64_t fb_roi_pool_<dtype>(regions, maps, pooled, chosen)
// int64_t fb_roi_pool_backward_<dtype>(regions, grad, chosen, maps)
//
// maps     images x channels x height x width; the second writes its gradient
// pooled   count x channels x bins_high x bins_wide, as grad, its gradient
// chosen   y * width + x of each largest pixel, -1 for an empty bin; laid out as pooled
// returns  0, -1 when there is no memory, i + 1 when region i names an image that is not there
#define VISION_ROI_POOL(dtype, Compute, Storage)                                                                     \
    FB_EXPORT int64_t fb_roi_pool_##dtype(const fb_regions* regions, const void* maps, void* pooled,                 \
                                          void* chosen) noexcept {                                                   \
        return vision::forward<Compute, Storage>(*regions, static_cast<const Storage*>(maps),                        \
                                                 static_cast<Storage*>(pooled), static_cast<int32_t*>(chosen));      \
    }                                                                                                                \
    FB_EXPORT int64_t fb_roi_pool_backward_##dtype(const fb_regions* regions, const void* grad, const void* chosen,  \
                                                   void* maps) noexcept {                                            \
        return vision::backward<Compute, Storage>(*regions, static_cast<const Storage*>(grad),                       \
                                                  static_cast<const int32_t*>(chosen), static_cast<Storage*>(maps)); \
    }
VISION_ROI_POOL(f32, float, float)
VISION_ROI_POOL(f64, double, double)
VISION_ROI_POOL(f16, float, vision::Half)
VISION_ROI_POOL(bf16, float, vision::BFloat16)

namespace {

using Forward = int64_t (*)(const fb_regions*, const void*, void*, void*) noexcept;
using Backward = int64_t (*)(const fb_regions*, const void*, const void*, void*) noexcept;

void roi_pool(fb::Call& call, const fb::Tensor& input, const fb::Tensor& rois, double spatial_scale,
              int64_t pooled_height, int64_t pooled_width) noexcept {
    static constexpr Forward kernels[] = {fb_roi_pool_f16, fb_roi_pool_bf16, fb_roi_pool_f32, fb_roi_pool_f64};
    const char* op = "roi_pool";
    vision::Pooling p =
        vision::pooling(call, op, input, rois, pooled_height, pooled_width, spatial_scale, 0, false);
    if (!p.ready) return;
    const Forward kernel = kernels[vision::dtype_index(input.dtype)];
    p.settle(call, op, kernel(&p.regions, p.maps.data, p.pooled.data, p.extra.data), true);
}

void roi_pool_backward(fb::Call& call, const fb::Tensor& grad, const fb::Tensor& rois, const fb::Tensor& argmax,
                       double spatial_scale, int64_t pooled_height, int64_t pooled_width, int64_t batch_size,
                       int64_t channels, int64_t height, int64_t width) noexcept {
    static constexpr Backward kernels[] = {fb_roi_pool_backward_f16, fb_roi_pool_backward_bf16,
                                           fb_roi_pool_backward_f32, fb_roi_pool_backward_f64};
    const char* op = "_roi_pool_backward";
    vision::Pooling p = vision::pooling_backward(call, op, grad, rois, argmax, pooled_height, pooled_width,
                                                 spatial_scale, 0, {batch_size, channels, height, width}, false);
    if (!p.ready) return;
    const Backward kernel = kernels[vision::dtype_index(grad.dtype)];
    p.settle(call, op, kernel(&p.regions, p.pooled.data, p.extra.data, p.maps.data), false);
}

FB_OPERATOR("roi_pool", roi_pool);
FB_OPERATOR("_roi_pool_backward", roi_pool_backward);

}  // namespace
