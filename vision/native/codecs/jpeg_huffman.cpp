#include "jpeg_huffman.h"

namespace fb::codecs {

const uint8_t natural_order[64 + 32] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13,
    6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31,
    39, 46, 53, 60, 61, 54, 47, 55, 62, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63,
    63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63,
};

void Bits::refill_bytewise() noexcept {
    while (count <= 56) {
        uint64_t byte = 0;
        const bool at_marker = end - place >= 2 && place[0] == 0xff && place[1] != 0;
        if (!at_marker && end - place >= 1 && (place[0] != 0xff || end - place >= 2)) {
            byte = *place;
            place += byte == 0xff ? 2 : 1;
        } else {
            cut |= !at_marker;
            zeros += 8;
        }
        buffer |= byte << (56 - count);
        count += 8;
    }
}

bool Bits::restart(int number) noexcept {
    if (!sound() || count - zeros >= 8) return false;
    if (end - place < 2 || place[0] != 0xff || place[1] != 0xd0 + number) return false;
    start(place + 2, end);
    return true;
}

const uint8_t* Bits::find_marker() const noexcept {
    const uint8_t* at = place;
    while (end - at >= 2) {
        at = static_cast<const uint8_t*>(memchr(at, 0xff, size_t(end - at - 1)));
        if (!at) break;
        if (at[1] != 0) return at;
        at += 2;
    }
    return end;
}

bool Bits::leads_to_end_of_image() const noexcept {
    Bits rest = *this;
    for (;;) {
        rest.skip_to_marker();
        if (rest.end - rest.place < 2) return false;
        if (rest.place[1] < 0xd0 || rest.place[1] > 0xd7) return rest.at_end_of_image();
        rest.place += 2;  // a restart
    }
}

// Every continuation of a code has the same answer, unless the value is in it.
void Table::fill(int code, int length, uint8_t symbol) noexcept {
    const int size = of_dc_ ? symbol : symbol & 15, run = of_dc_ ? 0 : symbol >> 4;
    const int free = quick - length;
    const auto entry = [](int value, int what, bool whole, int bits) noexcept {
        return Entry{int32_t(uint32_t(value) << 16) | what << 8 | whole << 7 | bits};
    };
    Entry* const first = entries_ + (code << free);
    for (int rest = 0; rest < 1 << free; ++rest) {
        if (size > free || (!of_dc_ && size == 0 && run > 0))  // a run of 16 zeros has no value after it
            first[rest] = entry(0, symbol, false, length);
        else if (!of_dc_ && size == 0)
            first[rest] = entry(0, block_end, true, length);
        else
            first[rest] = entry(size ? extend(uint32_t(rest) >> (free - size), size) : 0, run, true, length + size);
    }
}

bool Table::prepare(const JHUFF_TBL& source, bool of_dc) noexcept {
    if (ready_ && of_dc_ == of_dc && memcmp(source_.bits, source.bits, sizeof source.bits) == 0 &&
        memcmp(source_.huffval, source.huffval, sizeof source.huffval) == 0)
        return true;  // most files have the standard's own tables
    source_ = source;
    of_dc_ = of_dc;
    ready_ = pairs_ready_ = leaps_ready_ = false;
    memset(entries_, 0, sizeof entries_);
    uint32_t code = 0;
    int symbols = 0;
    for (int length = 1; length <= 16; ++length, code <<= 1) {
        offset_[length] = symbols - int(code);
        for (int i = 0; i < source.bits[length]; ++i, ++symbols, ++code) {
            if (symbols >= 256 || code >> length != 0) return false;  // more codes than there are
            const uint8_t symbol = source.huffval[symbols];
            if (of_dc && symbol > 15) return false;
            if (length <= quick) fill(int(code), length, symbol);
        }
        past_[length] = code << (16 - length);
    }
    past_[17] = ~0u;
    ready_ = true;
    return true;
}

