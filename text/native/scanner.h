// Where words begin and end, as the published patterns have it, without a regular expression engine.
//
// Upstream matches with an engine whose \s is ASCII white space: U+00A0, U+2028 and their like are "other" characters.

#pragma once

#include "tokenizer.h"

namespace fb::text {

enum Kind : uint8_t { Other, Alphabetic, Numeric, Blank };

struct AsciiKinds {
    uint8_t of[128];
    constexpr AsciiKinds() noexcept : of() {
        for (int c = 0; c < 128; ++c) {
            const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
            of[c] = letter ? Alphabetic : c >= '0' && c <= '9' ? Numeric : (c >= 9 && c <= 13) || c == ' ' ? Blank : Other;
        }
    }
};
inline constexpr AsciiKinds ascii_kinds;

// The kind of the character at `at`, and its length.
inline Kind kind(const uint8_t* at, const uint8_t* end, int& length) noexcept {
    if (*at < 0x80) return length = 1, Kind(ascii_kinds.of[*at]);
    uint32_t point;
    length = decode(at, end, point);
    const uint8_t bits = properties(point);
    return bits & Letter ? Alphabetic : bits & Number ? Numeric : Other;
}

inline const uint8_t* run_end(const uint8_t* at, const uint8_t* end, Kind wanted) noexcept {
    for (int length; at < end && kind(at, end, length) == wanted;) at += length;
    return at;
}

// The length of "'s", "'t", "'re", "'ve", "'m", "'ll" or "'d" at an apostrophe, else 0.
inline int contraction(const uint8_t* at, const uint8_t* end) noexcept {
    if (end - at < 2) return 0;
    switch (at[1]) {
        case 's': case 't': case 'm': case 'd': return 2;
        case 'r': case 'v': return end - at > 2 && at[2] == 'e' ? 3 : 0;
        case 'l': return end - at > 2 && at[2] == 'l' ? 3 : 0;
        default: return 0;
    }
}

// The end of the word that begins at `at`, which is no white space.
inline const uint8_t* gpt2_word(const uint8_t* at, const uint8_t* end) noexcept {
    if (*at == '\'') {
        if (const int length = contraction(at, end)) return at + length;
    }
    int length;
    const Kind first = kind(at, end, length);
    return run_end(at + length, end, first);
}

// `emit(begin, end)` for each word: contractions, runs of letters, of digits and of others with a space before them,
// white space. Of a longer white space before a word, the last character goes to the word if it is a space.
template <typename Emit>
void scan_gpt2(const uint8_t* at, const uint8_t* end, const Emit& emit) noexcept {
    while (at < end) {
        if (*at >= 0x80 || ascii_kinds.of[*at] != Blank) {
            const uint8_t* stop = gpt2_word(at, end);
            emit(at, stop);
            at = stop;
            continue;
        }
        const uint8_t* stop = at + 1;
        while (stop < end && *stop < 0x80 && ascii_kinds.of[*stop] == Blank) ++stop;
        if (stop == end) {
            emit(at, end);
            return;
        }
        const uint8_t* last = stop - 1;
        if (last == at && *at == ' ') {  // a space is matched with the run after it, so no contraction can be
            int length;
            const Kind first = kind(stop, end, length);
            stop = run_end(stop + length, end, first);
            emit(at, stop);
        } else {
            if (last > at) emit(at, last);
            if (*last == ' ') stop = gpt2_word(stop, end);
            emit(last, stop);
        }
        at = stop;
    }
}

// As CLIP has it: contractions, runs of letters, single digits, runs of others; white space is dropped. Text has been
// lower-cased. Upstream: the pattern ignores case, so that a long s (U+017F) after an apostrophe is an s to it.
template <typename Emit>
void scan_clip(const uint8_t* at, const uint8_t* end, const Literals& literals, const Emit& emit) noexcept {
    while (at < end) {
        int length;
        const Kind first = kind(at, end, length);
        if (first == Blank && *at != '\v') {
            at += length;
            continue;
        }
        const uint8_t* stop = at + length;
        if (const Literal* literal = literals.begins(at, end)) {
            stop = at + literal->size;
        } else if (*at == '\'' && end - at > 2 && at[1] == 0xC5 && at[2] == 0xBF) {
            stop = at + 3;
        } else if (const int size = *at == '\'' ? contraction(at, end) : 0) {
            stop = at + size;
        } else if (first == Alphabetic) {
            stop = run_end(stop, end, Alphabetic);
        } else if (first != Numeric) {
            for (Kind next; stop < end; stop += length) {
                next = kind(stop, end, length);
                if (next != Other && *stop != '\v') break;
            }
        }
        emit(at, stop);
        at = stop;
    }
}

// Words between white space, all of Unicode's; a line feed right after a word belongs to it.
template <typename Emit>
void scan_words(const uint8_t* at, const uint8_t* end, const Emit& emit) noexcept {
    const uint8_t* begin = nullptr;
    while (at < end) {
        uint32_t point;
        const int length = decode(at, end, point);
        if (properties(point) & Space) {
            if (begin) emit(begin, *at == '\n' ? at + 1 : at);
            begin = nullptr;
        } else if (!begin) {
            begin = at;
        }
        at += length;
    }
    if (begin) emit(begin, end);
}

}  // namespace fb::text
