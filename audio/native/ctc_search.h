// Beam search over the frames of one utterance (Collobert et al. 2016, arXiv:1609.03193; Kahn et al. 2022, arXiv:2201.12465).
//
// Hypotheses of a frame are proposed, thresholded, merged through a hash table where they have said the same, and cut to
// the beam. Only what is needed to trace a result back is kept of earlier frames, 12 bytes for each hypothesis.

#pragma once

#include "ctc_history.h"
#include "ctc_lexicon.h"

namespace fb::ctc {

struct Options {
    int32_t tokens;        // in a frame
    int32_t blank, silence;
    int32_t unknown;       // the word for spellings that are in no lexicon
    int32_t beam;          // most hypotheses
    int32_t beam_tokens;   // most tokens looked at in a frame
    int32_t log_add;       // merge by adding probabilities, not by the better one
    int32_t reserved;
    double threshold;      // hypotheses are dropped that are worse than the best by more
    double lm_weight, word_score, unknown_score, silence_score;
};

// A hypothesis as read out: of its path the tokens without blanks and repetitions.
struct Found {
    double score;
    std::vector<int64_t> tokens;
    std::vector<int32_t> frames;  // of the path, whose first entry is the silence before the first frame
    std::vector<int32_t> words;
};

// Keeps proposals away that cannot be in the beam: those below twice as many others as the beam takes, and some more.
// Scores are counted in steps below the highest possible one. Exact as long as a full beam is left after merging; where
// merging adds probabilities up, every proposal counts and none is kept away.
class Bound {
  public:
    void begin(const Options& options, double highest) {
        lifted_ = options.log_add != 0;
        kept_away_ = false;
        if (lifted_) return;
        highest_ = highest;
        const double range = options.threshold < 64.0 ? options.threshold : 64.0;
        scale_ = range > 0 ? steps / range : 0.0;
        wanted_ = 2 * int64_t(options.beam) + 16;
        above_ = 0;
        last_ = steps;
        counts_.assign(steps + 1, 0);
    }
    void lift() noexcept { lifted_ = true; }
    bool kept_away() const noexcept { return kept_away_; }

    bool admits(double score) noexcept {
        if (lifted_) return true;
        const double below = (highest_ - score) * scale_;
        // The last step is for whatever lies further down, and for what is not finite.
        const int step = below <= 0 ? 0 : below < steps ? int(below) : steps;
        if (step > last_) {
            kept_away_ = true;
            return false;
        }
        ++counts_[size_t(step)];
        ++above_;
        while (last_ > 0 && above_ - counts_[size_t(last_)] >= wanted_) above_ -= counts_[size_t(last_--)];
        return true;
    }

  private:
    static constexpr int steps = 512;
    bool lifted_ = false, kept_away_ = false;
    double highest_ = 0, scale_ = 0;
    int64_t wanted_ = 0, above_ = 0;
    int last_ = steps;
    std::vector<int64_t> counts_;
};

class Search {
  public:
    Search(const Options& options, const Lexicon* lexicon, const Scorer& scorer)
        : options_(options), lexicon_(lexicon), history_(scorer) {}

    // Each of these is false when a language model in Python has stopped the search.
    bool begin() {
        ended_ = false;
        traces_.clear();
        beam_.clear();
        if (!history_.begin()) return false;
        traces_.push_back(Trace{no_trace, options_.silence, -1});
        beam_.push_back(Hypothesis{0.0, history_.root(), 0, options_.silence, false, 0});
        return true;
    }

    bool step(const float* emissions, int64_t frames, int64_t stride) {
        for (int64_t t = 0; t < frames; ++t) {
            const float* frame = emissions + t * stride;
            choose_tokens(frame);
            bound_.begin(options_, beam_.empty() ? 0.0 : highest(frame));
            propose_all(frame);
            // What the bound kept away matters only where too few are left, because many were the same.
            if (!merge_all() && bound_.kept_away()) {
                bound_.lift();
                propose_all(frame);
                merge_all();
            }
            if (history_.stopped()) return false;
            close();
        }
        return true;
    }

