// The kernels of a small third-party plugin, as its author would write them.

#include <flambeau/kernel.h>

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

FB_CLONES static void multiply(const float* input, int64_t stride, int64_t begin, int64_t end, float factor,
                               float* output) {
    for (int64_t i = begin; i < end; ++i) output[i] = input[i * stride] * factor;
}

// output[i] = input[i * stride] * factor
FB_EXPORT int32_t fb_scale_f32(const float* input, int64_t stride, int64_t count, double factor, float* output,
                               int32_t nthreads) noexcept {
    fb::parallel_for(0, count, 1024, nthreads, [&](int64_t begin, int64_t end) noexcept {
        multiply(input, stride, begin, end, float(factor), output);
    });
    return 0;
}

// Which threads work: writes the system's number of the thread that took each item.
FB_EXPORT void fb_workers(int64_t* thread, int64_t count, int32_t nthreads) noexcept {
    fb::parallel_for(0, count, 1, nthreads, [&](int64_t begin, int64_t end) noexcept {
        for (int64_t i = begin; i < end; ++i) {
#if defined(__linux__)
            thread[i] = syscall(SYS_gettid);
#else
            thread[i] = 0;
#endif
        }
    });
}

static bool is_vector(fb::Call& call, const char* op, const fb::Tensor& input) noexcept {
    if (input.dtype == fb::DType::Float32 && input.dim == 1) return true;
    call.fail("%s: input is %s of shape %s, expected a vector of torch.float32; convert it.", op,
              fb::name(input.dtype), fb::Shape(input).text);
    return false;
}

static void scale(fb::Call& call, const fb::Tensor& input, double factor) noexcept {
    if (!is_vector(call, "scale", input)) return;
    fb::Tensor output = call.empty(fb::DType::Float32, input.sizes, input.dim);
    if (!output.defined()) return;
    fb_scale_f32(input.as<float>(), input.strides[0], input.sizes[0], factor, output.as<float>(),
                 fb::threads(input.numel()));
    call.give(output);
}
FB_OPERATOR("scale", scale);

// Every type of argument, and two results: the first `count` items, negated or not, and how many that are.
static void head(fb::Call& call, const fb::Tensor& input, int64_t count, bool negate) noexcept {
    if (!is_vector(call, "head", input)) return;
    if (count < 0 || count > input.sizes[0])
        return call.fail("head: count is %lld, expected 0 to %lld.", static_cast<long long>(count),
                         static_cast<long long>(input.sizes[0]));
    fb::Tensor items = call.empty(fb::DType::Float32, {count});
    if (!items.defined()) return;
    fb_scale_f32(input.as<float>(), input.strides[0], count, negate ? -1 : 1, items.as<float>(), 1);
    call.give(items);
    fb::Tensor number = call.empty(fb::DType::Int64, nullptr, 0);
    if (!number.defined()) return;
    *number.as<int64_t>() = count;
    call.give(number);
}
FB_OPERATOR("head", head);

// A copy without gaps, of any shape.
static void pack(fb::Call& call, const fb::Tensor& input) noexcept {
    const fb::Tensor packed = call.contiguous(input);
    if (!packed.defined()) return;
    fb::Tensor output = call.empty(packed.dtype, packed.sizes, packed.dim);
    if (!output.defined()) return;
    for (int64_t i = 0; i < packed.numel(); ++i) output.as<double>()[i] = packed.as<double>()[i];
    call.give(output);
}
FB_OPERATOR("pack", pack);

// Gives fewer results than its schema promises.
static void forgetful(fb::Call&, const fb::Tensor&) noexcept {}
FB_OPERATOR("forgetful", forgetful);

// Optional arguments and results: input * weight (or * 1), and the first `count` of its items where a count is given.
static void weigh(fb::Call& call, const fb::Tensor& input, const fb::OptionalTensor& weight,
                  const fb::OptionalInt& count) noexcept {
    if (!is_vector(call, "weigh", input)) return;
    if (weight.defined() && weight.sizes[0] != input.sizes[0])
        return call.fail("weigh: weight has shape %s.", fb::Shape(weight).text);
    fb::Tensor whole = call.empty(fb::DType::Float32, input.sizes, input.dim);
    if (!whole.defined()) return;
    for (int64_t i = 0; i < input.sizes[0]; ++i)
        whole.as<float>()[i] = input.as<float>()[i * input.strides[0]] * (weight.defined() ? weight.as<float>()[i] : 1);
    call.give(whole);
    if (!count.given) return call.give_none();
    fb::Tensor first = call.empty(fb::DType::Float32, {count.value});
    if (!first.defined()) return;
    for (int64_t i = 0; i < count.value; ++i) first.as<float>()[i] = whole.as<float>()[i];
    call.give_optional(first);
}
FB_OPERATOR("weigh", weigh);
