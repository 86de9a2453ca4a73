// Encryption and decryption of tensors' bytes: the operator `crypt`. ops/crypt.py says what its arguments are.

#include "aes.h"

#include <flambeau/kernel.h>

namespace csprng {
namespace {

enum Mode : int64_t { ecb_encrypt, ecb_decrypt, ctr_encrypt, ctr_decrypt };

// Small enough for the first cache, together with what is read and written.
constexpr int64_t stretch = 256;  // blocks

int64_t bytes_of(const fb::Tensor& tensor) noexcept { return tensor.numel() * fb::dtype_bytes[int32_t(tensor.dtype)]; }

int64_t rounded_up(int64_t bytes) noexcept { return (bytes + aes::block_bytes - 1) / aes::block_bytes * aes::block_bytes; }

// Where a tensor's elements lie: from its first byte up to, but without, the last.
struct Extent {
    const uint8_t *begin, *end;
    explicit Extent(const fb::Tensor& tensor) noexcept {
        begin = end = tensor.as<uint8_t>();
        const int64_t size = fb::dtype_bytes[int32_t(tensor.dtype)];
        if (tensor.numel() == 0) return;
        end += size;
        for (int64_t i = 0; i < tensor.dim; ++i) end += (tensor.sizes[i] - 1) * tensor.strides[i] * size;
    }
};

// Calls `body` with the first byte of each element until it says no.
template <typename Body>
bool every_element(const fb::Tensor& tensor, const Body& body) noexcept {
    const int64_t size = fb::dtype_bytes[int32_t(tensor.dtype)], count = tensor.numel();
    for (int64_t i = 0; i < count; ++i) {
        int64_t rest = i, offset = 0;
        for (int64_t d = tensor.dim; d-- > 0; rest /= tensor.sizes[d]) offset += rest % tensor.sizes[d] * tensor.strides[d];
        if (!body(tensor.as<uint8_t>() + offset * size, size)) return false;
    }
    return true;
}

bool same(const fb::Tensor& a, const fb::Tensor& b) noexcept {
    if (a.data != b.data || bytes_of(a) != bytes_of(b)) return false;
    if (a.contiguous() && b.contiguous()) return true;
    if (a.dim != b.dim || a.dtype != b.dtype) return false;
    for (int64_t i = 0; i < a.dim; ++i)
        if (a.sizes[i] != b.sizes[i] || a.strides[i] != b.strides[i]) return false;
    return true;
}

// Whether both have a byte in common, exactly.
bool overlap(const fb::Tensor& a, const fb::Tensor& b) noexcept {
    const Extent x(a), y(b);
    const uint8_t* begin = x.begin > y.begin ? x.begin : y.begin;
    const uint8_t* end = x.end < y.end ? x.end : y.end;
    if (begin >= end) return false;
    if (a.contiguous() && b.contiguous()) return true;
    uint8_t* taken = static_cast<uint8_t*>(calloc(size_t(end - begin), 1));
    if (!taken) return true;
    every_element(a, [&](const uint8_t* byte, int64_t size) noexcept {
        for (int64_t i = 0; i < size; ++i)
            if (byte + i >= begin && byte + i < end) taken[byte + i - begin] = 1;
        return true;
    });
    const bool apart = every_element(b, [&](const uint8_t* byte, int64_t size) noexcept {
        for (int64_t i = 0; i < size; ++i)
            if (byte + i >= begin && byte + i < end && taken[byte + i - begin]) return false;
        return true;
    });
    free(taken);
    return !apart;
}

bool repeats_elements(const fb::Tensor& tensor) noexcept {
    for (int64_t i = 0; i < tensor.dim; ++i)
        if (tensor.sizes[i] > 1 && tensor.strides[i] == 0) return true;
    return false;
}

// The same sentences as `_check` of ops/crypt.py.
bool checked(fb::Call& call, const fb::Tensor& input, const fb::Tensor& output, const fb::Tensor& key,
             int64_t key_bytes, int64_t mode, const fb::OptionalTensor& iv) noexcept {
    const char* op = mode == ecb_decrypt || mode == ctr_decrypt ? "decrypt" : "encrypt";
    const fb::Tensor* all[] = {&input, &output, &key, &iv};
    for (const fb::Tensor* tensor : all)
        if (tensor->defined() && tensor->dtype == fb::DType::Other)
            return call.fail("%s: a tensor has a dtype that kernels do not know; pass `tensor.view(torch.uint8)`.", op), false;
    const int64_t from = bytes_of(input), to = bytes_of(output);
    const auto number = [](int64_t value) noexcept { return static_cast<long long>(value); };
    if (bytes_of(key) != key_bytes)
        return call.fail("%s: key has %lld bytes, expected %lld; the cipher aes%lld takes a key of %lld bits.", op,
                         number(bytes_of(key)), number(key_bytes), number(key_bytes * 8), number(key_bytes * 8)), false;
    if (iv.defined() && bytes_of(iv) != aes::block_bytes)
        return call.fail("%s: iv has %lld bytes, expected 16, one block.", op, number(bytes_of(iv))), false;
    if (!(iv.defined() && from == to)) {
        if (mode == ecb_encrypt || mode == ctr_encrypt) {
            if (to != rounded_up(from))
                return call.fail("%s: output has %lld bytes, expected %lld, the input's %lld in whole blocks of 16.", op,
                                 number(to), number(rounded_up(from)), number(from)), false;
        } else if (from % aes::block_bytes) {
            return call.fail("%s: input has %lld bytes, expected whole blocks of 16.", op, number(from)), false;
        } else if (rounded_up(to) != from) {
            return call.fail("%s: output has %lld bytes, expected the input's %lld or up to 15 fewer.", op, number(to),
                             number(from)), false;
        }
    }
    if (repeats_elements(output))
        return call.fail("%s: several elements of output are one place in memory; clone it first.", op), false;
    if (!same(input, output) && overlap(input, output))
        return call.fail("%s: input and output overlap in memory; pass the same tensor for both, or a copy.", op), false;
    return true;
}

struct Job {
    const aes::Engine& engine;
    const aes::Schedule& schedule;
    int64_t mode;
    const uint8_t* iv;  // or null
};

FB_INLINE void add(const uint8_t* from, const uint8_t* stream, uint8_t* to, int64_t bytes) noexcept {
    for (int64_t i = 0; i < bytes; ++i) to[i] = from[i] ^ stream[i];
}

FB_CLONES static void add_bytes(const uint8_t* from, const uint8_t* stream, uint8_t* to, int64_t bytes) {
    add(from, stream, to, bytes);
}

// Whole blocks, from the one numbered `first`.
void run(const Job& job, const uint8_t* from, uint8_t* to, int64_t first, int64_t blocks) noexcept {
    if (job.mode == ecb_encrypt) return job.engine.encrypt(job.schedule, from, to, blocks);
    if (job.mode == ecb_decrypt) return job.engine.decrypt(job.schedule, from, to, blocks);
    alignas(64) uint8_t stream[stretch * aes::block_bytes];
    stream[0] = 0;  // there is a block; compilers cannot know it, and would warn
    if (job.iv)
        aes::count_big(job.iv, uint64_t(first), stream, blocks);
    else
        aes::count_little(uint64_t(first), 0, stream, blocks);
    job.engine.encrypt(job.schedule, stream, stream, blocks);
    if (blocks < 8)
        add(from, stream, to, blocks * aes::block_bytes);
    else
        add_bytes(from, stream, to, blocks * aes::block_bytes);
}

// The last block, of which either side may have only the beginning; the rest counts as zeros.
void run_last(const Job& job, const uint8_t* from, int64_t from_bytes, uint8_t* to, int64_t to_bytes,
              int64_t number) noexcept {
    uint8_t block[aes::block_bytes] = {};
    memcpy(block, from, size_t(from_bytes));
    run(job, block, block, number, 1);
    memcpy(to, block, size_t(to_bytes));
}

}  // namespace

void crypt_bytes(const uint8_t* from, int64_t from_bytes, uint8_t* to, int64_t to_bytes, const uint8_t* key,
                 int64_t key_bytes, int64_t mode, const uint8_t* iv, int32_t nthreads) noexcept {
    const aes::Engine& engine = aes::engine();
    aes::Schedule schedule;
    aes::expand(engine, key, key_bytes, schedule);
    uint8_t initial[aes::block_bytes];
    if (iv) memcpy(initial, iv, sizeof initial);
    const Job job{engine, schedule, mode, iv ? initial : nullptr};
    const int64_t whole = (from_bytes < to_bytes ? from_bytes : to_bytes) / aes::block_bytes;
    const int64_t stretches = (whole + stretch - 1) / stretch;
    fb::parallel_for(0, stretches, 4, nthreads, [&](int64_t begin, int64_t end) noexcept {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t first = i * stretch, count = whole - first < stretch ? whole - first : stretch;
            run(job, from + first * aes::block_bytes, to + first * aes::block_bytes, first, count);
        }
    });
    const int64_t done = whole * aes::block_bytes;
    if (done < from_bytes || done < to_bytes)
        run_last(job, from + done, from_bytes - done, to + done, to_bytes - done, whole);
}

