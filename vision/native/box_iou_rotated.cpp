// Intersection over union of rotated boxes, all pairs, in double precision.
//
// Seen from the second box, that box is [-a, a] x [-b, b]. The part of the first box inside has the area
//
//     integral over x in [-a, a] of (clamp(top(x), -b, b) - clamp(bottom(x), -b, b)),
//
// and walking once around the first box, each edge adds its own integral. `flambeau/vision/ops/_rotated_iou.py` says
// more; its arithmetic is this.

#include <flambeau/kernel.h>
#include <math.h>

#include "numbers.h"
#include "workspace.h"

namespace vision {
namespace {

struct Box {
    double x, y, half_width, half_height, cos, sin;
    double corner_x[4], corner_y[4];
    double area;
};

// `values` are centre x, centre y, width, height, degrees counter-clockwise (y points down).
template <typename S>
Box box_from(const S* values, int64_t stride) noexcept {
    constexpr double radian = 0.017453292519943295;
    const double width = widen(values[2 * stride]), height = widen(values[3 * stride]);
    const double angle = double(widen(values[4 * stride])) * radian;
    Box box;
    box.x = widen(values[0]);
    box.y = widen(values[stride]);
    box.half_width = width / 2;
    box.half_height = height / 2;
    box.cos = cos(angle);
    box.sin = sin(angle);
    box.area = width * height;
    static constexpr double across[] = {-1, 1, 1, -1}, along[] = {-1, -1, 1, 1};
    for (int i = 0; i < 4; ++i) {
        const double right = across[i] * box.half_width, down = along[i] * box.half_height;
        box.corner_x[i] = box.x + right * box.cos + down * box.sin;
        box.corner_y[i] = box.y - right * box.sin + down * box.cos;
    }
    return box;
}

inline double clamp(double value, double limit) noexcept {
    return value < -limit ? -limit : value > limit ? limit : value;  // NaN stays
}

// Mean of clamp(y, -limit, limit) while y goes from start to end in a straight line.
inline double mean_of_clamped_line(double start, double end, double limit) noexcept {
    const double low = start < end ? start : end, high = start < end ? end : start, length = high - low;
    if (!(length > 0)) return clamp(low, limit);
    double below = -limit - low, above = high - limit;
    below = below < 0 ? 0 : below > length ? length : below;
    above = above < 0 ? 0 : above > length ? length : above;
    const double inside = (clamp(low, limit) + clamp(high, limit)) / 2;
    return ((length - below - above) * inside + (above - below) * limit) / length;
}

double intersection(const Box& first, const Box& second) noexcept {
    double x[4], y[4];
    for (int i = 0; i < 4; ++i) {
        const double right = first.corner_x[i] - second.x, down = first.corner_y[i] - second.y;
        x[i] = right * second.cos - down * second.sin;
        y[i] = right * second.sin + down * second.cos;
    }
    double sum = 0;
    for (int i = 0; i < 4; ++i) {
        const int next = (i + 1) % 4;
        const double run = x[next] - x[i], slope = (y[next] - y[i]) / (run != 0 ? run : 1.0);
        const double from = clamp(x[i], second.half_width), to = clamp(x[next], second.half_width);
        sum += (to - from) * mean_of_clamped_line(y[i] + (from - x[i]) * slope, y[i] + (to - x[i]) * slope,
                                                  second.half_height);
    }
    return fabs(sum);
}

template <typename S>
int64_t run(const S* boxes1, const int64_t* strides1, int64_t count1, const S* boxes2, const int64_t* strides2,
            int64_t count2, S* ious, int32_t nthreads) noexcept {
    Array<Box> second;
    if (!second.make(count2)) return -1;
    for (int64_t j = 0; j < count2; ++j) second[j] = box_from(boxes2 + j * strides2[0], strides2[1]);
    fb::parallel_for(0, count1, fb::serial_below / (64 * count2 + 1) + 1, nthreads,
                     [&](int64_t begin, int64_t end) noexcept {
                         for (int64_t i = begin; i < end; ++i) {
                             const Box first = box_from(boxes1 + i * strides1[0], strides1[1]);
                             for (int64_t j = 0; j < count2; ++j) {
                                 double iou = 0;
                                 if (first.area > 0 && second[j].area > 0) {
                                     const double both = intersection(first, second[j]);
                                     iou = both / (first.area + second[j].area - both);
                                     iou = iou < 0 ? 0 : iou > 1 ? 1 : iou;
                                 }
                                 if constexpr (std::is_same_v<S, double>)
                                     ious[i * count2 + j] = iou;
                                 else
                                     ious[i * count2 + j] = narrow<S>(float(iou));
                             }
                         }
                     });
    return 0;
}

}  // namespace
}  // namespace vision

