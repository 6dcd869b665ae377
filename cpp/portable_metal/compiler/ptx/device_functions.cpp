// See the header.
#include "ptx/device_functions.hpp"

#include <algorithm>
#include <array>

#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/PatternMatch.h"
#include "llvm/Linker/Linker.h"
#include "llvm/Support/MemoryBuffer.h"

#include "codegen/runtime_calls.hpp"
#include "codegen/runtime_names.hpp"
#include "frontend/device_runtime.hpp"
#include "ptx/builder.hpp"

namespace metalki::compiler::ptx {
namespace {

constexpr llvm::StringLiteral own_prefix = "__metalki_gpu_";
constexpr llvm::StringLiteral libdevice_prefix = "__nv_";

// The functions of C's mathematics that the standard headers call and that are no instructions.
constexpr std::array<llvm::StringLiteral, 24> functions{"sin",  "cos",   "tan",   "asin",  "acos",  "atan", "sinh",  "cosh",
                                                        "tanh", "asinh", "acosh", "atanh", "atan2", "exp",  "exp2",  "exp10",
                                                        "log",  "log2",  "log10", "pow",   "powi",  "fmod", "ldexp", "ilogb"};
// libdevice's take memory of a thread's own, or do no more than ours.
constexpr std::array<llvm::StringLiteral, 6> always_own{"sin", "cos", "tan", "powi", "ldexp", "ilogb"};

// What our device functions are written with.
constexpr std::pair<llvm::StringLiteral, llvm::Intrinsic::ID> instructions[]{
    {"__metalki_gpu_ex2_approx", llvm::Intrinsic::nvvm_ex2_approx_f},
    {"__metalki_gpu_saturate", llvm::Intrinsic::nvvm_saturate_f},
    {"__metalki_gpu_fma_down", llvm::Intrinsic::nvvm_fma_rm_f},
    {"__metalki_gpu_lg2_approx", llvm::Intrinsic::nvvm_lg2_approx_f},
};

template <class List> bool contains(const List& list, llvm::StringRef name) {
    return std::find(list.begin(), list.end(), name) != list.end();
}

// "sin" for sinf, sin, llvm.sin.f32, ...; empty for what is none of the functions above.
llvm::StringRef stem_of(const llvm::CallInst& call) {
    const llvm::Function* callee = call.getCalledFunction();
    if (!callee || !callee->isDeclaration()) {
        return {};
    }
    llvm::StringRef name = callee->isIntrinsic() ? llvm::Intrinsic::getBaseName(callee->getIntrinsicID()) : callee->getName();
    if (callee->isIntrinsic()) {
        return name.consume_front("llvm.") && contains(functions, name) ? name : llvm::StringRef();
    }
    if (contains(functions, name)) {
        return name;
    }
    return name.consume_back("f") && contains(functions, name) ? name : llvm::StringRef();
}

class DeviceFunctions {
public:
    DeviceFunctions(llvm::Module& module, llvm::Value& log, const GpuTarget& target)
        : module_(module), log_(log), libdevice_(target.libdevice) {}

    void add() {
        for (llvm::Function& function : module_) {
            for (llvm::Instruction& instruction : llvm::make_early_inc_range(llvm::instructions(function))) {
                resolve(instruction);
            }
        }
        if (needs_libdevice_) {
            link(llvm::MemoryBuffer::getFile(libdevice_), "libdevice '" + libdevice_ + "'");
        }
        if (needs_own_) {
            auto bitcode = device_runtime();
            link(llvm::MemoryBuffer::getMemBuffer(*bitcode, "", false), "the device functions");
        }
        for (const auto& [name, id] : instructions) {
            if (llvm::Function* function = module_.getFunction(name)) {
                for (llvm::User* user : function->users()) {
                    llvm::cast<llvm::CallInst>(user)->setNotConvergent(); // it works on one thread alone
                }
                function->replaceAllUsesWith(llvm::Intrinsic::getDeclaration(&module_, id));
                function->eraseFromParent();
            }
        }
    }

private:
    void resolve(llvm::Instruction& instruction) {
        if (instruction.getOpcode() == llvm::Instruction::FRem) {
            remainder(instruction);
        } else if (instruction.getOpcode() == llvm::Instruction::FDiv) {
            divide(instruction);
        } else if (auto* fence = llvm::dyn_cast<llvm::FenceInst>(&instruction)) {
            order_memory(*fence);
        } else if (auto* call = llvm::dyn_cast<llvm::CallInst>(&instruction)) {
            resolve_call(*call);
        }
    }

