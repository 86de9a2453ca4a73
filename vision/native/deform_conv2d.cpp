// Sampling of deformable convolution (arXiv:1703.06211, 1811.11168): the columns that are multiplied with the weights,
// and the way back from their gradient. The products themselves are torch's.
//
// Channels are neighbours (NHWC), so that one sample is four vectors weighted and added. A column is written for each
// output position, grouped as the weights are:
//
//     columns[group][position][tap of the kernel][channel of the group]
//
// Sums of the gradient run over positions in order, and threads share channels: results do not depend on their number.

#include <flambeau/kernel.h>
#include <math.h>
#include <string.h>

#include "workspace.h"

// In the order that `flambeau/vision/ops/deform_conv2d.py` declares them to ctypes.
struct fb_deform {
    int64_t images, height, width, channels;   // of the input, NHWC
    int64_t rows, columns;                      // of the output
    int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
    int64_t groups, offset_groups;
    int64_t begin, end;                         // positions, counted over all images, rows and columns
    int64_t nthreads;
};

namespace vision {
namespace {

constexpr int64_t no_memory = -1;

template <typename T>
struct Sources {
    const T* input;
    const T* offset;  // (images, offset group, tap, y or x, position)
    const T* mask;    // (images, offset group, tap, position), or null: all 1
};

// Where one tap of the kernel reads at one position.
template <typename T>
struct Sample {
    int64_t pixel[4];  // offsets of top left, top right, bottom left, bottom right in the input; -1 outside
    T weight[4];       // without the mask
    T down, right;     // distance from the top left pixel
    T mask;
    int64_t y_offset, mask_offset;  // where in `offset` and `mask` it stands; that of x is `positions` further
};

template <typename T>
FB_INLINE Sample<T> sample_at(const fb_deform& d, const Sources<T>& from, int64_t image, int64_t position,
                              int64_t offset_group, int64_t tap) noexcept {
    const int64_t taps = d.kernel_h * d.kernel_w, positions = d.rows * d.columns;
    const int64_t row = position / d.columns, column = position % d.columns;
    const int64_t plane = (image * d.offset_groups + offset_group) * taps + tap;
    Sample<T> s;
    s.y_offset = 2 * plane * positions + position;
    s.mask_offset = plane * positions + position;
    s.mask = from.mask ? from.mask[s.mask_offset] : T(1);
    const T y = T(row * d.stride_h - d.pad_h + tap / d.kernel_w * d.dilation_h) + from.offset[s.y_offset];
    const T x = T(column * d.stride_w - d.pad_w + tap % d.kernel_w * d.dilation_w) +
                from.offset[s.y_offset + positions];
    const bool inside = y > T(-1) && y < T(d.height) && x > T(-1) && x < T(d.width);  // NaN is outside
    const T top = inside ? floor(y) : T(0), left = inside ? floor(x) : T(0);
    const int64_t up = int64_t(top), west = int64_t(left);
    s.down = inside ? y - top : T(0);
    s.right = inside ? x - left : T(0);
    const T weights[] = {(1 - s.down) * (1 - s.right), (1 - s.down) * s.right, s.down * (1 - s.right),
                         s.down * s.right};
    for (int q = 0; q < 4; ++q) {
        const int64_t at_y = up + q / 2, at_x = west + q % 2;
        const bool there = inside && at_y >= 0 && at_y < d.height && at_x >= 0 && at_x < d.width;
        s.pixel[q] = there ? ((image * d.height + at_y) * d.width + at_x) * d.channels : -1;
        s.weight[q] = weights[q];
    }
    return s;
}

// A run of channels that are of one group and of one offset group.
struct Run {
    int64_t begin, end, group, offset_group;
};

FB_INLINE Run run_from(const fb_deform& d, int64_t begin, int64_t end) noexcept {
    const int64_t in_group = d.channels / d.groups, in_offset_group = d.channels / d.offset_groups;
    Run run{begin, end, begin / in_group, begin / in_offset_group};
    if ((run.group + 1) * in_group < run.end) run.end = (run.group + 1) * in_group;
    if ((run.offset_group + 1) * in_offset_group < run.end) run.end = (run.offset_group + 1) * in_offset_group;
    return run;
}

// Where a run's channels stand in the columns.
FB_INLINE int64_t column_of(const fb_deform& d, const Run& run, int64_t position, int64_t tap) noexcept {
    const int64_t in_group = d.channels / d.groups, taps = d.kernel_h * d.kernel_w;
    return ((run.group * (d.end - d.begin) + position - d.begin) * taps + tap) * in_group + run.begin -
           run.group * in_group;
}

template <typename T>
FB_INLINE void sample_all(const fb_deform& d, const Sources<T>& from, const T* zeros, int64_t begin, int64_t end,
                          T* columns) noexcept {
    const int64_t taps = d.kernel_h * d.kernel_w, positions = d.rows * d.columns;
    for (int64_t p = begin; p < end; ++p)
        for (int64_t channel = 0; channel < d.channels;) {
            const Run run = run_from(d, channel, d.channels);
            channel = run.end;
            for (int64_t tap = 0; tap < taps; ++tap) {
                const Sample<T> s = sample_at(d, from, p / positions, p % positions, run.offset_group, tap);
                const T* pixel[4];
                for (int q = 0; q < 4; ++q) pixel[q] = s.pixel[q] < 0 ? zeros : from.input + s.pixel[q] + run.begin;
                const T *a = pixel[0], *b = pixel[1], *c = pixel[2], *e = pixel[3];
                const T wa = s.weight[0] * s.mask, wb = s.weight[1] * s.mask;
                const T wc = s.weight[2] * s.mask, we = s.weight[3] * s.mask;
                T* column = columns + column_of(d, run, p, tap);
                const int64_t count = run.end - run.begin;
                for (int64_t i = 0; i < count; ++i)
                    column[i] = (wa * a[i] + wb * b[i]) + (wc * c[i] + we * e[i]);
            }
        }
}

// Sums of products in a fixed order: lane by lane, then the lanes.
template <typename T>
FB_INLINE void dots(const T* grad, const T* const (&pixel)[4], int64_t count, T (&sums)[4]) noexcept {
    constexpr int64_t lanes = 16;
    T parts[4][lanes] = {};
    const T *a = pixel[0], *b = pixel[1], *c = pixel[2], *e = pixel[3];
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes)
        for (int64_t lane = 0; lane < lanes; ++lane) {
            const T g = grad[i + lane];
            parts[0][lane] += g * a[i + lane];
            parts[1][lane] += g * b[i + lane];
            parts[2][lane] += g * c[i + lane];
            parts[3][lane] += g * e[i + lane];
        }
    for (int64_t lane = 0; i < count; ++i, ++lane)
        for (int q = 0; q < 4; ++q) parts[q][lane] += grad[i] * pixel[q][i];
    for (int q = 0; q < 4; ++q)
        for (int64_t lane = 0; lane < lanes; ++lane) sums[q] += parts[q][lane];
}

// Gradients of offsets and mask at positions [begin, end).
template <typename T>
FB_INLINE void grad_places(const fb_deform& d, const Sources<T>& from, const T* zeros, int64_t begin, int64_t end,
                           const T* grad, T* grad_offset, T* grad_mask) noexcept {
    const int64_t taps = d.kernel_h * d.kernel_w, positions = d.rows * d.columns;
    const int64_t in_offset_group = d.channels / d.offset_groups;
    for (int64_t p = begin; p < end; ++p)
        for (int64_t og = 0; og < d.offset_groups; ++og)
            for (int64_t tap = 0; tap < taps; ++tap) {
                const Sample<T> s = sample_at(d, from, p / positions, p % positions, og, tap);
                T sums[4] = {};
                const int64_t last = (og + 1) * in_offset_group;
                for (int64_t channel = og * in_offset_group; channel < last;) {
                    const Run run = run_from(d, channel, last);
                    channel = run.end;
                    const T* pixel[4];
                    for (int q = 0; q < 4; ++q)
                        pixel[q] = s.pixel[q] < 0 ? zeros : from.input + s.pixel[q] + run.begin;
                    dots(grad + column_of(d, run, p, tap), pixel, run.end - run.begin, sums);
                }
                grad_offset[s.y_offset] =
                    s.mask * ((1 - s.right) * (sums[2] - sums[0]) + s.right * (sums[3] - sums[1]));
                grad_offset[s.y_offset + positions] =
                    s.mask * ((1 - s.down) * (sums[1] - sums[0]) + s.down * (sums[3] - sums[2]));
                if (grad_mask)
                    grad_mask[s.mask_offset] = s.weight[0] * sums[0] + s.weight[1] * sums[1] +
                                               s.weight[2] * sums[2] + s.weight[3] * sums[3];
            }
}

// Adds to the gradient of the input's channels [first, last).
template <typename T>
FB_INLINE void grad_pixels(const fb_deform& d, const Sources<T>& from, int64_t first, int64_t last, const T* grad,
                           T* grad_input) noexcept {
    const int64_t taps = d.kernel_h * d.kernel_w, positions = d.rows * d.columns;
    for (int64_t p = d.begin; p < d.end; ++p)
        for (int64_t channel = first; channel < last;) {
            const Run run = run_from(d, channel, last);
            channel = run.end;
            for (int64_t tap = 0; tap < taps; ++tap) {
                const Sample<T> s = sample_at(d, from, p / positions, p % positions, run.offset_group, tap);
                const T* flow = grad + column_of(d, run, p, tap);
                const int64_t count = run.end - run.begin;
                for (int q = 0; q < 4; ++q) {
                    if (s.pixel[q] < 0) continue;
                    const T weight = s.weight[q] * s.mask;
                    T* pixel = grad_input + s.pixel[q] + run.begin;
                    for (int64_t i = 0; i < count; ++i) pixel[i] += weight * flow[i];
                }
            }
        }
}

// Each loop for each instruction set. Plain functions, because templates cannot have clones.
#define VISION_DEFORM_LOOPS(T)                                                                                      \
    FB_CLONES void sample_some(const fb_deform& d, const Sources<T>& from, const T* zeros, int64_t begin,           \
                               int64_t end, T* columns) noexcept {                                                  \
        sample_all<T>(d, from, zeros, begin, end, columns);                                                         \
    }                                                                                                               \
    FB_CLONES void grad_some_places(const fb_deform& d, const Sources<T>& from, const T* zeros, int64_t begin,      \
                                    int64_t end, const T* grad, T* grad_offset, T* grad_mask) noexcept {            \
        grad_places<T>(d, from, zeros, begin, end, grad, grad_offset, grad_mask);                                   \
    }                                                                                                               \
    FB_CLONES void grad_some_pixels(const fb_deform& d, const Sources<T>& from, int64_t first, int64_t last,        \
                                    const T* grad, T* grad_input) noexcept {                                        \
        grad_pixels<T>(d, from, first, last, grad, grad_input);                                                     \
    }
VISION_DEFORM_LOOPS(float)
VISION_DEFORM_LOOPS(double)

template <typename T>
bool make_zeros(Array<T>& zeros, int64_t count) noexcept {
    if (!zeros.make(count)) return false;
    memset(static_cast<void*>(zeros.get()), 0, size_t(count) * sizeof(T));
    return true;
}

int64_t grain(const fb_deform& d) noexcept {
    return fb::serial_below / (d.kernel_h * d.kernel_w * d.channels + 1) + 1;
}

template <typename T>
int64_t forward(const fb_deform& d, const Sources<T>& from, T* columns) noexcept {
    Array<T> zeros;
    if (!make_zeros(zeros, d.channels)) return no_memory;
    fb::parallel_for(d.begin, d.end, grain(d), int32_t(d.nthreads), [&](int64_t begin, int64_t end) noexcept {
        sample_some(d, from, zeros.get(), begin, end, columns);
    });
    return 0;
}

template <typename T>
int64_t backward(const fb_deform& d, const Sources<T>& from, const T* grad, T* grad_input, T* grad_offset,
                 T* grad_mask) noexcept {
    constexpr int64_t line = 16;  // channels that share a cache line stay with one thread
    Array<T> zeros;
    if (!make_zeros(zeros, d.channels)) return no_memory;
    fb::parallel_for(d.begin, d.end, grain(d), int32_t(d.nthreads), [&](int64_t begin, int64_t end) noexcept {
        grad_some_places(d, from, zeros.get(), begin, end, grad, grad_offset, grad_mask);
    });
    const int64_t lines = (d.channels + line - 1) / line;
    fb::parallel_for(0, lines, 1, int32_t(d.nthreads), [&](int64_t begin, int64_t end) noexcept {
        grad_some_pixels(d, from, begin * line, end * line < d.channels ? end * line : d.channels, grad, grad_input);
    });
    return 0;
}

}  // namespace
}  // namespace vision

