// Rows of whole numbers of 1, 2, 4 or 8 bits, each row with a scale and a bias of its own in float16.
//
// A row of D numbers is ceil(D * bits / 8) bytes, the first number in the lowest bits, then scale and bias. Both are
// rounded to float16 before the row is quantized by them, so that reading it knows what writing it meant.

#include "quantize.h"

namespace rec {
namespace {

struct Grid {
    float scale, inverse;
    fb::Half stored_scale, stored_low;
    float low;
};

// The grid of whole numbers that a row's range is laid on.
inline Grid grid_for(float low, float high, int bits) noexcept {
    Grid grid;
    grid.stored_low = fb::narrow<fb::Half>(low);
    grid.low = fb::widen(grid.stored_low);
    const float range = high - grid.low;
    grid.scale = range == 0.0f ? 1.0f : range / float((1 << bits) - 1);
    grid.scale = fb::widen(fb::narrow<fb::Half>(grid.scale));
    // A range that float16 takes for nothing: all is the bias.
    if (grid.scale == 0.0f) grid.scale = 1.0f;
    grid.inverse = 1.0f / grid.scale;
    if (grid.inverse - grid.inverse != 0.0f) grid.scale = grid.inverse = 1.0f;
    grid.stored_scale = fb::narrow<fb::Half>(grid.scale);
    return grid;
}

template <int bits, typename S>
FB_INLINE void pack(const S* row, int64_t width, float low, float inverse, uint8_t* output) noexcept {
    constexpr int per_byte = 8 / bits, most = (1 << bits) - 1, block = 64;
    uint8_t codes[block];
    for (int64_t from = 0; from < width; from += block) {
        const int64_t count = width - from < block ? width - from : block;
        for (int64_t i = 0; i < count; ++i)
            codes[i] = uint8_t(rounded((fb::widen(row[from + i]) - low) * inverse, float(most)));
        for (int64_t i = count; i < block; ++i) codes[i] = 0;
        uint8_t* bytes = output + from / per_byte;
        for (int64_t byte = 0; byte < (count + per_byte - 1) / per_byte; ++byte) {
            uint32_t packed = 0;
            for (int k = 0; k < per_byte; ++k) packed |= uint32_t(codes[byte * per_byte + k]) << (k * bits);
            bytes[byte] = uint8_t(packed);
        }
    }
}

template <int bits, typename S>
FB_INLINE void unpack(const uint8_t* row, int64_t width, float scale, float bias, S* output) noexcept {
    constexpr int per_byte = 8 / bits, most = (1 << bits) - 1;
    const int64_t whole = width / per_byte;
    for (int64_t byte = 0; byte < whole; ++byte)
        for (int k = 0; k < per_byte; ++k)
            output[byte * per_byte + k] =
                given_as<S>(__builtin_fmaf(float((row[byte] >> (k * bits)) & most), scale, bias));
    for (int64_t i = whole * per_byte; i < width; ++i)
        output[i] = given_as<S>(__builtin_fmaf(float((row[whole] >> (i % per_byte * bits)) & most), scale, bias));
}

// One function for each width of code and format: only plain functions are compiled for several instruction sets.
#define REC_NBIT(bits, S)                                                                                         \
    FB_CLONES void pack_row_##bits(const S* row, int64_t width, float low, float inverse, uint8_t* out) noexcept { \
        pack<bits, S>(row, width, low, inverse, out);                                                             \
    }                                                                                                             \
    FB_CLONES void unpack_row_##bits(const uint8_t* row, int64_t width, float scale, float bias, S* out) noexcept { \
        unpack<bits, S>(row, width, scale, bias, out);                                                            \
    }
#define REC_NBITS(S) REC_NBIT(1, S) REC_NBIT(2, S) REC_NBIT(4, S) REC_NBIT(8, S)
REC_NBITS(float)
REC_NBITS(fb::Half)
REC_NBITS(fb::BFloat16)
#undef REC_NBITS
#undef REC_NBIT

FB_CLONES void range_of(const float* row, int64_t width, float& low, float& high) noexcept {
    find_range(row, width, low, high);
}
FB_CLONES void range_of(const fb::Half* row, int64_t width, float& low, float& high) noexcept {
    find_range(row, width, low, high);
}
FB_CLONES void range_of(const fb::BFloat16* row, int64_t width, float& low, float& high) noexcept {
    find_range(row, width, low, high);
}

