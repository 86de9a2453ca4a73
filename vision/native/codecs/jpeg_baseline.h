// A decoder of our own for the JPEG files that most are: sequential Huffman coding, one scan, gray or YCbCr with chroma
// at full or half resolution. It needs a processor with AVX2, gives the bits that libjpeg gives, and reads nothing but
// sound files: at anything else it says no, and libjpeg decides what the file is.

#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jpeglib.h>

namespace fb::codecs {

// A part of a picture; not empty.
struct Region {
    int64_t top, left, height, width;
};

// Decodes a file of which libjpeg has read everything before the scan.
//
//   info            as `jpeg_read_header` leaves it; not changed
//   scan, end       the compressed data, behind the scan's header, and the end of the file
//   region          what is wanted of the picture, whose sides are divided by the denominator and rounded up. Of what
//                   lies around it no more is done than finding the way through the file: what lies behind it is
//                   searched for the picture's end alone
//   pixels          [region's height, width, channels]; may be half filled when the answer is no
//   channels        1 (gray or luma) or 3 (RGB)
//   denominator     1, 2, 4 or 8
//
// Only to be called where `baseline_fits` and the processor has AVX2 and BMI2.
bool decode_baseline(const jpeg_decompress_struct& info, const uint8_t* scan, const uint8_t* end, const Region& region,
                     uint8_t* pixels, int64_t channels, int denominator) noexcept;

// Whether a file is of the kind described above.
bool baseline_fits(const jpeg_decompress_struct& info, int64_t channels, int denominator) noexcept;

}  // namespace fb::codecs
