// Rows of tables chosen by index, and gradients of rows added up where an index stands twice.
//
// Choosing waits for memory: rows that are needed soon are asked for early. Adding gives each thread a range of rows,
// which it looks for among all indices: no two threads write one row, and the order of additions is that of the indices,
// whatever the number of threads.

#include <flambeau/numbers.h>

#include "indices.h"
#include "radix_sort.h"

namespace rec {
namespace {

constexpr int64_t ahead = 12;

FB_INLINE void ask_for(const char* row, int64_t bytes) noexcept {
#if defined(__GNUC__)
    for (int64_t at = 0; at < bytes && at < 1024; at += 64) __builtin_prefetch(row + at);
#else
    (void)row, (void)bytes;
#endif
}

// A row of so many bytes; those of common sizes without a call.
template <int64_t known, typename I>
FB_INLINE void copy_known(const char* table, int64_t bytes, const I* indices, int64_t begin, int64_t end, char* output,
                          int64_t step) noexcept {
    const int64_t size = known ? known : bytes;
    for (int64_t i = begin; i < end; ++i) {
        if (i + ahead < end) ask_for(table + int64_t(indices[i + ahead]) * size, size);
        const char* from = table + int64_t(indices[i]) * size;
        char* to = output + i * step;
        if constexpr (known != 0)
            memcpy(to, from, size_t(known));
        else
            memcpy(to, from, size_t(size));
    }
}

template <typename I>
FB_INLINE void copy_any(const char* table, int64_t bytes, const I* indices, int64_t begin, int64_t end, char* output,
                        int64_t step) noexcept {
    switch (bytes) {
        case 4: return copy_known<4>(table, bytes, indices, begin, end, output, step);
        case 8: return copy_known<8>(table, bytes, indices, begin, end, output, step);
        case 16: return copy_known<16>(table, bytes, indices, begin, end, output, step);
        case 32: return copy_known<32>(table, bytes, indices, begin, end, output, step);
        case 64: return copy_known<64>(table, bytes, indices, begin, end, output, step);
        case 128: return copy_known<128>(table, bytes, indices, begin, end, output, step);
        case 256: return copy_known<256>(table, bytes, indices, begin, end, output, step);
        case 512: return copy_known<512>(table, bytes, indices, begin, end, output, step);
        default: return copy_known<0>(table, bytes, indices, begin, end, output, step);
    }
}

FB_CLONES void copy_rows(const char* table, int64_t bytes, const int32_t* indices, int64_t begin, int64_t end,
                         char* output, int64_t step) noexcept {
    copy_any(table, bytes, indices, begin, end, output, step);
}
FB_CLONES void copy_rows(const char* table, int64_t bytes, const int64_t* indices, int64_t begin, int64_t end,
                         char* output, int64_t step) noexcept {
    copy_any(table, bytes, indices, begin, end, output, step);
}

// Place of the first index that is no row; -1 where all are.
template <typename I>
int64_t find_stray(const I* indices, int64_t count, int64_t rows) noexcept {
    bool stray = false;
    for (int64_t i = 0; i < count; ++i) stray |= indices[i] < 0 || int64_t(indices[i]) >= rows;
    if (stray)
        for (int64_t i = 0; i < count; ++i)
            if (indices[i] < 0 || int64_t(indices[i]) >= rows) return i;
    return -1;
}

#define REC_ADD(T)                                                                       \
    FB_CLONES void add(const T* from, int64_t count, T* to) noexcept {                   \
        for (int64_t i = 0; i < count; ++i) to[i] += from[i];                            \
    }
REC_ADD(float)
REC_ADD(double)

#define REC_ADD_HALF(S)                                                                  \
    FB_CLONES void widen_add(const S* from, int64_t count, float* to) noexcept {         \
        for (int64_t i = 0; i < count; ++i) to[i] += fb::widen(from[i]);                 \
    }                                                                                    \
    FB_CLONES void narrow_to(const float* from, int64_t count, S* to) noexcept {         \
        for (int64_t i = 0; i < count; ++i) to[i] = fb::narrow<S>(from[i]);              \
    }
REC_ADD_HALF(fb::Half)
REC_ADD_HALF(fb::BFloat16)

struct Gradient {
    const void* data;
    int64_t count, columns, step;  // step: from one row to the next, in elements
};

// float32 and float64: added in place. `output` is (rows, columns) and comes out complete.
template <typename T, typename I>
void add_rows(const Gradient& gradient, const I* indices, int64_t rows, T* output, int32_t threads) noexcept {
    const int64_t columns = gradient.columns;
    const T* from = static_cast<const T*>(gradient.data);
    fb::parallel_for(0, rows, rows / (threads > 1 ? threads : 1) + 1, threads, [&](int64_t begin, int64_t end) noexcept {
        memset(output + begin * columns, 0, size_t((end - begin) * columns) * sizeof(T));
        for (int64_t i = 0; i < gradient.count; ++i) {
            const int64_t row = indices[i];
            if (row >= begin && row < end) add(from + i * gradient.step, columns, output + row * columns);
        }
    });
}

// float16 and bfloat16: each row is summed in float32 and rounded once, so its gradients must be met together.
template <typename S, typename I>
bool add_narrow_rows(const Gradient& gradient, const I* indices, int64_t rows, S* output, int32_t threads) noexcept {
    using Item = Pair<int64_t, int64_t>;
    const int64_t count = gradient.count, columns = gradient.columns;
    const int64_t parts = threads < 1 ? 1 : threads > most_parts ? most_parts : threads;
    char* memory = static_cast<char*>(malloc(2 * size_t(count) * sizeof(Item) + radix_counters(parts) + 8));
    float* sums = static_cast<float*>(malloc(size_t(parts * columns + 1) * sizeof(float)));
    if (!memory || !sums) return free(memory), free(sums), false;
    Item* items = reinterpret_cast<Item*>(memory);
    int64_t* counters = reinterpret_cast<int64_t*>(items + 2 * count);
    for (int64_t i = 0; i < count; ++i) items[i] = Item{int64_t(indices[i]), i};
    int bits = 1;
    while (bits < 62 && rows >> bits) ++bits;
    const Item* sorted = radix_sort(items, items + count, count, bits, counters, parts, threads);
    const S* from = static_cast<const S*>(gradient.data);
    const int64_t share = (rows + parts - 1) / parts;
    fb::parallel_for(0, parts, 1, threads, [&](int64_t first, int64_t last) noexcept {
        for (int64_t part = first; part < last; ++part) {
            const int64_t begin = part * share < rows ? part * share : rows;
            const int64_t end = begin + share < rows ? begin + share : rows;
            memset(static_cast<void*>(output + begin * columns), 0, size_t((end - begin) * columns) * sizeof(S));
            int64_t low = 0, high = count;  // the first item of this part's rows
            while (low < high) {
                const int64_t middle = (low + high) / 2;
                if (sorted[middle].key < begin) low = middle + 1;
                else high = middle;
            }
            float* sum = sums + part * columns;
            for (int64_t i = low; i < count && sorted[i].key < end;) {
                const int64_t row = sorted[i].key;
                memset(sum, 0, size_t(columns) * sizeof(float));
                for (; i < count && sorted[i].key == row; ++i)
                    widen_add(from + sorted[i].payload * gradient.step, columns, sum);
                narrow_to(sum, columns, output + row * columns);
            }
        }
    });
    free(memory), free(sums);
    return true;
}

// 0: done; 1: no memory; 2: another dtype.
template <typename I>
int32_t add_rows_of(fb::DType dtype, const Gradient& gradient, const I* indices, int64_t rows, void* output,
                    int32_t threads) noexcept {
    switch (dtype) {
        case fb::DType::Float32: add_rows(gradient, indices, rows, static_cast<float*>(output), threads); return 0;
        case fb::DType::Float64: add_rows(gradient, indices, rows, static_cast<double*>(output), threads); return 0;
        case fb::DType::Float16:
            return !add_narrow_rows(gradient, indices, rows, static_cast<fb::Half*>(output), threads);
        case fb::DType::BFloat16:
            return !add_narrow_rows(gradient, indices, rows, static_cast<fb::BFloat16*>(output), threads);
        default: return 2;
    }
}

template <typename I>
void select_rows(const void* table, int64_t bytes, const I* indices, int64_t count, void* output, int64_t step,
                 int32_t threads) noexcept {
    fb::parallel_for(0, count, 8 * fb::serial_below / (bytes + 1) + 1, threads, [&](int64_t begin, int64_t end) noexcept {
        copy_rows(static_cast<const char*>(table), bytes, indices, begin, end, static_cast<char*>(output), step);
    });
}

void complain(fb::Call& call, const fb::Tensor& indices, int64_t place, int64_t rows) noexcept {
    call.fail("index_select_dim0: indices has %lld at %lld, expected 0 to %lld: the input has %lld rows.",
              (long long)index_at(indices, place), (long long)place, (long long)(rows - 1), (long long)rows);
}

// Sorting the indices first would only help another machine.
void index_select_dim0(fb::Call& call, const fb::Tensor& input, const fb::Tensor& given, const fb::OptionalInt&,
                       const fb::OptionalInt&, const fb::OptionalInt&) noexcept {
    if (input.dim < 1 || input.dim > 8 || input.dtype == fb::DType::Other)
        return call.fail("index_select_dim0: input has shape %s and dtype %s, expected (rows, ...).",
                         fb::Shape(input).text, fb::name(input.dtype));
    if (!index_vector(call, "index_select_dim0", "indices", given)) return;
    const fb::Tensor table = call.contiguous(input), indices = call.contiguous(given);
    if (!table.defined() || !indices.defined()) return;
    const int64_t count = indices.sizes[0], rows = table.sizes[0];
    int64_t sizes[8], bytes = fb::dtype_bytes[int32_t(table.dtype)];
    sizes[0] = count;
    for (int64_t i = 1; i < table.dim; ++i) bytes *= sizes[i] = table.sizes[i];
    fb::Tensor output = call.empty(table.dtype, sizes, table.dim);
    if (!output.defined()) return;
    with_indices(indices, [&](auto* chosen) noexcept {
        const int64_t stray = find_stray(chosen, count, rows);
        if (stray >= 0) return complain(call, indices, stray, rows);
        if (bytes) select_rows(table.data, bytes, chosen, count, output.data, bytes, fb::threads(count * bytes / 8));
        call.give(output);
    });
}

void index_add_rows(fb::Call& call, const fb::Tensor& flow, const fb::Tensor& given, int64_t rows) noexcept {
    if (!index_vector(call, "index_add_rows", "indices", given)) return;
    if (flow.dim < 1 || flow.dim > 8 || flow.sizes[0] != given.sizes[0] || rows < 0)
        return call.fail("index_add_rows: grad has shape %s and there are %lld rows; expected (%lld, ...): a row for each "
                         "index.",
                         fb::Shape(flow).text, (long long)rows, (long long)given.sizes[0]);
    const fb::Tensor grad = call.contiguous(flow), indices = call.contiguous(given);
    if (!grad.defined() || !indices.defined()) return;
    int64_t sizes[8], columns = 1;
    sizes[0] = rows;
    for (int64_t i = 1; i < grad.dim; ++i) columns *= sizes[i] = grad.sizes[i];
    fb::Tensor output = call.empty(grad.dtype, sizes, grad.dim);
    if (!output.defined()) return;
    const Gradient gradient{grad.data, indices.sizes[0], columns, columns};
    with_indices(indices, [&](auto* chosen) noexcept {
        const int64_t stray = find_stray(chosen, gradient.count, rows);
        if (stray >= 0) return complain(call, indices, stray, rows);
        switch (add_rows_of(grad.dtype, gradient, chosen, rows, output.data,
                            fb::threads((gradient.count + rows) * columns))) {
            case 0: return call.give(output);
            case 1: return call.fail("index_add_rows: no memory left to sort %lld indices.", (long long)gradient.count);
            default:
                return call.fail("index_add_rows: grad has dtype %s, expected float32, float64, float16 or bfloat16.",
                                 fb::name(grad.dtype));
        }
    });
}

FB_OPERATOR("index_select_dim0", index_select_dim0);
FB_OPERATOR("index_add_rows", index_add_rows);

}  // namespace
}  // namespace rec

