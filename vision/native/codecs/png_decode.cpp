// PNG: every colour type and depth, palettes, transparency, interlacing. Unpacked by libdeflate in one go, which needs
// all of the packed data and room for all of the unpacked, and is twice as fast as a stream.

#include "codecs.h"

#include <string.h>

#include <libdeflate.h>

#include "png_file.h"
#include "png_unfilter.h"

namespace fb::codecs {
namespace {

// --- Interlacing (section 8.2): seven reduced pictures, one after the other -----------------------------------------

struct Pass {
    uint8_t x, y, x_step, y_step;
    int64_t columns(int64_t width) const noexcept { return width > x ? (width - x + x_step - 1) / x_step : 0; }
    int64_t rows(int64_t height) const noexcept { return height > y ? (height - y + y_step - 1) / y_step : 0; }
};

constexpr Pass whole[] = {{0, 0, 1, 1}};
constexpr Pass adam7[] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}};

struct Passes {
    explicit Passes(const PngFile& png) noexcept : begin_(png.interlaced ? adam7 : whole), count_(png.interlaced ? 7 : 1) {}
    const Pass* begin() const noexcept { return begin_; }
    const Pass* end() const noexcept { return begin_ + count_; }

  private:
    const Pass* begin_;
    int count_;
};

// Bytes of all rows, each with its filter's number before it.
int64_t unpacked_bytes(const PngFile& png) noexcept {
    int64_t bytes = 0;
    for (const Pass& pass : Passes(png)) {
        const int64_t columns = pass.columns(png.width);
        if (columns) bytes += pass.rows(png.height) * (1 + png.row_bytes(columns));
    }
    return bytes;
}

// --- Samples -------------------------------------------------------------------------------------------------------

template <typename T>
constexpr uint32_t full = T(-1);

template <typename T>
FB_INLINE T load(const uint8_t* bytes, int64_t index) noexcept {
    return sizeof(T) == 1 ? T(bytes[index]) : T(bytes[2 * index] << 8 | bytes[2 * index + 1]);
}

FB_INLINE uint32_t bits_at(const uint8_t* row, int64_t index, int depth) noexcept {
    const int64_t bit = index * depth;
    return uint32_t(row[bit >> 3]) >> (8 - depth - int(bit & 7)) & ((1u << depth) - 1);
}

FB_INLINE uint32_t gray_of(uint64_t red, uint64_t green, uint64_t blue) noexcept {
    return uint32_t((19595 * red + 38470 * green + 7471 * blue + 0x8000) >> 16);
}

// One pixel of red, green, blue, alpha as `channels` of the result.
template <typename T>
FB_INLINE void put(T* pixel, int64_t channels, uint32_t red, uint32_t green, uint32_t blue, uint32_t alpha,
                   bool gray) noexcept {
    if (channels >= 3) {
        pixel[0] = T(red);
        pixel[1] = T(green);
        pixel[2] = T(blue);
    } else {
        pixel[0] = T(gray ? red : gray_of(red, green, blue));
    }
    if (channels == 2 || channels == 4) pixel[channels - 1] = T(alpha);
}

// `mode` tells one channel of numbers of the palette from one of gray.
void palette_row(const PngFile& png, const uint8_t* stored, uint8_t* pixels, int64_t columns, int64_t channels,
                 int32_t mode) noexcept {
    if (mode == Unchanged) {
        for (int64_t x = 0; x < columns; ++x) pixels[x] = png.depth == 8 ? stored[x] : uint8_t(bits_at(stored, x, png.depth));
        return;
    }
    for (int64_t x = 0; x < columns; ++x, pixels += channels) {
        const uint8_t* entry = png.palette[png.depth == 8 ? stored[x] : bits_at(stored, x, png.depth)];
        put(pixels, channels, entry[0], entry[1], entry[2], entry[3], false);
    }
}

// Gray of fewer than 8 bits, spread over the whole range.
void few_bits_row(const PngFile& png, const uint8_t* stored, uint8_t* pixels, int64_t columns, int64_t channels) noexcept {
    const uint32_t scale = 255u / ((1u << png.depth) - 1);
    for (int64_t x = 0; x < columns; ++x, pixels += channels) {
        const uint32_t value = bits_at(stored, x, png.depth);
        const uint32_t alpha = png.transparent && value == png.hidden[0] ? 0 : 255;
        put(pixels, channels, value * scale, value * scale, value * scale, alpha, true);
    }
}

