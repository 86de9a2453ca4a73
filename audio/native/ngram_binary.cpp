// Reads KenLM's binary files, version 5: hash tables ("probing", with or without rest costs) and tries (with or without
// quantised weights and compressed pointers). The file stays where it is, normally mapped; nothing is copied.
//
// Layout: header; counts of n-grams by length; words; n-grams; optionally the words' texts, which are not needed.
// The header's claims are checked against the size of the file, and every position read later against its table, so that
// a damaged file gives wrong scores at worst.

#include <algorithm>

#include "ngram_tables.h"

namespace fb::lm {
namespace {

constexpr char magic[] = "mmap lm http://kheafield.com/code format version 5\n";
constexpr char magic_any[] = "mmap lm http://kheafield.com/code";
constexpr size_t fixed_at = 88;    // after the magic and a few numbers that tell the byte order
constexpr size_t counts_at = 108;  // one uint64 for each length

enum Kind : uint32_t { Probing, RestProbing, Trie, QuantTrie, ArrayTrie, QuantArrayTrie, Kinds };

int bits_for(uint64_t largest) noexcept {
    int bits = 0;
    for (; largest; largest >>= 1) ++bits;
    return bits;
}

// `length` bits at a bit position; whoever asks has made sure that 8 bytes can be read there.
uint64_t bits_at(const uint8_t* base, uint64_t bit, int length) noexcept {
    return (load<uint64_t>(base + (bit >> 3)) >> (bit & 7)) & ((uint64_t{1} << length) - 1);
}

float float_of(uint64_t bits) noexcept {
    const uint32_t low = uint32_t(bits);
    float value;
    memcpy(&value, &low, sizeof value);
    return value;
}

// The parts of a file in order; refuses what lies beyond its end.
class Cursor {
  public:
    Cursor(const uint8_t* bytes, uint64_t size, uint64_t at) noexcept : bytes_(bytes), size_(size), at_(at) {}
    const uint8_t* take(uint64_t bytes, const char* what) {
        if (bytes > size_ || at_ > size_ - bytes)
            throw Fault{"the file ends within its " + std::string(what) + "; it has " + std::to_string(size_) +
                        " bytes. It is truncated or damaged"};
        const uint8_t* part = bytes_ + at_;
        at_ += bytes;
        return part;
    }
    uint64_t at() const noexcept { return at_; }

