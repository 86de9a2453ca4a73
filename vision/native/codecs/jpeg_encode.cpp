// JPEG with libjpeg-turbo: baseline, the default tables scaled by the quality, chroma at half the resolution.

#include "codecs.h"
#include "jpeg_errors.h"

namespace fb::codecs {
namespace {

struct Encoder {
    jpeg_compress_struct info;
    jpeg_destination_mgr destination;
    JpegErrors errors;
};

void nothing(j_compress_ptr) {}

boolean full(j_compress_ptr info) {
    give_up(reinterpret_cast<j_common_ptr>(info), "the file is larger than its bound");
}

void write(Encoder& encoder, Encoding& encoding) {
    jpeg_compress_struct& info = encoder.info;
    jpeg_create_compress(&info);
    encoder.destination.next_output_byte = encoding.file;
    encoder.destination.free_in_buffer = size_t(encoding.capacity);
    encoder.destination.init_destination = nothing;
    encoder.destination.empty_output_buffer = full;
    encoder.destination.term_destination = nothing;
    info.dest = &encoder.destination;
    info.image_height = JDIMENSION(encoding.height);
    info.image_width = JDIMENSION(encoding.width);
    info.input_components = int(encoding.channels);
    info.in_color_space = encoding.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&info);
    jpeg_set_quality(&info, encoding.level, TRUE);
    jpeg_start_compress(&info, TRUE);

    uint8_t* row = nullptr;
    if (!is_packed(encoding))
        row = static_cast<uint8_t*>((*info.mem->alloc_large)(reinterpret_cast<j_common_ptr>(&info), JPOOL_IMAGE,
                                                             size_t(encoding.width * encoding.channels)));
    for (int64_t y = 0; y < encoding.height; ++y) {
        if (row) gather_row(encoding, y, row);
        JSAMPROW rows[] = {row ? row : const_cast<uint8_t*>(encoding.pixels + y * encoding.row_stride)};
        jpeg_write_scanlines(&info, rows, 1);
    }
    jpeg_finish_compress(&info);
    encoding.bytes = encoder.destination.next_output_byte - encoding.file;
}

}  // namespace

// A coefficient takes at most 16 bits of code and 11 of value, so that four bytes leave room for escapes; chroma at half
// the resolution makes three components as much as one and a half, of sides rounded up to whole blocks. What is not
// written to costs no memory.
int64_t jpeg_bound(int64_t height, int64_t width, int64_t channels) noexcept {
    const int64_t padded = ((height + 15) / 16 * 16) * ((width + 15) / 16 * 16);
    return padded * (channels == 1 ? 4 : 6) + 2048;
}

void encode_jpeg(Encoding& encoding) noexcept {
    if (encoding.height > JPEG_MAX_DIMENSION || encoding.width > JPEG_MAX_DIMENSION) {
        refuse(encoding, Damaged, "a JPEG file has at most %ld pixels a side, this picture is %lld x %lld",
               long(JPEG_MAX_DIMENSION), (long long)encoding.height, (long long)encoding.width);
        return;
    }
    Encoder encoder;
    encoder.info.err = jpeg_errors(encoder.errors);
    encoder.info.mem = nullptr;
    encoder.info.client_data = nullptr;
    encoding.status = Done;
    if (setjmp(encoder.errors.place) == 0) {
        write(encoder, encoding);
    } else {
        char text[JMSG_LENGTH_MAX];
        describe_error(encoder.errors, text, sizeof text);
        refuse(encoding, Damaged, "%s", text);
    }
    jpeg_destroy_compress(&encoder.info);
}

}  // namespace fb::codecs
