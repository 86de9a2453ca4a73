// Non-maximum suppression: of boxes that overlap too much, the one with the best score stays.
//
// Boxes are visited from the best score down; one is kept unless an already kept box of its class covers it, that is
// unless intersection / union > threshold. Candidates are tested in blocks: first, in parallel, against all boxes kept
// before the block, then one after the other against those kept within it. The answer does not depend on the number of
// threads. Arithmetic and its order are those of the torch reference in `flambeau.vision.ops.nms`, so the bits agree.

#include <flambeau/kernel.h>
#include <stdlib.h>

#include "numbers.h"
#include "order.h"

namespace vision {
namespace {

constexpr int64_t block_size = 256;
constexpr int64_t out_of_memory = -1;

// Boxes as one array per coordinate, which vector instructions want.
template <typename T>
struct Columns {
    T *x1, *y1, *x2, *y2, *area;

    Columns(T* memory, int64_t count) noexcept
        : x1(memory), y1(x1 + count), x2(y1 + count), y2(x2 + count), area(y2 + count) {}
    void copy(int64_t to, const Columns& other, int64_t from) noexcept {
        x1[to] = other.x1[from];
        y1[to] = other.y1[from];
        x2[to] = other.x2[from];
        y2[to] = other.y2[from];
        area[to] = other.area[from];
    }
};

template <typename T>
FB_INLINE T larger(T a, T b) noexcept {
    return a > b ? a : b;
}
template <typename T>
FB_INLINE T smaller(T a, T b) noexcept {
    return a < b ? a : b;
}

// Whether one of kept[begin, end) covers box `index` of `boxes`. `Hit` is an integer as wide as T, so that vector lanes
// of the two match. A NaN coordinate makes the area NaN and with it the quotient: such a box covers nothing.
template <typename T, typename Hit>
FB_INLINE bool covered_by(const Columns<T>& kept, int64_t begin, int64_t end, const Columns<T>& boxes, int64_t index,
                          T limit) noexcept {
    constexpr int64_t chunk = 128;  // long enough for the vector loop, short enough to leave early
    const T x1 = boxes.x1[index], y1 = boxes.y1[index], x2 = boxes.x2[index], y2 = boxes.y2[index];
    const T area = boxes.area[index];
    while (begin < end) {
        const int64_t stop = smaller(begin + chunk, end);
        Hit hit = 0;
        for (int64_t i = begin; i < stop; ++i) {
            const T width = larger(smaller(kept.x2[i], x2) - larger(kept.x1[i], x1), T(0));
            const T height = larger(smaller(kept.y2[i], y2) - larger(kept.y1[i], y1), T(0));
            const T both = width * height;
            hit |= both / (kept.area[i] + area - both) > limit ? 1 : 0;
        }
        if (hit) return true;
        begin = stop;
    }
    return false;
}

FB_CLONES bool covered(const Columns<float>& kept, int64_t begin, int64_t end, const Columns<float>& boxes,
                       int64_t index, float limit) noexcept {
    return covered_by<float, int32_t>(kept, begin, end, boxes, index, limit);
}
FB_CLONES bool covered(const Columns<double>& kept, int64_t begin, int64_t end, const Columns<double>& boxes,
                       int64_t index, double limit) noexcept {
    return covered_by<double, int64_t>(kept, begin, end, boxes, index, limit);
}

// Suppression among boxes[begin, end), which are of one class and sorted. Marks those that stay.
template <typename T>
void suppress(const Columns<T>& boxes, int64_t begin, int64_t end, T limit, Columns<T>& kept, bool* stays,
              int32_t nthreads) noexcept {
    int64_t count = 0;
    for (int64_t start = begin; start < end; start += block_size) {
        const int64_t stop = smaller(start + block_size, end), before = count;
        const int64_t grain = fb::serial_below / (before + 1) + 1;
        fb::parallel_for(start, stop, grain, nthreads, [&](int64_t from, int64_t to) noexcept {
            for (int64_t i = from; i < to; ++i) stays[i] = !covered(kept, 0, before, boxes, i, limit);
        });
        for (int64_t i = start; i < stop; ++i) {
            if (!stays[i]) continue;
            stays[i] = !covered(kept, before, count, boxes, i, limit);
            if (stays[i]) kept.copy(count++, boxes, i);
        }
    }
}

// Memory for one call, cut into arrays; freed at its end.
class Workspace {
  public:
    explicit Workspace(size_t bytes) noexcept : memory_(static_cast<char*>(malloc(bytes))), next_(memory_) {}
    ~Workspace() { free(memory_); }
    Workspace(const Workspace&) = delete;
    Workspace& operator=(const Workspace&) = delete;
    explicit operator bool() const noexcept { return memory_ != nullptr; }
    template <typename T>
    T* take(int64_t count) noexcept {
        T* array = reinterpret_cast<T*>(next_);
        next_ += size_t(count) * sizeof(T);
        return array;
    }

