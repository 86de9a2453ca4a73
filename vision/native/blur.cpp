// Pictures folded with a product of a column and a row, and normalized: sums and quotients of float32 over whole rows.

#include <flambeau/kernel.h>
#include <math.h>

#include "workspace.h"

namespace vision {
namespace {

constexpr int64_t done = 0;
constexpr int64_t no_memory = -1;

// --- small loops ----------------------------------------------------------------------------------------------------

FB_CLONES void add(const uint8_t* from, float weight, int64_t count, float* sums) noexcept {
    for (int64_t i = 0; i < count; ++i) sums[i] = sums[i] + weight * float(from[i]);
}
FB_CLONES void add(const float* from, float weight, int64_t count, float* sums) noexcept {
    for (int64_t i = 0; i < count; ++i) sums[i] = sums[i] + weight * from[i];
}
FB_CLONES void put(const float* sums, int64_t count, uint8_t* to) noexcept {
    for (int64_t i = 0; i < count; ++i) {
        const float value = rintf(sums[i]), above = value < 0 ? 0 : value;
        to[i] = uint8_t(int32_t(above > 255 ? 255 : above));
    }
}
void put(const float* sums, int64_t count, float* to) noexcept { memcpy(to, sums, size_t(count) * sizeof(float)); }

FB_CLONES void normalize_row(const float* from, int64_t step, float mean, float std, int64_t count,
                             float* to) noexcept {
    for (int64_t i = 0; i < count; ++i) to[i * step] = (from[i * step] - mean) / std;
}

// The place that a place outside is the mirror image of; the border itself is not repeated.
int64_t reflected(int64_t place, int64_t size) noexcept {
    if (size == 1) return 0;
    const int64_t period = 2 * (size - 1), inside = (place % period + period) % period;
    return inside < size ? inside : period - inside;
}

// `count` rows of `width` pixels of `step` values each, in planes of `height` rows.
template <typename T>
int64_t blur(const T* image, int64_t count, int64_t height, int64_t width, int64_t step, const float* row,
             int64_t row_size, const float* column, int64_t column_size, T* result, int32_t nthreads) noexcept {
    const int64_t line = width * step, side = row_size / 2;
    bool failed = false;
    fb::parallel_for(0, count, 1, nthreads, [&](int64_t from, int64_t to) noexcept {
        Array<float> memory;
        if (!memory.make(2 * line + 2 * side * step)) {
            failed = true;  // whoever writes it writes the same
            return;
        }
        float *padded = memory.get(), *middle = padded + side * step, *sums = padded + line + 2 * side * step;
        for (int64_t n = from; n < to; ++n) {
            const int64_t y = n % height;
            const T* plane = image + (n - y) * line;
            memset(middle, 0, size_t(line) * sizeof(float));
            for (int64_t k = 0; k < column_size; ++k)
                add(plane + reflected(y + k - column_size / 2, height) * line, column[k], line, middle);
            for (int64_t x = 1; x <= side; ++x) {
                memcpy(middle - x * step, middle + reflected(-x, width) * step, size_t(step) * sizeof(float));
                memcpy(middle + line + (x - 1) * step, middle + reflected(width - 1 + x, width) * step,
                       size_t(step) * sizeof(float));
            }
            memset(sums, 0, size_t(line) * sizeof(float));
            for (int64_t k = 0; k < row_size; ++k) add(padded + k * step, row[k], line, sums);
            put(sums, line, result + n * line);
        }
    });
    return failed ? no_memory : done;
}

}  // namespace
}  // namespace vision

