// JPEG where our own decoder was not compiled: libjpeg does it all.

#include "jpeg_baseline.h"

namespace fb::codecs {

bool baseline_fits(const jpeg_decompress_struct&, int64_t, int) noexcept { return false; }

bool decode_baseline(const jpeg_decompress_struct&, const uint8_t*, const uint8_t*, const Region&, uint8_t*, int64_t,
                     int) noexcept {
    return false;
}

}  // namespace fb::codecs
