// Rows of a picture whose memory is laid out in any way, as files have them: the channels of a pixel side by side.

#include "codecs.h"

namespace fb::codecs {
namespace {

FB_CLONES void interleave_rgb(const uint8_t* red, const uint8_t* green, const uint8_t* blue, uint8_t* row,
                              int64_t width) noexcept {
    for (int64_t x = 0; x < width; ++x) {
        row[3 * x] = red[x];
        row[3 * x + 1] = green[x];
        row[3 * x + 2] = blue[x];
    }
}

}  // namespace

bool is_packed(const Encoding& encoding) noexcept {
    return encoding.column_stride == encoding.channels && (encoding.channels == 1 || encoding.channel_stride == 1);
}

void gather_row(const Encoding& encoding, int64_t y, uint8_t* row) noexcept {
    const uint8_t* from = encoding.pixels + y * encoding.row_stride;
    if (is_packed(encoding)) {
        memcpy(row, from, size_t(encoding.width * encoding.channels));
    } else if (encoding.channels == 3 && encoding.column_stride == 1) {
        interleave_rgb(from, from + encoding.channel_stride, from + 2 * encoding.channel_stride, row, encoding.width);
    } else {
        for (int64_t x = 0; x < encoding.width; ++x, from += encoding.column_stride)
            for (int64_t channel = 0; channel < encoding.channels; ++channel)
                *row++ = from[channel * encoding.channel_stride];
    }
}

}  // namespace fb::codecs
