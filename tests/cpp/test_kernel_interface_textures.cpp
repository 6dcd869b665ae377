// Textures and samplers through the public headers.
#include "kernel_interface_fixture.hpp"

using namespace metalki;

namespace {

TextureOptions plane(std::string format, std::size_t width, std::size_t height, Access access = Access::read_write) {
    TextureOptions options;
    options.format = std::move(format);
    options.width = width;
    options.height = height;
    options.access = access;
    return options;
}

const char* const look =
    "kernel void look(texture2d<float> t, sampler s, device float* o, uint i [[thread_position_in_grid]]) {"
    "o[i] = t.sample(s, float2(i + 0.5f, 0.5f)).x; }";

} // namespace

TEST_CASE("a texture and a sampler in a launch") {
    const Device device = default_device();
    Texture texture(device, plane("r32float", 3, 1));
    const std::vector<float> texels{5, 6, 7};
    texture.write(texels.data(), texture.nbytes());
    SamplerOptions options;
    options.normalized = false;
    Buffer out = buffer_of(std::vector<float>(4, -1));
    launch(kernel_of(look), std::tuple{texture, Sampler(device, options), out}, {.ndrange = {4}});
    CHECK(values_of<float>(out) == std::vector<float>{5, 6, 7, 7});
    std::vector<float> back(3);
    texture.read(back.data(), 12);
    CHECK(back == texels);
    CHECK(has(message_of<ArgumentError>([&] { texture.read(back.data(), 11); }), "12 bytes", "11"));
    CHECK(has(message_of<ArgumentError>([&] { texture.write(back.data(), 12, 1); }), "level 1"));
}

TEST_CASE("layers and levels keep their places") {
    TextureOptions options = plane("rg8uint", 4, 2);
    options.type = TextureType::d2_array;
    options.array_length = 3;
    options.mip_levels = 3;
    Texture texture(default_device(), options);
    CHECK(texture.nbytes(0) == 48);
    CHECK(texture.nbytes(2) == 6);
    for (std::size_t level = 0; level < 3; ++level) {
        std::vector<unsigned char> in(texture.nbytes(level)), out(in.size());
        for (std::size_t i = 0; i < in.size(); ++i)
            in[i] = static_cast<unsigned char>(i + 100 * level);
        texture.write(in.data(), in.size(), level);
        texture.read(out.data(), out.size(), level);
        CHECK(in == out);
    }
}

TEST_CASE("launches that are refused") {
    const Device device = default_device();
    const Kernel kernel = kernel_of(look);
    Texture texture(device, plane("r32float", 3, 1));
    Sampler sampler(device, {});
    Buffer out = buffer_of(std::vector<float>(4));
    auto message = [&](auto... arguments) {
        return message_of<ArgumentError>([&] { launch(kernel, std::tuple{arguments...}, {.ndrange = {1}}); });
    };
    CHECK(has(message(out, sampler, out), "argument 0", "does not take one"));
    CHECK(has(message(texture, texture, out), "argument 1", "texture was given"));
    CHECK(has(message(sampler, sampler, out), "argument 0", "sampler was given"));
    CHECK(has(message(texture, sampler, texture), "argument 2", "texture was given"));
    CHECK(has(message(std::nullopt, sampler, out), "nothing was given"));
    CHECK(has(message(Texture(device, plane("r32float", 3, 1, Access::write)), sampler, out), "reads", "writing only"));
    CHECK(has(message(Texture(device, plane("r32uint", 3, 1)), sampler, out), "float", "r32uint"));
    TextureOptions volume = plane("r32float", 3, 1);
    volume.type = TextureType::d3;
    CHECK(has(message(Texture(device, volume), sampler, out), "2d", "3d"));
    CHECK(has(message_of<ArgumentError>([&] { Texture(device, plane("r31float", 1, 1)); }), "r31float", "rgba8unorm"));
    CHECK(has(message_of<ArgumentError>([&] { Texture(device, plane("r32float", 0, 1)); }), "width is 0"));
    SamplerOptions both;
    both.normalized = false;
    both.address = AddressMode::repeat;
    CHECK(has(message_of<ArgumentError>([&] { Sampler(device, both); }), "pixel coordinates"));
}
