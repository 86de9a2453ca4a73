// What PNG's reader and writer share (W3C, Portable Network Graphics, third edition).

#pragma once

#include <stdint.h>
#include <stdlib.h>

namespace fb::codecs {

inline constexpr uint8_t png_signature[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

// Section 11.2.1, table 11.1.
enum Colour : uint8_t { ColourGray = 0, ColourRgb = 2, ColourPalette = 3, ColourGrayAlpha = 4, ColourRgbAlpha = 6 };

// Section 9.2, table 9.1.
enum Filter : uint8_t { None, Sub, Up, Average, Paeth };

inline constexpr uint32_t chunk_type(const char (&name)[5]) noexcept {
    return uint32_t(uint8_t(name[0])) << 24 | uint32_t(uint8_t(name[1])) << 16 | uint32_t(uint8_t(name[2])) << 8 |
           uint32_t(uint8_t(name[3]));
}

inline uint32_t read_u32(const uint8_t* bytes) noexcept {
    return uint32_t(bytes[0]) << 24 | uint32_t(bytes[1]) << 16 | uint32_t(bytes[2]) << 8 | bytes[3];
}

inline void write_u32(uint8_t* bytes, uint32_t value) noexcept {
    bytes[0] = uint8_t(value >> 24);
    bytes[1] = uint8_t(value >> 16);
    bytes[2] = uint8_t(value >> 8);
    bytes[3] = uint8_t(value);
}

// Memory that may not be there; freed with the block it is in.
struct Buffer {
    explicit Buffer(size_t bytes) noexcept : bytes(static_cast<uint8_t*>(malloc(bytes ? bytes : 1))) {}
    ~Buffer() { free(bytes); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    uint8_t* const bytes;
};

}  // namespace fb::codecs
