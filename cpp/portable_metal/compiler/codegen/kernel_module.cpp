// Lazy bitcode reading: a library of thousands of kernels costs a kernel only what it calls.
#include "codegen/kernel_module.hpp"

#include <set>
#include <stdexcept>

#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/DiagnosticHandler.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

#include "codegen/runtime_names.hpp"

namespace metalki::compiler {
namespace {

void must(llvm::Error error) {
    if (error) {
        throw std::runtime_error("damaged module: " + llvm::toString(std::move(error)));
    }
}

// Without a handler LLVM prints and ends the process. Errors are kept for whoever asked for the kernel; optimisation remarks
// ("loop not unrolled") are no business of theirs.
struct CollectErrors : llvm::DiagnosticHandler {
    std::shared_ptr<std::string> problems;

    explicit CollectErrors(std::shared_ptr<std::string> target) : problems(std::move(target)) {}
    bool handleDiagnostics(const llvm::DiagnosticInfo& info) override {
        if (info.getSeverity() == llvm::DS_Error) {
            llvm::raw_string_ostream stream(*problems);
            llvm::DiagnosticPrinterRawOStream printer(stream);
            info.print(printer);
            stream << "; ";
        }
        return true;
    }
};

// Everything reachable from a set of roots.
class Reach {
public:
    void add(llvm::GlobalValue* value) {
        if (value && reached_.insert(value).second) {
            open_.push_back(value);
        }
    }

    void run() {
        while (!open_.empty()) {
            llvm::GlobalValue* value = open_.back();
            open_.pop_back();
            if (auto* function = llvm::dyn_cast<llvm::Function>(value)) {
                must(function->materialize());
                for (llvm::Instruction& instruction : llvm::instructions(*function)) {
                    scan(instruction);
                }
            } else if (auto* variable = llvm::dyn_cast<llvm::GlobalVariable>(value); variable && variable->hasInitializer()) {
                scan(*variable);
            } else if (auto* alias = llvm::dyn_cast<llvm::GlobalAlias>(value)) {
                scan(*alias);
            }
        }
    }

    bool contains(const llvm::GlobalValue* value) const { return reached_.count(value) > 0; }

private:
    void scan(llvm::User& user) {
        for (llvm::Value* operand : user.operands()) {
            if (auto* value = llvm::dyn_cast<llvm::GlobalValue>(operand)) {
                add(value);
            } else if (auto* constant = llvm::dyn_cast<llvm::Constant>(operand); constant && seen_.insert(constant).second) {
                scan(*constant);
            }
        }
    }

