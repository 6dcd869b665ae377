// See the header.
#include "ptx/make_code.hpp"

#include <algorithm>
#include <cctype>

#include "llvm/IR/Verifier.h"
#include "llvm/Transforms/IPO/GlobalDCE.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/InferAddressSpaces.h"
#include "llvm/Transforms/Scalar/InferAlignment.h"
#include "llvm/Transforms/Scalar/SROA.h"

#include "codegen/analyses.hpp"
#include "codegen/loader.hpp"
#include "codegen/runtime_calls.hpp"
#include "codegen/runtime_names.hpp"
#include "codegen/synchronization_sites.hpp"
#include "ptx/address_chains.hpp"
#include "ptx/address_spaces.hpp"
#include "ptx/alignment.hpp"
#include "ptx/conversions.hpp"
#include "ptx/device_functions.hpp"
#include "ptx/early_loads.hpp"
#include "ptx/entry.hpp"
#include "ptx/fused_sums.hpp"
#include "ptx/orderings.hpp"
#include "ptx/paired_groups.hpp"
#include "ptx/paired_numbers.hpp"
#include "ptx/simd_functions.hpp"
#include "ptx/simd_matrices.hpp"
#include "ptx/small_arrays.hpp"
#include "ptx/target.hpp"
#include "ptx/unroll.hpp"
#include "ptx/wide_loads.hpp"

namespace metalki::compiler::ptx {
namespace {

constexpr unsigned registers_of_processor = 65536;
// With more of them fewer threadgroups are there to wait for memory.
constexpr unsigned many_registers = 64, registers_of_pair = 72;

// PTX allows letters, digits, _ and $; profilers show this name.
std::string entry_name(const std::string& function) {
    std::string name = function.empty() || std::isdigit(static_cast<unsigned char>(function.front())) ? "_" : "";
    for (char c : function) {
        name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
    }
    return name;
}

void refuse_initialisers(const llvm::Module& module, const FunctionInfo& function) {
    const llvm::GlobalVariable* list = module.getGlobalVariable("llvm.global_ctors");
    if (list && list->hasInitializer() && list->getInitializer()->getType()->getArrayNumElements() > 0) {
        throw CompileError("kernel '" + function.name +
                               "' uses a constant of program scope whose value has to be computed when the program starts; "
                               "GPUs need values that the compiler can compute",
                           {});
    }
}

void optimize_for_gpu(llvm::Module& module, llvm::TargetMachine& machine) {
    llvm::PipelineTuningOptions tuning;
    tuning.LoopVectorization = false;
    llvm::PassBuilder builder(&machine, tuning);
    machine.registerPassBuilderCallbacks(builder);
    Analyses analyses(builder);
    builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3).run(module, analyses.modules);
    // What unrolling has made known only in the end: pointers to a thread's own memory that lay in it, and then what they mean.
    for (int round = 0; round < 2; ++round) {
        widen_copies(module);
        spread_small_arrays(module);
        Analyses late_analyses(builder);
        llvm::FunctionPassManager late;
        late.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
        late.addPass(llvm::EarlyCSEPass());
        late.addPass(llvm::InferAddressSpacesPass());
        late.addPass(llvm::InferAlignmentPass());
        llvm::createModuleToFunctionPassAdaptor(std::move(late)).run(module, late_analyses.modules);
    }
}

void simplify(llvm::Module& module) {
    llvm::PassBuilder builder;
    Analyses analyses(builder);
    llvm::FunctionPassManager functions;
    functions.addPass(llvm::InstCombinePass());
    functions.addPass(llvm::EarlyCSEPass());
    llvm::createModuleToFunctionPassAdaptor(std::move(functions)).run(module, analyses.modules);
}

void verify(const llvm::Module& module) {
    if (std::getenv("METALKI_VERIFY") && llvm::verifyModule(module, &llvm::errs())) {
        throw std::runtime_error("the code made for the GPU is damaged");
    }
}

// Without a limit the driver saves registers as if threadgroups were large. LLVM would print it, but reads what it knows of a
// kernel once, long before this is known.
void limit_registers(GpuCode& code, unsigned count) {
    const std::size_t entry = code.ptx.find(".entry " + code.entry + "(");
    code.ptx.insert(code.ptx.find("\n{", entry), "\n.maxnreg " + std::to_string(count));
}

void keep_entry_only(llvm::Module& module, const llvm::Function& entry) {
    for (llvm::Function& function : module) {
        if (&function != &entry && !function.isDeclaration()) {
            function.setLinkage(llvm::GlobalValue::InternalLinkage);
            function.setComdat(nullptr);
        }
    }
    llvm::PassBuilder builder;
    Analyses analyses(builder);
    llvm::ModulePassManager passes;
    passes.addPass(llvm::GlobalDCEPass());
    passes.run(module, analyses.modules);
}

} // namespace

GpuCode make_code(KernelModule& kernel, const std::string& thread, const FunctionInfo& function,
                  std::size_t static_threadgroup_memory, const GpuRequest& request, llvm::TargetMachine& machine) {
    llvm::Module& module = *kernel.module;
    const Dialect dialect = dialect_of(request.target);
    GpuCode out;
    out.function = function;
    out.entry = entry_name(function.name);
    out.static_threadgroup_memory = static_threadgroup_memory;
    out.prints = is_used(module, runtime::rt_log);
    unroll_indexing_loops(module, machine);
    llvm::Function& thread_function = *module.getFunction(thread);
    refuse_synchronization_elsewhere(module, thread_function);
    lower_simd_functions(thread_function, dialect.architecture);
    lower_simd_matrices(thread_function, dialect.architecture);
    Entry entry = make_entry(thread_function, out.entry, function, static_threadgroup_memory, request);
    out.parameter_offsets = entry.parameter_offsets;
    out.parameter_bytes = entry.parameter_bytes;
    add_device_functions(module, *entry.log, request.target);
    keep_entry_only(module, *entry.function);
    verify(module);
    widen_copies(module);
    spread_small_arrays(module);
    spread_vector_indices(module);
    use_minimum_and_maximum(module);
    infer_address_spaces(module, machine);
    unroll_open_loops(module, machine);
    optimize_for_gpu(module, machine);
    refuse_initialisers(module, function);
    spread_vector_indices(module);
    if (request.may_pair && pair_threadgroups(*entry.function)) {
        out.threadgroups_per_block = 2;
        simplify(module);
        relate_numbers(*entry.function);
        spread_vector_indices(module);
    }
    guard_alignment(module);
    merge_loads(module, machine);
    convert_in_pairs(module);
    widen_numbers(module);
    fuse_sums(module);
    chain_addresses(module, machine);
    const bool wants_registers = hoist_loads(module);
    verify(module);
    const ObjectCode text = emit(module, machine, llvm::CodeGenFileType::AssemblyFile);
    out.ptx.assign(text.begin(), text.end());
    if (wants_registers && request.most_threads > 0) {
        const unsigned wanted = out.threadgroups_per_block > 1 ? registers_of_pair : many_registers;
        limit_registers(out, std::min(wanted, registers_of_processor / request.most_threads));
    }
    return out;
}

} // namespace metalki::compiler::ptx