template <typename T>
void samples_row(const PngFile& png, const uint8_t* stored, T* pixels, int64_t columns, int64_t channels) noexcept {
    const int64_t from = png.stored_channels();
    if (from == channels) {
        if (sizeof(T) == 1)
            memcpy(pixels, stored, size_t(columns * channels));
        else
            for (int64_t i = 0; i < columns * channels; ++i) pixels[i] = load<T>(stored, i);
        return;
    }
    const bool gray = from < 3;
    for (int64_t x = 0; x < columns; ++x, pixels += channels) {
        uint32_t value[4] = {};
        for (int64_t channel = 0; channel < from; ++channel) value[channel] = load<T>(stored, from * x + channel);
        uint32_t alpha = full<T>;
        if (from % 2 == 0) {
            alpha = value[from - 1];
        } else if (png.transparent) {
            bool hidden = true;
            for (int64_t channel = 0; channel < from; ++channel) hidden &= value[channel] == png.hidden[channel];
            if (hidden) alpha = 0;
        }
        put(pixels, channels, value[0], value[gray ? 0 : 1], value[gray ? 0 : 2], alpha, gray);
    }
}

void convert_row(const PngFile& png, const uint8_t* stored, uint8_t* pixels, int64_t columns,
                 const Picture& picture) noexcept {
    const int64_t channels = picture.channels;
    if (png.colour == ColourPalette)
        palette_row(png, stored, pixels, columns, channels, picture.mode);
    else if (png.depth < 8)
        few_bits_row(png, stored, pixels, columns, channels);
    else if (png.depth == 8)
        samples_row<uint8_t>(png, stored, pixels, columns, channels);
    else
        samples_row<uint16_t>(png, stored, reinterpret_cast<uint16_t*>(pixels), columns, channels);
}

int64_t channels_of(const PngFile& png, int32_t mode) noexcept {
    if (mode != Unchanged) return mode;
    return png.stored_channels();  // of a palette the numbers of its entries, which is what masks are
}

// --- Rows ----------------------------------------------------------------------------------------------------------

// Undoes the filters of one pass in place and hands each row on. False at a filter that there is not.
template <typename Take>
bool each_row(const PngFile& png, const Pass& pass, uint8_t*& unpacked, const uint8_t* zeros, Take take) noexcept {
    const int64_t columns = pass.columns(png.width), bytes = png.row_bytes(columns);
    if (columns == 0) return true;
    const Unfilter unfilter = unfilter_of(png.pixel_bits() / 8);
    const uint8_t* above = zeros;
    for (int64_t y = pass.y; y < png.height; y += pass.y_step) {
        const uint8_t filter = *unpacked++;
        if (filter > Paeth) return false;
        unfilter(filter, unpacked, above, unpacked, bytes);
        take(unpacked, y, columns);
        above = unpacked;
        unpacked += bytes;
    }
    return true;
}

// Rows that need nothing but their filters undone go straight into the result.
bool plain_rows(const PngFile& png, const uint8_t* unpacked, const uint8_t* zeros, uint8_t* pixels) noexcept {
    const int64_t bytes = png.row_bytes(png.width);
    const Unfilter unfilter = unfilter_of(png.pixel_bits() / 8);
    const uint8_t* above = zeros;
    for (int64_t y = 0; y < png.height; ++y, above = pixels, pixels += bytes, unpacked += 1 + bytes) {
        if (*unpacked > Paeth) return false;
        unfilter(*unpacked, unpacked + 1, above, pixels, bytes);
    }
    return true;
}

