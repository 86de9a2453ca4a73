// JPEG (ITU-T T.81) with libjpeg-turbo: the accurate integer DCT and smooth upsampling, as everybody's default has it.

#include "codecs.h"
#include "jpeg_baseline.h"
#include "jpeg_errors.h"

#include <stdlib.h>
#include <string.h>

#include <jerror.h>

namespace fb::codecs {
namespace {

// A progressive file repeats the whole picture in each scan, and a few bytes make a scan: without a bound a small file
// keeps a machine busy for minutes. Encoders write about ten.
constexpr int most_scans = 100;

struct Decoder {
    jpeg_decompress_struct info;
    jpeg_source_mgr source;
    jpeg_progress_mgr progress;
    JpegErrors errors;
};

// --- The file, in memory as a whole --------------------------------------------------------------------------------

void nothing(j_decompress_ptr) {}

boolean end_of_file(j_decompress_ptr info) {
    give_up(reinterpret_cast<j_common_ptr>(info), "the file ends before the picture does");
}

void skip(j_decompress_ptr info, long count) {
    jpeg_source_mgr& source = *info->src;
    if (count <= 0) return;
    const size_t step = size_t(count) < source.bytes_in_buffer ? size_t(count) : source.bytes_in_buffer;
    source.next_input_byte += step;
    source.bytes_in_buffer -= step;
}

void count_scans(j_common_ptr info) {
    if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > most_scans)
        give_up(info, "it has more than 100 scans");
}

void open(Decoder& decoder, const Picture& picture) {
    jpeg_create_decompress(&decoder.info);
    decoder.source.next_input_byte = picture.data;
    decoder.source.bytes_in_buffer = size_t(picture.bytes);
    decoder.source.init_source = nothing;
    decoder.source.fill_input_buffer = end_of_file;
    decoder.source.skip_input_data = skip;
    decoder.source.resync_to_restart = jpeg_resync_to_restart;
    decoder.source.term_source = nothing;
    decoder.info.src = &decoder.source;
    decoder.progress.progress_monitor = count_scans;
    decoder.info.progress = &decoder.progress;
    jpeg_read_header(&decoder.info, TRUE);
}

// Runs `work(decoder)`, which may end in libjpeg's errors: it and all it calls hold nothing with a destructor.
template <typename Work>
void guarded(Picture& picture, Work work) noexcept {
    Decoder decoder;
    decoder.info.err = jpeg_errors(decoder.errors);
    decoder.info.mem = nullptr;  // what `jpeg_destroy` looks at, should creation itself fail
    decoder.info.client_data = nullptr;
    picture.status = Done;
    if (setjmp(decoder.errors.place) == 0) {
        open(decoder, picture);
        work(decoder);
    } else {
        char text[JMSG_LENGTH_MAX];
        describe_error(decoder.errors, text, sizeof text);
        refuse(picture, Damaged, "%s", text);
    }
    jpeg_destroy_decompress(&decoder.info);
}

// --- Channels ------------------------------------------------------------------------------------------------------

bool in_ink(const jpeg_decompress_struct& info) { return info.num_components == 4; }

int64_t channels_of(const jpeg_decompress_struct& info, int32_t mode) {
    return mode == Unchanged ? info.num_components : mode;
}

// One row of CMYK as Adobe stores it, inverted: 255 is no ink. Each ink takes its share of what black leaves.
void ink_to_rgb(const uint8_t* ink, uint8_t* rgb, int64_t width) noexcept {
    for (int64_t x = 0; x < width; ++x, ink += 4, rgb += 3) {
        for (int channel = 0; channel < 3; ++channel) {
            const uint32_t product = (255u - ink[channel]) * ink[3] + 128;
            rgb[channel] = uint8_t(ink[3] - (((product >> 8) + product) >> 8));  // product / 255, rounded
        }
    }
}

// One row of RGB into 1 to 4 channels.
void rgb_to(const uint8_t* rgb, uint8_t* pixels, int64_t width, int64_t channels) noexcept {
    for (int64_t x = 0; x < width; ++x, rgb += 3, pixels += channels) {
        if (channels >= 3)
            for (int channel = 0; channel < 3; ++channel) pixels[channel] = rgb[channel];
        else
            pixels[0] = uint8_t(luma(rgb[0], rgb[1], rgb[2]));
        if (channels == 2 || channels == 4) pixels[channels - 1] = 255;
    }
}

void choose_colours(jpeg_decompress_struct& info, int64_t channels) {
    static constexpr J_COLOR_SPACE spaces[] = {JCS_GRAYSCALE, JCS_GRAYSCALE, JCS_RGB, JCS_EXT_RGBA};
    info.out_color_space = in_ink(info) ? JCS_CMYK : spaces[channels - 1];
}

// The wanted part of one row, as libjpeg gives it, into its place. `rgb` has room for the row in three colours.
void write_row(const jpeg_decompress_struct& info, const Picture& picture, const uint8_t* row, uint8_t* rgb,
               uint8_t* pixels) noexcept {
    const int64_t width = picture.columns, channels = picture.channels;
    row += picture.left * info.output_components;
    if (in_ink(info) && picture.mode != Unchanged) {
        ink_to_rgb(row, rgb, width);
        rgb_to(rgb, pixels, width, channels);
    } else if (channels == 2) {
        for (int64_t x = 0; x < width; ++x) pixels[2 * x] = row[x], pixels[2 * x + 1] = 255;
    } else {
        memcpy(pixels, row, size_t(width * channels));
    }
}

// Reads the wanted rows. Those above are decoded and forgotten; those below are not even decoded.
void read_rows(jpeg_decompress_struct& info, const Picture& picture) {
    const int64_t width = info.output_width, channels = picture.channels;
    const bool as_they_are = picture.columns == width && channels != 2 && (!in_ink(info) || picture.mode == Unchanged);
    // libjpeg frees it with itself, also when it ends in an error.
    uint8_t* const row = static_cast<uint8_t*>(
        (*info.mem->alloc_large)(reinterpret_cast<j_common_ptr>(&info), JPOOL_IMAGE, size_t(width) * 7));
    JSAMPROW rows[16] = {row};
    while (int64_t(info.output_scanline) < picture.top) jpeg_read_scanlines(&info, rows, 1);
    uint8_t* pixels = picture.pixels;
    for (int64_t left = picture.rows; left > 0;) {
        unsigned count = 1;
        if (as_they_are) {  // as many rows as libjpeg may make at a time
            count = left < 16 ? unsigned(left) : 16;
            for (unsigned i = 0; i < count; ++i) rows[i] = pixels + int64_t(i) * width * channels;
        }
        count = jpeg_read_scanlines(&info, rows, count);
        if (!as_they_are) write_row(info, picture, row, row + width * 4, pixels);
        pixels += int64_t(count) * picture.columns * channels;
        left -= count;
    }
}

// Looks for the marker behind the compressed data, which a file that was cut off does not have.
void find_end(jpeg_decompress_struct& info) {
    const uint8_t* at = info.src->next_input_byte;
    const uint8_t* const end = at + info.src->bytes_in_buffer;
    const auto ends = [](int marker) noexcept { return marker != 0 && marker != 0xff && (marker < 0xd0 || marker > 0xd7); };
    bool found = ends(info.unread_marker) || jpeg_input_complete(&info);
    for (; !found && end - at >= 2; ++at) {
        at = static_cast<const uint8_t*>(memchr(at, 0xff, size_t(end - at - 1)));
        if (!at) break;
        found = ends(at[1]);
    }
    if (!found) end_of_file(&info);
}

bool has_avx2() noexcept {
#if defined(__x86_64__) && defined(__GNUC__)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
#else
    return false;
#endif
}

// Our own decoder, where it serves.
bool decode_quickly(const jpeg_decompress_struct& info, const Picture& picture) noexcept {
    const Region region = {picture.top, picture.left, picture.rows, picture.columns};
    return has_avx2() && baseline_fits(info, picture.channels, picture.denominator) &&
           decode_baseline(info, info.src->next_input_byte, picture.data + picture.bytes, region, picture.pixels,
                           picture.channels, picture.denominator);
}

}  // namespace

