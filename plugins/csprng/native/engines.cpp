// Which implementation of AES is in use, and the keys of its rounds.

#include "aes.h"

#include <flambeau/kernel.h>

#include <atomic>

namespace aes {
namespace {

const Engine* const* engines() noexcept {
    static const Engine* const found[] = {&bitsliced, instructions(), wide_instructions()};
    return found;
}

std::atomic<const Engine*> chosen{nullptr};

uint32_t load32(const uint8_t* from) noexcept {
    return uint32_t(from[0]) | uint32_t(from[1]) << 8 | uint32_t(from[2]) << 16 | uint32_t(from[3]) << 24;
}

void store32(uint8_t* to, uint32_t value) noexcept {
    for (int i = 0; i < 4; ++i) to[i] = uint8_t(value >> (8 * i));
}

}  // namespace

const Engine& engine() noexcept {
    const Engine* found = chosen.load(std::memory_order_relaxed);
    if (found) return *found;
    const Engine* const* all = engines();
    found = all[2] ? all[2] : all[1] ? all[1] : all[0];
    chosen.store(found, std::memory_order_relaxed);
    return *found;
}

void expand(const Engine& engine, const uint8_t* key, int64_t key_bytes, Schedule& schedule) noexcept {
    const int words = int(key_bytes / 4);
    schedule.rounds = words + 6;
    memcpy(schedule.keys, key, size_t(key_bytes));
    uint32_t constant = 1;  // x^(i - 1) in the field of bytes
    for (int i = words; i < 4 * (schedule.rounds + 1); ++i) {
        uint32_t word = load32(schedule.keys + 4 * (i - 1));
        if (i % words == 0) {
            word = engine.substitute_word(word >> 8 | word << 24) ^ constant;
            constant = (constant << 1) ^ ((constant >> 7) * 0x11b);
        } else if (words > 6 && i % words == 4) {
            word = engine.substitute_word(word);
        }
        store32(schedule.keys + 4 * i, load32(schedule.keys + 4 * (i - words)) ^ word);
    }
}

}  // namespace aes

// Chooses an implementation: 0 bitsliced, 1 instructions, 2 wide instructions; -1 the fastest. Its name, or null where
// this processor does not have it.
FB_EXPORT const char* fb_aes_engine(int32_t which) noexcept {
    if (which < 0) {
        aes::chosen.store(nullptr);
        return aes::engine().name;
    }
    const aes::Engine* found = which < 3 ? aes::engines()[which] : nullptr;
    if (found) aes::chosen.store(found);
    return found ? found->name : nullptr;
}
