// What Pillow does to the tones of a picture of bytes, with its roundings, on pictures [H, W, C] that are not Pillow's.
//
// Blending, `a + factor * (b - a)` in float32, cuts off what is behind the point and limits the rest to bytes. Called
// through ctypes by `flambeau/vision/transforms/v2/functional/_pil_tones.py`; Pillow itself is the reference.

#include <flambeau/kernel.h>

namespace vision {
namespace {

// Behind the point is cut off, also of negative numbers, but those become 0.
FB_INLINE uint8_t blend(int32_t from, int32_t to, float factor) noexcept {
    const float value = float(from) + factor * float(to - from);
    return uint8_t(int32_t(value <= 0 ? 0 : value >= 255 ? 255 : value));
}

FB_INLINE int32_t luma(const uint8_t* pixel) noexcept {
    return int32_t((uint32_t(pixel[0]) * 19595 + uint32_t(pixel[1]) * 38470 + uint32_t(pixel[2]) * 7471 + 0x8000) >> 16);
}

FB_CLONES void blend_with_luma(const uint8_t* levels, int64_t pixels, float factor, uint8_t* result) noexcept {
    for (int64_t i = 0; i < pixels; ++i) {
        const int32_t gray = luma(levels + 3 * i);
        for (int c = 0; c < 3; ++c) result[3 * i + c] = blend(gray, levels[3 * i + c], factor);
    }
}

// One row but for its first and last pixel: blended with what (1 1 1; 1 5 1; 1 1 1) / 13 makes of it, rounded.
FB_CLONES void blend_with_smooth(const uint8_t* above, const uint8_t* row, const uint8_t* below, int64_t begin,
                                 int64_t end, int64_t step, float factor, uint8_t* result) noexcept {
    for (int64_t x = begin; x < end; ++x) {
        const uint32_t sum = uint32_t(above[x - step]) + above[x] + above[x + step] + row[x - step] + 5u * row[x] +
                             row[x + step] + below[x - step] + below[x] + below[x + step];
        result[x] = blend(int32_t((2 * sum + 13) / 26), row[x], factor);
    }
}

}  // namespace
}  // namespace vision

// counts: [channels, 256], zeros.
FB_EXPORT void fb_pillow_count(const uint8_t* levels, int64_t pixels, int64_t channels, int64_t* counts) noexcept {
    if (channels == 3)
        for (int64_t i = 0; i < pixels; ++i)
            for (int c = 0; c < 3; ++c) ++counts[256 * c + levels[3 * i + c]];
    else
        for (int64_t i = 0; i < pixels * channels; ++i) ++counts[256 * (i % channels) + levels[i]];
}

// The sum of what Pillow's conversion to gray gives.
FB_EXPORT int64_t fb_pillow_sum(const uint8_t* levels, int64_t pixels, int64_t channels) noexcept {
    int64_t sum = 0;
    for (int64_t i = 0; i < pixels; ++i) sum += channels == 3 ? vision::luma(levels + 3 * i) : levels[i];
    return sum;
}

// tables: [channels, 256].
FB_EXPORT void fb_pillow_map(const uint8_t* levels, int64_t pixels, int64_t channels, const uint8_t* tables,
                             uint8_t* result) noexcept {
    if (channels == 3)
        for (int64_t i = 0; i < pixels; ++i)
            for (int c = 0; c < 3; ++c) result[3 * i + c] = tables[256 * c + levels[3 * i + c]];
    else
        for (int64_t i = 0; i < pixels * channels; ++i) result[i] = tables[256 * (i % channels) + levels[i]];
}

FB_EXPORT void fb_pillow_color(const uint8_t* levels, int64_t pixels, float factor, uint8_t* result) noexcept {
    vision::blend_with_luma(levels, pixels, factor, result);
}

FB_EXPORT void fb_pillow_sharpness(const uint8_t* levels, int64_t height, int64_t width, int64_t channels, float factor,
                                   uint8_t* result) noexcept {
    const int64_t row = width * channels;
    memcpy(result, levels, size_t(height * row));  // the outermost pixels are not smoothed
    if (height < 3 || width < 3) return;
    for (int64_t y = 1; y + 1 < height; ++y) {
        const uint8_t* const place = levels + y * row;
        vision::blend_with_smooth(place - row, place, place + row, channels, row - channels, channels, factor,
                                  result + y * row);
    }
}
