// SPDX-License-Identifier: Apache-2.0
// Tessera for C++17 and later: programs are compiled and run. <tessera/launch.hpp> says how objects
// live, and how errors are handled; what the functions do says tessera.h.
//
//     tessera::Compiler compiler;
//     tessera::Device device = compiler.device("cpu");
//     tessera::Program program = compiler.parse(R"(
//         kernel twice(x: T[N]) -> T[N] where T: float = 2 * x
//     )");
//     std::vector<float> x(1000, 1), y(1000);
//     tessera::Options options;
//     options.target = device.info().target;
//     options.bind("T", "f32").fact("N", 1);
//     tessera::Kernel kernel = program.compile(options);
//     tessera::Launch launch = kernel.prepare(device, {tessera::Tensor(x.data(), {1000}),
//                                                      tessera::Tensor(y.data(), {1000})});
//     launch();
//
// On a GPU the arrays are memory of the device, as device.alloc<float>(1000) is.
#ifndef TESSERA_TESSERA_HPP
#define TESSERA_TESSERA_HPP

#include <tessera/launch.hpp>
#include <tessera/tessera.h>

#include <cstring>

namespace tessera {

class Program;
class Kernel;

/* What TesseraOptions has, with memory of its own. Every function returns the options. */
struct Options {
    std::string kernel, target;
    std::vector<std::pair<std::string, std::string>> bindings, strides;
    std::vector<std::pair<std::string, std::int64_t>> sizes;
    struct Fact {
        std::string name;
        std::int64_t multiple, least, most;
    };
    std::vector<Fact> facts;
    std::vector<std::string> lines;
    std::vector<Arg> args;
    int optimize = 0;
    std::string device;
    std::string pins; // a file; "off": none; "": as tessera_pins_use says

    Options &bind(std::string name, std::string value)
    {
        bindings.emplace_back(std::move(name), std::move(value));
        return *this;
    }
    Options &size(std::string name, std::int64_t value)
    {
        sizes.emplace_back(std::move(name), value);
        return *this;
    }
    Options &fact(std::string name, std::int64_t multiple, std::int64_t least = 0,
                  std::int64_t most = 0)
    {
        facts.push_back({std::move(name), multiple, least, most});
        return *this;
    }
    /* A line of a schedule. */
    Options &line(std::string text)
    {
        lines.push_back(std::move(text));
        return *this;
    }
    Options &stride(std::string tensor, std::string words)
    {
        strides.emplace_back(std::move(tensor), std::move(words));
        return *this;
    }
};

namespace detail {

/* TesseraOptions, which points into the Options that they were made of, and into this. */
class COptions {
public:
    explicit COptions(const Options &of) : args_(args_of(Span<const Arg>(of.args)))
    {
        pairs(of.bindings, bindings_);
        pairs(of.strides, strides_);
        for (const auto &[name, value] : of.sizes) {
            sizes_.push_back({name.c_str(), value});
        }
        for (const Options::Fact &fact : of.facts) {
            facts_.push_back({fact.name.c_str(), fact.multiple, fact.least, fact.most});
        }
        for (const std::string &line : of.lines) {
            lines_.push_back(line.c_str());
        }
        options_.kernel = text(of.kernel);
        options_.target = text(of.target);
        options_.bindings = bindings_.data();
        options_.n_bindings = bindings_.size();
        options_.sizes = sizes_.data();
        options_.n_sizes = sizes_.size();
        options_.facts = facts_.data();
        options_.n_facts = facts_.size();
        options_.args = args_.data();
        options_.n_args = args_.size();
        options_.strides = strides_.data();
        options_.n_strides = strides_.size();
        options_.lines = lines_.data();
        options_.n_lines = lines_.size();
        options_.optimize = of.optimize;
        options_.device = text(of.device);
        options_.pins = of.pins == "off" ? "" : text(of.pins);
    }
    COptions(const COptions &) = delete;
    COptions &operator=(const COptions &) = delete;
    const TesseraOptions *get() const { return &options_; }

private:
    static const char *text(const std::string &of) { return of.empty() ? nullptr : of.c_str(); }
    static void pairs(const std::vector<std::pair<std::string, std::string>> &of,
                      std::vector<TesseraPair> &to)
    {
        for (const auto &[name, value] : of) {
            to.push_back({name.c_str(), value.c_str()});
        }
    }
    std::vector<TesseraPair> bindings_, strides_;
    std::vector<TesseraSize> sizes_;
    std::vector<TesseraFact> facts_;
    std::vector<const char *> lines_;
    std::vector<TesseraArg> args_;
    TesseraOptions options_ = {};
};

} // namespace detail

// ---- programs ----

/* A context that compiles. */
class Compiler : public Context {
public:
    Compiler() = default;
    explicit Compiler(std::nullptr_t) : Context(nullptr) {}
    /* A text, and what messages call it. */
    Result<Program> try_parse(const std::string &text, const std::string &name = "<text>") const;
    Program parse(const std::string &text, const std::string &name = "<text>") const;
    /* A file. */
    Result<Program> try_read(const std::string &path) const;
    Program read(const std::string &path) const;

