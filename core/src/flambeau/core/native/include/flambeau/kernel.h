// What a library of Flambeau kernels includes: exports, SIMD clones, threads, and operators for torch's dispatcher.
//
// C++17, and nothing but the C library at run time: neither torch nor OpenMP is linked. Both are found in the running
// process by `fb_bind`, through libtorch's C interface, which is stable from torch 2.8 on. One binary therefore serves
// every torch version, and also loads where there is none.
//
// A library offers each kernel twice:
//
//   * as a plain C function, `FB_EXPORT int64_t fb_scale_f32(const float* input, ...)`: pointers, int64 sizes and
//     strides in elements, the number of threads, a status. No exception crosses it. ctypes calls it; so can any C.
//   * as an operator that torch's dispatcher calls without Python:
//
//         static void scale(fb::Call& call, const fb::Tensor& input, double factor) noexcept {
//             if (input.dtype != fb::DType::Float32) return call.fail("scale: input is %s, ...", fb::name(input.dtype));
//             fb::Tensor output = call.empty(fb::DType::Float32, input.sizes, input.dim);
//             if (!output.defined()) return;  // out of memory; `call` already says so
//             fb_scale_f32(...);
//             call.give(output);
//         }
//         FB_OPERATOR("scale", scale);
//
// The schema, the shape-only twin and the gradient are registered in Python by `flambeau.core.native.register_op`.

#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <initializer_list>
#include <type_traits>
#include <utility>

#if defined(_WIN32)
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>
#else
#include <dlfcn.h>
#include <unistd.h>
#endif
#if defined(__linux__)
#include <sys/mman.h>
#endif

// Raised when what Python expects of a library changes; Python refuses a library with another number.
#define FB_ABI 1

#if defined(_WIN32)
#define FB_VISIBLE __declspec(dllexport)
#define FB_USED
#else
#define FB_VISIBLE __attribute__((visibility("default")))
#define FB_USED __attribute__((used))
#endif

// A function of the library's plain C interface.
#define FB_EXPORT extern "C" FB_VISIBLE

// Compile a function for several instruction sets and choose when the library is loaded. For plain functions around
// small loops, not for templates. Empty where the loader cannot choose: musl has no ifunc, other compilers no clones.
#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__) && \
    ((defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12) || (defined(__clang__) && __clang_major__ >= 17))
#define FB_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define FB_CLONES
#endif

// For the templates that cloned functions share: they must be compiled into each clone.
#if defined(_MSC_VER)
#define FB_INLINE __forceinline
#else
#define FB_INLINE inline __attribute__((always_inline))
#endif

#if !defined(_WIN32)
#pragma GCC visibility push(hidden)
#endif

namespace fb {

// ---------------------------------------------------------------------------------------------------------------
// libtorch, as found in the process

using Slot = uint64_t;                        // one argument or result of a boxed call
using Handle = struct AtenTensorOpaque*;      // a reference to a tensor, owned by whoever holds it
using Library = struct TorchLibraryOpaque*;   // a set of registrations; they live as long as it does
using Boxed = void (*)(Slot* stack, uint64_t arguments, uint64_t results);
using Range = void (*)(int64_t begin, int64_t end, void* context) noexcept;
using Status = int32_t;                       // 0 is success

enum class DType : int32_t {
    Other = -1,
    Bool, UInt8, UInt16, UInt32, UInt64, Int8, Int16, Int32, Int64,
    Float16, BFloat16, Float32, Float64, Complex32, Complex64, Complex128,
    Count,
};

struct DTypeName {
    const char* symbol;  // of the C function that returns torch's number for it
    const char* text;
};

inline constexpr DTypeName dtype_names[] = {
    {"aoti_torch_dtype_bool", "torch.bool"},           {"aoti_torch_dtype_uint8", "torch.uint8"},
    {"aoti_torch_dtype_uint16", "torch.uint16"},       {"aoti_torch_dtype_uint32", "torch.uint32"},
    {"aoti_torch_dtype_uint64", "torch.uint64"},       {"aoti_torch_dtype_int8", "torch.int8"},
    {"aoti_torch_dtype_int16", "torch.int16"},         {"aoti_torch_dtype_int32", "torch.int32"},
    {"aoti_torch_dtype_int64", "torch.int64"},         {"aoti_torch_dtype_float16", "torch.float16"},
    {"aoti_torch_dtype_bfloat16", "torch.bfloat16"},   {"aoti_torch_dtype_float32", "torch.float32"},
    {"aoti_torch_dtype_float64", "torch.float64"},     {"aoti_torch_dtype_complex32", "torch.complex32"},
    {"aoti_torch_dtype_complex64", "torch.complex64"}, {"aoti_torch_dtype_complex128", "torch.complex128"},
};
static_assert(sizeof(dtype_names) / sizeof(DTypeName) == size_t(DType::Count), "one name per dtype");

inline constexpr int64_t dtype_bytes[] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 4, 8, 16};

