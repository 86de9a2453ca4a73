// Hashing, bucketing and cutting of ids for recommender columns.
//
// A list column is `offsets` (rows + 1, rising from 0) and the items of all lists in one array, as Arrow's large lists
// have them. Values under missing entries are computed like any other and never looked at.

#include <flambeau/kernel.h>

#include <algorithm>

namespace {

// Thomas Wang's 64-bit integer hash.
inline uint64_t mix(uint64_t k) noexcept {
    k = ~k + (k << 21);
    k ^= k >> 24;
    k = k + (k << 3) + (k << 8);
    k ^= k >> 14;
    k = k + (k << 2) + (k << 4);
    k ^= k >> 28;
    return k + (k << 31);
}

// CityHash's join of two halves.
inline uint64_t join(uint64_t upper, uint64_t lower) noexcept {
    constexpr uint64_t multiplier = 0x9ddfea08eb382d69u;
    uint64_t a = (lower ^ upper) * multiplier;
    a ^= a >> 47;
    uint64_t b = (upper ^ a) * multiplier;
    b ^= b >> 47;
    return b * multiplier;
}

template <typename T>
void bucketize(const T* values, int64_t count, const T* borders, int64_t limits, int32_t* result) noexcept {
    for (int64_t i = 0; i < count; ++i) {
        const T x = values[i];
        int64_t place = std::lower_bound(borders, borders + limits, x) - borders;
        if (x != x) place = limits;  // not a number sorts last, as in NumPy
        if (place < limits - 1 && !(x < borders[place + 1])) ++place;
        result[i] = int32_t(place);
    }
}

template <typename T>
void cut(const int64_t* offsets, int64_t rows, int64_t most, const T* values, T* result) noexcept {
    for (int64_t row = 0; row < rows; ++row) {
        const int64_t length = std::min(offsets[row + 1] - offsets[row], most);
        result = std::copy_n(values + offsets[row], length, result);
    }
}

}  // namespace

// Numbers hashed to [0, max_value), max_value > 0.
FB_EXPORT void fb_frame_sigrid_hash(const int64_t* values, int64_t count, int64_t salt, int64_t max_value,
                                    int64_t* result) {
    if (max_value == 1) {
        std::fill_n(result, count, 0);
        return;
    }
    for (int64_t i = 0; i < count; ++i) {
        const int64_t rest = int64_t(join(uint64_t(salt), mix(uint64_t(values[i])))) % max_value;
        result[i] = rest < 0 ? rest + max_value : rest;
    }
}

// The bucket of each number among `limits` >= 1 borders that do not fall.
FB_EXPORT void fb_frame_bucketize_i32(const int32_t* x, int64_t n, const int32_t* borders, int64_t limits, int32_t* y) {
    bucketize(x, n, borders, limits, y);
}
FB_EXPORT void fb_frame_bucketize_i64(const int64_t* x, int64_t n, const int64_t* borders, int64_t limits, int32_t* y) {
    bucketize(x, n, borders, limits, y);
}
FB_EXPORT void fb_frame_bucketize_f32(const float* x, int64_t n, const float* borders, int64_t limits, int32_t* y) {
    bucketize(x, n, borders, limits, y);
}
FB_EXPORT void fb_frame_bucketize_f64(const double* x, int64_t n, const double* borders, int64_t limits, int32_t* y) {
    bucketize(x, n, borders, limits, y);
}

// The first `most` items of every list, items of 1, 2, 4 or 8 bytes. 0; -1 for items of another size.
FB_EXPORT int64_t fb_frame_firstx(const int64_t* offsets, int64_t rows, int64_t most, const void* values,
                                  int64_t item_size, void* result) {
    switch (item_size) {
        case 1:
            cut(offsets, rows, most, static_cast<const uint8_t*>(values), static_cast<uint8_t*>(result));
            return 0;
        case 2:
            cut(offsets, rows, most, static_cast<const uint16_t*>(values), static_cast<uint16_t*>(result));
            return 0;
        case 4:
            cut(offsets, rows, most, static_cast<const uint32_t*>(values), static_cast<uint32_t*>(result));
            return 0;
        case 8:
            cut(offsets, rows, most, static_cast<const uint64_t*>(values), static_cast<uint64_t*>(result));
            return 0;
        default:
            return -1;
    }
}
