// Textures and samplers as compiled kernels see them: formats, bounds, filtering, shapes. No Metal API involved.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "compiler/compiler.hpp"
#include "compiler/texture_abi.hpp"
#include "cpu/executor.hpp"

namespace {

using namespace metalki;
using compiler::SamplerState;
using compiler::TextureDescriptor;

constexpr std::uint64_t no_lod_limit = std::uint64_t(0xffff) << compiler::sampler_bits::lod_max;

// A texture with memory of its own, rows packed tightly.
struct Texture {
    TextureDescriptor descriptor{};
    std::vector<std::vector<std::uint8_t>> levels;

    Texture(std::uint32_t format, std::uint32_t width, std::uint32_t height, std::uint32_t depth = 1, std::uint32_t layers = 1,
            std::uint32_t mips = 1, std::uint32_t faces = 1) {
        descriptor.format = format;
        descriptor.width = width;
        descriptor.height = height;
        descriptor.depth = depth;
        descriptor.array_length = layers;
        descriptor.mip_count = mips;
        descriptor.sample_count = 1;
        for (std::uint32_t l = 0; l < mips; ++l) {
            auto side = [l](std::uint32_t size) { return size >> l ? size >> l : 1; };
            std::uint64_t row = side(width) * compiler::pixel_bytes(format), image = row * side(height);
            levels.emplace_back(image * side(depth) * layers * faces);
            descriptor.levels[l] = {levels.back().data(), row, image};
        }
    }
    template <class T> T* data(std::size_t level = 0) { return reinterpret_cast<T*>(levels[level].data()); }
};

std::string program(const std::string& parameters, const std::string& body) {
    return "#include <metal_stdlib>\nusing namespace metal;\nkernel void k(" + parameters +
           ", uint2 p [[thread_position_in_grid]]) {" + body + "}";
}

// Runs kernel `k` over width x height threads with the addresses of the arguments in order of declaration.
void run(const std::string& source, std::vector<void*> arguments, unsigned width = 1, unsigned height = 1) {
    compiler::Options options;
    options.math_mode = compiler::MathMode::safe;
    auto library = compiler::Library::from_source(source, options);
    auto code = library->make_kernel("k", {}, cpu::runtime_symbols());
    cpu::Executor executor(1);
    cpu::Dispatch dispatch;
    dispatch.code = code.get();
    dispatch.arguments = arguments;
    dispatch.grid = {width, height, 1};
    dispatch.threadgroup = {8, 1, 1};
    auto fault = executor.run(dispatch);
    REQUIRE_MESSAGE(!fault, (fault ? fault->message : std::string()));
}

std::vector<float> read_pixels(Texture& texture, unsigned width, unsigned height) {
    std::vector<float> out(width * height * 4, -7.0f);
    run(program("texture2d<float, access::read> t, device float4* o",
                "o[p.y * " + std::to_string(width) + " + p.x] = t.read(p);"),
        {&texture.descriptor, out.data()}, width, height);
    return out;
}

} // namespace

TEST_CASE("formats decode to the values that Metal defines") {
    Texture bgra(80, 1, 1);
    std::memcpy(bgra.data<char>(), "\x00\x80\xff\x33", 4);
    CHECK(read_pixels(bgra, 1, 1) == std::vector<float>{1.0f, 128.0f / 255.0f, 0.0f, 0.2f});

    Texture snorm(32, 2, 1); // RG8Snorm
    std::memcpy(snorm.data<char>(), "\x80\x7f\x81\x00", 4);
    CHECK(read_pixels(snorm, 2, 1) == std::vector<float>{-1, 1, 0, 1, -1, 0, 0, 1});

    Texture srgb(71, 1, 1);
    std::memcpy(srgb.data<char>(), "\xff\x80\x00\x80", 4);
    auto v = read_pixels(srgb, 1, 1);
    CHECK(v[0] == 1.0f);
    CHECK(v[1] == doctest::Approx(0.2158605));
    CHECK(v[2] == 0.0f);
    CHECK(v[3] == 128.0f / 255.0f);

    Texture packed(92, 1, 1); // RG11B10Float: 1, 2, 0.5
    *packed.data<std::uint32_t>() = 0x3c0u | 0x400u << 11 | 0x1c0u << 22;
    CHECK(read_pixels(packed, 1, 1) == std::vector<float>{1, 2, 0.5, 1});

    Texture alpha(1, 1, 1);
    *alpha.data<std::uint8_t>() = 255;
    CHECK(read_pixels(alpha, 1, 1) == std::vector<float>{0, 0, 0, 1});
}