// int64_t fb_box_iou_rotated_<dtype>(boxes1, strides1, count1, boxes2, strides2, count2, ious, nthreads)
//
// boxes     count rows of centre x, centre y, width, height, degrees; element (i, j) at i * strides[0] + j * strides[1]
// ious      count1 x count2, without gaps
// returns   0, or -1 when there is no memory
#define VISION_BOX_IOU_ROTATED(dtype, Storage)                                                                       \
    FB_EXPORT int64_t fb_box_iou_rotated_##dtype(const void* boxes1, const int64_t* strides1, int64_t count1,        \
                                                 const void* boxes2, const int64_t* strides2, int64_t count2,        \
                                                 void* ious, int32_t nthreads) noexcept {                            \
        return vision::run<Storage>(static_cast<const Storage*>(boxes1), strides1, count1,                           \
                                    static_cast<const Storage*>(boxes2), strides2, count2,                           \
                                    static_cast<Storage*>(ious), nthreads);                                          \
    }
VISION_BOX_IOU_ROTATED(f32, float)
VISION_BOX_IOU_ROTATED(f64, double)
VISION_BOX_IOU_ROTATED(f16, vision::Half)
VISION_BOX_IOU_ROTATED(bf16, vision::BFloat16)

namespace {

using Kernel = int64_t (*)(const void*, const int64_t*, int64_t, const void*, const int64_t*, int64_t, void*,
                           int32_t) noexcept;

Kernel kernel_for(fb::DType dtype) noexcept {
    switch (dtype) {
        case fb::DType::Float32: return fb_box_iou_rotated_f32;
        case fb::DType::Float64: return fb_box_iou_rotated_f64;
        case fb::DType::Float16: return fb_box_iou_rotated_f16;
        case fb::DType::BFloat16: return fb_box_iou_rotated_bf16;
        default: return nullptr;
    }
}

// The same sentences as `check` in `flambeau/vision/ops/box_iou_rotated.py`.
bool valid(fb::Call& call, const char* name, const fb::Tensor& boxes) noexcept {
    if (boxes.dim != 2 || boxes.sizes[1] != 5)
        call.fail("box_iou_rotated: %s has shape %s, expected (N, 5): centre, width, height, degrees.", name,
                  fb::Shape(boxes).text);
    else if (!kernel_for(boxes.dtype))
        call.fail("box_iou_rotated: %s has dtype %s, expected float32, float64, float16 or bfloat16; convert it.", name,
                  fb::name(boxes.dtype));
    else
        return true;
    return false;
}

void box_iou_rotated(fb::Call& call, const fb::Tensor& boxes1, const fb::Tensor& boxes2) noexcept {
    if (!valid(call, "boxes1", boxes1) || !valid(call, "boxes2", boxes2)) return;
    if (boxes1.dtype != boxes2.dtype)
        return call.fail("box_iou_rotated: boxes2 has dtype %s, expected that of boxes1, %s; convert one of them.",
                         fb::name(boxes2.dtype), fb::name(boxes1.dtype));
    const int64_t count1 = boxes1.sizes[0], count2 = boxes2.sizes[0];
    fb::Tensor ious = call.empty(boxes1.dtype, {count1, count2});
    if (!ious.defined()) return;
    const int64_t status = kernel_for(boxes1.dtype)(boxes1.data, boxes1.strides, count1, boxes2.data, boxes2.strides,
                                                    count2, ious.data, fb::threads(count1 * count2 * 64));
    if (status != 0)
        return call.fail("box_iou_rotated: no memory left for %lld boxes.", static_cast<long long>(count2));
    call.give(ious);
}

FB_OPERATOR("box_iou_rotated", box_iou_rotated);

}  // namespace
