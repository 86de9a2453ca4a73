// Tokenizers from tokenizer.json: the C interface of `flambeau/text.h`.

#include <errno.h>
#include <stdio.h>

#include "json.h"

extern "C" {
void* fb_tokenizer_bpe(int32_t, const int32_t*, int64_t, const int32_t*, int64_t, const int32_t*, const int32_t*, int64_t,
                       int32_t);
void* fb_tokenizer_wordpiece(const uint8_t*, const int64_t*, const int32_t*, int64_t, const uint8_t*, int64_t, int32_t,
                             int64_t, int32_t, int32_t);
int64_t fb_tokenizer_encode_batch(void*, const uint8_t*, const int64_t*, int64_t, int32_t*, int64_t*, int64_t);
int32_t fb_tokenizer_add_literal(void*, const uint8_t*, int64_t, int32_t);
void fb_tokenizer_free(void*);
int64_t fb_utf8_valid(const uint8_t*, int64_t);
}

struct fl_tok {
    void* engine = nullptr;
    fb::text::Buffer<uint8_t> bytes;  // of all tokens as `decode` writes them, end to end
    fb::text::Buffer<int64_t> begins, ends;  // by id; begin -1 for an id that is not used
    bool pieces = false;  // spaces between words, and "##" before what continues one
    bool folds = false;   // texts are folded to lower case and stripped, and decoded texts end without a space
};

namespace fb::text {

namespace {

thread_local char problem[256];

constexpr int64_t factor = 2;
constexpr int32_t most_ids = 1 << 24;
// What `GPT2BPETokenizer` writes as the pattern of its words.
constexpr const char* gpt2_pattern =
    "(?<=[\t-\r ]) '(?:s|t|re|ve|m|ll|d)|'(?:s|t|re|ve|m|ll|d)| ?\\p{L}+| ?\\p{N}+| ?[^\t-\r \\p{L}\\p{N}]+"
    "|[\t-\r ]+(?![^\t-\r ])|[\t-\r ]+";

// What `CLIPTokenizer` and `CharBPETokenizer` write as theirs.
constexpr const char* clip_pattern =
    "<\\|startoftext\\|>|<\\|endoftext\\|>|'(?:[s\xC5\xBF]|t|re|ve|m|ll|d)|\\p{L}+|\\p{N}|[^ \\t\\n\\f\\r\\p{L}\\p{N}]+";
constexpr const char* words_pattern = "[^\\s]+\\n?";

bool fail(const char* message) noexcept {
    if (!problem[0]) snprintf(problem, sizeof problem, "%s", message);
    return false;
}

// Numbers of texts, which must live elsewhere.
struct Index {
    struct Entry {
        const uint8_t* text;
        int64_t size;
        int32_t number;
    };
    Buffer<Entry> table;
    uint64_t mask = 0;

    bool room(int64_t entries) noexcept {
        uint64_t size = 16;
        while (size < uint64_t(entries) * 2) size *= 2;
        mask = size - 1;
        return table.fill(int64_t(size), Entry{nullptr, 0, -1});
    }
    Entry& at(const uint8_t* text, int64_t size) noexcept {
        uint64_t place = hash(text, size) & mask;
        while (table[int64_t(place)].text && !(table[int64_t(place)].size == size &&
                                               memcmp(table[int64_t(place)].text, text, size_t(size)) == 0))
            place = (place + 1) & mask;
        return table[int64_t(place)];
    }
};

// The characters that stand for bytes, and back.
struct ByteCharacters {
    uint16_t point[256];
    int16_t byte[512];
    ByteCharacters() noexcept {
        for (auto& value : byte) value = -1;
        for (int value = 0, hidden = 256; value < 256; ++value) {
            const bool shown = (value >= 33 && value < 127) || (value >= 161 && value != 173);
            point[value] = uint16_t(shown ? value : hidden++);
            byte[point[value]] = int16_t(value);
        }
    }
};

struct Builder {
    Json json;
    fl_tok* result;
    int32_t root = 0, model = -1, vocabulary = -1;