// int64_t fb_deform_columns_<dtype>(geometry, input, offset, mask, columns)
// int64_t fb_deform_columns_backward_<dtype>(geometry, input, offset, mask, grad, grad_input, grad_offset, grad_mask)
//
// input, offset, mask   without gaps, laid out as `Sources` says; mask may be null, then so is grad_mask
// columns               receives positions [begin, end); grad is its gradient
// grad_input            is added to; of grad_offset and grad_mask the values of these positions are written
// returns               0, or -1 when there is no memory
#define VISION_DEFORM(dtype, T)                                                                                      \
    FB_EXPORT int64_t fb_deform_columns_##dtype(const fb_deform* d, const T* input, const T* offset, const T* mask,  \
                                                T* columns) noexcept {                                               \
        return vision::forward<T>(*d, {input, offset, mask}, columns);                                               \
    }                                                                                                                \
    FB_EXPORT int64_t fb_deform_columns_backward_##dtype(const fb_deform* d, const T* input, const T* offset,        \
                                                         const T* mask, const T* grad, T* grad_input,                \
                                                         T* grad_offset, T* grad_mask) noexcept {                    \
        return vision::backward<T>(*d, {input, offset, mask}, grad, grad_input, grad_offset, grad_mask);             \
    }
VISION_DEFORM(f32, float)
VISION_DEFORM(f64, double)