template <typename Fill>
void Table::each_code(int bits, Fill fill) const noexcept {
    uint32_t code = 0;
    for (int length = 1, symbols = 0; length <= bits; ++length, code <<= 1)
        for (int i = 0; i < source_.bits[length]; ++i, ++symbols, ++code)
            fill(code << (bits - length), 1u << (bits - length), length, int(source_.huffval[symbols]));
}

void Table::prepare_pairs() noexcept {
    if (pairs_ready_) return;
    struct Single {
        int16_t value;
        uint8_t bits;    // of the code and its value; `longer`: they do not fit, or are none of these
        uint8_t places;  // 0: the end of the block
    };
    constexpr uint8_t longer = wide + 1;
    constexpr uint32_t all = 1u << wide;
    Single singles[all];
    for (Single& single : singles) single = {0, longer, 0};
    each_code(wide, [&singles](uint32_t first, uint32_t count, int length, int symbol) noexcept {
        const int size = symbol & 15, bits = length + size;
        if (bits > wide || (size == 0 && symbol != 0)) return;
        const uint32_t same = 1u << (wide - bits);  // numbers that begin with the same value
        for (uint32_t next = 0; next < count; ++next)
            singles[first + next] = {int16_t(size ? extend(next / same, size) : 0), uint8_t(bits),
                                     uint8_t(symbol == 0 ? 0 : (symbol >> 4) + 1)};
    });
    for (uint32_t start = 0; start < all; ++start) {
        const Single& first = singles[start];
        Pair& pair = pairs_[start];
        pair = {};
        pair.run = first.bits == longer ? none : 0;
        if (pair.run) continue;
        pair.length = first.bits;
        if (first.places == 0) {
            pair.length |= 128;
            continue;
        }
        pair.first = first.value;
        pair.run = uint8_t(first.places - 1);
        pair.place = pair.places = first.places;
        const Single& second = singles[start << first.bits & (all - 1)];
        if (first.bits + second.bits > wide) continue;
        pair.length = uint8_t(pair.length + second.bits);
        if (second.places == 0) {
            pair.length |= 128;
            continue;
        }
        pair.second = second.value;
        pair.places = uint8_t(pair.places + second.places);
        pair.place = uint8_t(pair.places - 1);
    }
    pairs_ready_ = true;
}

void Table::prepare_leaps() noexcept {
    if (leaps_ready_) return;
    struct Single {
        uint8_t length;  // of the code; 0: it is longer than `far`, or none
        uint8_t bits;    // of the code and its value
        uint8_t places;
    };
    Single singles[1 << far] = {};
    each_code(far, [&singles](uint32_t first, uint32_t count, int length, int symbol) noexcept {
        const int size = symbol & 15, run = symbol >> 4;
        if (size == 0 && run != 0 && run != 15) return;  // for who decodes to refuse
        const Single single = {uint8_t(length), uint8_t(length + size), uint8_t(symbol == 0 ? 0 : run + 1)};
        for (uint32_t next = 0; next < count; ++next) singles[first + next] = single;
    });
    for (uint32_t start = 0; start < 1u << far; ++start) {
        int bits = 0, places = 0;
        bool ended = false;
        while (!ended && bits < far) {
            const Single& next = singles[start << bits & ((1u << far) - 1)];
            if (next.length == 0 || next.length > far - bits || places + next.places > 63) break;
            bits += next.bits;
            places += next.places;
            ended = next.places == 0;
        }
        leaps_[start] = {uint16_t(bits | places << 5 | ended << 12)};
    }
    leaps_ready_ = true;
}

int Table::find(uint64_t buffer, int& bits) const noexcept {
    const uint32_t next = uint32_t(buffer >> 48);
    int length = quick + 1;
    while (next >= past_[length]) ++length;
    if (length > 16) return -1;
    bits = length;
    return source_.huffval[int(next >> (16 - length)) + offset_[length]];
}

}  // namespace fb::codecs
