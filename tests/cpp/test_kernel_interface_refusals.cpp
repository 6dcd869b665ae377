// Everything that a launch refuses, and that a refused launch changes nothing.
#include <array>
#include <cstdint>
#include <limits>

#include "kernel_interface_fixture.hpp"

using namespace metalki;

namespace {

const std::string source = R"(
struct Params { float scale; uint count; };
kernel void scaled(device float* out, device const float* in, constant Params& p, constant uint& n, threadgroup float* scratch,
                   uint i [[thread_position_in_grid]], uint l [[thread_index_in_threadgroup]]) {
    scratch[l] = in[i];
    if (i < n) out[i] = scratch[l] * p.scale;
}
)";

struct Params {
    float scale;
    std::uint32_t count;
};

struct Fixture {
    Kernel kernel = kernel_of(source);
    Buffer out = buffer_of(std::vector<float>(64, -1));
    Buffer in = buffer_of(std::vector<float>(64, 3));
    Params params{2, 64};

    void unchanged() const { CHECK(values_of<float>(out) == std::vector<float>(64, -1)); }

    // Refused with a message that names all of `parts`.
    template <class Tuple, class... Parts> void refused(const Tuple& arguments, const LaunchOptions& options, Parts... parts) {
        const std::string message = message_of<ArgumentError>([&] { launch(kernel, arguments, options); });
        CAPTURE(message);
        CHECK(has(message, "scaled", parts...));
        unchanged();
    }
    auto good() const { return std::tuple{out, in, params, 64u, threadgroup(1024)}; }
};

} // namespace

TEST_CASE_FIXTURE(Fixture, "the good launch works") {
    launch(kernel, good(), {.ndrange = {64}});
    CHECK(values_of<float>(out) == std::vector<float>(64, 6));
}

TEST_CASE_FIXTURE(Fixture, "geometry") {
    refused(good(), {}, "neither ndrange nor numworkgroups");
    refused(good(), {.ndrange = {64}, .numworkgroups = {1}}, "both given");
    refused(good(), {.ndrange = {64}, .workgroupsize = {0}}, "(0, 1, 1)", "zero");
    refused(good(), {.ndrange = {64}, .workgroupsize = {2048}}, "2048", "1024");
    refused(good(), {.ndrange = {64}, .workgroupsize = {32, 32, 2}}, "(32, 32, 2)", "1024");
    refused(good(), {.ndrange = {64}, .workgroupsize = {std::uint64_t{1} << 40, std::uint64_t{1} << 40}}, "1024");
    refused(good(), {.ndrange = {64}, .workgroupsize = {64}, .max_work_group_size = 32}, "32");
    refused(good(), {.ndrange = {std::uint64_t{1} << 32}}, "4294967295");
    refused(good(), {.numworkgroups = {std::numeric_limits<std::uint64_t>::max()}, .workgroupsize = {2}}, "4294967295");
    CHECK_THROWS_AS((LaunchOptions{.ndrange = {-1}}), ArgumentError);
    CHECK_THROWS_AS((LaunchOptions{.ndrange = {4, -4}}), ArgumentError);
}

TEST_CASE_FIXTURE(Fixture, "number of arguments") {
    refused(std::tuple{out, in, params, 64u}, {.ndrange = {64}}, "5 arguments", "out, in, p, n, scratch", "4 were given");
    refused(std::tuple_cat(good(), std::tuple{1}), {.ndrange = {64}}, "5 arguments", "6 were given");
    refused(std::tuple{}, {.ndrange = {64}}, "0 were given");
    const std::string message =
        message_of<ArgumentError>([&] { launch(kernel, std::span<const ArgumentValue>{}, {.ndrange = {64}}); });
    CHECK(has(message, "5 arguments", "0 were given"));
}

TEST_CASE_FIXTURE(Fixture, "kinds of arguments") {
    refused(std::tuple{1.0f, in, params, 64u, threadgroup(1024)}, {.ndrange = {64}}, "\"out\"", "number");
    refused(std::tuple{std::nullopt, in, params, 64u, threadgroup(1024)}, {.ndrange = {64}}, "\"out\"", "nothing was given");
    refused(std::tuple{out, in, 2.0f, 64u, threadgroup(1024)}, {.ndrange = {64}}, "\"p\"", "number");
    refused(std::tuple{out, in, params, 64u, out}, {.ndrange = {64}}, "\"scratch\"", "buffer");
    refused(std::tuple{out, in, params, 64u, 1024}, {.ndrange = {64}}, "\"scratch\"");
    refused(std::tuple{out, in, params, 64u, std::nullopt}, {.ndrange = {64}}, "\"scratch\"", "threadgroup memory");
    refused(std::tuple{threadgroup(64), in, params, 64u, threadgroup(1024)}, {.ndrange = {64}}, "\"out\"", "threadgroup");
}