    // Out of range for what is no whole number from 0 on, or larger than any vocabulary's.
    int32_t id_of(int32_t node) const noexcept {
        const double number = json.nodes[node].number;
        return number >= 0 && number < most_ids && number == double(int32_t(number)) ? int32_t(number) : -1;
    }
    bool add_token(int32_t id, const uint8_t* text, int64_t size) noexcept {
        if (id < 0 || id >= most_ids) return fail("an id of the vocabulary is out of range");
        while (result->begins.size() <= id && !result->begins.failed()) {
            result->begins.push(-1);
            result->ends.push(-1);
        }
        if (result->begins.failed() || result->ends.failed()) return fail("out of memory");
        result->begins[id] = result->bytes.size();
        for (int64_t i = 0; i < size; ++i) result->bytes.push(text[i]);
        result->ends[id] = result->bytes.size();
        return !result->bytes.failed() || fail("out of memory");
    }
    const uint8_t* text(int32_t node) const noexcept { return json.bytes.data() + json.nodes[node].text; }
    const uint8_t* name(int32_t node) const noexcept { return json.bytes.data() + json.nodes[node].name; }

    int64_t count(int32_t node) const noexcept {
        int64_t total = 0;
        for (int32_t child = node < 0 ? -1 : json.nodes[node].child; child >= 0; child = json.nodes[child].next) ++total;
        return total;
    }

    bool build() noexcept {
        model = json.get(root, "model");
        vocabulary = json.get(model, "vocab");
        if (vocabulary < 0 || json.nodes[vocabulary].kind != Json::Object) return fail("it has no model with a vocabulary");
        for (int32_t child = json.nodes[vocabulary].child; child >= 0; child = json.nodes[child].next)
            if (json.nodes[child].kind != Json::Number) return fail("an id of the vocabulary is no number");
        const int32_t type = json.get(model, "type");
        if (json.says(type, "BPE")) return byte_pairs() && literals();
        if (json.says(type, "WordPiece")) return word_pieces() && literals();
        return fail("its model is neither BPE nor WordPiece");
    }

    bool literals() noexcept {
        const int32_t added = json.get(root, "added_tokens");
        for (int32_t token = added < 0 ? -1 : json.nodes[added].child; token >= 0; token = json.nodes[token].next) {
            const int32_t content = json.get(token, "content"), id = json.get(token, "id");
            if (content < 0 || id < 0 || json.nodes[content].kind != Json::String) return fail("an added token is damaged");
            const int32_t number = id_of(id);
            if (!add_token(number, text(content), json.nodes[content].size)) return false;
            if (fb_tokenizer_add_literal(result->engine, text(content), json.nodes[content].size, number))
                return fail("an added token is empty");
        }
        return true;
    }

    // The pattern of the words is this one, written by itself or as the first of several steps.
    bool splits_by(const char* pattern) const noexcept {
        const int32_t pre = json.get(root, "pre_tokenizer"), steps = json.get(pre, "pretokenizers");
        const int32_t first = steps < 0 ? pre : json.nodes[steps].child;
        return json.says(json.get(json.get(first, "pattern"), "Regex"), pattern);
    }

    // The normalizer is: lower case, then no white space at the ends; nothing else.
    bool lowers_and_strips() const noexcept {
        const int32_t steps = json.get(json.get(root, "normalizer"), "normalizers");
        const int32_t first = steps < 0 ? -1 : json.nodes[steps].child;
        const int32_t second = first < 0 ? -1 : json.nodes[first].next;
        return count(steps) == 2 && json.says(json.get(first, "type"), "Lowercase") &&
               json.says(json.get(second, "type"), "Strip");
    }

