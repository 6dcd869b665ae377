// Helps the executor's tests to write kernels in C++ and to launch them.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "cpu/executor.hpp"

namespace executor_test {

using namespace metalki;
using compiler::SimdOp;
using compiler::SimdType;
using compiler::ThreadgroupContext;
using compiler::Uint3;
using std::uint32_t;
using std::uint64_t;

template <class Function> Function symbol(std::string_view name) {
    for (const compiler::RuntimeSymbol& s : cpu::runtime_symbols())
        if (s.name == name)
            return reinterpret_cast<Function>(const_cast<void*>(s.address));
    return nullptr;
}
inline void barrier(uint32_t site) {
    static const auto function = symbol<compiler::BarrierFunction>("__metalki_rt_barrier");
    function(site);
}
inline uint64_t simd(uint32_t site, SimdOp op, SimdType type, uint32_t width, uint64_t value, uint64_t fill = 0,
                     uint32_t operand = 0, uint32_t modulo = 32) {
    static const auto function = symbol<compiler::SimdFunction>("__metalki_rt_simd");
    return function(site, static_cast<uint32_t>(op), static_cast<uint32_t>(type), width, value, fill, operand, modulo);
}
inline void converge(uint32_t site) {
    static const auto function = symbol<compiler::BarrierFunction>("__metalki_rt_converge");
    function(site);
}
inline uint32_t index_of(const ThreadgroupContext* c, uint32_t x, uint32_t y, uint32_t z) {
    const Uint3& s = c->threads_in_this_threadgroup;
    return x + s.x * (y + s.y * z);
}
template <class T> T* argument(const ThreadgroupContext* c, std::size_t slot) {
    return static_cast<T*>(c->arguments[slot]);
}

inline compiler::KernelCode looping(compiler::ThreadgroupEntry entry) {
    compiler::KernelCode code;
    code.function.name = "looping";
    code.run_threadgroup = entry;
    return code;
}
inline compiler::KernelCode waiting(compiler::ThreadEntry entry, std::size_t threadgroup_memory = 0) {
    compiler::KernelCode code;
    code.function.name = "waiting";
    code.synchronizes = true;
    code.run_thread = entry;
    code.static_threadgroup_memory = threadgroup_memory;
    return code;
}
inline std::optional<cpu::Fault> launch(cpu::Executor& executor, const compiler::KernelCode& code, Uint3 grid,
                                        Uint3 threadgroup, const std::vector<void*>& arguments) {
    cpu::Dispatch dispatch;
    dispatch.code = &code;
    dispatch.arguments = arguments;
    dispatch.grid = grid;
    dispatch.threadgroup = threadgroup;
    return executor.run(dispatch);
}

} // namespace executor_test
