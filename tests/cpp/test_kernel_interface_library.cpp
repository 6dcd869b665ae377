// Compiling: caching, options, includes, function constants, reflection, messages.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "kernel_interface_fixture.hpp"

using namespace metalki;

namespace {

Device device() {
    return default_device();
}

const std::string constants = R"(
constant int factor [[function_constant(0)]];
constant bool negate [[function_constant(1)]];
constant float2 pair [[function_constant(2)]];
constant half small [[function_constant(7)]];
kernel void scale(device int* out, uint i [[thread_position_in_grid]]) { out[i] = int(i) * factor * (negate ? -1 : 1); }
kernel void plain(device int* out, uint i [[thread_position_in_grid]]) { out[i] = int(i); }
kernel void add(device float* out) { out[0] = pair.x + pair.y * 10; out[1] = float(small); }
)";

std::vector<int> run(const Kernel& kernel) {
    Buffer out = buffer_of(std::vector<int>(3));
    launch(kernel, std::tuple{out}, {.ndrange = {3}});
    return values_of<int>(out);
}

FunctionConstant constant(std::variant<unsigned, std::string> id, std::vector<ScalarValue> values) {
    if (const unsigned* index = std::get_if<unsigned>(&id))
        return FunctionConstant(*index, std::move(values));
    return FunctionConstant(std::get<std::string>(id), std::move(values));
}
ScalarValue integer(std::int64_t value) {
    return value;
}

} // namespace

TEST_CASE("the same source, options and constants give the same kernel") {
    const Library library = device().compile(metal_header + constants);
    CHECK(library == device().compile(metal_header + constants));
    CompileOptions safe;
    safe.math_mode = MathMode::safe;
    CHECK_FALSE(library == device().compile(metal_header + constants, safe));
    CompileOptions macro;
    macro.macros = {{"X", "1"}};
    CHECK_FALSE(library == device().compile(metal_header + constants, macro));
    CHECK(library.kernel("plain") == library.kernel("plain"));
    const std::vector two{constant(0u, {integer(2)}), constant(1u, {false})};
    const std::vector by_name{constant("negate", {false}), constant("factor", {integer(2)})};
    const std::vector three{constant(0u, {integer(3)}), constant(1u, {false})};
    CHECK(library.kernel("scale", two) == library.kernel("scale", by_name));
    CHECK_FALSE(library.kernel("scale", two) == library.kernel("scale", three));
    CHECK(library.kernel("plain", two) == library.kernel("plain"));
}

TEST_CASE("eight threads at once compile once") {
    const std::string source = metal_header + "// eight threads\nkernel void one(device int* o) { o[0] = 1; }";
    std::vector<Kernel> kernels(8, kernel_of("kernel void other(device int* o) { o[0] = 1; }"));
    std::vector<std::thread> threads;
    for (Kernel& kernel : kernels)
        threads.emplace_back([&] { kernel = device().compile(source).kernel("one"); });
    for (std::thread& thread : threads)
        thread.join();
    for (const Kernel& kernel : kernels)
        CHECK(kernel.impl() == kernels[0].impl());
}

