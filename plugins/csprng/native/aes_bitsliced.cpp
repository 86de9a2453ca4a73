// AES without tables and without branches: bits of many blocks in each register, and a circuit in place of the S-box.
//
// Four blocks are 64 bytes, which are kept as eight words of 64 bits: word k holds bit k of every byte. Byte b = 4 c + r
// (column c, row r) of block n is at position 8 (4 (c mod 2) + r) + 2 n + c div 2: bytes of a word are rows, so that
// shifts of rows are shifts of words. ("A lane" below is such a group of four; vectors hold several of them.)
//
// The S-box inverts in the field of 256 elements seen as a tower of quadratic extensions (after Canright, "A Very
// Compact S-Box for AES", 2005): GF(4) with w^2 = w + 1, GF(16) with z^2 = z + w, GF(256) with y^2 = y + w z. The
// lowest bit comes first. `ops/_bitsliced.py` and `ops/_aes_triton.py` are the same in Python.

#include "aes.h"

#include <flambeau/kernel.h>

namespace aes {
namespace {

#if defined(__GNUC__)
typedef uint64_t Lanes __attribute__((vector_size(64)));
#define FB_ALWAYS __attribute__((always_inline))  // so that a clone has its own
#else
typedef uint64_t Lanes;
#define FB_ALWAYS
#endif
constexpr int lanes = int(sizeof(Lanes) / 8);
constexpr int64_t group = 4 * lanes;  // blocks worked on at once

template <typename W>
struct Four {  // an element of GF(4)
    W a, b;
};
template <typename W>
struct Sixteen {
    Four<W> low, high;
};

template <typename W>
FB_INLINE Four<W> operator^(Four<W> x, Four<W> y) {
    return {x.a ^ y.a, x.b ^ y.b};
}
template <typename W>
FB_INLINE Four<W> operator*(Four<W> x, Four<W> y) {
    const W low = x.a & y.a;
    return {low ^ (x.b & y.b), ((x.a ^ x.b) & (y.a ^ y.b)) ^ low};
}
template <typename W>
FB_INLINE Four<W> squared(Four<W> x) {  // the inverse, too
    return {x.a ^ x.b, x.b};
}
template <typename W>
FB_INLINE Four<W> times_w(Four<W> x) {
    return {x.b, x.a ^ x.b};
}

template <typename W>
FB_INLINE Sixteen<W> operator^(Sixteen<W> x, Sixteen<W> y) {
    return {x.low ^ y.low, x.high ^ y.high};
}
template <typename W>
FB_INLINE Sixteen<W> operator*(Sixteen<W> x, Sixteen<W> y) {
    const Four<W> low = x.low * y.low;
    return {low ^ times_w(x.high * y.high), ((x.low ^ x.high) * (y.low ^ y.high)) ^ low};
}
template <typename W>
FB_INLINE Sixteen<W> squared(Sixteen<W> x) {
    const Four<W> high = squared(x.high);
    return {squared(x.low) ^ times_w(high), high};
}
template <typename W>
FB_INLINE Sixteen<W> times_wz(Sixteen<W> x) {
    return {times_w(times_w(x.high)), times_w(x.low ^ x.high)};
}
template <typename W>
FB_INLINE Sixteen<W> inverse(Sixteen<W> x) {
    const Four<W> norm = times_w(squared(x.high)) ^ (x.high * x.low) ^ squared(x.low);
    const Four<W> inverted = squared(norm);
    return {(x.low ^ x.high) * inverted, x.high * inverted};
}

// In the basis of the tower; 0 stays 0.
template <typename W>
FB_INLINE void invert(W* x) {
    const Sixteen<W> low{{x[0], x[1]}, {x[2], x[3]}}, high{{x[4], x[5]}, {x[6], x[7]}};
    const Sixteen<W> inverted = inverse(times_wz(squared(high)) ^ (high * low) ^ squared(low));
    const Sixteen<W> first = (low ^ high) * inverted, second = high * inverted;
    x[0] = first.low.a, x[1] = first.low.b, x[2] = first.high.a, x[3] = first.high.b;
    x[4] = second.low.a, x[5] = second.low.b, x[6] = second.high.a, x[7] = second.high.b;
}

template <typename W>
FB_INLINE void substitute(W* x) {
    {  // into the basis of the tower
        const W a = x[1] ^ x[6], b = x[2] ^ x[5], c = x[3] ^ a, d = x[5] ^ x[7], e = x[4] ^ x[5];
        const W given0 = x[0], given1 = x[1], given2 = x[2], given4 = x[4], given7 = x[7];
        x[0] = given0 ^ given2, x[1] = given7 ^ a, x[2] = b, x[3] = given7 ^ c;
        x[4] = given1 ^ d, x[5] = a ^ e, x[6] = c ^ given4 ^ b, x[7] = d;
    }
    invert(x);
    {  // back, and through the affine map
        const W a = x[2] ^ x[4], b = x[0] ^ x[5], c = x[0] ^ x[1], d = x[6] ^ a, e = x[3] ^ x[5], f = x[3] ^ x[4];
        const W given2 = x[2], given4 = x[4], given6 = x[6], given7 = x[7];
        x[0] = ~(a ^ b), x[1] = ~(given2 ^ c), x[2] = c, x[3] = b ^ d;
        x[4] = b ^ f, x[5] = ~(a ^ e), x[6] = ~(given7 ^ given4 ^ given6), x[7] = d;
    }
}

template <typename W>
FB_INLINE void substitute_back(W* x) {
    x[0] = ~x[0], x[1] = ~x[1], x[5] = ~x[5], x[6] = ~x[6];
    {
        const W a = x[1] ^ x[2], b = x[4] ^ x[5], c = x[7] ^ a, d = x[0] ^ x[3], e = x[0] ^ x[4], f = x[3] ^ b;
        const W given1 = x[1], given6 = x[6];
        x[0] = a ^ b, x[1] = given1 ^ b, x[2] = a, x[3] = a ^ e;
        x[4] = c ^ d, x[5] = c ^ f, x[6] = d, x[7] = given6 ^ c;
    }
    invert(x);
    {
        const W a = x[1] ^ x[3], b = x[5] ^ x[6], c = a ^ b, d = x[2] ^ c;
        const W given0 = x[0], given1 = x[1], given2 = x[2], given3 = x[3], given4 = x[4], given5 = x[5], given7 = x[7];
        x[0] = given0 ^ c, x[1] = given4 ^ given7, x[2] = c, x[3] = a;
        x[4] = given7 ^ given1 ^ given5, x[5] = d, x[6] = given2 ^ given3 ^ given4 ^ b, x[7] = given7 ^ d;
    }
}

// Words of neighbouring bits become words of equal bits, and back.
template <typename W>
FB_INLINE void transpose(W* x) {
    constexpr uint64_t masks[] = {0x5555555555555555, 0x3333333333333333, 0x0f0f0f0f0f0f0f0f};
    for (int step = 0; step < 3; ++step)
        for (int i = 0; i < 8; ++i) {
            const int distance = 1 << step;
            if (i & distance) continue;
            const W moved = ((x[i] >> distance) ^ x[i + distance]) & masks[step];
            x[i] = x[i] ^ (moved << distance);
            x[i + distance] = x[i + distance] ^ moved;
        }
}

// Row r turns left by r columns. Which of the first and last two columns: neighbouring bits; which of each: halves.
template <typename W>
FB_INLINE W shifted(W x) {
    const W other = ((x >> 1) & 0x5555555555555555) | ((x & 0x5555555555555555) << 1);
    return (x & 0x000000ff000000ff) | (other & 0x00ff000000ff0000) | ((x >> 32) & 0x000000000000ff00) |
           ((other << 32) & 0x0000ff0000000000) | ((x << 32) & 0xff00000000000000) |
           ((other >> 32) & 0x00000000ff000000);
}
template <typename W>
FB_INLINE W shifted_back(W x) {
    const W other = ((x >> 1) & 0x5555555555555555) | ((x & 0x5555555555555555) << 1);
    return (x & 0x000000ff000000ff) | (other & 0x00ff000000ff0000) | ((other >> 32) & 0x000000000000ff00) |
           ((x << 32) & 0x0000ff0000000000) | ((other << 32) & 0xff00000000000000) | ((x >> 32) & 0x00000000ff000000);
}

template <typename W>
FB_INLINE W next_row(W x) {
    return ((x >> 8) & 0x00ffffff00ffffff) | ((x << 24) & 0xff000000ff000000);
}
template <typename W>
FB_INLINE W opposite_row(W x) {
    return ((x >> 16) & 0x0000ffff0000ffff) | ((x << 16) & 0xffff0000ffff0000);
}

template <typename W>
FB_INLINE void mix_columns(W* x) {
    W next[8], sum[8];
    for (int i = 0; i < 8; ++i) next[i] = next_row(x[i]), sum[i] = x[i] ^ next[i];
    for (int i = 0; i < 8; ++i) {
        x[i] = next[i] ^ opposite_row(sum[i]) ^ sum[(i + 7) % 8];
        if (i == 1 || i == 3 || i == 4) x[i] = x[i] ^ sum[7];  // x^8 = x^4 + x^3 + x + 1
    }
}

// The inverse is the same after a product with 4 x^2 + 5.
template <typename W>
FB_INLINE void unmix_columns(W* x) {
    W sum[8];
    for (int i = 0; i < 8; ++i) sum[i] = x[i] ^ opposite_row(x[i]);
    x[0] = x[0] ^ sum[6];
    x[1] = x[1] ^ sum[6] ^ sum[7];
    x[2] = x[2] ^ sum[0] ^ sum[7];
    x[3] = x[3] ^ sum[1] ^ sum[6];
    x[4] = x[4] ^ sum[2] ^ sum[6] ^ sum[7];
    x[5] = x[5] ^ sum[3] ^ sum[7];
    x[6] = x[6] ^ sum[4];
    x[7] = x[7] ^ sum[5];
    mix_columns(x);
}

// The keys of rounds as words of equal bits, the same for every block.
struct Sliced {
    uint64_t words[most_rounds + 1][8];

