// Stable sorting of pairs (key, payload) by their keys, eleven bits at a time, on several threads.

#pragma once

#include <flambeau/kernel.h>

namespace rec {

template <typename K, typename V>
struct Pair {
    K key;
    V payload;
};

constexpr int digit_bits = 11;
constexpr int64_t digits = int64_t(1) << digit_bits;
constexpr int64_t most_parts = 64;

// Memory that `radix_sort` needs besides the two arrays, in bytes.
inline size_t radix_counters(int64_t parts) noexcept { return size_t(parts * digits) * sizeof(int64_t); }

// Sorts `pairs` by the lower `bits` bits of their keys; the result is in the array that is returned, one of the two.
template <typename K, typename V>
inline Pair<K, V>* radix_sort(Pair<K, V>* pairs, Pair<K, V>* other, int64_t count, int bits, int64_t* counters,
                              int64_t parts, int32_t threads) noexcept {
    const int64_t share = (count + parts - 1) / (parts ? parts : 1);
    for (int shift = 0; shift < bits; shift += digit_bits) {
        const auto digit = [shift](const Pair<K, V>& pair) noexcept { return int64_t(pair.key >> shift) & (digits - 1); };
        fb::parallel_for(0, parts, 1, threads, [&](int64_t first, int64_t last) noexcept {
            for (int64_t part = first; part < last; ++part) {
                int64_t* mine = counters + part * digits;
                memset(mine, 0, size_t(digits) * sizeof(int64_t));
                const int64_t end = (part + 1) * share < count ? (part + 1) * share : count;
                for (int64_t i = part * share; i < end; ++i) ++mine[digit(pairs[i])];
            }
        });
        // Where each part's pairs of a digit go: behind those of smaller digits, and those of earlier parts.
        int64_t place = 0, used = 0;
        for (int64_t d = 0; d < digits; ++d) {
            const int64_t before = place;
            for (int64_t part = 0; part < parts; ++part) {
                const int64_t found = counters[part * digits + d];
                counters[part * digits + d] = place;
                place += found;
            }
            used += place != before;
        }
        if (used <= 1) continue;  // all alike in these bits
        fb::parallel_for(0, parts, 1, threads, [&](int64_t first, int64_t last) noexcept {
            for (int64_t part = first; part < last; ++part) {
                int64_t* mine = counters + part * digits;
                const int64_t end = (part + 1) * share < count ? (part + 1) * share : count;
                for (int64_t i = part * share; i < end; ++i) other[mine[digit(pairs[i])]++] = pairs[i];
            }
        });
        Pair<K, V>* sorted = other;
        other = pairs;
        pairs = sorted;
    }
    return pairs;
}

}  // namespace rec
