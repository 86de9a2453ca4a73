// AES by the instructions of x86-64 and AArch64 processors, chosen when the library runs.

#include "aes.h"

#include <flambeau/kernel.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define FB_AES __attribute__((target("aes,sse4.1")))
#define FB_VAES __attribute__((target("vaes,avx512f,aes")))

namespace aes {
namespace {

FB_AES uint32_t substitute_word(uint32_t word) noexcept {
    // The instruction gives the S-box of the second word first; what it does to the others is not asked for.
    return uint32_t(_mm_cvtsi128_si32(_mm_aeskeygenassist_si128(_mm_set_epi32(0, 0, int(word), 0), 0)));
}

struct Keys {
    __m128i round[most_rounds + 1];
};

FB_AES inline void load(const Schedule& schedule, Keys& keys) noexcept {
    for (int i = 0; i <= schedule.rounds; ++i)
        keys.round[i] = _mm_load_si128(reinterpret_cast<const __m128i*>(schedule.keys) + i);
}

// For the instruction that decrypts a round: its keys in the other order, their columns unmixed.
FB_AES inline void load_back(const Schedule& schedule, Keys& keys) noexcept {
    for (int i = 0; i <= schedule.rounds; ++i) {
        const __m128i key = _mm_load_si128(reinterpret_cast<const __m128i*>(schedule.keys) + schedule.rounds - i);
        keys.round[i] = i == 0 || i == schedule.rounds ? key : _mm_aesimc_si128(key);
    }
}

// An instruction takes several cycles, and each cycle can begin another: the others work on other blocks meanwhile.
constexpr int in_flight = 8;

template <bool back>
FB_AES inline void blocks_of(const Keys& keys, int rounds, const uint8_t* from, uint8_t* to, int count) noexcept {
    __m128i x[in_flight];
    for (int i = 0; i < count; ++i)
        x[i] = _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from) + i), keys.round[0]);
    for (int round = 1; round < rounds; ++round)
        for (int i = 0; i < count; ++i)
            x[i] = back ? _mm_aesdec_si128(x[i], keys.round[round]) : _mm_aesenc_si128(x[i], keys.round[round]);
    for (int i = 0; i < count; ++i) {
        x[i] = back ? _mm_aesdeclast_si128(x[i], keys.round[rounds]) : _mm_aesenclast_si128(x[i], keys.round[rounds]);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to) + i, x[i]);
    }
}

template <bool back>
FB_AES void all_blocks(const Schedule& schedule, const uint8_t* from, uint8_t* to, int64_t blocks) noexcept {
    Keys keys;
    back ? load_back(schedule, keys) : load(schedule, keys);
    int64_t block = 0;
    for (; block + in_flight <= blocks; block += in_flight)
        blocks_of<back>(keys, schedule.rounds, from + 16 * block, to + 16 * block, in_flight);
    for (; block < blocks; ++block) blocks_of<back>(keys, schedule.rounds, from + 16 * block, to + 16 * block, 1);
}

FB_VAES inline __m512i everywhere(__m128i key) noexcept { return _mm512_maskz_broadcast_i32x4(0xffff, key); }

// Four blocks in a register, eight registers in flight.
template <bool back>
FB_VAES void all_blocks_wide(const Schedule& schedule, const uint8_t* from, uint8_t* to, int64_t blocks) noexcept {
    Keys keys;
    back ? load_back(schedule, keys) : load(schedule, keys);
    const int rounds = schedule.rounds;
    int64_t block = 0;
    for (; block + 4 * in_flight <= blocks; block += 4 * in_flight) {
        const __m512i* source = reinterpret_cast<const __m512i*>(from + 16 * block);
        __m512i* target = reinterpret_cast<__m512i*>(to + 16 * block);
        __m512i x[in_flight];
        __m512i key = everywhere(keys.round[0]);
        for (int i = 0; i < in_flight; ++i) x[i] = _mm512_xor_si512(_mm512_loadu_si512(source + i), key);
        for (int round = 1; round < rounds; ++round) {
            key = everywhere(keys.round[round]);
            for (int i = 0; i < in_flight; ++i)
                x[i] = back ? _mm512_aesdec_epi128(x[i], key) : _mm512_aesenc_epi128(x[i], key);
        }
        key = everywhere(keys.round[rounds]);
        for (int i = 0; i < in_flight; ++i) {
            x[i] = back ? _mm512_aesdeclast_epi128(x[i], key) : _mm512_aesenclast_epi128(x[i], key);
            _mm512_storeu_si512(target + i, x[i]);
        }
    }
    if (block < blocks) all_blocks<back>(schedule, from + 16 * block, to + 16 * block, blocks - block);
}

