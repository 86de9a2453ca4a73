// Random numbers of the processor's own source.

#include <flambeau/kernel.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <immintrin.h>

namespace {

// What Intel's manual asks to try before a source counts as broken; of seeds the source may just be drained.
constexpr int number_tries = 10, seed_tries = 100000;

template <typename Step>
FB_INLINE bool draw(uint8_t* to, int64_t bytes, int tries, const Step& step) {
    for (int64_t i = 0; i < bytes; i += 8) {
        unsigned long long value = 0;
        int left = tries;
        while (!step(&value) && --left > 0) _mm_pause();
        if (!left) return false;
        memcpy(to + i, &value, size_t(bytes - i < 8 ? bytes - i : 8));
    }
    return true;
}

__attribute__((target("rdrnd"))) bool draw_numbers(uint8_t* to, int64_t bytes) noexcept {
    return draw(to, bytes, number_tries, [](unsigned long long* value) __attribute__((target("rdrnd"))) {
        return _rdrand64_step(value);
    });
}

__attribute__((target("rdseed"))) bool draw_seeds(uint8_t* to, int64_t bytes) noexcept {
    return draw(to, bytes, seed_tries, [](unsigned long long* value) __attribute__((target("rdseed"))) {
        return _rdseed64_step(value);
    });
}

bool has(bool seeds) noexcept {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (seeds) return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 18 & 1);
    return __get_cpuid(1, &a, &b, &c, &d) && (c >> 30 & 1);
}

}  // namespace
#endif

// Bytes of RDRAND, or of RDSEED. 0: done; 1: this processor does not have it; 2: it gave none.
FB_EXPORT int32_t fb_hardware_random(uint8_t* to, int64_t bytes, int32_t seeds) noexcept {
#if defined(__x86_64__) && defined(__GNUC__)
    if (!has(seeds != 0)) return 1;
    return (seeds ? draw_seeds(to, bytes) : draw_numbers(to, bytes)) ? 0 : 2;
#else
    (void)to, (void)bytes, (void)seeds;
    return 1;
#endif
}
