// What the four poolings of regions share: their arguments, and the checks of them.

#pragma once

#include <flambeau/kernel.h>

#include "numbers.h"
#include "workspace.h"

// Arguments of fb_{roi_align,roi_pool,ps_roi_align,ps_roi_pool}[_backward]_<dtype>, in the order that `_regions.py`
// declares them to ctypes.
struct fb_regions {
    const void* rois;       // count rows of image, x1, y1, x2, y2, contiguous, in the dtype of the maps
    int64_t count;
    int64_t images, channels, height, width;  // of the maps
    int64_t bins_high, bins_wide;
    int64_t sampling_ratio;
    double scale;           // maps' pixels per unit of the rois
    int32_t aligned;
    int32_t channels_last;  // layout of the maps: NHWC, else NCHW; without gaps
    int32_t pooled_last;    // layout of what is pooled from them
    int32_t nthreads;
};

namespace vision {

// What a kernel returns: done, no memory, or i + 1 where region i names an image that is not there.
constexpr int64_t done = 0;
constexpr int64_t no_memory = -1;

// The first region whose image is not there, or count.
template <typename S>
inline int64_t first_stray(const fb_regions& regions) noexcept {
    const S* rois = static_cast<const S*>(regions.rois);
    int64_t row = 0;
    for (; row < regions.count; ++row) {
        const auto image = widen(rois[5 * row]);
        if (!(image > -1 && image < regions.images)) break;  // NaN is none either
    }
    return row;
}

// Offsets of one element in maps of either layout.
struct Layout {
    int64_t image, channel, row, column;
    Layout(int64_t channels, int64_t height, int64_t width, bool channels_last) noexcept
        : image(channels * height * width),
          channel(channels_last ? 1 : height * width),
          row(channels_last ? width * channels : width),
          column(channels_last ? channels : 1) {}
};

inline Layout maps_layout(const fb_regions& given) noexcept {
    return Layout(given.channels, given.height, given.width, given.channels_last);
}
inline Layout pooled_layout(const fb_regions& given, int64_t channels) noexcept {
    return Layout(channels, given.bins_high, given.bins_wide, given.pooled_last);
}

// Where a gradient is summed: in place, or in float32 to be rounded once.
template <typename T, typename S>
inline T* sums_for(S* maps, Array<T>& memory, int64_t count) noexcept {
    T* sums = nullptr;
    if constexpr (std::is_same_v<T, S>)
        sums = maps;
    else
        sums = memory.make(count) ? memory.get() : nullptr;
    return sums;
}
template <typename T, typename S>
inline void round_sums(const T* sums, S* maps, int64_t count) noexcept {
    if constexpr (!std::is_same_v<T, S>)
        for (int64_t i = 0; i < count; ++i) maps[i] = narrow<S>(sums[i]);
}

// --- for the dispatcher -------------------------------------------------------------------------------------------

inline bool channels_last(const fb::Tensor& maps) noexcept {
    if (maps.dim != 4 || maps.contiguous()) return false;
    static constexpr int order[] = {1, 3, 2, 0};
    int64_t step = 1;
    for (const int axis : order) {
        if (maps.sizes[axis] != 1 && maps.strides[axis] != step) return false;
        step *= maps.sizes[axis];
    }
    return true;
}

// A new tensor of four dimensions in one of the two layouts.
inline fb::Tensor empty_maps(fb::Call& call, fb::DType dtype, int64_t images, int64_t channels, int64_t height,
                             int64_t width, bool last) noexcept {
    const auto least_one = [](int64_t size) noexcept { return size > 1 ? size : 1; };
    const int64_t sizes[] = {images, channels, height, width};
    const int64_t c = least_one(channels), h = least_one(height), w = least_one(width);
    const int64_t strides[] = {c * h * w, last ? 1 : h * w, last ? w * c : w, last ? c : 1};
    return call.empty(dtype, sizes, strides, 4);
}

// Where a dtype's kernel stands in lists in the order f16, bf16, f32, f64; -1 where there is none.
inline int dtype_index(fb::DType dtype) noexcept {
    switch (dtype) {
        case fb::DType::Float16: return 0;
        case fb::DType::BFloat16: return 1;
        case fb::DType::Float32: return 2;
        case fb::DType::Float64: return 3;
        default: return -1;
    }
}

// The same sentences as `check` in `flambeau/vision/ops/_roi_pooling.py`.
inline bool valid_regions(fb::Call& call, const char* op, const char* name, const fb::Tensor& maps,
                          const fb::Tensor& rois, int64_t bins_high, int64_t bins_wide) noexcept {
    if (maps.dim != 4)
        call.fail("%s: %s has shape %s, expected (N, C, H, W).", op, name, fb::Shape(maps).text);
    else if (dtype_index(maps.dtype) < 0)
        call.fail("%s: %s has dtype %s, expected float32, float64, float16 or bfloat16; convert it.", op, name,
                  fb::name(maps.dtype));
    else if (rois.dim != 2 || rois.sizes[1] != 5)
        call.fail("%s: boxes has shape %s, expected (K, 5): image, x1, y1, x2, y2.", op, fb::Shape(rois).text);
    else if (rois.dtype != maps.dtype)
        call.fail("%s: boxes has dtype %s, expected that of %s, %s; convert one of them.", op, fb::name(rois.dtype),
                  name, fb::name(maps.dtype));
    else if (bins_high < 1 || bins_wide < 1)
        call.fail("%s: output_size is (%lld, %lld), expected at least (1, 1).", op, static_cast<long long>(bins_high),
                  static_cast<long long>(bins_wide));
    else
        return true;
    return false;
}

inline bool valid_grad(fb::Call& call, const char* op, const fb::Tensor& grad, const int64_t (&sizes)[4]) noexcept {
    for (int axis = 0; axis < 4; ++axis)
        if (grad.sizes[axis] != sizes[axis]) {
            call.fail("%s: grad has shape %s, expected (%lld, %lld, %lld, %lld).", op, fb::Shape(grad).text,
                      static_cast<long long>(sizes[0]), static_cast<long long>(sizes[1]),
                      static_cast<long long>(sizes[2]), static_cast<long long>(sizes[3]));
            return false;
        }
    return true;
}

// Reports what a kernel returned; true when all went well.
inline bool settled(fb::Call& call, const char* op, const fb_regions& regions, int64_t status) noexcept {
    if (status == no_memory)
        call.fail("%s: no memory left for %lld boxes.", op, static_cast<long long>(regions.count));
    else if (status != done)
        call.fail("%s: row %lld of boxes names an image that is not there; input has %lld.", op,
                  static_cast<long long>(status - 1), static_cast<long long>(regions.images));
    return status == done;
}

inline fb_regions describe(const fb::Tensor& rois, int64_t images, int64_t channels, int64_t height, int64_t width,
                           int64_t bins_high, int64_t bins_wide, double scale, int64_t sampling_ratio, bool aligned,
                           bool last, bool pooled_last) noexcept {
    const int64_t count = rois.sizes[0];
    const int32_t nthreads = fb::threads(count * channels * bins_high * bins_wide * 8);
    return {rois.data, count, images, channels, height, width, bins_high, bins_wide, sampling_ratio, scale, aligned,
            last, pooled_last, nthreads};
}

}  // namespace vision