inline const char* name(DType dtype) noexcept {
    return dtype == DType::Other ? "another dtype" : dtype_names[int32_t(dtype)].text;
}

// Every function of libtorch that this header uses. All but `check` report failure by their result.
struct Torch {
    Status (*data)(Handle, void**) noexcept;
    Status (*dim)(Handle, int64_t*) noexcept;
    Status (*sizes)(Handle, int64_t**) noexcept;
    Status (*strides)(Handle, int64_t**) noexcept;
    Status (*dtype)(Handle, int32_t*) noexcept;
    Status (*empty)(int64_t, const int64_t*, const int64_t*, int32_t, int32_t, int32_t, Handle*) noexcept;
    Status (*share)(Handle, Handle*) noexcept;
    Status (*copy)(Handle, Handle, int32_t) noexcept;
    Status (*release)(Handle) noexcept;
    Status (*open)(const char*, const char*, const char*, uint32_t, Library*) noexcept;
    Status (*close)(Library) noexcept;
    Status (*implement)(Library, const char*, Boxed) noexcept;
    int32_t (*cpu)() noexcept;
    void (*check)(bool, const char*, const char*, uint32_t, const char*);  // throws torch's own exception

    // What torch's own `new` and `delete` are: a slot of an optional value is passed in memory of theirs.
    void* (*allocate)(size_t) noexcept;
    void (*deallocate)(void*) noexcept;

    // Threads. torch 2.10 and later:
    Status (*parallel_for)(int64_t, int64_t, int64_t, Range, void*) noexcept;
    Status (*num_threads)(uint32_t*) noexcept;
    // before: the OpenMP runtime that libtorch itself is linked with.
    void (*omp_parallel)(void (*)(void*), void*, unsigned, unsigned) noexcept;
    int (*omp_thread)() noexcept;
    int (*omp_team)() noexcept;
    int (*omp_max_threads)() noexcept;
    int (*omp_nested)() noexcept;

    int32_t dtypes[size_t(DType::Count)];  // torch's numbers
    int64_t process;                       // that bound it
};

inline Torch torch{};

inline int64_t process_id() noexcept {
#if defined(_WIN32)
    return 0;  // nothing forks there
#else
    return getpid();
#endif
}

// libtorch_cpu by its path, or by its bare name, if and only if the process has it loaded.
inline void* find_libtorch(const char* path) noexcept {
#if defined(_WIN32)
    return reinterpret_cast<void*>(GetModuleHandleA("torch_cpu.dll"));
#else
    void* handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    return handle ? handle : dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
#endif
}

template <typename Function>
inline bool resolve(void* library, const char* symbol, Function& function) noexcept {
#if defined(_WIN32)
    void* address = reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(library), symbol));
#else
    void* address = dlsym(library, symbol);
#endif
    function = reinterpret_cast<Function>(address);
    return address != nullptr;
}

