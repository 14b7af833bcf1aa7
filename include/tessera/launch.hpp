// SPDX-License-Identifier: Apache-2.0
// Tessera for C++17 and later, without a compiler: devices, memory, launches, kernels of bundles.
// <tessera/tessera.hpp> includes this, and has programs. What the functions do says launch.h.
//
//     tessera::Context context;
//     tessera::Device device = context.device("cpu");
//     std::vector<float> x(1000, 1), y(1000);
//     tessera::Buffer<float> in = device.alloc<float>(x.size()), out = device.alloc<float>(1000);
//     in.copy_in(x);
//     tessera::Launch launch = device.prepare(k_bundle, "twice", {in, out});
//     launch();
//     out.copy_out(y);
//
// Objects are handles that may be copied, and keep alive what they need: a launch its kernel and
// its device, these their context. The last handle of an object frees it, in the right order. A
// default-constructed handle is empty, but for a context, which is made; it may be assigned to, and
// tested. Handles of one context, and what they lead to, are for one thread at a time.
//
// Each function that can fail exists twice. `device(…)` throws a tessera::Error; `try_device(…)`
// returns a tessera::Result, which holds the value or a tessera::Failure, and throws nothing. With
// -fno-exceptions only the second kind can be handled: the first prints the message and calls
// std::abort.
#ifndef TESSERA_LAUNCH_HPP
#define TESSERA_LAUNCH_HPP

#include <tessera/launch.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>
#if defined(__cpp_exceptions)
#include <stdexcept>
#endif

