// WebP with libwebp: still pictures. Animations are left to another codec.

#include "codecs.h"

#include <webp/decode.h>

#include "png_format.h"

namespace fb::codecs {
namespace {

const char* explain(VP8StatusCode status) noexcept {
    switch (status) {
        case VP8_STATUS_OUT_OF_MEMORY: return "there is no memory left";
        case VP8_STATUS_UNSUPPORTED_FEATURE: return "it uses a feature that there is not";
        case VP8_STATUS_SUSPENDED:
        case VP8_STATUS_NOT_ENOUGH_DATA: return "the file ends before the picture does";
        default: return "its data are damaged";
    }
}

bool read_features(Picture& picture, WebPBitstreamFeatures& features) noexcept {
    picture.status = Done;
    const VP8StatusCode status = WebPGetFeatures(picture.data, size_t(picture.bytes), &features);
    if (status != VP8_STATUS_OK)
        refuse(picture, Damaged, "%s", explain(status));
    else if (features.has_animation)
        refuse(picture, Unsupported, "it is an animation");
    return picture.status == Done;
}

void to_gray(const uint8_t* pixels, int64_t count, int64_t from, uint8_t* gray, int64_t channels) noexcept {
    for (int64_t i = 0; i < count; ++i, pixels += from, gray += channels) {
        gray[0] = uint8_t(luma(pixels[0], pixels[1], pixels[2]));
        if (channels == 2) gray[1] = from == 4 ? pixels[3] : 255;
    }
}

}  // namespace

const char* webp_version() noexcept {
    static char text[16];
    const int number = WebPGetDecoderVersion();
    snprintf(text, sizeof text, "%d.%d.%d", number >> 16, number >> 8 & 255, number & 255);
    return text;
}

void describe_webp(Picture& picture) noexcept {
    WebPBitstreamFeatures features;
    if (!read_features(picture, features)) return;
    picture.height = features.height;
    picture.width = features.width;
    picture.channels = picture.mode != Unchanged ? picture.mode : features.has_alpha ? 4 : 3;
    picture.sample_bytes = 1;
}

void decode_webp(Picture& picture, bool two_threads) noexcept {
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config)) return refuse(picture, Unsupported, "this libwebp has another interface");
    if (!read_features(picture, config.input)) return;
    if (config.input.height != picture.height || config.input.width != picture.width)
        return refuse(picture, Damaged, "the file was changed while it was being decoded");
    const bool gray = picture.channels < 3;
    const bool alpha = picture.channels == 4 || (picture.channels == 2 && config.input.has_alpha);
    const int64_t row = picture.width * (alpha ? 4 : 3);
    const Buffer colours(gray ? size_t(picture.height * row) : 0);
    if (!colours.bytes) return refuse(picture, Damaged, "there is no memory left");
    config.options.use_threads = two_threads;
    config.output.colorspace = alpha ? MODE_RGBA : MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = gray ? colours.bytes : picture.pixels;
    config.output.u.RGBA.stride = int(row);
    config.output.u.RGBA.size = size_t(picture.height * row);
    const VP8StatusCode status = WebPDecode(picture.data, size_t(picture.bytes), &config);
    if (status != VP8_STATUS_OK) return refuse(picture, Damaged, "%s", explain(status));
    if (gray) to_gray(colours.bytes, picture.height * picture.width, alpha ? 4 : 3, picture.pixels, picture.channels);
}

}  // namespace fb::codecs
