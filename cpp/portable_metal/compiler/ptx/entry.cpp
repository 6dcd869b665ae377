// See the header.
#include "ptx/entry.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>

#include "llvm/IR/Instructions.h"
#include "llvm/Transforms/Utils/Cloning.h"

#include "codegen/runtime_calls.hpp"
#include "codegen/runtime_names.hpp"
#include "compiler/compiler.hpp"
#include "ptx/place.hpp"

namespace metalki::compiler::ptx {
namespace {

constexpr unsigned geometry_words = 12; // before the address of the log buffer
constexpr std::uint64_t value_alignment = 16;

std::uint32_t value_bytes(const GpuRequest& request, std::size_t slot) {
    return slot < request.value_bytes.size() ? request.value_bytes[slot] : 0;
}

void check_values(const FunctionInfo& function, const GpuRequest& request) {
    for (std::size_t slot = 0; slot < request.value_bytes.size(); ++slot) {
        if (request.value_bytes[slot] == 0) {
            continue;
        }
        const bool is_there = slot < function.arguments.size();
        const Argument* argument = is_there ? &function.arguments[slot] : nullptr;
        if (!argument || !(argument->kind == ArgumentKind::sampler ||
                           (argument->kind == ArgumentKind::buffer && argument->constant_space))) {
            throw SpecializationError("kernel '" + function.name + "': argument slot " + std::to_string(slot) +
                                      " cannot be passed by value; constant arguments and samplers can");
        }
    }
}

// What a kernel only reads for as long as it runs.
bool is_constant(const Argument& argument) {
    return argument.kind == ArgumentKind::texture || argument.kind == ArgumentKind::sampler ||
           (argument.kind == ArgumentKind::buffer && argument.constant_space);
}

// Textures and samplers are records that begin with a pointer or a word of 8 bytes.
llvm::Align alignment(const Argument& argument) {
    const bool is_buffer = argument.kind == ArgumentKind::buffer;
    const std::size_t bytes = is_buffer ? argument.type.alignment : sizeof(void*);
    return llvm::Align(llvm::isPowerOf2_64(bytes) ? bytes : 1);
}

class EntryMaker {
public:
    EntryMaker(llvm::Function& thread, const std::string& name, const FunctionInfo& info, const GpuRequest& request)
        : thread_(thread), module_(*thread.getParent()), context_(module_.getContext()), info_(info), request_(request),
          builder_(context_) {
        declare(name);
    }

    Entry make(std::size_t static_threadgroup_memory) {
        builder_.SetInsertPoint(llvm::BasicBlock::Create(context_, "entry", function_));
        llvm::AllocaInst* table =
            builder_.CreateAlloca(llvm::ArrayType::get(builder_.getPtrTy(), std::max<std::size_t>(1, info_.arguments.size())));
        llvm::AllocaInst* context = builder_.CreateAlloca(builder_.getPtrTy());
        builder_.CreateStore(table, context);
        for (std::size_t slot = 0; slot < info_.arguments.size(); ++slot) {
            builder_.CreateStore(address(slot), builder_.CreateConstInBoundsGEP1_64(builder_.getPtrTy(), table, slot));
        }
        ThreadPlace place(builder_, geometry(), request_, counts_lanes());
        call_thread(context);
        answer(place, static_threadgroup_memory);
        Entry out;
        out.function = function_;
        out.log = function_->getArg(geometry_words);
        out.parameter_offsets = offsets_;
        out.parameter_bytes = bytes_;
        return out;
    }

private:
    // The parameters: geometry, log buffer, slots; laid out as PTX does.
    void declare(const std::string& name) {
        std::vector<llvm::Type*> types(geometry_words, llvm::Type::getInt32Ty(context_));
        types.push_back(llvm::Type::getInt64Ty(context_));
        bytes_ = sizeof(GpuGeometry);
        for (std::size_t slot = 0; slot < info_.arguments.size(); ++slot) {
            const std::uint32_t value = value_bytes(request_, slot);
            const bool is_threadgroup = info_.arguments[slot].kind == ArgumentKind::threadgroup;
            types.push_back(is_threadgroup ? static_cast<llvm::Type*>(llvm::Type::getInt64Ty(context_))
                                           : llvm::PointerType::get(context_, value > 0 ? 0 : global_space));
            bytes_ = static_cast<std::uint32_t>(llvm::alignTo(bytes_, value > 0 ? value_alignment : 8));
            offsets_.push_back(bytes_);
            bytes_ += value > 0 ? value : 8;
        }
        auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(context_), types, false);
        function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module_);
        function_->setCallingConv(llvm::CallingConv::PTX_Kernel);
        function_->setDoesNotThrow();
        function_->addFnAttr(llvm::Attribute::Convergent);
        annotate("kernel", 1);
        std::vector<llvm::Metadata*> by_value;
        for (std::size_t slot = 0; slot < info_.arguments.size(); ++slot) {
            const unsigned number = first_slot + static_cast<unsigned>(slot);
            if (const std::uint32_t value = value_bytes(request_, slot)) {
                auto* content = llvm::ArrayType::get(llvm::Type::getInt8Ty(context_), value);
                function_->addParamAttr(number, llvm::Attribute::getWithByValType(context_, content));
                function_->addParamAttr(number, llvm::Attribute::getWithAlignment(context_, llvm::Align(value_alignment)));
                by_value.push_back(number_metadata(number + 1));
                continue;
            }
            if (info_.arguments[slot].kind != ArgumentKind::threadgroup) {
                function_->addParamAttr(number, llvm::Attribute::getWithAlignment(context_, alignment(info_.arguments[slot])));
            }
            if (is_constant(info_.arguments[slot])) {
                function_->addParamAttr(number, llvm::Attribute::NoAlias);
                function_->addParamAttr(number, llvm::Attribute::ReadOnly);
            }
        }
        if (!by_value.empty()) {
            annotate("grid_constant", llvm::MDNode::get(context_, by_value));
        }
        limit_threads();
    }

