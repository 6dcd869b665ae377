// Memory that may be read before anybody asks for it.
#pragma once

#include <cstdint>

#include "llvm/IR/Constants.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Metadata.h"

namespace metalki::compiler::vectorize {

// Says so of the first bytes behind the address that is loaded here.
inline void mark_readable(llvm::LoadInst& address, std::uint64_t bytes, llvm::Align align) {
    llvm::LLVMContext& context = address.getContext();
    auto number = [&](std::uint64_t value) {
        auto* constant = llvm::ConstantInt::get(llvm::Type::getInt64Ty(context), value);
        return llvm::MDNode::get(context, {llvm::ConstantAsMetadata::get(constant)});
    };
    address.setMetadata(llvm::LLVMContext::MD_dereferenceable, number(bytes));
    address.setMetadata(llvm::LLVMContext::MD_align, number(align.value()));
}

} // namespace metalki::compiler::vectorize
