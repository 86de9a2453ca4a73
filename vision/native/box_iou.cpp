// Intersection over union of boxes along the axes, all pairs, in the precision of the boxes.
//
// A pair costs two minima, two maxima, a product and a division; written as tensor operations, it would be some ten
// matrices of all pairs that go through memory. The second boxes are kept as five rows (x1, y1, x2, y2, area), so that
// the inner loop runs over neighbours.

#include <flambeau/kernel.h>

#include "workspace.h"

namespace vision {
namespace {

template <class T>
inline T larger(T a, T b) noexcept {
    return a > b ? a : b;
}

template <class T>
inline T smaller(T a, T b) noexcept {
    return a < b ? a : b;
}

template <class T>
void row(T x1, T y1, T x2, T y2, const T* __restrict second, int64_t count, T* __restrict ious) noexcept {
    const T *__restrict left = second, *__restrict top = second + count, *__restrict right = second + 2 * count,
                        *__restrict bottom = second + 3 * count, *__restrict areas = second + 4 * count;
    const T area = (x2 - x1) * (y2 - y1);
    for (int64_t j = 0; j < count; ++j) {
        const T width = larger(smaller(x2, right[j]) - larger(x1, left[j]), T(0));
        const T height = larger(smaller(y2, bottom[j]) - larger(y1, top[j]), T(0));
        const T both = width * height;
        // No area in common and none in either is 0 / 0: not a number, as are boxes that hold it.
        ious[j] = both / (area + areas[j] - both);
    }
}

template <class T>
int64_t run(const T* boxes1, const int64_t* strides1, int64_t count1, const T* boxes2, const int64_t* strides2,
            int64_t count2, T* ious, int32_t nthreads) noexcept {
    Array<T> second;
    if (!second.make(5 * count2)) return -1;
    for (int64_t j = 0; j < count2; ++j) {
        const T* box = boxes2 + j * strides2[0];
        for (int64_t side = 0; side < 4; ++side) second[side * count2 + j] = box[side * strides2[1]];
        second[4 * count2 + j] =
            (second[2 * count2 + j] - second[j]) * (second[3 * count2 + j] - second[count2 + j]);
    }
    fb::parallel_for(0, count1, fb::serial_below / (4 * count2 + 1) + 1, nthreads,
                     [&](int64_t begin, int64_t end) noexcept {
                         for (int64_t i = begin; i < end; ++i) {
                             const T* box = boxes1 + i * strides1[0];
                             const int64_t step = strides1[1];
                             row(box[0], box[step], box[2 * step], box[3 * step], &second[0], count2,
                                 ious + i * count2);
                         }
                     });
    return 0;
}

}  // namespace
}  // namespace vision

// int64_t fb_box_iou_<dtype>(boxes1, strides1, count1, boxes2, strides2, count2, ious, nthreads)
//
// boxes     count rows of x1, y1, x2, y2; element (i, j) at i * strides[0] + j * strides[1]
// ious      count1 x count2, without gaps
// returns   0, or -1 when there is no memory
#define VISION_BOX_IOU(dtype, T)                                                                                     \
    FB_EXPORT int64_t fb_box_iou_##dtype(const void* boxes1, const int64_t* strides1, int64_t count1,                \
                                         const void* boxes2, const int64_t* strides2, int64_t count2, void* ious,    \
                                         int32_t nthreads) noexcept {                                                \
        return vision::run<T>(static_cast<const T*>(boxes1), strides1, count1, static_cast<const T*>(boxes2),        \
                              strides2, count2, static_cast<T*>(ious), nthreads);                                    \
    }
VISION_BOX_IOU(f32, float)
VISION_BOX_IOU(f64, double)

namespace {

// The same sentences as `check` in `flambeau/vision/ops/_box_iou.py`.
bool valid(fb::Call& call, const char* name, const fb::Tensor& boxes) noexcept {
    if (boxes.dim != 2 || boxes.sizes[1] != 4)
        call.fail("box_iou: %s has shape %s, expected (N, 4): x1, y1, x2, y2.", name, fb::Shape(boxes).text);
    else if (boxes.dtype != fb::DType::Float32 && boxes.dtype != fb::DType::Float64)
        call.fail("box_iou: %s has dtype %s, expected float32 or float64; convert it.", name, fb::name(boxes.dtype));
    else
        return true;
    return false;
}

void box_iou(fb::Call& call, const fb::Tensor& boxes1, const fb::Tensor& boxes2) noexcept {
    if (!valid(call, "boxes1", boxes1) || !valid(call, "boxes2", boxes2)) return;
    if (boxes1.dtype != boxes2.dtype)
        return call.fail("box_iou: boxes2 has dtype %s, expected that of boxes1, %s; convert one of them.",
                         fb::name(boxes2.dtype), fb::name(boxes1.dtype));
    const int64_t count1 = boxes1.sizes[0], count2 = boxes2.sizes[0];
    fb::Tensor ious = call.empty(boxes1.dtype, {count1, count2});
    if (!ious.defined()) return;
    const auto kernel = boxes1.dtype == fb::DType::Float32 ? fb_box_iou_f32 : fb_box_iou_f64;
    if (kernel(boxes1.data, boxes1.strides, count1, boxes2.data, boxes2.strides, count2, ious.data,
               fb::threads(count1 * count2 * 4)) != 0)
        return call.fail("box_iou: no memory left for %lld boxes.", static_cast<long long>(count2));
    call.give(ious);
}

FB_OPERATOR("_box_iou", box_iou);

}  // namespace
