// Reads ARPA files into hash tables.
//
// The context of an n-gram, and the n-gram without its first word, ought to be in the file as well. Some programs prune
// them; they are put back here with the probability that the model gives them anyway, so that looking n-grams up word by
// word never stops too early.

#include <algorithm>
#include <limits>

#include "ngram_tables.h"

namespace fb::lm {
namespace {

constexpr float not_known = std::numeric_limits<float>::infinity();  // of a probability that is yet to be worked out
constexpr float unknown_word = -100.0f;                              // log10 of <unk>, where the file has none

struct Field {
    const char* text;
    size_t size;
    bool is(const char* word) const noexcept { return size == strlen(word) && memcmp(text, word, size) == 0; }
    std::string string() const { return std::string(text, std::min<size_t>(size, 80)); }
};

// The lines of a text, and the fields of a line.
class Lines {
  public:
    Lines(const uint8_t* bytes, size_t size) noexcept
        : at_(reinterpret_cast<const char*>(bytes)), end_(at_ + size) {}

    // The next line that is not blank; false at the end of the text.
    bool next() noexcept {
        while (at_ < end_) {
            const auto* found = static_cast<const char*>(memchr(at_, '\n', size_t(end_ - at_)));
            field_ = at_;
            line_end_ = found ? found : end_;
            at_ = found ? found + 1 : end_;
            ++number_;
            while (line_end_ > field_ && blank(line_end_[-1])) --line_end_;
            while (field_ < line_end_ && blank(*field_)) ++field_;
            if (field_ < line_end_) return true;
        }
        return false;
    }
    // The next field of the line; false at its end.
    bool field(Field& out) noexcept {
        if (field_ == line_end_) return false;
        const char* begin = field_;
        while (field_ < line_end_ && !blank(*field_)) ++field_;
        out = Field{begin, size_t(field_ - begin)};
        while (field_ < line_end_ && blank(*field_)) ++field_;
        return true;
    }
    Field rest() const noexcept { return Field{field_, size_t(line_end_ - field_)}; }
    size_t remaining() const noexcept { return size_t(end_ - at_); }
    [[noreturn]] void fail(const std::string& what) const {
        throw Fault{"line " + std::to_string(number_) + ": " + what};
    }

  private:
    static bool blank(char c) noexcept { return c == ' ' || c == '\t' || c == '\r'; }

    const char* at_;
    const char* end_;
    const char* field_ = nullptr;
    const char* line_end_ = nullptr;
    uint64_t number_ = 0;
};

// A decimal number without the help of the locale; false where it is none.
bool parse(const Field& field, double& value) noexcept {
    const char* at = field.text;
    const char* end = at + field.size;
    const bool negative = at < end && *at == '-';
    if (at < end && (*at == '-' || *at == '+')) ++at;
    if (end - at == 3 && (at[0] | 32) == 'i' && (at[1] | 32) == 'n' && (at[2] | 32) == 'f') {
        value = negative ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
        return true;
    }
    uint64_t digits = 0;
    int scale = 0, seen = 0;
    bool fraction = false;
    for (; at < end && (*at == '.' || (*at >= '0' && *at <= '9')); ++at) {
        if (*at == '.') {
            if (fraction) return false;
            fraction = true;
            continue;
        }
        ++seen;
        if (digits < 100000000000000000ull) {
            digits = digits * 10 + uint64_t(*at - '0');
            scale -= fraction;
        } else if (!fraction && scale < 10000) {
            ++scale;
        }
    }
    if (!seen) return false;
    if (at < end && (*at | 32) == 'e') {
        const bool down = ++at < end && *at == '-';
        if (at < end && (*at == '-' || *at == '+')) ++at;
        if (at == end) return false;
        int exponent = 0;
        for (; at < end && *at >= '0' && *at <= '9'; ++at) exponent = std::min(exponent * 10 + (*at - '0'), 10000);
        scale += down ? -exponent : exponent;
    }
    if (at != end) return false;
    double result = double(digits), power = 10;
    for (int n = std::abs(scale); n && result != 0; n >>= 1, power *= power)
        if (n & 1) result = scale < 0 ? result / power : result * power;
    value = negative ? -result : result;
    return true;
}

float log_probability(const Lines& lines, const Field& field) {
    double value;
    if (!parse(field, value)) lines.fail("'" + field.string() + "' is no number; expected the log10 of a probability");
    if (value > 0) lines.fail("the log10 of a probability is " + field.string() + ", expected at most 0");
    return float(value);
}

float backoff_weight(const Lines& lines, const Field& field) {
    double value;
    if (!parse(field, value) || !(value > -1e30 && value < 1e30))
        lines.fail("the backoff weight is '" + field.string() + "', expected a number");
    return value == 0 ? -0.0f : float(value);
}

// Key of the words [begin, end), which are in the order of the text.
uint64_t key_of(const uint32_t* begin, const uint32_t* end) noexcept {
    uint64_t key = *--end;
    while (end > begin) key = fold(key, *--end);
    return key;
}

class Reader {
  public:
    Reader(const uint8_t* bytes, size_t size) : lines_(bytes, size), model_(std::make_unique<Hashed>()) {}