const Engine narrow{"AES instructions", substitute_word, all_blocks<false>, all_blocks<true>};
const Engine wide{"AES instructions on 512 bits", substitute_word, all_blocks_wide<false>, all_blocks_wide<true>};

}  // namespace

const Engine* instructions() noexcept {
    return __builtin_cpu_supports("aes") && __builtin_cpu_supports("sse4.1") ? &narrow : nullptr;
}

const Engine* wide_instructions() noexcept {
    return instructions() && __builtin_cpu_supports("vaes") && __builtin_cpu_supports("avx512f") ? &wide : nullptr;
}

}  // namespace aes

#elif defined(__aarch64__) && defined(__GNUC__) && defined(__ORDER_LITTLE_ENDIAN__) && \
    __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#include <arm_neon.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif

#if defined(__clang__)
#define FB_AES __attribute__((target("aes")))
#else
#define FB_AES __attribute__((target("+crypto")))
#endif

namespace aes {
namespace {

FB_AES uint32_t substitute_word(uint32_t word) noexcept {
    // The instruction shifts rows as well, which changes nothing where all columns are the word.
    return vgetq_lane_u32(vreinterpretq_u32_u8(vaeseq_u8(vreinterpretq_u8_u32(vdupq_n_u32(word)), vdupq_n_u8(0))), 0);
}

struct Keys {
    uint8x16_t round[most_rounds + 1];
};

template <bool back>
FB_AES inline void load(const Schedule& schedule, Keys& keys) noexcept {
    for (int i = 0; i <= schedule.rounds; ++i) {
        const uint8x16_t key = vld1q_u8(schedule.keys + 16 * (back ? schedule.rounds - i : i));
        keys.round[i] = back && i != 0 && i != schedule.rounds ? vaesimcq_u8(key) : key;
    }
}

// A round's two instructions are done as one where they follow each other; other blocks are worked on meanwhile.
constexpr int in_flight = 8;

template <bool back, int count>
FB_AES inline void blocks_of(const Keys& keys, int rounds, const uint8_t* from, uint8_t* to) noexcept {
    uint8x16_t x[count];
    for (int i = 0; i < count; ++i) x[i] = vld1q_u8(from + 16 * i);
    for (int round = 0; round < rounds - 1; ++round)
        for (int i = 0; i < count; ++i)
            x[i] = back ? vaesimcq_u8(vaesdq_u8(x[i], keys.round[round])) : vaesmcq_u8(vaeseq_u8(x[i], keys.round[round]));
    const uint8x16_t last = keys.round[rounds - 1];
    for (int i = 0; i < count; ++i) {
        x[i] = veorq_u8(back ? vaesdq_u8(x[i], last) : vaeseq_u8(x[i], last), keys.round[rounds]);
        vst1q_u8(to + 16 * i, x[i]);
    }
}

template <bool back>
FB_AES void all_blocks(const Schedule& schedule, const uint8_t* from, uint8_t* to, int64_t blocks) noexcept {
    Keys keys;
    load<back>(schedule, keys);
    int64_t block = 0;
    for (; block + in_flight <= blocks; block += in_flight)
        blocks_of<back, in_flight>(keys, schedule.rounds, from + 16 * block, to + 16 * block);
    for (; block < blocks; ++block) blocks_of<back, 1>(keys, schedule.rounds, from + 16 * block, to + 16 * block);
}

const Engine narrow{"AES instructions", substitute_word, all_blocks<false>, all_blocks<true>};

}  // namespace

const Engine* instructions() noexcept {
#if defined(__linux__)
    constexpr unsigned long has_aes = 1 << 3;  // HWCAP_AES of the kernel's interface
    return getauxval(AT_HWCAP) & has_aes ? &narrow : nullptr;
#elif defined(__APPLE__)
    return &narrow;  // every such processor has them
#else
    return nullptr;
#endif
}
const Engine* wide_instructions() noexcept { return nullptr; }

}  // namespace aes

#else

namespace aes {
const Engine* instructions() noexcept { return nullptr; }
const Engine* wide_instructions() noexcept { return nullptr; }
}  // namespace aes

#endif
