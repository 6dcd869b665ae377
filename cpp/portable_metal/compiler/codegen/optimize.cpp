// See the header.
#include "codegen/optimize.hpp"

#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/Transforms/IPO/AlwaysInliner.h"
#include "llvm/Transforms/IPO/GlobalDCE.h"
#include "llvm/Transforms/IPO/GlobalOpt.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/ADCE.h"
#include "llvm/Transforms/Scalar/DeadStoreElimination.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/GVN.h"
#include "llvm/Transforms/Scalar/IndVarSimplify.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/LoopRotation.h"
#include "llvm/Transforms/Scalar/LoopUnrollPass.h"
#include "llvm/Transforms/Scalar/Reassociate.h"
#include "llvm/Transforms/Scalar/SCCP.h"
#include "llvm/Transforms/Scalar/SROA.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"
#include "llvm/Transforms/Scalar/TailRecursionElimination.h"

#include "codegen/analyses.hpp"
#include "codegen/compaction.hpp"
#include "codegen/half_comparisons.hpp"
#include "codegen/long_blocks.hpp"
#include "codegen/masked_stores.hpp"
#include "codegen/private_array_loops.hpp"
#include "codegen/repeated_prefetches.hpp"
#include "codegen/small_numbers.hpp"

namespace metalki::compiler {
namespace {

void inline_everything(llvm::Module& module) {
    for (llvm::Function& function : module) {
        if (function.isDeclaration()) {
            continue;
        }
        function.removeFnAttr(llvm::Attribute::NoInline);
        function.removeFnAttr(llvm::Attribute::OptimizeNone);
        // Clang caps the vector width of scalar functions; widened code would be split to it.
        function.removeFnAttr("min-legal-vector-width");
        // The target machine knows the processor; a long list at each function is parsed and hashed again and again.
        for (const char* repeated : {"target-cpu", "target-features", "tune-cpu"}) {
            function.removeFnAttr(repeated);
        }
        function.setUWTableKind(llvm::UWTableKind::None);
        if (function.hasInternalLinkage()) {
            function.addFnAttr(llvm::Attribute::AlwaysInline);
        }
    }
}

// Tidies functions, puts them into their callers and drops what is left over. Both sides of the vectoriser start so.
void add_inlining(llvm::ModulePassManager& passes, llvm::FunctionPassManager further = llvm::FunctionPassManager()) {
    llvm::FunctionPassManager early;
    early.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
    early.addPass(llvm::EarlyCSEPass());
    early.addPass(llvm::SimplifyCFGPass());
    early.addPass(llvm::InstCombinePass());
    early.addPass(std::move(further));
    passes.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(early)));
    passes.addPass(llvm::AlwaysInlinerPass(/*InsertLifetimeIntrinsics=*/false));
}

// What both end with.
void add_final_cleanup(llvm::FunctionPassManager& passes) {
    passes.addPass(llvm::GVNPass());
    passes.addPass(llvm::DSEPass());
    passes.addPass(llvm::InstCombinePass());
    passes.addPass(llvm::SimplifyCFGPass());
    passes.addPass(llvm::ADCEPass());
}

} // namespace

void inline_calls(llvm::Module& module, llvm::TargetMachine& machine) {
    module.setDataLayout(machine.createDataLayout());
    inline_everything(module);
    llvm::PassBuilder builder(&machine);
    Analyses analyses(builder);
    llvm::FunctionPassManager early;
    early.addPass(llvm::SROAPass(llvm::SROAOptions::PreserveCFG));
    early.addPass(llvm::EarlyCSEPass());
    llvm::ModulePassManager passes;
    passes.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(early)));
    passes.addPass(llvm::AlwaysInlinerPass(/*InsertLifetimeIntrinsics=*/false));
    passes.addPass(llvm::GlobalDCEPass());
    passes.run(module, analyses.modules);
}

void optimize(llvm::Module& module, llvm::TargetMachine& machine) {
    module.setDataLayout(machine.createDataLayout());
    inline_everything(module);
    llvm::PipelineTuningOptions tuning;
    tuning.LoopVectorization = true;
    tuning.SLPVectorization = true;
    llvm::PassBuilder builder(&machine, tuning);
    Analyses analyses(builder);
    builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, analyses.modules);
}