  private:
    char* memory_;
    char* next_;
};

template <typename S>
struct Input {
    const S* boxes;  // x1, y1, x2, y2
    int64_t row_stride, column_stride;
    const S* scores;
    int64_t score_stride;
    const int64_t* classes;  // null: all boxes are of one class
    int64_t class_stride;
    int64_t count;
};

// Writes the indices of the boxes that stay, best score first, and returns how many.
template <typename T, typename S>
int64_t run(const Input<S>& input, double threshold, int64_t* keep, int32_t nthreads) noexcept {
    const int64_t count = input.count;
    if (count <= 0) return 0;
    Workspace space(size_t(count) * (3 * sizeof(Keyed) + 10 * sizeof(T) + 2 * sizeof(bool)));
    if (!space) return out_of_memory;
    Keyed* rows = space.take<Keyed>(count);
    Keyed* spare = space.take<Keyed>(count);
    Keyed* groups = space.take<Keyed>(count);
    Columns<T> boxes(space.take<T>(5 * count), count), kept(space.take<T>(5 * count), count);
    bool* stays = space.take<bool>(count);
    bool* chosen = space.take<bool>(count);

    for (int64_t i = 0; i < count; ++i) rows[i] = {descending_key(widen(input.scores[i * input.score_stride])), i};
    Keyed* sorted = sort_stable(rows, spare, count);
    if (sorted == spare) std::swap(rows, spare);

    // Boxes of one class become neighbours, still best first; `groups` holds their places in `sorted`.
    for (int64_t i = 0; i < count; ++i)
        groups[i] = {input.classes ? uint64_t(input.classes[sorted[i].item * input.class_stride]) : 0, i};
    Keyed* grouped = input.classes ? sort_stable(groups, spare, count) : groups;

    for (int64_t i = 0; i < count; ++i) {
        const S* box = input.boxes + sorted[grouped[i].item].item * input.row_stride;
        const T x1 = widen(box[0]), y1 = widen(box[input.column_stride]);
        const T x2 = widen(box[2 * input.column_stride]), y2 = widen(box[3 * input.column_stride]);
        boxes.x1[i] = x1;
        boxes.y1[i] = y1;
        boxes.x2[i] = x2;
        boxes.y2[i] = y2;
        boxes.area[i] = (x2 - x1) * (y2 - y1);
    }
    for (int64_t begin = 0, end; begin < count; begin = end) {
        for (end = begin + 1; end < count && grouped[end].key == grouped[begin].key; ++end) {
        }
        suppress(boxes, begin, end, floor_to<T>(threshold), kept, stays, nthreads);
    }

    for (int64_t i = 0; i < count; ++i) chosen[grouped[i].item] = stays[i];
    int64_t written = 0;
    for (int64_t i = 0; i < count; ++i)
        if (chosen[i]) keep[written++] = sorted[i].item;
    return written;
}

}  // namespace
}  // namespace vision

// int64_t fb_nms_<dtype>(boxes, row_stride, column_stride, scores, score_stride, classes, class_stride, count,
//                        threshold, keep, nthreads)
//
// boxes      count rows of x1, y1, x2, y2; element (i, j) at i * row_stride + j * column_stride
// scores     count values, at i * score_stride
// classes    count values, at i * class_stride; null when all boxes are of one class
// keep       room for count indices; receives those of the boxes that stay, best score first
// returns    how many were written, or -1 when there is no memory
#define VISION_NMS(dtype, Compute, Storage)                                                                       \
    FB_EXPORT int64_t fb_nms_##dtype(const void* boxes, int64_t row_stride, int64_t column_stride,                \
                                     const void* scores, int64_t score_stride, const int64_t* classes,            \
                                     int64_t class_stride, int64_t count, double threshold, int64_t* keep,        \
                                     int32_t nthreads) noexcept {                                                 \
        const vision::Input<Storage> input{static_cast<const Storage*>(boxes),  row_stride, column_stride,        \
                                           static_cast<const Storage*>(scores), score_stride, classes,            \
                                           class_stride, count};                                                  \
        return vision::run<Compute, Storage>(input, threshold, keep, nthreads);                                   \
    }
