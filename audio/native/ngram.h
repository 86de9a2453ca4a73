// N-gram language models as the decoder sees them: words by number, contexts, log10 probabilities.
//
// A model is immutable and serves any number of threads. Word 0 is <unk>. A context is the words that still matter, the
// latest first, and the weights to back off from them by: `backoffs[i]` belongs to the n-gram of the latest i + 1 words.

#pragma once

#include <flambeau/kernel.h>

#include <memory>
#include <string>
#include <vector>

namespace fb::lm {

inline constexpr int max_order = 20;

struct Context {
    int32_t length = 0;
    uint32_t words[max_order - 1];
    float backoffs[max_order - 1];
};

// A backoff of -0.0 says that no longer n-gram has this one as its context.
inline bool extends(float backoff) noexcept {
    uint32_t bits;
    memcpy(&bits, &backoff, sizeof bits);
    return bits != 0x80000000u;
}

class Model {
  public:
    virtual ~Model() = default;
    // The number of a word, 0 when it has none.
    virtual uint32_t word(const char* text, size_t size) const noexcept = 0;
    // log10 of the probability of `word` after `before`; `after` is the context that follows and may not be `before`.
    virtual float score(const Context& before, uint32_t word, Context& after) const noexcept = 0;

    int order() const noexcept { return order_; }
    uint32_t begin_word() const noexcept { return begin_; }
    uint32_t end_word() const noexcept { return end_; }

    // The context at the beginning of a sentence.
    Context start() const noexcept {
        Context empty, context;
        score(empty, begin_, context);
        context.length = 1;  // also where nothing extends it: it is what the next word backs off from
        return context;
    }

  protected:
    int order_ = 0;
    uint32_t begin_ = 0, end_ = 0;
};

// Why a file is refused; the text is for the person who has the file.
struct Fault {
    std::string text;
};

// `bytes` must outlive a binary model; of an ARPA file everything is copied. Throws Fault and std::bad_alloc.
std::unique_ptr<Model> read_arpa(const uint8_t* bytes, size_t size);
std::unique_ptr<Model> read_binary(const uint8_t* bytes, size_t size);
bool is_binary(const uint8_t* bytes, size_t size) noexcept;

uint64_t hash_word(const char* text, size_t size) noexcept;

// Scores `word` with any structure that can look n-grams up backwards: `unigram(word, found)`, then `longer(depth, word,
// found)` for each earlier word; both leave where they are in `found`.
template <typename Lookup, typename Found>
inline float score_with(const Lookup& lookup, int order, const Context& before, uint32_t word, Context& after,
                        Found found) noexcept {
    lookup.unigram(word, found);
    float probability = found.probability;
    int matched = 1;
    after.words[0] = word;
    after.backoffs[0] = found.backoff;
    after.length = order > 1 && extends(found.backoff) ? 1 : 0;
    for (int i = 0; i < before.length && matched < order; ++i) {
        if (!lookup.longer(matched + 1, before.words[i], found)) break;
        ++matched;
        probability = found.probability;
        if (matched == order) break;
        after.words[matched - 1] = before.words[i];
        after.backoffs[matched - 1] = found.backoff;
        if (extends(found.backoff)) after.length = matched;
    }
    for (int i = matched - 1; i < before.length; ++i) probability += before.backoffs[i];
    return probability;
}

}  // namespace fb::lm
