// What two lists of ids have in common, for each row of two list columns.
//
// Both lists of a row are sorted and walked together: no hash tables, and the same order of summation on every machine.
// A list column is `offsets` (rows + 1, rising from 0) and the items of all lists in one array.

#include <flambeau/kernel.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <new>

namespace {

enum Overlap : int64_t { Has, Count, MaxCount, Jaccard };
enum Scored : int64_t { Cosine, Sum, Least, Greatest };

struct Item {
    int64_t id;
    float score;
};

int64_t longest(const int64_t* offsets, int64_t rows) noexcept {
    int64_t most = 0;
    for (int64_t row = 0; row < rows; ++row) most = std::max(most, offsets[row + 1] - offsets[row]);
    return most;
}

struct Common {
    int64_t least = 0, most = 0;  // over shared ids: the smaller and the larger number of instances, summed
};

Common common(const int64_t* a, int64_t n, const int64_t* b, int64_t m) noexcept {
    Common found;
    for (int64_t i = 0, j = 0; i < n && j < m;) {
        if (a[i] < b[j]) {
            ++i;
        } else if (b[j] < a[i]) {
            ++j;
        } else {
            const int64_t id = a[i];
            int64_t in_a = 0, in_b = 0;
            for (; i < n && a[i] == id; ++i) ++in_a;
            for (; j < m && b[j] == id; ++j) ++in_b;
            found.least += std::min(in_a, in_b);
            found.most += std::max(in_a, in_b);
        }
    }
    return found;
}

// Items in the order of ids; of equal ids in the order of the list, so that sums do not depend on the sort.
void sorted_items(const int64_t* ids, const float* scores, int64_t count, Item* items) noexcept {
    for (int64_t i = 0; i < count; ++i) items[i] = {ids[i], scores ? scores[i] : 0.0f};
    const auto before = [](const Item& x, const Item& y) { return x.id < y.id; };
    // Insertion sort is stable and needs no memory; lists of ids are short.
    if (count > 64) {
        std::stable_sort(items, items + count, before);
        return;
    }
    for (int64_t i = 1; i < count; ++i) {
        const Item item = items[i];
        int64_t j = i;
        for (; j > 0 && before(item, items[j - 1]); --j) items[j] = items[j - 1];
        items[j] = item;
    }
}

// The scores of an id from `place` on, folded; `place` moves behind them.
template <typename Fold>
double fold(const Item* items, int64_t count, int64_t& place, Fold step) noexcept {
    const int64_t id = items[place].id;
    double value = items[place++].score;
    for (; place < count && items[place].id == id; ++place) value = step(value, items[place].score);
    return value;
}

double add(double a, double b) noexcept { return a + b; }

// Squared length of the vector that has the sum of scores for each id.
double squares(const Item* items, int64_t count) noexcept {
    double total = 0;
    for (int64_t i = 0; i < count;) {
        const double sum = fold(items, count, i, add);
        total += sum * sum;
    }
    return total;
}

double dot(const Item* a, int64_t n, const Item* b, int64_t m) noexcept {
    double total = 0;
    for (int64_t i = 0, j = 0; i < n && j < m;) {
        if (a[i].id < b[j].id) {
            ++i;
        } else if (b[j].id < a[i].id) {
            ++j;
        } else {
            const double mine = fold(a, n, i, add);
            total += mine * fold(b, m, j, add);
        }
    }
    return total;
}

template <typename Fold>
double matching(const Item* a, int64_t n, const Item* b, int64_t m, Fold step) noexcept {
    double total = 0;
    bool any = false;
    for (int64_t i = 0, j = 0; i < n && j < m;) {
        if (a[i].id < b[j].id) {
            ++i;
        } else if (b[j].id < a[i].id) {
            ++j;
        } else {
            for (const int64_t id = a[i].id; i < n && a[i].id == id;) ++i;
            const double score = fold(b, m, j, step);
            total = any ? step(total, score) : score;
            any = true;
        }
    }
    return total;
}

}  // namespace

// 0, or -1 when there is no memory to sort the longest lists in.
FB_EXPORT int64_t fb_frame_overlap(int64_t mode, const int64_t* offsets, const int64_t* ids, const int64_t* other_offsets,
                                   const int64_t* others, int64_t rows, float* result) {
    const std::unique_ptr<int64_t[]> a(new (std::nothrow) int64_t[size_t(longest(offsets, rows)) + 1]);
    const std::unique_ptr<int64_t[]> b(new (std::nothrow) int64_t[size_t(longest(other_offsets, rows)) + 1]);
    if (!a || !b) return -1;
    for (int64_t row = 0; row < rows; ++row) {
        const int64_t n = offsets[row + 1] - offsets[row], m = other_offsets[row + 1] - other_offsets[row];
        std::sort(a.get(), std::copy_n(ids + offsets[row], n, a.get()));
        std::sort(b.get(), std::copy_n(others + other_offsets[row], m, b.get()));
        const Common found = common(a.get(), n, b.get(), m);
        const int64_t both = n + m - found.least;
        result[row] = mode == Has        ? float(found.least > 0)
                      : mode == Count    ? float(found.least)
                      : mode == MaxCount ? float(found.most)
                      : both             ? float(found.least) / float(both)
                                         : 0.0f;
    }
    return 0;
}

// `scores` may be null except for Cosine. 0; -1 when there is no memory; row + 1 of the first row of norm zero (Cosine).
FB_EXPORT int64_t fb_frame_scored_overlap(int64_t mode, const int64_t* offsets, const int64_t* ids, const float* scores,
                                          const int64_t* other_offsets, const int64_t* others, const float* other_scores,
                                          int64_t rows, float* result) {
    const std::unique_ptr<Item[]> a(new (std::nothrow) Item[size_t(longest(offsets, rows)) + 1]);
    const std::unique_ptr<Item[]> b(new (std::nothrow) Item[size_t(longest(other_offsets, rows)) + 1]);
    if (!a || !b) return -1;
    for (int64_t row = 0; row < rows; ++row) {
        const int64_t first = offsets[row], other = other_offsets[row];
        const int64_t n = offsets[row + 1] - first, m = other_offsets[row + 1] - other;
        sorted_items(ids + first, scores ? scores + first : nullptr, n, a.get());
        sorted_items(others + other, other_scores + other, m, b.get());
        if (mode == Cosine) {
            const double norm = std::sqrt(squares(a.get(), n)) * std::sqrt(squares(b.get(), m));
            if (norm == 0) return row + 1;
            result[row] = float(dot(a.get(), n, b.get(), m) / norm);
        } else if (mode == Sum) {
            result[row] = float(matching(a.get(), n, b.get(), m, add));
        } else if (mode == Least) {
            result[row] = float(matching(a.get(), n, b.get(), m, [](double x, double y) { return std::min(x, y); }));
        } else {
            result[row] = float(matching(a.get(), n, b.get(), m, [](double x, double y) { return std::max(x, y); }));
        }
    }
    return 0;
}