    /* What the last compilation warned of. */
    std::string warnings() const { return tessera_warnings(get()); }
    /* What was wrong with the last call that failed, one by one, until the next call. */
    Span<const TesseraDiagnostic> diagnostics() const
    {
        const TesseraDiagnostic *found = nullptr;
        std::size_t n = tessera_diagnostics(get(), &found);
        return {found, n};
    }
};

/* Kernels of a source. */
class Program : public detail::Handle<TesseraProgram> {
public:
    Program() = default;
    std::size_t size() const { return tessera_program_kernels(get()); }
    /* The signature of a kernel by its number, below size(). */
    const TesseraSignature &operator[](std::size_t index) const
    {
        return *tessera_program_kernel(get(), index);
    }

    Result<Kernel> try_compile(const Options &options) const;
    Kernel compile(const Options &options) const;

    /* By the plain meaning of the operations, on arrays in memory of the host. */
    Result<Done> try_interpret(const Options &options, Span<const Arg> args) const
    {
        std::vector<TesseraArg> given = detail::args_of(args);
        return detail::done(context_.get(),
                            tessera_interpret(get(), detail::COptions(options).get(), given.data(),
                                              given.size()));
    }
    void interpret(const Options &options, std::initializer_list<Arg> args) const
    {
        try_interpret(options, Span<const Arg>(args.begin(), args.size())).value();
    }

private:
    friend class Compiler;
    friend class Kernel;
    Program(TesseraProgram *program, const Compiler &context)
        : Handle(program, tessera_program_free, context), context_(context)
    {
    }
    Compiler context_{nullptr};
};

inline Result<Program> Compiler::try_parse(const std::string &text, const std::string &name) const
{
    TesseraProgram *program = nullptr;
    TesseraStatus status =
        tessera_program_parse(get(), name.c_str(), text.data(), text.size(), &program);
    if (status != TESSERA_OK) {
        return detail::failure_of(get(), status);
    }
    return Program(program, *this);
}

inline Program Compiler::parse(const std::string &text, const std::string &name) const
{
    return try_parse(text, name).value();
}

inline Result<Program> Compiler::try_read(const std::string &path) const
{
    TesseraProgram *program = nullptr;
    TesseraStatus status = tessera_program_read(get(), path.c_str(), &program);
    if (status != TESSERA_OK) {
        return detail::failure_of(get(), status);
    }
    return Program(program, *this);
}

inline Program Compiler::read(const std::string &path) const
{
    return try_read(path).value();
}

// ---- kernels ----

/* A kernel for one target. */
class Kernel : public detail::Handle<TesseraKernel> {
public:
    Kernel() = default;
    /* With all generic parameters bound, and without const ones. */
    const TesseraSignature &signature() const { return *tessera_kernel_signature(get()); }

    Result<Launch> try_prepare(const Device &device, Span<const Arg> args) const
    {
        TesseraLaunch *launch = nullptr;
        std::vector<TesseraArg> given = detail::args_of(args);
        TesseraStatus status =
            tessera_prepare(get(), device.get(), given.data(), given.size(), &launch);
        if (status != TESSERA_OK) {
            return detail::failure_of(program_.context_.get(), status);
        }
        return Launch(launch, device, *this);
    }
    Launch prepare(const Device &device, std::initializer_list<Arg> args) const
    {
        return try_prepare(device, Span<const Arg>(args.begin(), args.size())).value();
    }

    /* "ir", "llvm", "ptx", "cubin", "asm", "hsaco", "obj" or "launch". */
    Result<std::string> try_emit(const std::string &kind) const
    {
        TesseraBytes bytes = {};
        return text(tessera_kernel_emit(get(), kind.c_str(), &bytes), bytes);
    }
    std::string emit(const std::string &kind) const { return try_emit(kind).value(); }

    Result<std::string> try_explain(TesseraExplain form = TESSERA_EXPLAIN_TEXT) const
    {
        TesseraBytes bytes = {};
        return text(tessera_kernel_explain(get(), form, &bytes), bytes);
    }
    std::string explain(TesseraExplain form = TESSERA_EXPLAIN_TEXT) const
    {
        return try_explain(form).value();
    }

    /* The schedule as a block that may stand in the source. */
    Result<std::string> try_schedule(bool reasons = true) const
    {
        const char *found = nullptr;
        TesseraStatus status = tessera_kernel_schedule(get(), reasons, &found);
        return text(status, {found, found ? std::strlen(found) : 0});
    }
    std::string schedule(bool reasons = true) const { return try_schedule(reasons).value(); }

private:
    friend class Program;
    Kernel(TesseraKernel *kernel, const Program &program)
        : Handle(kernel, tessera_kernel_free, program), program_(program)
    {
    }
    Result<std::string> text(TesseraStatus status, const TesseraBytes &bytes) const
    {
        if (status != TESSERA_OK) {
            return detail::failure_of(program_.context_.get(), status);
        }
        return std::string(bytes.data, bytes.n);
    }
    Program program_;
};

inline Result<Kernel> Program::try_compile(const Options &options) const
{
    TesseraKernel *kernel = nullptr;
    TesseraStatus status = tessera_compile(get(), detail::COptions(options).get(), &kernel);
    if (status != TESSERA_OK) {
        return detail::failure_of(context_.get(), status);
    }
    return Kernel(kernel, *this);
}

inline Kernel Program::compile(const Options &options) const
{
    return try_compile(options).value();
}

} // namespace tessera

#endif
