// Compiles an MSL kernel, launches it, checks its result, and shows what a compile error looks like.
#include <cstdint>
#include <cstdio>
#include <tuple>

#include <metalki/metalki.hpp>

namespace {

constexpr const char* source = R"(#include <metal_stdlib>
using namespace metal;
kernel void vadd(device float* c, device const float* a, device const float* b, constant uint& n,
                 uint i [[thread_position_in_grid]]) {
    if (i < n) c[i] = a[i] + b[i];
}
)";

bool add_vectors(const metalki::Device& device) {
    constexpr std::size_t n = 1000;
    metalki::Kernel vadd = device.compile(source).kernel("vadd");
    metalki::Buffer a = device.allocate(n * sizeof(float));
    metalki::Buffer b = device.allocate(n * sizeof(float));
    metalki::Buffer c = device.allocate(n * sizeof(float));
    for (std::size_t i = 0; i < n; ++i) {
        static_cast<float*>(a.contents())[i] = static_cast<float>(i);
        static_cast<float*>(b.contents())[i] = 0.5f;
    }
    metalki::launch(vadd, std::tuple{c, a, b, std::uint32_t(n)}, {.ndrange = {n}});
    device.synchronize();
    for (std::size_t i = 0; i < n; ++i)
        if (static_cast<const float*>(c.contents())[i] != static_cast<float>(i) + 0.5f)
            return false;
    return true;
}

bool reports_compile_errors(const metalki::Device& device) {
    try {
        device.compile("kernel void broken(device float* a) { a[0] = undeclared; }\n");
    } catch (const metalki::CompileError& error) {
        std::printf("as expected, this does not compile:\n%s\n", error.what());
        return !error.diagnostics().empty();
    }
    return false;
}

} // namespace

int main() {
    try {
        metalki::Device device = metalki::default_device();
        const bool sums = add_vectors(device), errors = reports_compile_errors(device);
        std::printf("%s: vadd %s, compile error %s\n", device.name().c_str(), sums ? "right" : "WRONG",
                    errors ? "reported" : "NOT reported");
        return sums && errors ? 0 : 1;
    } catch (const metalki::Error& error) {
        std::fprintf(stderr, "metalki: %s\n", error.what());
        return 1;
    }
}
