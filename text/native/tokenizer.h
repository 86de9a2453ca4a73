// What the tokenizers share: buffers, UTF-8, character properties, output, and the cache of words.
//
// Only the C library is used at run time. Nothing throws; memory that runs out sets a flag which the caller reports.

#pragma once

#include <flambeau/kernel.h>
#include <stdlib.h>

#include <atomic>
#include <new>

#include "unicode_tables.h"

namespace fb::text {

// A growing array of plain values. After `failed()` its content means nothing.
template <typename T>
class Buffer {
    static_assert(std::is_trivially_copyable<T>::value, "moved by realloc");

  public:
    Buffer() noexcept = default;
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() { free(data_); }

    bool resize(int64_t size) noexcept {
        if (size > room_) {
            int64_t room = room_ * 2 > size ? room_ * 2 : size;
            if (room < 16) room = 16;
            T* data = static_cast<T*>(realloc(data_, size_t(room) * sizeof(T)));
            if (!data) return !(failed_ = true);
            data_ = data;
            room_ = room;
        }
        size_ = size;
        return true;
    }
    void push(T value) noexcept {
        if (resize(size_ + 1)) data_[size_ - 1] = value;
    }
    bool assign(const T* values, int64_t count) noexcept {
        if (!resize(count)) return false;
        if (count) memcpy(data_, values, size_t(count) * sizeof(T));
        return true;
    }
    bool fill(int64_t count, T value) noexcept {
        if (!resize(count)) return false;
        for (int64_t i = 0; i < count; ++i) data_[i] = value;
        return true;
    }
    void clear() noexcept { size_ = 0; }
    bool failed() const noexcept { return failed_; }
    int64_t size() const noexcept { return size_; }
    T* data() noexcept { return data_; }
    const T* data() const noexcept { return data_; }
    T& operator[](int64_t i) noexcept { return data_[i]; }
    const T& operator[](int64_t i) const noexcept { return data_[i]; }

  private:
    T* data_ = nullptr;
    int64_t size_ = 0, room_ = 0;
    bool failed_ = false;
};

// ---------------------------------------------------------------------------------------------------------------
// Characters

enum Property : uint8_t {
    Letter = 1, Number = 2, Control = 4, Mark = 8, Separator = 16, Punctuation = 32, Ideograph = 64, Space = 128,
};

inline constexpr int shift = 7;
inline constexpr uint32_t low = (1u << shift) - 1;

inline uint8_t properties(uint32_t point) noexcept {
    return properties_blocks[uint32_t(properties_index[point >> shift]) << shift | (point & low)];
}
inline uint32_t lower(uint32_t point) noexcept {
    return point + uint32_t(lower_blocks[uint32_t(lower_index[point >> shift]) << shift | (point & low)]);
}
inline uint8_t combining(uint32_t point) noexcept {
    return combining_blocks[uint32_t(combining_index[point >> shift]) << shift | (point & low)];
}
// The full canonical decomposition, its length in front; nullptr for what has none. Hangul is not in the table.
inline const uint32_t* decomposition(uint32_t point) noexcept {
    const uint16_t place = decomposed_blocks[uint32_t(decomposed_index[point >> shift]) << shift | (point & low)];
    return place ? decompositions + place : nullptr;
}

// Reads one code point and returns its length. Text is valid UTF-8; a broken sequence still reads nothing past `end`.
inline int decode(const uint8_t* at, const uint8_t* end, uint32_t& point) noexcept {
    const uint8_t lead = at[0];
    if (lead < 0x80) return point = lead, 1;
    const int length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (end - at < length) return point = 0xFFFD, 1;
    point = lead & (0x7F >> length);
    for (int i = 1; i < length; ++i) point = point << 6 | (at[i] & 0x3F);
    if (point > 0x10FFFF) point = 0xFFFD;
    return length;
}

inline int encode(uint32_t point, uint8_t* out) noexcept {
    if (point < 0x80) return out[0] = uint8_t(point), 1;
    const int length = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (int i = length - 1; i > 0; --i, point >>= 6) out[i] = uint8_t(0x80 | (point & 0x3F));
    out[0] = uint8_t((0xF00 >> length) | point);
    return length;
}

inline uint64_t mixed(uint64_t x) noexcept {
    x ^= x >> 32;
    x *= 0x9E3779B97F4A7C15ull;
    return x ^ (x >> 29);
}

inline uint64_t hash(const uint8_t* bytes, int64_t size) noexcept {
    uint64_t state = uint64_t(size) * 0xD6E8FEB86659FD93ull;
    for (; size >= 8; size -= 8, bytes += 8) {
        uint64_t word;
        memcpy(&word, bytes, 8);
        state = mixed(state ^ word);
    }
    uint64_t word = 0;
    if (size >= 4) {  // two overlapping halves cost less than a copy of unknown length
        uint32_t first, last;
        memcpy(&first, bytes, 4);
        memcpy(&last, bytes + size - 4, 4);
        word = uint64_t(first) << 32 | last;
    } else if (size) {
        word = uint64_t(bytes[0]) << 16 | uint64_t(bytes[size / 2]) << 8 | bytes[size - 1];
    }
    return mixed(state ^ word);
}

// ---------------------------------------------------------------------------------------------------------------
// Output

// Where ids go, and the bytes of the text that each came from when `spans` is given (two numbers each).
struct Sink {
    int32_t* ids;
    int32_t* spans;
    int64_t room;
    int64_t count = 0;
    bool full = false;

