// Tokenizers as other languages hold them: one text, or many on threads.

#include "tokenizer.h"

namespace fb::text {

namespace {

// A scratch of this tokenizer that no other thread uses, from earlier calls if there is one. When more threads than
// slots work at a time, the rest make do with new ones.
class Borrowed {
  public:
    explicit Borrowed(Tokenizer& tokenizer) noexcept : tokenizer_(tokenizer) {
        for (auto& slot : tokenizer.idle) {
            if (!slot.load(std::memory_order_relaxed)) continue;
            if ((scratch_ = slot.exchange(nullptr, std::memory_order_acquire))) return;
        }
        scratch_ = made<Scratch>();
        if (scratch_) scratch_->cache.words = static_cast<CachedWord*>(calloc(WordCache::places, sizeof(CachedWord)));
    }
    ~Borrowed() {
        if (scratch_ && !scratch_->failed()) {
            for (auto& slot : tokenizer_.idle) {
                Scratch* empty = nullptr;
                if (slot.compare_exchange_strong(empty, scratch_, std::memory_order_release, std::memory_order_relaxed)) return;
            }
        }
        unmade(scratch_);
    }
    Scratch* get() const noexcept { return scratch_; }

  private:
    Tokenizer& tokenizer_;
    Scratch* scratch_ = nullptr;
};

// The number of ids, -1 when memory ran out, -2 when they are more than there is room for.
int64_t encode_one(const Tokenizer& tokenizer, const uint8_t* text, int64_t size, Sink sink, Scratch& scratch) noexcept {
    if (tokenizer.bpe) {
        encode_bpe(tokenizer, text, size, sink, scratch);
    } else {
        encode_wordpiece(tokenizer, text, size, sink, scratch);
    }
    return scratch.failed() ? -1 : sink.full ? -2 : sink.count;
}

}  // namespace

}  // namespace fb::text

// Ids of one UTF-8 text of less than 2**31 bytes: their number, -1 when memory ran out, -2 when there is no room.
// `ids` has `room` places, `spans`, if given, two for each: the bytes of the text that the id came from.
FB_EXPORT int64_t fb_tokenizer_encode(void* handle, const uint8_t* text, int64_t size, int32_t* ids, int32_t* spans,
                                      int64_t room) {
    using namespace fb::text;
    Tokenizer& tokenizer = *static_cast<Tokenizer*>(handle);
    const Borrowed scratch(tokenizer);
    if (!scratch.get() || size > 0x7FFFFFFF) return -1;
    return encode_one(tokenizer, text, size, Sink{ids, spans, room}, *scratch.get());
}

// Ids of many texts, end to end in `text`: their number, or as above. Text i is the bytes from offsets[i] on up to
// offsets[i + 1]; `rows` (count + 1) becomes where its ids begin. `ids` has `factor` places for each byte.
FB_EXPORT int64_t fb_tokenizer_encode_batch(void* handle, const uint8_t* text, const int64_t* offsets, int64_t count,
                                            int32_t* ids, int64_t* rows, int64_t factor) {
    using namespace fb::text;
    Tokenizer& tokenizer = *static_cast<Tokenizer*>(handle);
    const auto texts = [&](int64_t begin, int64_t end) noexcept {
        const Borrowed scratch(tokenizer);
        for (int64_t i = begin; i < end; ++i) {
            const int64_t size = offsets[i + 1] - offsets[i];
            const Sink sink{ids + factor * offsets[i], nullptr, factor * size};
            const bool able = scratch.get() && !scratch.get()->failed() && size <= 0x7FFFFFFF;
            rows[i + 1] = able ? encode_one(tokenizer, text + offsets[i], size, sink, *scratch.get()) : -1;
        }
    };
    const int64_t bytes = count ? offsets[count] - offsets[0] : 0;
    const int32_t threads = fb::threads(bytes);
    // Several pieces per thread would even out texts of unequal length, but a piece costs a call: 64 kB and more each.
    fb::parallel_for(0, count, bytes ? (count * 16384 + bytes - 1) / bytes : count, threads, texts);
    int64_t total = rows[0] = 0;
    for (int64_t i = 0; i < count; ++i) {
        const int64_t size = rows[i + 1];
        if (size < 0) return size;
        memmove(ids + total, ids + factor * offsets[i], size_t(size) * sizeof(int32_t));
        rows[i + 1] = total += size;
    }
    return total;
}

// Rows of ids side by side, each filled up to `width` with `padding`, or cut there.
FB_EXPORT void fb_tokenizer_pad(const int32_t* ids, const int64_t* rows, int64_t count, int64_t width, int64_t padding,
                                int64_t* output) {
    for (int64_t i = 0; i < count; ++i, output += width) {
        const int64_t size = rows[i + 1] - rows[i], used = size < width ? size : width;
        for (int64_t k = 0; k < used; ++k) output[k] = ids[rows[i] + k];
        for (int64_t k = used; k < width; ++k) output[k] = padding;
    }
}

// A text that is never split: a special token with its id, or, for word pieces, a part of a text (the id is not used).
// Not while another thread encodes. 0, or -1 when memory ran out or the text is empty.
FB_EXPORT int32_t fb_tokenizer_add_literal(void* handle, const uint8_t* text, int64_t size, int32_t id) {
    return static_cast<fb::text::Tokenizer*>(handle)->literals.add(text, size, id) ? 0 : -1;
}

FB_EXPORT void fb_tokenizer_free(void* handle) {
    using namespace fb::text;
    Tokenizer* tokenizer = static_cast<Tokenizer*>(handle);
    if (!tokenizer) return;
    for (auto& slot : tokenizer->idle) unmade(slot.load());
    free_model(tokenizer->bpe);
    free_model(tokenizer->wordpiece);
    unmade(tokenizer);
}