  private:
    const uint8_t* bytes_;
    uint64_t size_, at_;
};

struct Header {
    std::vector<uint64_t> counts;
    float multiplier;
    uint32_t kind;
    uint32_t version;
};

Header read_header(const uint8_t* bytes, size_t size) {
    if (memcmp(bytes, magic, sizeof magic - 1) != 0)
        throw Fault{"it is a KenLM file that was not finished, or of another version than 5; build it anew with KenLM"};
    if (size < counts_at) throw Fault{"the file ends within its header; it is truncated"};
    const bool same = load<float>(bytes + 56) == 0.0f && load<float>(bytes + 60) == 1.0f &&
                      load<float>(bytes + 64) == -0.5f && load<uint32_t>(bytes + 68) == 1 &&
                      load<uint32_t>(bytes + 72) == 0xffffffffu && load<uint64_t>(bytes + 80) == 1;
    if (!same) throw Fault{"it was built on a machine with another byte order; build it anew on this one"};
    Header header;
    const int order = bytes[fixed_at];
    header.multiplier = load<float>(bytes + fixed_at + 4);
    header.kind = load<uint32_t>(bytes + fixed_at + 8);
    header.version = load<uint32_t>(bytes + fixed_at + 16);
    if (order < 2 || order > max_order)
        throw Fault{"it has n-grams of up to " + std::to_string(order) + " words, expected 2 to " +
                    std::to_string(max_order)};
    if (header.kind >= Kinds) throw Fault{"its kind is " + std::to_string(header.kind) + ", which is not known"};
    if (header.version != (header.kind >= Trie ? 1u : 0u))
        throw Fault{"its tables are of version " + std::to_string(header.version) + ", which is not known"};
    if (!(header.multiplier > 1.0f && header.multiplier < 1e3f)) throw Fault{"its header is damaged (multiplier)"};
    if (size < counts_at + size_t(order) * 8) throw Fault{"the file ends within its header; it is truncated"};
    for (int i = 0; i < order; ++i) {
        // An n-gram takes more than a bit. This also keeps all products below within 64 bits.
        const uint64_t count = load<uint64_t>(bytes + counts_at + size_t(i) * 8);
        if (count > uint64_t(size) * 8 || (i == 0 && (count == 0 || count >= 0xfffffff0u)))
            throw Fault{"it claims " + std::to_string(count) + " n-grams of " + std::to_string(i + 1) + " words, but has " +
                        std::to_string(size) + " bytes; it is truncated or damaged"};
        header.counts.push_back(count);
    }
    return header;
}

uint64_t buckets_for(uint64_t entries, float multiplier) noexcept {
    return std::max(entries + 1, static_cast<uint64_t>(multiplier * static_cast<float>(entries)));
}

Table take_table(Cursor& cursor, uint64_t entries, float multiplier, size_t stride, const char* what) {
    const uint64_t buckets = buckets_for(entries, multiplier);
    return Table(cursor.take(buckets * stride, what), buckets, stride);
}

std::unique_ptr<Model> read_probing(const Header& header, Cursor cursor) {
    auto model = std::make_unique<Hashed>();
    const std::vector<uint64_t>& counts = header.counts;
    const uint8_t* vocabulary = cursor.take(8, "words");
    if (load<uint32_t>(vocabulary) != 0) throw Fault{"its words are stored in a version that is not known"};
    model->bound = uint32_t(std::min<uint64_t>(load<uint32_t>(vocabulary + 4), counts[0] + 1));
    if (model->bound == 0) throw Fault{"it has no words; it is damaged"};
    model->words = take_table(cursor, counts[0], header.multiplier, 12, "words");
    model->weights = header.kind == RestProbing ? 12 : 8;
    model->unigrams = cursor.take((counts[0] + 1) * model->weights, "single words");
    for (size_t n = 1; n < counts.size(); ++n) {
        const size_t stride = n + 1 == counts.size() ? 12 : 8 + model->weights;
        model->tables.push_back(take_table(cursor, counts[n], header.multiplier, stride, "n-grams"));
    }
    model->finish();
    return model;
}

// The n-grams of one length in a trie. An entry is a run of bits: the earliest word, the weights, and where the n-grams
// begin that are longer by a word before it; they end where those of the next entry begin.
struct Level {
    const uint8_t* base = nullptr;
    uint64_t entries = 0, next_entries = 0;
    int word_bits = 0, total_bits = 0, next_bits = 0, weight_bits = 0;
    const float* probabilities = nullptr;  // the quantised values, or null
    const float* backoffs = nullptr;
    int probability_bits = 0, backoff_bits = 0;
    const uint8_t* high = nullptr;  // upper parts of compressed pointers: the first entry that has each
    uint64_t high_count = 0;

