// The scan of an inverted file of product-quantized vectors: of each query the smallest sums of the vectors in some lists.
//
// codes   (N, M) uint8, list after list; offsets (L + 1,) where lists begin
// products (n, M, 256) float32: what each byte of a code adds; coarse (n, P): what a list adds; norms (N,): a vector

#include <flambeau/kernel.h>

#include <limits>

namespace rec {
namespace {

constexpr int64_t entries = 256;
constexpr float infinity = std::numeric_limits<float>::infinity();

// The k smallest of many sums: a heap in the memory of the result, its largest on top; rows break ties, so that results
// do not depend on the order in which lists are looked at.
struct Smallest {
    float* sums;
    int64_t* rows;
    int64_t most, held;

    bool after(int64_t a, int64_t b) const noexcept {
        return sums[a] > sums[b] || (sums[a] == sums[b] && rows[a] > rows[b]);
    }
    void swap(int64_t a, int64_t b) noexcept {
        const float sum = sums[a];
        const int64_t row = rows[a];
        sums[a] = sums[b], rows[a] = rows[b];
        sums[b] = sum, rows[b] = row;
    }
    void sink(int64_t at, int64_t count) noexcept {
        for (int64_t child; (child = 2 * at + 1) < count; at = child) {
            if (child + 1 < count && after(child + 1, child)) ++child;
            if (!after(child, at)) return;
            swap(at, child);
        }
    }
    float bound() const noexcept { return held < most ? infinity : sums[0]; }
    void offer(float sum, int64_t row) noexcept {
        if (held < most) {
            int64_t at = held++;
            sums[at] = sum, rows[at] = row;
            for (int64_t parent; at > 0 && after(at, parent = (at - 1) / 2); at = parent) swap(at, parent);
        } else if (sum < sums[0] || (sum == sums[0] && row < rows[0])) {
            sums[0] = sum, rows[0] = row;
            sink(0, held);
        }
    }
    void finish() noexcept {
        for (int64_t count = held; count > 1;) {
            swap(0, --count);
            sink(0, count);
        }
        for (int64_t i = held; i < most; ++i) sums[i] = infinity, rows[i] = -1;
    }
};

struct Scan {
    const float *products, *coarse, *norms;
    const int64_t *lists, *offsets;
    const uint8_t* codes;
    int64_t parts, probes;
};

template <int fixed>
FB_INLINE float looked_up(const float* table, const uint8_t* code, int64_t parts) noexcept {
    // Two chains of additions: one would wait for itself.
    float even = 0, odd = 0;
    const int64_t count = fixed ? fixed : parts;
    int64_t m = 0;
    for (; m + 1 < count; m += 2) {
        even += table[m * entries + code[m]];
        odd += table[(m + 1) * entries + code[m + 1]];
    }
    if (m < count) even += table[m * entries + code[m]];
    return even + odd;
}

template <int fixed>
void scan_query(const Scan& scan, int64_t query, Smallest& best) noexcept {
    const float* table = scan.products + query * scan.parts * entries;
    for (int64_t p = 0; p < scan.probes; ++p) {
        const int64_t list = scan.lists[query * scan.probes + p];
        const float base = scan.coarse[query * scan.probes + p];
        for (int64_t row = scan.offsets[list]; row < scan.offsets[list + 1]; ++row) {
            const float sum = base + scan.norms[row] + looked_up<fixed>(table, scan.codes + row * scan.parts, scan.parts);
            if (sum <= best.bound() && sum < infinity) best.offer(sum, row);
        }
    }
    best.finish();
}

bool shaped(fb::Call& call, const char* name, const fb::Tensor& tensor, fb::DType dtype, bool fits,
            const char* wanted) noexcept {
    if (fits && tensor.dtype == dtype) return true;
    call.fail("ivfpq_scan: %s has shape %s and dtype %s, expected %s of %s.", name, fb::Shape(tensor).text,
              fb::name(tensor.dtype), wanted, fb::name(dtype));
    return false;
}

void ivfpq_scan(fb::Call& call, const fb::Tensor& products, const fb::Tensor& coarse, const fb::Tensor& lists,
                const fb::Tensor& offsets, const fb::Tensor& codes, const fb::Tensor& norms, int64_t k) noexcept {
    using fb::DType;
    const int64_t queries = products.dim == 3 ? products.sizes[0] : -1;
    const int64_t parts = products.dim == 3 ? products.sizes[1] : -1;
    const bool pair = coarse.dim == 2 && coarse.sizes[0] == queries;
    if (!shaped(call, "products", products, DType::Float32, products.dim == 3 && products.sizes[2] == entries,
                "(n, M, 256)") ||
        !shaped(call, "coarse", coarse, DType::Float32, pair, "(n, P)") ||
        !shaped(call, "lists", lists, DType::Int64,
                lists.dim == 2 && lists.sizes[0] == queries && lists.sizes[1] == coarse.sizes[1], "that of coarse") ||
        !shaped(call, "offsets", offsets, DType::Int64, offsets.dim == 1 && offsets.sizes[0] >= 1, "(L + 1,)") ||
        !shaped(call, "codes", codes, DType::UInt8, codes.dim == 2 && codes.sizes[1] == parts, "(N, M)") ||
        !shaped(call, "norms", norms, DType::Float32, norms.dim == 1 && norms.sizes[0] == codes.sizes[0], "(N,)"))
        return;
    if (k < 1) return call.fail("ivfpq_scan: k is %lld, expected at least 1.", (long long)k);
    const fb::Tensor held[] = {call.contiguous(products), call.contiguous(coarse),  call.contiguous(lists),
                               call.contiguous(offsets),  call.contiguous(codes), call.contiguous(norms)};
    for (const fb::Tensor& one : held)
        if (!one.defined()) return;
    const Scan scan{held[0].as<const float>(),   held[1].as<const float>(),   held[5].as<const float>(),
                    held[2].as<const int64_t>(), held[3].as<const int64_t>(), held[4].as<const uint8_t>(),
                    parts,                       coarse.sizes[1]};
    const int64_t count = offsets.sizes[0] - 1, total = codes.sizes[0];
    bool rising = scan.offsets[0] == 0 && scan.offsets[count] == total;
    for (int64_t i = 0; i < count; ++i) rising &= scan.offsets[i] <= scan.offsets[i + 1];
    if (!rising)
        return call.fail("ivfpq_scan: offsets are not rising from 0 to the %lld rows of codes.", (long long)total);
    int64_t work = 0;
    for (int64_t i = 0; i < queries * scan.probes; ++i) {
        const int64_t list = scan.lists[i];
        if (list < 0 || list >= count)
            return call.fail("ivfpq_scan: lists has numbers outside of the %lld lists.", (long long)count);
        work += scan.offsets[list + 1] - scan.offsets[list];
    }
    fb::Tensor sums = call.empty(DType::Float32, {queries, k}), rows = call.empty(DType::Int64, {queries, k});
    if (!sums.defined() || !rows.defined()) return;
    work = work * (parts + 1) + queries * k;
    fb::parallel_for(0, queries, fb::serial_below * queries / (work + 1) + 1, fb::threads(work),
                     [&](int64_t begin, int64_t end) noexcept {
        for (int64_t query = begin; query < end; ++query) {
            Smallest best{sums.as<float>() + query * k, rows.as<int64_t>() + query * k, k, 0};
            switch (parts) {
                case 8: scan_query<8>(scan, query, best); break;
                case 16: scan_query<16>(scan, query, best); break;
                case 32: scan_query<32>(scan, query, best); break;
                default: scan_query<0>(scan, query, best);
            }
        }
    });
    call.give(sums);
    call.give(rows);
}

FB_OPERATOR("ivfpq_scan", ivfpq_scan);

}  // namespace
}  // namespace rec
