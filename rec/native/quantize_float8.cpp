// Floats of eight bits: a sign, an exponent of few bits, the rest of the significand; every pattern is a number.
//
// Rounding is left to the processor. A power of two that is larger than the number by as many bits as are to be cut off
// is added and subtracted again: to nearest, ties to even. For numbers below the smallest normal one that power is fixed.

#include "quantize.h"

namespace rec {
namespace {

struct Format {
    int exponent_bits, exponent_bias;
    float largest;

    int significand_bits() const noexcept { return 7 - exponent_bits; }
};

FB_INLINE uint8_t encode(float value, const Format& format) noexcept {
    const uint32_t raw = fb::bits<uint32_t>(value), sign = raw & 0x80000000;
    const float positive = fb::bits<float>(raw & 0x7fffffff);
    // What is no number becomes the largest one.
    const float size = positive < format.largest ? positive : format.largest;
    const uint32_t size_bits = fb::bits<uint32_t>(size);
    const int cut = 23 - format.significand_bits();
    const float normal_step = fb::bits<float>((size_bits & 0xff800000) + (uint32_t(cut) << 23));
    const float normal = (size + normal_step) - normal_step;
    const uint32_t exponent = fb::bits<uint32_t>(normal) - (uint32_t(127 - format.exponent_bias) << 23);
    const uint32_t as_normal = ((exponent << (8 - format.exponent_bits)) | sign) >> 24;
    const float small_step =
        fb::bits<float>(uint32_t(127 + 23 + 1 - format.exponent_bias - format.significand_bits()) << 23);
    const uint32_t as_small = fb::bits<uint32_t>(size + small_step) | sign >> 24;
    const float smallest_normal = fb::bits<float>(uint32_t(128 - format.exponent_bias) << 23);
    return uint8_t(size >= smallest_normal ? as_normal : as_small);
}

FB_INLINE float decode(uint8_t byte, const Format& format) noexcept {
    const float multiplier = fb::bits<float>(uint32_t(254 - format.exponent_bias) << 23);
    const float size = fb::bits<float>(uint32_t(byte & 0x7f) << (16 + format.exponent_bits)) * multiplier;
    return fb::bits<float>(fb::bits<uint32_t>(size) | uint32_t(byte & 0x80) << 24);
}

FB_CLONES void encode_all(const float* from, int64_t count, const Format& format, uint8_t* to) noexcept {
    const Format held = format;
    for (int64_t i = 0; i < count; ++i) to[i] = encode(from[i], held);
}
FB_CLONES void decode_all(const uint8_t* from, int64_t count, const Format& format, float* to) noexcept {
    const Format held = format;
    for (int64_t i = 0; i < count; ++i) to[i] = decode(from[i], held);
}

bool format_fits(fb::Call& call, const char* name, int64_t bits, int64_t bias) noexcept {
    if (bits >= 1 && bits <= 7 && bias >= 0 && bias <= 127) return true;
    call.fail("%s: ebits is %lld and exponent_bias %lld, expected 1 to 7 and 0 to 127.", name, (long long)bits,
              (long long)bias);
    return false;
}

template <typename Body>
void in_pieces(int64_t count, const Body& body) noexcept {
    fb::parallel_for(0, count, fb::serial_below, fb::threads(count),
                     [&](int64_t begin, int64_t end) noexcept { body(begin, end - begin); });
}

void from_float(fb::Call& call, const fb::Tensor& given, int64_t bits, int64_t bias, double largest) noexcept {
    const char* name = "FloatToHFP8Quantized";
    if (given.dtype != fb::DType::Float32)
        return call.fail("%s: input has dtype %s, expected torch.float32; convert it.", name, fb::name(given.dtype));
    if (!format_fits(call, name, bits, bias)) return;
    const fb::Tensor input = call.contiguous(given);
    if (!input.defined()) return;
    fb::Tensor output = call.empty(fb::DType::UInt8, input.sizes, input.dim);
    if (!output.defined()) return;
    const Format format{int(bits), int(bias), float(largest)};
    in_pieces(input.numel(), [&](int64_t from, int64_t count) noexcept {
        encode_all(input.as<float>() + from, count, format, output.as<uint8_t>() + from);
    });
    call.give(output);
}

void to_float(fb::Call& call, const fb::Tensor& given, int64_t bits, int64_t bias) noexcept {
    const char* name = "HFP8QuantizedToFloat";
    if (given.dtype != fb::DType::UInt8)
        return call.fail("%s: input has dtype %s, expected torch.uint8.", name, fb::name(given.dtype));
    if (!format_fits(call, name, bits, bias)) return;
    const fb::Tensor input = call.contiguous(given);
    if (!input.defined()) return;
    fb::Tensor output = call.empty(fb::DType::Float32, input.sizes, input.dim);
    if (!output.defined()) return;
    const Format format{int(bits), int(bias), 0.0f};
    in_pieces(input.numel(), [&](int64_t from, int64_t count) noexcept {
        decode_all(input.as<uint8_t>() + from, count, format, output.as<float>() + from);
    });
    call.give(output);
}

// Rows with a scale: (columns rounded up to four) bytes, the factor that they were multiplied by as float32, and four bytes
// that hold how many columns of a padded row are none.
constexpr Format forward_format{4, 15, 0.9375f}, backward_format{5, 31, 0.875f};

template <typename S>
FB_INLINE void encode_scaled(const S* row, int64_t count, int64_t width, const Format& format, uint8_t* output) noexcept {
    float low, high;
    find_range(row, count, low, high);
    const float most = count ? (-low > high ? -low : high) : 0.0f;
    const float scale = format.largest / (1e-20f + (most > 0.0f ? most : 0.0f));
    const Format held = format;
    for (int64_t i = 0; i < count; ++i) output[i] = encode(fb::widen(row[i]) * scale, held);
    for (int64_t i = count; i < width; ++i) output[i] = 0;
    write(output + width, scale);
    write(output + width + 4, int32_t(width - count));
}
FB_CLONES void encode_row(const float* row, int64_t count, int64_t width, const Format& format, uint8_t* to) noexcept {
    encode_scaled(row, count, width, format, to);
}
FB_CLONES void encode_row(const fb::Half* row, int64_t count, int64_t width, const Format& format, uint8_t* to) noexcept {
    encode_scaled(row, count, width, format, to);
}
FB_CLONES void encode_row(const fb::BFloat16* row, int64_t count, int64_t width, const Format& format,
                          uint8_t* to) noexcept {
    encode_scaled(row, count, width, format, to);
}

template <typename S>
FB_INLINE void decode_scaled(const uint8_t* row, int64_t count, float scale, const Format& format, S* output) noexcept {
    const Format held = format;
    for (int64_t i = 0; i < count; ++i) output[i] = given_as<S>(decode(row[i], held) / scale);
}
FB_CLONES void decode_row(const uint8_t* row, int64_t count, float scale, const Format& format, float* to) noexcept {
    decode_scaled(row, count, scale, format, to);
}
FB_CLONES void decode_row(const uint8_t* row, int64_t count, float scale, const Format& format, fb::Half* to) noexcept {
    decode_scaled(row, count, scale, format, to);
}
FB_CLONES void decode_row(const uint8_t* row, int64_t count, float scale, const Format& format,
                          fb::BFloat16* to) noexcept {
    decode_scaled(row, count, scale, format, to);
}

template <typename S>
void encode_blocks(const fb::Tensor& input, int64_t block, const Format& format, fb::Tensor& output) noexcept {
    const Rows rows(input);
    const int64_t blocks = block ? (rows.width + block - 1) / block : 0;
    each_row(rows, [&](int64_t at) noexcept {
        for (int64_t k = 0; k < blocks; ++k) {
            const int64_t rest = rows.width - k * block, count = rest < block ? rest : block;
            // Without padding a block is a row, and its bytes end at a multiple of four.
            encode_row(input.as<S>() + at * rows.width + k * block, count, (block + 3) / 4 * 4, format,
                       output.as<uint8_t>() + at * output.sizes[output.dim - 1] + k * ((block + 3) / 4 * 4 + 8));
        }
    });
}

void encode_tensor(fb::Call& call, const char* name, const fb::Tensor& given, bool forward, int64_t block) noexcept {
    if (!has_rows(call, name, "t", given)) return;
    if (given.dtype != fb::DType::Float32 && given.dtype != fb::DType::Float16 && given.dtype != fb::DType::BFloat16)
        return call.fail("%s: t has dtype %s, expected float32, float16 or bfloat16; convert it.", name,
                         fb::name(given.dtype));
    const fb::Tensor input = call.contiguous(given);
    if (!input.defined()) return;
    const int64_t width = input.sizes[input.dim - 1];
    // A row of no columns has parameters all the same, unless it is cut into blocks.
    const int64_t step = block ? block : width, blocks = step ? (width + step - 1) / step : 1;
    fb::Tensor output = with_width(call, input, fb::DType::UInt8, blocks * ((step + 3) / 4 * 4 + 8));
    if (!output.defined()) return;
    const Format& format = forward ? forward_format : backward_format;
    if (!width && !block) {
        const Rows rows(output);
        each_row(rows, [&](int64_t row) noexcept {
            encode_row(static_cast<const float*>(nullptr), 0, 0, format, output.as<uint8_t>() + row * rows.width);
        });
    } else if (width) {
        if (input.dtype == fb::DType::Float32) encode_blocks<float>(input, step, format, output);
        if (input.dtype == fb::DType::Float16) encode_blocks<fb::Half>(input, step, format, output);
        if (input.dtype == fb::DType::BFloat16) encode_blocks<fb::BFloat16>(input, step, format, output);
    }
    call.give(output);
}

template <typename S>
void decode_blocks(const fb::Tensor& input, int64_t block, const Format& format, fb::Tensor& output) noexcept {
    const Rows rows(input), wanted(output);
    each_row(rows, [&](int64_t at) noexcept {
        for (int64_t from = 0, k = 0; from < wanted.width; from += block, ++k) {
            const uint8_t* bytes = input.as<uint8_t>() + at * rows.width + k * (block + 8);
            const int64_t count = wanted.width - from < block ? wanted.width - from : block;
            decode_row(bytes, count, read<float>(bytes + block), format, output.as<S>() + at * wanted.width + from);
        }
    });
}

void decode_tensor(fb::Call& call, const char* name, const fb::Tensor& given, bool forward, int64_t block, int64_t last,
                   int64_t type) noexcept {
    if (!has_rows(call, name, "input", given)) return;
    const int64_t width = given.sizes[given.dim - 1], step = block ? block : width - 8;
    if (given.dtype != fb::DType::UInt8 || width < 8 || width % (step + 8))
        return call.fail("%s: input has shape %s and dtype %s, expected rows of uint8 in blocks of columns + 8.", name,
                         fb::Shape(given).text, fb::name(given.dtype));
    const fb::DType dtype = output_dtype(call, name, type);
    if (dtype == fb::DType::Other) return;
    const fb::Tensor input = call.contiguous(given);
    if (!input.defined()) return;
    const int64_t blocks = width / (step + 8);
    int64_t columns = blocks * step;
    if (block && last < 0 && Rows(input).count > 0)
        columns -= read<int32_t>(input.as<uint8_t>() + width - 4);  // the padding of the first row, as of all
    if (block && last >= 0) columns = last;
    if (columns < 0 || columns > blocks * step)
        return call.fail("%s: output_last_dim is %lld, expected 0 to the %lld columns of input.", name,
                         (long long)columns, (long long)(blocks * step));
    fb::Tensor output = with_width(call, input, dtype, columns);
    if (!output.defined()) return;
    const Format& format = forward ? forward_format : backward_format;
    if (step && columns) {
        if (dtype == fb::DType::Float32) decode_blocks<float>(input, step, format, output);
        if (dtype == fb::DType::Float16) decode_blocks<fb::Half>(input, step, format, output);
        if (dtype == fb::DType::BFloat16) decode_blocks<fb::BFloat16>(input, step, format, output);
    }
    call.give(output);
}

bool block_fits(fb::Call& call, const char* name, int64_t block) noexcept {
    if (block > 0 && block % 4 == 0) return true;
    call.fail("%s: row_dim is %lld, expected a positive multiple of 4.", name, (long long)block);
    return false;
}

void rows_from_float(fb::Call& call, const fb::Tensor& input, bool forward) noexcept {
    encode_tensor(call, "FloatToFP8RowwiseQuantized", input, forward, 0);
}
void rows_to_float(fb::Call& call, const fb::Tensor& input, bool forward, int64_t type) noexcept {
    decode_tensor(call, "FP8RowwiseQuantizedToFloat", input, forward, 0, -1, type);
}
void blocks_from_float(fb::Call& call, const fb::Tensor& input, bool forward, int64_t block) noexcept {
    if (block_fits(call, "FloatToPaddedFP8RowwiseQuantized", block))
        encode_tensor(call, "FloatToPaddedFP8RowwiseQuantized", input, forward, block);
}
void blocks_to_float(fb::Call& call, const fb::Tensor& input, bool forward, int64_t block, int64_t last,
                     int64_t type) noexcept {
    if (block_fits(call, "PaddedFP8RowwiseQuantizedToFloat", block))
        decode_tensor(call, "PaddedFP8RowwiseQuantizedToFloat", input, forward, block, last, type);
}

FB_OPERATOR("FloatToFP8RowwiseQuantized", rows_from_float);
FB_OPERATOR("FP8RowwiseQuantizedToFloat", rows_to_float);
FB_OPERATOR("FloatToPaddedFP8RowwiseQuantized", blocks_from_float);
FB_OPERATOR("PaddedFP8RowwiseQuantizedToFloat", blocks_to_float);
FB_OPERATOR("FloatToHFP8Quantized", from_float);
FB_OPERATOR("HFP8QuantizedToFloat", to_float);

}  // namespace
}  // namespace rec
