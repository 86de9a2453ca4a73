// The Advanced Encryption Standard (FIPS 197) on whole blocks: what its implementations have in common.

#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

namespace aes {

inline constexpr int64_t block_bytes = 16;
inline constexpr int most_rounds = 14;

// The keys of all rounds, of 16 bytes each, in the order of encryption.
struct Schedule {
    int rounds = 0;  // 10, 12 or 14
    alignas(64) uint8_t keys[(most_rounds + 1) * block_bytes];

    Schedule() noexcept = default;
    Schedule(const Schedule&) = delete;
    Schedule& operator=(const Schedule&) = delete;
    ~Schedule() {
        // Not `memset`, which compilers leave out before the end of an object's life.
        volatile uint8_t* bytes = keys;
        for (size_t i = 0; i < sizeof keys; ++i) bytes[i] = 0;
    }
};

// One implementation. Neither its time nor which memory it touches depends on keys or data. `from` may be `to`.
struct Engine {
    const char* name;
    // The S-box of each byte of a word.
    uint32_t (*substitute_word)(uint32_t word) noexcept;
    void (*encrypt)(const Schedule& schedule, const uint8_t* from, uint8_t* to, int64_t blocks) noexcept;
    void (*decrypt)(const Schedule& schedule, const uint8_t* from, uint8_t* to, int64_t blocks) noexcept;
};

extern const Engine bitsliced;
// Those of this processor's instructions, or null: 8 blocks in flight, and 32 in registers of 512 bits.
const Engine* instructions() noexcept;
const Engine* wide_instructions() noexcept;

// The one in use: the fastest, unless `fb_aes_engine` chose another.
const Engine& engine() noexcept;

// The keys of all rounds from a key of 16, 24 or 32 bytes (FIPS 197, section 5.2).
void expand(const Engine& engine, const uint8_t* key, int64_t key_bytes, Schedule& schedule) noexcept;

// Bytes of a number in the order of the name. Compilers know the processor's own order, and make one store of it.
inline uint64_t little(uint64_t value) noexcept {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return __builtin_bswap64(value);
#else
    return value;
#endif
}
inline uint64_t big(uint64_t value) noexcept {
    value = (value >> 8 & 0x00ff00ff00ff00ff) | (value & 0x00ff00ff00ff00ff) << 8;
    value = (value >> 16 & 0x0000ffff0000ffff) | (value & 0x0000ffff0000ffff) << 16;
    return little(value >> 32 | value << 32);
}

inline uint64_t load64(const uint8_t* from) noexcept {
    uint64_t value;
    memcpy(&value, from, sizeof value);
    return little(value);
}
inline void store64(uint8_t* to, uint64_t value) noexcept {
    value = little(value);
    memcpy(to, &value, sizeof value);
}

// Blocks that count: the number in the first eight bytes, little-endian, another number in the other eight.
inline void count_little(uint64_t first, uint64_t other, uint8_t* to, int64_t blocks) noexcept {
    for (int64_t i = 0; i < blocks; ++i) {
        store64(to + 16 * i, first + uint64_t(i));
        store64(to + 16 * i + 8, other);
    }
}

// Blocks that count upwards from an initial one, a big-endian number of 16 bytes (NIST SP 800-38A, appendix B.1).
inline void count_big(const uint8_t* initial, uint64_t first, uint8_t* to, int64_t blocks) noexcept {
    const uint64_t high = big(little(load64(initial))), low = big(little(load64(initial + 8))) + first;
    const uint64_t carried = high + (low < first);
    for (int64_t i = 0; i < blocks; ++i) {
        const uint64_t sum = low + uint64_t(i), above = carried + (sum < low), bytes[] = {big(above), big(sum)};
        memcpy(to + 16 * i, bytes, sizeof bytes);
    }
}

}  // namespace aes
