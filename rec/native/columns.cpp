// Groups of columns moved between matrices of one batch: pooled features put into another order, other tensors, or twice.
//
// Rows are cut among the threads; a row's groups are copied one after another, so that reading and writing stay within
// a few cache lines' reach. Taking gradients back is the same with the roles exchanged, and adding where two groups came
// from the same columns.

#include <flambeau/numbers.h>

#include "indices.h"

namespace rec {
namespace {

// In bytes, but for `adds`.
struct Move {
    int64_t from, to;                  // which matrix
    int64_t from_column, to_column;    // where in its rows
    int64_t width;
    int64_t adds;                      // whether to add to what is there, instead of replacing it
};

struct Matrix {
    char* data;
    int64_t width;  // of a row
};

#define REC_ADD_COLUMNS(T)                                                                             \
    FB_CLONES void add_columns(const T* from, int64_t count, T* to) noexcept {                         \
        for (int64_t i = 0; i < count; ++i) to[i] = fb::narrow<T>(fb::widen(to[i]) + fb::widen(from[i])); \
    }
REC_ADD_COLUMNS(float)
REC_ADD_COLUMNS(fb::Half)
REC_ADD_COLUMNS(fb::BFloat16)
FB_CLONES void add_columns(const double* from, int64_t count, double* to) noexcept {
    for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

void add_bytes(fb::DType dtype, const char* from, int64_t bytes, char* to) noexcept {
    const void* given = from;
    void* taken = to;
    switch (dtype) {
        case fb::DType::Float32:
            return add_columns(static_cast<const float*>(given), bytes / 4, static_cast<float*>(taken));
        case fb::DType::Float64:
            return add_columns(static_cast<const double*>(given), bytes / 8, static_cast<double*>(taken));
        case fb::DType::Float16:
            return add_columns(static_cast<const fb::Half*>(given), bytes / 2, static_cast<fb::Half*>(taken));
        case fb::DType::BFloat16:
            return add_columns(static_cast<const fb::BFloat16*>(given), bytes / 2, static_cast<fb::BFloat16*>(taken));
        default: return;  // gradients are of floating numbers
    }
}

FB_INLINE void copy_bytes(const char* from, int64_t bytes, char* to) noexcept {
    // Usual widths of an embedding, without a call.
    switch (bytes) {
        case 64: memcpy(to, from, 64); return;
        case 128: memcpy(to, from, 128); return;
        case 256: memcpy(to, from, 256); return;
        case 512: memcpy(to, from, 512); return;
        default: memcpy(to, from, size_t(bytes)); return;
    }
}

FB_CLONES void move_row(const Matrix* inputs, const Matrix* outputs, const Move* moves, int64_t count, int64_t row,
                        fb::DType dtype) noexcept {
    for (int64_t i = 0; i < count; ++i) {
        const Move& move = moves[i];
        const Matrix &input = inputs[move.from], &output = outputs[move.to];
        const char* from = input.data + row * input.width + move.from_column;
        char* to = output.data + row * output.width + move.to_column;
        if (move.adds)
            add_bytes(dtype, from, move.width, to);
        else
            copy_bytes(from, move.width, to);
    }
}

void move_columns(const Matrix* inputs, const Matrix* outputs, const Move* moves, int64_t count, int64_t batch,
                  fb::DType dtype, int32_t threads) noexcept {
    int64_t bytes = 1;
    for (int64_t i = 0; i < count; ++i) bytes += moves[i].width;
    const bool serial = batch * bytes / 8 < fb::serial_below;
    fb::parallel_for(0, batch, 8 * fb::serial_below / bytes + 1, serial ? 1 : threads,
                     [&](int64_t begin, int64_t end) noexcept {
                         for (int64_t row = begin; row < end; ++row)
                             move_row(inputs, outputs, moves, count, row, dtype);
                     });
}

// One matrix into one other: group i of the result is group `permute[i]` of the input, which begins at column
// `starts[permute[i]]`. The result is as wide as `inverse_starts` says.
void permute_pooled(fb::Call& call, const char* op, const fb::Tensor& pooled, const fb::Tensor& starts,
                    const fb::Tensor& permute, const fb::Tensor& inverse_starts, bool duplicates) noexcept {
    if (pooled.dim != 2 || pooled.dtype == fb::DType::Other)
        return call.fail("%s: pooled_embs has shape %s and dtype %s, expected (batch, columns).", op,
                         fb::Shape(pooled).text, fb::name(pooled.dtype));
    if (!index_vector(call, op, "offset_dim_list", starts) || !index_vector(call, op, "permute_list", permute) ||
        !index_vector(call, op, "inv_offset_dim_list", inverse_starts))
        return;
    const int64_t chosen = permute.sizes[0], groups = starts.sizes[0] - 1;
    if (groups < 0 || (!duplicates && groups != chosen))
        return call.fail("%s: offset_dim_list has %lld entries and permute_list %lld; expected one offset more than there "
                         "are groups.",
                         op, (long long)starts.sizes[0], (long long)chosen);
    const fb::Tensor from = call.contiguous(pooled), begins = call.contiguous(starts), order = call.contiguous(permute);
    const fb::Tensor target = call.contiguous(inverse_starts);
    if (!from.defined() || !begins.defined() || !order.defined() || !target.defined()) return;
    const int64_t size = fb::dtype_bytes[int32_t(from.dtype)], width = from.sizes[1];
    Move* moves = static_cast<Move*>(malloc(size_t(chosen + 1) * sizeof(Move)));
    if (!moves) return call.fail("%s: no memory left for %lld groups", op, (long long)chosen);
    int64_t column = 0;
    for (int64_t i = 0; i < chosen; ++i) {
        const int64_t group = index_at(order, i);
        const bool known = group >= 0 && group < groups;
        const int64_t begin = known ? index_at(begins, group) : 0, end = known ? index_at(begins, group + 1) : 0;
        if (!known || begin < 0 || begin > end || end > width) {
            free(moves);
            return call.fail("%s: permute_list has %lld at %lld, of %lld groups, which goes from column %lld to %lld of "
                             "%lld.",
                             op, (long long)group, (long long)i, (long long)groups, (long long)begin, (long long)end,
                             (long long)width);
        }
        moves[i] = Move{0, 0, begin * size, column * size, (end - begin) * size, 0};
        column += end - begin;
    }
    fb::Tensor output = call.empty(from.dtype, {from.sizes[0], column});
    if (output.defined()) {
        const Matrix input{from.as<char>(), width * size}, result{output.as<char>(), column * size};
        move_columns(&input, &result, moves, chosen, from.sizes[0], from.dtype, fb::threads(from.sizes[0] * column));
        call.give(output);
    }
    free(moves);
}

// The gradient of that: what reaches the copies of a group is added up; groups that are left out get none.
void permute_pooled_back(fb::Call& call, const fb::Tensor& flow, const fb::Tensor& starts, const fb::Tensor& permute,
                         int64_t width) noexcept {
    constexpr const char* op = "permute_pooled_embs_back";
    const fb::Tensor grad = call.contiguous(flow), begins = call.contiguous(starts), order = call.contiguous(permute);
    if (!grad.defined() || !begins.defined() || !order.defined()) return;
    const int64_t chosen = order.sizes[0], groups = begins.sizes[0] - 1, size = fb::dtype_bytes[int32_t(grad.dtype)];
    fb::Tensor output = call.empty(grad.dtype, {grad.sizes[0], width});
    Move* moves = static_cast<Move*>(malloc(size_t(chosen + 1) * sizeof(Move) + size_t(groups + 1)));
    if (!output.defined() || !moves) return free(moves), call.fail("%s: no memory left", op);
    char* met = reinterpret_cast<char*>(moves + chosen + 1);
    memset(met, 0, size_t(groups + 1));
    int64_t column = 0, covered = 0;
    for (int64_t i = 0; i < chosen; ++i) {
        const int64_t group = index_at(order, i), begin = index_at(begins, group);
        const int64_t columns = index_at(begins, group + 1) - begin;
        moves[i] = Move{0, 0, column * size, begin * size, columns * size, met[group]};
        if (!met[group]) covered += columns;
        met[group] = 1;
        column += columns;
    }
    if (covered < width) memset(output.data, 0, size_t(grad.sizes[0] * width * size));
    const Matrix input{grad.as<char>(), grad.sizes[1] * size}, result{output.as<char>(), width * size};
    move_columns(&input, &result, moves, chosen, grad.sizes[0], grad.dtype, fb::threads(grad.sizes[0] * column));
    free(moves);
    call.give(output);
}
FB_OPERATOR("permute_pooled_embs_back", permute_pooled_back);

}  // namespace

#define REC_PERMUTE_POOLED(name, duplicates)                                                                         \
    static void name(fb::Call& call, const fb::Tensor& pooled, const fb::Tensor& starts, const fb::Tensor& permute, \
                     const fb::Tensor& inverse_starts, const fb::Tensor&) noexcept {                                \
        permute_pooled(call, #name, pooled, starts, permute, inverse_starts, duplicates);                           \
    }                                                                                                                \
    FB_OPERATOR(#name, name);

REC_PERMUTE_POOLED(permute_pooled_embs, false)
REC_PERMUTE_POOLED(permute_pooled_embs_split, false)
REC_PERMUTE_POOLED(permute_pooled_embs_auto_grad, false)
REC_PERMUTE_POOLED(permute_pooled_embs_auto_grad_split, false)
REC_PERMUTE_POOLED(permute_duplicate_pooled_embs, true)
REC_PERMUTE_POOLED(permute_duplicate_pooled_embs_split, true)
REC_PERMUTE_POOLED(permute_duplicate_pooled_embs_auto_grad, true)
REC_PERMUTE_POOLED(permute_duplicate_pooled_embs_auto_grad_split, true)

}  // namespace rec

// What `permutes` of a regrouping says, as moves of bytes. Rows: matrix from and to, column from and to, width, and
// something that is not needed here. Backwards the roles are exchanged, and columns that several rows want are added up.
// False where a row lies outside of its matrices; `faulty` says which.
namespace rec {
namespace {

struct Sides {
    const int64_t* from_widths;  // in elements
    const int64_t* to_widths;
    int64_t from_count, to_count;
};

template <typename I>
bool read_moves(const I* permutes, int64_t count, bool reverse, const Sides& sides, int64_t size, Move* moves,
                int64_t& faulty) noexcept {
    for (faulty = 0; faulty < count; ++faulty, permutes += 6) {
        const int64_t a = permutes[0], b = permutes[1], at_a = permutes[2], at_b = permutes[3], width = permutes[4];
        const int64_t from = reverse ? b : a, to = reverse ? a : b;
        const int64_t from_column = reverse ? at_b : at_a, to_column = reverse ? at_a : at_b;
        if (from < 0 || from >= sides.from_count || to < 0 || to >= sides.to_count || width < 0 || from_column < 0 ||
            to_column < 0 || from_column + width > sides.from_widths[from] || to_column + width > sides.to_widths[to])
            return false;
        moves[faulty] = Move{from, to, from_column * size, to_column * size, width * size, 0};
    }
    return true;
}

// Finds which moves meet columns that an earlier one wrote, and which matrices are not written everywhere: those begin
// as zeros, and everything is added to them. `written` has a byte for each column of all matrices, `zeros` one for each.
void find_sums(const Sides& sides, int64_t size, bool reverse, Move* moves, int64_t count, char* written,
               char* zeros) noexcept {
    for (int64_t matrix = 0; matrix < sides.to_count; written += sides.to_widths[matrix++]) {
        const int64_t width = sides.to_widths[matrix];
        int64_t covered = 0;
        bool whole = true;  // groups are either new, or wholly there
        for (int64_t i = 0; i < count; ++i) {
            if (moves[i].to != matrix) continue;
            char* first = written + moves[i].to_column / size;
            const int64_t columns = moves[i].width / size;
            int64_t known = 0;
            for (int64_t c = 0; c < columns; ++c) known += first[c], first[c] = 1;
            whole &= known == 0 || known == columns;
            moves[i].adds = reverse && known;
            covered += columns - known;
        }
        zeros[matrix] = covered < width || !whole;
        if (reverse && !whole)
            for (int64_t i = 0; i < count; ++i)
                if (moves[i].to == matrix) moves[i].adds = 1;
    }
}

}  // namespace
}  // namespace rec

// Groups of columns from several matrices (batch, width) to several others, see `rec::read_moves`. Widths in elements,
// `dtype` a `fb::DType`. -1: done; -2: no memory; else the first row of `permutes` that does not fit, nothing written.
FB_EXPORT int64_t fb_rec_regroup(void* const* inputs, const int64_t* input_widths, int64_t input_count,
                                 void* const* outputs, const int64_t* output_widths, int64_t output_count,
                                 const void* permutes, int32_t wide, int64_t count, int32_t reverse, int64_t batch,
                                 int32_t dtype, int32_t threads) noexcept {
    using namespace rec;
    const int64_t size = fb::dtype_bytes[dtype];
    const Sides sides{input_widths, output_widths, input_count, output_count};
    int64_t columns = 0;
    for (int64_t i = 0; i < output_count; ++i) columns += output_widths[i];
    const size_t matrices = size_t(input_count + output_count);
    char* memory = static_cast<char*>(malloc(size_t(count + 1) * sizeof(Move) + matrices * sizeof(Matrix) +
                                             size_t(columns + output_count) + 1));
    if (!memory) return -2;
    Move* moves = reinterpret_cast<Move*>(memory);
    Matrix* all = reinterpret_cast<Matrix*>(moves + count + 1);
    char* written = reinterpret_cast<char*>(all + matrices);
    char* zeros = written + columns;
    memset(written, 0, size_t(columns));
    int64_t faulty = 0;
    const bool fits = with_indices(permutes, wide, [&](auto* rows) noexcept {
        return read_moves(rows, count, reverse != 0, sides, size, moves, faulty);
    });
    if (fits) {
        find_sums(sides, size, reverse != 0, moves, count, written, zeros);
        for (int64_t i = 0; i < input_count; ++i)
            all[i] = Matrix{static_cast<char*>(inputs[i]), input_widths[i] * size};
        for (int64_t i = 0; i < output_count; ++i) {
            const int64_t bytes = batch * output_widths[i] * size;
            all[input_count + i] = Matrix{static_cast<char*>(outputs[i]), output_widths[i] * size};
            fb::Call::prefer_large_pages(outputs[i], bytes);
            if (zeros[i] && bytes) memset(outputs[i], 0, size_t(bytes));
        }
        move_columns(all, all + input_count, moves, count, batch, fb::DType(dtype), threads);
    }
    free(memory);
    return fits ? -1 : faulty;
}