TEST_CASE_FIXTURE(Fixture, "values that do not fit") {
    refused(std::tuple{out, in, params, -1, threadgroup(1024)}, {.ndrange = {64}}, "\"n\"", "-1", "uint");
    refused(std::tuple{out, in, params, 64.0, threadgroup(1024)}, {.ndrange = {64}}, "\"n\"", "64.0", "uint");
    refused(std::tuple{out, in, params, std::uint64_t{1} << 32, threadgroup(1024)}, {.ndrange = {64}}, "\"n\"", "4294967296");
    refused(std::tuple{out, in, std::array<float, 3>{}, 64u, threadgroup(1024)}, {.ndrange = {64}}, "\"p\"", "12 bytes", "8");
    struct Large {
        float values[4];
    };
    refused(std::tuple{out, in, Large{}, 64u, threadgroup(1024)}, {.ndrange = {64}}, "\"p\"", "8", "16");
}

TEST_CASE_FIXTURE(Fixture, "threadgroup memory") {
    refused(std::tuple{out, in, params, 64u, threadgroup(0)}, {.ndrange = {64}}, "\"scratch\"", "0 bytes");
    refused(std::tuple{out, in, params, 64u, threadgroup(32784)}, {.ndrange = {64}}, "\"scratch\"", "32784", "32768");
    refused(std::tuple{out, in, params, 64u, threadgroup(std::numeric_limits<std::size_t>::max())}, {.ndrange = {64}}, "32768");
}

TEST_CASE_FIXTURE(Fixture, "buffers") {
    Buffer gone = default_device().allocate(256, Storage::shared, "weights");
    gone.free();
    refused(std::tuple{out, gone, params, 64u, threadgroup(1024)}, {.ndrange = {64}}, "\"in\"", "weights", "freed");
    refused(std::tuple{out, default_device().allocate(0), params, 64u, threadgroup(1024)}, {.ndrange = {64}}, "\"in\"", "0");
    refused(std::tuple{out, in.slice(4, 2), params, 64u, threadgroup(1024)}, {.ndrange = {64}}, "\"in\"", "4 bytes", "2");
    refused(std::tuple{out, in.slice(2, 128), params, 64u, threadgroup(1024)}, {.ndrange = {64}}, "\"in\"", "byte 2", "4");
    const std::array uses{gone};
    refused(good(), {.ndrange = {64}, .uses = uses}, "uses", "freed");
    ArgumentValue wild = ArgumentValue::of(in);
    wild.offset = 128;
    refused(std::tuple{out, wild, params, 64u, threadgroup(1024)}, {.ndrange = {64}}, "\"in\"", "not inside");
}

TEST_CASE_FIXTURE(Fixture, "an empty ndrange launches nothing, but is checked") {
    launch(kernel, good(), {.ndrange = {0}});
    launch(kernel, good(), {.ndrange = {4, 0, 4}});
    launch(kernel, good(), {.numworkgroups = {0}, .workgroupsize = {4}});
    unchanged();
    refused(std::tuple{out, in}, {.ndrange = {0}}, "5 arguments");
    launch(kernel, std::tuple{default_device().allocate(0), in, params, 0u, threadgroup(16)}, {.ndrange = {0}});
}

TEST_CASE("static and dynamic threadgroup memory count together") {
    Kernel kernel = kernel_of(R"(
kernel void both(device float* out, threadgroup float* more, uint i [[thread_index_in_threadgroup]]) {
    threadgroup float own[4096];
    own[i] = i; more[i] = i;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    out[i] = own[(i + 1) % 32] + more[(i + 1) % 32];
})");
    CHECK(kernel.static_threadgroup_memory_length() == 16384);
    Buffer out = buffer_of(std::vector<float>(32));
    launch(kernel, std::tuple{out, threadgroup(16384)}, {.ndrange = {32}, .workgroupsize = {32}});
    CHECK(values_of<float>(out)[31] == 0);
    CHECK(values_of<float>(out)[1] == 4);
    const std::string message = message_of<ArgumentError>(
        [&] { launch(kernel, std::tuple{out, threadgroup(16400)}, {.ndrange = {32}, .workgroupsize = {32}}); });
    CHECK(has(message, "both", "32784", "16384", "32768"));
}

TEST_CASE("too much static threadgroup memory is refused when the kernel is made") {
    const std::string message = message_of<CompileError>([] {
        kernel_of("kernel void k(device float* o, uint i [[thread_position_in_grid]]) "
                  "{ threadgroup float s[9000]; s[i] = o[i]; o[i] = s[i + 1]; }");
    });
    CHECK(has(message, "36000", "32768", "\"k\""));
}

TEST_CASE("thirty-one buffers and no more") {
    auto with = [](int count) {
        std::string parameters, sum = "0";
        for (int i = 0; i < count; ++i) {
            parameters += "device float* b" + std::to_string(i) + ", ";
            sum += " + b" + std::to_string(i) + "[0]";
        }
        return "kernel void many(" + parameters + "uint i [[thread_position_in_grid]]) { b0[0] = " + sum + "; }";
    };
    Kernel kernel = kernel_of(with(31));
    REQUIRE(kernel.arguments().size() == 31);
    std::vector<Buffer> buffers;
    std::vector<ArgumentValue> values;
    for (int i = 0; i < 31; ++i)
        values.push_back(ArgumentValue::of(buffers.emplace_back(buffer_of(std::vector<float>{float(i)}))));
    launch(kernel, values, {.ndrange = {1}});
    CHECK(values_of<float>(buffers[0])[0] == 465);
    for (int count : {32, 41})
        CHECK(has(message_of<CompileError>([&] { kernel_of(with(count)); }), "31"));
}
