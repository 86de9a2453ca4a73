#include "jpeg_baseline.h"

#include <stdlib.h>
#include <string.h>

// This file is compiled for AVX2 and BMI2: it shares no inline function with those that are not.
#include "jpeg_blocks.h"
#include "jpeg_colours.h"
#include "jpeg_huffman.h"
#include "jpeg_scan.h"

namespace fb::codecs {
namespace {

thread_local Table tables[2][4];

int64_t least(int64_t a, int64_t b) noexcept { return a < b ? a : b; }
int64_t most(int64_t a, int64_t b) noexcept { return a > b ? a : b; }

// The samples of a component's blocks, two blocks at a time.
void transform(const Component& component) noexcept {
    for (int y = 0; y < component.down; ++y) {
        const int16_t* const coefficients = component.coefficients + 64 * y * component.blocks;
        const uint8_t* const ends = component.ends + y * component.blocks;
        uint8_t* const samples = component.row(component.size * y);
        for (int64_t x = 0; x < component.blocks; x += 2)
            transform_pair(coefficients + 64 * x, component.quantizers, ends[x] <= 1 && ends[x + 1] <= 1, component.size,
                           samples + component.size * x, component.stride);
    }
}

// The rows of one component that a row of the picture needs, both at the resolution of the component.
struct Sources {
    const uint8_t* near;
    const uint8_t* far;
};

// Upstream: chroma of half the height lies between two rows of the picture; the nearer of its rows counts threefold.
Sources sources(const Component& component, int64_t y, int down) noexcept {
    const int64_t row = down == 2 ? y >> 1 : y;
    return {component.row(row), component.row(y & 1 ? row + 1 : row - 1)};
}

// Writes rows `begin` to `end` of the picture, counted from the first of the row of units that was just transformed.
void write_rows(const Scan& scan, int64_t begin, int64_t end, uint8_t* pixels, uint8_t* chroma,
                int16_t* sums) noexcept {
    const Component &luma = scan.component[0], &blue = scan.component[1], &red = scan.component[2];
    const int64_t room = luma.stride, width = scan.region.width;
    const int64_t left = scan.region.left - scan.first_unit * luma.size * luma.across;
    for (int64_t y = begin; y < end; ++y, pixels += width * scan.channels) {
        if (scan.channels == 1) {
            memcpy(pixels, luma.row(y) + left, size_t(width));
            continue;
        }
        const uint8_t *cb = blue.row(y), *cr = red.row(y);
        if (scan.halved) {
            const Sources from_blue = sources(blue, y, luma.down), from_red = sources(red, y, luma.down);
            if (luma.down == 2) {
                widen_between(from_blue.near, from_blue.far, sums, chroma, blue.width);
                widen_between(from_red.near, from_red.far, sums, chroma + room, red.width);
            } else {
                widen(from_blue.near, chroma, blue.width);
                widen(from_red.near, chroma + room, red.width);
            }
            cb = chroma;
            cr = chroma + room;
        }
        to_rgb(luma.row(y) + left, cb + left, cr + left, pixels, width);
    }
}

// A sample beyond each end of a row, for what looks at neighbours. Where a row ends within the picture it is not the
// neighbour: what looks at it is not wanted.
void extend_rows(const Component& component, int64_t rows) noexcept {
    for (int64_t y = 0; y < rows; ++y) {
        uint8_t* const row = component.row(y);
        row[-1] = row[0];
        row[component.width] = row[component.width - 1];
    }
}

void copy_row(const Component& component, int64_t from, int64_t to) noexcept {
    memcpy(component.row(to) - 1, component.row(from) - 1, size_t(component.width + 2));
}

// Transforms a row of units and writes what is wanted of it and complete: all but the last row, whose chroma may lie
// half in the next.
uint8_t* finish_unit_row(const Scan& scan, int64_t unit_row, uint8_t* pixels, uint8_t* chroma, int16_t* sums) noexcept {
    const Component& luma = scan.component[0];
    const bool between = scan.halved && luma.down == 2, last = unit_row + 1 == scan.unit_rows;
    const int64_t rows = luma.size * luma.down, first = unit_row * rows;
    const int64_t height = least(scan.height - first, rows);
    for (int c = 0; c < scan.components && (c == 0 || scan.channels == 3); ++c) {
        const Component& component = scan.component[c];
        transform(component);
        if (c == 0 || !scan.halved) continue;
        extend_rows(component, 8);
        if (unit_row == 0) copy_row(component, 0, -1);
        if (last) copy_row(component, component.height - 1 - 8 * unit_row, component.height - 8 * unit_row);
    }
    const int64_t top = scan.region.top - first;
    const int64_t begin = most(between && unit_row > scan.first_row ? -1 : 0, top);
    const int64_t end = least(between && !last ? height - 1 : height, top + scan.region.height);
    write_rows(scan, begin, end, pixels, chroma, sums);
    if (between) {
        memcpy(luma.row(-1), luma.row(rows - 1), size_t(luma.size * luma.blocks));
        for (int c = 1; c < 3; ++c) copy_row(scan.component[c], 7, -1);
    }
    return pixels + most(end - begin, 0) * scan.region.width * scan.channels;
}

// The units of a scan, one after another.
class Units {
  public:
    Units(Scan& scan, Bits& bits, unsigned interval) noexcept
        : scan_(scan), bits_(bits), interval_(interval ? int64_t(interval) : INT64_MAX), until_restart_(interval_) {}

