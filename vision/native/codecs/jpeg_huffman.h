// Entropy decoding of sequential JPEG scans (ITU-T T.81, annex F.2.2).

#pragma once

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

namespace fb::codecs {

// Places of coefficients in a block, by their order in the file; more of them for runs past the end of a block.
extern const uint8_t natural_order[64 + 32];

// The compressed bits, the next one at the top. Behind the data come zeros, which are counted.
struct Bits {
    uint64_t buffer;
    int count;  // bits in the buffer
    int zeros;  // of these, at the end, that the file does not have
    const uint8_t* place;
    const uint8_t* end;
    bool cut;  // the file ended where no marker is

    void start(const uint8_t* from, const uint8_t* to) noexcept {
        buffer = 0;
        count = zeros = 0;
        place = from;
        end = to;
        cut = false;
    }

    // At least 56 bits, which are enough for a code and its value. `buffer` and `count` are the members of that name,
    // which a loop holds in registers meanwhile.
    __attribute__((always_inline)) void refill(uint64_t& buffer, int& count) noexcept {
        if (end - place >= 8) {
            uint64_t bytes;
            memcpy(&bytes, place, 8);
            const uint64_t escapes = (~bytes - 0x0101010101010101u) & bytes & 0x8080808080808080u;
            if (__builtin_expect(escapes == 0, true)) {  // no byte is 0xff
                buffer |= __builtin_bswap64(bytes) >> count;
                place += (63 - count) >> 3;
                count |= 56;
                return;
            }
        }
        this->buffer = buffer;
        this->count = count;
        refill_bytewise();
        buffer = this->buffer;
        count = this->count;
    }

    void refill_bytewise() noexcept;

    // Goes past a restart marker. False where it is not the next thing.
    bool restart(int number) noexcept;

    // Goes to the next marker, past all that was not taken yet.
    void skip_to_marker() noexcept {
        place = find_marker();
        buffer = 0;
        count = zeros = 0;
    }

    // The first marker that was not taken yet; the end where there is none.
    const uint8_t* find_marker() const noexcept;

    // Whether the end of the image is what follows the compressed data, of which nothing else is looked at.
    bool leads_to_end_of_image() const noexcept;

    // Whether no more was taken than there was.
    bool sound() const noexcept { return zeros <= count && !cut; }

    // Whether all bytes were taken, and the end of the image is the next marker.
    bool at_end_of_image() const noexcept { return end - place >= 2 && place[0] == 0xff && place[1] == 0xd9; }
};

// A Huffman table, prepared. Codes of up to `quick` bits are found by the next bits of the file, and if their value fits
// as well, it is found with them.
class Table {
  public:
    static constexpr int quick = 10;
    static constexpr int block_end = 64;

    // What the next bits mean. In 32 bits, so that it is read at once: the value, the symbol, and the length.
    struct Entry {
        int32_t all;
        int value() const noexcept { return all >> 16; }
        // Of a value that is found with its code: the zeros before it, or `block_end`; else the code's symbol.
        int symbol() const noexcept { return all >> 8 & 255; }
        bool whole() const noexcept { return all & 128; }
        int bits() const noexcept { return all & 63; }  // of the code, and of the value if it is whole; 0: a longer code
    };

    // False where the table is not one.
    bool prepare(const JHUFF_TBL& source, bool of_dc) noexcept;

    Entry next(uint64_t buffer) const noexcept { return entries_[buffer >> (64 - quick)]; }

    // Two coefficients at once, where both are found whole; or one and the end of the block, or either alone.
    struct Pair {
        int16_t first, second;  // 0: there is none
        // Zeros before the first, `none` where the next code has to be looked at by itself; place of the second behind
        // all that was read before.
        uint8_t run, place;
        uint8_t places;         // of coefficients that they stand for
        uint8_t length;         // in bits; 128 more where they end the block

        int bits() const noexcept { return length & 63; }
        bool to_block_end() const noexcept { return length & 128; }
    };
    static constexpr int wide = 11;
    static constexpr uint8_t none = 64;

    // Makes the table of pairs, if there is none yet; of a table of AC coefficients alone.
    void prepare_pairs() noexcept;

    const Pair& pair(uint64_t buffer) const noexcept { return pairs_[buffer >> (64 - wide)]; }

    // The codes at hand with their values, as many as one look finds, for who needs but their number.
    struct Leap {
        uint16_t all;

        int bits() const noexcept { return all & 31; }  // 0: look at the next code by itself
        int places() const noexcept { return all >> 5 & 127; }  // of coefficients that they stand for
        bool to_block_end() const noexcept { return all >> 12; }
    };
    static constexpr int far = 10;

    // Makes the table of leaps, if there is none yet; of a table of AC coefficients alone.
    void prepare_leaps() noexcept;

    Leap leap(uint64_t buffer) const noexcept { return leaps_[buffer >> (64 - far)]; }

    // A code longer than `quick` bits: its symbol, and in `bits` its length. Negative: there is no such code.
    int find(uint64_t buffer, int& bits) const noexcept;

  private:
    void fill(int code, int length, uint8_t symbol) noexcept;
    // Calls `fill(first, count, length, symbol)` for codes of up to `bits` bits, with what numbers of so many bits begin
    // with each.
    template <typename Fill>
    void each_code(int bits, Fill fill) const noexcept;

    Entry entries_[1 << quick];
    Pair pairs_[1 << wide];
    Leap leaps_[1 << far];
    uint32_t past_[18];  // by length: the first code, at the top of 16 bits, that is longer
    int offset_[17];     // from a code of that length to its symbol's place
    JHUFF_TBL source_;   // what it was prepared from
    bool of_dc_;
    bool ready_;
    bool pairs_ready_;
    bool leaps_ready_;
};

// The value of so many bits (F.2.2.1): those of the lower half are negative.
__attribute__((always_inline)) inline int extend(uint32_t bits, int size) noexcept {
    const int value = int(bits);
    return value < (1 << size >> 1) ? value - (1 << size) + 1 : value;
}

}  // namespace fb::codecs