    bool end() {
        if (ended_) return true;
        ended_ = true;
        open();
        bound_.lift();
        const bool complete = std::any_of(beam_.begin(), beam_.end(), [](const Hypothesis& h) { return h.node == 0; });
        for (size_t i = 0; i < beam_.size(); ++i) {
            const Hypothesis& hypothesis = beam_[i];
            if (lexicon_ && complete && hypothesis.node != 0) continue;
            const Said said = history_.finish(hypothesis.history);
            propose(hypothesis.score + options_.lm_weight * said.score, said.key, hypothesis.history, hypothesis.node,
                    options_.silence, false, uint32_t(i), -1);
        }
        if (history_.stopped()) return false;
        merge_all();
        close();
        return true;
    }

    // The best hypotheses, best first.
    std::vector<Found> results(size_t most) const {
        std::vector<uint32_t> order(beam_.size());
        for (size_t i = 0; i < order.size(); ++i) order[i] = uint32_t(i);
        const auto better = [this](uint32_t a, uint32_t b) {
            return beam_[a].score != beam_[b].score ? beam_[a].score > beam_[b].score : a < b;
        };
        const size_t count = std::min(most, order.size());
        std::partial_sort(order.begin(), order.begin() + int64_t(count), order.end(), better);
        std::vector<Found> found(count);
        for (size_t i = 0; i < count; ++i) read(beam_[order[i]], found[i]);
        return found;
    }

  private:
    struct Trace {
        uint32_t before;
        int32_t token, word;
    };
    struct Hypothesis {
        double score;
        uint32_t history;
        uint32_t node;
        int32_t token;
        bool blank;  // the token is the blank
        uint32_t trace;
    };
    struct Candidate {
        double score;
        uint64_t key;
        uint32_t history;  // History::proposed where it has no number yet
        uint32_t node;
        uint32_t token;  // shifted by one, with the blank's mark
        uint32_t from;   // in the beam
        int32_t word;
        double best;  // of those merged
    };
    static constexpr uint32_t no_trace = 0xffffffffu;
    static constexpr double lowest = -std::numeric_limits<double>::infinity();

    void choose_tokens(const float* frame) {
        const int32_t count = options_.tokens;
        if (chosen_.size() != size_t(count)) {
            chosen_.resize(size_t(count));
            allowed_.assign(size_t(count), 1);
            for (int32_t n = 0; n < count; ++n) chosen_[size_t(n)] = n;
            chosen_count_ = size_t(count);
        }
        if (options_.beam_tokens >= count) return;
        for (int32_t n = 0; n < count; ++n) chosen_[size_t(n)] = n;
        chosen_count_ = size_t(options_.beam_tokens);
        std::nth_element(chosen_.begin(), chosen_.begin() + options_.beam_tokens, chosen_.end(), [frame](int32_t a, int32_t b) {
            return frame[a] != frame[b] ? frame[a] > frame[b] : a < b;
        });
        std::fill(allowed_.begin(), allowed_.end(), uint8_t{0});
        for (size_t r = 0; r < chosen_count_; ++r) allowed_[size_t(chosen_[r])] = 1;
    }

    // No proposal scores more, apart from what weights above 0 may add.
    double highest(const float* frame) const noexcept {
        double best = lowest;
        for (const Hypothesis& hypothesis : beam_) best = std::max(best, hypothesis.score);
        return best + *std::max_element(frame, frame + options_.tokens);
    }

    void propose_all(const float* frame) {
        open();
        if (lexicon_)
            for (size_t i = 0; i < beam_.size(); ++i) spell(beam_[i], uint32_t(i), frame);
        else
            for (size_t i = 0; i < beam_.size(); ++i) extend(beam_[i], uint32_t(i), frame);
    }

    void open() noexcept {
        candidates_.clear();
        best_ = lowest;
    }