    bool byte_pairs() noexcept {
        const bool clip = splits_by(clip_pattern), words = splits_by(words_pattern);
        if (!clip && !words && !splits_by(gpt2_pattern))
            return fail("its words are not those that GPT2BPETokenizer, CLIPTokenizer or CharBPETokenizer writes");
        if (clip && !lowers_and_strips()) return fail("its normalizer is more than lower case and stripping");
        result->folds = clip;
        const int32_t merges = json.get(model, "merges"), end_mark = json.get(model, "end_of_word_suffix");
        const bool marked = end_mark >= 0 && json.nodes[end_mark].kind == Json::String;
        const uint8_t* suffix = marked ? text(end_mark) : nullptr;
        const int64_t suffix_size = marked ? json.nodes[end_mark].size : 0;
        const int64_t tokens = count(vocabulary), pairs = count(merges);
        const ByteCharacters characters;
        Index index;
        Buffer<int32_t> ids, rows, points;
        if (!index.room(tokens + 1024) || !ids.resize(tokens) || !rows.resize(pairs * 4)) return fail("out of memory");
        int32_t number = 0;
        for (int32_t child = json.nodes[vocabulary].child; child >= 0; child = json.nodes[child].next, ++number) {
            const int64_t size = json.nodes[child].name_size;
            ids[number] = id_of(child);
            index.at(name(child), size) = {name(child), size, number};
            const bool ends = suffix_size && size >= suffix_size &&
                              memcmp(name(child) + size - suffix_size, suffix, size_t(suffix_size)) == 0;
            const int64_t bare = ends ? size - suffix_size : size;
            if (words) {
                add_point(points, name(child), size, 0, number);
                if (ends || !suffix_size) add_point(points, name(child), bare, 1, number);
            }
            if (!add_bytes(ids[number], name(child), bare, words ? nullptr : &characters, ends)) return false;
        }
        int32_t rank = 0;
        for (int32_t pair = merges < 0 ? -1 : json.nodes[merges].child; pair >= 0; pair = json.nodes[pair].next, ++rank) {
            if (!read_merge(pair, index, rows.data() + 4 * rank)) return false;
            rows[4 * rank + 3] = rank;
        }
        int32_t symbols[512];
        Buffer<uint8_t> last;
        if (points.failed() || !last.resize(4 + suffix_size)) return fail("out of memory");
        for (int byte = 0; byte < 256; ++byte) {
            const int size = encode(characters.point[byte], last.data());
            symbols[byte] = index.at(last.data(), size).number;
            if (suffix_size) memcpy(last.data() + size, suffix, size_t(suffix_size));
            symbols[256 + byte] = index.at(last.data(), size + suffix_size).number;
        }
        const int32_t unknown = json.get(model, "unk_token");
        int32_t unknown_id = -1;
        if (unknown >= 0 && json.nodes[unknown].kind == Json::String) {
            const int32_t known = index.at(text(unknown), json.nodes[unknown].size).number;
            if (known >= 0) unknown_id = ids[known];
        }
        result->engine = fb_tokenizer_bpe(words ? 2 : clip ? 1 : 0, ids.data(), tokens, rows.data(), pairs,
                                          words ? nullptr : symbols, points.data(), points.size() / 3, unknown_id);
        return result->engine || fail("out of memory");
    }

    // The symbol of a character, if the token is one.
    static void add_point(Buffer<int32_t>& points, const uint8_t* token, int64_t size, int32_t ends,
                          int32_t number) noexcept {
        uint32_t point;
        if (size < 1 || decode(token, token + size, point) != size) return;
        points.push(int32_t(point));
        points.push(ends);
        points.push(number);
    }