    uint64_t word(uint64_t entry) const noexcept { return bits_at(base, entry * uint64_t(total_bits), word_bits); }
    // Binary search for a word among entries [begin, end).
    bool find(uint64_t begin, uint64_t end, uint32_t wanted, uint64_t& entry) const noexcept {
        if (end > entries) end = entries;
        while (begin < end) {
            const uint64_t middle = begin + (end - begin) / 2;
            const uint64_t found = word(middle);
            if (found == wanted) {
                entry = middle;
                return true;
            }
            if (found < wanted)
                begin = middle + 1;
            else
                end = middle;
        }
        return false;
    }
    float quantised(const float* table, uint64_t number) const noexcept {
        return load<float>(reinterpret_cast<const uint8_t*>(table) + number * 4);
    }
    float probability(uint64_t entry) const noexcept {
        const uint64_t at = entry * uint64_t(total_bits) + uint64_t(word_bits);
        if (probabilities) return quantised(probabilities, bits_at(base, at + uint64_t(backoff_bits), probability_bits));
        return float_of(bits_at(base, at, 31) | 0x80000000u);
    }
    float backoff(uint64_t entry) const noexcept {
        const uint64_t at = entry * uint64_t(total_bits) + uint64_t(word_bits);
        if (backoffs) return quantised(backoffs, bits_at(base, at, backoff_bits));
        return float_of(bits_at(base, at + 31, 32));
    }
    // Where the longer n-grams of an entry, or of the one after the last, begin.
    uint64_t next(uint64_t entry) const noexcept {
        const uint64_t at = entry * uint64_t(total_bits) + uint64_t(word_bits + weight_bits);
        const uint64_t low = bits_at(base, at, next_bits);
        return std::min(next_entries, high ? upper(entry) << next_bits | low : low);
    }
    uint64_t upper(uint64_t entry) const noexcept {
        uint64_t begin = 0, end = high_count;  // the last whose first entry is not beyond this one
        while (end - begin > 1) {
            const uint64_t middle = begin + (end - begin) / 2;
            if (load<uint64_t>(high + middle * 8) <= entry)
                begin = middle;
            else
                end = middle;
        }
        return begin;
    }
};

class TrieModel : public Model {
  public:
    struct Found {
        uint64_t begin = 0, end = 0;
        float probability = 0, backoff = 0;
    };

    uint32_t word(const char* text, size_t size) const noexcept override {
        const uint64_t hash = hash_word(text, size);
        uint64_t begin = 0, end = word_count;
        while (begin < end) {
            const uint64_t middle = begin + (end - begin) / 2;
            const uint64_t found = load<uint64_t>(hashes + middle * 8);
            if (found == hash) return uint32_t(middle + 1);  // <unk> is 0 and not listed
            if (found < hash)
                begin = middle + 1;
            else
                end = middle;
        }
        return 0;
    }
    float score(const Context& before, uint32_t word, Context& after) const noexcept override {
        return score_with(*this, order_, before, word, after, Found());
    }
    void unigram(uint32_t word, Found& found) const noexcept {
        const uint8_t* at = unigrams + size_t(word <= word_count ? word : 0) * 16;
        found = Found{load<uint64_t>(at + 8), load<uint64_t>(at + 24), load<float>(at), load<float>(at + 4)};
    }
    bool longer(int length, uint32_t earlier, Found& found) const noexcept {
        const Level& level = levels[size_t(length) - 2];
        uint64_t entry;
        if (!level.find(found.begin, found.end, earlier, entry)) return false;
        found.probability = level.probability(entry);
        if (length == order_) return true;
        found.backoff = level.backoff(entry);
        found.begin = level.next(entry);
        found.end = level.next(entry + 1);
        return true;
    }
    void finish() noexcept {
        order_ = int(levels.size()) + 1;
        begin_ = word("<s>", 3);
        end_ = word("</s>", 4);
    }

