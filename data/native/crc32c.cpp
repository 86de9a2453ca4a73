// CRC-32C (Castagnoli), the checksum of TFRecord frames and of shard indexes: reflected polynomial 0x82F63B78.
//
// Eight bytes a step by eight tables ("slicing by eight", Kounavis and Berry 2005): portable, about a byte a cycle and more.

#include <flambeau/kernel.h>

namespace {

struct Tables {
    uint32_t at[8][256];

    Tables() noexcept {
        for (uint32_t byte = 0; byte < 256; ++byte) {
            uint32_t rest = byte;
            for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ ((rest & 1) ? 0x82F63B78u : 0u);
            at[0][byte] = rest;
        }
        for (int row = 1; row < 8; ++row) {
            for (uint32_t byte = 0; byte < 256; ++byte) {
                const uint32_t before = at[row - 1][byte];
                at[row][byte] = (before >> 8) ^ at[0][before & 0xFF];
            }
        }
    }
};

inline uint32_t little(const uint8_t* bytes) noexcept {
    return uint32_t(bytes[0]) | uint32_t(bytes[1]) << 8 | uint32_t(bytes[2]) << 16 | uint32_t(bytes[3]) << 24;
}

}  // namespace

// The checksum of `size` bytes that follow bytes whose checksum is `before` (0 at the beginning).
FB_EXPORT uint32_t fb_crc32c(const uint8_t* bytes, int64_t size, uint32_t before) {
    static const Tables tables;
    const auto& t = tables.at;
    uint32_t crc = ~before;
    for (; size >= 8; size -= 8, bytes += 8) {
        const uint32_t low = crc ^ little(bytes);
        const uint32_t high = little(bytes + 4);
        crc = t[7][low & 0xFF] ^ t[6][low >> 8 & 0xFF] ^ t[5][low >> 16 & 0xFF] ^ t[4][low >> 24] ^ t[3][high & 0xFF] ^
              t[2][high >> 8 & 0xFF] ^ t[1][high >> 16 & 0xFF] ^ t[0][high >> 24];
    }
    for (; size > 0; --size, ++bytes) crc = (crc >> 8) ^ t[0][(crc ^ *bytes) & 0xFF];
    return ~crc;
}
