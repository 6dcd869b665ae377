// Mathematical functions that work on whole vectors.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/Type.h"
#include "llvm/Target/TargetMachine.h"

namespace metalki::compiler::vectorize {

struct VectorFunction {
    std::string symbol;
    unsigned width = 0; // lanes of one call
    unsigned arguments = 1;
};

// What the machine offers; empty where nothing is at hand.
class VectorMath {
public:
    explicit VectorMath(const llvm::TargetMachine& machine);

    // The vector form of a C library function of float ("expf") or of an LLVM intrinsic; null if there is none.
    const VectorFunction* find(std::string_view name) const;
    const VectorFunction* find(llvm::Intrinsic::ID intrinsic) const;

private:
    struct Entry {
        std::string name;
        VectorFunction function;
    };
    std::vector<Entry> entries_;
};

// Addresses of all such functions in this process, for the linker.
struct VectorSymbol {
    std::string name;
    const void* address;
};
const std::vector<VectorSymbol>& vector_symbols();

} // namespace metalki::compiler::vectorize