    explicit Sliced(const Schedule& schedule) noexcept {
        for (int round = 0; round <= schedule.rounds; ++round) {
            const uint8_t* key = schedule.keys + 16 * round;
            for (int i = 0; i < 8; ++i) words[round][i] = load64(key + 8 * (i % 2));
            transpose(words[round]);
        }
    }
    ~Sliced() {
        volatile uint64_t* all = &words[0][0];
        for (size_t i = 0; i < sizeof words / 8; ++i) all[i] = 0;
    }
};

template <typename W>
FB_INLINE void add_key(W* x, const uint64_t* key) {
    for (int i = 0; i < 8; ++i) x[i] = x[i] ^ key[i];
}

FB_INLINE void forwards(Lanes* x, const Sliced& keys, int rounds) {
    add_key(x, keys.words[0]);
    for (int round = 1; round <= rounds; ++round) {
        substitute(x);
        for (int i = 0; i < 8; ++i) x[i] = shifted(x[i]);
        if (round < rounds) mix_columns(x);
        add_key(x, keys.words[round]);
    }
}

FB_INLINE void backwards(Lanes* x, const Sliced& keys, int rounds) {
    for (int round = rounds; round >= 1; --round) {
        add_key(x, keys.words[round]);
        if (round < rounds) unmix_columns(x);
        for (int i = 0; i < 8; ++i) x[i] = shifted_back(x[i]);
        substitute_back(x);
    }
    add_key(x, keys.words[0]);
}

// Lane l has blocks 4 l to 4 l + 3.
template <typename Rounds>
FB_INLINE void all_blocks(const uint8_t* from, uint8_t* to, int64_t blocks, const Rounds& rounds) {
    for (int64_t block = 0; block < blocks; block += group) {
        const int64_t count = blocks - block < group ? blocks - block : group;
        alignas(64) uint8_t bytes[group * block_bytes] = {};
        memcpy(bytes, from + block * block_bytes, size_t(count * block_bytes));
        alignas(64) uint64_t words[8][lanes];
        for (int lane = 0; lane < lanes; ++lane)
            for (int i = 0; i < 8; ++i) words[i][lane] = load64(bytes + 64 * lane + 8 * i);
        Lanes x[8];
        memcpy(x, words, sizeof x);
        transpose(x);
        rounds(x);
        transpose(x);
        memcpy(words, x, sizeof x);
        for (int lane = 0; lane < lanes; ++lane)
            for (int i = 0; i < 8; ++i) store64(bytes + 64 * lane + 8 * i, words[i][lane]);
        memcpy(to + block * block_bytes, bytes, size_t(count * block_bytes));
    }
}

FB_CLONES void encrypt_all(const Sliced& keys, int rounds, const uint8_t* from, uint8_t* to, int64_t blocks) {
    all_blocks(from, to, blocks, [&](Lanes* x) FB_ALWAYS { forwards(x, keys, rounds); });
}
FB_CLONES void decrypt_all(const Sliced& keys, int rounds, const uint8_t* from, uint8_t* to, int64_t blocks) {
    all_blocks(from, to, blocks, [&](Lanes* x) FB_ALWAYS { backwards(x, keys, rounds); });
}

void encrypt(const Schedule& schedule, const uint8_t* from, uint8_t* to, int64_t blocks) noexcept {
    encrypt_all(Sliced(schedule), schedule.rounds, from, to, blocks);
}

void decrypt(const Schedule& schedule, const uint8_t* from, uint8_t* to, int64_t blocks) noexcept {
    decrypt_all(Sliced(schedule), schedule.rounds, from, to, blocks);
}

uint32_t substitute_word(uint32_t word) noexcept {
    uint64_t x[8] = {word};
    transpose(x);
    substitute(x);
    transpose(x);
    return uint32_t(x[0]);
}

}  // namespace

const Engine bitsliced{"bitsliced", substitute_word, encrypt, decrypt};

}  // namespace aes
