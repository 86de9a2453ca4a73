// Language models through plain C: reading a file that is in memory, numbers of words, scores of sentences.

#include "ngram.h"

#include <algorithm>
#include <new>

#include "ngram_tables.h"

namespace fb::lm {

// MurmurHash64A with seed 0 (Appleby, public domain), which KenLM's files number words by.
uint64_t hash_word(const char* text, size_t size) noexcept {
    constexpr uint64_t multiplier = 0xc6a4a7935bd1e995ull;
    const auto* bytes = reinterpret_cast<const uint8_t*>(text);
    uint64_t hash = size * multiplier;
    size_t at = 0;
    for (; at + 8 <= size; at += 8) {
        uint64_t block = load<uint64_t>(bytes + at) * multiplier;
        block ^= block >> 47;
        hash = (hash ^ (block * multiplier)) * multiplier;
    }
    if (at < size) {
        for (size_t i = size; i-- > at;) hash ^= uint64_t(bytes[i]) << (8 * (i - at));
        hash *= multiplier;
    }
    hash = (hash ^ (hash >> 47)) * multiplier;
    return hash ^ (hash >> 47);
}

}  // namespace fb::lm

using fb::lm::Context;
using fb::lm::Model;

// Reads a model from the bytes of its file; null on failure, with the reason in `message`. The bytes of a binary file must
// stay where they are until `fb_lm_free`.
FB_EXPORT void* fb_lm_open(const uint8_t* bytes, int64_t size, char* message, int64_t room) noexcept {
    const auto complain = [&](const char* text) {
        if (room > 0) snprintf(message, size_t(room), "%s", text);
    };
    try {
        const bool binary = fb::lm::is_binary(bytes, size_t(size));
        return (binary ? fb::lm::read_binary : fb::lm::read_arpa)(bytes, size_t(size)).release();
    } catch (const fb::lm::Fault& fault) {
        complain(fault.text.c_str());
    } catch (const std::exception&) {
        complain("there is not enough memory for the model");
    }
    return nullptr;
}

FB_EXPORT void fb_lm_free(void* model) noexcept { delete static_cast<Model*>(model); }

FB_EXPORT int32_t fb_lm_order(const void* model) noexcept { return static_cast<const Model*>(model)->order(); }

// The numbers of `count` words whose texts lie one after the other; word i ends where word i + 1 begins.
FB_EXPORT void fb_lm_words(const void* model, const char* texts, const int64_t* offsets, int64_t count,
                           uint32_t* numbers) noexcept {
    for (int64_t i = 0; i < count; ++i)
        numbers[i] = static_cast<const Model*>(model)->word(texts + offsets[i], size_t(offsets[i + 1] - offsets[i]));
}

// log10 of the probability of each word after those before it; `begin` starts with <s>, `end` adds </s> as the last.
FB_EXPORT void fb_lm_score(const void* model, const uint32_t* words, int64_t count, int32_t begin, int32_t end,
                           float* scores) noexcept {
    const Model& lm = *static_cast<const Model*>(model);
    Context context = begin ? lm.start() : Context();
    for (int64_t i = 0; i < count + (end ? 1 : 0); ++i) {
        Context after;
        scores[i] = lm.score(context, i < count ? words[i] : lm.end_word(), after);
        context = after;
    }
}

// log10 of the probability of each of some words at the beginning of a sentence.
FB_EXPORT void fb_lm_first(const void* model, const uint32_t* words, int64_t count, float* scores) noexcept {
    const Model& lm = *static_cast<const Model*>(model);
    const Context context = lm.start();
    Context ignored;
    for (int64_t i = 0; i < count; ++i) scores[i] = lm.score(context, words[i], ignored);
}
