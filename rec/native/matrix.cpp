// Products of small matrices, compiled for several instruction sets.

#include "matrix.h"

namespace rec {

#define REC_MATRIX(T)                                                                          \
    FB_CLONES void multiply(const Product<T>& product) noexcept { multiply_all(product); }     \
    FB_CLONES fb::Wide<T> dot(const T* a, const T* b, int64_t count) noexcept { return dot_all(a, b, count); }
REC_MATRIX(float)
REC_MATRIX(double)
REC_MATRIX(fb::Half)
REC_MATRIX(fb::BFloat16)
#undef REC_MATRIX

}  // namespace rec