TEST_CASE("what is written is read back, for every format that kernels know") {
    for (std::uint32_t format = 0; format < 260; ++format) {
        if (compiler::pixel_bytes(format) == 0) {
            continue;
        }
        CAPTURE(format);
        Texture texture(format, 3, 2);
        std::vector<float> out(24);
        const bool integer = format == 91 || (format < 200 && format / 10 != 9 && (format % 10 == 3 || format % 10 == 4));
        const bool is_signed = integer && format % 10 == 4;
        const std::string type = !integer ? "float" : is_signed ? "int" : "uint";
        run(program("texture2d<" + type + ", access::read_write> t, device float4* o",
                    "if (p.x == 1) t.write(" + type + "4(1), p); o[p.y * 3 + p.x] = float4(t.read(p));"),
            {&texture.descriptor, out.data()}, 3, 2);
        // Channels that the format lacks read as 0, alpha as 1.
        const std::uint32_t group = format / 10;
        const bool has_green = format != 1 && format < 200 && group != 1 && group != 2 && group != 5;
        CHECK(out[4] == (format == 1 ? 0.0f : 1.0f));
        CHECK(out[5] == (has_green ? 1.0f : 0.0f));
        CHECK(out[7] == 1.0f);
        CHECK(out[0] == 0.0f);
    }
}

TEST_CASE("out of bounds: reads give zero, writes have no effect") {
    Texture texture(55, 2, 2); // R32Float
    std::vector<float> out(8, 9.0f);
    run(program("texture2d<float, access::read_write> t, device float* o",
                "t.write(float4(5), p); t.write(float4(6), p, 3); t.write(float4(7), uint2(0xffffffff));"
                "o[p.x] = t.read(p).x; o[4 + p.x] = t.read(p, 1).x;"),
        {&texture.descriptor, out.data()}, 4, 1);
    CHECK(out == std::vector<float>{5, 5, 0, 0, 0, 0, 0, 0});
    CHECK(texture.data<float>()[2] == 0.0f);
}

TEST_CASE("integers keep their value and are clamped to the format") {
    Texture texture(14, 1, 1); // R8Sint
    std::vector<int> out(2);
    run(program("texture2d<int, access::read_write> t, device int* o",
                "t.write(int4(-500), uint2(0)); o[0] = t.read(uint2(0)).x; t.write(int4(-5), ushort2(0)); o[1] = "
                "t.read(ushort2(0)).x;"),
        {&texture.descriptor, out.data()});
    CHECK(out == std::vector<int>{-128, -5});
}

TEST_CASE("address modes") {
    Texture texture(55, 4, 1);
    for (int i = 0; i < 4; ++i) {
        texture.data<float>()[i] = float(i + 1);
    }
    auto sample = [&](const std::string& mode) {
        std::vector<float> out(8);
        run(program("texture2d<float> t, device float* o",
                    "constexpr sampler s(coord::normalized, filter::nearest, border_color::opaque_white, address::" + mode +
                        "); o[p.x] = t.sample(s, float2((float(p.x) - 1.5f) / 4.0f, 0.5f)).x;"),
            {&texture.descriptor, out.data()}, 8);
        return out;
    };
    CHECK(sample("clamp_to_edge") == std::vector<float>{1, 1, 1, 2, 3, 4, 4, 4});
    CHECK(sample("repeat") == std::vector<float>{3, 4, 1, 2, 3, 4, 1, 2});
    CHECK(sample("mirrored_repeat") == std::vector<float>{2, 1, 1, 2, 3, 4, 4, 3});
    CHECK(sample("clamp_to_zero") == std::vector<float>{0, 0, 1, 2, 3, 4, 0, 0});
    CHECK(sample("clamp_to_border") == std::vector<float>{1, 1, 1, 2, 3, 4, 1, 1});
}

TEST_CASE("a sampler argument, pixel coordinates and linear filtering") {
    Texture texture(55, 2, 2);
    const float texels[] = {0, 4, 8, 12};
    std::memcpy(texture.data<float>(), texels, sizeof texels);
    SamplerState state{no_lod_limit | 1u << compiler::sampler_bits::min_filter | 1u << compiler::sampler_bits::mag_filter |
                       1u << compiler::sampler_bits::pixel_coordinates};
    std::vector<float> out(4);
    run(program("texture2d<float> t, sampler s, device float* o",
                "o[0] = t.sample(s, float2(1)).x; o[1] = t.sample(s, float2(0.75, 0.5)).x; o[2] = t.sample(s, float2(-9, 9)).x;"
                "o[3] = t.sample(s, float2(0.5), int2(1, 0)).x;"),
        {&texture.descriptor, &state, out.data()});
    CHECK(out == std::vector<float>{6, 1, 8, 4});
}

