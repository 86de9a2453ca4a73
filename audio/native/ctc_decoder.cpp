// The decoder through plain C: a lexicon, decoders over it, searches that take an utterance piece by piece, batches.
//
// Nothing throws. Functions that can fail return a null pointer, or one of the negative numbers of `Outcome`.

#include <atomic>
#include <functional>
#include <new>

#include "ctc_search.h"

namespace {

using namespace fb::ctc;

enum Outcome : int32_t { Done = 0, NoMemory = -1, Stopped = -2 };

struct Decoder {
    Options options;
    const Lexicon* lexicon;
    fb::ctc::Scorer scorer;
    Callbacks callbacks;
    std::vector<uint32_t> units;
};

// The hypotheses of one utterance or of several, flat.
struct Results {
    std::vector<std::vector<Found>> utterances;
    int32_t outcome = Done;
};

template <typename Body>
void* made(const Body& body) noexcept {
    try {
        return body();
    } catch (const std::exception&) {
        return nullptr;
    }
}

template <typename Body>
int32_t outcome(const Body& body) noexcept {
    try {
        return body() ? Done : Stopped;
    } catch (const std::exception&) {
        return NoMemory;
    }
}

}  // namespace

// Arguments as those of `Lexicon`.
FB_EXPORT void* fb_ctc_lexicon(const int32_t* tokens, const int64_t* offsets, const int32_t* words, const float* scores,
                               int64_t count) noexcept {
    return made([&] { return new Lexicon(tokens, offsets, words, scores, count); });
}

FB_EXPORT void fb_ctc_lexicon_free(void* lexicon) noexcept { delete static_cast<Lexicon*>(lexicon); }

// Makes a decoder. `lexicon` and `model` may be null and must live as long as it; `units` has the model's word for each of
// its words, or tokens where it has no lexicon. `start`, `score` and `finish` are those of a model in Python, or null.
FB_EXPORT void* fb_ctc_new(const Options* options, const void* lexicon, const void* model, const uint32_t* units,
                           int64_t unit_count, int32_t (*start)(void*), int32_t (*score)(void*, int32_t, int32_t, float*),
                           int32_t (*finish)(void*, int32_t, float*)) noexcept {
    return made([&] {
        auto decoder = std::make_unique<Decoder>();
        decoder->options = *options;
        decoder->lexicon = static_cast<const Lexicon*>(lexicon);
        decoder->callbacks = Callbacks{start, score, finish, nullptr};
        if (unit_count) decoder->units.assign(units, units + unit_count);
        decoder->scorer = fb::ctc::Scorer{static_cast<const fb::lm::Model*>(model), decoder->units.data(), unit_count,
                                          start ? &decoder->callbacks : nullptr};
        return decoder.release();
    });
}

FB_EXPORT void fb_ctc_free(void* decoder) noexcept { delete static_cast<Decoder*>(decoder); }

// A search that takes its utterance in pieces; the decoder must outlive it. `fb_ctc_begin` starts it, also once more.
FB_EXPORT void* fb_ctc_search(const void* decoder) noexcept {
    const auto& from = *static_cast<const Decoder*>(decoder);
    return made([&] { return new Search(from.options, from.lexicon, from.scorer); });
}
FB_EXPORT int32_t fb_ctc_begin(void* search) noexcept {
    return outcome([&] { return static_cast<Search*>(search)->begin(); });
}
FB_EXPORT int32_t fb_ctc_step(void* search, const float* emissions, int64_t frames, int64_t stride) noexcept {
    return outcome([&] { return static_cast<Search*>(search)->step(emissions, frames, stride); });
}
FB_EXPORT int32_t fb_ctc_end(void* search) noexcept {
    return outcome([&] { return static_cast<Search*>(search)->end(); });
}
FB_EXPORT void fb_ctc_search_free(void* search) noexcept { delete static_cast<Search*>(search); }

// The `most` best hypotheses of a search so far.
FB_EXPORT void* fb_ctc_results(const void* search, int32_t most) noexcept {
    return made([&] {
        auto results = std::make_unique<Results>();
        results->utterances.push_back(static_cast<const Search*>(search)->results(size_t(most)));
        return results.release();
    });
}

// Decodes a batch, each utterance on one of `nthreads` threads: `emissions` is [batch, frames, tokens], of which row b has
// `lengths[b]` frames.
FB_EXPORT void* fb_ctc_decode(const void* decoder, const float* emissions, const int64_t* lengths, int64_t batch,
                              int64_t frames, int32_t most, int32_t nthreads) noexcept {
    const auto& from = *static_cast<const Decoder*>(decoder);
    return made([&] {
        auto results = std::make_unique<Results>();
        results->utterances.resize(size_t(batch));
        std::atomic<int32_t> worst{Done};
        const int64_t tokens = from.options.tokens;
        fb::parallel_for(0, batch, 1, from.scorer.callbacks ? 1 : nthreads, [&](int64_t begin, int64_t end) noexcept {
            const int32_t status = outcome([&] {
                Search search(from.options, from.lexicon, from.scorer);
                for (int64_t b = begin; b < end; ++b) {
                    const bool done = search.begin() && search.step(emissions + b * frames * tokens, lengths[b], tokens) &&
                                      search.end();
                    if (!done) return false;
                    results->utterances[size_t(b)] = search.results(size_t(most));
                }
                return true;
            });
            if (status != Done) worst = status;
        });
        results->outcome = worst;
        return results.release();
    });
}

// How the batch went (an `Outcome`), and the numbers of its hypotheses, tokens and words.
FB_EXPORT int32_t fb_ctc_sizes(const void* results, int64_t* sizes) noexcept {
    const auto& from = *static_cast<const Results*>(results);
    sizes[0] = sizes[1] = sizes[2] = 0;
    for (const auto& utterance : from.utterances) {
        sizes[0] += int64_t(utterance.size());
        for (const Found& found : utterance) {
            sizes[1] += int64_t(found.tokens.size());
            sizes[2] += int64_t(found.words.size());
        }
    }
    return from.outcome;
}

// Writes the results: hypotheses for each utterance; for each hypothesis its score and the numbers of its tokens and of its
// words; tokens, their frames, words.
FB_EXPORT void fb_ctc_read(const void* results, int64_t* hypotheses, double* scores, int64_t* token_counts,
                           int64_t* word_counts, int64_t* tokens, int32_t* frames, int32_t* words) noexcept {
    for (const auto& utterance : static_cast<const Results*>(results)->utterances) {
        *hypotheses++ = int64_t(utterance.size());
        for (const Found& found : utterance) {
            *scores++ = found.score;
            *token_counts++ = int64_t(found.tokens.size());
            *word_counts++ = int64_t(found.words.size());
            tokens = std::copy(found.tokens.begin(), found.tokens.end(), tokens);
            frames = std::copy(found.frames.begin(), found.frames.end(), frames);
            words = std::copy(found.words.begin(), found.words.end(), words);
        }
    }
}
FB_EXPORT void fb_ctc_results_free(void* results) noexcept { delete static_cast<Results*>(results); }
