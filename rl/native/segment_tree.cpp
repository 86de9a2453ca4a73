// Segment trees: sums or minima over ranges of an array whose entries change, each in logarithmic time.

#include <flambeau/kernel.h>

namespace rl {
namespace {

// A tree of `leaves` (a power of two) entries is an array of 2 * leaves numbers: node 1 is the root, the children of
// node i are 2i and 2i + 1, entry i of the array is node leaves + i. Node 0 is not used.
template <typename T>
T joined(T a, T b, bool minimum) noexcept {
    return minimum ? (b < a ? b : a) : a + b;
}

// Why a tensor is no tree, which tensors of entries must not be used with.
bool is_tree(fb::Call& call, const char* op, const fb::Tensor& tree) noexcept {
    const int64_t count = tree.dim == 1 ? tree.sizes[0] : 0;
    if (count < 2 || (count & (count - 1)) != 0 || !tree.contiguous()) {
        call.fail("%s: tree has shape %s, expected (2 * leaves,) without gaps, leaves a power of two.", op,
                  fb::Shape(tree).text);
        return false;
    }
    if (tree.dtype != fb::DType::Float32 && tree.dtype != fb::DType::Float64) {
        call.fail("%s: tree has dtype %s, expected float32 or float64.", op, fb::name(tree.dtype));
        return false;
    }
    return true;
}

bool is_index(fb::Call& call, const char* op, const char* what, const fb::Tensor& index) noexcept {
    if (index.dtype == fb::DType::Int64) return true;
    call.fail("%s: %s has dtype %s, expected int64.", op, what, fb::name(index.dtype));
    return false;
}

bool same_count(fb::Call& call, const char* op, const char* names, const fb::Tensor& a, const fb::Tensor& b) noexcept {
    if (a.numel() == b.numel()) return true;
    call.fail("%s: %s have shapes %s and %s, expected the same number of elements.", op, names, fb::Shape(a).text,
              fb::Shape(b).text);
    return false;
}

// All leaves first, then each level once from the left to the right of what was written, where the entries lie
// together; else the path of each.
template <typename T>
void write(T* tree, int64_t leaves, const int64_t* index, const T* values, int64_t count, bool minimum) noexcept {
    bool run = count > 1;
    for (int64_t i = 1; run && i < count; ++i) run = index[i] == index[i - 1] + 1;
    if (run) {
        int64_t from = leaves + index[0], to = leaves + index[count - 1];
        for (int64_t i = 0; i < count; ++i) tree[from + i] = values[i];
        for (from >>= 1, to >>= 1; from >= 1; from >>= 1, to >>= 1)
            for (int64_t node = from; node <= to; ++node)
                tree[node] = joined(tree[2 * node], tree[2 * node + 1], minimum);
        return;
    }
    for (int64_t i = 0; i < count; ++i) {
        int64_t node = leaves + index[i];
        tree[node] = values[i];
        for (node >>= 1; node >= 1; node >>= 1) tree[node] = joined(tree[2 * node], tree[2 * node + 1], minimum);
    }
}

void segment_tree_write(fb::Call& call, const fb::Tensor& tree, const fb::Tensor& given_index,
                        const fb::Tensor& given_values, bool minimum) noexcept {
    const char* op = "segment_tree_write";
    if (!is_tree(call, op, tree) || !is_index(call, op, "index", given_index) ||
        !same_count(call, op, "index and values", given_index, given_values))
        return;
    if (given_values.dtype != tree.dtype)
        return call.fail("%s: values have dtype %s, expected %s as the tree.", op, fb::name(given_values.dtype),
                         fb::name(tree.dtype));
    const fb::Tensor index = call.contiguous(given_index);
    const fb::Tensor values = call.contiguous(given_values);
    if (!index.defined() || !values.defined()) return;
    const int64_t leaves = tree.sizes[0] / 2, count = index.numel();
    for (int64_t i = 0; i < count; ++i)
        if (const int64_t at = index.as<int64_t>()[i]; at < 0 || at >= leaves)
            return call.fail("%s: index has %lld, expected 0 to %lld.", op, static_cast<long long>(at),
                             static_cast<long long>(leaves - 1));
    if (tree.dtype == fb::DType::Float32)
        write(tree.as<float>(), leaves, index.as<int64_t>(), values.as<float>(), count, minimum);
    else
        write(tree.as<double>(), leaves, index.as<int64_t>(), values.as<double>(), count, minimum);
}

template <typename T>
void query(const T* tree, int64_t leaves, const int64_t* from, const int64_t* to, int64_t count, T identity,
           bool minimum, T* results) noexcept {
    for (int64_t i = 0; i < count; ++i) {
        int64_t left = leaves + from[i], right = leaves + to[i];
        T low = identity, high = identity;
        for (; left < right; left >>= 1, right >>= 1) {
            if (left & 1) low = joined(low, tree[left++], minimum);
            if (right & 1) high = joined(tree[--right], high, minimum);
        }
        results[i] = joined(low, high, minimum);
    }
}

void segment_tree_query(fb::Call& call, const fb::Tensor& tree, const fb::Tensor& given_from,
                        const fb::Tensor& given_to, double identity, bool minimum) noexcept {
    const char* op = "segment_tree_query";
    if (!is_tree(call, op, tree) || !is_index(call, op, "left", given_from) ||
        !is_index(call, op, "right", given_to) || !same_count(call, op, "left and right", given_from, given_to))
        return;
    const fb::Tensor from = call.contiguous(given_from);
    const fb::Tensor to = call.contiguous(given_to);
    if (!from.defined() || !to.defined()) return;
    const int64_t leaves = tree.sizes[0] / 2, count = from.numel();
    for (int64_t i = 0; i < count; ++i) {
        const int64_t left = from.as<int64_t>()[i], right = to.as<int64_t>()[i];
        if (left < 0 || left > right || right > leaves)
            return call.fail("%s: a range from %lld to %lld, expected 0 <= left <= right <= %lld.", op,
                             static_cast<long long>(left), static_cast<long long>(right),
                             static_cast<long long>(leaves));
    }
    fb::Tensor results = call.empty(tree.dtype, from.sizes, from.dim);
    if (!results.defined()) return;
    if (tree.dtype == fb::DType::Float32)
        query(tree.as<float>(), leaves, from.as<int64_t>(), to.as<int64_t>(), count, float(identity), minimum,
              results.as<float>());
    else
        query(tree.as<double>(), leaves, from.as<int64_t>(), to.as<int64_t>(), count, identity, minimum,
              results.as<double>());
    call.give(results);
}

template <typename T>
void find(const T* tree, int64_t leaves, const T* masses, int64_t count, int64_t size, int64_t* results) noexcept {
    for (int64_t i = 0; i < count; ++i) {
        T mass = masses[i];
        if (mass > tree[1]) {
            results[i] = size;
            continue;
        }
        int64_t node = 1;
        while (node < leaves) {
            node *= 2;
            // What rounding leaves over at the right end belongs to the last entry that has any mass.
            if (mass > tree[node] && tree[node + 1] > T(0)) mass -= tree[node++];
        }
        results[i] = node - leaves;
    }
}

void segment_tree_find(fb::Call& call, const fb::Tensor& tree, const fb::Tensor& given_masses,
                       int64_t size) noexcept {
    const char* op = "segment_tree_find";
    if (!is_tree(call, op, tree)) return;
    if (given_masses.dtype != tree.dtype)
        return call.fail("%s: masses have dtype %s, expected %s as the tree.", op, fb::name(given_masses.dtype),
                         fb::name(tree.dtype));
    const fb::Tensor masses = call.contiguous(given_masses);
    if (!masses.defined()) return;
    fb::Tensor results = call.empty(fb::DType::Int64, masses.sizes, masses.dim);
    if (!results.defined()) return;
    const int64_t leaves = tree.sizes[0] / 2, count = masses.numel();
    if (tree.dtype == fb::DType::Float32)
        find(tree.as<float>(), leaves, masses.as<float>(), count, size, results.as<int64_t>());
    else
        find(tree.as<double>(), leaves, masses.as<double>(), count, size, results.as<int64_t>());
    call.give(results);
}

FB_OPERATOR("segment_tree_write", segment_tree_write);
FB_OPERATOR("segment_tree_query", segment_tree_query);
FB_OPERATOR("segment_tree_find", segment_tree_find);

}  // namespace
}  // namespace rl