inline bool bind_dtypes(void* library) noexcept {
    for (size_t i = 0; i < size_t(DType::Count); ++i) {
        int32_t (*number)() noexcept;
        if (!resolve(library, dtype_names[i].symbol, number)) return false;
        torch.dtypes[i] = number();
    }
    return true;
}

inline bool bind_memory(void* library) noexcept {
#if defined(_WIN32)
    (void)library;
    torch.allocate = [](size_t bytes) noexcept { return malloc(bytes); };  // the C runtime is the process's one
    torch.deallocate = [](void* memory) noexcept { free(memory); };
    return true;
#else
    return resolve(library, "_Znwm", torch.allocate) && resolve(library, "_ZdlPv", torch.deallocate);
#endif
}

inline bool bind_operators(void* library) noexcept {
    return bind_memory(library) && resolve(library, "aoti_torch_get_data_ptr", torch.data) &&
           resolve(library, "aoti_torch_get_dim", torch.dim) &&
           resolve(library, "aoti_torch_get_sizes", torch.sizes) &&
           resolve(library, "aoti_torch_get_strides", torch.strides) &&
           resolve(library, "aoti_torch_get_dtype", torch.dtype) &&
           resolve(library, "aoti_torch_empty_strided", torch.empty) &&
           resolve(library, "aoti_torch_new_tensor_handle", torch.share) &&
           resolve(library, "aoti_torch_copy_", torch.copy) &&
           resolve(library, "aoti_torch_delete_tensor_object", torch.release) &&
           resolve(library, "aoti_torch_library_init_impl", torch.open) &&
           resolve(library, "aoti_torch_delete_library_object", torch.close) &&
           resolve(library, "aoti_torch_library_impl", torch.implement) &&
           resolve(library, "aoti_torch_device_type_cpu", torch.cpu) &&
           resolve(library, "aoti_torch_check", torch.check) && bind_dtypes(library);
}

inline bool bind_torch_threads(void* library) noexcept {
    return resolve(library, "torch_parallel_for", torch.parallel_for) &&
           resolve(library, "torch_get_num_threads", torch.num_threads);
}

inline bool bind_openmp(void* library) noexcept {
#if defined(__linux__)
    // Looked up through libtorch's own handle: a process may hold several OpenMP runtimes, and torch's pool is in one.
    return resolve(library, "GOMP_parallel", torch.omp_parallel) &&
           resolve(library, "omp_get_thread_num", torch.omp_thread) &&
           resolve(library, "omp_get_num_threads", torch.omp_team) &&
           resolve(library, "omp_get_max_threads", torch.omp_max_threads) &&
           resolve(library, "omp_in_parallel", torch.omp_nested);
#else
    (void)library;
    return false;
#endif
}

enum Bound : int32_t { Operators = 1, TorchThreads = 2, OpenMPThreads = 4 };

// ---------------------------------------------------------------------------------------------------------------
// Threads

// Below this many elementary operations, waking other threads costs more than it saves.
inline constexpr int64_t serial_below = 32768;

// How many threads a kernel of so many elementary operations should use. Never more than torch may.
inline int32_t threads(int64_t operations) noexcept {
    if (operations < serial_below) return 1;
    uint32_t count = 1;
    if (torch.num_threads && torch.num_threads(&count) == 0) return int32_t(count);
    return torch.omp_max_threads ? torch.omp_max_threads() : 1;
}

struct Team {
    int64_t begin, end;
    Range body;
    void* context;
};

inline void run_share(void* pointer) noexcept {
    const Team& team = *static_cast<const Team*>(pointer);
    const int64_t size = torch.omp_team(), rank = torch.omp_thread();
    const int64_t share = (team.end - team.begin + size - 1) / size;
    const int64_t begin = team.begin + rank * share;
    const int64_t end = begin + share < team.end ? begin + share : team.end;
    if (begin < end) team.body(begin, end, team.context);
}

}  // namespace fb