    void propose(double score, uint64_t key, uint32_t history, uint32_t node, int32_t token, bool blank, uint32_t from,
                 int32_t word) {
        if (score >= best_) best_ = score;
        if (score >= best_ - options_.threshold && bound_.admits(score))
            candidates_.push_back(
                Candidate{score, key, history, node, uint32_t(token) << 1 | uint32_t(blank), from, word, score});
    }

    // Without a lexicon: any token follows any other.
    void extend(const Hypothesis& hypothesis, uint32_t from, const float* frame) {
        const uint64_t key = history_.key(hypothesis.history);
        for (size_t r = 0; r < chosen_count_; ++r) {
            const int32_t n = chosen_[r];
            double score = hypothesis.score + frame[n];
            if (n == options_.silence) score += options_.silence_score;
            if (n == options_.blank) {
                propose(score, key, hypothesis.history, 0, n, true, from, -1);
            } else if (n == hypothesis.token && !hypothesis.blank) {
                propose(score, key, hypothesis.history, 0, n, false, from, -1);
            } else {
                const Said said = history_.say(hypothesis.history, n);
                propose(score + options_.lm_weight * said.score, said.key, History::proposed, 0, n, false, from, -1);
            }
        }
    }

    // With a lexicon: along its tree.
    void spell(const Hypothesis& hypothesis, uint32_t from, const float* frame) {
        const Lexicon::Node& node = lexicon_->nodes[hypothesis.node];
        const bool at_root = hypothesis.node == 0;
        const float paid = at_root ? 0.0f : node.most;
        const uint64_t key = history_.key(hypothesis.history);
        for (uint32_t child = node.children; child < node.children_end; ++child) {
            const Lexicon::Node& next = lexicon_->nodes[child];
            const int32_t n = next.token;
            if (!allowed_[size_t(n)]) continue;
            double score = hypothesis.score + frame[n];
            if (n == options_.silence) score += options_.silence_score;
            if (next.children < next.children_end && (hypothesis.blank || n != hypothesis.token))
                propose(score + options_.lm_weight * (next.most - paid), key, hypothesis.history, child, n, false, from, -1);
            // Upstream: only from the root must a word of one token not repeat the token before it.
            for (uint32_t w = next.words; w < next.words_end && !(at_root && n == hypothesis.token); ++w)
                finish_word(hypothesis, from, n, lexicon_->words[w], score + options_.word_score, paid);
            if (next.words == next.words_end && options_.unknown_score > lowest)
                finish_word(hypothesis, from, n, options_.unknown, score + options_.unknown_score, paid);
        }
        if (!hypothesis.blank || at_root) {
            const int32_t n = at_root ? options_.silence : hypothesis.token;
            double score = hypothesis.score + frame[n];
            if (n == options_.silence) score += options_.silence_score;
            propose(score, key, hypothesis.history, hypothesis.node, n, false, from, -1);
        }
        const int32_t blank = options_.blank;
        propose(hypothesis.score + frame[blank], key, hypothesis.history, hypothesis.node, blank, true, from, -1);
    }

    void finish_word(const Hypothesis& hypothesis, uint32_t from, int32_t token, int32_t word, double score, float paid) {
        const Said said = history_.say(hypothesis.history, word);
        propose(score + options_.lm_weight * (said.score - paid), said.key, History::proposed, 0, token, false, from, word);
    }

    // Merges what is the same; whether a full beam is left.
    bool merge_all() {
        const double least = best_ - options_.threshold;
        size_t room = 64;
        while (room < candidates_.size() * 2) room *= 2;
        places_.assign(room, no_trace);
        kept_.clear();
        for (size_t i = 0; i < candidates_.size(); ++i) {
            Candidate& candidate = candidates_[i];
            if (!(candidate.score >= least)) continue;
            const uint64_t rest = uint64_t(candidate.node) << 32 | candidate.token;
            size_t at = size_t(mix(candidate.key * 0x9e3779b97f4a7c15ull + mix(rest))) & (room - 1);
            while (places_[at] != no_trace && !same(candidates_[places_[at]], candidate)) at = (at + 1) & (room - 1);
            if (places_[at] == no_trace) {
                places_[at] = uint32_t(i);
                kept_.push_back(uint32_t(i));
            } else {
                merge(candidates_[places_[at]], candidate);
            }
        }
        return kept_.size() >= size_t(options_.beam);
    }