    llvm::Metadata* number_metadata(unsigned number) {
        return llvm::ConstantAsMetadata::get(llvm::ConstantInt::get(llvm::Type::getInt32Ty(context_), number));
    }
    void annotate(const char* what, llvm::Metadata* value) {
        module_.getOrInsertNamedMetadata("nvvm.annotations")
            ->addOperand(llvm::MDNode::get(
                context_, {llvm::ConstantAsMetadata::get(function_), llvm::MDString::get(context_, what), value}));
    }
    void annotate(const char* what, unsigned value) { annotate(what, number_metadata(value)); }

    void limit_threads() {
        if (request_.threadgroup && request_.driver_knows_size) {
            const Uint3& size = *request_.threadgroup;
            annotate("reqntidx", request_.folded ? size.x * size.y * size.z : size.x);
            annotate("reqntidy", request_.folded ? 1 : size.y);
            annotate("reqntidz", request_.folded ? 1 : size.z);
        } else if (info_.max_total_threads > 0) {
            annotate("maxntidx", info_.max_total_threads);
        }
    }

    Geometry geometry() {
        const auto words = [&](unsigned first) {
            return Triple{function_->getArg(first), function_->getArg(first + 1), function_->getArg(first + 2)};
        };
        return {words(0), words(3), words(6), words(9)};
    }

    // Of a slot, as a pointer that can point anywhere.
    llvm::Value* address(std::size_t slot) {
        llvm::Argument* given = function_->getArg(first_slot + static_cast<unsigned>(slot));
        if (info_.arguments[slot].kind != ArgumentKind::threadgroup) {
            return builder_.CreateAddrSpaceCast(given, builder_.getPtrTy());
        }
        if (!dynamic_memory_) {
            dynamic_memory_ = shared_variable("threadgroup_arguments", 0, llvm::GlobalValue::ExternalLinkage);
        }
        llvm::Value* offset = builder_.CreateTrunc(given, builder_.getInt32Ty());
        return builder_.CreateAddrSpaceCast(builder_.CreateInBoundsGEP(builder_.getInt8Ty(), dynamic_memory_, offset),
                                            builder_.getPtrTy());
    }

