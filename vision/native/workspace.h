// Memory for one call.

#pragma once

#include <stdint.h>
#include <stdlib.h>

namespace vision {

// An array that is freed at the end of its scope. Empty until `make`, which is false when there is no memory.
template <typename T>
class Array {
  public:
    Array() noexcept = default;
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;
    ~Array() { free(items_); }
    bool make(int64_t count) noexcept {
        if (count < 0 || count >= INT64_MAX / int64_t(sizeof(T))) return false;
        items_ = static_cast<T*>(malloc(size_t(count + 1) * sizeof(T)));
        return items_ != nullptr;
    }
    T* get() const noexcept { return items_; }
    T& operator[](int64_t index) const noexcept { return items_[index]; }

  private:
    T* items_ = nullptr;
};

}  // namespace vision
