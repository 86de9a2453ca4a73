// Byte pair encoding (Sennrich et al. 2016, arXiv:1508.07909): the pair of lowest rank is merged wherever it stands,
// until none is left.

#include "scanner.h"

namespace fb::text {

namespace {

constexpr int32_t none = 0x7FFFFFFF;
constexpr int32_t swallowed = -2;
constexpr uint64_t no_key = ~uint64_t(0);
// Up to here a scan of the whole word per merge costs less than a heap.
constexpr int64_t short_word = 48;

}  // namespace

struct Merge {
    uint64_t pair;  // left << 32 | right
    int32_t rank, result;
};

struct Bpe {
    Buffer<Merge> table;  // open addressing; a power of two, at most half full
    uint64_t mask = 0;
    Buffer<int32_t> ids;  // of symbols; -1 for one that the vocabulary lacks
    int32_t plain[256], last[256];  // symbols of bytes, and of bytes that end a word
    Buffer<uint64_t> points;  // for words of characters: point << 1 | ends a word, by open addressing
    Buffer<int32_t> point_symbols;
    uint64_t point_mask = 0;
    int32_t unknown = -1;

    const Merge* find(int32_t left, int32_t right) const noexcept {
        const uint64_t pair = uint64_t(uint32_t(left)) << 32 | uint32_t(right);
        for (uint64_t at = mixed(pair) & mask;; at = (at + 1) & mask) {
            const Merge& merge = table[int64_t(at)];
            if (merge.pair == pair) return &merge;
            if (merge.pair == no_key) return nullptr;
        }
    }
    int32_t rank(int32_t left, int32_t right) const noexcept {
        if ((left | right) < 0) return none;
        const Merge* merge = find(left, right);
        return merge ? merge->rank : none;
    }
    int32_t of_point(uint32_t point, bool ends) const noexcept {
        const uint64_t key = uint64_t(point) << 1 | ends;
        for (uint64_t at = mixed(key) & point_mask;; at = (at + 1) & point_mask) {
            if (points[int64_t(at)] == key) return point_symbols[int64_t(at)];
            if (points[int64_t(at)] == no_key) return -1;
        }
    }
    int32_t id(int32_t symbol) const noexcept { return symbol < 0 ? unknown : ids[symbol]; }
};

namespace {

uint64_t table_size(int64_t entries) noexcept {
    uint64_t size = 16;
    while (size < uint64_t(entries) * 2) size *= 2;
    return size;
}

// Symbols and where they start; `starts` has one more, the word's end.
void merge_short(const Bpe& model, Scratch& scratch) noexcept {
    int32_t *symbols = scratch.symbols.data(), *starts = scratch.starts.data(), *ranks = scratch.ranks.data();
    int64_t count = scratch.symbols.size();
    for (int64_t i = 0; i + 1 < count; ++i) ranks[i] = model.rank(symbols[i], symbols[i + 1]);
    while (count > 1) {
        int32_t best = none;
        for (int64_t i = 0; i + 1 < count; ++i) best = ranks[i] < best ? ranks[i] : best;
        if (best == none) break;
        int64_t to = 0;
        bool merged_before = false;
        for (int64_t from = 0; from < count; ++to) {
            const bool merges = from + 1 < count && ranks[from] == best;
            const int32_t symbol = merges ? model.find(symbols[from], symbols[from + 1])->result : symbols[from];
            const int32_t rank = from + 1 < count ? ranks[from] : none;
            symbols[to] = symbol;
            starts[to] = starts[from];
            if (to && (merges || merged_before)) ranks[to - 1] = model.rank(symbols[to - 1], symbol);
            ranks[to] = rank;  // corrected by the next symbol if this one was merged
            from += merges ? 2 : 1;
            merged_before = merges;
        }
        starts[to] = starts[count];
        count = to;
    }
    scratch.symbols.resize(count);
    scratch.starts.resize(count + 1);
}

// A binary heap of rank << 32 | place, the lowest first.
void heap_push(Buffer<uint64_t>& heap, uint64_t value) noexcept {
    heap.push(value);
    if (heap.failed()) return;
    int64_t at = heap.size() - 1;
    for (; at > 0 && heap[(at - 1) / 2] > value; at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
    heap[at] = value;
}

uint64_t heap_pop(Buffer<uint64_t>& heap) noexcept {
    const uint64_t top = heap[0], value = heap[heap.size() - 1];
    heap.resize(heap.size() - 1);
    const int64_t size = heap.size();
    int64_t at = 0;
    for (int64_t child; (child = 2 * at + 1) < size; at = child) {
        if (child + 1 < size && heap[child + 1] < heap[child]) ++child;
        if (heap[child] >= value) break;
        heap[at] = heap[child];
    }
    if (size) heap[at] = value;
    return top;
}

// The same for long words in n log n: a linked list, and a heap of pairs. Pairs that a round makes wait for its end.
void merge_long(const Bpe& model, Scratch& scratch) noexcept {
    const int64_t count = scratch.symbols.size();
    int32_t *symbols = scratch.symbols.data(), *starts = scratch.starts.data(), *ranks = scratch.ranks.data();
    if (!scratch.next.resize(count) || !scratch.previous.resize(count)) return;
    int32_t *next = scratch.next.data(), *previous = scratch.previous.data();
    scratch.heap.clear();
    for (int64_t i = 0; i < count; ++i) {
        next[i] = i + 1 < count ? int32_t(i + 1) : -1;
        previous[i] = int32_t(i - 1);
        ranks[i] = i + 1 < count ? model.rank(symbols[i], symbols[i + 1]) : none;
        if (ranks[i] != none) heap_push(scratch.heap, uint64_t(uint32_t(ranks[i])) << 32 | uint64_t(i));
    }
    while (scratch.heap.size() && !scratch.failed()) {
        const int32_t best = int32_t(scratch.heap[0] >> 32);
        scratch.pending.clear();
        while (scratch.heap.size() && int32_t(scratch.heap[0] >> 32) == best) {
            const int32_t at = int32_t(heap_pop(scratch.heap) & 0xFFFFFFFFu);
            if (ranks[at] != best) continue;  // merged or changed meanwhile
            const int32_t gone = next[at];
            symbols[at] = model.find(symbols[at], symbols[gone])->result;
            next[at] = next[gone];
            if (next[gone] >= 0) previous[next[gone]] = at;
            symbols[gone] = swallowed;
            ranks[gone] = none;
            ranks[at] = none;
            if (previous[at] >= 0) ranks[previous[at]] = none;
            // With its left neighbour, and as the left one of a pair: both may change again within the round.
            if (previous[at] >= 0) scratch.pending.push(uint64_t(previous[at]));
            scratch.pending.push(uint64_t(at));
        }
        for (int64_t i = 0; i < scratch.pending.size() && !scratch.failed(); ++i) {
            const int64_t at = int64_t(scratch.pending[i]);
            if (symbols[at] == swallowed || next[at] < 0) continue;
            const int32_t rank = model.rank(symbols[at], symbols[next[at]]);
            if (rank == none || rank == ranks[at]) continue;
            ranks[at] = rank;
            heap_push(scratch.heap, uint64_t(uint32_t(rank)) << 32 | uint64_t(at));
        }
    }
    if (scratch.failed()) return;
    int64_t to = 0;
    const int32_t stop = starts[count];
    for (int32_t at = count ? 0 : -1; at >= 0; at = next[at], ++to) {
        symbols[to] = symbols[at];
        starts[to] = starts[at];
    }
    starts[to] = stop;
    scratch.symbols.resize(to);
    scratch.starts.resize(to + 1);
}

bool read_symbols(const Tokenizer& tokenizer, const uint8_t* word, int64_t size, Scratch& scratch) noexcept {
    const Bpe& model = *tokenizer.bpe;
    scratch.symbols.clear();
    scratch.starts.clear();
    if (tokenizer.scanner != Scanner::Words) {
        if (!scratch.symbols.resize(size) || !scratch.starts.resize(size + 1)) return false;
        for (int64_t i = 0; i < size; ++i) {
            scratch.symbols[i] = model.plain[word[i]];
            scratch.starts[i] = int32_t(i);
        }
        scratch.starts[size] = int32_t(size);
        scratch.symbols[size - 1] = model.last[word[size - 1]];
    } else {
        const uint8_t* end = word + size;
        for (const uint8_t* at = word; at < end;) {
            uint32_t point;
            const int length = decode(at, end, point);
            scratch.symbols.push(model.of_point(point, at + length == end));
            scratch.starts.push(int32_t(at - word));
            at += length;
        }
        scratch.starts.push(int32_t(size));
    }
    return scratch.ranks.resize(scratch.symbols.size()) && !scratch.failed();
}

void encode_word(const Tokenizer& tokenizer, const uint8_t* text, const uint8_t* word, int64_t size, Sink& sink,
                 Scratch& scratch) noexcept {
    CachedWord* cached = sink.spans ? nullptr : scratch.cache.place(word, size);
    if (cached && WordCache::holds(*cached, word, size) && WordCache::give(*cached, sink)) return;
    if (!read_symbols(tokenizer, word, size, scratch)) return;
    const Bpe& model = *tokenizer.bpe;
    if (scratch.symbols.size() <= short_word) {
        merge_short(model, scratch);
    } else {
        merge_long(model, scratch);
    }
    if (scratch.failed()) return;
    const int64_t before = sink.count, at = word - text;
    for (int64_t i = 0; i < scratch.symbols.size(); ++i)
        sink.put(model.id(scratch.symbols[i]), at + scratch.starts[i], at + scratch.starts[i + 1]);
    if (cached && !sink.full) WordCache::keep(*cached, word, size, sink.ids + before, sink.count - before);
}

bool blank(uint8_t byte) noexcept { return byte < 0x80 && ascii_kinds.of[byte] == Blank; }

// Special tokens stand for themselves, and one white space on each side of them goes with them.
void encode_gpt2(const Tokenizer& tokenizer, const uint8_t* text, int64_t size, Sink& sink, Scratch& scratch) noexcept {
    const auto word = [&](const uint8_t* begin, const uint8_t* end) noexcept {
        encode_word(tokenizer, text, begin, end - begin, sink, scratch);
    };
    const uint8_t *end = text + size, *begin = text;
    for (const uint8_t* at = text; tokenizer.literals.items.size() && at < end;) {
        const Literal* literal = tokenizer.literals.begins(at, end);
        if (!literal) {
            ++at;
            continue;
        }
        scan_gpt2(begin, at > begin && blank(at[-1]) ? at - 1 : at, word);
        sink.put(literal->id, at - text, at - text + literal->size);
        at += literal->size;
        begin = at;
        if (at < end && blank(*at) && !tokenizer.literals.begins(at, end)) at = ++begin;
    }
    scan_gpt2(begin, end, word);
}

}  // namespace

void encode_bpe(const Tokenizer& tokenizer, const uint8_t* text, int64_t size, Sink& sink, Scratch& scratch) noexcept {
    if (tokenizer.scanner == Scanner::Gpt2) return encode_gpt2(tokenizer, text, size, sink, scratch);
    const auto word = [&](const uint8_t* begin, const uint8_t* end) noexcept {
        const Literal* literal = tokenizer.literals.items.size() ? tokenizer.literals.begins(begin, end) : nullptr;
        if (literal && literal->size == end - begin) return sink.put(literal->id, begin - text, end - text);
        encode_word(tokenizer, text, begin, end - begin, sink, scratch);
    };
    if (tokenizer.scanner == Scanner::Clip) {
        scan_clip(text, text + size, tokenizer.literals, word);
    } else {
        scan_words(text, text + size, word);
    }
}

void free_model(Bpe* model) noexcept { unmade(model); }

namespace {

bool fill_merges(Bpe& model, const int32_t* merges, int64_t count) noexcept {
    const uint64_t size = table_size(count);
    if (!model.table.fill(int64_t(size), Merge{no_key, 0, 0})) return false;
    model.mask = size - 1;
    for (int64_t i = 0; i < count; ++i) {
        const int32_t* merge = merges + 4 * i;  // left, right, result, rank
        const uint64_t pair = uint64_t(uint32_t(merge[0])) << 32 | uint32_t(merge[1]);
        uint64_t at = mixed(pair) & model.mask;
        while (model.table[int64_t(at)].pair != no_key) at = (at + 1) & model.mask;
        model.table[int64_t(at)] = {pair, merge[3], merge[2]};
    }
    return true;
}

bool fill_points(Bpe& model, const int32_t* characters, int64_t count) noexcept {
    const uint64_t size = table_size(count);
    if (!model.points.fill(int64_t(size), no_key) || !model.point_symbols.fill(int64_t(size), -1)) return false;
    model.point_mask = size - 1;
    for (int64_t i = 0; i < count; ++i) {
        const int32_t* row = characters + 3 * i;  // code point, ends a word, symbol
        const uint64_t key = uint64_t(uint32_t(row[0])) << 1 | uint64_t(row[1] != 0);
        uint64_t at = mixed(key) & model.point_mask;
        while (model.points[int64_t(at)] != no_key) at = (at + 1) & model.point_mask;
        model.points[int64_t(at)] = key;
        model.point_symbols[int64_t(at)] = row[2];
    }
    return true;
}

}  // namespace

}  // namespace fb::text

// A tokenizer by byte pairs; nullptr when memory ran out.
//
//   scanner     0 as GPT-2, 1 as CLIP, 2 words of characters
//   symbol_ids  (symbols) the vocabulary's id of each symbol, -1 if it has none
//   merges      (merge_count, 4): left, right and resulting symbol, rank; no pair twice
//   bytes       (2, 256) symbols of bytes, and of bytes that end a word; scanners 0 and 1
//   characters  (character_count, 3): code point, whether it ends a word, symbol; scanner 2
//   unknown     the id of characters that have no symbol, or -1
FB_EXPORT void* fb_tokenizer_bpe(int32_t scanner, const int32_t* symbol_ids, int64_t symbols, const int32_t* merges,
                                 int64_t merge_count, const int32_t* bytes, const int32_t* characters,
                                 int64_t character_count, int32_t unknown) {
    using namespace fb::text;
    Tokenizer* tokenizer = made<Tokenizer>(Scanner(scanner));
    Bpe* model = made<Bpe>();
    if (tokenizer && model && model->ids.assign(symbol_ids, symbols) && fill_merges(*model, merges, merge_count) &&
        fill_points(*model, characters, character_count)) {
        for (int i = 0; bytes && i < 256; ++i) {
            model->plain[i] = bytes[i];
            model->last[i] = bytes[256 + i];
        }
        model->unknown = unknown;
        tokenizer->bpe = model;
        return tokenizer;
    }
    unmade(model);
    unmade(tokenizer);
    return nullptr;
}