// Calls `body(b, e, context)` over [begin, end) cut into at most `nthreads` pieces of at least `grain`, on torch's own
// threads; serially when there are none, inside another parallel region, and in a forked child: the pool did not
// survive the fork, and a region opened there would wait for ever. `body` must not throw.
static inline void fb_parallel_for(int64_t begin, int64_t end, int64_t grain, int32_t nthreads, fb::Range body,
                                   void* context) noexcept {
    using namespace fb;
    if (begin >= end) return;
    const int64_t count = end - begin;
    if (grain < 1) grain = 1;
    int64_t pieces = (count + grain - 1) / grain;
    if (pieces > nthreads) pieces = nthreads;
    if (pieces > 1 && process_id() == torch.process) {
        if (torch.parallel_for) {
            // torch cuts by its own number of threads: a larger grain keeps it to ours.
            if (torch.parallel_for(begin, end, (count + pieces - 1) / pieces, body, context) == 0) return;
        } else if (torch.omp_parallel && !torch.omp_nested()) {
            Team team{begin, end, body, context};
            torch.omp_parallel(run_share, &team, unsigned(pieces), 0);
            return;
        }
    }
    body(begin, end, context);
}

namespace fb {

// The same for anything callable as `body(begin, end) noexcept`.
template <typename Body>
inline void parallel_for(int64_t begin, int64_t end, int64_t grain, int32_t nthreads, const Body& body) noexcept {
    static_assert(noexcept(body(begin, end)), "an exception must not reach torch's threads: write `noexcept`");
    fb_parallel_for(
        begin, end, grain, nthreads,
        [](int64_t b, int64_t e, void* context) noexcept { (*static_cast<const Body*>(context))(b, e); },
        const_cast<void*>(static_cast<const void*>(&body)));
}

// ---------------------------------------------------------------------------------------------------------------
// Operators

// A dense CPU tensor. It owns its reference; `data`, `sizes` and `strides` are valid as long as it lives.
class Tensor {
  public:
    Tensor() noexcept = default;
    explicit Tensor(Handle handle) noexcept : handle_(handle) {
        int32_t number = -1;
        int64_t* shape = nullptr;
        int64_t* steps = nullptr;
        torch.data(handle, &data);
        torch.dim(handle, &dim);
        torch.sizes(handle, &shape);
        torch.strides(handle, &steps);
        torch.dtype(handle, &number);
        sizes = shape;
        strides = steps;
        for (int32_t i = 0; i < int32_t(DType::Count); ++i)
            if (torch.dtypes[i] == number) dtype = DType(i);
    }
    Tensor(const Tensor&) = delete;
    Tensor& operator=(const Tensor&) = delete;
    Tensor(Tensor&& other) noexcept
        : data(other.data), sizes(other.sizes), strides(other.strides), dim(other.dim), dtype(other.dtype),
          handle_(other.detach()) {}
    ~Tensor() {
        if (handle_) torch.release(handle_);
    }

    bool defined() const noexcept { return handle_ != nullptr; }
    int64_t numel() const noexcept {
        int64_t count = 1;
        for (int64_t i = 0; i < dim; ++i) count *= sizes[i];
        return count;
    }
    bool contiguous() const noexcept {
        for (int64_t i = dim, step = 1; i-- > 0; step *= sizes[i])
            if (sizes[i] != 1 && strides[i] != step) return numel() == 0;
        return true;
    }
    template <typename T>
    T* as() const noexcept {
        return static_cast<T*>(data);
    }
    Handle handle() const noexcept { return handle_; }  // borrowed
    Handle detach() noexcept {
        Handle handle = handle_;
        handle_ = nullptr;
        return handle;
    }

    void* data = nullptr;
    const int64_t* sizes = nullptr;
    const int64_t* strides = nullptr;  // in elements
    int64_t dim = 0;
    DType dtype = DType::Other;

