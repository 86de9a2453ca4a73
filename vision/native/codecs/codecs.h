// The image codecs' plain C interface, and what its parts share.
//
// Python fills an array of `fb::codecs::Picture` (or `Encoding`), calls one function for all of them, and reads the
// results from the same array. Files and pictures stay the caller's memory: nothing is handed over, and nothing that
// depends on a file's announced size is allocated before the caller has seen that size. No function here throws.

#pragma once

#include <flambeau/kernel.h>

namespace fb::codecs {

enum Format : int32_t { Jpeg, Png, WebP };
enum Mode : int32_t { Unchanged, Gray, GrayAlpha, Rgb, RgbAlpha };  // Python's ImageReadMode

enum Status : int32_t {
    Done,
    Damaged,      // `message` says how
    Unsupported,  // a kind of file that is left to another codec
};

// One file to decode. `describe` reads the first group and writes the second; `decode` reads both and the third.
struct Picture {
    const uint8_t* data;
    int64_t bytes;
    int32_t format;
    int32_t mode;

    int64_t height, width;  // as stored, whatever the denominator
    int64_t channels;       // of the result
    int64_t sample_bytes;   // of the result: 1 or 2

    // Of the picture, whose sides are divided by the denominator and rounded up, what is wanted. Of other formats than
    // JPEG all of it.
    int64_t top, left, rows, columns;
    uint8_t* pixels;      // [rows, columns, channels]
    int32_t denominator;  // 1, 2, 4 or 8; other than 1 for JPEG alone

    int32_t status;  // of the last call
    char message[256];
};

// One picture to encode.
struct Encoding {
    const uint8_t* pixels;
    int64_t height, width, channels;
    int64_t row_stride, column_stride, channel_stride;  // in bytes
    int32_t format;                                     // Jpeg or Png
    int32_t level;                                      // JPEG's quality, 1 to 100; PNG's compression, 0 to 9

    uint8_t* file;
    int64_t capacity;  // of `file`; `fb_codecs_bound` says how much is enough
    int64_t bytes;     // written

    int32_t status;
    char message[256];
};

// The outcome of a call, in words. printf's format.
template <typename Job, typename... Values>
void refuse(Job& job, Status status, const char* format, Values... values) noexcept {
    job.status = status;
    snprintf(job.message, sizeof job.message, format, values...);
}

// The versions of the libraries; null without the library.
const char* jpeg_version() noexcept;
const char* deflate_version() noexcept;
const char* webp_version() noexcept;

void describe_jpeg(Picture& picture) noexcept;
void decode_jpeg(Picture& picture) noexcept;
void encode_jpeg(Encoding& encoding) noexcept;
int64_t jpeg_bound(int64_t height, int64_t width, int64_t channels) noexcept;

void describe_png(Picture& picture) noexcept;
void decode_png(Picture& picture) noexcept;
void encode_png(Encoding& encoding) noexcept;
int64_t png_bound(int64_t height, int64_t width, int64_t channels) noexcept;

void describe_webp(Picture& picture) noexcept;
void decode_webp(Picture& picture, bool two_threads) noexcept;

// Whether a row's samples lie side by side in the order in which files have them, and a row made so.
bool is_packed(const Encoding& encoding) noexcept;
void gather_row(const Encoding& encoding, int64_t y, uint8_t* row) noexcept;

// ITU-R BT.601 luma in 16-bit fixed point, rounded: the coefficients add up to one, so that gray stays gray.
FB_INLINE uint32_t luma(uint32_t red, uint32_t green, uint32_t blue) noexcept {
    return (19595 * red + 38470 * green + 7471 * blue + 0x8000) >> 16;
}

}  // namespace fb::codecs
