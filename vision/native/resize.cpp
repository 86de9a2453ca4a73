// Resizing of bytes, and on the way to a model's input what usually comes with it: cutting, mirroring, scaling to
// floating point, normalizing.
//
// `filters.h` has the weights, `resample.h` the arithmetic. Strips of rows are shared among threads; what they do does
// not depend on how many there are.

#include <flambeau/kernel.h>

#include "resample_avx2.h"

// Arguments of fb_resize_u8, in the order that `_resize.py` declares them to ctypes. Strides count elements.
struct fb_resize {
    const uint8_t* source;
    int64_t images, channels, height, width;
    // Of the source. Pixels of one plane are neighbours (pixel_stride 1), or else the channels of a pixel are
    // (channel_stride 1, pixel_stride >= channels).
    int64_t image_stride, channel_stride, row_stride, pixel_stride;
    int64_t new_height, new_width;             // of the whole picture
    int64_t top, left, out_height, out_width;  // the part of it that is wanted
    uint8_t* bytes;                // the result, without gaps, channels first or last as in the source; or null:
    float* numbers;                // the result scaled to [0, 1] and normalized, without gaps, channels first
    const float *mean, *std;       // of each channel
    int32_t cubic, antialias, flip, nthreads;
    int32_t portable;  // leave vector instructions that not every machine has aside
};