  private:
    Handle handle_ = nullptr;
};

// An argument or result `Tensor?`: not `defined()` where it is None.
struct OptionalTensor : Tensor {
    OptionalTensor() noexcept = default;
    explicit OptionalTensor(Tensor&& tensor) noexcept : Tensor(static_cast<Tensor&&>(tensor)) {}
};

// An argument `int?` or `SymInt?`.
struct OptionalInt {
    bool given;
    int64_t value;
};

// A tensor's shape in words, as Python prints it: "(3, 4)", "(3,)".
struct Shape {
    explicit Shape(const Tensor& tensor) noexcept {
        size_t used = size_t(snprintf(text, sizeof text, "("));
        for (int64_t i = 0; i < tensor.dim && used < sizeof text; ++i)
            used += size_t(snprintf(text + used, sizeof text - used, i ? ", %lld" : "%lld",
                                    static_cast<long long>(tensor.sizes[i])));
        if (used < sizeof text) snprintf(text + used, sizeof text - used, tensor.dim == 1 ? ",)" : ")");
    }
    char text[96];
};

// One call of an operator: where its results and its complaint go.
class Call {
  public:
    static constexpr int most_results = 8;

    // The call ends with this message, as a RuntimeError. printf's format.
#if !defined(_MSC_VER)
    __attribute__((format(printf, 2, 3)))
#endif
    void fail(const char* format, ...) noexcept {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(text_, sizeof text_, format, arguments);
        va_end(arguments);
        failed_ = true;
    }

    // Fresh memory comes in pages of 4 KiB, each of which costs several times what filling it does; the system has
    // larger ones for who asks.
    static void prefer_large_pages(void* memory, int64_t bytes) noexcept {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
        constexpr uintptr_t page = 2 << 20;
        const uintptr_t from = (uintptr_t(memory) + page - 1) & ~(page - 1);
        const uintptr_t to = (uintptr_t(memory) + uintptr_t(bytes)) & ~(page - 1);
        if (from < to) madvise(reinterpret_cast<void*>(from), to - from, MADV_HUGEPAGE);
#else
        (void)memory, (void)bytes;
#endif
    }

    // A new contiguous tensor with undefined content; not `defined()` when memory ran out.
    Tensor empty(DType dtype, const int64_t* sizes, int64_t dim) noexcept {
        int64_t strides[most_dims];
        int64_t step = 1;
        if (dim <= most_dims)
            for (int64_t i = dim; i-- > 0; step *= sizes[i] > 1 ? sizes[i] : 1) strides[i] = step;
        return empty(dtype, sizes, strides, dim);
    }
    // The same with strides of the caller's choice, in elements.
    Tensor empty(DType dtype, const int64_t* sizes, const int64_t* strides, int64_t dim) noexcept {
        Handle handle = nullptr;
        long long count = 1;
        for (int64_t i = 0; i < dim; ++i) count *= sizes[i];
        if (dim > most_dims || dtype == DType::Other ||
            torch.empty(dim, sizes, strides, torch.dtypes[int32_t(dtype)], torch.cpu(), 0, &handle) != 0) {
            fail("no %s tensor of %lld elements could be made", name(dtype), count);
            return Tensor();
        }
        Tensor made(handle);
        prefer_large_pages(made.data, count * dtype_bytes[int32_t(dtype)]);
        return made;
    }
    Tensor empty(DType dtype, std::initializer_list<int64_t> sizes) noexcept {
        return empty(dtype, sizes.begin(), int64_t(sizes.size()));
    }

    // The tensor itself, for as long as the result lives. Not `defined()` when torch refused.
    Tensor borrow(const Tensor& tensor) noexcept {
        Handle handle = nullptr;
        if (torch.share(tensor.handle(), &handle) == 0) return Tensor(handle);
        fail("a tensor of shape %s could not be held", Shape(tensor).text);
        return Tensor();
    }