    const uint8_t* hashes = nullptr;  // of the words but <unk>, sorted: a word's place is its number less one
    uint64_t word_count = 0;
    const uint8_t* unigrams = nullptr;  // probability, backoff, first of the pairs that end in the word
    std::vector<Level> levels;          // of two words, of three, ...
};

// How many upper bits of a pointer are kept apart: the number that makes the file smallest.
int bits_apart(uint64_t entries, uint64_t largest, int most) noexcept {
    const int required = bits_for(largest);
    int best = 0;
    int64_t least = INT64_MAX;
    for (int apart = 0; apart <= std::min(required, most); ++apart) {
        const uint64_t table = required - apart > 63 ? 0 : largest >> (required - apart);
        const int64_t change = int64_t(table) * 64 - int64_t(entries) * apart;
        if (change < least) {
            least = change;
            best = apart;
        }
    }
    return best;
}

struct Quantisers {
    int probability_bits = 0, backoff_bits = 0;
    std::vector<const float*> probabilities, backoffs;  // by length, from two words on
};

Quantisers take_quantisers(Cursor& cursor, size_t order) {
    Quantisers quantisers;
    const uint8_t* head = cursor.take(8, "quantised values");
    quantisers.probability_bits = head[1];
    quantisers.backoff_bits = head[2];
    if (head[0] != 2) throw Fault{"its quantised values are of version " + std::to_string(head[0]) + ", expected 2"};
    if (head[1] < 1 || head[1] > 25 || head[2] < 1 || head[2] > 25)
        throw Fault{"its values are quantised to " + std::to_string(head[1]) + " and " + std::to_string(head[2]) +
                    " bits, expected 1 to 25"};
    for (size_t length = 2; length <= order; ++length) {
        const auto table = [&](int bits) {
            return reinterpret_cast<const float*>(cursor.take(uint64_t{4} << bits, "quantised values"));
        };
        quantisers.probabilities.push_back(table(head[1]));
        quantisers.backoffs.push_back(length < order ? table(head[2]) : nullptr);
    }
    return quantisers;
}

Level take_level(Cursor& cursor, const Header& header, size_t length, const Quantisers& quantisers) {
    const std::vector<uint64_t>& counts = header.counts;
    const bool quantised = header.kind == QuantTrie || header.kind == QuantArrayTrie;
    const bool compressed = header.kind == ArrayTrie || header.kind == QuantArrayTrie;
    const bool longest = length == counts.size();
    Level level;
    level.entries = counts[length - 1];
    level.word_bits = bits_for(counts[0]);
    if (quantised) {
        level.probabilities = quantisers.probabilities[length - 2];
        level.backoffs = quantisers.backoffs[length - 2];
        level.probability_bits = quantisers.probability_bits;
        level.backoff_bits = longest ? 0 : quantisers.backoff_bits;
        level.weight_bits = level.probability_bits + level.backoff_bits;
    } else {
        level.weight_bits = longest ? 31 : 63;
    }
    if (!longest) {
        level.next_entries = counts[length];
        level.next_bits = bits_for(counts[length]);
    }
    if (!longest && compressed) {
        const uint64_t before = cursor.at();
        const uint64_t start = (before + 7) & ~uint64_t{7};
        cursor.take(start - before, "pointers");
        const uint8_t* head = cursor.take(8, "pointers");
        if (head[0] != 0) throw Fault{"its pointers are compressed by version " + std::to_string(head[0])};
        const int apart = bits_apart(level.entries + 1, counts[length], head[1]);
        level.next_bits -= apart;
        level.high_count = (level.next_bits > 63 ? 0 : counts[length] >> level.next_bits) + 1;
        level.high = cursor.take(level.high_count * 8, "pointers");
        cursor.take(before + 7 - start, "pointers");  // the room left for alignment is always seven bytes
    }
    level.total_bits = level.word_bits + level.weight_bits + level.next_bits;
    level.base = cursor.take(((1 + level.entries) * uint64_t(level.total_bits) + 7) / 8 + 8, "n-grams");
    return level;
}

std::unique_ptr<Model> read_trie(const Header& header, Cursor cursor) {
    auto model = std::make_unique<TrieModel>();
    const std::vector<uint64_t>& counts = header.counts;
    model->word_count = std::min(load<uint64_t>(cursor.take(8, "words")), counts[0]);
    model->hashes = cursor.take(counts[0] * 8, "words");
    Quantisers quantisers;
    if (header.kind == QuantTrie || header.kind == QuantArrayTrie) quantisers = take_quantisers(cursor, counts.size());
    model->unigrams = cursor.take((counts[0] + 2) * 16, "single words");
    for (size_t length = 2; length <= counts.size(); ++length)
        model->levels.push_back(take_level(cursor, header, length, quantisers));
    model->finish();
    return model;
}

}  // namespace

bool is_binary(const uint8_t* bytes, size_t size) noexcept {
    return size >= fixed_at && memcmp(bytes, magic_any, sizeof magic_any - 1) == 0;
}

std::unique_ptr<Model> read_binary(const uint8_t* bytes, size_t size) {
    const Header header = read_header(bytes, size);
    const Cursor cursor(bytes, size, (counts_at + header.counts.size() * 8 + 7) & ~size_t{7});
    return header.kind >= Trie ? read_trie(header, cursor) : read_probing(header, cursor);
}

}  // namespace fb::lm