void describe_jpeg(Picture& picture) noexcept {
    guarded(picture, [&picture](Decoder& decoder) {
        const jpeg_decompress_struct& info = decoder.info;
        if (info.num_components != 1 && info.num_components != 3 && info.num_components != 4) {
            refuse(picture, Damaged, "it has %d colour components; 1, 3 or 4 were expected", info.num_components);
            return;
        }
        picture.height = info.image_height;
        picture.width = info.image_width;
        picture.channels = channels_of(info, picture.mode);
        picture.sample_bytes = 1;
        // Huffman codes take at least a bit for each block of 64 samples: a file that announces more than it can hold
        // costs no memory.
        if (!info.arith_code && picture.height * picture.width / 64 > picture.bytes * 8)
            refuse(picture, Damaged, "the file is too short for a picture of %lld x %lld", (long long)picture.height,
                   (long long)picture.width);
    });
}

void decode_jpeg(Picture& picture) noexcept {
    guarded(picture, [&picture](Decoder& decoder) {
        jpeg_decompress_struct& info = decoder.info;
        if (int64_t(info.image_height) != picture.height || int64_t(info.image_width) != picture.width ||
            channels_of(info, picture.mode) != picture.channels) {
            refuse(picture, Damaged, "the file was changed while it was being decoded");
            return;
        }
        if (decode_quickly(info, picture)) return;
        choose_colours(info, picture.channels);
        info.scale_num = 1;
        info.scale_denom = unsigned(picture.denominator);
        jpeg_start_decompress(&info);
        read_rows(info, picture);
        if (info.output_scanline < info.output_height)
            find_end(info);
        else
            jpeg_finish_decompress(&info);  // what follows the last row tells whether the file is sound
    });
}

}  // namespace fb::codecs