void simplify(llvm::Module& module, llvm::TargetMachine& machine) {
    module.setDataLayout(machine.createDataLayout());
    inline_everything(module);
    llvm::PassBuilder builder(&machine);
    Analyses analyses(builder);
    llvm::FunctionPassManager recursion;
    recursion.addPass(llvm::TailCallElimPass()); // a function that ends by calling itself is a loop
    llvm::ModulePassManager passes;
    add_inlining(passes, std::move(recursion));
    passes.addPass(llvm::GlobalOptPass()); // evaluates initialisers of constants
    passes.addPass(llvm::GlobalDCEPass());
    llvm::FunctionPassManager late;
    late.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
    late.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
    late.addPass(llvm::SimplifyCFGPass());
    late.addPass(llvm::InstCombinePass());
    late.addPass(llvm::SimplifyCFGPass());
    late.addPass(UnrollOverPrivateArrays());
    llvm::LoopPassManager loops;
    loops.addPass(llvm::IndVarSimplifyPass());
    loops.addPass(llvm::LoopFullUnrollPass(2, /*OnlyWhenForced=*/false));
    late.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(loops), /*UseMemorySSA=*/false));
    late.addPass(llvm::SimplifyCFGPass()); // without iterations that are never reached, arrays become values
    late.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
    late.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
    late.addPass(llvm::InstCombinePass());
    late.addPass(llvm::ReassociatePass());
    add_final_cleanup(late);
    passes.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(late)));
    passes.run(module, analyses.modules);
}

void optimize_vectors(llvm::Module& module, llvm::TargetMachine& machine) {
    llvm::PassBuilder builder(&machine);
    Analyses analyses(builder);
    llvm::ModulePassManager passes;
    add_inlining(passes);
    passes.addPass(llvm::GlobalDCEPass());
    llvm::FunctionPassManager late;
    late.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
    late.addPass(llvm::SimplifyCFGPass());
    llvm::LoopPassManager loops;
    loops.addPass(llvm::LoopRotatePass());
    loops.addPass(llvm::LICMPass(llvm::LICMOptions()));
    late.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(loops), /*UseMemorySSA=*/true));
    late.addPass(llvm::InstCombinePass());
    if (machine.getTargetTriple().isX86() && machine.getMCSubtargetInfo()->checkFeatures("+avx512f")) {
        late.addPass(CompressScatters());
    }
    add_final_cleanup(late);
    if (machine.getTargetTriple().isX86() && !machine.getMCSubtargetInfo()->checkFeatures("+avx512fp16")) {
        late.addPass(WidenHalfComparisons());
    }
    late.addPass(MergeMaskedStores());
    late.addPass(DropRepeatedPrefetches());
    late.addPass(ConvertSmallNumbers(machine));
    late.addPass(llvm::ADCEPass());
    passes.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(late)));
    passes.run(module, analyses.modules);
    for (llvm::Function& function : module) {
        order_long_blocks(function);
    }
}

void inline_and_fold(llvm::Module& module) {
    inline_everything(module);
    llvm::PassBuilder builder;
    Analyses analyses(builder);
    llvm::ModulePassManager modules;
    modules.addPass(llvm::AlwaysInlinerPass());
    // Twice: constants that are computed from function constants have values only after the first time.
    for (int round = 0; round < 2; ++round) {
        llvm::FunctionPassManager functions;
        functions.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
        functions.addPass(llvm::SCCPPass());
        functions.addPass(llvm::EarlyCSEPass());
        functions.addPass(llvm::SimplifyCFGPass());
        functions.addPass(llvm::ADCEPass());
        modules.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(functions)));
        modules.addPass(llvm::GlobalOptPass());
    }
    modules.addPass(llvm::GlobalDCEPass());
    modules.run(module, analyses.modules);
}

void fold_branches(llvm::Module& module) {
    llvm::PassBuilder builder;
    Analyses analyses(builder);
    llvm::FunctionPassManager functions;
    functions.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
    functions.addPass(llvm::EarlyCSEPass());
    functions.addPass(llvm::SimplifyCFGPass());
    functions.addPass(llvm::EarlyCSEPass());
    llvm::createModuleToFunctionPassAdaptor(std::move(functions)).run(module, analyses.modules);
}

} // namespace metalki::compiler
