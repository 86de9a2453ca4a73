// The chunks of a PNG file: what they say about the pixels, and where the packed pixels are.

#pragma once

#include "codecs.h"
#include "png_format.h"

namespace fb::codecs {

// What the chunks before the pixels say.
struct PngFile {
    int64_t height, width;
    uint8_t depth;
    uint8_t colour;
    bool interlaced;
    uint8_t palette[256][4];  // red, green, blue, alpha; entries that the file lacks are black
    int palette_entries;
    bool transparent;             // a tRNS chunk was there
    uint16_t hidden[3];           // the one gray value or colour that is transparent, as stored
    const uint8_t* pixel_chunks;  // where the first IDAT begins
    const uint8_t* packed;        // its content
    int64_t packed_bytes;         // of all IDATs
    int64_t pieces;               // IDATs

    int64_t stored_channels() const noexcept {
        static constexpr uint8_t channels[] = {1, 0, 3, 1, 2, 0, 4};
        return channels[colour];
    }
    int64_t pixel_bits() const noexcept { return stored_channels() * depth; }
    int64_t row_bytes(int64_t pixels) const noexcept { return (pixels * pixel_bits() + 7) / 8; }
};

// Reads everything up to the pixels. Says what is wrong; null when nothing is.
const char* read_head(const Picture& picture, PngFile& png) noexcept;

// Finds all of the packed pixels.
const char* measure_pixels(const Picture& picture, PngFile& png) noexcept;

// Puts packed pixels that several chunks hold behind one another.
void join_pixels(const Picture& picture, const PngFile& png, uint8_t* packed) noexcept;

}  // namespace fb::codecs
