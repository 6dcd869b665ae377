// What MetalkiExtensions.hpp adds and no other file here has at hand.
#include "Metal/MetalkiExtensions.hpp"

#include "device.hpp"

namespace MTL::Portable {

using namespace metalki::api;

unsigned usableCores(const Device* device) {
    return device_of(device).facts().cores;
}

std::string compilerVersion() {
    return metalki::compiler::version_string();
}

NS::UInteger preferredThreads(const ComputePipelineState* pipeline) {
    return state_of<PipelineState>(pipeline).code->preferred_threads;
}

GroupWork groupWork(const ComputePipelineState* pipeline) {
    const metalki::compiler::GroupWork& work = state_of<PipelineState>(pipeline).code->group_work;
    return {work.of_group,        work.of_simdgroup, work.growth, work.row_accesses,
            work.column_accesses, work.halves,       work.loops,  work.one_way_ahead};
}

bool printsMessages(const ComputePipelineState* pipeline) {
    return state_of<PipelineState>(pipeline).code->prints;
}

std::string disassemble(const Function* function, const std::string& form) {
    const auto& state = state_of<FunctionState>(function);
    return state.library->code->disassemble(state.name, state.constants, form);
}

} // namespace MTL::Portable
