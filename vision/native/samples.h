// Where `roi_align` and `ps_roi_align` read a map, and how much each pixel counts.
//
// A bin is the mean of samples on a grid, each interpolated between four pixels. Weights of rows and weights of columns
// are independent of one another, so the mean is
//
//     sum over rows y of row_weight(y) * sum over columns x of column_weight(x) * map(y, x),
//
// and neighbouring samples that read the same pixel become one tap. Positions are computed in the dtype of the result,
// as upstream does, so that rounding puts each sample into the same cell.

#pragma once

#include <math.h>

#include "regions.h"

namespace vision {

template <typename T>
struct Tap {
    int32_t at;  // row or column; of a region with a list, a place in it
    T weight;
};

struct Bin {
    int32_t begin, end;  // its taps
};

template <typename T>
struct Region {
    int64_t image;
    int64_t place;     // row of rois, and of the result
    int32_t first;     // the columns that are read are [first, first + width), or those listed
    int32_t width;
    const int32_t* listed;  // null unless reading all columns between would cost more than picking out those needed
    const Bin* rows;
    const Bin* columns;
    const Tap<T>* taps;
};

// One direction of one region.
template <typename T>
struct Grid {
    T start, bin;
    int64_t bins, samples;  // samples per bin
    int64_t size;           // of the map

    Grid(T from, T to, double scale, bool aligned, int64_t bins, int64_t sampling_ratio, int64_t size) noexcept
        : bins(bins), size(size) {
        const T shift = aligned ? T(0.5) : T(0);
        start = from * T(scale) - shift;
        T extent = to * T(scale) - shift - start;
        if (!aligned && !(extent > T(1))) extent = T(1);
        bin = extent / T(bins);
        const T wanted = sampling_ratio > 0 ? T(sampling_ratio) : ceil(bin);
        // Not a number, infinite and hostile sizes have no samples rather than endless ones.
        samples = size > 0 && wanted >= T(1) && wanted < T(1 << 24) ? int64_t(wanted) : 0;
    }
    // Room that the taps of all bins can take.
    int64_t capacity() const noexcept { return bins * (2 * samples < size ? 2 * samples : size); }

    // Writes the taps of a bin in ascending order; returns their end.
    Tap<T>* fill(int64_t index, Tap<T>* taps) const noexcept {
        Tap<T>* end = taps;
        const T share = T(1) / T(samples);
        for (int64_t step = 0; step < samples; ++step) {
            const int64_t sample = bin < 0 ? samples - 1 - step : step;  // ascending positions
            T position = start + T(index) * bin + (T(sample) + T(0.5)) * bin / T(samples);
            if (!(position >= T(-1) && position <= T(size))) continue;
            if (position < 0) position = 0;
            const int32_t low = int32_t(position);
            if (low >= size - 1) {
                end = add(taps, end, int32_t(size - 1), share);
            } else {
                end = add(taps, end, low, (T(1) - (position - T(low))) * share);
                end = add(taps, end, low + 1, (position - T(low)) * share);
            }
        }
        return end;
    }

  private:
    static Tap<T>* add(Tap<T>* taps, Tap<T>* end, int32_t at, T weight) noexcept {
        for (Tap<T>* known = end - 1; known >= taps && known >= end - 2; --known) {
            if (known->at != at) continue;
            known->weight += weight;
            return end;
        }
        *end = {at, weight};
        return end + 1;
    }
};

// The taps of all regions, ordered by image.
template <typename T>
class Plan {
  public:
    // False when there is no memory. `picking`: list the columns of regions much wider than what is read of them.
    template <typename S>
    bool make(const fb_regions& given, bool picking) noexcept {
        const S* rois = static_cast<const S*>(given.rois);
        Array<int64_t> offsets;
        if (!regions_.make(given.count) || !offsets.make(given.count) || !image_ends_.make(given.images) ||
            !bins_.make(given.count * (given.bins_high + given.bins_wide)))
            return false;
        order(given, rois);
        int64_t room = 0;
        for (int64_t k = 0; k < given.count; ++k) {
            offsets[k] = room;
            room += rows_of(given, rois + 5 * regions_[k].place).capacity() +
                    columns_of(given, rois + 5 * regions_[k].place).capacity();
        }
        if (!taps_.make(room) || !listed_.make(picking ? room : 0)) return false;
        fb::parallel_for(0, given.count, 64, given.nthreads, [&](int64_t begin, int64_t end) noexcept {
            for (int64_t k = begin; k < end; ++k) {
                Bin* bins = bins_.get() + k * (given.bins_high + given.bins_wide);
                fill(given, rois, regions_[k], bins, taps_.get() + offsets[k]);
                if (picking) pick(given, regions_[k], listed_.get() + offsets[k]);
            }
        });
        for (int64_t k = 0; k < given.count; ++k)
            if (regions_[k].width > widest) widest = regions_[k].width;
        return true;
    }
    const Region<T>& operator[](int64_t index) const noexcept { return regions_[index]; }
    // The regions of one image are [begin(image), begin(image + 1)).
    int64_t begin(int64_t image) const noexcept { return image ? image_ends_[image - 1] : 0; }

