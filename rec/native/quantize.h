// What the quantizers of rows share: how a tensor is cut into rows, and how rows are spread over threads.

#pragma once

#include <flambeau/kernel.h>
#include <flambeau/numbers.h>

namespace rec {

// All leading dimensions of a tensor count its rows.
struct Rows {
    explicit Rows(const fb::Tensor& tensor) noexcept
        : width(tensor.dim ? tensor.sizes[tensor.dim - 1] : 1), count(1) {
        for (int64_t i = 0; i + 1 < tensor.dim; ++i) count *= tensor.sizes[i];
    }
    int64_t width, count;
};

// Calls `body(row)` for each row, on as many threads as pay.
template <typename Body>
inline void each_row(const Rows& rows, const Body& body) noexcept {
    const int64_t width = rows.width > 0 ? rows.width : 1;
    fb::parallel_for(0, rows.count, fb::serial_below / width + 1, fb::threads(rows.count * width),
                     [&](int64_t begin, int64_t end) noexcept {
                         for (int64_t row = begin; row < end; ++row) body(row);
                     });
}

// A new tensor of the same leading dimensions with rows of another width.
inline fb::Tensor with_width(fb::Call& call, const fb::Tensor& like, fb::DType dtype, int64_t width) noexcept {
    int64_t sizes[16];
    const int64_t dim = like.dim < 16 ? like.dim : 16;
    for (int64_t i = 0; i < dim; ++i) sizes[i] = like.sizes[i];
    sizes[dim - 1] = width;
    return call.empty(dtype, sizes, dim);
}

// Whether a tensor has rows; complains where not.
inline bool has_rows(fb::Call& call, const char* name, const char* argument, const fb::Tensor& tensor) noexcept {
    if (tensor.dim >= 2 && tensor.dim <= 16) return true;
    call.fail("%s: %s has shape %s, expected (rows, columns).", name, argument, fb::Shape(tensor).text);
    return false;
}

// Of a row's entries that are numbers. Lanes keep the comparison free of an order that vectors could not follow.
template <typename S>
FB_INLINE void find_range(const S* row, int64_t width, float& low, float& high) noexcept {
    constexpr int lanes = 16;
    constexpr float largest = 3.402823466e+38f;
    float lows[lanes], highs[lanes];
    for (int k = 0; k < lanes; ++k) lows[k] = largest, highs[k] = -largest;
    int64_t at = 0;
    for (; at + lanes <= width; at += lanes) {
        for (int k = 0; k < lanes; ++k) {
            const float value = fb::widen(row[at + k]);
            lows[k] = value < lows[k] ? value : lows[k];
            highs[k] = value > highs[k] ? value : highs[k];
        }
    }
    low = lows[0], high = highs[0];
    for (int k = 1; k < lanes; ++k) low = lows[k] < low ? lows[k] : low, high = highs[k] > high ? highs[k] : high;
    for (; at < width; ++at) {
        const float value = fb::widen(row[at]);
        low = value < low ? value : low, high = value > high ? value : high;
    }
}

// The nearest whole number, ties to even, of a number that is limited to [0, most]; most < 2^22. What is no number is 0.
// Adding 2^23 leaves no bits for a fraction: the sum's last bits are the number.
FB_INLINE uint32_t rounded(float value, float most) noexcept {
    const float above = value > 0.0f ? value : 0.0f;
    const float limited = above < most ? above : most;
    return fb::bits<uint32_t>(limited + 0x1p23f) & 0x3fffff;
}

// Numbers that were read from rows, in the format of the output. Upstream: to bfloat16, ties go away from zero.
template <typename S>
FB_INLINE S given_as(float value) noexcept {
    return fb::narrow<S>(value);
}
template <>
FB_INLINE fb::BFloat16 given_as<fb::BFloat16>(float value) noexcept {
    const uint32_t raw = fb::bits<uint32_t>(value);
    const bool finite = (raw & 0x7f800000) != 0x7f800000;
    return {uint16_t((finite ? raw + 0x8000 : raw | (value != value ? 0x400000 : 0)) >> 16)};
}

// Numbers in rows of bytes lie at any address.
template <typename T>
FB_INLINE T read(const uint8_t* from) noexcept {
    T value;
    memcpy(&value, from, sizeof value);
    return value;
}
template <typename T>
FB_INLINE void write(uint8_t* to, T value) noexcept {
    memcpy(to, &value, sizeof value);
}

// What operators call dtypes of their results.
enum class SparseType : int64_t { FP32, FP16, INT8, INT4, INT2, BF16, FP8 };

// The floating dtype of a number; `Other` with a complaint where it has none.
inline fb::DType output_dtype(fb::Call& call, const char* name, int64_t type) noexcept {
    switch (SparseType(type)) {
        case SparseType::FP32: return fb::DType::Float32;
        case SparseType::FP16: return fb::DType::Float16;
        case SparseType::BF16: return fb::DType::BFloat16;
        default:
            call.fail("%s: output_dtype is %lld, expected 0 (float32), 1 (float16) or 5 (bfloat16).", name,
                      (long long)type);
            return fb::DType::Other;
    }
}

}  // namespace rec
