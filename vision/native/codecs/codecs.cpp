// What Python calls: each function takes an array of jobs and does them on as many threads as torch may use.

#include "codecs.h"
#include "team.h"

namespace fb::codecs {
namespace {

void describe(Picture& picture) noexcept {
    switch (picture.format) {
        case Jpeg: return describe_jpeg(picture);
        case Png: return describe_png(picture);
        case WebP: return describe_webp(picture);
    }
    refuse(picture, Unsupported, "there is no format %d", picture.format);
}

void decode(Picture& picture, bool alone) noexcept {
    switch (picture.format) {
        case Jpeg: return decode_jpeg(picture);
        case Png: return decode_png(picture);
        case WebP: return decode_webp(picture, alone && threads(picture.height * picture.width) > 1);
    }
    refuse(picture, Unsupported, "there is no format %d", picture.format);
}

void encode(Encoding& encoding) noexcept {
    switch (encoding.format) {
        case Jpeg: return encode_jpeg(encoding);
        case Png: return encode_png(encoding);
    }
    refuse(encoding, Unsupported, "there is no format %d", encoding.format);
}

// Calls `work` with each job, on as many threads as torch may use.
template <typename Job, typename Work>
void each(Job* jobs, int64_t count, Work work) noexcept {
    int64_t pixels = 0;
    for (int64_t i = 0; i < count; ++i) pixels += jobs[i].height * jobs[i].width;
    share_jobs(count, threads(pixels), [&](int64_t i) noexcept { work(jobs[i]); });
}

}  // namespace
}  // namespace fb::codecs

// Fills in each picture's size and channels from the head of its file.
FB_EXPORT void fb_codecs_describe(fb::codecs::Picture* pictures, int64_t count) noexcept {
    for (int64_t i = 0; i < count; ++i) fb::codecs::describe(pictures[i]);
}

// Decodes each picture that could be described into its pixels.
FB_EXPORT void fb_codecs_decode(fb::codecs::Picture* pictures, int64_t count) noexcept {
    fb::codecs::each(pictures, count, [count](fb::codecs::Picture& picture) noexcept {
        if (picture.status == fb::codecs::Done) fb::codecs::decode(picture, count == 1);
    });
}

// How many bytes are enough for any picture of this size.
FB_EXPORT int64_t fb_codecs_bound(int32_t format, int64_t height, int64_t width, int64_t channels) noexcept {
    return format == fb::codecs::Jpeg ? fb::codecs::jpeg_bound(height, width, channels)
                                      : fb::codecs::png_bound(height, width, channels);
}

// Encodes each picture into its file.
FB_EXPORT void fb_codecs_encode(fb::codecs::Encoding* encodings, int64_t count) noexcept {
    fb::codecs::each(encodings, count, fb::codecs::encode);
}

// What serves each format, "JPEG: libjpeg-turbo 3.1.0, PNG: libdeflate 1.14".
FB_EXPORT const char* fb_codecs_versions() noexcept {
    using namespace fb::codecs;
    static char text[128];
    const char* const webp = webp_version();
    snprintf(text, sizeof text, "JPEG: libjpeg-turbo %s, PNG: libdeflate %s%s%s", jpeg_version(), deflate_version(),
             webp ? ", WebP: libwebp " : "", webp ? webp : "");
    return text;
}
