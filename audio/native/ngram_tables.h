// N-grams in hash tables, as KenLM's "probing" models have them: in memory of our own, or in a mapped file.
//
// The key of an n-gram folds its words from the last to the first. A key stands for its n-gram without further check: of
// 2^64 keys a model uses so few that two n-grams practically never share one. Key 0 marks an empty place.

#pragma once

#include "ngram.h"

#include <stdlib.h>

namespace fb::lm {

inline uint64_t fold(uint64_t key, uint32_t earlier) noexcept {
    return (key * 8978948897894561157ull) ^ ((uint64_t(earlier) + 1) * 17894857484156487943ull);
}

template <typename T>
inline T load(const uint8_t* at) noexcept {
    T value;
    memcpy(&value, at, sizeof value);
    return value;
}

// Open addressing with linear probing; a place is a key of 8 bytes and its value.
class Table {
  public:
    Table() noexcept = default;
    // A table in foreign memory.
    Table(const uint8_t* places, uint64_t buckets, size_t stride) noexcept
        : places_(places), buckets_(buckets), stride_(stride) {}
    // An empty one that grows.
    explicit Table(size_t stride, uint64_t expected = 0) : stride_(stride) { reserve(expected + expected / 2 + 8); }
    Table(Table&&) noexcept = default;
    Table& operator=(Table&&) noexcept = default;

    // The value of a key, null when it has none. In a damaged file every place may be taken, so the walk is bounded.
    const uint8_t* find(uint64_t key) const noexcept {
        uint64_t at = buckets_ ? key % buckets_ : 0;
        for (uint64_t step = 0; step < buckets_; ++step) {
            const uint8_t* place = places_ + at * stride_;
            const uint64_t found = load<uint64_t>(place);
            if (found == key && key != 0) return place + 8;
            if (found == 0) return nullptr;
            if (++at == buckets_) at = 0;
        }
        return nullptr;
    }
    // Only of a table with memory of its own.
    uint8_t* find(uint64_t key) noexcept {
        return const_cast<uint8_t*>(static_cast<const Table*>(this)->find(key));
    }
    // The place for the value of a new key; `fresh` is false when the key was there.
    uint8_t* insert(uint64_t key, bool& fresh) {
        if (key == 0) key = 1;
        if ((used_ + 1) * 4 > buckets_ * 3) grow();
        uint8_t* value = find(key);
        fresh = value == nullptr;
        if (!fresh) return value;
        ++used_;
        return put(key);
    }
    uint64_t size() const noexcept { return used_; }

  private:
    void reserve(uint64_t buckets) {
        owned_.assign(size_t(buckets) * stride_, 0);
        places_ = owned_.data();
        buckets_ = buckets;
    }
    void grow() {
        std::vector<uint8_t> before;
        before.swap(owned_);
        const uint64_t count = buckets_;
        reserve(count * 2 + 8);
        for (uint64_t i = 0; i < count; ++i) {
            const uint8_t* place = before.data() + i * stride_;
            if (const uint64_t key = load<uint64_t>(place)) memcpy(put(key), place + 8, stride_ - 8);
        }
    }
    uint8_t* put(uint64_t key) noexcept {
        uint64_t at = key % buckets_;
        while (load<uint64_t>(owned_.data() + at * stride_))
            if (++at == buckets_) at = 0;
        uint8_t* place = owned_.data() + at * stride_;
        memcpy(place, &key, sizeof key);
        return place + 8;
    }

    const uint8_t* places_ = nullptr;
    uint64_t buckets_ = 0, used_ = 0;
    size_t stride_ = 8;
    std::vector<uint8_t> owned_;
};

// Words and n-grams in hash tables.
class Hashed : public Model {
  public:
    struct Found {
        uint64_t key = 0;
        float probability = 0, backoff = 0;
    };

    uint32_t word(const char* text, size_t size) const noexcept override {
        const uint8_t* value = words.find(hash_word(text, size));
        const uint32_t number = value ? load<uint32_t>(value) : 0;
        return number < bound ? number : 0;
    }
    float score(const Context& before, uint32_t word, Context& after) const noexcept override {
        return score_with(*this, order_, before, word, after, Found());
    }
    void unigram(uint32_t word, Found& found) const noexcept {
        const uint8_t* at = unigrams + size_t(word < bound ? word : 0) * weights;
        found.key = word;
        found.probability = -absolute(load<float>(at));
        found.backoff = load<float>(at + 4);
    }
    bool longer(int length, uint32_t earlier, Found& found) const noexcept {
        found.key = fold(found.key, earlier);
        const uint8_t* value = tables[size_t(length) - 2].find(found.key);
        if (!value) return false;
        found.probability = -absolute(load<float>(value));
        if (length < order_) found.backoff = load<float>(value + 4);
        return true;
    }
    void finish() noexcept {
        order_ = int(tables.size()) + 1;
        begin_ = word("<s>", 3);
        end_ = word("</s>", 4);
    }

    Table words;                   // hash of the text -> number
    const uint8_t* unigrams = nullptr;
    size_t weights = 8;            // bytes for one word: probability, backoff, and in some files one more
    uint32_t bound = 0;            // words, with <unk>
    std::vector<Table> tables;     // of the n-grams of two words, of three, ...
    std::vector<float> own_unigrams;

  private:
    // KenLM uses the sign of a stored probability for something else.
    static float absolute(float value) noexcept { return value < 0 ? -value : value; }
};

}  // namespace fb::lm
