// Rows of different lengths to rows of one length, cut or padded, and back.

#include "jagged.h"

namespace rec {
namespace {

constexpr int64_t most_dims = 8;

// One number of padding as the bytes of its dtype.
struct Padding {
    alignas(16) unsigned char bytes[16] = {};
    bool zero = true;

    Padding(fb::DType dtype, double value, int64_t whole) noexcept {
        switch (dtype) {
            case fb::DType::Bool: put(uint8_t(whole != 0)); break;
            case fb::DType::UInt8: put(uint8_t(whole)); break;
            case fb::DType::Int8: put(int8_t(whole)); break;
            case fb::DType::UInt16: put(uint16_t(whole)); break;
            case fb::DType::Int16: put(int16_t(whole)); break;
            case fb::DType::UInt32: put(uint32_t(whole)); break;
            case fb::DType::Int32: put(int32_t(whole)); break;
            case fb::DType::UInt64: put(uint64_t(whole)); break;
            case fb::DType::Int64: put(whole); break;
            case fb::DType::Float16: put(fb::narrow<fb::Half>(float(value))); break;
            case fb::DType::BFloat16: put(fb::narrow<fb::BFloat16>(float(value))); break;
            case fb::DType::Float32: case fb::DType::Complex64: put(float(value)); break;
            case fb::DType::Float64: case fb::DType::Complex128: put(value); break;
            case fb::DType::Complex32: put(fb::narrow<fb::Half>(float(value))); break;
            default: break;
        }
        for (unsigned char byte : bytes) zero = zero && byte == 0;
    }

