// A sequential JPEG scan while it is being decoded, and its blocks out of the compressed bits (AVX2).

#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "jpeg_baseline.h"
#include "jpeg_huffman.h"

namespace fb::codecs {
namespace {

// One component of the picture; of its columns those of the units that are kept.
struct Component {
    int across, down;            // blocks in a unit (MCU)
    int size;                    // samples of a block's side: 8 or, of a reduced picture, fewer
    int64_t blocks;              // in a row of them, padding included
    int64_t width;               // samples of these that the picture really has
    int64_t height;              // likewise, of all of the picture
    int16_t* coefficients;       // of the blocks of one row of units, still quantized: [down, blocks, 64]
    uint8_t* ends;               // of each, how many coefficients there may be that are not zero
    uint8_t* samples;            // one row from before, then size * down rows and one more
    int64_t stride;
    alignas(32) int16_t quantizers[64];  // by place in the block, as the coefficients
    const Table* dc;
    Table* ac;
    int previous;                // block's mean, before quantization was undone

    uint8_t* row(int64_t y) const noexcept { return samples + (y + 1) * stride; }
};

constexpr int64_t margin = 32;  // bytes to the left and right of a row of samples that may be read and written

struct Scan {
    int components;
    Component component[3];
    int64_t units, unit_rows;
    int64_t height;  // of the whole result
    Region region;   // what is wanted of it
    // The units that have something of the region, or what its chroma is smoothed with.
    int64_t first_unit, end_unit, first_row, end_row;
    int64_t channels;
    bool halved;  // chroma has half of the columns, and is to be widened
};

// Reads a block; false at what no block has. `block_end` is behind its last coefficient.
// A block that is not kept is gone through as quickly as may be, and has no coefficients.
template <bool kept>
bool read_block(Bits& bits, Component& component, int16_t* block, uint8_t* block_end) noexcept {
    if constexpr (kept)
        for (int i = 0; i < 64; i += 16)
            _mm256_store_si256(reinterpret_cast<__m256i*>(block + i), _mm256_setzero_si256());
    uint64_t buffer = bits.buffer;
    int count = bits.count;
    const auto drop = [&](int length) noexcept {
        buffer <<= length;
        count -= length;
    };
    const auto take_value = [&](int size) noexcept {
        const int value = extend(uint32_t(buffer >> 1 >> (63 - size)), size);
        drop(size);
        return value;
    };
    // A code that is not found with its value: its symbol, or what is negative.
    const auto take_code = [&](const Table& table, Table::Entry entry) noexcept {
        int length = entry.bits();
        const int symbol = length ? entry.symbol() : table.find(buffer, length);
        drop(length);
        return symbol;
    };

    if (count < 32) bits.refill(buffer, count);
    Table::Entry entry = component.dc->next(buffer);
    int value = entry.value();
    if (entry.whole()) {
        drop(entry.bits());
    } else {
        const int size = take_code(*component.dc, entry);
        if (size < 0) return false;
        value = take_value(size);
    }
    component.previous = int16_t(component.previous + value);
    const int mean = component.previous * component.quantizers[0];
    // Samples of 8 bits have a mean of about 1024 at most; with much more, sums are no longer those of libjpeg.
    if (mean > 2048 || mean < -2048) return false;
    if constexpr (kept) block[0] = int16_t(component.previous);

    const Table& table = *component.ac;
    int k = 1;
    while (k < 64) {
        if (count < 32) bits.refill(buffer, count);
        if constexpr (kept) {
            const Table::Pair& pair = table.pair(buffer);
            // Not with the last place first, behind which there may be no end, but the next block.
            if (__builtin_expect(k + pair.run < 63, true)) {
                block[natural_order[k + pair.run]] = pair.first;
                block[natural_order[k + pair.place]] = pair.second;
                drop(pair.bits());
                k += pair.places;
                if (pair.to_block_end()) break;
                continue;
            }
        } else {
            const Table::Leap leap = table.leap(buffer);
            // Not to the last place, behind which there may be no end, but the next block.
            if (__builtin_expect(leap.bits() && k + leap.places() < 64, true)) {
                drop(leap.bits());
                if (leap.to_block_end()) break;
                k += leap.places();
                continue;
            }
        }
        entry = table.next(buffer);
        value = entry.value();
        if (__builtin_expect(entry.whole(), true)) {
            drop(entry.bits());
            if (entry.symbol() == Table::block_end) break;
            k += entry.symbol();
        } else {
            const int symbol = take_code(table, entry);
            if (symbol < 0) return false;
            const int size = symbol & 15;
            if (size == 0) {
                if (symbol == 0) break;
                if (symbol != 0xf0) return false;
                k += 16;
                continue;
            }
            k += symbol >> 4;
            value = take_value(size);
        }
        if constexpr (kept) block[natural_order[k]] = int16_t(value);
        ++k;
    }
    bits.buffer = buffer;
    bits.count = count;
    if constexpr (kept) *block_end = uint8_t(k);
    return k <= 64;
}

bool skip_blocks(Bits& bits, Component& component) noexcept {
    for (int i = component.across * component.down; i > 0; --i)
        if (!read_block<false>(bits, component, nullptr, nullptr)) return false;
    return true;
}

// `unit`: counted from the first that is kept.
bool read_unit(Bits& bits, Scan& scan, int64_t unit) noexcept {
    for (int c = 0; c < scan.components; ++c) {
        Component& component = scan.component[c];
        if (c >= scan.channels) {  // colours that become gray
            if (!skip_blocks(bits, component)) return false;
            continue;
        }
        for (int y = 0; y < component.down; ++y) {
            for (int x = 0; x < component.across; ++x) {
                const int64_t block = y * component.blocks + unit * component.across + x;
                if (!read_block<true>(bits, component, component.coefficients + 64 * block, component.ends + block))
                    return false;
            }
        }
    }
    return true;
}

bool skip_unit(Bits& bits, Scan& scan) noexcept {
    for (int c = 0; c < scan.components; ++c)
        if (!skip_blocks(bits, scan.component[c])) return false;
    return true;
}

}  // namespace
}  // namespace fb::codecs
