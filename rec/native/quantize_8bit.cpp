// Rows of eight-bit whole numbers, each with a scale and a bias of its own: value = q * scale + bias.
//
// A row of D numbers is D bytes, then scale and bias as float32. Layouts of tables for inference, which can be read too,
// have them in front, or as float16.

#include "quantize.h"

namespace rec {
namespace {

template <typename S>
FB_INLINE void encode(const S* row, int64_t width, uint8_t* output) noexcept {
    float low, high;
    find_range(row, width, low, high);
    const float range = high - low, inverse = 255.0f / (range + 1e-8f);
    for (int64_t i = 0; i < width; ++i) output[i] = uint8_t(rounded((fb::widen(row[i]) - low) * inverse, 255.0f));
    write(output + width, range / 255.0f);
    write(output + width + 4, low);
}
FB_CLONES void encode_row(const float* row, int64_t width, uint8_t* output) noexcept { encode(row, width, output); }
FB_CLONES void encode_row(const fb::Half* row, int64_t width, uint8_t* output) noexcept { encode(row, width, output); }
FB_CLONES void encode_row(const fb::BFloat16* row, int64_t width, uint8_t* output) noexcept {
    encode(row, width, output);
}

template <typename S>
FB_INLINE void decode(const uint8_t* row, int64_t width, float scale, float bias, S* output) noexcept {
    for (int64_t i = 0; i < width; ++i) output[i] = given_as<S>(__builtin_fmaf(float(row[i]), scale, bias));
}
FB_CLONES void decode_row(const uint8_t* row, int64_t width, float scale, float bias, float* output) noexcept {
    decode(row, width, scale, bias, output);
}
FB_CLONES void decode_row(const uint8_t* row, int64_t width, float scale, float bias, fb::Half* output) noexcept {
    decode(row, width, scale, bias, output);
}
FB_CLONES void decode_row(const uint8_t* row, int64_t width, float scale, float bias, fb::BFloat16* output) noexcept {
    decode(row, width, scale, bias, output);
}

template <typename S>
void encode_rows(const fb::Tensor& input, fb::Tensor& output) noexcept {
    const Rows rows(input);
    each_row(rows, [&](int64_t row) noexcept {
        encode_row(input.as<S>() + row * rows.width, rows.width, output.as<uint8_t>() + row * (rows.width + 8));
    });
}

void encode_tensor(fb::Call& call, const char* name, const fb::Tensor& given, bool floats, bool halves) noexcept {
    if (!has_rows(call, name, "input", given)) return;
    const bool good = (floats && given.dtype == fb::DType::Float32) || (halves && given.dtype == fb::DType::Float16) ||
                      (floats && halves && given.dtype == fb::DType::BFloat16);
    if (!good)
        return call.fail("%s: input has dtype %s, expected %s; convert it.", name, fb::name(given.dtype),
                         !halves ? "torch.float32" : !floats ? "torch.float16" : "float32, float16 or bfloat16");
    const fb::Tensor input = call.contiguous(given);
    if (!input.defined()) return;
    fb::Tensor output = with_width(call, input, fb::DType::UInt8, input.sizes[input.dim - 1] + 8);
    if (!output.defined()) return;
    if (input.dtype == fb::DType::Float32) encode_rows<float>(input, output);
    if (input.dtype == fb::DType::Float16) encode_rows<fb::Half>(input, output);
    if (input.dtype == fb::DType::BFloat16) encode_rows<fb::BFloat16>(input, output);
    call.give(output);
}

template <typename S>
void decode_rows(const fb::Tensor& input, int64_t padding, bool last, fb::Tensor& output) noexcept {
    const Rows rows(input);
    const int64_t width = rows.width - 2 * padding;
    each_row(rows, [&](int64_t at) noexcept {
        const uint8_t* row = input.as<uint8_t>() + at * rows.width;
        const uint8_t* parameters = last ? row + width : row;
        const float scale = padding == 4 ? read<float>(parameters) : fb::widen(read<fb::Half>(parameters));
        const float bias = padding == 4 ? read<float>(parameters + 4) : fb::widen(read<fb::Half>(parameters + 2));
        decode_row(last ? row : row + 2 * padding, width, scale, bias, output.as<S>() + at * width);
    });
}

void decode_tensor(fb::Call& call, const char* name, const fb::Tensor& given, int64_t type, bool last,
                   bool floats) noexcept {
    if (!has_rows(call, name, "input", given)) return;
    const int64_t padding = floats ? 4 : 2, width = given.sizes[given.dim - 1] - 2 * padding;
    if (given.dtype != fb::DType::UInt8 || width < 0)
        return call.fail("%s: input has shape %s and dtype %s, expected (rows, columns + %d) of uint8.", name,
                         fb::Shape(given).text, fb::name(given.dtype), int(2 * padding));
    const fb::DType dtype = output_dtype(call, name, type);
    if (dtype == fb::DType::Other) return;
    const fb::Tensor input = call.contiguous(given);
    if (!input.defined()) return;
    fb::Tensor output = with_width(call, input, dtype, width);
    if (!output.defined()) return;
    if (dtype == fb::DType::Float32) decode_rows<float>(input, padding, last, output);
    if (dtype == fb::DType::Float16) decode_rows<fb::Half>(input, padding, last, output);
    if (dtype == fb::DType::BFloat16) decode_rows<fb::BFloat16>(input, padding, last, output);
    call.give(output);
}

void from_float(fb::Call& call, const fb::Tensor& input) noexcept {
    encode_tensor(call, "FloatToFused8BitRowwiseQuantized", input, true, false);
}
void from_half(fb::Call& call, const fb::Tensor& input) noexcept {
    encode_tensor(call, "HalfToFused8BitRowwiseQuantized", input, false, true);
}
void from_either(fb::Call& call, const fb::Tensor& input) noexcept {
    encode_tensor(call, "FloatOrHalfToFused8BitRowwiseQuantized", input, true, true);
}
void to_float(fb::Call& call, const fb::Tensor& input) noexcept {
    decode_tensor(call, "Fused8BitRowwiseQuantizedToFloat", input, 0, true, true);
}
void to_half(fb::Call& call, const fb::Tensor& input) noexcept {
    decode_tensor(call, "Fused8BitRowwiseQuantizedToHalf", input, 1, true, true);
}
void to_bfloat16(fb::Call& call, const fb::Tensor& input) noexcept {
    decode_tensor(call, "Fused8BitRowwiseQuantizedToBfloat16", input, 5, true, true);
}
void to_either(fb::Call& call, const fb::Tensor& input, int64_t type, bool last, bool floats) noexcept {
    decode_tensor(call, "Fused8BitRowwiseQuantizedToFloatOrHalf", input, type, last, floats);
}

FB_OPERATOR("FloatToFused8BitRowwiseQuantized", from_float);
FB_OPERATOR("HalfToFused8BitRowwiseQuantized", from_half);
FB_OPERATOR("FloatOrHalfToFused8BitRowwiseQuantized", from_either);
FB_OPERATOR("Fused8BitRowwiseQuantizedToFloat", to_float);
FB_OPERATOR("Fused8BitRowwiseQuantizedToHalf", to_half);
FB_OPERATOR("Fused8BitRowwiseQuantizedToBfloat16", to_bfloat16);
FB_OPERATOR("Fused8BitRowwiseQuantizedToFloatOrHalf", to_either);

}  // namespace
}  // namespace rec
