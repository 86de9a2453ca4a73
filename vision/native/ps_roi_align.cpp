// Position-sensitive region align: the means of `roi_align`, each bin from channels of its own (arXiv:1605.06409).
//
// Channel (c * bins_high + i) * bins_wide + j of the maps belongs to bin (i, j) of the pooled channel c. Coordinates
// are those of `roi_align` with `aligned`.

#include "pooling.h"
#include "samples.h"

namespace vision {
namespace {

// The channel that a bin reads.
inline int64_t channel_of(const fb_regions& given, int64_t c, int64_t i, int64_t j) noexcept {
    return (c * given.bins_high + i) * given.bins_wide + j;
}

template <typename T, typename S>
int64_t forward(const fb_regions& given, const S* maps, S* pooled, int32_t* channels) noexcept {
    const int64_t stray = first_stray<S>(given);
    if (stray < given.count) return stray + 1;
    Plan<T> plan;
    if (!plan.template make<S>(given, false)) return no_memory;
    const int64_t outputs = given.channels / (given.bins_high * given.bins_wide);
    const Layout from = maps_layout(given), to = pooled_layout(given, outputs);
    fb::parallel_for(0, given.count, 1, given.nthreads, [&](int64_t begin, int64_t end) noexcept {
        for (int64_t k = begin; k < end; ++k) {
            const Region<T>& region = plan[k];
            for (int64_t c = 0; c < outputs; ++c)
                for (int64_t i = 0; i < given.bins_high; ++i)
                    for (int64_t j = 0; j < given.bins_wide; ++j) {
                        const int64_t channel = channel_of(given, c, i, j);
                        const S* map = maps + region.image * from.image + channel * from.channel;
                        const Bin rows = region.rows[i], columns = region.columns[j];
                        T sum = 0;
                        for (int32_t y = rows.begin; y < rows.end; ++y) {
                            const S* row = map + region.taps[y].at * from.row;
                            T line = 0;
                            for (int32_t x = columns.begin; x < columns.end; ++x)
                                line += region.taps[x].weight * widen(row[region.taps[x].at * from.column]);
                            sum += region.taps[y].weight * line;
                        }
                        const int64_t place =
                            region.place * to.image + c * to.channel + i * to.row + j * to.column;
                        pooled[place] = narrow<S>(sum);
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
    Plan<T> plan;
    if (!plan.template make<S>(given, false)) return no_memory;
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
            const Region<T>& region = plan[k];
            for (int64_t c = begin; c < end; ++c)
                for (int64_t i = 0; i < given.bins_high; ++i)
                    for (int64_t j = 0; j < given.bins_wide; ++j) {
                        T* map = sums + region.image * to.image + channel_of(given, c, i, j) * to.channel;
                        const Bin rows = region.rows[i], columns = region.columns[j];
                        const T value = widen(
                            grad[region.place * from.image + c * from.channel + i * from.row + j * from.column]);
                        for (int32_t y = rows.begin; y < rows.end; ++y)
                            for (int32_t x = columns.begin; x < columns.end; ++x)
                                map[region.taps[y].at * to.row + region.taps[x].at * to.column] +=
                                    region.taps[y].weight * region.taps[x].weight * value;
                    }
        }
    });
    round_sums(sums, maps, total);
    return done;
}

}  // namespace
}  // namespace vision

// int64_t fb_ps_roi_align_<dtype>(regions, maps, pooled, channels)
// int64_t fb_ps_roi_align_backward_<dtype>(regions, grad, maps)
//
// maps      images x channels x height x width; the second writes its gradient
// pooled    count x channels / bins x bins_high x bins_wide, as grad, its gradient
// channels  the channel of the maps that each bin reads; laid out as pooled
// returns   0, -1 when there is no memory, i + 1 when region i names an image that is not there
#define VISION_PS_ROI_ALIGN(dtype, Compute, Storage)                                                                  \
    FB_EXPORT int64_t fb_ps_roi_align_##dtype(const fb_regions* regions, const void* maps, void* pooled,              \
                                      void* channels) noexcept {                                                      \
        return vision::forward<Compute, Storage>(*regions, static_cast<const Storage*>(maps),                         \
                                                 static_cast<Storage*>(pooled), static_cast<int32_t*>(channels));     \
    }                                                                                                                 \
    FB_EXPORT int64_t fb_ps_roi_align_backward_##dtype(const fb_regions* regions, const void* grad,                   \
                                               void* maps) noexcept {                                                 \
        return vision::backward<Compute, Storage>(*regions, static_cast<const Storage*>(grad),                        \
                                                  static_cast<Storage*>(maps));                                       \
    }
VISION_PS_ROI_ALIGN(f32, float, float)
VISION_PS_ROI_ALIGN(f64, double, double)
VISION_PS_ROI_ALIGN(f16, float, vision::Half)
VISION_PS_ROI_ALIGN(bf16, float, vision::BFloat16)

namespace {

using Forward = int64_t (*)(const fb_regions*, const void*, void*, void*) noexcept;
using Backward = int64_t (*)(const fb_regions*, const void*, void*) noexcept;

void ps_roi_align(fb::Call& call, const fb::Tensor& input, const fb::Tensor& rois, double spatial_scale,
                  int64_t pooled_height, int64_t pooled_width, int64_t sampling_ratio) noexcept {
    static constexpr Forward kernels[] = {fb_ps_roi_align_f16, fb_ps_roi_align_bf16, fb_ps_roi_align_f32,
                                          fb_ps_roi_align_f64};
    const char* op = "ps_roi_align";
    vision::Pooling p =
        vision::pooling(call, op, input, rois, pooled_height, pooled_width, spatial_scale, sampling_ratio, true);
    if (!p.ready) return;
    const Forward kernel = kernels[vision::dtype_index(input.dtype)];
    p.settle(call, op, kernel(&p.regions, p.maps.data, p.pooled.data, p.extra.data), true);
}

void ps_roi_align_backward(fb::Call& call, const fb::Tensor& grad, const fb::Tensor& rois,
                           const fb::Tensor& channel_mapping, double spatial_scale, int64_t pooled_height,
                           int64_t pooled_width, int64_t sampling_ratio, int64_t batch_size, int64_t channels,
                           int64_t height, int64_t width) noexcept {
    static constexpr Backward kernels[] = {fb_ps_roi_align_backward_f16, fb_ps_roi_align_backward_bf16,
                                           fb_ps_roi_align_backward_f32, fb_ps_roi_align_backward_f64};
    const char* op = "_ps_roi_align_backward";
    vision::Pooling p = vision::pooling_backward(call, op, grad, rois, channel_mapping, pooled_height, pooled_width,
                                                 spatial_scale, sampling_ratio, {batch_size, channels, height, width},
                                                 true);
    if (!p.ready) return;
    const Backward kernel = kernels[vision::dtype_index(grad.dtype)];
    p.settle(call, op, kernel(&p.regions, p.pooled.data, p.maps.data), false);
}

FB_OPERATOR("ps_roi_align", ps_roi_align);
FB_OPERATOR("_ps_roi_align_backward", ps_roi_align_backward);

}  // namespace
