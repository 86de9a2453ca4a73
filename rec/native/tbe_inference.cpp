// Table-batched embeddings for inference: rows of any element types looked up and pooled in one pass, in any output format.
//
// Tables lie one after another in bytes. Bags are feature-major; feature f reads the table at `weights_offsets[f]`, and its
// numbers go to the columns `D_offsets[f]` to `D_offsets[f + 1]` of an example's row.

#include "indices.h"
#include "tbe_inference_rows.h"

namespace rec {
namespace {

constexpr int64_t segment = 1024;  // columns that are pooled before they are rounded

struct Table {
    const uint8_t* bytes;
    int64_t rows, row_bytes, dim, column;
    SparseType type;
};

struct Lookup {
    Table* tables;
    int64_t features, batch;  // bags of a feature
    Float8 float8;
    int64_t pooling, row_width;
    const float* factors;
};

int64_t unpadded_bytes(SparseType type, int64_t dim) noexcept {
    switch (type) {
        case SparseType::FP32: return 4 * dim;
        case SparseType::FP16:
        case SparseType::BF16: return 2 * dim;
        case SparseType::INT8: return dim + 4;
        case SparseType::INT4: return (dim + 1) / 2 + 4;
        case SparseType::INT2: return (dim + 3) / 4 + 4;
        case SparseType::FP8: return dim;
    }
    return 0;
}

template <typename I>
void pool_segment(const Lookup& lookup, const Table& table, const Bag<I>& bag, int64_t from, int64_t columns, float scale,
                  float* output) noexcept {
    switch (table.type) {
        case SparseType::FP32: return pool_float(bag, from, columns, scale, output);
        case SparseType::FP16: return pool_half(bag, from, columns, scale, output);
        case SparseType::BF16: return pool_bfloat16(bag, from, columns, scale, output);
        case SparseType::INT8: return pool_int8(bag, from, columns, scale, output);
        case SparseType::INT4: return pool_int4(bag, from, columns, scale, output);
        case SparseType::INT2: return pool_int2(bag, from, columns, scale, output);
        case SparseType::FP8: return pool_float8(bag, lookup.float8, from, columns, scale, output);
    }
}

template <typename I, typename S>
void pool_bag(const Lookup& lookup, const Table& table, const Bag<I>& bag, float scale, S* output) noexcept {
    if (std::is_same<S, float>::value)
        return pool_segment(lookup, table, bag, 0, table.dim, scale, reinterpret_cast<float*>(output));
    float sums[segment];
    for (int64_t from = 0; from < table.dim; from += segment) {
        const int64_t columns = table.dim - from < segment ? table.dim - from : segment;
        pool_segment(lookup, table, bag, from, columns, scale, sums);
        store(sums, columns, output + from);
    }
}

template <typename I, typename S>
void look_up(const Lookup& lookup, const I* ids, const int64_t* offsets, S* output) noexcept {
    const int64_t bags = lookup.features * lookup.batch;
    int64_t widest = 1;
    for (int64_t f = 0; f < lookup.features; ++f)
        widest = lookup.tables[f].dim > widest ? lookup.tables[f].dim : widest;
    const int64_t work = (offsets[bags] + bags) * widest;
    fb::parallel_for(0, bags, fb::serial_below * bags / (work + 1) + 1, fb::threads(work),
                     [&](int64_t begin, int64_t end) noexcept {
        for (int64_t at = begin; at < end; ++at) {
            const int64_t f = at / lookup.batch, b = at - f * lookup.batch;
            const Table& table = lookup.tables[f];
            const int64_t first = offsets[at], count = offsets[at + 1] - first;
            Bag<I> bag{table.bytes, table.row_bytes, ids + first, count, ids + offsets[(f + 1) * lookup.batch],
                       lookup.factors ? lookup.factors + first : nullptr};
            if (lookup.pooling != 2) {
                const float scale = lookup.pooling == 1 && count ? 1.0f / float(count) : 1.0f;
                pool_bag(lookup, table, bag, scale, output + b * lookup.row_width + table.column);
                continue;
            }
            bag.count = 1, bag.factors = nullptr;
            for (int64_t i = first; i < first + count; ++i, ++bag.ids)
                pool_bag(lookup, table, bag, 1.0f, output + i * lookup.row_width);
        }
    });
}

// Every index is a row of its table, or -1 for one that was pruned.
template <typename I>
bool indices_inside(fb::Call& call, const char* name, const Lookup& lookup, const I* ids,
                    const int64_t* offsets) noexcept {
    for (int64_t f = 0; f < lookup.features; ++f) {
        const int64_t begin = offsets[f * lookup.batch], end = offsets[(f + 1) * lookup.batch];
        int64_t low = 0, high = -1;
        for (int64_t i = begin; i < end; ++i) {
            const int64_t id = ids[i];
            low = id < low ? id : low, high = id > high ? id : high;
        }
        if (low >= -1 && high < lookup.tables[f].rows) continue;
        for (int64_t i = begin; i < end; ++i) {
            const int64_t id = ids[i];
            if (id >= -1 && id < lookup.tables[f].rows) continue;
            call.fail("%s: indices has %lld at %lld, for feature %lld whose table has %lld rows; expected 0 to %lld, or "
                      "-1 for a row that was pruned.",
                      name, (long long)id, (long long)i, (long long)f, (long long)lookup.tables[f].rows,
                      (long long)(lookup.tables[f].rows - 1));
            return false;
        }
    }
    return true;
}

// Memory for tables and offsets that lives as long as the call.
struct Workspace {
    Table* tables = nullptr;
    int64_t* offsets = nullptr;
    ~Workspace() { free(tables), free(offsets); }
};

struct Arguments {
    const fb::Tensor &dev_weights, &uvm_weights, &placements, &weights_offsets, &types, &columns, &indices, &offsets;
    int64_t total_width, pooling, output_type, row_alignment, exponent_bits, exponent_bias;
    const fb::OptionalTensor& factors;
};

bool arguments_fit(fb::Call& call, const char* name, const Arguments& given) noexcept {
    const int64_t features = given.types.numel(), bags = given.offsets.numel() - 1;
    if (given.dev_weights.dtype != fb::DType::UInt8 || given.uvm_weights.dtype != fb::DType::UInt8)
        return call.fail("%s: weights have dtypes %s and %s, expected bytes (uint8).", name,
                         fb::name(given.dev_weights.dtype), fb::name(given.uvm_weights.dtype)),
               false;
    const struct {
        const char* name;
        const fb::Tensor& tensor;
    } whole[] = {{"dev_weights", given.dev_weights}, {"uvm_weights", given.uvm_weights},
                 {"weights_placements", given.placements}, {"weights_offsets", given.weights_offsets},
                 {"weights_tys", given.types}, {"D_offsets", given.columns}};
    for (const auto& one : whole)
        if (!one.tensor.contiguous())
            return call.fail("%s: %s has gaps; give it `contiguous()`.", name, one.name), false;
    if (!index_vector(call, name, "indices", given.indices) || !index_vector(call, name, "offsets", given.offsets))
        return false;
    if (!index_vector(call, name, "D_offsets", given.columns) ||
        !index_vector(call, name, "weights_placements", given.placements) ||
        !index_vector(call, name, "weights_offsets", given.weights_offsets))
        return false;
    if (given.types.dtype != fb::DType::UInt8 || given.columns.numel() != features + 1 ||
        given.placements.numel() != features || given.weights_offsets.numel() != features)
        return call.fail("%s: weights_tys has %lld entries of %s, D_offsets %lld, weights_placements %lld and "
                         "weights_offsets %lld; expected one of uint8 for each feature, and one more of D_offsets.",
                         name, (long long)features, fb::name(given.types.dtype), (long long)given.columns.numel(),
                         (long long)given.placements.numel(), (long long)given.weights_offsets.numel()),
               false;
    if (features < 1 || bags < 0 || bags % features)
        return call.fail("%s: offsets has %lld entries for %lld features, expected features * batch + 1.", name,
                         (long long)(bags + 1), (long long)features),
               false;
    if (given.pooling < 0 || given.pooling > 2)
        return call.fail("%s: pooling_mode is %lld, expected 0 (sum), 1 (mean) or 2 (none).", name,
                         (long long)given.pooling),
               false;
    if (given.factors.defined() &&
        (given.factors.dtype != fb::DType::Float32 || given.factors.numel() != given.indices.numel()))
        return call.fail("%s: indice_weights has shape %s and dtype %s, expected (%lld,) of float32.", name,
                         fb::Shape(given.factors).text, fb::name(given.factors.dtype),
                         (long long)given.indices.numel()),
               false;
    const int64_t type = given.output_type;
    if (type != 0 && type != 1 && type != 2 && type != 5)
        return call.fail("%s: output_dtype is %lld, expected 0 (float32), 1 (float16), 2 (int8) or 5 (bfloat16).", name,
                         (long long)type),
               false;
    return true;
}

// Where each feature's table is, and how many rows it has: up to the next table in the same memory.
bool find_tables(fb::Call& call, const char* name, const Arguments& given, Lookup& lookup) noexcept {
    // Tables of the device, and of the host where the host looks rows up, are in one memory, managed ones in another.
    const auto managed = [](int64_t place) noexcept { return place == 1 || place == 2; };
    for (int64_t f = 0; f < lookup.features; ++f) {
        Table& table = lookup.tables[f];
        const int64_t place = index_at(given.placements, f), start = index_at(given.weights_offsets, f);
        const fb::Tensor& memory = managed(place) ? given.uvm_weights : given.dev_weights;
        table.type = SparseType(given.types.as<uint8_t>()[f]);
        const int64_t from = index_at(given.columns, f);
        table.dim = index_at(given.columns, f + 1) - from;
        if (table.dim < 0 || from < 0 || from + table.dim > given.total_width)
            return call.fail("%s: D_offsets has %lld after %lld, expected growing numbers up to total_D = %lld.", name,
                             (long long)(from + table.dim), (long long)from, (long long)given.total_width),
                   false;
        if (int64_t(table.type) > int64_t(SparseType::FP8))
            return call.fail("%s: weights_tys has %d for feature %lld, expected 0 to 6.", name, int(table.type),
                             (long long)f),
                   false;
        if (table.type == SparseType::FP8 && (given.exponent_bits < 1 || given.exponent_bits > 7 ||
                                              given.exponent_bias < 0 || given.exponent_bias > 253))
            return call.fail("%s: fp8_exponent_bits is %lld and fp8_exponent_bias %lld; tables of eight-bit floats need "
                             "1 to 7 bits and a bias of 0 to 253.",
                             name, (long long)given.exponent_bits, (long long)given.exponent_bias),
                   false;
        const int64_t alignment = given.row_alignment > 0 ? given.row_alignment : 1;
        table.row_bytes = (unpadded_bytes(table.type, table.dim) + alignment - 1) / alignment * alignment;
        int64_t end = memory.numel();
        for (int64_t g = 0; g < lookup.features; ++g) {
            const int64_t other = index_at(given.weights_offsets, g);
            const bool same = managed(index_at(given.placements, g)) == managed(place);
            if (same && other > start && other < end) end = other;
        }
        if (start < 0 || start > end)
            return call.fail("%s: weights_offsets has %lld for feature %lld, expected 0 to the %lld bytes of weights.",
                             name, (long long)start, (long long)f, (long long)memory.numel()),
                   false;
        table.rows = table.row_bytes ? (end - start) / table.row_bytes : 0;
        table.bytes = memory.as<uint8_t>() + start;
        table.column = from + (given.output_type == 2 ? 8 * f : 0);
        if (given.output_type == 2 && table.type != SparseType::INT8)
            return call.fail("%s: output_dtype is int8, expected tables of int8 alone; feature %lld reads another. Choose "
                             "a floating output_dtype.",
                             name, (long long)f),
                   false;
        if (given.pooling == 2 && table.dim != lookup.tables[0].dim)
            return call.fail("%s: without pooling all tables are equally wide; feature %lld has %lld columns, the first "
                             "%lld.",
                             name, (long long)f, (long long)table.dim, (long long)lookup.tables[0].dim),
                   false;
    }
    return true;
}

// Eight-bit rows of pooled numbers: each feature's with a scale and a bias behind them.
FB_CLONES void quantize_row(const float* row, int64_t width, uint8_t* output) noexcept {
    float low, high;
    find_range(row, width, low, high);
    const float range = high - low, inverse = 255.0f / (range + 1e-8f);
    for (int64_t i = 0; i < width; ++i) output[i] = uint8_t(rounded((row[i] - low) * inverse, 255.0f));
    write(output + width, range / 255.0f);
    write(output + width + 4, low);
}

// Rows as they are, with scale and bias; zeros for those that were pruned.
template <typename I>
void copy_rows(const Lookup& lookup, const I* ids, const int64_t* offsets, uint8_t* output) noexcept {
    for (int64_t f = 0; f < lookup.features; ++f) {
        const Table& table = lookup.tables[f];
        const int64_t first = offsets[f * lookup.batch], count = offsets[(f + 1) * lookup.batch] - first;
        const size_t size = size_t(table.dim + 4);
        fb::parallel_for(first, first + count, fb::serial_below / table.row_bytes + 1,
                         fb::threads(count * table.row_bytes), [&](int64_t begin, int64_t end) noexcept {
                             for (int64_t i = begin; i < end; ++i) {
                                 uint8_t* to = output + i * lookup.row_width;
                                 if (ids[i] < 0)
                                     memset(to, 0, size);
                                 else
                                     memcpy(to, table.bytes + int64_t(ids[i]) * table.row_bytes, size);
                             }
                         });
    }
}

template <typename I>
void give_output(fb::Call& call, const Arguments& given, const Lookup& lookup, const I* ids,
                 const int64_t* offsets) noexcept {
    const bool bytes = given.output_type == 2;
    const int64_t rows = lookup.pooling == 2 ? offsets[lookup.features * lookup.batch] : lookup.batch;
    const fb::DType dtypes[] = {fb::DType::Float32, fb::DType::Float16, fb::DType::UInt8, fb::DType::Other,
                                fb::DType::Other,   fb::DType::BFloat16};
    fb::Tensor output = call.empty(dtypes[given.output_type], {rows, lookup.row_width});
    if (!output.defined()) return;
    if (given.output_type == 0) look_up(lookup, ids, offsets, output.as<float>());
    if (given.output_type == 1) look_up(lookup, ids, offsets, output.as<fb::Half>());
    if (given.output_type == 5) look_up(lookup, ids, offsets, output.as<fb::BFloat16>());
    if (bytes && lookup.pooling == 2) {
        copy_rows(lookup, ids, offsets, output.as<uint8_t>());
    } else if (bytes) {
        // Rounding needs to know all numbers of a row.
        fb::Tensor sums = call.empty(fb::DType::Float32, {rows, lookup.row_width});
        if (!sums.defined()) return;
        look_up(lookup, ids, offsets, sums.as<float>());
        fb::parallel_for(0, rows, fb::serial_below / (lookup.row_width + 1) + 1, fb::threads(rows * lookup.row_width),
                         [&](int64_t begin, int64_t end) noexcept {
                             for (int64_t row = begin; row < end; ++row)
                                 for (int64_t f = 0; f < lookup.features; ++f) {
                                     const Table& table = lookup.tables[f];
                                     const int64_t at = row * lookup.row_width + table.column;
                                     quantize_row(sums.as<float>() + at, table.dim, output.as<uint8_t>() + at);
                                 }
                         });
    }
    call.give(output);
}

void pool(fb::Call& call, const char* name, const Arguments& given) noexcept {
    if (!arguments_fit(call, name, given)) return;
    const fb::Tensor indices = call.contiguous(given.indices);
    if (!indices.defined()) return;
    Lookup lookup{};
    lookup.features = given.types.numel();
    const int64_t bags = given.offsets.numel() - 1;
    lookup.batch = bags / lookup.features;
    lookup.pooling = given.pooling;
    lookup.float8 = float8_format(given.exponent_bits, given.exponent_bias);
    Workspace space;
    space.tables = lookup.tables = static_cast<Table*>(malloc(size_t(lookup.features) * sizeof(Table)));
    space.offsets = static_cast<int64_t*>(malloc(size_t(bags + 1) * sizeof(int64_t)));
    if (!space.tables || !space.offsets) return call.fail("%s: no memory left for %lld bags", name, (long long)bags);
    if (!find_tables(call, name, given, lookup)) return;
    const int64_t extra = given.output_type != 2 ? 0 : given.pooling == 2 ? 4 : 8;
    lookup.row_width = given.pooling == 2 ? lookup.tables[0].dim + extra : given.total_width + extra * lookup.features;
    const int64_t step = given.offsets.strides[0];
    for (int64_t i = 0; i <= bags; ++i) {
        space.offsets[i] = index_at(given.offsets, i * step);
        if (space.offsets[i] < (i ? space.offsets[i - 1] : 0) || space.offsets[i] > indices.numel() || (!i && space.offsets[0]))
            return call.fail("%s: offsets has %lld at %lld, expected growing numbers from 0 to the %lld indices.", name,
                             (long long)space.offsets[i], (long long)i, (long long)indices.numel());
    }
    if (given.pooling == 2 && space.offsets[bags] != indices.numel())
        return call.fail("%s: offsets ends at %lld, expected the %lld indices.", name, (long long)space.offsets[bags],
                         (long long)indices.numel());
    if (given.factors.defined() && !given.factors.contiguous())
        return call.fail("%s: indice_weights has gaps; give it `contiguous()`.", name);
    if (given.factors.defined()) lookup.factors = given.factors.as<float>();
    with_indices(indices, [&](const auto* ids) noexcept {
        if (indices_inside(call, name, lookup, ids, space.offsets)) give_output(call, given, lookup, ids, space.offsets);
    });
}

void look_up_tables(fb::Call& call, const fb::Tensor& dev_weights, const fb::Tensor& uvm_weights,
                    const fb::Tensor& placements, const fb::Tensor& weights_offsets, const fb::Tensor& types,
                    const fb::Tensor& columns, int64_t total_width, int64_t, int64_t, int64_t, int64_t, int64_t,
                    const fb::Tensor& indices, const fb::Tensor& offsets, int64_t pooling,
                    const fb::OptionalTensor& factors, int64_t output_type, const fb::OptionalTensor&,
                    const fb::OptionalTensor&, const fb::OptionalInt& row_alignment, const fb::OptionalInt&,
                    const fb::OptionalInt& exponent_bits, const fb::OptionalInt& exponent_bias) noexcept {
    pool(call, "int_nbit_split_embedding_codegen_lookup_function",
         {dev_weights, uvm_weights, placements, weights_offsets, types, columns, indices, offsets, total_width, pooling,
          output_type, row_alignment.given ? row_alignment.value : 1, exponent_bits.given ? exponent_bits.value : -1,
          exponent_bias.given ? exponent_bias.value : -1, factors});
}

FB_OPERATOR("int_nbit_split_embedding_codegen_lookup_function", look_up_tables);

}  // namespace
}  // namespace rec