namespace vision {
namespace {

constexpr int64_t no_memory = -1;

// Levels of one row, `step` apart, as numbers.
FB_CLONES void convert_plain(const uint8_t* levels, int64_t step, int64_t count, bool flip, float mean, float std,
                             float* numbers) noexcept {
    for (int64_t x = 0; x < count; ++x) numbers[flip ? count - 1 - x : x] = number_of(levels[x * step], mean, std);
}

using Resample = void (*)(const Resampling&, const uint8_t*, int64_t, int64_t, const Workspace&,
                          const Target&) noexcept;
using Convert = void (*)(const uint8_t*, int64_t, int64_t, bool, float, float, float*) noexcept;

// The best implementations for this machine.
#if defined(VISION_AVX2)
bool has_avx2() noexcept { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
Resample resampling(bool portable) noexcept { return !portable && has_avx2() ? avx2::resample : resample_plain; }
Convert conversion(bool portable) noexcept { return !portable && has_avx2() ? avx2::convert : convert_plain; }
#else
Resample resampling(bool) noexcept { return resample_plain; }
Convert conversion(bool) noexcept { return convert_plain; }
#endif

// What is left to do where the size stays.
void convert_all(const fb_resize& given) noexcept {
    const int64_t rows = given.images * given.channels * given.out_height;
    const auto convert = conversion(given.portable);
    fb::parallel_for(0, rows, 1, given.nthreads, [&](int64_t begin, int64_t end) noexcept {
        for (int64_t row = begin; row < end; ++row) {
            const int64_t y = row % given.out_height, plane = row / given.out_height;
            const int64_t c = plane % given.channels, image = plane / given.channels;
            const uint8_t* levels = given.source + image * given.image_stride + c * given.channel_stride +
                                    (given.top + y) * given.row_stride + given.left * given.pixel_stride;
            convert(levels, given.pixel_stride, given.out_width, given.flip, given.mean[c], given.std[c],
                    given.numbers + row * given.out_width);
        }
    });
}

int64_t run(const fb_resize& given) noexcept {
    if (given.images * given.channels * given.out_height * given.out_width == 0) return 0;
    if (given.numbers && given.height == given.new_height && given.width == given.new_width) {
        convert_all(given);
        return 0;
    }
    const bool last = given.pixel_stride != 1;
    Resampling job;
    if (!job.rows.make(given.height, given.new_height, given.top, given.out_height, given.cubic, given.antialias) ||
        !job.columns.make(given.width, given.new_width, given.left, given.out_width, given.cubic, given.antialias))
        return no_memory;
    job.channels = last ? given.channels : 1;
    job.pixel_stride = last ? given.pixel_stride : 1;
    job.row_stride = given.row_stride;
    job.height = given.out_height;
    job.width = given.out_width;
    job.flip = given.flip;
    job.planes = given.numbers != nullptr;

    if (!job.plan()) return no_memory;

    const int64_t planes = last ? 1 : given.channels;
    const auto resample = resampling(given.portable);
    bool failed = false;
    const int64_t rows = given.images * planes * job.height;
    fb::parallel_for(0, rows, 1, given.nthreads, [&](int64_t begin, int64_t end) noexcept {
        Workspace space;
        if (!space.make(job)) {
            failed = true;  // whoever writes it writes the same
            return;
        }
        for (int64_t row = begin; row < end;) {
            const int64_t picture = row / job.height, top = row % job.height, left = end - row;
            const int64_t image = picture / planes, plane = picture % planes;
            const int64_t bottom = job.height - top < left ? job.height : top + left;
            const int64_t place = picture * job.channels * job.height * job.width;
            resample(job, given.source + image * given.image_stride + plane * given.channel_stride, top, bottom, space,
                     {given.bytes ? given.bytes + place : nullptr, given.numbers ? given.numbers + place : nullptr,
                      given.mean + plane, given.std + plane});
            row += bottom - top;
        }
    });
    return failed ? no_memory : 0;
}

}  // namespace
}  // namespace vision

// int64_t fb_resize_u8(arguments) -> 0, or -1 when there is no memory
FB_EXPORT int64_t fb_resize_u8(const fb_resize* given) noexcept { return vision::run(*given); }

namespace {

// The same sentences as `check` in `flambeau/vision/ops/_resize.py`.
bool valid(fb::Call& call, const char* op, const fb::Tensor& image, int64_t height, int64_t width) noexcept {
    if (image.dim != 4)
        call.fail("%s: image has shape %s, expected (N, C, H, W).", op, fb::Shape(image).text);
    else if (image.dtype != fb::DType::UInt8)
        call.fail("%s: image has dtype %s, expected torch.uint8; convert it.", op, fb::name(image.dtype));
    else if (height < 1 || width < 1)
        call.fail("%s: the new size is (%lld, %lld), expected at least (1, 1).", op, static_cast<long long>(height),
                  static_cast<long long>(width));
    else if ((image.sizes[2] == 0 || image.sizes[3] == 0) && image.sizes[0] * image.sizes[1] != 0)
        call.fail("%s: image has shape %s, expected pictures that are not empty.", op, fb::Shape(image).text);
    else
        return true;
    return false;
}

// Whether the kernel can read the picture as it lies in memory.
bool direct(const fb::Tensor& image) noexcept {
    const int64_t channel = image.strides[1], pixel = image.strides[3];
    return pixel == 1 || (channel == 1 && pixel >= image.sizes[1]);
}

fb_resize describe(const fb::Tensor& image, bool as_it_lies, int64_t height, int64_t width, bool cubic,
                   bool antialias) noexcept {
    fb_resize given{};
    given.source = image.as<uint8_t>();
    given.images = image.sizes[0];
    given.channels = image.sizes[1];
    given.height = image.sizes[2];
    given.width = image.sizes[3];
    // Of dimensions of size 1, a contiguous tensor may say anything.
    given.pixel_stride = as_it_lies ? image.strides[3] : 1;
    given.row_stride = as_it_lies ? image.strides[2] : given.width;
    given.channel_stride = as_it_lies ? image.strides[1] : given.width * given.height;
    given.image_stride = as_it_lies ? image.strides[0] : given.width * given.height * given.channels;
    given.new_height = given.out_height = height;
    given.new_width = given.out_width = width;
    given.cubic = cubic;
    given.antialias = antialias;
    return given;
}

void finish(fb::Call& call, const char* op, fb_resize& given, fb::Tensor& result) noexcept {
    // A picture of common size takes a tenth of a millisecond; on a busy machine, waiting for another thread takes
    // longer.
    const int64_t places = given.out_height * given.out_width, most = given.height * given.width;
    given.nthreads = fb::threads(given.images * given.channels * (places > most ? places : most) / 64);
    if (fb_resize_u8(&given) == 0)
        call.give(result);
    else
        call.fail("%s: no memory left.", op);
}

void resize(fb::Call& call, const fb::Tensor& image, int64_t height, int64_t width, bool cubic, bool antialias,
            bool flip) noexcept {
    const char* op = "_resize";
    if (!valid(call, op, image, height, width)) return;
    const fb::Tensor source = direct(image) ? call.borrow(image) : call.contiguous(image);
    if (!source.defined()) return;
    fb_resize given = describe(source, direct(image), height, width, cubic, antialias);
    given.flip = flip;
    const int64_t n = given.images, c = given.channels;
    const int64_t sizes[] = {n, c, height, width};
    const bool last = given.pixel_stride != 1 && c > 1;
    const int64_t strides[] = {c * height * width, last ? 1 : height * width, last ? width * c : width, last ? c : 1};
    fb::Tensor result = call.empty(fb::DType::UInt8, sizes, strides, 4);
    if (!result.defined()) return;
    given.bytes = result.as<uint8_t>();
    finish(call, op, given, result);
}

void resize_normalize(fb::Call& call, const fb::Tensor& image, int64_t height, int64_t width, int64_t top,
                      int64_t left, int64_t out_height, int64_t out_width, bool cubic, bool antialias, bool flip,
                      const fb::Tensor& mean, const fb::Tensor& std) noexcept {
    const char* op = "_resize_normalize";
    if (!valid(call, op, image, height, width)) return;
    if (top < 0 || left < 0 || out_height < 1 || out_width < 1 || top > height - out_height ||
        left > width - out_width)
        return call.fail("%s: the part (%lld, %lld) + (%lld, %lld) is not inside of the new size (%lld, %lld).", op,
                         static_cast<long long>(top), static_cast<long long>(left),
                         static_cast<long long>(out_height), static_cast<long long>(out_width),
                         static_cast<long long>(height), static_cast<long long>(width));
    for (const fb::Tensor* each : {&mean, &std})
        if (each->dim != 1 || each->sizes[0] != image.sizes[1] || each->dtype != fb::DType::Float32)
            return call.fail("%s: mean and std have to be float32 of shape (%lld,), one for each channel.", op,
                             static_cast<long long>(image.sizes[1]));
    const fb::Tensor source = direct(image) ? call.borrow(image) : call.contiguous(image);
    const fb::Tensor means = call.contiguous(mean), stds = call.contiguous(std);
    if (!source.defined() || !means.defined() || !stds.defined()) return;
    fb_resize given = describe(source, direct(image), height, width, cubic, antialias);
    fb::Tensor result = call.empty(fb::DType::Float32, {given.images, given.channels, out_height, out_width});
    if (!result.defined()) return;
    given.top = top;
    given.left = left;
    given.out_height = out_height;
    given.out_width = out_width;
    given.flip = flip;
    given.numbers = result.as<float>();
    given.mean = means.as<float>();
    given.std = stds.as<float>();
    finish(call, op, given, result);
}

// Channels last without gaps: of the last three dimensions, with at most one before them.
bool is_packed_last(const fb::Tensor& image) noexcept {
    if (image.dim < 3 || image.dim > 4 || image.contiguous()) return false;
    const int64_t* sizes = image.sizes + image.dim - 3;
    const int64_t* strides = image.strides + image.dim - 3;
    return strides[0] == 1 && strides[2] == sizes[0] && strides[1] == sizes[0] * sizes[2] &&
           (image.dim == 3 || image.strides[0] == sizes[0] * sizes[1] * sizes[2]);
}

void scale_levels(fb::Call& call, const fb::Tensor& image) noexcept {
    const char* op = "_scale_levels";
    if (image.dtype != fb::DType::UInt8)
        return call.fail("%s: image has dtype %s, expected torch.uint8; convert it.", op, fb::name(image.dtype));
    const bool last = is_packed_last(image);
    const fb::Tensor source = last ? call.borrow(image) : call.contiguous(image);
    if (!source.defined()) return;
    fb::Tensor result = last ? call.empty(fb::DType::Float32, image.sizes, image.strides, image.dim)
                             : call.empty(fb::DType::Float32, image.sizes, image.dim);
    if (!result.defined()) return;
    const int64_t count = image.numel();
    const auto convert = vision::conversion(false);
    fb::parallel_for(0, count, 4096, fb::threads(count / 32), [&](int64_t begin, int64_t end) noexcept {
        convert(source.as<uint8_t>() + begin, 1, end - begin, false, 0, 1, result.as<float>() + begin);
    });
    call.give(result);
}

FB_OPERATOR("_scale_levels", scale_levels);
FB_OPERATOR("_resize", resize);
FB_OPERATOR("_resize_normalize", resize_normalize);

}  // namespace