namespace tessera {

// ---- failures ----

/* Why a call failed: TesseraError, kept. */
struct Failure {
    TesseraStatus status = TESSERA_OK;
    std::string message;
    int driver_code = 0;
    std::string reproducer;
};

#if defined(__cpp_exceptions)
/* A failure as an exception; what() is its message. */
class Error : public std::runtime_error {
public:
    explicit Error(Failure failure)
        : std::runtime_error(failure.message), failure_(std::move(failure))
    {
    }
    const Failure &failure() const noexcept { return failure_; }
    TesseraStatus status() const noexcept { return failure_.status; }

private:
    Failure failure_;
};
#endif

[[noreturn]] inline void raise(Failure failure)
{
#if defined(__cpp_exceptions)
    throw Error(std::move(failure));
#else
    std::fprintf(stderr, "%s\n", failure.message.c_str());
    std::abort();
#endif
}

/* A value, or why there is none. */
template <class T> class [[nodiscard]] Result {
public:
    Result(T value) : held_(std::in_place_index<0>, std::move(value)) {}
    Result(Failure failure) : held_(std::in_place_index<1>, std::move(failure)) {}

    explicit operator bool() const noexcept { return held_.index() == 0; }
    /* Of a result that has a value. */
    T &operator*() noexcept { return *std::get_if<0>(&held_); }
    T *operator->() noexcept { return std::get_if<0>(&held_); }
    /* Of a result that has none. */
    const Failure &error() const noexcept { return *std::get_if<1>(&held_); }
    /* The value; without one it throws. */
    T value() &&
    {
        if (!*this) {
            raise(std::move(*std::get_if<1>(&held_)));
        }
        return std::move(**this);
    }

private:
    std::variant<T, Failure> held_;
};

/* Of calls that return nothing: true, or why they failed. */
struct Done {};

namespace detail {

inline Failure failure_of(const TesseraContext *context, TesseraStatus status)
{
    const TesseraError *error = tessera_error(context);
    Failure failure;
    failure.status = status;
    if (error) {
        failure.message = error->message ? error->message : "";
        failure.driver_code = error->driver_code;
        failure.reproducer = error->reproducer ? error->reproducer : "";
    }
    return failure;
}

inline Result<Done> done(const TesseraContext *context, TesseraStatus status)
{
    return status == TESSERA_OK ? Result<Done>(Done{}) : failure_of(context, status);
}

/* What all handles are: the object, with what it needs next to its deleter. */
template <class T> class Handle {
public:
    Handle() = default;
    explicit operator bool() const noexcept { return object_ != nullptr; }
    /* For the functions of C. */
    T *get() const noexcept { return object_.get(); }

protected:
    template <class... Needed> Handle(T *object, void (*release)(T *), Needed... needed)
        : object_(object, [release, needed...](T *of) {
              ((void)needed, ...);
              release(of);
          })
    {
    }
    std::shared_ptr<T> object_;
};

} // namespace detail

// ---- arrays and arguments ----

/* TesseraType of a type of C++. Others, as bf16, are named where they are used. */
template <class T> struct TypeOf;
template <> struct TypeOf<bool> { static constexpr TesseraType value = TESSERA_BOOL; };
template <> struct TypeOf<std::int8_t> { static constexpr TesseraType value = TESSERA_I8; };
template <> struct TypeOf<std::int16_t> { static constexpr TesseraType value = TESSERA_I16; };
template <> struct TypeOf<std::int32_t> { static constexpr TesseraType value = TESSERA_I32; };
template <> struct TypeOf<std::int64_t> { static constexpr TesseraType value = TESSERA_I64; };
template <> struct TypeOf<std::uint8_t> { static constexpr TesseraType value = TESSERA_U8; };
template <> struct TypeOf<std::uint16_t> { static constexpr TesseraType value = TESSERA_U16; };
template <> struct TypeOf<std::uint32_t> { static constexpr TesseraType value = TESSERA_U32; };
template <> struct TypeOf<std::uint64_t> { static constexpr TesseraType value = TESSERA_U64; };
template <> struct TypeOf<float> { static constexpr TesseraType value = TESSERA_F32; };
template <> struct TypeOf<double> { static constexpr TesseraType value = TESSERA_F64; };

/* Elements of a caller's, one after the other: of a pointer and a number, or of anything that has
 * data() and size(), as std::vector, std::array and std::span have. */
template <class T> class Span {
public:
    constexpr Span() = default;
    constexpr Span(T *data, std::size_t size) : data_(data), size_(size) {}
    template <class C, class = std::enable_if_t<std::is_convertible_v<
                           decltype(std::declval<C &>().data()), T *>>,
              class = decltype(std::declval<C &>().size())>
    constexpr Span(C &&of) : data_(of.data()), size_(of.size())
    {
    }
    constexpr T *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }

private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

/* An argument of a kernel: an array or a number. */
class Arg {
public:
    template <class N, class = std::enable_if_t<std::is_arithmetic_v<N>>>
    Arg(N number) : number_(static_cast<double>(number)), integer_(static_cast<std::int64_t>(number))
    {
        tensor_.rank = -1;
    }
    TesseraArg c() const
    {
        TesseraArg arg = {tensor_, number_, integer_, nullptr};
        arg.tensor.strides = strided_ ? strides_.data() : nullptr;
        return arg;
    }

protected:
    Arg() = default;
    TesseraTensor tensor_ = {};
    std::array<std::int64_t, TESSERA_MAX_RANK> strides_ = {};
    bool strided_ = false;

private:
    double number_ = 0;
    std::int64_t integer_ = 0;
};

/* An array in memory of a device: contiguous, or with strides in elements. More axes than
 * TESSERA_MAX_RANK are refused by what takes it. */
class Tensor : public Arg {
public:
    Tensor(void *data, TesseraType type, Span<const std::int64_t> dims,
           Span<const std::int64_t> strides = {})
    {
        tensor_.data = data;
        tensor_.type = type;
        tensor_.rank = static_cast<int>(dims.size());
        for (std::size_t i = 0; i < dims.size() && i < TESSERA_MAX_RANK; i++) {
            tensor_.dims[i] = dims.data()[i];
            strides_[i] = i < strides.size() ? strides.data()[i] : 0;
        }
        strided_ = strides.size() > 0;
    }
    Tensor(void *data, TesseraType type, std::initializer_list<std::int64_t> dims,
           std::initializer_list<std::int64_t> strides = {})
        : Tensor(data, type, Span<const std::int64_t>(dims.begin(), dims.size()),
                 Span<const std::int64_t>(strides.begin(), strides.size()))
    {
    }
    template <class T>
    Tensor(T *data, std::initializer_list<std::int64_t> dims,
           std::initializer_list<std::int64_t> strides = {})
        : Tensor(const_cast<std::remove_const_t<T> *>(data), TypeOf<std::remove_const_t<T>>::value,
                 dims, strides)
    {
    }
};

namespace detail {

inline std::vector<TesseraArg> args_of(Span<const Arg> args)
{
    std::vector<TesseraArg> found;
    for (std::size_t i = 0; i < args.size(); i++) {
        found.push_back(args.data()[i].c());
    }
    return found;
}

} // namespace detail

// ---- contexts, devices ----

class Device;

/* A TesseraContext, of one thread at a time. */
class Context : public detail::Handle<TesseraContext> {
public:
    Context() : Context(create().value()) {}
    /* An empty one. */
    explicit Context(std::nullptr_t) {}
    static Result<Context> create()
    {
        TesseraContext *context = nullptr;
        TesseraStatus status = tessera_context_new(nullptr, &context);
        if (status != TESSERA_OK) {
            return detail::failure_of(nullptr, status);
        }
        return Context(context);
    }