namespace {

bool is_kernel(const fb::Tensor& kernel) noexcept {
    return kernel.dim == 1 && kernel.sizes[0] % 2 == 1 && kernel.dtype == fb::DType::Float32;
}

// Channels last without gaps.
bool is_last(const fb::Tensor& image) noexcept {
    if (image.dim != 4 || image.contiguous()) return false;
    const int64_t *sizes = image.sizes, *strides = image.strides;
    return strides[1] == 1 && strides[3] == sizes[1] && strides[2] == sizes[1] * sizes[3] &&
           strides[0] == sizes[1] * sizes[2] * sizes[3];
}

fb::Tensor like(fb::Call& call, const fb::Tensor& image, bool last) noexcept {
    return last ? call.empty(image.dtype, image.sizes, image.strides, 4) : call.empty(image.dtype, image.sizes, 4);
}

// The same sentences as in `flambeau/vision/ops/_blur.py`.
void blur(fb::Call& call, const fb::Tensor& image, const fb::Tensor& row, const fb::Tensor& column) noexcept {
    const char* op = "_blur";
    const bool levels = image.dtype == fb::DType::UInt8;
    if (image.dim != 4)
        return call.fail("%s: image has shape %s, expected (N, C, H, W).", op, fb::Shape(image).text);
    if (!levels && image.dtype != fb::DType::Float32)
        return call.fail("%s: image has dtype %s, expected torch.uint8 or torch.float32; convert it.", op,
                         fb::name(image.dtype));
    if (!is_kernel(row) || !is_kernel(column))
        return call.fail("%s: row and column have to be float32, one-dimensional and of odd length.", op);
    const bool last = is_last(image);
    const fb::Tensor source = last ? call.borrow(image) : call.contiguous(image);
    const fb::Tensor rows = call.contiguous(row), columns = call.contiguous(column);
    fb::Tensor result = like(call, image, last);
    if (!source.defined() || !rows.defined() || !columns.defined() || !result.defined()) return;
    const int64_t step = last ? image.sizes[1] : 1, height = image.sizes[2], width = image.sizes[3];
    const int64_t count = image.sizes[0] * image.sizes[1] / (step > 0 ? step : 1) * height;
    const int32_t nthreads = fb::threads(image.numel() * (row.sizes[0] + column.sizes[0]) / 64);
    int64_t status = vision::done;
    if (image.numel() != 0)
        status = levels ? vision::blur(source.as<uint8_t>(), count, height, width, step, rows.as<float>(), row.sizes[0],
                                       columns.as<float>(), column.sizes[0], result.as<uint8_t>(), nthreads)
                        : vision::blur(source.as<float>(), count, height, width, step, rows.as<float>(), row.sizes[0],
                                       columns.as<float>(), column.sizes[0], result.as<float>(), nthreads);
    if (status == vision::done)
        call.give(result);
    else
        call.fail("%s: no memory left.", op);
}

void normalize(fb::Call& call, const fb::Tensor& image, const fb::Tensor& mean, const fb::Tensor& std) noexcept {
    const char* op = "_normalize";
    if (image.dim != 4)
        return call.fail("%s: image has shape %s, expected (N, C, H, W).", op, fb::Shape(image).text);
    for (const fb::Tensor* each : {&image, &mean, &std})
        if (each->dtype != fb::DType::Float32)
            return call.fail("%s: a tensor has dtype %s, expected torch.float32; convert it.", op,
                             fb::name(each->dtype));
    for (const fb::Tensor* each : {&mean, &std})
        if (each->dim != 1 || each->sizes[0] != image.sizes[1])
            return call.fail("%s: mean and std have to be of shape (%lld,), one for each channel.", op,
                             static_cast<long long>(image.sizes[1]));
    const bool last = is_last(image);
    const fb::Tensor source = last ? call.borrow(image) : call.contiguous(image);
    const fb::Tensor means = call.contiguous(mean), stds = call.contiguous(std);
    fb::Tensor result = like(call, image, last);
    if (!source.defined() || !means.defined() || !stds.defined() || !result.defined()) return;
    const int64_t channels = image.sizes[1], height = image.sizes[2], width = image.sizes[3];
    const int64_t step = last ? channels : 1;
    const float* from = source.as<float>();
    float* to = result.as<float>();
    // Rows of one channel: of planes as they lie, of channels last through the same rows once for each.
    fb::parallel_for(0, image.sizes[0] * height * channels, 1, fb::threads(image.numel() / 32),
                     [&](int64_t begin, int64_t end) noexcept {
                         for (int64_t n = begin; n < end; ++n) {
                             const int64_t c = last ? n % channels : n / height % channels;
                             const int64_t place = last ? n / channels * width * channels + c : n * width;
                             vision::normalize_row(from + place, step, means.as<float>()[c], stds.as<float>()[c],
                                                   width, to + place);
                         }
                     });
    call.give(result);
}

FB_OPERATOR("_blur", blur);
FB_OPERATOR("_normalize", normalize);

}  // namespace
