// The stream of a key, stretch by stretch, and what operators that fill tensors from it have in common.

#pragma once

#include "aes.h"

#include <flambeau/kernel.h>

namespace csprng {

inline constexpr int64_t stretch = 256;  // blocks, 4 KiB

// Calls `body(first, words, count)` for stretches of the stream's words.
template <typename Word, typename Body>
void over_words(const uint8_t* key, int64_t total, int32_t nthreads, const Body& body) noexcept {
    const aes::Engine& engine = aes::engine();
    aes::Schedule schedule;
    aes::expand(engine, key, aes::block_bytes, schedule);
    constexpr int64_t each = stretch * aes::block_bytes / int64_t(sizeof(Word));
    fb::parallel_for(0, (total + each - 1) / each, 4, nthreads, [&](int64_t begin, int64_t end) noexcept {
        alignas(64) uint8_t bytes[stretch * aes::block_bytes];
        for (int64_t i = begin; i < end; ++i) {
            const int64_t first = i * each, count = total - first < each ? total - first : each;
            const int64_t blocks = (count * int64_t(sizeof(Word)) + aes::block_bytes - 1) / aes::block_bytes;
            aes::count_little(uint64_t(i * stretch), 0, bytes, blocks);
            engine.encrypt(schedule, bytes, bytes, blocks);
            body(engine, schedule, first, reinterpret_cast<Word*>(bytes), count);
        }
    });
}

// How elements are stored: integers of a size alike, whether signed or not.
enum class Kind : int32_t { i8, i16, i32, i64, f32, f64, boolean, none };

inline Kind kind_of(fb::DType dtype) noexcept {
    switch (dtype) {
        case fb::DType::Bool: return Kind::boolean;
        case fb::DType::UInt8: case fb::DType::Int8: return Kind::i8;
        case fb::DType::UInt16: case fb::DType::Int16: return Kind::i16;
        case fb::DType::UInt32: case fb::DType::Int32: return Kind::i32;
        case fb::DType::UInt64: case fb::DType::Int64: return Kind::i64;
        case fb::DType::Float32: return Kind::f32;
        case fb::DType::Float64: return Kind::f64;
        default: return Kind::none;
    }
}

// The same sentences as `check_key` and `check_output` of ops/random_numbers.py.
inline bool checked_key(fb::Call& call, const char* op, const fb::Tensor& key) noexcept {
    if (key.dtype == fb::DType::UInt8 && key.dim == 1 && key.sizes[0] == 16) return true;
    call.fail("%s: key has dtype %s and shape %s, expected torch.uint8 and (16,).", op, fb::name(key.dtype),
              fb::Shape(key).text);
    return false;
}
inline bool checked_output(fb::Call& call, const char* op, const fb::Tensor& output, const char* dtypes) noexcept {
    if (!output.contiguous()) return call.fail("%s: output has gaps; pass a contiguous tensor.", op), false;
    return call.fail("%s: output has dtype %s, expected %s.", op, fb::name(output.dtype), dtypes), false;
}

}  // namespace csprng