    /* kind: "cpu", "cuda", "hip" or "auto". */
    Result<Device> try_device(const std::string &kind = "auto", int ordinal = 0) const;
    Device device(const std::string &kind = "auto", int ordinal = 0) const;

protected:
    explicit Context(TesseraContext *context) : Handle(context, tessera_context_free) {}
};

template <class T> class Buffer;
class Launch;

/* A TesseraDevice, open. */
class Device : public detail::Handle<TesseraDevice> {
public:
    Device() = default;
    const TesseraDeviceInfo &info() const { return *tessera_device_info(get()); }
    const Context &context() const { return context_; }

    Result<Done> try_sync(void *stream = nullptr) const
    {
        return detail::done(context_.get(), tessera_sync(get(), stream));
    }
    void sync(void *stream = nullptr) const { try_sync(stream).value(); }

    /* Memory for this many elements. */
    template <class T> Result<Buffer<T>> try_alloc(std::size_t n) const;
    template <class T> Buffer<T> alloc(std::size_t n) const;

    /* A kernel of a bundle, for these arguments. */
    Result<Launch> try_prepare(const TesseraBundle &bundle, const std::string &kernel,
                               Span<const Arg> args) const;
    Launch prepare(const TesseraBundle &bundle, const std::string &kernel,
                   std::initializer_list<Arg> args) const;

private:
    friend class Context;
    Device(TesseraDevice *device, const Context &context)
        : Handle(device, tessera_device_free, context), context_(context)
    {
    }
    Context context_{nullptr};
};

inline Result<Device> Context::try_device(const std::string &kind, int ordinal) const
{
    TesseraDevice *device = nullptr;
    TesseraStatus status = tessera_device_open(get(), kind.c_str(), ordinal, &device);
    if (status != TESSERA_OK) {
        return detail::failure_of(get(), status);
    }
    return Device(device, *this);
}

inline Device Context::device(const std::string &kind, int ordinal) const
{
    return try_device(kind, ordinal).value();
}

// ---- memory ----

/* Memory of a device, contiguous. */
template <class T> class Buffer : public Tensor {
public:
    Buffer() : Tensor(nullptr, TypeOf<T>::value, {0}) {}
    T *data() const noexcept { return static_cast<T *>(memory_.get()); }
    std::size_t size() const noexcept { return size_; }

    /* The same memory as an array of several axes. */
    Tensor shaped(std::initializer_list<std::int64_t> dims) const { return Tensor(data(), dims); }

    /* From and to memory of the host, of at most as many elements. */
    Result<Done> try_copy_in(Span<const T> from) const
    {
        return fits(from.size()) ? detail::done(device_.context().get(),
                                                tessera_copy_in(device_.get(), data(), from.data(),
                                                                from.size() * sizeof(T)))
                                 : too_many(from.size());
    }
    void copy_in(Span<const T> from) const { try_copy_in(from).value(); }
    Result<Done> try_copy_out(Span<T> to) const
    {
        return fits(to.size()) ? detail::done(device_.context().get(),
                                              tessera_copy_out(device_.get(), to.data(), data(),
                                                               to.size() * sizeof(T)))
                               : too_many(to.size());
    }
    void copy_out(Span<T> to) const { try_copy_out(to).value(); }

private:
    friend class Device;
    Buffer(void *memory, std::size_t n, const Device &device)
        : Tensor(memory, TypeOf<T>::value, {static_cast<std::int64_t>(n)}), size_(n),
          device_(device), memory_(memory, [device](void *of) { tessera_release(device.get(), of); })
    {
    }
    bool fits(std::size_t n) const { return n <= size_; }
    Result<Done> too_many(std::size_t n) const
    {
        Failure failure;
        failure.status = TESSERA_USAGE;
        failure.message = "a copy of " + std::to_string(n) + " elements, from or to a buffer of " +
                          std::to_string(size_);
        return failure;
    }
    std::size_t size_ = 0;
    Device device_;
    std::shared_ptr<void> memory_;
};

template <class T> Result<Buffer<T>> Device::try_alloc(std::size_t n) const
{
    void *memory = nullptr;
    TesseraStatus status = n > SIZE_MAX / sizeof(T) ? TESSERA_ENVIRONMENT
                                                    : tessera_alloc(get(), n * sizeof(T), &memory);
    if (status != TESSERA_OK) {
        return detail::failure_of(context().get(), status);
    }
    return Buffer<T>(memory, n, *this);
}

template <class T> Buffer<T> Device::alloc(std::size_t n) const
{
    return try_alloc<T>(n).value();
}

/* A stream of a device, which does not wait for the default one. */
class Stream {
public:
    Stream() = default;
    static Result<Stream> create(const Device &device)
    {
        void *stream = nullptr;
        TesseraStatus status = tessera_stream_new(device.get(), &stream);
        if (status != TESSERA_OK) {
            return detail::failure_of(device.context().get(), status);
        }
        return Stream(stream, device);
    }
    explicit Stream(const Device &device) : Stream(create(device).value()) {}
    /* The driver's own; what takes a stream takes this. */
    operator void *() const noexcept { return stream_.get(); }

private:
    Stream(void *stream, const Device &device)
        : stream_(stream, [device](void *of) { tessera_stream_free(device.get(), of); })
    {
    }
    std::shared_ptr<void> stream_;
};

// ---- launches ----

/* A kernel that is prepared for its arguments, whose memory stays the caller's. */
class Launch : public detail::Handle<TesseraLaunch> {
public:
    Launch() = default;