    // The same values without gaps: the tensor itself where it has none, else a copy. Not `defined()` when memory
    // ran out.
    Tensor contiguous(const Tensor& tensor) noexcept {
        Handle handle = nullptr;
        if (tensor.contiguous() && torch.share(tensor.handle(), &handle) == 0) return Tensor(handle);
        Tensor result = empty(tensor.dtype, tensor.sizes, tensor.dim);
        if (!result.defined() || torch.copy(result.handle(), tensor.handle(), 0) == 0) return result;
        fail("a tensor of shape %s could not be copied", Shape(tensor).text);
        return Tensor();
    }

    // Results in the schema's order.
    void give(Tensor& result) noexcept { keep(result.detach(), false); }
    // A result `Tensor?`; one that is not `defined()` is None.
    void give_optional(Tensor& result) noexcept { keep(result.detach(), true); }
    void give_none() noexcept { keep(nullptr, true); }

    // Writes the results to the stack, or says no; then everything not handed over is released.
    bool finish(Slot* stack, uint64_t results) noexcept {
        if (!failed_ && uint64_t(given_) != results)
            fail("the kernel gave %d results, its schema says %d", given_, int(results));
        for (int i = 0; i < given_; ++i) {
            if (!failed_)
                stack[i] = slot(i);
            else if (results_[i])
                torch.release(results_[i]);
        }
        return !failed_;
    }
    const char* text() const noexcept { return text_; }

  private:
    void keep(Handle handle, bool optional) noexcept {
        if (given_ == most_results) return;
        optional_[given_] = optional;
        results_[given_++] = handle;
    }
    Slot slot(int i) const noexcept {
        const Slot handle = reinterpret_cast<Slot>(results_[i]);
        if (!optional_[i] || !handle) return handle;
        Slot* held = static_cast<Slot*>(torch.allocate(sizeof(Slot)));
        *held = handle;
        return reinterpret_cast<Slot>(held);
    }

    static constexpr int64_t most_dims = 16;
    Handle results_[most_results];
    bool optional_[most_results];
    int given_ = 0;
    bool failed_ = false;
    char text_[512];
};

// How a slot of the stack becomes an argument. A tensor's slot is a reference that the callee owns.
template <typename T>
struct Argument;
template <>
struct Argument<Tensor> {
    static Tensor from(Slot slot) noexcept { return Tensor(reinterpret_cast<Handle>(slot)); }
};
template <>
struct Argument<int64_t> {
    static int64_t from(Slot slot) noexcept { return int64_t(slot); }
};
template <>
struct Argument<bool> {
    static bool from(Slot slot) noexcept { return (slot & 0xff) != 0; }
};
template <>
struct Argument<double> {
    static double from(Slot slot) noexcept {
        double value;
        static_assert(sizeof value == sizeof slot, "a slot holds a double's bits");
        memcpy(&value, &slot, sizeof value);
        return value;
    }
};

// What an optional argument's slot points to, which is the callee's to free; 0 where the argument is None.
inline Slot opened(Slot slot) noexcept {
    Slot* held = reinterpret_cast<Slot*>(slot);
    const Slot value = *held;
    torch.deallocate(held);
    return value;
}
template <>
struct Argument<OptionalTensor> {
    static OptionalTensor from(Slot slot) noexcept {
        return slot ? OptionalTensor(Argument<Tensor>::from(opened(slot))) : OptionalTensor();
    }
};
template <>
struct Argument<OptionalInt> {
    static OptionalInt from(Slot slot) noexcept {
        return slot ? OptionalInt{true, int64_t(opened(slot))} : OptionalInt{false, 0};
    }
};

// Makes a typed kernel callable by the dispatcher. Schema types: Tensor, Tensor? (OptionalTensor), int or SymInt
// (int64_t), int? or SymInt? (OptionalInt), float (double), bool; results: Tensor and Tensor?.
template <auto kernel>
struct Operator;
template <typename... Arguments, void (*kernel)(Call&, Arguments...) noexcept>
struct Operator<kernel> {
    static void boxed(Slot* stack, uint64_t arguments, uint64_t results) {
        Call call;
        if (arguments == sizeof...(Arguments))
            unpack(call, stack, std::index_sequence_for<Arguments...>());
        else
            call.fail("the kernel takes %d arguments, its schema has %d", int(sizeof...(Arguments)), int(arguments));
        // Nothing in this frame needs unwinding when torch throws.
        if (!call.finish(stack, results)) torch.check(false, "boxed", __FILE__, __LINE__, call.text());
    }