    int64_t widest = 0;

  private:
    // A stable counting sort.
    template <typename S>
    void order(const fb_regions& given, const S* rois) noexcept {
        for (int64_t image = 0; image < given.images; ++image) image_ends_[image] = 0;
        for (int64_t k = 0; k < given.count; ++k) ++image_ends_[int64_t(widen(rois[5 * k]))];
        int64_t before = 0;
        for (int64_t image = 0; image < given.images; ++image) {
            const int64_t count = image_ends_[image];
            image_ends_[image] = before;
            before += count;
        }
        for (int64_t k = 0; k < given.count; ++k) {
            const int64_t image = int64_t(widen(rois[5 * k]));
            Region<T>& region = regions_[image_ends_[image]++];
            region = Region<T>();
            region.image = image;
            region.place = k;
        }
    }

    template <typename S>
    static Grid<T> rows_of(const fb_regions& given, const S* roi) noexcept {
        return Grid<T>(widen(roi[2]), widen(roi[4]), given.scale, given.aligned, given.bins_high,
                       given.sampling_ratio, given.height);
    }
    template <typename S>
    static Grid<T> columns_of(const fb_regions& given, const S* roi) noexcept {
        return Grid<T>(widen(roi[1]), widen(roi[3]), given.scale, given.aligned, given.bins_wide,
                       given.sampling_ratio, given.width);
    }

    template <typename S>
    static void fill(const fb_regions& given, const S* rois, Region<T>& region, Bin* bins, Tap<T>* taps) noexcept {
        const S* roi = rois + 5 * region.place;
        const Grid<T> rows = rows_of(given, roi), columns = columns_of(given, roi);
        Tap<T>* end = taps;
        region.taps = taps;
        region.rows = bins;
        region.columns = bins + given.bins_high;
        for (int64_t i = 0; i < given.bins_high; ++i) end = fill(rows, i, *bins++, taps, end);
        int32_t first = INT32_MAX, last = -1;
        for (int64_t j = 0; j < given.bins_wide; ++j) {
            Tap<T>* begin = end;
            end = fill(columns, j, *bins++, taps, end);
            for (; begin < end; ++begin) {
                if (begin->at < first) first = begin->at;
                if (begin->at > last) last = begin->at;
            }
        }
        region.first = last < 0 ? 0 : first;
        region.width = last < 0 ? 0 : last - first + 1;
    }
    static Tap<T>* fill(const Grid<T>& grid, int64_t index, Bin& bin, Tap<T>* taps, Tap<T>* begin) noexcept {
        Tap<T>* end = grid.fill(index, begin);
        bin = {int32_t(begin - taps), int32_t(end - taps)};
        return end;
    }

    // Columns that are read, in ascending order; taps then name places in this list. Bins share their edges' columns,
    // which are listed twice.
    static void pick(const fb_regions& given, Region<T>& region, int32_t* listed) noexcept {
        constexpr int64_t cheaper = 8;  // a vector of neighbours costs about as much as one number picked out
        const Bin *bins = region.columns, *end = bins + given.bins_wide;
        Tap<T>* taps = const_cast<Tap<T>*>(region.taps);
        int64_t count = 0;
        for (const Bin* bin = bins; bin < end; ++bin) count += bin->end - bin->begin;
        if (region.width <= cheaper * count) return;
        region.listed = listed;
        region.width = int32_t(count);
        for (const Bin* bin = bins; bin < end; ++bin)
            for (int32_t t = bin->begin; t < bin->end; ++t) {
                *listed = taps[t].at;
                taps[t].at = int32_t(listed++ - region.listed);
            }
        region.first = 0;
    }

    Array<Region<T>> regions_;
    Array<int64_t> image_ends_;  // where each image's regions end
    Array<Bin> bins_;
    Array<Tap<T>> taps_;
    Array<int32_t> listed_;
};

}  // namespace vision
