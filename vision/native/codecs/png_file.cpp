#include "png_file.h"

#include <string.h>

#include <libdeflate.h>

namespace fb::codecs {
namespace {

struct Chunk {
    uint32_t type;
    const uint8_t* content;
    int64_t bytes;
};

// The chunk at `place`, which moves behind it. False when the file ends before.
bool next_chunk(const uint8_t*& place, const uint8_t* end, Chunk& chunk) noexcept {
    if (end - place < 12) return false;
    chunk.bytes = read_u32(place);
    if (chunk.bytes > end - place - 12) return false;
    chunk.type = read_u32(place + 4);
    chunk.content = place + 8;
    place = chunk.content + chunk.bytes + 4;
    return true;
}

bool is_intact(const Chunk& chunk) noexcept {
    return libdeflate_crc32(0, chunk.content - 4, size_t(chunk.bytes) + 4) == read_u32(chunk.content + chunk.bytes);
}

// Section 5.4: a chunk that must be understood begins with a capital.
bool is_critical(uint32_t type) noexcept { return (type >> 24 & 0x20) == 0; }

const char* read_header(const Chunk& chunk, PngFile& png) noexcept {
    if (chunk.type != chunk_type("IHDR") || chunk.bytes != 13) return "its first chunk is no IHDR";
    if (!is_intact(chunk)) return "the checksum of its header does not match";
    const uint8_t* header = chunk.content;
    png.width = read_u32(header);
    png.height = read_u32(header + 4);
    png.depth = header[8];
    png.colour = header[9];
    png.interlaced = header[12] != 0;
    if (png.width < 1 || png.height < 1 || png.width > INT32_MAX || png.height > INT32_MAX)
        return "its height or width is outside 1 to 2147483647";
    static constexpr uint8_t depths[] = {31, 0, 24, 15, 24, 0, 24};  // sums of those allowed, table 11.1
    if (png.colour > 6 || (png.depth & (png.depth - 1)) != 0 || (png.depth & depths[png.colour]) == 0)
        return "its header names a colour type or depth that there is not";
    if (header[10] != 0 || header[11] != 0 || header[12] > 1)
        return "its header names a compression, filter or interlace method that there is not";
    return nullptr;
}

const char* read_palette(const Chunk& chunk, PngFile& png) noexcept {
    if (png.colour != ColourPalette) return nullptr;  // a suggestion for poor displays
    if (chunk.bytes % 3 != 0 || chunk.bytes < 3 || chunk.bytes > 768) return "its palette has a wrong length";
    png.palette_entries = int(chunk.bytes / 3);
    for (int i = 0; i < png.palette_entries; ++i) memcpy(png.palette[i], chunk.content + 3 * i, 3);
    return nullptr;
}

void read_transparency(const Chunk& chunk, PngFile& png) noexcept {
    if (png.colour == ColourPalette) {
        if (chunk.bytes > png.palette_entries) return;
        for (int64_t i = 0; i < chunk.bytes; ++i) png.palette[i][3] = chunk.content[i];
        png.transparent = true;
    } else if (png.colour == ColourGray || png.colour == ColourRgb) {
        const int64_t channels = png.stored_channels();
        if (chunk.bytes != 2 * channels) return;
        for (int64_t i = 0; i < channels; ++i)
            png.hidden[i] = uint16_t(chunk.content[2 * i] << 8 | chunk.content[2 * i + 1]);
        png.transparent = true;
    }
}

}  // namespace

const char* read_head(const Picture& picture, PngFile& png) noexcept {
    memset(&png, 0, sizeof png);
    for (auto& entry : png.palette) entry[3] = 255;
    const uint8_t* const end = picture.data + picture.bytes;
    static const char* const cut = "the file ends before the picture does";
    if (picture.bytes < int64_t(sizeof png_signature)) return cut;
    const uint8_t* place = picture.data + sizeof png_signature;
    Chunk chunk;
    if (!next_chunk(place, end, chunk)) return cut;
    if (const char* fault = read_header(chunk, png)) return fault;
    for (;;) {
        png.pixel_chunks = place;
        if (!next_chunk(place, end, chunk)) return cut;
        if (chunk.type == chunk_type("IDAT")) break;
        if (chunk.type == chunk_type("IEND")) return "it holds no pixels";
        if (!is_intact(chunk)) {
            if (is_critical(chunk.type)) return "the checksum of a chunk does not match";
            continue;
        }
        if (chunk.type == chunk_type("PLTE")) {
            if (const char* fault = read_palette(chunk, png)) return fault;
        } else if (chunk.type == chunk_type("tRNS")) {
            read_transparency(chunk, png);
        } else if (is_critical(chunk.type)) {
            return "it has a chunk that must be understood and is unknown";
        }
    }
    return png.colour == ColourPalette && png.palette_entries == 0 ? "its palette is missing" : nullptr;
}

const char* measure_pixels(const Picture& picture, PngFile& png) noexcept {
    const uint8_t* const end = picture.data + picture.bytes;
    const uint8_t* place = png.pixel_chunks;
    Chunk chunk;
    for (;;) {
        if (!next_chunk(place, end, chunk)) return "the file ends before the picture does";
        if (chunk.type != chunk_type("IDAT")) return nullptr;
        if (!is_intact(chunk)) return "the checksum of its pixels does not match";
        if (png.pieces++ == 0) png.packed = chunk.content;
        png.packed_bytes += chunk.bytes;
    }
}

void join_pixels(const Picture& picture, const PngFile& png, uint8_t* packed) noexcept {
    const uint8_t* place = png.pixel_chunks;
    Chunk chunk;
    for (int64_t i = 0; i < png.pieces && next_chunk(place, picture.data + picture.bytes, chunk); ++i) {
        memcpy(packed, chunk.content, size_t(chunk.bytes));
        packed += chunk.bytes;
    }
}

}  // namespace fb::codecs
