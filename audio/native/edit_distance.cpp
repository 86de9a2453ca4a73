// Levenshtein distance of two sequences of symbols, 64 cells of a column at a time (Myers 1999, blocks after Hyyro 2003).

#include <flambeau/kernel.h>

#include <algorithm>
#include <vector>

namespace {

constexpr int64_t kBits = 64;

// The vertical differences of 64 cells of one column: bits of +1 and of -1.
struct Block {
    uint64_t positive = ~uint64_t{0};
    uint64_t negative = 0;

    // Moves the block one column on. `carry` is the horizontal difference that enters above, the answer the one that
    // leaves below the row of `last`.
    int advance(uint64_t equal, int carry, uint64_t last) noexcept {
        const uint64_t entered_negative = carry < 0;
        const uint64_t vertical = equal | negative;
        equal |= entered_negative;
        const uint64_t diagonal = (((equal & positive) + positive) ^ positive) | equal;
        uint64_t up = negative | ~(diagonal | positive);
        uint64_t down = positive & diagonal;
        const int leaves = static_cast<int>((up & last) != 0) - static_cast<int>((down & last) != 0);
        up = (up << 1) | static_cast<uint64_t>(carry > 0);
        down = (down << 1) | entered_negative;
        positive = down | ~(vertical | up);
        negative = up & vertical;
        return leaves;
    }
};

}  // namespace

// The least number of insertions, deletions and substitutions that turn `left` into `right`.
FB_EXPORT int64_t fb_edit_distance(const int64_t* left, int64_t left_size, const int64_t* right, int64_t right_size) {
    if (left_size > right_size) {
        std::swap(left, right);
        std::swap(left_size, right_size);
    }
    if (left_size == 0) return right_size;
    std::vector<int64_t> symbols(left, left + left_size);
    std::sort(symbols.begin(), symbols.end());
    symbols.erase(std::unique(symbols.begin(), symbols.end()), symbols.end());

    const int64_t blocks = (left_size + kBits - 1) / kBits;
    const auto row_of = [&](int64_t symbol) -> int64_t {
        const auto at = std::lower_bound(symbols.begin(), symbols.end(), symbol);
        return at != symbols.end() && *at == symbol ? at - symbols.begin() : static_cast<int64_t>(symbols.size());
    };
    // One row of bits per symbol of `left`, and a row of zeros for all others.
    std::vector<uint64_t> places((symbols.size() + 1) * blocks, 0);
    for (int64_t i = 0; i < left_size; ++i) {
        places[row_of(left[i]) * blocks + i / kBits] |= uint64_t{1} << (i % kBits);
    }

    std::vector<Block> column(blocks);
    const uint64_t final_row = uint64_t{1} << ((left_size - 1) % kBits);
    int64_t distance = left_size;
    for (int64_t j = 0; j < right_size; ++j) {
        const uint64_t* equal = places.data() + row_of(right[j]) * blocks;
        int carry = 1;  // the first row grows by one with every column
        for (int64_t b = 0; b < blocks; ++b) {
            const bool last = b + 1 == blocks;
            carry = column[b].advance(equal[b], carry, last ? final_row : uint64_t{1} << (kBits - 1));
        }
        distance += carry;
    }
    return distance;
}
