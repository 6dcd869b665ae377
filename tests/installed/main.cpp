// Uses every part of the C++ interface as the documentation shows it.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <tuple>
#include <vector>

#include <metalki/metalki.hpp>

using namespace std::chrono_literals;

namespace {

const char* const source = R"(
#include <metal_stdlib>
#include <kernel_interface>
using namespace metal;
constant uint STEP [[function_constant(0)]];
kernel void fill(device uint* a, constant uint& v, KI_ARGS) { a[KI.get_global_id().x] = v; }
kernel void step(device uint* a, KI_ARGS) { a[KI.get_global_id().x] += STEP; }
kernel void reverse(device uint* a, threadgroup uint* t, KI_ARGS) {
    uint l = KI.get_local_id().x;
    t[l] = a[l] + l;
    KI.barrier();
    a[l] = t[KI.get_local_size().x - 1 - l];
}
struct list { device const uint* data; uint count; };
kernel void follow(device uint* sum, constant list& l) { for (uint i = 0; i < l.count; ++i) sum[0] += l.data[i]; }
kernel void wild(device ulong* a) { *(device uint*)(a[0]) = 1; }
kernel void endless(device atomic_uint* a) { while (!atomic_load_explicit(a, memory_order_relaxed)) {} }
kernel void pixel(texture2d<float, access::write> t, uint2 p [[thread_position_in_grid]]) { t.write(float4(p.x + 10 * p.y), p); }
)";

void check(bool right, const char* what) {
    if (!right) {
        std::printf("wrong: %s\n", what);
        std::exit(1);
    }
}

template <class Error, class Function> void check_throws(Function function, const char* part) {
    try {
        function();
    } catch (const Error& error) {
        return check(std::string(error.what()).find(part) != std::string::npos, error.what());
    }
    check(false, part);
}

} // namespace

int main() {
    const metalki::Device device = metalki::default_device();
    const metalki::Library library = device.compile(source);
    constexpr std::size_t n = 64;
    const metalki::Buffer a = device.allocate(n * sizeof(std::uint32_t));
    const auto* values = static_cast<const std::uint32_t*>(a.contents());
    const metalki::Kernel fill = library.kernel("fill");

    const metalki::Queue first(device),
        second(device, {.label = "second", .priority = metalki::Priority::high, .time_limit = 10s});
    metalki::launch(fill, std::tuple{a, 5}, {.ndrange = {n}, .queue = &first});
    second.wait_event(first.record_event());
    const std::vector constants{metalki::FunctionConstant("STEP", {std::uint64_t{7}})};
    metalki::launch(library.kernel("step", constants), std::tuple{a}, {.ndrange = {n}, .queue = &second});
    second.synchronize();
    check(values[n - 1] == 12, "events and function constants");

    auto task = metalki::spawn([&] {
        metalki::launch(library.kernel("reverse"), std::tuple{a, metalki::threadgroup(n * 4)},
                        {.ndrange = {n}, .workgroupsize = {n}});
        return 3;
    });
    check(task.result() == 3, "the value of a task");
    struct List {
        std::uint64_t data;
        std::uint32_t count;
    };
    const metalki::Buffer sum = device.allocate(4);
    const std::vector uses{a};
    metalki::launch(library.kernel("follow"), std::tuple{sum, List{a.gpu_address(), n}}, {.ndrange = {1}, .uses = uses});
    device.synchronize();
    check(values[0] == 12 + n - 1, "threadgroup memory");
    check(*static_cast<const std::uint32_t*>(sum.contents()) == 12 * n + n * (n - 1) / 2, "addresses in structs");

    const auto configuration = metalki::launch_configuration(fill, {1000, 3});
    check(configuration.numworkgroups.x() * configuration.workgroupsize.x() >= 1000, "launch_configuration");

    const metalki::Texture texture(device,
                                   {.format = "r32float", .width = 4, .height = 2, .access = metalki::Access::read_write});
    metalki::launch(library.kernel("pixel"), std::tuple{texture}, {.ndrange = {4, 2}});
    device.synchronize();
    std::vector<float> pixels(8);
    texture.read(pixels.data(), pixels.size() * sizeof(float));
    check(pixels[7] == 13, "textures");

    metalki::Profile profile;
    for (int i = 0; i < 5; ++i)
        metalki::launch(fill, std::tuple{a, i}, {.ndrange = {n}});
    profile.stop();
    check(profile.kernels().at(0).count == 5 && profile.trace().find("traceEvents") != std::string::npos, "profile");
    std::puts(profile.table().c_str());

    check_throws<metalki::CompileError>([&] { device.compile("kernel void k() { nope; }"); }, "nope");
    check_throws<metalki::ArgumentError>([&] { metalki::launch(fill, std::tuple{a, -1}, {.ndrange = {n}}); }, "-1");
    check_throws<metalki::ArgumentError>([&] { (void)library.kernel("absent"); }, "reverse");
    check_throws<metalki::OutOfMemoryError>([&] { (void)device.allocate(std::size_t{1} << 60); }, "allocate");
    metalki::launch(library.kernel("wild"), std::tuple{device.allocate(8)}, {.ndrange = {1}});
    check_throws<metalki::DeviceError>([&] { device.synchronize(); }, "wild");
    const metalki::Queue limited(device, {.time_limit = 20ms});
    metalki::launch(library.kernel("endless"), std::tuple{device.allocate(4)}, {.ndrange = {1}, .queue = &limited});
    check_throws<metalki::DeviceError>([&] { limited.synchronize(); }, "time limit");
    std::puts("everything works");
    return 0;
}