namespace {

void crypt(fb::Call& call, const fb::Tensor& given_input, const fb::Tensor& given_output, const fb::Tensor& given_key,
           int64_t key_bytes, int64_t mode, const fb::OptionalTensor& given_iv) noexcept {
    if (!checked(call, given_input, given_output, given_key, key_bytes, mode, given_iv)) return;
    const fb::Tensor input = call.contiguous(given_input), key = call.contiguous(given_key);
    const fb::Tensor output = call.contiguous(given_output);
    const fb::Tensor iv = given_iv.defined() ? call.contiguous(given_iv) : fb::Tensor();
    if (!input.defined() || !key.defined() || !output.defined() || iv.defined() != given_iv.defined()) return;
    crypt_bytes(input.as<uint8_t>(), bytes_of(input), output.as<uint8_t>(), bytes_of(output), key.as<uint8_t>(),
                key_bytes, mode, iv.defined() ? iv.as<uint8_t>() : nullptr, fb::threads(bytes_of(input)));
    if (output.data != given_output.data && fb::torch.copy(given_output.handle(), output.handle(), 0) != 0)
        call.fail("a tensor of shape %s could not be copied", fb::Shape(given_output).text);
}
FB_OPERATOR("crypt", crypt);

}  // namespace
}  // namespace csprng

// The same for memory without gaps, sizes checked by the caller; `iv` may be null.
FB_EXPORT void fb_crypt(const uint8_t* from, int64_t from_bytes, uint8_t* to, int64_t to_bytes, const uint8_t* key,
                        int64_t key_bytes, int64_t mode, const uint8_t* iv, int32_t nthreads) noexcept {
    csprng::crypt_bytes(from, from_bytes, to, to_bytes, key, key_bytes, mode, iv, nthreads);
}