template <typename S>
void pack_any(int bits, const S* row, int64_t width, float low, float inverse, uint8_t* out) noexcept {
    switch (bits) {
        case 1: return pack_row_1(row, width, low, inverse, out);
        case 2: return pack_row_2(row, width, low, inverse, out);
        case 4: return pack_row_4(row, width, low, inverse, out);
        default: return pack_row_8(row, width, low, inverse, out);
    }
}
template <typename S>
void unpack_any(int bits, const uint8_t* row, int64_t width, float scale, float bias, S* out) noexcept {
    switch (bits) {
        case 1: return unpack_row_1(row, width, scale, bias, out);
        case 2: return unpack_row_2(row, width, scale, bias, out);
        case 4: return unpack_row_4(row, width, scale, bias, out);
        default: return unpack_row_8(row, width, scale, bias, out);
    }
}

bool bits_allowed(fb::Call& call, const char* name, int64_t bits) noexcept {
    if (bits == 1 || bits == 2 || bits == 4 || bits == 8) return true;
    call.fail("%s: bit_rate is %lld, expected 1, 2, 4 or 8.", name, (long long)bits);
    return false;
}

// `limits` are the smallest and the largest number of each row, where the caller knows better.
template <typename S>
void pack_rows(const fb::Tensor& input, const fb::Tensor* limits, int bits, fb::Tensor& output) noexcept {
    const Rows rows(input);
    const int64_t bytes = (rows.width * bits + 7) / 8;
    each_row(rows, [&](int64_t at) noexcept {
        const S* row = input.as<S>() + at * rows.width;
        uint8_t* out = output.as<uint8_t>() + at * (bytes + 4);
        float low, high;
        if (limits)
            low = fb::widen(limits->as<S>()[2 * at]), high = fb::widen(limits->as<S>()[2 * at + 1]);
        else
            range_of(row, rows.width, low, high);
        const Grid grid = grid_for(low, high, bits);
        pack_any(bits, row, rows.width, grid.low, grid.inverse, out);
        write(out + bytes, grid.stored_scale);
        write(out + bytes + 2, grid.stored_low);
    });
}

void encode_tensor(fb::Call& call, const char* name, const fb::Tensor& given, const fb::Tensor* limits, int64_t bits,
                   bool floats, bool halves) noexcept {
    if (!has_rows(call, name, "input", given) || !bits_allowed(call, name, bits)) return;
    const bool good = (floats && given.dtype == fb::DType::Float32) || (halves && given.dtype == fb::DType::Float16) ||
                      (floats && halves && given.dtype == fb::DType::BFloat16);
    if (!good)
        return call.fail("%s: input has dtype %s, expected %s; convert it.", name, fb::name(given.dtype),
                         !halves ? "torch.float32" : !floats ? "torch.float16" : "float32, float16 or bfloat16");
    const Rows rows(given);
    if (limits && (limits->dtype != given.dtype || limits->numel() != 2 * rows.count))
        return call.fail("%s: rowwise_min_max has shape %s and dtype %s, expected (%lld, 2) of the input's %s.", name,
                         fb::Shape(*limits).text, fb::name(limits->dtype), (long long)rows.count,
                         fb::name(given.dtype));
    const fb::Tensor input = call.contiguous(given);
    if (!input.defined()) return;
    fb::Tensor output = with_width(call, input, fb::DType::UInt8, (rows.width * bits + 7) / 8 + 4);
    if (!output.defined()) return;
    if (input.dtype == fb::DType::Float32) pack_rows<float>(input, limits, int(bits), output);
    if (input.dtype == fb::DType::Float16) pack_rows<fb::Half>(input, limits, int(bits), output);
    if (input.dtype == fb::DType::BFloat16) pack_rows<fb::BFloat16>(input, limits, int(bits), output);
    call.give(output);
}

template <typename S>
void unpack_rows(const fb::Tensor& input, int bits, bool last, fb::Tensor& output) noexcept {
    const Rows rows(input);
    const int64_t bytes = rows.width - 4, width = bytes * 8 / bits;
    each_row(rows, [&](int64_t at) noexcept {
        const uint8_t* row = input.as<uint8_t>() + at * rows.width;
        const uint8_t* parameters = last ? row + bytes : row;
        unpack_any(bits, last ? row : row + 4, width, fb::widen(read<fb::Half>(parameters)),
                   fb::widen(read<fb::Half>(parameters + 2)), output.as<S>() + at * width);
    });
}

