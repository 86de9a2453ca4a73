// BERT's tokenization: clean, split at white space, punctuation and ideographs, then the longest pieces first.

#include "tokenizer.h"

namespace fb::text {

struct Edge {
    uint32_t key;  // node << 8 | byte, plus one: 0 is an empty place
    int32_t node;
};

struct WordPiece {
    Buffer<Edge> edges;  // of a trie of bytes, by open addressing
    uint32_t mask = 0;
    Buffer<int32_t> ids;  // of nodes; -1 where no piece ends
    int32_t nodes = 1;
    int32_t inner = -1;  // the node after the prefix of pieces that do not begin a word, if any piece has it
    int32_t unknown = -1;
    int64_t longest = 100;  // bytes
    bool lower_case = false, strip_accents = false;
    uint8_t ascii[128] = {};  // what becomes of ASCII characters

    int32_t child(int32_t node, uint8_t byte) const noexcept {
        const uint32_t key = (uint32_t(node) << 8 | byte) + 1;
        for (uint32_t at = uint32_t(mixed(key)) & mask;; at = (at + 1) & mask) {
            const Edge& edge = edges[at];
            if (edge.key == key) return edge.node;
            if (edge.key == 0) return -1;
        }
    }
};

namespace {

// A word in `scratch.word`, with the source of each byte when spans are asked for.
struct Words {
    const Tokenizer& tokenizer;
    Sink& sink;
    Scratch& scratch;