    std::unique_ptr<Model> read() {
        header();
        unigrams();
        model_->tables.reserve(counts_.size());
        for (size_t length = 2; length <= counts_.size(); ++length) ngrams(length);
        ending();
        complete();
        model_->unigrams = reinterpret_cast<const uint8_t*>(model_->own_unigrams.data());
        model_->finish();
        if (!model_->begin_word() || !model_->end_word())
            throw Fault{"it has no <s> or no </s> among its single words; both are needed to score a sentence"};
        mark_contexts();
        return std::move(model_);
    }

  private:
    void header() {
        Field field;
        if (!lines_.next() || !lines_.field(field) || !field.is("\\data\\"))
            throw Fault{"it does not begin with \\data\\; it is neither an ARPA file nor a binary one of KenLM"};
        while (lines_.next()) {
            const Field line = lines_.rest();
            if (line.text[0] == '\\') return section(1);
            lines_.field(field);
            if (!field.is("ngram") || !lines_.field(field)) lines_.fail("expected 'ngram 1=...', got '" + line.string() + "'");
            std::string claim(field.text, field.size);
            while (lines_.field(field)) claim.append(field.text, field.size);
            const size_t equals = claim.find('=');
            double length, count;
            if (equals == std::string::npos || !parse(Field{claim.data(), equals}, length) ||
                !parse(Field{claim.data() + equals + 1, claim.size() - equals - 1}, count) ||
                length != double(counts_.size() + 1) || !(count >= 0 && count < 1e15))
                lines_.fail("expected 'ngram " + std::to_string(counts_.size() + 1) + "=...', got '" + line.string() + "'");
            // A line has a number, the words and what parts them: nothing is allocated on the word of a file too short.
            if (count * (2 * length + 2) > double(lines_.remaining()))
                lines_.fail("it claims more n-grams than the rest of the file has room for; it is truncated or damaged");
            counts_.push_back(uint64_t(count));
            if (counts_.size() > size_t(max_order))
                lines_.fail("it has n-grams of more than " + std::to_string(max_order) + " words");
        }
        lines_.fail("the file ends before its n-grams; it is truncated");
    }
    // Checks that the current line opens the n-grams of a length.
    void section(size_t length) {
        const Field line = lines_.rest();
        const std::string wanted = "\\" + std::to_string(length) + "-grams:";
        if (!line.is(wanted.c_str())) lines_.fail("expected '" + wanted + "', got '" + line.string() + "'");
        if (counts_.empty()) lines_.fail("it says 'ngram 1=...' nowhere");
    }
    void next_line(size_t length) {
        if (!lines_.next()) lines_.fail("the file ends among its " + std::to_string(length) + "-grams; it is truncated");
    }
    void ending() {
        if (!lines_.next() || !lines_.rest().is("\\end\\")) lines_.fail("expected '\\end\\' after the n-grams");
    }

    void unigrams() {
        std::vector<float>& weights = model_->own_unigrams;
        weights.assign(2, 0.0f);
        weights[0] = unknown_word;
        weights[1] = -0.0f;
        model_->words = Table(12, counts_[0]);
        uint32_t numbers = 1;
        for (uint64_t i = 0; i < counts_[0]; ++i) {
            next_line(1);
            Field probability, word, backoff;
            lines_.field(probability);
            const float log = log_probability(lines_, probability);
            if (!lines_.field(word)) lines_.fail("expected a probability and a word");
            const float weight = lines_.field(backoff) ? backoff_weight(lines_, backoff) : -0.0f;
            if (word.is("<unk>") || word.is("<UNK>")) {
                weights[0] = log;
                weights[1] = weight;
                continue;
            }
            bool fresh;
            uint8_t* value = model_->words.insert(hash_word(word.text, word.size), fresh);
            if (!fresh) lines_.fail("the word '" + word.string() + "' is there twice");
            memcpy(value, &numbers, sizeof numbers);
            ++numbers;
            weights.push_back(log);
            weights.push_back(weight);
        }
        model_->bound = numbers;
        model_->unigrams = reinterpret_cast<const uint8_t*>(weights.data());
    }

