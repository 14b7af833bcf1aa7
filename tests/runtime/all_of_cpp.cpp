// SPDX-License-Identifier: Apache-2.0
// Every part of <tessera/tessera.hpp>, on the CPU: results, exceptions where there are some, spans,
// buffers, and handles that outlive the names of what they need.
#include <tessera/tessera.hpp>

#include <array>
#include <cstdio>
#if defined(__cpp_lib_span) || __cplusplus >= 202002L
#include <span>
#endif

static int failures = 0;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::printf("line %d: %s\n", __LINE__, #condition);                                    \
            failures++;                                                                            \
        }                                                                                          \
    } while (false)

static const char *const text = R"(
# Doubled.
kernel twice(x: T[N], a: f32) -> T[N] where T: float = T(a * x)
kernel rows(x: f32[M, N]) -> f32[M] {
    assert(x >= 0, "negative")
    out[m] = sum(x[m, :])
}
)";

/* The launch keeps all that it needs; everything else goes out of scope here. */
static tessera::Launch make(float *x, float *y, std::int64_t n)
{
    tessera::Compiler compiler;
    tessera::Program program = compiler.parse(text);
    tessera::Options options;
    options.kernel = "twice";
    options.target = "native";
    options.bind("T", "f32").size("N", n).line("tile N 64");
    tessera::Kernel kernel = program.compile(options);
    CHECK(kernel.schedule(false).find("tile N 64") != std::string::npos);
    CHECK(!kernel.emit("ir").empty() && !kernel.explain().empty());
    CHECK(kernel.signature().n_params == 3);
    return kernel.prepare(compiler.device("cpu"), {tessera::Tensor(x, {n}), 2.0f,
                                                   tessera::Tensor(y, {n})});
}

static void results()
{
    tessera::Compiler compiler;
    auto wrong = compiler.try_parse("kernel f(", "wrong.tile");
    CHECK(!wrong && wrong.error().status == TESSERA_SOURCE);
    CHECK(wrong.error().message.find("wrong.tile:1") != std::string::npos);
    CHECK(compiler.diagnostics().size() > 0);
    auto file = compiler.try_read("/nowhere.tile");
    CHECK(!file && file.error().status == TESSERA_ENVIRONMENT);
    auto device = compiler.try_device("toaster");
    CHECK(!device && device.error().status == TESSERA_USAGE);
    auto program = compiler.try_parse(text);
    CHECK(program && program->size() == 2);
    CHECK(std::string((*program)[0].doc) == "Doubled." && !(*program)[1].doc);
    tessera::Options options;
    options.target = "native";
    auto kernel = program->try_compile(options);
    CHECK(!kernel && kernel.error().status == TESSERA_USAGE);
#if defined(__cpp_exceptions)
    try {
        compiler.parse("kernel f(");
        CHECK(false);
    } catch (const tessera::Error &error) {
        CHECK(error.status() == TESSERA_SOURCE && error.what() == error.failure().message);
    }
#endif
}

static void memory()
{
    tessera::Compiler compiler;
    tessera::Device device = compiler.device("cpu", 1);
    CHECK(std::string(device.info().kind) == "cpu");
    std::array<float, 12> x = {};
    std::vector<float> sums(3);
    for (std::size_t i = 0; i < x.size(); i++) {
        x[i] = static_cast<float>(i);
    }
    tessera::Buffer<float> in = device.alloc<float>(12), out = device.alloc<float>(3);
    in.copy_in(x);
    tessera::Options options;
    options.kernel = "rows";
    options.target = device.info().target;
    options.fact("M", 1).fact("N", 1);
    tessera::Program program = compiler.parse(text);
    tessera::Kernel kernel = program.compile(options);
    tessera::Launch launch = kernel.prepare(device, {in.shaped({3, 4}), out});
    launch();
    device.sync();
    out.copy_out(sums);
    CHECK(sums[0] == 6 && sums[1] == 22 && sums[2] == 38);
    CHECK(launch.messages().empty() && launch.time(3) > 0 && launch.workspace() < 1 << 20);
    auto large = in.try_copy_in(std::vector<float>(13));
    CHECK(!large && large.error().status == TESSERA_USAGE);
    x[5] = -1;
#if __cplusplus >= 202002L
    in.copy_in(std::span<const float>(x));
#else
    in.copy_in({x.data(), x.size()});
#endif
    launch();
    CHECK(launch.messages().size() == 1 && launch.messages().empty());
    tessera::Buffer<float> other = device.alloc<float>(3);
    launch.set(1, other.data());
    launch();
    other.copy_out(sums);
    CHECK(sums[2] == 38);
    auto few = kernel.try_prepare(device, {});
    CHECK(!few && few.error().status == TESSERA_USAGE);
    std::vector<float> columns(12), expected(3), bound(1);
    program.interpret(options, {tessera::Tensor(x.data(), {3, 4}),
                                tessera::Tensor(expected.data(), {3})});
    CHECK(expected[2] == 38);
    /* The transpose, by strides: rows of it are columns of x. */
    options.args = {tessera::Tensor(x.data(), {4, 3}, {1, 4}),
                    tessera::Tensor(columns.data(), {4})};
    tessera::Launch turned = program.compile(options).prepare(
        device, {tessera::Tensor(x.data(), {4, 3}, {1, 4}), tessera::Tensor(columns.data(), {4})});
    turned();
    CHECK(columns[0] == 12 && columns[3] == 21);
}

int main()
{
    float x[100], y[100] = {};
    for (int i = 0; i < 100; i++) {
        x[i] = static_cast<float>(i);
    }
    {
        tessera::Launch launch = make(x, y, 100), same = launch, empty;
        CHECK(launch && !empty);
        launch = tessera::Launch();
        same();
        CHECK(y[99] == 198);
        same.set(1, 3.0f);
        same();
        CHECK(y[99] == 297);
    }
    results();
    memory();
    return failures ? 1 : 0;
}