    llvm::GlobalVariable* shared_variable(const char* name, std::size_t bytes, llvm::GlobalValue::LinkageTypes linkage) {
        auto* type = llvm::ArrayType::get(builder_.getInt8Ty(), bytes);
        llvm::Constant* content = linkage == llvm::GlobalValue::InternalLinkage ? llvm::UndefValue::get(type) : nullptr;
        auto* variable = new llvm::GlobalVariable(module_, type, false, linkage, content, name, nullptr,
                                                  llvm::GlobalValue::NotThreadLocal, shared_space);
        variable->setAlignment(llvm::Align(16));
        return variable;
    }

    bool counts_lanes() const {
        if (is_used(module_, runtime::simd) || is_used(module_, runtime::simd_mma) || is_used(module_, runtime::simd_lane)) {
            return true;
        }
        const std::vector<llvm::CallInst*> inputs = calls_of(thread_, runtime::input);
        return std::any_of(inputs.begin(), inputs.end(), [](const llvm::CallInst* call) {
            return input_number(*call) >= unsigned(ThreadInput::index_in_simdgroup);
        });
    }
    static unsigned input_number(const llvm::CallInst& call) {
        return static_cast<unsigned>(llvm::cast<llvm::ConstantInt>(call.getArgOperand(0))->getZExtValue());
    }

    void call_thread(llvm::Value* context) {
        std::vector<llvm::Value*> arguments(thread_.arg_size(), builder_.getInt32(0));
        arguments[0] = context;
        llvm::BasicBlock* body = llvm::BasicBlock::Create(context_, "body", function_);
        head_end_ = builder_.CreateBr(body);
        builder_.SetInsertPoint(body);
        llvm::CallInst* call = builder_.CreateCall(&thread_, arguments);
        builder_.CreateRetVoid();
        llvm::InlineFunctionInfo info;
        if (!llvm::InlineFunction(*call, info).isSuccess()) {
            throw std::runtime_error("the kernel's thread function cannot be inlined");
        }
        thread_.eraseFromParent();
    }

    template <class Make> void replace_calls(const char* name, Make make) {
        llvm::Function* question = module_.getFunction(name);
        for (llvm::User* user :
             question ? std::vector<llvm::User*>(question->user_begin(), question->user_end()) : std::vector<llvm::User*>()) {
            auto* call = llvm::cast<llvm::CallInst>(user);
            if (call->getFunction() != function_) {
                throw SpecializationError(
                    "threadgroup memory and SIMD-group functions are not supported in functions that call themselves "
                    "or are called through a pointer");
            }
            call->replaceAllUsesWith(make(*call));
            call->eraseFromParent();
        }
    }

    void answer(ThreadPlace& place, std::size_t static_threadgroup_memory) {
        builder_.SetInsertPoint(head_end_);
        std::map<unsigned, llvm::Value*> inputs;
        replace_calls(runtime::input, [&](llvm::CallInst& call) {
            llvm::Value*& known = inputs[input_number(call)];
            return known ? known : known = place.input(input_number(call));
        });
        llvm::Value* lane = nullptr;
        replace_calls(runtime::simd_lane, [&](llvm::CallInst&) { return lane ? lane : lane = place.lane(); });
        llvm::Value* memory = nullptr;
        replace_calls(runtime::threadgroup_memory, [&](llvm::CallInst&) {
            if (!memory) {
                memory = llvm::ConstantExpr::getAddrSpaceCast(
                    shared_variable("threadgroup_memory", static_threadgroup_memory, llvm::GlobalValue::InternalLinkage),
                    builder_.getPtrTy());
            }
            return memory;
        });
    }

    static constexpr unsigned first_slot = geometry_words + 1;

    llvm::Function& thread_;
    llvm::Module& module_;
    llvm::LLVMContext& context_;
    const FunctionInfo& info_;
    const GpuRequest& request_;
    WarpBuilder builder_;
    llvm::Function* function_ = nullptr;
    llvm::Instruction* head_end_ = nullptr;
    llvm::GlobalVariable* dynamic_memory_ = nullptr;
    std::vector<std::uint32_t> offsets_;
    std::uint32_t bytes_ = 0;
};

} // namespace

Entry make_entry(llvm::Function& thread, const std::string& name, const FunctionInfo& function,
                 std::size_t static_threadgroup_memory, const GpuRequest& request) {
    check_values(function, request);
    return EntryMaker(thread, name, function, request).make(static_threadgroup_memory);
}

} // namespace metalki::compiler::ptx