TEST_CASE("function constants") {
    const Library library = device().compile(metal_header + constants);
    const std::vector good{constant(0u, {integer(5)}), constant("negate", {true})};
    CHECK(run(library.kernel("scale", good)) == std::vector{0, -5, -10});

    auto refused = [&](std::vector<FunctionConstant> values, auto... parts) {
        const std::string message = message_of<ArgumentError>([&] { library.kernel("scale", values); });
        CAPTURE(message);
        CHECK(has(message, parts...));
    };
    refused({constant("factro", {integer(5)}), constant(1u, {true})}, "factro", "factor", "negate", "pair", "small");
    refused({constant(3u, {integer(5)})}, "3", "factor", "(index 0)");
    refused({constant(70000u, {integer(5)})}, "70000");
    refused({}, "factor");
    refused({constant(0u, {integer(5)})}, "negate");
    refused({constant(0u, {1.5}), constant(1u, {true})}, "1.5", "int");
    refused({constant(0u, {integer(5'000'000'000)}), constant(1u, {true})}, "5000000000");
    refused({constant(0u, {integer(1), integer(2)}), constant(1u, {true})}, "1 values", "2 were given");
    refused({constant(0u, {integer(1)}), constant("factor", {integer(1)}), constant(1u, {true})}, "twice");

    // What the kernel does not use but the source declares is taken.
    const std::vector unused{constant("pair", {1.0, 2.0}), constant(7u, {0.5})};
    CHECK(run(library.kernel("plain", unused)) == std::vector{0, 1, 2});
    Buffer out = buffer_of(std::vector<float>(2));
    launch(library.kernel("add", unused), std::tuple{out}, {.ndrange = {1}});
    CHECK(values_of<float>(out) == std::vector{21.0f, 0.5f});
}

TEST_CASE("arguments switched off by a function constant") {
    const std::string source = R"(
constant bool with_bias [[function_constant(0)]];
kernel void add(device float* out, device const float* bias [[function_constant(with_bias)]]) {
    out[0] = with_bias ? bias[0] : -1.0f;
})";
    const Kernel off = kernel_of(source, {}, {constant(0u, {false})}), on = kernel_of(source, {}, {constant(0u, {true})});
    Buffer out = buffer_of(std::vector{0.0f}), bias = buffer_of(std::vector{4.0f});
    launch(off, std::tuple{out, std::nullopt}, {.ndrange = {1}});
    CHECK(values_of<float>(out)[0] == -1);
    launch(off, std::tuple{out, 3}, {.ndrange = {1}});
    launch(on, std::tuple{out, bias}, {.ndrange = {1}});
    CHECK(values_of<float>(out)[0] == 4);
    CHECK_THROWS_AS(launch(on, std::tuple{out, std::nullopt}, {.ndrange = {1}}), ArgumentError);
}

TEST_CASE("a constant that is asked for need not be set") {
    const std::string source = R"(
constant int mode [[function_constant(0)]];
constant int used = is_function_constant_defined(mode) ? mode : 42;
kernel void k(device int* out) { out[0] = used; }
)";
    Buffer out = buffer_of(std::vector{0});
    launch(kernel_of(source), std::tuple{out}, {.ndrange = {1}});
    CHECK(values_of<int>(out)[0] == 42);
    launch(kernel_of(source, {}, {constant(0u, {integer(7)})}), std::tuple{out}, {.ndrange = {1}});
    CHECK(values_of<int>(out)[0] == 7);
}

TEST_CASE("kernels are found by name") {
    const Library library = device().compile(metal_header + constants);
    CHECK(library.function_names().size() == 3);
    CHECK(has(message_of<ArgumentError>([&] { library.kernel(); }), "3 kernels", "scale", "plain", "add"));
    CHECK(has(message_of<ArgumentError>([&] { library.kernel("palin"); }), "palin", "plain"));
    CHECK(has(message_of<ArgumentError>([&] { device().compile("int f() { return 1; }").kernel(); }), "0 kernels"));
}

TEST_CASE("messages have the line, the column and the text of the line") {
    try {
        device().compile("#include <metal_stdlib>\nkernel void k(device float* a) {\n    a[0] = missing;\n}\n");
        FAIL("compiled");
    } catch (const CompileError& error) {
        REQUIRE(error.diagnostics().size() >= 1);
        const Diagnostic& first = error.diagnostics()[0];
        CHECK(first.line == 3);
        CHECK(first.column == 12);
        CHECK(first.severity == Severity::error);
        CHECK(first.source_line == "    a[0] = missing;");
        CHECK(has(first.message, "missing"));
        CHECK(has(error.what(), "missing", "           ^"));
    }
    CHECK_THROWS_AS(device().compile(std::string("kernel\0void", 11)), ArgumentError);
    CHECK_THROWS_AS(device().compile("\xff\xfe"), Error);
    CompileOptions old;
    old.language_version = "9.9";
    CHECK(has(message_of<ArgumentError>([&] { device().compile("", old); }), "9.9", "3.2"));
}

TEST_CASE("macros") {
    CompileOptions options;
    options.macros = {{"VALUE", "(40 + 2)"}, {"FLAG", ""}};
    const Library library =
        device().compile("#ifdef FLAG\nkernel void k(device int* out) { out[0] = VALUE; }\n#endif", options);
    Buffer out = buffer_of(std::vector{0});
    launch(library.kernel(), std::tuple{out}, {.ndrange = {1}});
    CHECK(values_of<int>(out)[0] == 42);
}

TEST_CASE("headers given as text") {
    CompileOptions options;
    options.headers = {
        {"math/once.h", "#pragma once\n#include \"inner.h\"\ninline int twice(int x) { return 2 * inner(x); }\n"},
        {"inner.h", "#ifndef INNER\n#define INNER\ninline int inner(int x) { return x + 1; }\n#endif\n"}};
    const std::string source = metal_header + R"(
/* #include "nothing.h" */
#if 0
#include <math/once.h>
#endif
#include <inner.h>
#include "math/once.h"
#include <math/once.h>
kernel void k(device int* out) { out[0] = twice(20); })";
    Buffer out = buffer_of(std::vector{0});
    launch(device().compile(source, options).kernel(), std::tuple{out}, {.ndrange = {1}});
    CHECK(values_of<int>(out)[0] == 42);
    // Other text under the same name is another library.
    const Library before = device().compile(source, options);
    options.headers[1].second += "// changed\n";
    CHECK_FALSE(before == device().compile(source, options));

    const std::string message = message_of<CompileError>([&] {
        device().compile("#include <metal_stdlib>\n\n#include \"absent.h\"\nkernel void k(device int* o) {}", options);
    });
    CHECK(has(message, ":3:", "absent.h"));
}

TEST_CASE("an error behind an include keeps its line") {
    CompileOptions options;
    options.headers = {{"two.h", "// one\nint broken(int x) { return y; }\n"}};
    auto line_and_file = [&](const std::string& source) {
        try {
            device().compile(source, options);
        } catch (const CompileError& error) {
            return std::pair(error.diagnostics()[0].line, error.diagnostics()[0].file);
        }
        return std::pair(0u, std::string("compiled"));
    };
    const auto inside = line_and_file("\n#include \"two.h\"\n");
    CHECK(inside.first == 2);
    CHECK(has(inside.second, "two.h"));
    options.headers[0].second = "// fine\n";
    const auto behind = line_and_file("\n#include \"two.h\"\nint f() { return z; }\n");
    CHECK(behind.first == 3);
}

TEST_CASE("folders of headers") {
    const std::filesystem::path folder = std::filesystem::temp_directory_path() / "metalki-test-includes";
    std::filesystem::create_directories(folder / "sub");
    auto write = [&](const char* name, const std::string& text) { std::ofstream(folder / name) << text; };
    write("outer.h", "#pragma once\n#include \"sub/deep.h\"\n");
    write("sub/deep.h", "#pragma once\n#include \"beside.h\"\n");
    write("sub/beside.h", "#define VALUE 1\n");
    CompileOptions options;
    options.include_dirs = {folder.string()};
    const std::string source = "#include <outer.h>\nkernel void k(device int* out) { out[0] = VALUE; }";
    auto value = [&] {
        Buffer out = buffer_of(std::vector{0});
        launch(device().compile(source, options).kernel(), std::tuple{out}, {.ndrange = {1}});
        return values_of<int>(out)[0];
    };
    CHECK(value() == 1);
    write("sub/beside.h", "#define VALUE 2\n");
    CHECK(value() == 2);
    std::filesystem::remove_all(folder);
}

TEST_CASE("reflection") {
    const Kernel kernel = kernel_of(R"(
struct Particle { float3 position; packed_float3 velocity; uchar kind; };
kernel void k(device Particle* particles, constant Particle& one, device const packed_float3* packed, constant uint2& size,
              device atomic_uint* counter, const device half4x4* matrices, threadgroup float4* scratch,
              device uchar* bytes [[buffer(9)]]) {
    particles[0].kind = one.kind + uchar(packed[0][0]) + uchar(size.x) + uchar(matrices[0][0][0]) + bytes[0];
    scratch[0] = 1; atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
})");
    const auto arguments = kernel.arguments();
    REQUIRE(arguments.size() == 8);
    CHECK(arguments[0].name == "particles");
    CHECK(arguments[0].type_name == "Particle");
    CHECK(arguments[0].nbytes == 32);
    CHECK(arguments[0].alignment == 16);
    REQUIRE(arguments[0].members.size() == 3);
    CHECK(arguments[0].members[1].offset == 16);
    CHECK(arguments[0].members[2].offset == 28);
    CHECK(arguments[1].is_reference);
    CHECK(arguments[1].access == Access::read);
    CHECK(arguments[2].type_name == "packed_float3");
    CHECK(arguments[2].nbytes == 12);
    CHECK_FALSE(arguments[2].is_reference);
    CHECK(arguments[3].type_name == "uint2");
    CHECK(arguments[3].scalar == ScalarType::uint32);
    CHECK(arguments[3].rows == 2);
    CHECK(arguments[4].is_atomic);
    CHECK(arguments[4].scalar == ScalarType::uint32);
    CHECK(arguments[5].columns == 4);
    CHECK(arguments[5].scalar == ScalarType::float16);
    CHECK(arguments[6].kind == ArgumentKind::threadgroup);
    CHECK(arguments[6].index == 0);
    CHECK(arguments[7].index == 9);
    CHECK(kernel.thread_execution_width() == 32);
    CHECK(kernel.max_total_threads_per_threadgroup() == 1024);
    CHECK(kernel.max_work_group_size(1) == 1);
}

TEST_CASE("text of a kernel") {
    const Kernel kernel = kernel_of("kernel void k(device float* a, uint i [[thread_position_in_grid]]) { a[i] *= 2; }");
    CHECK(has(kernel.disassemble("msl"), "kernel void k"));
    CHECK(has(message_of<ArgumentError>([&] { kernel.disassemble("poem"); }), "poem", "msl"));
    if (device().kind() == "cpu") {
        CHECK(has(kernel.disassemble("llvm"), "fmul"));
        CHECK(kernel.disassemble("asm").size() > 100);
        CHECK(has(kernel.disassemble("ptx"), ".entry"));
    }
}

TEST_CASE("devices") {
    REQUIRE_FALSE(devices().empty());
    CHECK(find_device("0") == devices()[0]);
    CHECK(find_device(device().info().id) == device());
    CHECK(has(message_of<ArgumentError>([] { find_device("tpu:3"); }), "tpu:3", device().info().id));
    CHECK(device().info().multiprocessor_count >= 1);
    CHECK_THROWS_AS(device().allocate(std::size_t{1} << 60), OutOfMemoryError);
    CHECK_THROWS_AS(device().allocate(std::numeric_limits<std::size_t>::max()), OutOfMemoryError);
    for (const auto& [name, value] : version_info())
        CHECK_FALSE(value.empty());
}
