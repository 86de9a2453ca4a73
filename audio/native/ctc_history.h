// What a hypothesis has said so far, as the language model counts it, and what the model says about going on.
//
// A history is a node in a tree of units (words or tokens); its number is its identity. The children of one that are only
// proposed have no number yet: their key, (number of the history, unit), tells them apart as well. A language model in
// Python makes its own states, of which Python gives the numbers.

#pragma once

#include "ngram.h"

namespace fb::ctc {

inline uint64_t mix(uint64_t value) noexcept {
    value ^= value >> 32;
    value *= 0xd6e8feb86659fd93ull;
    return value ^ (value >> 32);
}

// From 64 bits to 32, open addressing.
class Numbers {
  public:
    void clear() {
        used_ = 0;
        places_.assign(1024, Place{0, none});
    }
    uint32_t& operator[](uint64_t key) {
        if ((used_ + 1) * 2 > places_.size()) grow();
        Place& place = places_[find(key)];
        if (place.value == none) {
            place.key = key;
            ++used_;
        }
        return place.value;
    }
    static constexpr uint32_t none = 0xffffffffu;

  private:
    struct Place {
        uint64_t key;
        uint32_t value;
    };
    size_t find(uint64_t key) const noexcept {
        size_t at = size_t(mix(key)) & (places_.size() - 1);
        while (places_[at].value != none && places_[at].key != key) at = (at + 1) & (places_.size() - 1);
        return at;
    }
    void grow() {
        std::vector<Place> before(places_.size() * 2, Place{0, none});
        before.swap(places_);
        for (const Place& place : before)
            if (place.value != none) places_[find(place.key)] = place;
    }
    std::vector<Place> places_;
    size_t used_ = 0;
};

// A language model in Python. Each call gives the number of a state and sets its score; a negative number stops the search.
struct Callbacks {
    int32_t (*start)(void* context);
    int32_t (*score)(void* context, int32_t state, int32_t unit, float* score);
    int32_t (*finish)(void* context, int32_t state, float* score);
    void* context;
};

// The language model of a decoder; neither, one or the other.
struct Scorer {
    const lm::Model* model = nullptr;
    const uint32_t* units = nullptr;  // the model's word for each unit
    int64_t unit_count = 0;
    const Callbacks* callbacks = nullptr;
};

struct Said {
    uint64_t key;  // of the history after it
    float score;
};

class History {
  public:
    static constexpr uint32_t proposed = 0xffffffffu;  // in place of a number

    explicit History(const Scorer& scorer) : scorer_(scorer) {
        if (scorer.model || scorer.callbacks) cache_.resize(cache_size);
    }

    // Forgets everything; false when Python stopped the search.
    bool begin() {
        stopped_ = false;
        keys_.clear();
        contexts_.clear();
        numbers_.clear();
        for (Cached& cached : cache_) cached.history = proposed;
        if (scorer_.callbacks) {
            root_ = state(scorer_.callbacks->start(scorer_.callbacks->context));
            return !stopped_;
        }
        root_ = 0;
        keys_.push_back(~uint64_t{0});
        if (scorer_.model) contexts_.push_back(scorer_.model->start());
        return true;
    }
    uint32_t root() const noexcept { return root_; }
    bool stopped() const noexcept { return stopped_; }

    uint64_t key(uint32_t history) const noexcept {
        return scorer_.callbacks ? python | history : keys_[history];
    }

    // What saying `unit` after a history costs, and leads to.
    Said say(uint32_t history, int32_t unit) {
        const uint64_t key = uint64_t(history) << 32 | uint32_t(unit);
        if (cache_.empty() || stopped_) return Said{key, 0.0f};
        Cached& cached = cache_[size_t(mix(key)) & (cache_size - 1)];
        if (cached.history != history || cached.unit != unit) {
            cached.history = history;
            cached.unit = unit;
            if (scorer_.model) {
                lm::Context after;
                cached.score = scorer_.model->score(contexts_[history], word(unit), after);
            } else {
                cached.score = 0;
                cached.next = state(scorer_.callbacks->score(scorer_.callbacks->context, int32_t(history), unit, &cached.score));
            }
        }
        return Said{scorer_.model ? key : python | cached.next, cached.score};
    }

    Said finish(uint32_t history) {
        if (stopped_) return Said{python | history, 0.0f};
        if (scorer_.callbacks) {
            float score = 0;
            const uint32_t next = state(scorer_.callbacks->finish(scorer_.callbacks->context, int32_t(history), &score));
            return Said{python | next, score};
        }
        if (!scorer_.model) return Said{keys_[history], 0.0f};
        lm::Context after;
        return Said{keys_[history], scorer_.model->score(contexts_[history], scorer_.model->end_word(), after)};
    }

    // The number of the history with a key, which gets one if it has none.
    uint32_t number(uint64_t key) {
        if (scorer_.callbacks) return uint32_t(key);
        uint32_t& number = numbers_[key];
        if (number == Numbers::none) {
            number = uint32_t(keys_.size());
            keys_.push_back(key);
            if (scorer_.model) {
                lm::Context after;
                scorer_.model->score(contexts_[key >> 32], word(int32_t(uint32_t(key))), after);
                contexts_.push_back(after);
            }
        }
        return number;
    }

  private:
    static constexpr uint64_t python = uint64_t{0xfffffffe} << 32;
    static constexpr size_t cache_size = size_t{1} << 15;

    struct Cached {
        uint32_t history = proposed;
        int32_t unit = 0;
        float score = 0;
        uint32_t next = 0;
    };
    uint32_t state(int32_t number) noexcept {
        if (number < 0) stopped_ = true;
        return uint32_t(number < 0 ? 0 : number);
    }
    uint32_t word(int32_t unit) const noexcept {
        return unit >= 0 && unit < scorer_.unit_count ? scorer_.units[unit] : 0;
    }

    // Contexts in little room: as long as each is, one after the other.
    class Contexts {
      public:
        void clear() noexcept {
            offsets_.assign(1, 0);
            words_.clear();
            backoffs_.clear();
        }
        void push_back(const lm::Context& context) {
            words_.insert(words_.end(), context.words, context.words + context.length);
            backoffs_.insert(backoffs_.end(), context.backoffs, context.backoffs + context.length);
            offsets_.push_back(words_.size());
        }
        lm::Context operator[](size_t at) const noexcept {
            lm::Context context;
            const size_t begin = offsets_[at], length = offsets_[at + 1] - begin;
            context.length = int32_t(length);
            if (length) {
                memcpy(context.words, words_.data() + begin, length * sizeof(uint32_t));
                memcpy(context.backoffs, backoffs_.data() + begin, length * sizeof(float));
            }
            return context;
        }

      private:
        std::vector<size_t> offsets_;
        std::vector<uint32_t> words_;
        std::vector<float> backoffs_;
    };

    const Scorer scorer_;
    uint32_t root_ = 0;
    bool stopped_ = false;
    std::vector<uint64_t> keys_;
    Contexts contexts_;
    Numbers numbers_;
    std::vector<Cached> cache_;
};

}  // namespace fb::ctc
