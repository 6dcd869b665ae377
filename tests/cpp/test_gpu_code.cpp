// Forms of code for GPUs that a launcher can ask for, seen in their PTX. Needs no GPU.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <string>

#include "compiler/gpu_code.hpp"

namespace {

using namespace metalki::compiler;

constexpr const char* scale = R"(
    kernel void scale(device float* data [[buffer(0)]], constant float& factor [[buffer(1)]], constant uint& n [[buffer(2)]],
                      uint i [[thread_position_in_grid]]) { if (i < n) data[i] *= factor; })";
constexpr const char* lanes = R"(
    kernel void lanes(device float* data [[buffer(0)]], uint3 p [[thread_position_in_grid]],
                      uint i [[thread_index_in_threadgroup]]) { data[p.x + i] = metal::simd_sum(data[p.y + p.z]); })";

std::shared_ptr<const GpuCode> make(const char* source, const char* name, const GpuRequest& request) {
    auto library = Library::from_source(source, Options());
    return make_gpu_code(*library, name, {}, request);
}

bool has(const GpuCode& code, const char* text) {
    return code.ptx.find(text) != std::string::npos;
}

TEST_CASE("parameters are laid out as the launcher is told") {
    const auto code = make(scale, "scale", {});
    CHECK(code->entry == "scale");
    CHECK(code->parameter_offsets == std::vector<std::uint32_t>{56, 64, 72});
    CHECK(code->parameter_bytes == 80);
    CHECK_FALSE(code->prints);
    CHECK(has(*code, ".target sm_90"));
}

TEST_CASE("constants by value lie among the parameters") {
    GpuRequest request;
    request.value_bytes = {0, 4, 4};
    const auto code = make(scale, "scale", request);
    CHECK(code->parameter_offsets == std::vector<std::uint32_t>{56, 64, 80});
    CHECK(code->parameter_bytes == 84);
    CHECK(has(*code, ".param .align 16 .b8 scale_param_14[4]"));
    CHECK_FALSE(has(*code, "ld.global.nc"));
    CHECK_FALSE(has(*code, ".local"));
}

TEST_CASE("a buffer that kernels write is no value") {
    GpuRequest request;
    request.value_bytes = {4};
    CHECK_THROWS_AS(make(scale, "scale", request), SpecializationError);
}

TEST_CASE("known threadgroups") {
    GpuRequest request;
    request.threadgroup = Uint3{8, 4, 2};
    CHECK(has(*make(lanes, "lanes", request), ".reqntid 8, 4, 2"));
    request.driver_knows_size = false;
    CHECK_FALSE(has(*make(lanes, "lanes", request), ".reqntid"));
    request.driver_knows_size = true;
    request.folded = true;
    const auto folded = make(lanes, "lanes", request);
    CHECK(has(*folded, ".reqntid 64, 1, 1"));
    CHECK_FALSE(has(*folded, "%tid.y"));
}

TEST_CASE("whole grids of one axis need no guard") {
    GpuRequest request;
    request.whole = true;
    request.axes = 1;
    const auto code = make(scale, "scale", request);
    CHECK(has(*code, "%ctaid.x"));
    CHECK_FALSE(has(*code, "%ctaid.y"));
    CHECK_FALSE(has(*code, "min.u32"));
}

// A row of a product a SIMD-group, two of them a threadgroup.
std::string rows(const char* before, const char* behind) {
    return std::string(R"(
    #include <metal_stdlib>
    using namespace metal;
    kernel void rows(device float* out [[buffer(0)]], device const float* a [[buffer(1)]], device const float* x [[buffer(2)]],
                     constant uint& n [[buffer(3)]], uint2 group [[threadgroup_position_in_grid]],
                     uint simd [[simdgroup_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {
        uint row = group.x * 2 + simd; float sum = 0;
    )") + before +
           R"(
        for (uint k = 8 * lane; k < n; k += 256)
            for (uint i = 0; i < 8; ++i) sum += a[row * n + k + i] * x[k + i];
        sum = simd_sum(sum);
    )" + behind +
           "}";
}

GpuRequest request_of_pairs() {
    GpuRequest request;
    request.whole = request.may_pair = true;
    request.axes = 2;
    request.threadgroup = Uint3{32, 2, 1};
    return request;
}

TEST_CASE("two threadgroups in a block read what both need once") {
    const std::string source = rows("", "if (lane == 0 && row < n) out[row] = sum;");
    const auto pair = make(source.c_str(), "rows", request_of_pairs());
    CHECK(pair->threadgroups_per_block == 2);
    GpuRequest request = request_of_pairs();
    request.may_pair = false;
    const auto single = make(source.c_str(), "rows", request);
    CHECK(single->threadgroups_per_block == 1);
    const auto count = [](const GpuCode& code, const char* text) {
        std::size_t found = 0;
        for (std::size_t at = code.ptx.find(text); at != std::string::npos; at = code.ptx.find(text, at + 1))
            ++found;
        return found;
    };
    CHECK(count(*single, "ld.global.f32") == 16);
    CHECK(count(*pair, "ld.global.f32") == 24);
    CHECK(count(*single, "st.global.f32") == 1);
    CHECK(count(*pair, "st.global.f32") == 2);
    CHECK(count(*pair, "bar.warp.sync") == 1); // lanes that wrote a row and those that did not
}

TEST_CASE("threadgroups that could see each other are no pairs") {
    const char* const plain = "if (lane == 0) out[row] = sum;";
    const auto per_block = [](const std::string& source) {
        return make(source.c_str(), "rows", request_of_pairs())->threadgroups_per_block;
    };
    CHECK(per_block(rows("", plain)) == 2);
    CHECK(per_block(rows("threadgroup float own[2]; own[simd] = x[lane]; threadgroup_barrier(mem_flags::mem_threadgroup);"
                         " sum = own[simd ^ 1];",
                         plain)) == 1);
    CHECK(per_block(rows("", "atomic_fetch_add_explicit((device atomic_int*)out, int(sum), memory_order_relaxed);")) == 1);
    CHECK(per_block(rows("out[row] = 1; sum = out[1];", plain)) == 1); // the second one's own
    CHECK(per_block(rows("x += row;", plain)) == 1);                   // nothing is the same for both
}

TEST_CASE("targets") {
    GpuRequest request;
    request.target.architecture = 120; // newer than LLVM knows
    CHECK(has(*make(scale, "scale", request), ".target sm_90"));
    request.target.architecture = 75;
    const auto old = make(lanes, "lanes", request);
    CHECK(has(*old, ".target sm_75"));
    request.target.architecture = 60;
    CHECK_THROWS_AS(make(scale, "scale", request), SpecializationError);
    request.target.architecture = 90;
    request.target.ptx_version = 70; // the driver reads no sm_90
    CHECK(has(*make(scale, "scale", request), ".target sm_80"));
}

TEST_CASE("libdevice that is not there is named") {
    GpuRequest request;
    request.target.libdevice = "/nowhere/libdevice.10.bc";
    constexpr const char* source = "kernel void k(device float* x) { x[0] = metal::log(x[0]); }";
    CHECK_THROWS_WITH_AS(make(source, "k", request), doctest::Contains("/nowhere/libdevice.10.bc"), SpecializationError);
}

} // namespace
