// Tensors of indices, lengths and offsets: int32 or int64, alone or mixed.

#pragma once

#include <flambeau/kernel.h>

namespace rec {

inline bool is_index(const fb::Tensor& tensor) noexcept {
    return tensor.dtype == fb::DType::Int32 || tensor.dtype == fb::DType::Int64;
}

// One-dimensional and of integers; `call` says what is wrong otherwise.
inline bool index_vector(fb::Call& call, const char* op, const char* name, const fb::Tensor& tensor) noexcept {
    if (tensor.dim == 1 && is_index(tensor)) return true;
    call.fail("%s: %s has shape %s and dtype %s, expected (n,) of int32 or int64.", op, name, fb::Shape(tensor).text,
              fb::name(tensor.dtype));
    return false;
}

// Calls `body` with the tensor's content as `const int32_t*` or `const int64_t*`.
template <typename Body>
inline auto with_indices(const fb::Tensor& tensor, const Body& body) noexcept {
    return tensor.dtype == fb::DType::Int32 ? body(static_cast<const int32_t*>(tensor.data))
                                            : body(static_cast<const int64_t*>(tensor.data));
}

// The same for plain C functions, which are told whether the integers are of 64 bits.
template <typename Body>
inline auto with_indices(const void* data, int32_t wide, const Body& body) noexcept {
    return wide ? body(static_cast<const int64_t*>(data)) : body(static_cast<const int32_t*>(data));
}

inline int64_t index_at(const fb::Tensor& tensor, int64_t at) noexcept {
    return tensor.dtype == fb::DType::Int32 ? tensor.as<int32_t>()[at] : tensor.as<int64_t>()[at];
}

}  // namespace rec