    void ngrams(size_t length) {
        next_line(length);
        section(length);
        const bool longest = length == counts_.size();
        Table table(longest ? 12 : 16, counts_[length - 1]);
        std::vector<uint32_t>& texts = texts_.emplace_back();
        texts.reserve(counts_[length - 1] * length);
        for (uint64_t i = 0; i < counts_[length - 1]; ++i) {
            next_line(length);
            Field field;
            lines_.field(field);
            float weights[2] = {log_probability(lines_, field), -0.0f};
            for (size_t k = 0; k < length; ++k) {
                if (!lines_.field(field)) lines_.fail("expected a probability and " + std::to_string(length) + " words");
                texts.push_back(known(field));
            }
            if (lines_.field(field) && !longest) weights[1] = backoff_weight(lines_, field);
            bool fresh;
            uint8_t* value = table.insert(key_of(&texts[i * length], &texts[i * length] + length), fresh);
            if (!fresh) lines_.fail("this n-gram is there twice");
            memcpy(value, weights, longest ? 4 : 8);
        }
        model_->tables.push_back(std::move(table));
    }
    uint32_t known(const Field& field) const {
        if (const uint8_t* value = model_->words.find(hash_word(field.text, field.size))) return load<uint32_t>(value);
        if (!field.is("<unk>") && !field.is("<UNK>"))
            lines_.fail("'" + field.string() + "' is not among the single words");
        return 0;
    }

    // Puts the missing shorter n-grams in: first all of them, from the longest on, then their probabilities.
    void complete() {
        for (size_t length = counts_.size(); length > 2; --length) {
            const std::vector<uint32_t>& texts = texts_[length - 2];
            for (size_t at = 0; at < texts.size(); at += length) {
                require(length - 1, &texts[at]);
                require(length - 1, &texts[at + 1]);
            }
        }
        for (size_t length = 2; length < counts_.size(); ++length) {
            const std::vector<uint32_t>& texts = texts_[length - 2];
            for (size_t at = counts_[length - 1] * length; at < texts.size(); at += length) {
                const uint32_t* words = &texts[at];
                const float value = weight_of(words, length - 1, 1) + weight_of(words + 1, length - 1, 0);
                memcpy(model_->tables[length - 2].find(key_of(words, words + length)), &value, sizeof value);
            }
        }
    }
    void require(size_t length, const uint32_t* words) {
        bool fresh;
        uint8_t* value = model_->tables[length - 2].insert(key_of(words, words + length), fresh);
        if (!fresh) return;
        const float weights[2] = {not_known, -0.0f};
        memcpy(value, weights, sizeof weights);
        const std::vector<uint32_t> copy(words, words + length);  // `words` may lie in the vector that grows
        texts_[length - 2].insert(texts_[length - 2].end(), copy.begin(), copy.end());
    }
    // The probability (0) or the backoff weight (1) of an n-gram that is there.
    float weight_of(const uint32_t* words, size_t length, size_t which) const noexcept {
        const uint8_t* value = length == 1 ? model_->unigrams + size_t(*words) * 8
                                           : model_->tables[length - 2].find(key_of(words, words + length));
        return load<float>(value + which * 4);
    }
    // A weight of zero that matters, because a longer n-gram has this context, is told from one that does not.
    void mark_contexts() {
        const float zero = 0.0f;
        for (size_t length = 2; length <= counts_.size(); ++length) {
            const std::vector<uint32_t>& texts = texts_[length - 2];
            for (size_t at = 0; at < texts.size(); at += length) {
                const uint32_t* words = &texts[at];
                uint8_t* value = length == 2 ? reinterpret_cast<uint8_t*>(model_->own_unigrams.data()) + size_t(*words) * 8
                                             : model_->tables[length - 3].find(key_of(words, words + length - 1));
                if (!extends(load<float>(value + 4))) memcpy(value + 4, &zero, sizeof zero);
            }
        }
    }

    Lines lines_;
    std::unique_ptr<Hashed> model_;
    std::vector<uint64_t> counts_;
    std::vector<std::vector<uint32_t>> texts_;  // the words of every n-gram, by length from two on
};

}  // namespace

std::unique_ptr<Model> read_arpa(const uint8_t* bytes, size_t size) { return Reader(bytes, size).read(); }

}  // namespace fb::lm
