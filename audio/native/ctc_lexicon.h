// The spellings of a decoder's words as a tree of tokens.

#pragma once

#include <flambeau/kernel.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace fb::ctc {

// The children of a node lie one after the other, sorted by token; node 0 is the root. `most` is the best score that a
// word below the node has at the beginning of a sentence, which the search pays before it knows the word.
struct Lexicon {
    struct Node {
        int32_t token;
        uint32_t children, children_end;
        uint32_t words, words_end;
        float most;
    };

    std::vector<Node> nodes;
    std::vector<int32_t> words;

    // `tokens` has the spellings one after the other, number i from offsets[i] to offsets[i + 1], of word `labels[i]`, whose
    // score is `scores[i]`. Spellings without tokens are left out.
    Lexicon(const int32_t* tokens, const int64_t* offsets, const int32_t* labels, const float* scores, int64_t count) {
        std::vector<int64_t> order;
        for (int64_t i = 0; i < count; ++i)
            if (offsets[i] < offsets[i + 1]) order.push_back(i);
        // Stable, so that homophones keep the order they are given in.
        std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
            return std::lexicographical_compare(tokens + offsets[a], tokens + offsets[a + 1], tokens + offsets[b],
                                                tokens + offsets[b + 1]);
        });
        nodes.push_back(Node{-1, 0, 0, 0, 0, lowest});
        grow(tokens, offsets, labels, scores, order);
        for (size_t at = nodes.size(); at-- > 0;)
            for (uint32_t child = nodes[at].children; child < nodes[at].children_end; ++child)
                nodes[at].most = std::max(nodes[at].most, nodes[child].most);
    }

  private:
    static constexpr float lowest = -std::numeric_limits<float>::infinity();

    struct Range {
        size_t begin, end;  // of the sorted spellings that pass through a node
        int64_t depth;
    };

    // Level by level, so that the children of a node become neighbours.
    void grow(const int32_t* tokens, const int64_t* offsets, const int32_t* labels, const float* scores,
              const std::vector<int64_t>& order) {
        std::vector<Range> ranges{Range{0, order.size(), 0}};
        for (size_t at = 0; at < nodes.size(); ++at) {
            const Range range = ranges[at];
            size_t i = range.begin;
            nodes[at].words = uint32_t(words.size());
            for (; i < range.end && offsets[order[i] + 1] - offsets[order[i]] == range.depth; ++i) {
                words.push_back(labels[order[i]]);
                nodes[at].most = log_add(nodes[at].most, scores[order[i]]);
            }
            nodes[at].words_end = uint32_t(words.size());
            nodes[at].children = uint32_t(nodes.size());
            while (i < range.end) {
                const int32_t token = tokens[offsets[order[i]] + range.depth];
                size_t end = i + 1;
                while (end < range.end && tokens[offsets[order[end]] + range.depth] == token) ++end;
                nodes.push_back(Node{token, 0, 0, 0, 0, lowest});
                ranges.push_back(Range{i, end, range.depth + 1});
                i = end;
            }
            nodes[at].children_end = uint32_t(nodes.size());
        }
    }

    // Upstream: homophones add up, though everything else of a subtree counts by its best.
    static float log_add(float a, float b) noexcept {
        if (a < b) std::swap(a, b);
        const double less = double(b) - double(a);
        return b == lowest || less < -39.14 ? a : float(a + std::log1p(std::exp(less)));
    }
};

}  // namespace fb::ctc