    template <typename T>
    void put(T value) noexcept {
        memcpy(bytes, &value, sizeof value);
    }
    template <typename T>
    void fill_with(char* to, int64_t count) const noexcept {
        T value;
        memcpy(&value, bytes, sizeof value);
        T* out = reinterpret_cast<T*>(to);
        for (int64_t i = 0; i < count; ++i) out[i] = value;
    }
    // `count` numbers of `size` bytes.
    void fill(char* to, int64_t count, int64_t size) const noexcept {
        if (zero || size == 1) {
            memset(to, bytes[0], size_t(count * size));
        } else if (size == 2) {
            fill_with<uint16_t>(to, count);
        } else if (size == 4) {
            fill_with<uint32_t>(to, count);
        } else if (size == 8) {
            fill_with<uint64_t>(to, count);
        } else {
            for (int64_t i = 0; i < count; ++i) memcpy(to + i * size, bytes, size_t(size));
        }
    }
};

void to_dense(fb::Call& call, const char* op, const fb::Tensor& values, const fb::Tensor& given, int64_t longest,
              double padding, int64_t whole) noexcept {
    if (values.dim < 1 || values.dim >= most_dims || values.dtype == fb::DType::Other)
        return call.fail("%s: values has shape %s and dtype %s, expected (items, ...).", op, fb::Shape(values).text,
                         fb::name(values.dtype));
    if (!check_whole(call, op, "offsets", given)) return;
    if (longest < 0) return call.fail("%s: max_length is %lld, expected 0 or more.", op, (long long)longest);
    const fb::Tensor from = call.contiguous(values), held = call.contiguous(given);
    if (!from.defined() || !held.defined()) return;
    const Whole offsets(held);
    if (!check_offsets(call, op, "offsets", offsets, from.sizes[0])) return;

    int64_t sizes[most_dims] = {offsets.count - 1, longest};
    for (int64_t i = 1; i < from.dim; ++i) sizes[i + 1] = from.sizes[i];
    fb::Tensor dense = call.empty(from.dtype, sizes, from.dim + 1);
    if (!dense.defined()) return;
    const int64_t size = fb::dtype_bytes[int32_t(from.dtype)], width = width_of(from), bytes = width * size;
    const Padding filler(from.dtype, padding, whole);
    over_rows(sizes[0], dense.numel() * size / 8, [&](int64_t begin, int64_t end) noexcept {
        for (int64_t row = begin; row < end; ++row) {
            const int64_t first = offsets[row], count = smaller(offsets[row + 1] - first, longest);
            char* to = dense.as<char>() + row * longest * bytes;
            memcpy(to, from.as<const char>() + first * bytes, size_t(count * bytes));
            filler.fill(to + count * bytes, (longest - count) * width, size);
        }
    });
    call.give(dense);
}

void jagged_to_dense(fb::Call& call, const fb::Tensor& values, const fb::Tensor& offsets, int64_t longest,
                     double padding, int64_t whole) noexcept {
    to_dense(call, "jagged_to_padded_dense", values, offsets, longest, padding, whole);
}

void jagged_1d(fb::Call& call, const fb::Tensor& values, const fb::Tensor& offsets, int64_t longest,
               int64_t padding) noexcept {
    if (values.dim != 1)
        return call.fail("jagged_1d_to_dense: values has shape %s, expected (items,).", fb::Shape(values).text);
    to_dense(call, "jagged_1d_to_dense", values, offsets, longest, double(padding), padding);
}

void jagged_2d(fb::Call& call, const fb::Tensor& values, const fb::Tensor& offsets, int64_t longest) noexcept {
    to_dense(call, "jagged_2d_to_dense", values, offsets, longest, 0.0, 0);
}

// Items beyond the dense rows, and beyond all rows, are 0.
void dense_to_jagged(fb::Call& call, const fb::Tensor& given, const fb::Tensor& given_offsets,
                     const fb::OptionalInt& wanted) noexcept {
    constexpr const char* op = "dense_to_jagged";
    if (given.dim < 2 || given.dim > most_dims || given.dtype == fb::DType::Other)
        return call.fail("%s: dense has shape %s and dtype %s, expected (rows, longest, ...).", op,
                         fb::Shape(given).text, fb::name(given.dtype));
    if (!check_whole(call, op, "x_offsets", given_offsets)) return;
    const fb::Tensor dense = call.contiguous(given), held = call.contiguous(given_offsets);
    if (!dense.defined() || !held.defined()) return;
    const Whole offsets(held);
    if (offsets.count != dense.sizes[0] + 1)
        return call.fail("%s: x_offsets has %lld entries, expected %lld: dense has shape %s, one row for each pair.", op,
                         (long long)offsets.count, (long long)(dense.sizes[0] + 1), fb::Shape(dense).text);
    const int64_t rows = dense.sizes[0], longest = dense.sizes[1];
    const int64_t total = wanted.given ? wanted.value : offsets[rows];
    if (!check_offsets(call, op, "x_offsets", offsets, total)) return;

    int64_t sizes[most_dims] = {total};
    for (int64_t i = 2; i < dense.dim; ++i) sizes[i - 1] = dense.sizes[i];
    fb::Tensor values = call.empty(dense.dtype, sizes, dense.dim - 1);
    if (!values.defined()) return;
    const int64_t bytes = width_of(dense, 2) * fb::dtype_bytes[int32_t(dense.dtype)];
    char* to = values.as<char>();
    memset(to, 0, size_t(offsets[0] * bytes));
    memset(to + offsets[rows] * bytes, 0, size_t((total - offsets[rows]) * bytes));
    over_rows(rows, total * bytes / 8, [&](int64_t begin, int64_t end) noexcept {
        for (int64_t row = begin; row < end; ++row) {
            const int64_t first = offsets[row], length = offsets[row + 1] - first, count = smaller(length, longest);
            memcpy(to + first * bytes, dense.as<const char>() + row * longest * bytes, size_t(count * bytes));
            memset(to + (first + count) * bytes, 0, size_t((length - count) * bytes));
        }
    });
    call.give(values);
}

FB_OPERATOR("_jagged_to_dense", jagged_to_dense);
FB_OPERATOR("_dense_to_jagged", dense_to_jagged);
FB_OPERATOR("jagged_1d_to_dense", jagged_1d);
FB_OPERATOR("jagged_2d_to_dense", jagged_2d);

}  // namespace
}  // namespace rec
