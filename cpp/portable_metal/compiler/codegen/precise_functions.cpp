// See the header.
#include "codegen/precise_functions.hpp"

#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Operator.h"

namespace metalki::compiler {

namespace {

// As in the fast modes: infinities and NaN keep their meaning.
llvm::FastMathFlags fast_flags() {
    llvm::FastMathFlags flags;
    flags.setAllowReassoc();
    flags.setAllowReciprocal();
    flags.setAllowContract();
    flags.setApproxFunc();
    flags.setNoSignedZeros();
    return flags;
}

} // namespace

void protect_precise_functions(llvm::Module& module) {
    for (llvm::Function& function : module) {
        // Instructions say for themselves what is allowed; these attributes would speak for whole kernels after inlining.
        for (const char* attribute : {"unsafe-fp-math", "no-signed-zeros-fp-math", "approx-func-fp-math"}) {
            function.removeFnAttr(attribute);
        }
        const bool fast = function.getName().starts_with("_ZN5metal4fast");
        if (!fast && !function.getName().starts_with("_ZN5metal7precise")) {
            continue;
        }
        const llvm::FastMathFlags flags = fast ? fast_flags() : llvm::FastMathFlags();
        for (llvm::Instruction& instruction : llvm::instructions(function)) {
            if (llvm::isa<llvm::FPMathOperator>(instruction)) {
                instruction.copyFastMathFlags(flags);
            }
        }
    }
}

} // namespace metalki::compiler