    // Cuts to the beam, and makes hypotheses of what is left.
    void close() {
        cut();
        next_.clear();
        for (const uint32_t i : kept_) {
            const Candidate& candidate = candidates_[i];
            const uint32_t history =
                candidate.history == History::proposed ? history_.number(candidate.key) : candidate.history;
            const uint32_t trace = uint32_t(traces_.size());
            const int32_t token = int32_t(candidate.token >> 1);
            traces_.push_back(Trace{beam_[candidate.from].trace, token, candidate.word});
            next_.push_back(Hypothesis{candidate.score, history, candidate.node, token, (candidate.token & 1) != 0, trace});
        }
        beam_.swap(next_);
    }

    static bool same(const Candidate& a, const Candidate& b) noexcept {
        return a.key == b.key && a.node == b.node && a.token == b.token;
    }

    // The better one leads on; `into` is the earlier.
    void merge(Candidate& into, const Candidate& other) const noexcept {
        const double total = options_.log_add ? log_add(into.score, other.score) : std::max(into.score, other.score);
        if (other.best > into.best) {
            const uint32_t history = into.history;
            into = other;
            if (into.history == History::proposed) into.history = history;
        } else if (into.history == History::proposed) {
            into.history = other.history;
        }
        into.score = total;
    }
    static double log_add(double a, double b) noexcept {
        const double most = std::max(a, b), less = std::min(a, b);
        return less == lowest ? most : most + std::log1p(std::exp(less - most));
    }

    // Leaves the best of `kept_`, in the order they were proposed in; of equals the earlier.
    void cut() {
        const size_t beam = size_t(options_.beam);
        if (kept_.size() <= beam) return;
        scores_.clear();
        for (const uint32_t i : kept_) scores_.push_back(candidates_[i].score);
        std::nth_element(scores_.begin(), scores_.begin() + int64_t(beam) - 1, scores_.end(), std::greater<double>());
        const double last = scores_[beam - 1];
        size_t equals = beam;
        for (const uint32_t i : kept_) equals -= candidates_[i].score > last;
        size_t count = 0;
        for (const uint32_t i : kept_) {
            const double score = candidates_[i].score;
            if (score > last || (score == last && equals > 0 && equals--)) kept_[count++] = i;
        }
        kept_.resize(count);
    }

    void read(const Hypothesis& hypothesis, Found& found) const {
        found.score = hypothesis.score;
        std::vector<const Trace*> path;
        for (uint32_t at = hypothesis.trace; at != no_trace; at = traces_[at].before) path.push_back(&traces_[at]);
        int32_t before = -1;
        for (size_t i = path.size(); i-- > 0;) {
            const Trace& trace = *path[i];
            if (trace.word >= 0) found.words.push_back(trace.word);
            if (trace.token != before && trace.token != options_.blank) {
                found.tokens.push_back(trace.token);
                found.frames.push_back(int32_t(path.size() - 1 - i));
            }
            before = trace.token;
        }
    }

    const Options options_;
    const Lexicon* lexicon_;
    Bound bound_;
    History history_;
    bool ended_ = false;
    double best_ = lowest;
    std::vector<int32_t> chosen_;
    std::vector<uint8_t> allowed_;
    size_t chosen_count_ = 0;
    std::vector<Hypothesis> beam_, next_;
    std::vector<Candidate> candidates_;
    std::vector<uint32_t> places_, kept_;
    std::vector<double> scores_;
    std::vector<Trace> traces_;
};

}  // namespace fb::ctc