    Result<Done> try_launch(void *stream = nullptr) const
    {
        return done(tessera_launch(get(), stream));
    }
    void operator()(void *stream = nullptr) const { try_launch(stream).value(); }

    /* Other memory, or another number, for an argument. */
    Result<Done> try_set(std::size_t index, void *data) const
    {
        return done(tessera_launch_set(get(), index, data));
    }
    void set(std::size_t index, void *data) const { try_set(index, data).value(); }
    template <class N, class = std::enable_if_t<std::is_arithmetic_v<N>>>
    Result<Done> try_set(std::size_t index, N number) const
    {
        return done(tessera_launch_set_scalar(get(), index, static_cast<double>(number),
                                              static_cast<std::int64_t>(number)));
    }
    template <class N, class = std::enable_if_t<std::is_arithmetic_v<N>>>
    void set(std::size_t index, N number) const
    {
        try_set(index, number).value();
    }

    Result<Done> try_reserve(void *stream) const
    {
        return done(tessera_launch_reserve(get(), stream));
    }
    void reserve(void *stream) const { try_reserve(stream).value(); }
    std::size_t workspace() const { return tessera_workspace_size(get()); }

    /* Seconds that this many launches take, back to back. */
    Result<double> try_time(int times = 1, void *stream = nullptr) const
    {
        double seconds = 0;
        TesseraStatus status = tessera_launch_time(get(), stream, times, &seconds);
        if (status != TESSERA_OK) {
            return detail::failure_of(device_.context().get(), status);
        }
        return seconds;
    }
    double time(int times = 1, void *stream = nullptr) const
    {
        return try_time(times, stream).value();
    }

    struct Message {
        bool failed;
        std::string text, file;
        int line;
    };
    /* Waits for the stream: what the kernel printed and asserted. */
    Result<std::vector<Message>> try_messages(void *stream = nullptr) const
    {
        TesseraMessages found;
        std::vector<Message> messages;
        TesseraStatus status = tessera_launch_messages(get(), stream, &found);
        if (status != TESSERA_OK) {
            return detail::failure_of(device_.context().get(), status);
        }
        for (std::size_t i = 0; i < found.n; i++) {
            const TesseraMessage &said = found.items[i];
            messages.push_back({said.failed, said.text, said.file ? said.file : "", said.line});
        }
        return messages;
    }
    std::vector<Message> messages(void *stream = nullptr) const
    {
        return try_messages(stream).value();
    }

private:
    friend class Device;
    friend class Kernel;
    template <class... Needed> Launch(TesseraLaunch *launch, const Device &device, Needed... needed)
        : Handle(launch, tessera_launch_free, device, needed...), device_(device)
    {
    }
    Result<Done> done(TesseraStatus status) const
    {
        return detail::done(device_.context().get(), status);
    }
    Device device_;
};

inline Result<Launch> Device::try_prepare(const TesseraBundle &bundle, const std::string &kernel,
                                          Span<const Arg> args) const
{
    TesseraLaunch *launch = nullptr;
    std::vector<TesseraArg> given = detail::args_of(args);
    TesseraStatus status = tessera_bundle_prepare(&bundle, kernel.c_str(), get(), given.data(),
                                                  given.size(), &launch);
    if (status != TESSERA_OK) {
        return detail::failure_of(context().get(), status);
    }
    return Launch(launch, *this);
}

inline Launch Device::prepare(const TesseraBundle &bundle, const std::string &kernel,
                              std::initializer_list<Arg> args) const
{
    return try_prepare(bundle, kernel, Span<const Arg>(args.begin(), args.size())).value();
}

} // namespace tessera

#endif