    bool read_merge(int32_t pair, Index& index, int32_t* row) noexcept {
        const int32_t left = json.nodes[pair].kind == Json::Array ? json.nodes[pair].child : -1;
        const int32_t right = left < 0 ? -1 : json.nodes[left].next;
        if (right < 0 || json.nodes[left].kind != Json::String || json.nodes[right].kind != Json::String)
            return fail("a merge is no pair of texts");
        Buffer<uint8_t> joined;
        const int64_t sizes[2] = {json.nodes[left].size, json.nodes[right].size};
        if (!joined.resize(sizes[0] + sizes[1] + 1)) return fail("out of memory");
        memcpy(joined.data(), text(left), size_t(sizes[0]));
        memcpy(joined.data() + sizes[0], text(right), size_t(sizes[1]));
        row[0] = index.at(text(left), sizes[0]).number;
        row[1] = index.at(text(right), sizes[1]).number;
        row[2] = index.at(joined.data(), sizes[0] + sizes[1]).number;
        return (row[0] >= 0 && row[1] >= 0 && row[2] >= 0) || fail("a merge is of tokens that the vocabulary lacks");
    }

    // What a token stands for: its bytes, where characters stand for them, and a space for the mark of a word's end.
    bool add_bytes(int32_t id, const uint8_t* token, int64_t size, const ByteCharacters* characters, bool space) noexcept {
        Buffer<uint8_t> raw;
        for (const uint8_t *at = token, *end = token + size; at < end;) {
            uint32_t point;
            const int length = decode(at, end, point);
            if (characters && point < 512 && characters->byte[point] >= 0) {
                raw.push(uint8_t(characters->byte[point]));
            } else {
                for (int i = 0; i < length; ++i) raw.push(at[i]);
            }
            at += length;
        }
        if (space) raw.push(' ');
        return !raw.failed() && add_token(id, raw.data(), raw.size());
    }

    bool word_pieces() noexcept {
        const int32_t normalizer = json.get(root, "normalizer"), unknown = json.get(model, "unk_token");
        const int32_t prefix = json.get(model, "continuing_subword_prefix");
        if (!json.says(json.get(normalizer, "type"), "BertNormalizer")) return fail("its normalizer is not BertNormalizer");
        if (!json.says(prefix, "##") || unknown < 0) return fail("it has no unk_token, or another prefix than ##");
        Buffer<uint8_t> blob;
        Buffer<int64_t> offsets;
        Buffer<int32_t> ids;
        int32_t unknown_id = -1;
        offsets.push(0);
        for (int32_t child = json.nodes[vocabulary].child; child >= 0; child = json.nodes[child].next) {
            const int64_t size = json.nodes[child].name_size;
            const int32_t id = id_of(child);
            for (int64_t i = 0; i < size; ++i) blob.push(name(child)[i]);
            offsets.push(blob.size());
            ids.push(id);
            if (size == json.nodes[unknown].size && memcmp(name(child), text(unknown), size_t(size)) == 0) unknown_id = id;
            if (!add_token(id, name(child), size)) return false;
        }
        if (blob.failed() || offsets.failed() || ids.failed()) return fail("out of memory");
        const int32_t folds = json.truth(json.get(normalizer, "lowercase"));
        const int32_t strip = json.get(normalizer, "strip_accents");
        const int32_t strips = strip >= 0 && json.nodes[strip].kind == Json::Bool ? json.truth(strip) : folds;
        result->pieces = true;
        result->engine = fb_tokenizer_wordpiece(blob.data(), offsets.data(), ids.data(), ids.size(), text(prefix), 2,
                                                unknown_id, 100, folds, strips);
        return result->engine || fail("out of memory");
    }
};

// Appends a text, character by character in lower case and without white space at its ends.
void fold(const uint8_t* at, const uint8_t* end, Buffer<uint8_t>& out) noexcept {
    bool begun = false;
    int64_t keep = out.size();
    while (at < end) {
        uint32_t point;
        at += decode(at, end, point);
        const bool space = properties(point) & Space;
        if (space && !begun) continue;
        begun = true;
        uint8_t bytes[8];
        int size = point == 0x130 ? encode('i', bytes) : encode(lower(point), bytes);
        if (point == 0x130) size += encode(0x307, bytes + size);
        for (int i = 0; i < size; ++i) out.push(bytes[i]);
        if (!space) keep = out.size();
    }
    if (!out.failed()) out.resize(keep);
}

bool read_file(const char* path, Buffer<uint8_t>& content) noexcept {
    FILE* file = fopen(path, "rb");
    if (!file) return fail(strerror(errno));
    uint8_t part[1 << 16];
    for (size_t size; (size = fread(part, 1, sizeof part, file)) > 0;) {
        const int64_t before = content.size();
        if (!content.resize(before + int64_t(size))) break;
        memcpy(content.data() + before, part, size);
    }
    const bool fine = !ferror(file) && !content.failed();
    fclose(file);
    return fine || fail("it could not be read whole");
}

}  // namespace

}  // namespace fb::text

