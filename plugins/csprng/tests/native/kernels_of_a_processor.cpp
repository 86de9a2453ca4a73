// Prints what the kernels of the processor that it runs on give: AES by each implementation that is there, in both
// directions, and normal numbers. test_other_processors.py builds it for other processors, and compares.

#include "aes.h"

#include <stdio.h>

extern "C" int32_t fb_fill_normal(const uint8_t* key, void* to, int64_t total, int32_t kind, double mean,
                                  double deviation, int32_t nthreads) noexcept;

static void print(const char* engine, const char* what, long long key_bytes, const uint8_t* bytes, int64_t count) {
    printf("%s|%s|%lld|", engine, what, key_bytes);
    for (int64_t i = 0; i < count; ++i) printf("%02x", bytes[i]);
    printf("\n");
}

int main() {
    constexpr int64_t blocks = 37;  // whole groups of every implementation, and a rest
    uint8_t key[32], message[16 * blocks], secret[16 * blocks];
    for (int i = 0; i < 32; ++i) key[i] = uint8_t(7 * i + 3);
    for (int i = 0; i < 16 * blocks; ++i) message[i] = uint8_t(i * i + 5 * i);
    const aes::Engine* all[] = {&aes::bitsliced, aes::instructions(), aes::wide_instructions()};
    for (const aes::Engine* engine : all) {
        if (!engine) continue;
        for (int64_t key_bytes = 16; key_bytes <= 32; key_bytes += 8) {
            aes::Schedule schedule;
            aes::expand(*engine, key, key_bytes, schedule);
            engine->encrypt(schedule, message, secret, blocks);
            print(engine->name, "encrypt", key_bytes, secret, sizeof secret);
            engine->decrypt(schedule, secret, secret, blocks);
            print(engine->name, "decrypt", key_bytes, secret, sizeof secret);
        }
    }
    float narrow[101];
    double wide[101];
    fb_fill_normal(key, narrow, 101, 4, 1.0, 2.0, 1);
    fb_fill_normal(key, wide, 101, 5, 1.0, 2.0, 1);
    print("normal", "float32", 16, reinterpret_cast<const uint8_t*>(narrow), sizeof narrow);
    print("normal", "float64", 16, reinterpret_cast<const uint8_t*>(wide), sizeof wide);
    return 0;
}