void decode_tensor(fb::Call& call, const char* name, const fb::Tensor& given, int64_t bits, int64_t type,
                   bool last) noexcept {
    if (!has_rows(call, name, "input", given) || !bits_allowed(call, name, bits)) return;
    const int64_t bytes = given.sizes[given.dim - 1] - 4;
    if (given.dtype != fb::DType::UInt8 || bytes < 0)
        return call.fail("%s: input has shape %s and dtype %s, expected (rows, bytes + 4) of uint8.", name,
                         fb::Shape(given).text, fb::name(given.dtype));
    const fb::DType dtype = output_dtype(call, name, type);
    if (dtype == fb::DType::Other) return;
    const fb::Tensor input = call.contiguous(given);
    if (!input.defined()) return;
    fb::Tensor output = with_width(call, input, dtype, bytes * 8 / bits);
    if (!output.defined()) return;
    if (dtype == fb::DType::Float32) unpack_rows<float>(input, int(bits), last, output);
    if (dtype == fb::DType::Float16) unpack_rows<fb::Half>(input, int(bits), last, output);
    if (dtype == fb::DType::BFloat16) unpack_rows<fb::BFloat16>(input, int(bits), last, output);
    call.give(output);
}

void from_float(fb::Call& call, const fb::Tensor& input, int64_t bits) noexcept {
    encode_tensor(call, "FloatToFusedNBitRowwiseQuantizedSBHalf", input, nullptr, bits, true, false);
}
void from_half(fb::Call& call, const fb::Tensor& input, int64_t bits) noexcept {
    encode_tensor(call, "HalfToFusedNBitRowwiseQuantizedSBHalf", input, nullptr, bits, false, true);
}
void from_either(fb::Call& call, const fb::Tensor& input, int64_t bits) noexcept {
    encode_tensor(call, "FloatOrHalfToFusedNBitRowwiseQuantizedSBHalf", input, nullptr, bits, true, true);
}
void within_limits(fb::Call& call, const fb::Tensor& input, int64_t bits, const fb::Tensor& given) noexcept {
    const fb::Tensor limits = call.contiguous(given);
    if (!limits.defined()) return;
    encode_tensor(call, "FloatOrHalfToFusedNBitRowwiseQuantizedSBHalfWithRowwiseMinMax", input, &limits, bits, true,
                  true);
}
void to_float(fb::Call& call, const fb::Tensor& input, int64_t bits) noexcept {
    decode_tensor(call, "FusedNBitRowwiseQuantizedSBHalfToFloat", input, bits, 0, true);
}
void to_half(fb::Call& call, const fb::Tensor& input, int64_t bits) noexcept {
    decode_tensor(call, "FusedNBitRowwiseQuantizedSBHalfToHalf", input, bits, 1, true);
}
void to_either(fb::Call& call, const fb::Tensor& input, int64_t bits, int64_t type, bool last) noexcept {
    decode_tensor(call, "FusedNBitRowwiseQuantizedSBHalfToFloatOrHalf", input, bits, type, last);
}
void from_front(fb::Call& call, const fb::Tensor& input, int64_t bits, int64_t type) noexcept {
    decode_tensor(call, "FusedNBitRowwiseQuantizedSBHalfFrontToFloatOrHalf", input, bits, type, false);
}

FB_OPERATOR("FloatToFusedNBitRowwiseQuantizedSBHalf", from_float);
FB_OPERATOR("HalfToFusedNBitRowwiseQuantizedSBHalf", from_half);
FB_OPERATOR("FloatOrHalfToFusedNBitRowwiseQuantizedSBHalf", from_either);
FB_OPERATOR("FloatOrHalfToFusedNBitRowwiseQuantizedSBHalfWithRowwiseMinMax", within_limits);
FB_OPERATOR("FusedNBitRowwiseQuantizedSBHalfToFloat", to_float);
FB_OPERATOR("FusedNBitRowwiseQuantizedSBHalfToHalf", to_half);
FB_OPERATOR("FusedNBitRowwiseQuantizedSBHalfToFloatOrHalf", to_either);
FB_OPERATOR("FusedNBitRowwiseQuantizedSBHalfFrontToFloatOrHalf", from_front);

}  // namespace
}  // namespace rec