bool rows(const PngFile& png, uint8_t* unpacked, const uint8_t* zeros, const Picture& picture, uint8_t* spare) noexcept {
    const int64_t pixel = picture.channels * picture.sample_bytes;
    if (!png.interlaced) {
        if (png.depth == 8 && png.colour != ColourPalette && png.stored_channels() == picture.channels)
            return plain_rows(png, unpacked, zeros, picture.pixels);
        return each_row(png, *whole, unpacked, zeros, [&](const uint8_t* stored, int64_t y, int64_t columns) {
            convert_row(png, stored, picture.pixels + y * png.width * pixel, columns, picture);
        });
    }
    for (const Pass& pass : adam7) {
        const bool sound = each_row(png, pass, unpacked, zeros, [&](const uint8_t* stored, int64_t y, int64_t columns) {
            convert_row(png, stored, spare, columns, picture);
            uint8_t* to = picture.pixels + (y * png.width + pass.x) * pixel;
            for (int64_t x = 0; x < columns; ++x, to += pass.x_step * pixel)
                memcpy(to, spare + x * pixel, size_t(pixel));
        });
        if (!sound) return false;
    }
    return true;
}

constexpr char too_much[] = "it packs more pixels than the picture has";

// Unpacks into exactly `bytes` bytes.
const char* unpack(const PngFile& png, const uint8_t* packed, uint8_t* unpacked, int64_t bytes) noexcept {
    libdeflate_decompressor* decompressor = libdeflate_alloc_decompressor();
    if (!decompressor) return "there is no memory left";
    const libdeflate_result result = libdeflate_zlib_decompress(decompressor, packed, size_t(png.packed_bytes), unpacked,
                                                                size_t(bytes), nullptr);
    libdeflate_free_decompressor(decompressor);
    switch (result) {
        case LIBDEFLATE_SUCCESS: return nullptr;
        case LIBDEFLATE_SHORT_OUTPUT: return "its pixels end before the picture does";
        case LIBDEFLATE_INSUFFICIENT_SPACE: return too_much;
        default: return "its packed pixels are damaged";
    }
}

const char* decode(Picture& picture, PngFile& png) noexcept {
    if (const char* fault = measure_pixels(picture, png)) return fault;
    const int64_t bytes = unpacked_bytes(png);
    const bool joined = png.pieces > 1;
    const Buffer packed(joined ? size_t(png.packed_bytes) : 0);
    // A row of zeros stands above the first of each pass; a spare one takes a pass's pixels before they are spread.
    const int64_t zeros = png.row_bytes(png.width) + 8;
    const Buffer unpacked{size_t(bytes + 8)};
    const Buffer above{size_t(zeros)};
    const Buffer spare(size_t(png.interlaced ? png.width * picture.channels * picture.sample_bytes : 0));
    if (!packed.bytes || !unpacked.bytes || !above.bytes || !spare.bytes) return "there is no memory left";
    memset(above.bytes, 0, size_t(zeros));
    if (joined) join_pixels(picture, png, packed.bytes);
    if (const char* fault = unpack(png, joined ? packed.bytes : png.packed, unpacked.bytes, bytes)) return fault;
    if (!rows(png, unpacked.bytes, above.bytes, picture, spare.bytes)) return "a row has a filter that there is not";
    return nullptr;
}

}  // namespace

void describe_png(Picture& picture) noexcept {
    PngFile png;
    picture.status = Done;
    if (const char* fault = read_head(picture, png)) {
        refuse(picture, Damaged, "%s", fault);
        return;
    }
    picture.height = png.height;
    picture.width = png.width;
    picture.channels = channels_of(png, picture.mode);
    picture.sample_bytes = png.depth == 16 ? 2 : 1;
    // Deflate makes at most 1032 bytes of one: a file that announces more than it can hold costs no memory.
    if (png.row_bytes(png.width) > picture.bytes * 1032 / png.height)
        refuse(picture, Damaged, "the file is too short for a picture of %lld x %lld", (long long)png.height,
               (long long)png.width);
}

void decode_png(Picture& picture) noexcept {
    PngFile png;
    picture.status = Done;
    const char* fault = read_head(picture, png);
    if (!fault && (png.height != picture.height || png.width != picture.width ||
                   channels_of(png, picture.mode) != picture.channels || (png.depth == 16) != (picture.sample_bytes == 2)))
        fault = "the file was changed while it was being decoded";
    if (!fault) fault = decode(picture, png);
    // Some writers add bytes that nobody misses; only a decoder that unpacks piece by piece can leave them.
    if (fault) refuse(picture, fault == too_much ? Unsupported : Damaged, "%s", fault);
}

}  // namespace fb::codecs
