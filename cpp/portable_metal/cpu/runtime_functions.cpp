// The functions that kernels call: they hand over to the group of the running fiber.
#include <array>

#include "cpu/executor.hpp"
#include "cpu/fiber_group.hpp"
#include "cpu/message_log.hpp"

namespace metalki::cpu {

namespace {

using compiler::SimdOp;
using compiler::SimdType;

void barrier(std::uint32_t) {
    if (FiberGroup* group = FiberGroup::current())
        group->wait_at_barrier();
}

std::uint64_t simd(std::uint32_t site, std::uint32_t op, std::uint32_t type, std::uint32_t width, std::uint64_t value,
                   std::uint64_t fill, std::uint32_t operand, std::uint32_t modulo) {
    FiberGroup* group = FiberGroup::current();
    if (group == nullptr)
        return 0;
    return group->wait_for_lanes({.site = site,
                                  .kind = LaneRequest::Kind::simd,
                                  .op = static_cast<SimdOp>(op),
                                  .type = static_cast<SimdType>(type),
                                  .width = width,
                                  .operand = operand,
                                  .modulo = modulo,
                                  .value = value,
                                  .fill = fill,
                                  .result = 0,
                                  .abc = nullptr,
                                  .d = nullptr});
}

void simd_mma(std::uint32_t site, const float* abc, float* d) {
    LaneRequest request{};
    request.site = site;
    request.kind = LaneRequest::Kind::matrix;
    request.abc = abc;
    request.d = d;
    if (FiberGroup* group = FiberGroup::current())
        group->wait_for_lanes(request);
}

void converge(std::uint32_t site) {
    LaneRequest request{};
    request.site = site;
    request.kind = LaneRequest::Kind::converge;
    if (FiberGroup* group = FiberGroup::current())
        group->wait_for_lanes(request);
}

template <class Function> const void* address_of(Function* function) {
    return reinterpret_cast<const void*>(function);
}

} // namespace

std::span<const compiler::RuntimeSymbol> runtime_symbols() {
    static const std::array<compiler::RuntimeSymbol, 5> symbols{{
        {"__metalki_rt_barrier", address_of(&barrier)},
        {"__metalki_rt_simd", address_of(&simd)},
        {"__metalki_rt_simd_mma", address_of(&simd_mma)},
        {"__metalki_rt_converge", address_of(&converge)},
        {"__metalki_rt_log", address_of(&log_message)},
    }};
    return symbols;
}

} // namespace metalki::cpu