    // LLVM makes it narrow where its operands and its result are.
    void remainder(llvm::Instruction& division) {
        llvm::IRBuilder<> builder(&division);
        llvm::Type *type = division.getType(), *wide = type->isDoubleTy() ? type : builder.getFloatTy();
        llvm::Value* result =
            builder.CreateCall(function_for("fmod", wide, {wide, wide}), {builder.CreateFPExt(division.getOperand(0), wide),
                                                                          builder.CreateFPExt(division.getOperand(1), wide)});
        division.replaceAllUsesWith(builder.CreateFPTrunc(result, type));
        division.eraseFromParent();
    }

    static void order_memory(llvm::FenceInst& fence) {
        if (fence.getSyncScopeID() != llvm::SyncScope::SingleThread) {
            WarpBuilder(&fence).call(llvm::Intrinsic::nvvm_membar_gl);
        }
        fence.eraseFromParent();
    }

    void resolve_call(llvm::CallInst& call) {
        if (callee_name(call) == runtime::rt_log) {
            std::vector<llvm::Value*> arguments{&log_};
            arguments.insert(arguments.end(), call.arg_begin(), call.arg_end());
            replace(call, own("log_message", call.getType(), types_of(arguments)), arguments);
            return;
        }
        if (auto* intrinsic = llvm::dyn_cast<llvm::IntrinsicInst>(&call)) {
            if (intrinsic->getIntrinsicID() == llvm::Intrinsic::frexp) {
                return split(*intrinsic);
            }
            if (intrinsic->getIntrinsicID() == llvm::Intrinsic::sqrt && intrinsic->getType()->isFloatTy() &&
                intrinsic->hasApproxFunc()) {
                return replace(call, llvm::Intrinsic::getDeclaration(&module_, llvm::Intrinsic::nvvm_sqrt_approx_f),
                               {call.getArgOperand(0)});
            }
        }
        if (llvm::StringRef stem = stem_of(call); !stem.empty()) {
            if (stem == "exp" && call.getType()->isFloatTy() && call.hasApproxFunc()) {
                return replace(call, own("exp_approxf", call.getType(), {call.getType()}), {call.getArgOperand(0)});
            }
            std::vector<llvm::Value*> arguments(call.arg_begin(), call.arg_end());
            widen_and_call(call, stem, arguments);
        }
    }

    static std::vector<llvm::Type*> types_of(const std::vector<llvm::Value*>& values) {
        std::vector<llvm::Type*> out;
        for (const llvm::Value* value : values) {
            out.push_back(value->getType());
        }
        return out;
    }

    // Half and bfloat are computed in float.
    void widen_and_call(llvm::Instruction& call, llvm::StringRef stem, std::vector<llvm::Value*> arguments) {
        llvm::IRBuilder<> builder(&call);
        llvm::Type* type = call.getType();
        const bool small = type->isHalfTy() || type->isBFloatTy();
        for (llvm::Value*& argument : arguments) {
            if (small && argument->getType() == type) {
                argument = builder.CreateFPExt(argument, builder.getFloatTy());
            }
        }
        llvm::Type* wide = small ? builder.getFloatTy() : type;
        llvm::Value* result = builder.CreateCall(function_for(stem, wide, types_of(arguments)), arguments);
        call.replaceAllUsesWith(small ? builder.CreateFPTrunc(result, type) : result);
        call.eraseFromParent();
    }

    llvm::FunctionCallee function_for(llvm::StringRef stem, llvm::Type* result, const std::vector<llvm::Type*>& types) {
        const bool single = types.front()->isFloatTy();
        const std::string name = (stem + (single ? "f" : "")).str();
        if (libdevice_.empty() || contains(always_own, stem)) {
            return own(name, result, types);
        }
        needs_libdevice_ = true;
        return module_.getOrInsertFunction((libdevice_prefix + name).str(), llvm::FunctionType::get(result, types, false));
    }
    llvm::FunctionCallee own(const std::string& name, llvm::Type* result, const std::vector<llvm::Type*>& types) {
        needs_own_ = true;
        return module_.getOrInsertFunction((own_prefix + name).str(), llvm::FunctionType::get(result, types, false));
    }

