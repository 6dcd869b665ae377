// See the header.
#include "ptx/address_spaces.hpp"

#include <set>
#include <vector>

#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/Transforms/IPO/AlwaysInliner.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/InferAddressSpaces.h"
#include "llvm/Transforms/Scalar/SROA.h"

#include "codegen/analyses.hpp"
#include "ptx/builder.hpp"

namespace metalki::compiler::ptx {
namespace {

constexpr int max_indirections = 6; // pointers to pointers to ...

bool is_in_buffer(const llvm::LoadInst& load) {
    if (load.getPointerAddressSpace() == global_space) {
        return true;
    }
    const auto* argument = llvm::dyn_cast<llvm::Argument>(llvm::getUnderlyingObject(load.getPointerOperand()));
    return argument && argument->hasByValAttr();
}

// True when it found new ones.
bool mark_loaded_pointers(llvm::Module& module, std::set<const llvm::LoadInst*>& marked) {
    std::vector<llvm::LoadInst*> found;
    for (llvm::Function& function : module) {
        for (llvm::Instruction& instruction : llvm::instructions(function)) {
            auto* load = llvm::dyn_cast<llvm::LoadInst>(&instruction);
            const auto* type = load ? llvm::dyn_cast<llvm::PointerType>(load->getType()) : nullptr;
            if (type && type->getAddressSpace() == 0 && is_in_buffer(*load) && marked.insert(load).second) {
                found.push_back(load);
            }
        }
    }
    for (llvm::LoadInst* load : found) {
        llvm::IRBuilder<> builder(load->getNextNode());
        auto* global = llvm::cast<llvm::Instruction>(builder.CreateAddrSpaceCast(load, builder.getPtrTy(global_space)));
        llvm::Value* generic = builder.CreateAddrSpaceCast(global, load->getType());
        load->replaceUsesWithIf(generic, [&](llvm::Use& use) { return use.getUser() != global; });
    }
    return !found.empty();
}

} // namespace

void infer_address_spaces(llvm::Module& module, llvm::TargetMachine& machine) {
    llvm::PassBuilder builder(&machine);
    std::set<const llvm::LoadInst*> marked;
    for (int round = 0; round < max_indirections; ++round) {
        Analyses analyses(builder);
        llvm::ModulePassManager passes;
        if (round == 0) {
            passes.addPass(llvm::AlwaysInlinerPass(/*InsertLifetimeIntrinsics=*/false));
        }
        llvm::FunctionPassManager functions;
        functions.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
        functions.addPass(llvm::EarlyCSEPass());
        functions.addPass(llvm::InferAddressSpacesPass());
        passes.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(functions)));
        passes.run(module, analyses.modules);
        // The first round only finds out that the table of arguments is needed no more.
        if (!mark_loaded_pointers(module, marked) && round > 0) {
            break;
        }
    }
}

} // namespace metalki::compiler::ptx
