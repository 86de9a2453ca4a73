// A decoder of our own for the JPEG files that most are: sequential Huffman coding, one scan, gray or YCbCr with chroma
// at full or half resolution. It needs a processor with AVX2, gives the bits that libjpeg gives, and reads nothing but
// sound files: at anything else it says no, and libjpeg decides what the file is.

#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jpeglib.h>

namespace fb::codecs {

// Decodes a file of which libjpeg has read everything before the scan.
//
//   info            as `jpeg_read_header` leaves it; not changed
//   scan, end       the compressed data, behind the scan's header, and the end of the file
//   pixels          [height, width, channels], both sides divided by the denominator, rounded up; may be half filled when
//                   the answer is no
//   channels        1 (gray or luma) or 3 (RGB)
//   denominator     1, 2, 4 or 8
//
// Only to be called where `baseline_fits` and the processor has AVX2 and BMI2.
bool decode_baseline(const jpeg_decompress_struct& info, const uint8_t* scan, const uint8_t* end, uint8_t* pixels,
                     int64_t channels, int denominator) noexcept;

// Whether a file is of the kind described above.
bool baseline_fits(const jpeg_decompress_struct& info, int64_t channels, int denominator) noexcept;

}  // namespace fb::codecs
