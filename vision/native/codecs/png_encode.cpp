// PNG, 8 bits of 1 to 4 channels: each row with the filter that makes it smallest by the usual guess, packed by
// libdeflate.

#include "codecs.h"

#include <string.h>

#include <libdeflate.h>

#include "png_format.h"
#include "png_unfilter.h"

namespace fb::codecs {
namespace {

constexpr int filters = 5;

// libdeflate's level that packs as tightly as zlib's of the same place.
constexpr int levels[] = {0, 1, 2, 3, 5, 6, 7, 8, 9, 9};

// A filtered row's cost: the sum of its differences' magnitudes (section 12.7).
FB_INLINE uint32_t magnitude_of(uint8_t difference) noexcept {
    return difference < 128 ? difference : 256u - difference;
}

// Each of these stores the row as differences from one kind of guess and returns the cost. The row and the one above
// have `step` zeros before them.
FB_CLONES uint64_t filter_none(const uint8_t* row, uint8_t* stored, int64_t bytes) noexcept {
    uint64_t cost = 0;
    for (int64_t i = 0; i < bytes; ++i) cost += magnitude_of(stored[i] = row[i]);
    return cost;
}

FB_CLONES uint64_t filter_from(const uint8_t* row, const uint8_t* guess, uint8_t* stored, int64_t bytes) noexcept {
    uint64_t cost = 0;
    for (int64_t i = 0; i < bytes; ++i) cost += magnitude_of(stored[i] = uint8_t(row[i] - guess[i]));
    return cost;
}

FB_CLONES uint64_t filter_average(const uint8_t* row, const uint8_t* left, const uint8_t* above, uint8_t* stored,
                                  int64_t bytes) noexcept {
    uint64_t cost = 0;
    for (int64_t i = 0; i < bytes; ++i)
        cost += magnitude_of(stored[i] = uint8_t(row[i] - ((uint32_t(left[i]) + above[i]) >> 1)));
    return cost;
}

FB_CLONES uint64_t filter_paeth(const uint8_t* row, const uint8_t* left, const uint8_t* above, const uint8_t* corner,
                                uint8_t* stored, int64_t bytes) noexcept {
    uint64_t cost = 0;
    for (int64_t i = 0; i < bytes; ++i) {
        // 16 bits hold all of it, and twice as many of them fit into a register.
        const int16_t by_left = int16_t(above[i] - corner[i]), by_above = int16_t(left[i] - corner[i]);
        const int16_t both = int16_t(by_left + by_above);
        const int16_t to_left = int16_t(by_left < 0 ? -by_left : by_left);
        const int16_t to_above = int16_t(by_above < 0 ? -by_above : by_above);
        const int16_t to_corner = int16_t(both < 0 ? -both : both);
        const uint8_t upper = to_above <= to_corner ? above[i] : corner[i];
        const uint8_t guess = (to_left <= to_above) & (to_left <= to_corner) ? left[i] : upper;
        cost += magnitude_of(stored[i] = uint8_t(row[i] - guess));
    }
    return cost;
}

// `candidates` has room for a row with each filter. Returns the cheapest; the simplest of equals.
int cheapest(const uint8_t* row, const uint8_t* above, int64_t step, uint8_t* candidates, int64_t bytes) noexcept {
    uint8_t* const sub = candidates + bytes;
    const uint64_t costs[filters] = {
        filter_none(row, candidates, bytes),
        filter_from(row, row - step, sub, bytes),
        filter_from(row, above, candidates + 2 * bytes, bytes),
        filter_average(row, row - step, above, candidates + 3 * bytes, bytes),
        filter_paeth(row, row - step, above, above - step, candidates + 4 * bytes, bytes),
    };
    int best = 0;
    for (int filter = 1; filter < filters; ++filter)
        if (costs[filter] < costs[best]) best = filter;
    return best;
}

// All rows, filtered, behind one another. Needs 7 rows and 8 bytes of `scratch`.
void filter_rows(const Encoding& encoding, uint8_t* stored, uint8_t* scratch) noexcept {
    const int64_t step = encoding.channels, bytes = encoding.width * step;
    memset(scratch, 0, size_t(2 * (bytes + step)));
    uint8_t* row = scratch + step;
    uint8_t* above = row + bytes + step;
    uint8_t* const candidates = above + bytes;
    for (int64_t y = 0; y < encoding.height; ++y) {
        gather_row(encoding, y, row);
        const int filter = encoding.level == 0 ? int(None) : cheapest(row, above, step, candidates, bytes);
        *stored++ = uint8_t(filter);
        memcpy(stored, filter == None ? row : candidates + filter * bytes, size_t(bytes));
        stored += bytes;
        uint8_t* const finished = row;
        row = above;
        above = finished;
    }
}

uint8_t* write_chunk(uint8_t* place, uint32_t type, uint32_t bytes) noexcept {
    write_u32(place, bytes);
    write_u32(place + 4, type);
    write_u32(place + 8 + bytes, libdeflate_crc32(0, place + 4, bytes + 4));
    return place + 12 + bytes;
}

constexpr int64_t around_pixels = sizeof png_signature + 25 + 12 + 12;  // IHDR, the frame of IDAT, IEND

}  // namespace

const char* deflate_version() noexcept { return LIBDEFLATE_VERSION_STRING; }

int64_t png_bound(int64_t height, int64_t width, int64_t channels) noexcept {
    return around_pixels + int64_t(libdeflate_zlib_compress_bound(nullptr, size_t(height * (1 + width * channels))));
}

void encode_png(Encoding& encoding) noexcept {
    static constexpr uint8_t colours[] = {ColourGray, ColourGrayAlpha, ColourRgb, ColourRgbAlpha};
    encoding.status = Done;
    const int64_t row_bytes = encoding.width * encoding.channels, bytes = encoding.height * (1 + row_bytes);
    const Buffer stored{size_t(bytes)}, scratch{size_t(7 * row_bytes + 16)};
    libdeflate_compressor* compressor = libdeflate_alloc_compressor(levels[encoding.level]);
    if (!compressor || !stored.bytes || !scratch.bytes) {
        libdeflate_free_compressor(compressor);
        refuse(encoding, Damaged, "there is no memory left");
        return;
    }
    filter_rows(encoding, stored.bytes, scratch.bytes);
    uint8_t* place = encoding.file;
    memcpy(place, png_signature, sizeof png_signature);
    place += sizeof png_signature;
    uint8_t* const header = place + 8;
    write_u32(header, uint32_t(encoding.width));
    write_u32(header + 4, uint32_t(encoding.height));
    header[8] = 8;
    header[9] = colours[encoding.channels - 1];
    header[10] = header[11] = header[12] = 0;
    place = write_chunk(place, chunk_type("IHDR"), 13);
    const size_t packed = libdeflate_zlib_compress(compressor, stored.bytes, size_t(bytes), place + 8,
                                                   size_t(encoding.file + encoding.capacity - place - 24));
    libdeflate_free_compressor(compressor);
    if (packed == 0 || packed > INT32_MAX) {
        refuse(encoding, Damaged, "the picture is too large for one chunk of pixels");
        return;
    }
    place = write_chunk(place, chunk_type("IDAT"), uint32_t(packed));
    place = write_chunk(place, chunk_type("IEND"), 0);
    encoding.bytes = place - encoding.file;
}

}  // namespace fb::codecs
