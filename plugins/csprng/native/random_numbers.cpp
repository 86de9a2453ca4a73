// Random numbers of a key: words of the stream of AES, made integers or numbers of an interval.
//
// The stream is the cipher of blocks that count from 0 (see `count_little` of aes.h), cut into words of 2, 4 or 8 bytes,
// little-endian. Element i is made of word i alone. Where a word is rejected, the next try takes word i of the stream
// whose blocks have the number of the try in their other half.

#include "stream.h"

namespace csprng {
namespace {

// word mod range, by what costs least.
template <typename Word>
struct Modulus {
    enum Kind { full, mask, near_mask, other } kind = other;
    uint64_t range, reciprocal = 0;
    int bits = 0;

    explicit Modulus(uint64_t range) noexcept : range(range) {
        constexpr int width = int(8 * sizeof(Word));
        if (range == 0 || range > uint64_t(Word(~Word(0))))
            kind = full;
        else if ((range & (range - 1)) == 0)
            kind = mask;
        else if (((range - 1) & (range - 2)) == 0 && range > 2) {
            while ((uint64_t(1) << bits) < range - 1) ++bits;
            if (2 * bits >= width) kind = near_mask;
        }
        if (kind == other && width <= 32) reciprocal = ~uint64_t(0) / range + 1;
    }
    // A word is uniform below the largest multiple of the range: how many words are.
    uint64_t usable() const noexcept {
        constexpr int width = int(8 * sizeof(Word));
        if (kind == full || kind == mask) return 0;
        const uint64_t most = width == 64 ? ~uint64_t(0) : (uint64_t(1) << width) - 1;
        return most - (most % range + 1) % range + 1;
    }
};

// Below 2^32: Lemire, Kaser and Kurz, "Faster remainder by direct computation", 2019.
FB_INLINE uint64_t remainder(uint32_t word, uint64_t range, uint64_t reciprocal) {
#if defined(__SIZEOF_INT128__)
    __extension__ typedef unsigned __int128 Wide;
    return uint64_t(Wide(reciprocal * word) * range >> 64);
#else
    (void)reciprocal;
    return word % range;
#endif
}
FB_INLINE uint64_t remainder(uint64_t word, uint64_t range, uint64_t) { return word % range; }

template <typename Word, typename Out>
FB_INLINE void integers(const Word* words, int64_t count, const Modulus<Word>& modulus, uint64_t base, Out* to) {
    // A number of fewer bits than the words holds each result; the narrower the lanes, the more of them.
    using Narrow = std::conditional_t<sizeof(Word) == 8, uint64_t, uint32_t>;
    using Signed = std::conditional_t<std::is_floating_point_v<Out>, int64_t, Out>;
    const auto give = [&](uint64_t value) { return Out(Signed(value + base)); };
    switch (modulus.kind) {
        case Modulus<Word>::full:
            for (int64_t i = 0; i < count; ++i) to[i] = give(words[i]);
            break;
        case Modulus<Word>::mask: {
            const Narrow mask = Narrow(modulus.range - 1);
            for (int64_t i = 0; i < count; ++i) to[i] = give(Narrow(words[i] & mask));
            break;
        }
        case Modulus<Word>::near_mask: {  // 2^bits is -1
            const Narrow mask = Narrow(modulus.range - 2), range = Narrow(modulus.range);
            const int bits = modulus.bits;
            for (int64_t i = 0; i < count; ++i) {
                const Narrow low = Narrow(words[i]) & mask, high = Narrow(words[i]) >> bits;
                to[i] = give(Narrow(low - high + (low < high ? range : 0)));
            }
            break;
        }
        case Modulus<Word>::other: {
            using Given = std::conditional_t<sizeof(Word) == 8, uint64_t, uint32_t>;
            for (int64_t i = 0; i < count; ++i)
                to[i] = give(remainder(Given(words[i]), modulus.range, modulus.reciprocal));
            break;
        }
    }
}

#define FB_INTEGERS(name, Word, Out)                                                                             \
    FB_CLONES static void name(const Word* words, int64_t count, const Modulus<Word>& modulus, uint64_t base,     \
                               Out* to) {                                                                         \
        integers(words, count, modulus, base, to);                                                                \
    }
#define FB_INTEGERS_OF(Out, suffix)         \
    FB_INTEGERS(w16_##suffix, uint16_t, Out) \
    FB_INTEGERS(w32_##suffix, uint32_t, Out) \
    FB_INTEGERS(w64_##suffix, uint64_t, Out)
FB_INTEGERS_OF(uint8_t, i8)
FB_INTEGERS_OF(uint16_t, i16)
FB_INTEGERS_OF(uint32_t, i32)
FB_INTEGERS_OF(uint64_t, i64)
FB_INTEGERS_OF(float, f32)
FB_INTEGERS_OF(double, f64)
FB_INTEGERS_OF(bool, boolean)

template <typename Word, typename Out>
using Convert = void (*)(const Word*, int64_t, const Modulus<Word>&, uint64_t, Out*);

// Another word in place of each that is not uniform; which it is depends on secrets only in that it took so many tries.
template <typename Word>
void reject(const aes::Engine& engine, const aes::Schedule& schedule, int64_t first, Word* words, int64_t count,
            uint64_t usable) noexcept {
    if (!usable) return;
    constexpr int64_t each = aes::block_bytes / int64_t(sizeof(Word));
    for (int64_t i = 0; i < count; ++i)
        for (uint64_t attempt = 1; words[i] >= usable; ++attempt) {
            Word block[each];
            uint8_t* bytes = reinterpret_cast<uint8_t*>(block);
            aes::count_little(uint64_t((first + i) / each), attempt, bytes, 1);
            engine.encrypt(schedule, bytes, bytes, 1);
            words[i] = block[(first + i) % each];
        }
}

template <typename Word, typename Out>
void fill(const uint8_t* key, void* to, int64_t total, uint64_t range, uint64_t base, bool unbiased, int32_t nthreads,
          Convert<Word, Out> convert) noexcept {
    const Modulus<Word> modulus(range);
    const uint64_t usable = unbiased ? modulus.usable() : 0;
    over_words<Word>(key, total, nthreads,
                     [&](const aes::Engine& engine, const aes::Schedule& schedule, int64_t first, Word* words,
                         int64_t count) noexcept {
                         reject(engine, schedule, first, words, count, usable);
                         convert(words, count, modulus, base, static_cast<Out*>(to) + first);
                     });
}

FB_CLONES static void uniform_f64(const uint64_t* words, int64_t count, double from, double width, double limit,
                                  double* to) {
    for (int64_t i = 0; i < count; ++i) {
        const double value = double(int64_t(words[i] & 0x1fffffffffffff)) * 0x1p-53 * width + from;
        to[i] = value < limit ? value : limit;
    }
}
FB_CLONES static void uniform_f32(const uint64_t* words, int64_t count, double from, double width, double limit,
                                  float* to) {
    const float most = float(limit);
    for (int64_t i = 0; i < count; ++i) {
        const float value = float(double(int64_t(words[i] & 0x1fffffffffffff)) * 0x1p-53 * width + from);
        to[i] = value < most ? value : most;
    }
}

}  // namespace
}  // namespace csprng

// Integers `word mod range + base` of dtype `kind`, as `Kind` counts them. `range` 0 stands for 2^64. 0: done; 1: no such
// words or kind.
FB_EXPORT int32_t fb_fill_integers(const uint8_t* key, void* to, int64_t total, int32_t kind, int64_t word_bytes,
                                   uint64_t range, uint64_t base, int32_t unbiased, int32_t nthreads) noexcept {
    using namespace csprng;
#define FB_FILL(suffix, Out)                                                                                   \
    case Kind::suffix:                                                                                         \
        if (word_bytes == 2) return fill<uint16_t, Out>(key, to, total, range, base, unbiased, nthreads, w16_##suffix), 0; \
        if (word_bytes == 4) return fill<uint32_t, Out>(key, to, total, range, base, unbiased, nthreads, w32_##suffix), 0; \
        if (word_bytes == 8) return fill<uint64_t, Out>(key, to, total, range, base, unbiased, nthreads, w64_##suffix), 0; \
        return 1;
    switch (Kind(kind)) {
        FB_FILL(i8, uint8_t)
        FB_FILL(i16, uint16_t)
        FB_FILL(i32, uint32_t)
        FB_FILL(i64, uint64_t)
        FB_FILL(f32, float)
        FB_FILL(f64, double)
        FB_FILL(boolean, bool)
        default: return 1;
    }
#undef FB_FILL
}

// Numbers `x * width + from` with x from the low 53 bits of words of 64, at most `limit`. `kind` is that of float32 or
// float64.
FB_EXPORT int32_t fb_fill_uniform(const uint8_t* key, void* to, int64_t total, int32_t kind, double from, double width,
                                  double limit, int32_t nthreads) noexcept {
    using namespace csprng;
    const bool wide = Kind(kind) == Kind::f64;
    if (!wide && Kind(kind) != Kind::f32) return 1;
    over_words<uint64_t>(key, total, nthreads,
                         [&](const aes::Engine&, const aes::Schedule&, int64_t first, uint64_t* words,
                             int64_t count) noexcept {
                             if (wide)
                                 uniform_f64(words, count, from, width, limit, static_cast<double*>(to) + first);
                             else
                                 uniform_f32(words, count, from, width, limit, static_cast<float*>(to) + first);
                         });
    return 0;
}

// Words of 64 bits of the stream, from the block numbered `block` on.
FB_EXPORT void fb_random_words(const uint8_t* key, uint64_t block, uint8_t* to, int64_t count,
                               int32_t nthreads) noexcept {
    const aes::Engine& engine = aes::engine();
    aes::Schedule schedule;
    aes::expand(engine, key, aes::block_bytes, schedule);
    const int64_t blocks = count / 2;
    fb::parallel_for(0, (blocks + 255) / 256, 4, nthreads, [&](int64_t begin, int64_t end) noexcept {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t these = blocks - 256 * i < 256 ? blocks - 256 * i : 256;
            uint8_t* at = to + 256 * i * aes::block_bytes;
            aes::count_little(block + uint64_t(256 * i), 0, at, these);
            engine.encrypt(schedule, at, at, these);
        }
    });
    if (count % 2) {
        uint8_t last[aes::block_bytes];
        aes::count_little(block + uint64_t(blocks), 0, last, 1);
        engine.encrypt(schedule, last, last, 1);
        memcpy(to + blocks * aes::block_bytes, last, 8);
    }
}

namespace csprng {
namespace {

void fill_integers(fb::Call& call, const fb::Tensor& output, const fb::Tensor& given_key, int64_t word_bytes,
                   int64_t range, int64_t base, bool unbiased) noexcept {
    const char* op = "fill_integers";
    if (!checked_key(call, op, given_key)) return;
    const fb::Tensor key = call.contiguous(given_key);
    if (!key.defined()) return;
    const Kind kind = kind_of(output.dtype);
    if (kind == Kind::none || !output.contiguous()) {
        checked_output(call, op, output, "bool, an integer dtype, float32 or float64");
        return;
    }
    if (fb_fill_integers(key.as<uint8_t>(), output.data, output.numel(), int32_t(kind), word_bytes, uint64_t(range),
                         uint64_t(base), unbiased, fb::threads(output.numel())))
        call.fail("%s: word_bytes is %lld, expected 2, 4 or 8.", op, static_cast<long long>(word_bytes));
}

void fill_uniform(fb::Call& call, const fb::Tensor& output, const fb::Tensor& given_key, double from, double width,
                  double limit) noexcept {
    const char* op = "fill_uniform";
    if (!checked_key(call, op, given_key)) return;
    const fb::Tensor key = call.contiguous(given_key);
    if (!key.defined()) return;
    const Kind kind = kind_of(output.dtype);
    if ((kind != Kind::f32 && kind != Kind::f64) || !output.contiguous()) {
        checked_output(call, op, output, "float32 or float64");
        return;
    }
    fb_fill_uniform(key.as<uint8_t>(), output.data, output.numel(), int32_t(kind), from, width, limit,
                    fb::threads(output.numel()));
}

void random_words(fb::Call& call, const fb::Tensor& given_key, int64_t block, int64_t count) noexcept {
    const char* op = "random_words";
    if (!checked_key(call, op, given_key)) return;
    const fb::Tensor key = call.contiguous(given_key);
    if (!key.defined()) return;
    if (count < 0 || block < 0)
        return call.fail("%s: block is %lld and count %lld, expected 0 or more.", op, static_cast<long long>(block),
                         static_cast<long long>(count));
    fb::Tensor words = call.empty(fb::DType::Int64, {count});
    if (!words.defined()) return;
    fb_random_words(key.as<uint8_t>(), uint64_t(block), words.as<uint8_t>(), count, fb::threads(count));
    call.give(words);
}

FB_OPERATOR("fill_integers", fill_integers);
FB_OPERATOR("fill_uniform", fill_uniform);
FB_OPERATOR("random_words", random_words);

}  // namespace
}  // namespace csprng
