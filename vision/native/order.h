// A stable sort of items by integer keys.

#pragma once

#include <stdint.h>
#include <string.h>

#include <utility>

namespace vision {

struct Keyed {
    uint64_t key;
    int64_t item;
};

inline void insertion_sort(Keyed* rows, int64_t count) noexcept {
    for (int64_t i = 1; i < count; ++i) {
        const Keyed row = rows[i];
        int64_t j = i;
        for (; j > 0 && rows[j - 1].key > row.key; --j) rows[j] = rows[j - 1];
        rows[j] = row;
    }
}

// Ascending by key, equal keys in their given order. `spare` is as long as `rows`; the result is in the one returned.
// Least significant byte first; bytes in which all keys agree cost one look.
inline Keyed* sort_stable(Keyed* rows, Keyed* spare, int64_t count) noexcept {
    if (count <= 48) {
        insertion_sort(rows, count);
        return rows;
    }
    uint64_t differ = 0;
    for (int64_t i = 1; i < count; ++i) differ |= rows[i].key ^ rows[0].key;
    for (int shift = 0; shift < 64; shift += 8) {
        if ((differ >> shift & 0xff) == 0) continue;
        int64_t place[257] = {};
        for (int64_t i = 0; i < count; ++i) ++place[(rows[i].key >> shift & 0xff) + 1];
        for (int digit = 0; digit < 256; ++digit) place[digit + 1] += place[digit];
        for (int64_t i = 0; i < count; ++i) spare[place[rows[i].key >> shift & 0xff]++] = rows[i];
        std::swap(rows, spare);
    }
    return rows;
}

}  // namespace vision
