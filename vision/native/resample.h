// Resizing of bytes: first along the rows of the source, then down the columns of what that gives.
//
// Between the two, values keep `line_bits` fraction bits and are cut to the levels there are, as Pillow does with whole
// levels; in the end they are rounded once. Sums are those of integers, so every implementation gives the same levels.

#pragma once

#include <stdint.h>
#include <string.h>

#include "filters.h"

namespace vision {

// Rows of the source that are taken together.
constexpr int group_rows = 16;

// What is to be done to each picture, or to each plane of pictures whose channels come first.
struct Resampling {
    Weights rows, columns;
    Array<int64_t> needed;   // source rows, ascending
    Array<int64_t> start;    // for each row of the result: the first of its source rows, as an index into `needed`
    int64_t channels = 1;      // values of a pixel that lie side by side
    int64_t pixel_stride = 1;  // from one pixel to the next, >= channels
    int64_t row_stride = 0;    // from one row to the next
    int64_t height = 0, width = 0;  // of the result
    bool flip = false;         // left and right change places
    bool planes = false;       // float32, each channel a plane; else bytes, laid out as the source, without gaps

    // The part of a source row that is looked at.
    int64_t first_byte() const noexcept { return columns.begin * pixel_stride; }
    int64_t used_bytes() const noexcept { return (columns.end - columns.begin - 1) * pixel_stride + channels; }
    // A line holds one row after the first direction: [channel][place] for planes, else [place][channel].
    int64_t line_part() const noexcept { return (width + 15) / 16 * 16; }
    int64_t line_size() const noexcept { return planes ? line_part() * channels : (width * channels + 31) / 32 * 32; }