    void put(int32_t id, int64_t begin, int64_t end) noexcept {
        if (count == room) {
            full = true;
            return;
        }
        if (spans) {
            spans[2 * count] = int32_t(begin);
            spans[2 * count + 1] = int32_t(end);
        }
        ids[count++] = id;
    }
};

// ---------------------------------------------------------------------------------------------------------------
// The cache of words: what short words give, at most 2**14 of them, newer in the place of older

struct CachedWord {
    static constexpr int64_t longest = 30;
    static constexpr int64_t most = 8;
    uint8_t size, count;
    uint8_t bytes[longest];
    int32_t ids[most];
};
static_assert(sizeof(CachedWord) == 64, "one line of a processor's cache");

struct WordCache {
    static constexpr uint64_t places = 1u << 14;
    CachedWord* words = nullptr;
    ~WordCache() { free(words); }

    CachedWord* place(const uint8_t* bytes, int64_t size) noexcept {
        if (!words || size > CachedWord::longest) return nullptr;
        return words + (hash(bytes, size) & (places - 1));
    }
    static bool holds(const CachedWord& word, const uint8_t* bytes, int64_t size) noexcept {
        return word.size == size && memcmp(word.bytes, bytes, size_t(size)) == 0;
    }
    static bool give(const CachedWord& word, Sink& sink) noexcept {
        if (sink.room - sink.count < word.count) return false;
        for (int i = 0; i < word.count; ++i) sink.ids[sink.count + i] = word.ids[i];
        sink.count += word.count;
        return true;
    }
    static void keep(CachedWord& word, const uint8_t* bytes, int64_t size, const int32_t* ids, int64_t count) noexcept {
        if (count > CachedWord::most || size == 0) return;
        word.size = uint8_t(size);
        word.count = uint8_t(count);
        memcpy(word.bytes, bytes, size_t(size));
        for (int64_t i = 0; i < count; ++i) word.ids[i] = ids[i];
    }
};

// What one thread needs while it works; kept by the tokenizer from call to call, since its cache is worth keeping.
struct Scratch {
    WordCache cache;
    Buffer<int32_t> symbols, ranks, starts, next, previous;
    Buffer<uint64_t> heap, pending;
    Buffer<uint8_t> word;
    Buffer<uint32_t> points;
    Buffer<int32_t> sources;  // begin and end in the text of each of `points`, and of each byte of `word`
    Buffer<int32_t> word_sources;

    bool failed() const noexcept {
        return symbols.failed() || ranks.failed() || starts.failed() || next.failed() || previous.failed() ||
               heap.failed() || pending.failed() || word.failed() || points.failed() || sources.failed() ||
               word_sources.failed();
    }
};

// Texts that stand for themselves: special tokens, and parts that are never split. Longest first.
struct Literal {
    int64_t begin, size;
    int32_t id;
};

struct Literals {
    Buffer<uint8_t> bytes;
    Buffer<Literal> items;
    bool first[256] = {};

    bool add(const uint8_t* text, int64_t size, int32_t id) noexcept {
        const int64_t begin = bytes.size();
        if (size < 1 || !bytes.resize(begin + size) || !items.resize(items.size() + 1)) return false;
        memcpy(bytes.data() + begin, text, size_t(size));
        int64_t at = items.size() - 1;
        for (; at > 0 && items[at - 1].size < size; --at) items[at] = items[at - 1];
        items[at] = {begin, size, id};
        first[text[0]] = true;
        return true;
    }
    // The longest that begins at `at`.
    const Literal* begins(const uint8_t* at, const uint8_t* end) const noexcept {
        if (!first[*at]) return nullptr;
        for (int64_t i = 0; i < items.size(); ++i) {
            const Literal& item = items[i];
            if (end - at >= item.size && memcmp(at, bytes.data() + item.begin, size_t(item.size)) == 0) return &item;
        }
        return nullptr;
    }
    bool holds(const uint8_t* text, int64_t size) const noexcept {
        for (int64_t i = 0; size && i < items.size(); ++i)
            if (items[i].size == size && memcmp(text, bytes.data() + items[i].begin, size_t(size)) == 0) return true;
        return false;
    }
};

struct Bpe;
struct WordPiece;

enum class Scanner : int32_t { Gpt2, Clip, Words, Bert };

// A tokenizer as other languages hold it.
struct Tokenizer {
    static constexpr int slots = 32;
    Scanner scanner;
    Bpe* bpe = nullptr;
    WordPiece* wordpiece = nullptr;
    Literals literals;
    std::atomic<Scratch*> idle[slots] = {};

    explicit Tokenizer(Scanner kind) noexcept : scanner(kind) {}
};

template <typename T, typename... Args>
T* made(Args... args) noexcept {
    void* memory = calloc(1, sizeof(T));
    return memory ? ::new (memory) T(args...) : nullptr;
}

template <typename T>
void unmade(T* object) noexcept {
    if (!object) return;
    object->~T();
    free(static_cast<void*>(object));
}

void encode_bpe(const Tokenizer& tokenizer, const uint8_t* text, int64_t size, Sink& sink, Scratch& scratch) noexcept;
void encode_wordpiece(const Tokenizer& tokenizer, const uint8_t* text, int64_t size, Sink& sink,
                      Scratch& scratch) noexcept;
void free_model(Bpe* model) noexcept;
void free_model(WordPiece* model) noexcept;

}  // namespace fb::text
