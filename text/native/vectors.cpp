// Word vectors as text: a line has a word, a delimiter, and numbers with one space between.
//
// Only lines that are just that are read here. Every other one (a header, another count of numbers, `nan`, a word that
// is not UTF-8) is left to the caller, who knows what to do with it.

#include <flambeau/kernel.h>
#include <locale.h>
#include <stdlib.h>

FB_EXPORT int64_t fb_utf8_valid(const uint8_t* bytes, int64_t size);  // utf8.cpp

namespace {

inline bool digit(uint8_t c) noexcept { return uint8_t(c - '0') < 10; }
inline bool blank(uint8_t c) noexcept { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Powers of ten that a double holds exactly.
constexpr double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                             1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

// What strtod makes of [begin, end), which holds digits, signs, points and exponents alone.
bool by_library(const uint8_t* begin, const uint8_t* end, double& value) noexcept {
    char text[64];
    const size_t size = size_t(end - begin);
    const lconv* conventions = localeconv();
    if (size >= sizeof(text) || strcmp(conventions->decimal_point, ".") != 0) return false;
    memcpy(text, begin, size);
    text[size] = 0;
    char* stop = nullptr;
    value = strtod(text, &stop);
    return stop == text + size;
}

// Reads the number at `at` as a correctly rounded double, and moves `at` behind it. Whole numbers below 2**53 and
// powers of ten to 22 are exact in a double, so one operation on them rounds once (W. Clinger, 1990, "How to read
// floating point numbers accurately"); the rest is for the library.
bool number(const uint8_t*& at, const uint8_t* end, double& value) noexcept {
    const uint8_t* const begin = at;
    const bool negative = at < end && *at == '-';
    if (at < end && (*at == '-' || *at == '+')) ++at;
    uint64_t mantissa = 0;
    int64_t digits = 0, significant = 0, exponent = 0;
    bool point = false;
    for (; at < end; ++at) {
        if (digit(*at)) {
            ++digits;
            if (mantissa || *at != '0') ++significant;
            if (significant <= 19) mantissa = mantissa * 10 + (*at - '0');
            exponent -= point;
        } else if (*at == '.' && !point) {
            point = true;
        } else {
            break;
        }
    }
    if (!digits) return false;
    if (at < end && (*at == 'e' || *at == 'E')) {
        ++at;
        const bool below = at < end && *at == '-';
        if (at < end && (*at == '-' || *at == '+')) ++at;
        if (at == end || !digit(*at)) return false;
        int64_t written = 0;
        for (; at < end && digit(*at); ++at) {
            if (written < 100000) written = written * 10 + (*at - '0');
        }
        exponent += below ? -written : written;
    }
    if (significant > 19 || mantissa > (1ull << 53) || exponent < -22 || exponent > 22) {
        return mantissa == 0 ? (value = negative ? -0.0 : 0.0, true) : by_library(begin, at, value);
    }
    value = double(mantissa);
    value = exponent < 0 ? value / powers[-exponent] : value * powers[exponent];
    if (negative) value = -value;
    return true;
}

// The length of the word of a line, or -1 where the line is none of those that are read here.
int64_t row(const uint8_t* begin, const uint8_t* end, int64_t dim, uint8_t delimiter, float* values) noexcept {
    while (end > begin && blank(end[-1])) --end;
    const void* found = memchr(begin, delimiter, size_t(end - begin));
    if (!found) return -1;
    const uint8_t* at = static_cast<const uint8_t*>(found);
    const int64_t size = at - begin;
    if (fb_utf8_valid(begin, size) != size) return -1;
    ++at;
    for (int64_t i = 0; i < dim; ++i) {
        double value;
        if ((i && (at == end || *at++ != ' ')) || !number(at, end, value)) return -1;
        values[i] = float(value);
    }
    return at == end ? size : -1;
}

}  // namespace

// How many lines there are. The last one may lack its newline.
FB_EXPORT int64_t fb_vectors_count(const uint8_t* bytes, int64_t size) {
    int64_t count = 0;
    const uint8_t* at = bytes;
    const uint8_t* const end = bytes + size;
    while (at < end) {
        const void* found = memchr(at, '\n', size_t(end - at));
        at = found ? static_cast<const uint8_t*>(found) + 1 : end;
        ++count;
    }
    return count;
}

// Where lines begin, from `at` on and at most `room`; starts[lines] is where the last one ends, its newline included.
FB_EXPORT int64_t fb_vectors_lines(const uint8_t* bytes, int64_t size, int64_t at, int64_t room, int64_t* starts) {
    int64_t count = 0;
    while (count < room && at < size) {
        starts[count++] = at;
        const void* found = memchr(bytes + at, '\n', size_t(size - at));
        at = found ? static_cast<const uint8_t*>(found) - bytes + 1 : size;
    }
    starts[count] = at;
    return count;
}

// Reads lines: values (count, dim) float32, and for each line the bytes of its word, or -1 where it is for the caller.
FB_EXPORT void fb_vectors_rows(const uint8_t* bytes, const int64_t* starts, int64_t count, int64_t dim,
                               int32_t delimiter, float* values, int64_t* words) {
    const auto rows = [=](int64_t begin, int64_t end) noexcept {
        for (int64_t i = begin; i < end; ++i) {
            words[i] = row(bytes + starts[i], bytes + starts[i + 1], dim, uint8_t(delimiter), values + i * dim);
        }
    };
    fb::parallel_for(0, count, 16, count ? fb::threads(starts[count] - starts[0]) : 1, rows);
}

// The words of lines, a newline after each.
FB_EXPORT void fb_vectors_words(const uint8_t* bytes, const int64_t* starts, const int64_t* words, int64_t count,
                                uint8_t* output) {
    for (int64_t i = 0; i < count; ++i) {
        memcpy(output, bytes + starts[i], size_t(words[i]));
        output += words[i];
        *output++ = '\n';
    }
}
