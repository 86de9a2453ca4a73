// Small masks of boxes, enlarged into pictures: as probabilities, or as the run lengths of what is above a threshold.
//
// Enlarging is bilinear with half-pixel centres, as torch's `interpolate` without aligned corners: float32, coordinates
// and weights in the same order of operations. Only the part of a box that lies in the picture is computed. A row of a
// mask is stretched once for all the picture's rows between it and the next.

#include <flambeau/kernel.h>
#include <stdlib.h>

#include "workspace.h"

namespace vision {
namespace {

constexpr int64_t done = 0;
constexpr int64_t no_memory = -1;

inline int64_t larger(int64_t a, int64_t b) noexcept { return a > b ? a : b; }
inline int64_t smaller(int64_t a, int64_t b) noexcept { return a < b ? a : b; }

// One direction: `extent` places from `first` on are made of `side`; those in [begin, end) are in the picture.
struct Span {
    int64_t first, extent, begin, end, side;

    Span(int64_t low, int64_t high, int64_t side, int64_t size) noexcept : side(side) {
        constexpr int64_t far = int64_t(1) << 40;  // what was no number or infinite is out of sight, not out of range
        low = larger(smaller(low, far), -far);
        high = larger(smaller(high, far), -far);
        first = low;
        extent = larger(high - low + 1, 1);
        begin = smaller(larger(low, 0), size);
        end = larger(smaller(high + 1, size), begin);
    }
    int64_t count() const noexcept { return end - begin; }
    // Which two of `side` a place lies between, and the part of the second.
    float source(int64_t place, int64_t& low, int64_t& high) const noexcept {
        const float scale = float(side) / float(extent);
        const float at = scale * (float(place - first) + 0.5f) - 0.5f, inside = at < 0 ? 0 : at;
        low = smaller(int64_t(inside), side - 1);
        high = low < side - 1 ? low + 1 : low;
        const float part = inside - float(low);
        return part > 1 ? 1 : part;
    }
};

FB_CLONES void blend(const float* above, const float* below, float part, int64_t count, float* line) noexcept {
    const float rest = 1 - part;
    for (int64_t x = 0; x < count; ++x) line[x] = rest * above[x] + part * below[x];
}

// A mask being stretched over its columns.
class Stretched {
  public:
    bool make(int64_t width) noexcept {
        return low_.make(width) && high_.make(width) && part_.make(width) && lines_.make(2 * width);
    }
    void begin(const float* mask, const Span& columns) noexcept {
        mask_ = mask;
        side_ = columns.side;
        count_ = columns.count();
        kept_[0] = kept_[1] = -1;
        for (int64_t x = 0; x < count_; ++x) {
            int64_t low, high;
            part_[x] = columns.source(columns.begin + x, low, high);
            low_[x] = int32_t(low);
            high_[x] = int32_t(high);
        }
    }
    // Row `row` of the mask; of two rows that follow each other both stay valid.
    const float* line(int64_t row) noexcept {
        float* line = lines_.get() + (row & 1) * count_;
        if (kept_[row & 1] != row) {
            const float* from = mask_ + row * side_;
            for (int64_t x = 0; x < count_; ++x)
                line[x] = (1 - part_[x]) * from[low_[x]] + part_[x] * from[high_[x]];
            kept_[row & 1] = row;
        }
        return line;
    }