    // Which source rows are needed: without a low-pass filter, not all. False when there is no memory.
    bool plan() noexcept {
        if (!needed.make(rows.end - rows.begin) || !start.make(height)) return false;
        int64_t known = 0;
        for (int64_t y = 0; y < height; ++y) {
            const int64_t first = rows.first[y], end = first + rows.count[y];
            int64_t at = known;
            while (at > 0 && needed[at - 1] >= first) --at;
            start[y] = at;
            for (int64_t row = known > 0 && needed[known - 1] >= first ? needed[known - 1] + 1 : first; row < end; ++row)
                needed[known++] = row;
        }
        return true;
    }
};

// Where the result of one picture, or plane, goes.
struct Target {
    uint8_t* bytes;
    float* numbers;  // the first channel's plane
    const float *mean, *std;  // of each channel
};

// A level as a number: scaled to [0, 1], then normalized. Quotients, rounded each, as torch's.
FB_INLINE float number_of(uint8_t level, float mean, float std) noexcept { return (float(level) / 255 - mean) / std; }

// Memory of one thread.
struct Workspace {
    Array<int16_t> turned;  // columns of a group of rows
    Array<int16_t> placed;  // columns of their lines
    Array<int16_t> lines;   // the last lines, a power of two of them
    Array<const int16_t*> sources;  // the lines that a row of the result is made of, and one more
    int64_t mask = 0;
    bool make(const Resampling& job) noexcept {
        int64_t most = 1;
        for (int64_t y = 0; y < job.height; ++y) most = job.rows.count[y] > most ? job.rows.count[y] : most;
        int64_t kept = 2 * group_rows;
        while (kept < most + group_rows) kept *= 2;
        mask = kept - 1;
        return turned.make((job.used_bytes() + job.pixel_stride + 32) * group_rows) &&
               placed.make((job.line_size() + 32) * group_rows) && lines.make(kept * job.line_size()) &&
               sources.make(most + 1);
    }
    int16_t* line(const Resampling& job, int64_t index) const noexcept {
        return lines.get() + (index & mask) * job.line_size();
    }
};

FB_INLINE int16_t to_line(int32_t sum, int32_t bits) noexcept {
    const int32_t value = sum >> (bits - line_bits), most = 255 << line_bits;
    return int16_t(value < 0 ? 0 : value > most ? most : value);
}
FB_INLINE int32_t line_half(int32_t bits) noexcept { return 1 << (bits - line_bits - 1); }
FB_INLINE uint8_t to_level(int32_t sum, int32_t bits) noexcept {
    const int32_t value = sum >> (bits + line_bits);
    return uint8_t(value < 0 ? 0 : value > 255 ? 255 : value);
}
FB_INLINE int32_t level_half(int32_t bits) noexcept { return 1 << (bits + line_bits - 1); }

// The place in the source's order of the result's place.
FB_INLINE int64_t mirrored(const Resampling& job, int64_t place) noexcept {
    return job.flip ? job.width - 1 - place : place;
}

// Rows [begin, end) of the result. `Steps` has the two directions:
//   along(job, rows, count, space, index)  makes lines `index` on of `count` source rows
//   down(job, y, sources, target)          makes row y of the result, of lines; one more of them may be read
template <typename Steps>
FB_INLINE void resample_with(const Resampling& job, const uint8_t* source, int64_t begin, int64_t end,
                             const Workspace& space, const Target& target) noexcept {
    int64_t made = job.start[begin];
    for (int64_t y = begin; y < end; ++y) {
        const int64_t wanted = job.start[y] + job.rows.count[y], last = job.start[end - 1] + job.rows.count[end - 1];
        while (made < wanted) {
            const uint8_t* rows[group_rows];
            const int64_t count = last - made < group_rows ? last - made : group_rows;
            for (int64_t i = 0; i < group_rows; ++i)
                rows[i] = source + job.needed[made + (i < count ? i : count - 1)] * job.row_stride + job.first_byte();
            Steps::along(job, rows, count, space, made);
            made += count;
        }
        const int64_t count = job.rows.count[y];
        for (int64_t k = 0; k < count; ++k) space.sources[k] = space.line(job, job.start[y] + k);
        space.sources[count] = space.sources[0];
        Steps::down(job, y, space.sources.get(), target);
    }
}

struct PlainSteps {
    FB_INLINE static void along(const Resampling& job, const uint8_t* const* rows, int64_t count,
                                const Workspace& space, int64_t index) noexcept {
        const Weights& columns = job.columns;
        const int64_t apart = job.planes ? job.line_part() : 1, step = job.planes ? 1 : job.channels;
        for (int64_t i = 0; i < count; ++i) {
            int16_t* line = space.line(job, index + i);
            for (int64_t place = 0; place < job.width; ++place) {
                const int64_t x = mirrored(job, place);
                const int16_t* weights = columns.values.get() + x * columns.stride;
                const uint8_t* from = rows[i] + (columns.first[x] - columns.begin) * job.pixel_stride;
                for (int64_t c = 0; c < job.channels; ++c) {
                    int32_t sum = line_half(columns.bits);
                    for (int64_t k = 0; k < columns.count[x]; ++k) sum += weights[k] * from[k * job.pixel_stride + c];
                    line[place * step + c * apart] = to_line(sum, columns.bits);
                }
            }
        }
    }

    FB_INLINE static void down(const Resampling& job, int64_t y, const int16_t* const* lines,
                               const Target& target) noexcept {
        const int64_t parts = job.planes ? job.channels : 1, length = job.planes ? job.width : job.width * job.channels;
        for (int64_t part = 0; part < parts; ++part)
            for (int64_t begin = 0; begin < length; begin += 128) {
                const int64_t many = length - begin < 128 ? length - begin : 128;
                int32_t sums[128];
                for (int64_t i = 0; i < many; ++i) sums[i] = level_half(job.rows.bits);
                for (int64_t k = 0; k < job.rows.count[y]; ++k) {
                    const int16_t* line = lines[k] + part * job.line_part() + begin;
                    const int32_t weight = job.rows.values[y * job.rows.stride + k];
                    for (int64_t i = 0; i < many; ++i) sums[i] += weight * line[i];
                }
                const int64_t place = (part * job.height + y) * length + begin;
                if (job.planes)
                    for (int64_t i = 0; i < many; ++i)
                        target.numbers[place + i] =
                            number_of(to_level(sums[i], job.rows.bits), target.mean[part], target.std[part]);
                else
                    for (int64_t i = 0; i < many; ++i) target.bytes[place + i] = to_level(sums[i], job.rows.bits);
            }
    }
};

FB_CLONES void resample_plain(const Resampling& job, const uint8_t* source, int64_t begin, int64_t end,
                              const Workspace& space, const Target& target) noexcept {
    resample_with<PlainSteps>(job, source, begin, end, space, target);
}

}  // namespace vision