VISION_NMS(f32, float, float)
VISION_NMS(f64, double, double)
VISION_NMS(f16, float, vision::Half)
VISION_NMS(bf16, float, vision::BFloat16)

namespace {

using Kernel = int64_t (*)(const void*, int64_t, int64_t, const void*, int64_t, const int64_t*, int64_t, int64_t, double,
                           int64_t*, int32_t) noexcept;

Kernel kernel_for(fb::DType dtype) noexcept {
    switch (dtype) {
        case fb::DType::Float32: return fb_nms_f32;
        case fb::DType::Float64: return fb_nms_f64;
        case fb::DType::Float16: return fb_nms_f16;
        case fb::DType::BFloat16: return fb_nms_bf16;
        default: return nullptr;
    }
}

// The same sentences as `check` in `flambeau/vision/ops/nms.py`.
bool valid(fb::Call& call, const char* op, const fb::Tensor& boxes, const fb::Tensor& scores) noexcept {
    if (boxes.dim != 2 || boxes.sizes[1] != 4)
        call.fail("%s: boxes has shape %s, expected (N, 4): corners x1, y1, x2, y2.", op, fb::Shape(boxes).text);
    else if (scores.dim != 1 || scores.sizes[0] != boxes.sizes[0])
        call.fail("%s: scores has shape %s, expected (%lld,): one for each row of boxes.", op, fb::Shape(scores).text,
                  static_cast<long long>(boxes.sizes[0]));
    else if (!kernel_for(boxes.dtype))
        call.fail("%s: boxes has dtype %s, expected float32, float64, float16 or bfloat16; convert it.", op,
                  fb::name(boxes.dtype));
    else if (scores.dtype != boxes.dtype)
        call.fail("%s: scores has dtype %s, expected that of boxes, %s; convert one of them.", op,
                  fb::name(scores.dtype), fb::name(boxes.dtype));
    else
        return true;
    return false;
}

void select(fb::Call& call, const char* op, const fb::Tensor& boxes, const fb::Tensor& scores,
            const fb::Tensor* classes, double threshold) noexcept {
    const int64_t count = boxes.sizes[0];
    int64_t few[64];
    int64_t* keep = count <= 64 ? few : static_cast<int64_t*>(malloc(size_t(count) * sizeof(int64_t)));
    const int64_t kept =
        !keep ? vision::out_of_memory
              : kernel_for(boxes.dtype)(boxes.data, boxes.strides[0], boxes.strides[1], scores.data, scores.strides[0],
                                        classes ? classes->as<int64_t>() : nullptr, classes ? classes->strides[0] : 0,
                                        count, threshold, keep, fb::threads(count * count / 2));
    if (kept < 0) {
        call.fail("%s: no memory left for %lld boxes.", op, static_cast<long long>(count));
    } else {
        fb::Tensor result = call.empty(fb::DType::Int64, {kept});
        if (result.defined()) {
            if (kept) memcpy(result.data, keep, size_t(kept) * sizeof(int64_t));
            call.give(result);
        }
    }
    if (keep != few) free(keep);
}

void nms(fb::Call& call, const fb::Tensor& boxes, const fb::Tensor& scores, double iou_threshold) noexcept {
    if (valid(call, "nms", boxes, scores)) select(call, "nms", boxes, scores, nullptr, iou_threshold);
}

void batched_nms(fb::Call& call, const fb::Tensor& boxes, const fb::Tensor& scores, const fb::Tensor& idxs,
                 double iou_threshold) noexcept {
    if (!valid(call, "batched_nms", boxes, scores)) return;
    if (idxs.dim != 1 || idxs.sizes[0] != boxes.sizes[0])
        return call.fail("batched_nms: idxs has shape %s, expected (%lld,): one class for each row of boxes.",
                         fb::Shape(idxs).text, static_cast<long long>(boxes.sizes[0]));
    if (idxs.dtype != fb::DType::Int64)
        return call.fail("batched_nms: idxs has dtype %s, expected int64; convert it.", fb::name(idxs.dtype));
    select(call, "batched_nms", boxes, scores, &idxs, iou_threshold);
}

FB_OPERATOR("nms", nms);
FB_OPERATOR("batched_nms", batched_nms);

}  // namespace