  private:
    const float* mask_ = nullptr;
    int64_t side_ = 0, count_ = 0, kept_[2] = {-1, -1};
    Array<int32_t> low_, high_;
    Array<float> part_, lines_;
};

int64_t paste(const float* masks, const int64_t* boxes, int64_t count, int64_t side, int64_t height, int64_t width,
              float* pictures, int32_t nthreads) noexcept {
    bool failed = false;
    fb::parallel_for(0, count, 1, nthreads, [&](int64_t from, int64_t to) noexcept {
        Stretched mask;
        if (!mask.make(width)) {
            failed = true;  // whoever writes it writes the same
            return;
        }
        for (int64_t n = from; n < to; ++n) {
            const int64_t* box = boxes + 4 * n;
            const Span rows(box[1], box[3], side, height), columns(box[0], box[2], side, width);
            float* picture = pictures + n * height * width;
            if (rows.count() == 0 || columns.count() == 0) {
                memset(picture, 0, size_t(height * width) * sizeof(float));
                continue;
            }
            mask.begin(masks + n * side * side, columns);
            memset(picture, 0, size_t(rows.begin * width + columns.begin) * sizeof(float));
            for (int64_t y = rows.begin; y < rows.end; ++y) {
                int64_t low, high;
                const float part = rows.source(y, low, high);
                const float* above = mask.line(low);
                float* line = picture + y * width;
                blend(above, mask.line(high), part, columns.count(), line + columns.begin);
                // What follows, up to the next row's part or the picture's end.
                const int64_t next = y + 1 < rows.end ? width + columns.begin : (height - y) * width;
                memset(line + columns.end, 0, size_t(next - columns.end) * sizeof(float));
            }
        }
    });
    return failed ? no_memory : done;
}

// Bytes that grow.
struct Codes {
    uint8_t* bytes = nullptr;
    int64_t used = 0, room = 0;
    ~Codes() { free(bytes); }
    bool reserve(int64_t more) noexcept {
        if (used + more <= room) return true;
        const int64_t wanted = 2 * (used + more) + 256;
        void* larger_one = realloc(bytes, size_t(wanted));
        if (!larger_one) return false;
        bytes = static_cast<uint8_t*>(larger_one);
        room = wanted;
        return true;
    }
};

// Run lengths as text, as COCO's tools write them: from the fourth on, the difference to the length two before; five bits
// to a character, least significant first, with a sixth that says whether more follow; the last one carries the sign.
class Runs {
  public:
    explicit Runs(Codes& codes) noexcept : codes_(codes) {}
    bool add(int64_t length) noexcept {
        if (!codes_.reserve(16)) return false;
        int64_t value = length - (number_ > 2 ? before_[number_ & 1] : 0);
        before_[number_ & 1] = length;
        ++number_;
        for (bool more = true; more;) {
            const int64_t bits = value & 31;
            value >>= 5;
            more = bits & 16 ? value != -1 : value != 0;
            codes_.bytes[codes_.used++] = uint8_t(48 + bits + (more ? 32 : 0));
        }
        return true;
    }

  private:
    Codes& codes_;
    int64_t number_ = 0, before_[2] = {0, 0};
};

int64_t encode(const float* masks, const int64_t* boxes, int64_t count, int64_t side, int64_t height, int64_t width,
               float threshold, Codes& codes, int64_t* ends) noexcept {
    Stretched mask;
    Array<float> line;
    Array<uint8_t> above;  // [column][row] of the part in the picture: whether it is above the threshold
    if (!mask.make(width) || !line.make(width) || !above.make(height * width)) return no_memory;
    for (int64_t n = 0; n < count; ++n) {
        const int64_t* box = boxes + 4 * n;
        const Span rows(box[1], box[3], side, height), columns(box[0], box[2], side, width);
        const int64_t high = rows.count(), wide = columns.count();
        if (high && wide) mask.begin(masks + n * side * side, columns);
        for (int64_t y = 0; y < high && wide; ++y) {
            int64_t first, second;
            const float part = rows.source(rows.begin + y, first, second);
            const float* upper = mask.line(first);
            blend(upper, mask.line(second), part, wide, line.get());
            for (int64_t x = 0; x < wide; ++x) above[x * high + y] = line[x] > threshold;
        }
        Runs runs(codes);
        int64_t start = 0;
        bool set = false;
        for (int64_t x = 0; x < wide; ++x) {
            const int64_t column = (columns.begin + x) * height;
            const auto change = [&](int64_t place, bool now) noexcept {
                if (now == set) return true;
                const bool added = runs.add(place - start);
                start = place;
                set = now;
                return added;
            };
            for (int64_t y = 0; y < high; ++y)
                if (!change(column + rows.begin + y, above[x * high + y])) return no_memory;
            // Below the box, and above it in the next column, there is nothing.
            if ((rows.end < height || rows.begin > 0 || x + 1 == wide) && !change(column + rows.end, false))
                return no_memory;
        }
        if (!(start == height * width && start > 0) && !runs.add(height * width - start)) return no_memory;
        ends[n] = codes.used;
    }
    return done;
}

}  // namespace
}  // namespace vision