// Rows of one table among several; `step`: bytes from one row of the output to the next. Returns the place of the first
// index that is no row, -1 where all are; then nothing was written.
FB_EXPORT int64_t fb_rec_select_rows(const void* table, int64_t rows, int64_t bytes, const void* indices, int32_t wide,
                                     int64_t count, void* output, int64_t step, int32_t threads) noexcept {
    return rec::with_indices(indices, wide, [&](auto* chosen) noexcept -> int64_t {
        const int64_t stray = rec::find_stray(chosen, count, rows);
        if (stray < 0 && bytes) {
            const bool serial = count * bytes / 8 < fb::serial_below;
            rec::select_rows(table, bytes, chosen, count, output, step, serial ? 1 : threads);
        }
        return stray;
    });
}

// The gradient of that: (rows, columns) of `dtype` (a `fb::DType`), complete; `step` in elements. 0: done; 1: no memory;
// 2: another dtype. Indices are known to be rows.
FB_EXPORT int32_t fb_rec_add_rows(const void* gradient, int64_t count, int64_t columns, int64_t step,
                                  const void* indices, int32_t wide, int64_t rows, int32_t dtype, void* output,
                                  int32_t threads) noexcept {
    return rec::with_indices(indices, wide, [&](auto* chosen) noexcept -> int32_t {
        const bool serial = (count + rows) * columns < fb::serial_below;
        return rec::add_rows_of(fb::DType(dtype), rec::Gradient{gradient, count, columns, step}, chosen, rows, output,
                                serial ? 1 : threads);
    });
}