  private:
    template <size_t... index>
    static void unpack(Call& call, Slot* stack, std::index_sequence<index...>) noexcept {
        (void)stack;  // unused by a kernel without arguments
        kernel(call, Argument<std::remove_cv_t<std::remove_reference_t<Arguments>>>::from(stack[index])...);
    }
};

// The library's operators, linked together while it is being loaded.
struct Entry {
    const char* operator_name;
    Boxed boxed;
    const Entry* next;
    Entry(const char* operator_name, Boxed boxed) noexcept;
};
inline const Entry* entries = nullptr;
inline Entry::Entry(const char* operator_name, Boxed boxed) noexcept
    : operator_name(operator_name), boxed(boxed), next(entries) {
    entries = this;
}

inline bool same(const char* a, const char* b) noexcept {
    while (*a && *a == *b) ++a, ++b;
    return *a == *b;
}

}  // namespace fb

// Offers `function` (`void (fb::Call&, ...) noexcept`) to the dispatcher as the operator `operator_name`.
#define FB_OPERATOR(operator_name, function) \
    static const fb::Entry fb_entry_##function { operator_name, fb::Operator<function>::boxed }

#if !defined(_WIN32)
#pragma GCC visibility pop
#endif

// ---------------------------------------------------------------------------------------------------------------
// What Python calls. Every source file defines them; the linker keeps one of each.

FB_EXPORT FB_USED inline int32_t fb_abi() noexcept { return FB_ABI; }

// Looks for libtorch in the process; says what was found, as a sum of `fb::Bound`.
FB_EXPORT FB_USED inline int32_t fb_bind(const char* libtorch) noexcept {
    void* library = fb::find_libtorch(libtorch);
    if (!library) return 0;
    fb::torch.process = fb::process_id();
    int32_t found = fb::bind_operators(library) ? fb::Operators : 0;
    if (fb::bind_torch_threads(library)) return found | fb::TorchThreads;
    fb::torch.parallel_for = nullptr;
    fb::torch.num_threads = nullptr;
    if (fb::bind_openmp(library)) return found | fb::OpenMPThreads;
    fb::torch.omp_parallel = nullptr;
    fb::torch.omp_max_threads = nullptr;
    return found;
}

// The operator at a position, in no particular order; null past the last.
FB_EXPORT FB_USED inline const char* fb_operator(int32_t position) noexcept {
    const fb::Entry* entry = fb::entries;
    while (entry && position-- > 0) entry = entry->next;
    return entry ? entry->operator_name : nullptr;
}

// Gives torch's dispatcher the CPU kernel of one operator. 0: done; 1: no such operator; 2: torch refused it.
// `fb_bind` must have found the operators' interface.
FB_EXPORT FB_USED inline int32_t fb_register(const char* name_space, const char* operator_name) noexcept {
    for (const fb::Entry* entry = fb::entries; entry; entry = entry->next) {
        if (!fb::same(entry->operator_name, operator_name)) continue;
        fb::Library library = nullptr;
        if (fb::torch.open(name_space, "CPU", __FILE__, __LINE__, &library) != 0) return 2;
        if (fb::torch.implement(library, operator_name, entry->boxed) == 0) return 0;  // kept for good
        fb::torch.close(library);
        return 2;
    }
    return 1;
}
