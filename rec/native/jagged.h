// Rows of different lengths laid end to end: row b of `values` (L, ...) is items offsets[b] to offsets[b + 1].

#pragma once

#include <flambeau/kernel.h>
#include <flambeau/numbers.h>

namespace rec {

// Offsets, lengths or indices as they come: int32 or int64, without gaps. It must not outlive its tensor.
struct Whole {
    const void* data = nullptr;
    bool wide = false;
    int64_t count = 0;

    Whole() noexcept = default;
    explicit Whole(const fb::Tensor& tensor) noexcept
        : data(tensor.data), wide(tensor.dtype == fb::DType::Int64), count(tensor.numel()) {}
    int64_t operator[](int64_t at) const noexcept {
        return wide ? static_cast<const int64_t*>(data)[at] : static_cast<const int32_t*>(data)[at];
    }
};

inline bool is_whole(const fb::Tensor& tensor) noexcept {
    return tensor.dtype == fb::DType::Int32 || tensor.dtype == fb::DType::Int64;
}

// Says no to anything but a vector of whole numbers.
inline bool check_whole(fb::Call& call, const char* op, const char* what, const fb::Tensor& tensor) noexcept {
    if (tensor.dim == 1 && is_whole(tensor)) return true;
    call.fail("%s: %s has shape %s and dtype %s, expected one dimension of int32 or int64.", op, what,
              fb::Shape(tensor).text, fb::name(tensor.dtype));
    return false;
}

// Says no to offsets that are empty, decrease, or go beyond the values.
inline bool check_offsets(fb::Call& call, const char* op, const char* what, const Whole& offsets,
                          int64_t total) noexcept {
    if (!offsets.count) {
        call.fail("%s: %s is empty, expected rows + 1 entries.", op, what);
        return false;
    }
    int64_t before = 0;
    for (int64_t at = 0; at < offsets.count; ++at) {
        const int64_t here = offsets[at];
        if (here < before || here > total) {
            call.fail("%s: %s has %lld at %lld, expected %lld to %lld: offsets do not decrease, and end within the values.",
                      op, what, (long long)here, (long long)at, (long long)before, (long long)total);
            return false;
        }
        before = here;
    }
    return true;
}

// Numbers of one item: the product of all sizes but the first `skipped`.
inline int64_t width_of(const fb::Tensor& tensor, int64_t skipped = 1) noexcept {
    int64_t width = 1;
    for (int64_t i = skipped; i < tensor.dim; ++i) width *= tensor.sizes[i];
    return width;
}

inline bool same_inner(const fb::Tensor& a, int64_t skipped_a, const fb::Tensor& b, int64_t skipped_b) noexcept {
    if (a.dim - skipped_a != b.dim - skipped_b) return false;
    for (int64_t i = skipped_a; i < a.dim; ++i)
        if (a.sizes[i] != b.sizes[i - skipped_a + skipped_b]) return false;
    return true;
}

inline int64_t smaller(int64_t a, int64_t b) noexcept { return a < b ? a : b; }
inline int64_t larger(int64_t a, int64_t b) noexcept { return a > b ? a : b; }

// Calls `body(begin, end)` over pieces of the rows, on as many threads as `operations` are worth.
template <typename Body>
inline void over_rows(int64_t rows, int64_t operations, const Body& body) noexcept {
    const int64_t grain = rows * fb::serial_below / (operations + 1) + 1;
    fb::parallel_for(0, rows, grain, fb::threads(operations), body);
}

template <typename T>
struct Type {
    using type = T;
};

// Calls `body(Type<T>())` for the type of a floating dtype; false where it is another.
template <typename Body>
inline bool for_floating(fb::DType dtype, const Body& body) noexcept {
    switch (dtype) {
        case fb::DType::Float32: body(Type<float>()); return true;
        case fb::DType::Float64: body(Type<double>()); return true;
        case fb::DType::Float16: body(Type<fb::Half>()); return true;
        case fb::DType::BFloat16: body(Type<fb::BFloat16>()); return true;
        default: return false;
    }
}

// Says no to operands of two dtypes, or of one that is not floating.
inline bool check_floating(fb::Call& call, const char* op, const fb::Tensor& x, const fb::Tensor& y) noexcept {
    const bool known = for_floating(x.dtype, [](auto) noexcept {});
    if (known && x.dtype == y.dtype) return true;
    call.fail("%s: operands are %s and %s, expected one floating dtype; convert them.", op, fb::name(x.dtype),
              fb::name(y.dtype));
    return false;
}

// The same as `for_floating` for int32 and int64 as well.
template <typename Body>
inline bool for_numbers(fb::DType dtype, const Body& body) noexcept {
    if (for_floating(dtype, body)) return true;
    switch (dtype) {
        case fb::DType::Int32: body(Type<int32_t>()); return true;
        case fb::DType::Int64: body(Type<int64_t>()); return true;
        default: return false;
    }
}

// Numbers of any type as what they are computed in: half precision in float, whole numbers so that they wrap around.
template <typename T>
FB_INLINE auto widened(T value) noexcept {
    if constexpr (std::is_integral<T>::value)
        return typename std::make_unsigned<T>::type(value);
    else
        return fb::widen(value);
}
template <typename T, typename W>
FB_INLINE T narrowed(W value) noexcept {
    if constexpr (std::is_integral<T>::value)
        return T(value);
    else
        return fb::narrow<T>(value);
}

}  // namespace rec