    bool read(int64_t count) noexcept {
        for (int64_t unit = 0; unit < count; ++unit)
            if (!begin_unit() || !read_unit(bits_, scan_, unit)) return false;
        return true;
    }

    bool skip(int64_t count) noexcept {
        while (count > 0) {
            if (until_restart_ == 0 && !restart()) return false;
            if (count >= until_restart_) {  // nothing is wanted of what comes before the restart
                bits_.skip_to_marker();
                count -= until_restart_;
                until_restart_ = 0;
                continue;
            }
            if (!begin_unit() || !skip_unit(bits_, scan_)) return false;
            --count;
        }
        return true;
    }

  private:
    bool begin_unit() noexcept { return until_restart_-- > 0 || (restart() && until_restart_-- > 0); }

    bool restart() noexcept {
        if (!bits_.restart(number_)) return false;
        number_ = (number_ + 1) & 7;
        until_restart_ = interval_;
        for (Component& component : scan_.component) component.previous = 0;
        return true;
    }

    Scan& scan_;
    Bits& bits_;
    int64_t interval_, until_restart_;
    int number_ = 0;
};

bool read_scan(const jpeg_decompress_struct& info, Scan& scan, Bits& bits, uint8_t* pixels, uint8_t* chroma,
               int16_t* sums) noexcept {
    const int64_t behind = scan.units - scan.end_unit;
    Units units(scan, bits, info.restart_interval);
    if (!units.skip(scan.first_row * scan.units)) return false;
    for (int64_t row = scan.first_row; row < scan.end_row; ++row) {
        if (!units.skip(scan.first_unit) || !units.read(scan.end_unit - scan.first_unit)) return false;
        if (row + 1 < scan.end_row && !units.skip(behind)) return false;
        if (!bits.sound()) return false;
        pixels = finish_unit_row(scan, row, pixels, chroma, sums);
    }
    return scan.end_row == scan.unit_rows && behind == 0 ? bits.at_end_of_image() : bits.leads_to_end_of_image();
}

bool prepare_component(const jpeg_decompress_struct& info, int index, int denominator, Scan& scan) noexcept {
    const jpeg_component_info& source = info.comp_info[index];
    const auto numbers = [](int number) { return number >= 0 && number < 4; };  // libjpeg checks them when it starts
    if (!numbers(source.quant_tbl_no) || !numbers(source.dc_tbl_no) || !numbers(source.ac_tbl_no)) return false;
    Component& component = scan.component[index];
    const JQUANT_TBL* const quantizers = info.quant_tbl_ptrs[source.quant_tbl_no];
    const JHUFF_TBL* const dc = info.dc_huff_tbl_ptrs[source.dc_tbl_no];
    const JHUFF_TBL* const ac = info.ac_huff_tbl_ptrs[source.ac_tbl_no];
    if (!quantizers || !dc || !ac) return false;
    for (int place = 0; place < 64; ++place) component.quantizers[place] = int16_t(quantizers->quantval[place]);
    Table& dc_table = tables[0][source.dc_tbl_no];
    Table& ac_table = tables[1][source.ac_tbl_no];
    component.dc = &dc_table;
    component.ac = &ac_table;
    component.previous = 0;
    component.across = info.num_components == 1 ? 1 : source.h_samp_factor;
    component.down = info.num_components == 1 ? 1 : source.v_samp_factor;
    // Upstream: where chroma has half the resolution both ways, a reduced picture takes twice as much of it instead of
    // widening it.
    const bool doubled = denominator > 1 && index > 0 && info.max_h_samp_factor == 2 && info.max_v_samp_factor == 2;
    component.size = 8 / denominator * (doubled ? 2 : 1);
    component.blocks = (scan.end_unit - scan.first_unit) * component.across;
    component.width = least(int64_t(source.downsampled_width) - scan.first_unit * component.across * component.size,
                            component.blocks * component.size);
    component.height = source.downsampled_height;
    component.stride = (8 * component.blocks + 2 * margin + 31) / 32 * 32;
    return dc_table.prepare(*dc, true) && ac_table.prepare(*ac, false);
}

// Finds the units that are needed for the region. Smooth chroma looks at its neighbours: two pixels around the region.
void place_region(Scan& scan, const Region& region, int64_t unit_width, int64_t unit_height, bool smooth_across,
                  bool smooth_down) noexcept {
    const int64_t across = smooth_across ? 2 : 0, down = smooth_down ? 2 : 0;
    scan.region = region;
    scan.first_unit = most(region.left - across, 0) / unit_width;
    scan.end_unit = least((region.left + region.width + across + unit_width - 1) / unit_width, scan.units);
    scan.first_row = most(region.top - down, 0) / unit_height;
    scan.end_row = least((region.top + region.height + down + unit_height - 1) / unit_height, scan.unit_rows);
}

// Cuts what all components need from one block of memory, which the caller frees. `place` moves on.
template <typename T>
T* take(uint8_t*& place, int64_t count) noexcept {
    T* const taken = reinterpret_cast<T*>(place);
    place += (count * int64_t(sizeof(T)) + 63) / 64 * 64;
    return taken;
}

}  // namespace

bool decode_baseline(const jpeg_decompress_struct& info, const uint8_t* data, const uint8_t* end, const Region& region,
                     uint8_t* pixels, int64_t channels, int denominator) noexcept {
    Scan scan = {};
    scan.components = info.num_components;
    scan.height = (int64_t(info.image_height) + denominator - 1) / denominator;
    scan.channels = channels;
    scan.halved = channels == 3 && info.max_h_samp_factor == 2 && denominator == 1;
    const int across = scan.components == 1 ? 1 : info.max_h_samp_factor;
    const int down = scan.components == 1 ? 1 : info.max_v_samp_factor;
    scan.units = (int64_t(info.image_width) + 8 * across - 1) / (8 * across);
    scan.unit_rows = (int64_t(info.image_height) + 8 * down - 1) / (8 * down);
    place_region(scan, region, 8 * across / denominator, 8 * down / denominator, scan.halved,
                 scan.halved && down == 2);
    int64_t bytes = 64;
    for (int c = 0; c < scan.components; ++c) {
        if (!prepare_component(info, c, denominator, scan)) return false;
        const Component& component = scan.component[c];
        // A block more than there is makes a pair of the last one.
        bytes += (component.down * component.blocks + 1) * 129 + (8 * component.down + 2) * component.stride + 3 * 64;
    }
    const int64_t room = scan.component[0].stride;
    bytes += 2 * room + 2 * room + 2 * 64;
    uint8_t* const memory = static_cast<uint8_t*>(malloc(size_t(bytes)));
    if (!memory) return false;
    uint8_t* place = memory + (64 - (reinterpret_cast<uintptr_t>(memory) & 63));
    for (int c = 0; c < scan.components; ++c) {
        Component& component = scan.component[c];
        const int64_t blocks = component.down * component.blocks + 1;
        component.coefficients = take<int16_t>(place, 64 * blocks);
        component.ends = take<uint8_t>(place, blocks);
        memset(component.coefficients + 64 * (blocks - 1), 0, 128);
        component.ends[blocks - 1] = 0;
        component.samples = take<uint8_t>(place, (8 * component.down + 2) * component.stride) + margin;
    }
    uint8_t* const chroma = take<uint8_t>(place, 2 * room);
    int16_t* const sums = take<int16_t>(place, room) + 16;
    if (channels < scan.components || (scan.end_unit - scan.first_unit) * scan.end_row < scan.units * scan.end_row)
        for (int c = 0; c < scan.components; ++c) scan.component[c].ac->prepare_leaps();
    for (int c = 0; c < scan.components; ++c) scan.component[c].ac->prepare_pairs();
    Bits bits;
    bits.start(data, end);
    const bool sound = read_scan(info, scan, bits, pixels, chroma, sums);
    free(memory);
    return sound;
}

bool baseline_fits(const jpeg_decompress_struct& info, int64_t channels, int denominator) noexcept {
    if (info.progressive_mode || info.arith_code || info.data_precision != 8 ||
        info.comps_in_scan != info.num_components || info.Ss != 0 || info.Se != 63 || info.Ah != 0 || info.Al != 0)
        return false;
    for (int c = 0; c < info.num_components; ++c)
        if (info.cur_comp_info[c] != &info.comp_info[c]) return false;
    if (info.num_components == 1) return info.jpeg_color_space == JCS_GRAYSCALE && channels == 1;
    if (info.num_components != 3 || info.jpeg_color_space != JCS_YCbCr || (channels != 1 && channels != 3)) return false;
    for (int c = 1; c < 3; ++c)
        if (info.comp_info[c].h_samp_factor != 1 || info.comp_info[c].v_samp_factor != 1) return false;
    const int across = info.comp_info[0].h_samp_factor, down = info.comp_info[0].v_samp_factor;
    if (across == 1 && down == 1) return true;
    if (across != 2 || down > 2) return false;
    if (denominator > 1) return down == 2;
    // Of a picture that narrow libjpeg repeats the chroma instead of smoothing it.
    return info.comp_info[1].downsampled_width > 2;
}

}  // namespace fb::codecs