TEST_CASE("levels of detail") {
    Texture texture(55, 4, 4, 1, 1, 3);
    for (std::size_t l = 0; l < 3; ++l) {
        for (std::size_t i = 0; i < texture.levels[l].size() / 4; ++i) {
            texture.data<float>(l)[i] = float(10 * l);
        }
    }
    std::vector<float> out(8);
    run(program(
            "texture2d<float> t, device float* o",
            "constexpr sampler n(mip_filter::nearest), l(mip_filter::linear), c(mip_filter::linear, lod_clamp(0.5f, 1.0f)), no;"
            "float2 x(0.5); o[0] = t.sample(n, x, level(1)).x; o[1] = t.sample(l, x, level(0.25)).x;"
            "o[2] = t.sample(c, x, level(2)).x; o[3] = t.sample(c, x).x; o[4] = t.sample(no, x, level(2)).x;"
            "o[5] = t.sample(l, x, gradient2d(float2(0.5, 0), float2(0))).x; o[6] = t.get_width(1) * 10 + "
            "t.get_num_mip_levels();"
            "o[7] = t.read(uint2(0), 2).x;"),
        {&texture.descriptor, out.data()});
    CHECK(out == std::vector<float>{10, 2.5, 10, 5, 0, 10, 23, 20});
}

TEST_CASE("arrays, volumes, cubes and depth") {
    Texture layers(55, 2, 1, 1, 3);
    Texture volume(55, 2, 2, 2);
    Texture cube(55, 1, 1, 1, 1, 1, 6);
    Texture depth(252, 2, 2);
    for (int i = 0; i < 6; ++i) {
        layers.data<float>()[i] = float(i);
        cube.data<float>()[i] = float(i);
    }
    for (int i = 0; i < 8; ++i) {
        volume.data<float>()[i] = float(i);
    }
    const float depths[] = {0.25f, 0.75f, 0.5f, 1.0f};
    std::memcpy(depth.data<float>(), depths, sizeof depths);
    std::vector<float> out(16);
    run(program(
            "texture2d_array<float> a, texture3d<float> v, texturecube<float> c, depth2d<float> d, device float* o",
            "constexpr sampler n, l(filter::linear), less(filter::linear, compare_func::less);"
            "o[0] = a.read(uint2(1, 0), 2).x; o[1] = a.sample(n, float2(0.9, 0.5), 1).x; o[2] = a.get_array_size();"
            "o[3] = v.read(uint3(1, 0, 1)).x; o[4] = v.sample(l, float3(0.5)).x; o[5] = v.get_depth();"
            "o[6] = c.sample(n, float3(-1, 0, 0)).x; o[7] = c.sample(n, float3(0.1, 0.2, -3)).x; o[8] = c.read(uint2(0), 2).x;"
            "o[9] = d.sample(l, float2(0.5)); o[10] = d.sample_compare(less, float2(0.5), 0.6f); o[11] = d.read(uint2(1));"
            "float4 g = d.gather(n, float2(0.5)); o[12] = g.x; o[13] = g.y; o[14] = g.z; o[15] = g.w;"),
        {&layers.descriptor, &volume.descriptor, &cube.descriptor, &depth.descriptor, out.data()});
    CHECK(out == std::vector<float>{5, 3, 3, 5, 3.5, 2, 1, 5, 2, 0.625, 0.5, 1, 0.5, 1, 0.75, 0.25});
}

TEST_CASE("access that the declaration rules out is refused") {
    auto compiles = [](const std::string& source) {
        try {
            compiler::Library::from_source(source, {});
            return std::string();
        } catch (const compiler::CompileError& error) {
            return std::string(error.what());
        }
    };
    CHECK(compiles(program("texture2d<float, access::read> t", "t.write(float4(0), p);")).find("not writable") !=
          std::string::npos);
    CHECK(compiles(program("texture2d<float, access::write> t", "t.read(p);")).find("write-only") != std::string::npos);
    CHECK(
        compiles(program("texture2d<float, access::read> t, sampler s", "t.sample(s, float2(0));")).find("cannot be sampled") !=
        std::string::npos);
    CHECK(compiles(program("texture2d<float, access::read> t", "t.read(p);")).empty());
}

TEST_CASE("reflection tells how a texture is accessed") {
    auto library = compiler::Library::from_source(
        program("texture2d<float> a, texture2d<float, access::read> b, texture2d<int, access::write> c,"
                "texture3d<half, access::read_write> d, sampler s",
                ""),
        {});
    auto arguments = library->functions().front().arguments;
    REQUIRE(arguments.size() == 5);
    const compiler::Access expected[] = {compiler::Access::read, compiler::Access::read, compiler::Access::write,
                                         compiler::Access::read_write};
    for (std::size_t i = 0; i < 4; ++i) {
        CHECK(arguments[i].kind == compiler::ArgumentKind::texture);
        CHECK(arguments[i].index == i);
        CHECK(arguments[i].access == expected[i]);
    }
    CHECK(arguments[4].kind == compiler::ArgumentKind::sampler);
}
