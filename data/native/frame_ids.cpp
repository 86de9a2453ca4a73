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

// h modulo `limit`, never negative. Quotients come from a product in double precision, which is a fifth of a division's
// time and can be vectorized: the first is wrong by at most 2^11 / limit + 2, the second, of what is left, by one.
struct Modulus {
    int64_t limit;
    double inverse;
    bool exact;  // too large for the estimates

    explicit Modulus(int64_t limit) noexcept
        : limit(limit), inverse(1.0 / double(limit)), exact(limit > (int64_t(1) << 60)) {}
};

FB_INLINE int64_t reduce(uint64_t h, int64_t limit, double inverse) noexcept {
    uint64_t rest = h - uint64_t(int64_t(double(int64_t(h)) * inverse)) * uint64_t(limit);
    rest -= uint64_t(int64_t(double(int64_t(rest)) * inverse)) * uint64_t(limit);
    int64_t r = int64_t(rest);
    r += r < 0 ? limit : 0;
    r += r < 0 ? limit : 0;
    return r - (r >= limit ? limit : 0);
}

FB_CLONES void hash(const int64_t* values, int64_t count, uint64_t salt, int64_t limit, double inverse,
                    int64_t* result) noexcept {
    for (int64_t i = 0; i < count; ++i) result[i] = reduce(join(salt, mix(uint64_t(values[i]))), limit, inverse);
}

void hash(const int64_t* values, int64_t count, int64_t salt, Modulus modulus, int64_t* result) noexcept {
    if (modulus.limit == 1) {
        std::fill_n(result, count, 0);
    } else if (!modulus.exact) {
        hash(values, count, uint64_t(salt), modulus.limit, modulus.inverse, result);
    } else {
        for (int64_t i = 0; i < count; ++i) {
            const int64_t rest = int64_t(join(uint64_t(salt), mix(uint64_t(values[i])))) % modulus.limit;
            result[i] = rest < 0 ? rest + modulus.limit : rest;
        }
    }
}

// Whole numbers of 1, 2, 4 or 8 bytes as int64: in `wide`, or where they are.
const int64_t* widened(const void* values, int64_t bytes, int64_t begin, int64_t count, int64_t* wide) noexcept {
    switch (bytes) {
        case 1: std::copy_n(static_cast<const int8_t*>(values) + begin, count, wide); return wide;
        case 2: std::copy_n(static_cast<const int16_t*>(values) + begin, count, wide); return wide;
        case 4: std::copy_n(static_cast<const int32_t*>(values) + begin, count, wide); return wide;
        default: return static_cast<const int64_t*>(values) + begin;
    }
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
    hash(values, count, salt, Modulus(max_value), result);
}

// Columns of whole numbers, hashed or not, laid into one array of rows: column c of row r goes to
// result[r * row_stride + c * column_stride].
//
// For each column: `values` and the `bytes` of one (1, 2, 4 or 8); `valid`, an Arrow bitmap whose first bit is number
// `first_bits`, or null where all are there (0 is written where one is not); `limits`, 0 to copy, else hashed with
// `salts` to [0, limit).
FB_EXPORT void fb_frame_hash_rows(const void* const* values, const int64_t* bytes, const uint8_t* const* valid,
                                  const int64_t* first_bits, const int64_t* salts, const int64_t* limits,
                                  int64_t columns, int64_t rows, int64_t row_stride, int64_t column_stride,
                                  int64_t threads, int64_t* result) {
    constexpr int64_t block = 512;  // rows of which all columns are written while they are in cache
    fb::parallel_for(0, (rows + block - 1) / block, 16, int32_t(threads), [=](int64_t from, int64_t to) noexcept {
        int64_t wide[block], made[block];
        for (int64_t begin = from * block, end = std::min(to * block, rows); begin < end; begin += block) {
            const int64_t count = std::min(block, end - begin);
            for (int64_t c = 0; c < columns; ++c) {
                const int64_t* source = widened(values[c], bytes[c], begin, count, wide);
                if (limits[c]) {
                    hash(source, count, salts[c], Modulus(limits[c]), made);
                    source = made;
                }
                int64_t* out = result + begin * row_stride + c * column_stride;
                if (valid[c]) {
                    for (int64_t i = 0, bit = first_bits[c] + begin; i < count; ++i, ++bit)
                        out[i * row_stride] = (valid[c][bit >> 3] >> (bit & 7)) & 1 ? source[i] : 0;
                } else {
                    for (int64_t i = 0; i < count; ++i) out[i * row_stride] = source[i];
                }
            }
        }
    });
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