FB_EXPORT const char* fl_tok_error() { return fb::text::problem; }

FB_EXPORT void fl_tok_close(fl_tok* tokenizer) {
    if (tokenizer) fb_tokenizer_free(tokenizer->engine);
    fb::text::unmade(tokenizer);
}

FB_EXPORT fl_tok* fl_tok_open(const char* path) {
    using namespace fb::text;
    problem[0] = 0;
    Buffer<uint8_t> content;
    Builder* builder = made<Builder>();
    fl_tok* tokenizer = made<fl_tok>();
    bool fine = builder && tokenizer && read_file(path, content);
    if (fine && !builder->json.parse(content.data(), content.size())) fine = fail("it is not JSON");
    if (fine) {
        builder->result = tokenizer;
        fine = builder->build();
    }
    unmade(builder);
    if (fine) return tokenizer;
    fail("out of memory");
    fl_tok_close(tokenizer);
    return nullptr;
}

FB_EXPORT int64_t fl_tok_encode_batch(fl_tok* tokenizer, const char* text, const int64_t* offsets, int64_t count,
                                      int32_t* ids, int64_t room, int64_t* rows) {
    using namespace fb::text;
    const uint8_t* bytes = reinterpret_cast<const uint8_t*>(text);
    rows[0] = 0;
    if (count && room < factor * offsets[count]) return -2;
    for (int64_t i = 0; i < count; ++i) {
        const int64_t size = offsets[i + 1] - offsets[i];
        if (fb_utf8_valid(bytes + offsets[i], size) != size) return -3;
    }
    if (!tokenizer->folds) return fb_tokenizer_encode_batch(tokenizer->engine, bytes, offsets, count, ids, rows, factor);
    // A character has at most half as many bytes more in lower case, and a byte gives at most one id.
    Buffer<uint8_t> folded;
    Buffer<int64_t> places;
    places.push(0);
    for (int64_t i = 0; i < count; ++i) {
        fold(bytes + offsets[i], bytes + offsets[i + 1], folded);
        places.push(folded.size());
    }
    if (folded.failed() || places.failed()) return -1;
    return fb_tokenizer_encode_batch(tokenizer->engine, folded.data(), places.data(), count, ids, rows, 1);
}

FB_EXPORT int64_t fl_tok_decode(const fl_tok* tokenizer, const int32_t* ids, int64_t count, char* text, int64_t room) {
    int64_t total = 0, spaces = 0;
    const auto put = [&](uint8_t byte) noexcept {
        if (tokenizer->folds && byte == ' ') {  // one at the end is left out
            ++spaces;
            return;
        }
        for (; spaces; --spaces, ++total)
            if (total < room) text[total] = ' ';
        if (total < room) text[total] = char(byte);
        ++total;
    };
    for (int64_t i = 0; i < count; ++i) {
        if (ids[i] < 0 || ids[i] >= tokenizer->begins.size() || tokenizer->begins[ids[i]] < 0) return -4;
        int64_t begin = tokenizer->begins[ids[i]];
        const int64_t end = tokenizer->ends[ids[i]];
        if (tokenizer->pieces && i) {
            const uint8_t* token = tokenizer->bytes.data() + begin;
            const bool continues = end - begin > 2 && token[0] == '#' && token[1] == '#';
            if (continues) begin += 2;
            if (!continues) put(' ');
        }
        for (; begin < end; ++begin) put(tokenizer->bytes[begin]);
    }
    return total;
}