// int64_t fb_paste_masks_f32(masks, boxes, count, side, height, width, pictures, nthreads) -> 0, or -1: no memory
//
// masks      count x side x side
// boxes      count rows of x1, y1, x2, y2: the first and last column and row that a mask covers
// pictures   count x height x width
FB_EXPORT int64_t fb_paste_masks_f32(const float* masks, const int64_t* boxes, int64_t count, int64_t side,
                                     int64_t height, int64_t width, float* pictures, int32_t nthreads) noexcept {
    return vision::paste(masks, boxes, count, side, height, width, pictures, nthreads);
}

namespace {

// The same sentences as `_check` in `flambeau/vision/ops/_masks.py`.
bool valid(fb::Call& call, const char* op, const fb::Tensor& masks, const fb::Tensor& boxes, int64_t height,
           int64_t width) noexcept {
    if (masks.dim != 4 || masks.sizes[1] != 1 || masks.sizes[2] != masks.sizes[3] || masks.sizes[2] < 1)
        call.fail("%s: masks has shape %s, expected (N, 1, M, M).", op, fb::Shape(masks).text);
    else if (masks.dtype != fb::DType::Float32)
        call.fail("%s: masks has dtype %s, expected torch.float32; convert it.", op, fb::name(masks.dtype));
    else if (boxes.dim != 2 || boxes.sizes[0] != masks.sizes[0] || boxes.sizes[1] != 4)
        call.fail("%s: boxes has shape %s, expected (%lld, 4): one for each mask.", op, fb::Shape(boxes).text,
                  static_cast<long long>(masks.sizes[0]));
    else if (boxes.dtype != fb::DType::Int64)
        call.fail("%s: boxes has dtype %s, expected torch.int64; convert it.", op, fb::name(boxes.dtype));
    else if (height < 1 || width < 1)
        call.fail("%s: the picture's size is (%lld, %lld), expected at least (1, 1).", op,
                  static_cast<long long>(height), static_cast<long long>(width));
    else
        return true;
    return false;
}

void paste_masks(fb::Call& call, const fb::Tensor& masks, const fb::Tensor& boxes, int64_t height,
                 int64_t width) noexcept {
    const char* op = "_paste_masks";
    if (!valid(call, op, masks, boxes, height, width)) return;
    const fb::Tensor source = call.contiguous(masks), places = call.contiguous(boxes);
    if (!source.defined() || !places.defined()) return;
    const int64_t count = masks.sizes[0];
    fb::Tensor pictures = call.empty(fb::DType::Float32, {count, 1, height, width});
    if (!pictures.defined()) return;
    const int64_t status =
        vision::paste(source.as<float>(), places.as<int64_t>(), count, masks.sizes[2], height, width,
                      pictures.as<float>(), fb::threads(count * height * width / 8));
    if (status == vision::done)
        call.give(pictures);
    else
        call.fail("%s: no memory left.", op);
}

void mask_codes(fb::Call& call, const fb::Tensor& masks, const fb::Tensor& boxes, int64_t height, int64_t width,
                double threshold) noexcept {
    const char* op = "_mask_codes";
    if (!valid(call, op, masks, boxes, height, width)) return;
    const fb::Tensor source = call.contiguous(masks), places = call.contiguous(boxes);
    const int64_t count = masks.sizes[0];
    fb::Tensor ends = call.empty(fb::DType::Int64, {count});
    if (!source.defined() || !places.defined() || !ends.defined()) return;
    vision::Codes codes;
    if (vision::encode(source.as<float>(), places.as<int64_t>(), count, masks.sizes[2], height, width,
                       float(threshold), codes, ends.as<int64_t>()) != vision::done)
        return call.fail("%s: no memory left.", op);
    fb::Tensor bytes = call.empty(fb::DType::UInt8, {codes.used});
    if (!bytes.defined()) return;
    if (codes.used) memcpy(bytes.data, codes.bytes, size_t(codes.used));
    call.give(bytes);
    call.give(ends);
}

FB_OPERATOR("_paste_masks", paste_masks);
FB_OPERATOR("_mask_codes", mask_codes);

}  // namespace