    static void replace(llvm::Instruction& instruction, llvm::FunctionCallee callee,
                        const std::vector<llvm::Value*>& arguments) {
        llvm::IRBuilder<> builder(&instruction);
        llvm::CallInst* result = builder.CreateCall(callee, arguments);
        instruction.replaceAllUsesWith(result);
        instruction.eraseFromParent();
    }

    // Mantissa and exponent come from two functions, so that neither needs memory.
    void split(llvm::IntrinsicInst& call) {
        llvm::IRBuilder<> builder(&call);
        llvm::Value* x = call.getArgOperand(0);
        auto* parts = llvm::cast<llvm::StructType>(call.getType());
        llvm::Value* mantissa = builder.CreateCall(own("frexp_mantissaf", x->getType(), {x->getType()}), {x});
        llvm::Value* exponent = builder.CreateCall(own("frexp_exponentf", parts->getElementType(1), {x->getType()}), {x});
        llvm::Value* both = builder.CreateInsertValue(llvm::PoisonValue::get(parts), mantissa, 0);
        call.replaceAllUsesWith(builder.CreateInsertValue(both, exponent, 1));
        call.eraseFromParent();
    }

    // Where the program allows approximations, 2 ulp are enough.
    void divide(llvm::Instruction& division) {
        using namespace llvm::PatternMatch;
        if (!division.getType()->isFloatTy() || !division.hasApproxFunc() || !division.hasAllowReciprocal()) {
            return;
        }
        llvm::Value* divisor = division.getOperand(1);
        llvm::Value* radicand = nullptr;
        if (match(division.getOperand(0), m_FPOne()) &&
            (match(divisor, m_Intrinsic<llvm::Intrinsic::sqrt>(m_Value(radicand))) ||
             match(divisor, m_Intrinsic<llvm::Intrinsic::nvvm_sqrt_approx_f>(m_Value(radicand))))) {
            return replace(division, llvm::Intrinsic::getDeclaration(&module_, llvm::Intrinsic::nvvm_rsqrt_approx_f),
                           {radicand});
        }
        llvm::Type* type = division.getType();
        auto* assembly = llvm::InlineAsm::get(llvm::FunctionType::get(type, {type, type}, false), "div.full.f32 $0, $1, $2;",
                                              "=f,f,f", /*hasSideEffects=*/false);
        WarpBuilder builder(&division);
        llvm::CallInst* quotient =
            builder.CreateCall(assembly->getFunctionType(), assembly, {division.getOperand(0), division.getOperand(1)});
        quotient->setDoesNotAccessMemory();
        quotient->setDoesNotThrow();
        quotient->addFnAttr(llvm::Attribute::WillReturn);
        division.replaceAllUsesWith(quotient);
        division.eraseFromParent();
    }

    void link(llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> buffer, const std::string& what) {
        if (!buffer) {
            throw SpecializationError(what + " cannot be read: " + buffer.getError().message());
        }
        auto library = llvm::getOwningLazyBitcodeModule(std::move(*buffer), module_.getContext());
        if (!library) {
            throw SpecializationError(what + " is damaged: " + llvm::toString(library.takeError()));
        }
        (*library)->setTargetTriple(module_.getTargetTriple());
        (*library)->setDataLayout(module_.getDataLayout());
        if (llvm::NamedMDNode* flags = (*library)->getModuleFlagsMetadata()) {
            flags->eraseFromParent();
        }
        if (llvm::Linker::linkModules(module_, std::move(*library), llvm::Linker::LinkOnlyNeeded)) {
            throw SpecializationError(what + " cannot be linked with the kernel");
        }
        for (llvm::Function& function : module_) {
            if (!function.isDeclaration() &&
                (function.getName().starts_with(own_prefix) || function.getName().starts_with(libdevice_prefix))) {
                for (const char* attribute : {"target-cpu", "target-features", "tune-cpu", "min-legal-vector-width"}) {
                    function.removeFnAttr(attribute);
                }
                function.removeFnAttr(llvm::Attribute::NoInline);
                function.removeFnAttr(llvm::Attribute::OptimizeNone);
                function.addFnAttr(llvm::Attribute::AlwaysInline);
            }
        }
    }

    llvm::Module& module_;
    llvm::Value& log_;
    const std::string& libdevice_;
    bool needs_own_ = false, needs_libdevice_ = false;
};

} // namespace

void add_device_functions(llvm::Module& module, llvm::Value& log, const GpuTarget& target) {
    DeviceFunctions(module, log, target).add();
}

} // namespace metalki::compiler::ptx