    std::set<const llvm::GlobalValue*> reached_;
    std::set<const llvm::Constant*> seen_;
    std::vector<llvm::GlobalValue*> open_;
};

// Clang gathers the dynamic initialisers of a file in one function: the single initialisers that it calls, in order.
std::vector<llvm::Function*> dynamic_initialisers(llvm::Module& module) {
    std::vector<llvm::Function*> out;
    llvm::GlobalVariable* list = module.getGlobalVariable("llvm.global_ctors");
    auto* entries = list && list->hasInitializer() ? llvm::dyn_cast<llvm::ConstantArray>(list->getInitializer()) : nullptr;
    if (!entries) {
        return out;
    }
    for (const llvm::Use& entry : entries->operands()) {
        auto* function =
            llvm::dyn_cast<llvm::Function>(llvm::cast<llvm::ConstantStruct>(entry)->getOperand(1)->stripPointerCasts());
        if (!function) {
            continue;
        }
        must(function->materialize());
        bool only_calls = true;
        std::vector<llvm::Function*> callees;
        for (llvm::Instruction& instruction : llvm::instructions(*function)) {
            auto* call = llvm::dyn_cast<llvm::CallInst>(&instruction);
            if (call && call->getCalledFunction() && call->arg_empty()) {
                callees.push_back(call->getCalledFunction());
            } else {
                only_calls &= instruction.isTerminator();
            }
        }
        if (only_calls && function->getName().starts_with("_GLOBAL__sub_I")) {
            out.insert(out.end(), callees.begin(), callees.end());
        } else {
            out.push_back(function);
        }
    }
    return out;
}

bool initialises_reached(llvm::Function& initialiser, const Reach& reach) {
    must(initialiser.materialize());
    for (llvm::Instruction& instruction : llvm::instructions(initialiser)) {
        for (llvm::Value* operand : instruction.operands()) {
            auto* variable = llvm::dyn_cast<llvm::GlobalVariable>(operand->stripPointerCasts());
            if (variable && variable->hasInitializer() && reach.contains(variable)) {
                return true;
            }
        }
    }
    return false;
}

std::vector<llvm::Function*> reach_initialisers(const std::vector<llvm::Function*>& all, Reach& reach) {
    std::set<llvm::Function*> kept;
    for (bool grew = true; grew;) {
        grew = false;
        for (llvm::Function* initialiser : all) {
            if (!kept.count(initialiser) && initialises_reached(*initialiser, reach)) {
                kept.insert(initialiser);
                reach.add(initialiser);
                reach.run();
                grew = true;
            }
        }
    }
    std::vector<llvm::Function*> in_order;
    for (llvm::Function* initialiser : all) {
        if (kept.count(initialiser)) {
            in_order.push_back(initialiser);
        }
    }
    return in_order;
}

void drop_unreached(llvm::Module& module, const Reach& reach, const std::set<std::string>& roots) {
    std::vector<llvm::GlobalValue*> dead;
    for (llvm::Function& function : module) {
        if (!reach.contains(&function) && !function.isIntrinsic()) {
            function.deleteBody();
            function.setComdat(nullptr);
            dead.push_back(&function);
        } else if (!function.isDeclaration() && !roots.count(function.getName().str())) {
            function.setLinkage(llvm::GlobalValue::InternalLinkage);
            function.setComdat(nullptr);
        }
    }
    for (llvm::GlobalVariable& variable : module.globals()) {
        if (!reach.contains(&variable) && !variable.getName().starts_with("llvm.")) {
            variable.setInitializer(nullptr);
            variable.setLinkage(llvm::GlobalValue::ExternalLinkage);
            variable.setComdat(nullptr);
            dead.push_back(&variable);
        } else if (variable.hasInitializer() && !variable.getName().starts_with("llvm.")) {
            variable.setLinkage(llvm::GlobalValue::InternalLinkage);
            variable.setComdat(nullptr);
        }
    }
    for (llvm::GlobalValue* value : dead) {
        value->removeDeadConstantUsers();
        if (value->use_empty()) {
            value->eraseFromParent();
        }
    }
}

} // namespace

KernelModule make_kernel_module() {
    KernelModule out;
    out.context = std::make_unique<llvm::LLVMContext>();
    out.problems = std::make_shared<std::string>();
    out.context->setDiagnosticHandler(std::make_unique<CollectErrors>(out.problems));
    return out;
}

void keep_only(llvm::Module& module, const std::vector<std::string>& roots) {
    Reach reach;
    for (const std::string& root : roots) {
        reach.add(module.getFunction(root));
    }
    reach.run();
    auto initialisers = reach_initialisers(dynamic_initialisers(module), reach);
    for (const char* name : {"llvm.global_ctors", "llvm.used", "llvm.compiler.used"}) {
        if (auto* list = module.getGlobalVariable(name)) {
            list->eraseFromParent();
        }
    }
    drop_unreached(module, reach, std::set<std::string>(roots.begin(), roots.end()));
    must(module.materializeAll());
    int priority = 0;
    for (llvm::Function* initialiser : initialisers) {
        llvm::appendToGlobalCtors(module, initialiser, priority++);
    }
}

KernelModule extract_kernel(const std::string& bitcode, const std::vector<std::string>& roots) {
    KernelModule out = make_kernel_module();
    auto buffer = llvm::MemoryBuffer::getMemBuffer(bitcode, "kernel", /*RequiresNullTerminator=*/false);
    auto module = llvm::getOwningLazyBitcodeModule(std::move(buffer), *out.context);
    if (!module) {
        must(module.takeError());
    }
    out.module = std::move(*module);
    keep_only(*out.module, roots);
    return out;
}

bool calls_synchronization(const llvm::Module& module) {
    for (const char* name : {runtime::barrier, runtime::simd, runtime::simd_mma, runtime::simd_lane, runtime::rt_barrier,
                             runtime::rt_simd, runtime::rt_simd_mma}) {
        const llvm::Function* function = module.getFunction(name);
        if (function && !function->use_empty()) {
            return true;
        }
    }
    return false;
}

} // namespace metalki::compiler
