// UTF-8: where text stops being valid, by the table of the Unicode standard (version 16, table 3-7).

#include <flambeau/kernel.h>

namespace {

// The length of the well-formed sequence at `at`, 0 if there is none.
inline int sequence(const uint8_t* at, int64_t left) noexcept {
    const uint8_t lead = at[0];
    if (lead < 0x80) return 1;
    if (lead < 0xC2 || lead > 0xF4) return 0;
    const int length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (left < length) return 0;
    // The first continuation byte excludes overlong forms, surrogates and what is above U+10FFFF.
    const uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (at[1] < low || at[1] > high) return 0;
    for (int i = 2; i < length; ++i) {
        if ((at[i] & 0xC0) != 0x80) return 0;
    }
    return length;
}

}  // namespace

// The offset of the first byte that begins no well-formed sequence, or `size`.
FB_EXPORT int64_t fb_utf8_valid(const uint8_t* bytes, int64_t size) {
    int64_t at = 0;
    while (at < size) {
        const int length = sequence(bytes + at, size - at);
        if (!length) return at;
        at += length;
    }
    return size;
}