    void add(const uint8_t* bytes, int size, int64_t begin, int64_t end) const noexcept {
        for (int i = 0; i < size; ++i) {
            scratch.word.push(bytes[i]);
            if (!sink.spans) continue;
            scratch.word_sources.push(int32_t(begin));
            scratch.word_sources.push(int32_t(end));
        }
    }
    void finish() const noexcept {
        if (scratch.word.size() && !scratch.failed()) pieces(scratch.word.data(), scratch.word.size());
        scratch.word.clear();
        scratch.word_sources.clear();
    }
    void put(int32_t id, int64_t begin, int64_t end) const noexcept {
        if (!sink.spans) return sink.put(id, 0, 0);
        sink.put(id, scratch.word_sources[2 * begin], scratch.word_sources[2 * end - 1]);
    }
    void pieces(const uint8_t* word, int64_t size) const noexcept {
        CachedWord* cached = sink.spans ? nullptr : scratch.cache.place(word, size);
        if (cached && WordCache::holds(*cached, word, size) && WordCache::give(*cached, sink)) return;
        const WordPiece& model = *tokenizer.wordpiece;
        const int64_t before = sink.count;
        bool known = size <= model.longest;
        for (int64_t start = 0; known && start < size;) {
            int32_t node = start ? model.inner : 0, id = -1;
            int64_t stop = start;
            for (int64_t at = start; node >= 0 && at < size;) {
                node = model.child(node, word[at++]);
                if (node >= 0 && model.ids[node] >= 0) {
                    id = model.ids[node];
                    stop = at;
                }
            }
            known = id >= 0;
            if (known) put(id, start, stop);
            start = stop;
        }
        if (!known) {
            sink.count = before;
            put(model.unknown, 0, size);
        }
        if (cached && !sink.full) WordCache::keep(*cached, word, size, sink.ids + before, sink.count - before);
    }
};

enum Treatment : uint8_t { Plain, Dropped, Gap, Alone };

Treatment treatment(uint8_t bits, uint32_t point, bool split, bool strip) noexcept {
    if (point == ' ' || point == '\t' || point == '\n' || point == '\r') return Gap;
    if (point == 0 || point == 0xFFFD || bits & Control) return Dropped;
    if (bits & Mark && strip && split) return Dropped;
    if (bits & Separator) return Gap;
    if (bits & Ideograph || (split && bits & Punctuation)) return Alone;
    return Plain;
}

void add_decomposed(uint32_t point, int32_t begin, int32_t end, Scratch& scratch) noexcept {
    const auto add = [&](uint32_t value) noexcept {
        scratch.points.push(value);
        scratch.sources.push(begin);
        scratch.sources.push(end);
    };
    if (point - 0xAC00u < 11172u) {  // Hangul syllables (the Unicode standard, section 3.12)
        const uint32_t syllable = point - 0xAC00u, tail = syllable % 28;
        add(0x1100 + syllable / 588);
        add(0x1161 + syllable % 588 / 28);
        if (tail) add(0x11A7 + tail);
    } else if (const uint32_t* parts = decomposition(point)) {
        for (uint32_t i = 1; i <= parts[0]; ++i) add(parts[i]);
    } else {
        add(point);
    }
}

// Marks of a base in the order of their classes; equal ones stay as they are.
void order_marks(Scratch& scratch) noexcept {
    uint32_t* points = scratch.points.data();
    int32_t* sources = scratch.sources.data();
    for (int64_t i = 1; i < scratch.points.size(); ++i) {
        const uint8_t rank = combining(points[i]);
        if (!rank) continue;
        const uint32_t point = points[i];
        const int32_t begin = sources[2 * i], end = sources[2 * i + 1];
        int64_t at = i;
        for (; at > 0 && combining(points[at - 1]) > rank; --at) {
            points[at] = points[at - 1];
            sources[2 * at] = sources[2 * at - 2];
            sources[2 * at + 1] = sources[2 * at - 1];
        }
        points[at] = point;
        sources[2 * at] = begin;
        sources[2 * at + 1] = end;
    }
}

// One part of the text between spaces, of any script.
void encode_part(const Words& words, const uint8_t* text, const uint8_t* at, const uint8_t* end) noexcept {
    Scratch& scratch = words.scratch;
    const WordPiece& model = *words.tokenizer.wordpiece;
    const bool split = !words.tokenizer.literals.holds(at, end - at);
    scratch.points.clear();
    scratch.sources.clear();
    while (at < end) {
        uint32_t point;
        const int length = decode(at, end, point);
        const int32_t begin = int32_t(at - text);
        if (model.strip_accents && point >= 0xC0) {
            add_decomposed(point, begin, begin + length, scratch);
        } else {
            scratch.points.push(point);
            scratch.sources.push(begin);
            scratch.sources.push(begin + length);
        }
        at += length;
    }
    if (scratch.failed()) return;
    if (model.strip_accents) order_marks(scratch);
    for (int64_t i = 0; i < scratch.points.size(); ++i) {
        uint32_t point = scratch.points[i];
        const Treatment what = treatment(properties(point), point, split, model.strip_accents);
        if (what == Dropped) continue;
        if (what != Plain) words.finish();
        if (what == Gap) continue;
        uint8_t bytes[8];
        const bool folds = model.lower_case && split;
        int size = encode(folds ? lower(point) : point, bytes);
        if (folds && point == 0x130) size += encode(0x307, bytes + size);  // the one that becomes two
        words.add(bytes, size, scratch.sources[2 * i], scratch.sources[2 * i + 1]);
        if (what == Alone) words.finish();
    }
    words.finish();
}

}  // namespace

void encode_wordpiece(const Tokenizer& tokenizer, const uint8_t* text, int64_t size, Sink& sink,
                      Scratch& scratch) noexcept {
    const uint8_t* ascii = tokenizer.wordpiece->ascii;
    const Words words{tokenizer, sink, scratch};
    const uint8_t* end = text + size;
    const bool lower_case = tokenizer.wordpiece->lower_case, exceptions = tokenizer.literals.items.size() > 0;
    scratch.word.clear();
    scratch.word_sources.clear();
    for (const uint8_t* at = text; at < end;) {
        const uint8_t* stop = at;
        uint8_t seen = 0;
        while (stop < end && *stop != ' ') seen |= *stop++;
        if (seen >= 0x80 || (exceptions && tokenizer.literals.holds(at, stop - at))) {
            encode_part(words, text, at, stop);
        } else {
            for (; at < stop; ++at) {
                const uint8_t what = ascii[*at];
                if (what == Dropped) continue;
                if (what != Plain) words.finish();
                if (what == Gap) continue;
                const uint8_t byte = lower_case && *at >= 'A' && *at <= 'Z' ? uint8_t(*at + 32) : *at;
                words.add(&byte, 1, at - text, at - text + 1);
                if (what == Alone) words.finish();
            }
            words.finish();
        }
        at = stop + 1;
    }
}

void free_model(WordPiece* model) noexcept { unmade(model); }

namespace {

bool fill_trie(WordPiece& model, const uint8_t* pieces, const int64_t* offsets, const int32_t* ids, int64_t count,
               const uint8_t* prefix, int64_t prefix_size) noexcept {
    const int64_t most = offsets[count] + 1;  // nodes
    uint64_t size = 16;
    while (size < uint64_t(most) * 2) size *= 2;
    if (most >= (1 << 24) || !model.edges.fill(int64_t(size), Edge{0, 0}) || !model.ids.fill(most, -1)) return false;
    model.mask = uint32_t(size - 1);
    for (int64_t i = 0; i < count; ++i) {
        int32_t node = 0;
        for (int64_t at = offsets[i]; at < offsets[i + 1]; ++at) {
            const uint32_t key = (uint32_t(node) << 8 | pieces[at]) + 1;
            uint32_t place = uint32_t(mixed(key)) & model.mask;
            while (model.edges[place].key && model.edges[place].key != key) place = (place + 1) & model.mask;
            if (!model.edges[place].key) model.edges[place] = {key, model.nodes++};
            node = model.edges[place].node;
        }
        if (node) model.ids[node] = ids[i];
    }
    model.inner = 0;
    for (int64_t i = 0; i < prefix_size && model.inner >= 0; ++i) model.inner = model.child(model.inner, prefix[i]);
    return true;
}

}  // namespace

}  // namespace fb::text

// A tokenizer by word pieces; nullptr when memory ran out or the pieces have more than 16 million bytes.
//
//   pieces, offsets, ids  UTF-8 end to end, (count + 1) offsets, (count) ids
//   prefix                of pieces that do not begin a word, usually "##"
//   unknown               the id of words that no pieces make up, or -1
//   longest               words of more bytes are unknown
FB_EXPORT void* fb_tokenizer_wordpiece(const uint8_t* pieces, const int64_t* offsets, const int32_t* ids, int64_t count,
                                       const uint8_t* prefix, int64_t prefix_size, int32_t unknown, int64_t longest,
                                       int32_t lower_case, int32_t strip_accents) {
    using namespace fb::text;
    Tokenizer* tokenizer = made<Tokenizer>(Scanner::Bert);
    WordPiece* model = made<WordPiece>();
    if (tokenizer && model && fill_trie(*model, pieces, offsets, ids, count, prefix, prefix_size)) {
        model->unknown = unknown;
        model->longest = longest;
        model->lower_case = lower_case != 0;
        model->strip_accents = strip_accents != 0;
        for (uint32_t c = 0; c < 128; ++c) model->ascii[c] = treatment(properties(c), c, true, false);
        tokenizer->wordpiece = model;
        return tokenizer;
    }
    unmade(model);
    unmade(tokenizer);
    return nullptr;
}
