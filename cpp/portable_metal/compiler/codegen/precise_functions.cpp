// See the header.
#include "codegen/precise_functions.hpp"

#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Operator.h"

namespace metalki::compiler {

void protect_precise_functions(llvm::Module& module) {
    for (llvm::Function& function : module) {
        // Instructions say for themselves what is allowed; these attributes would speak for whole kernels after inlining.
        for (const char* attribute : {"unsafe-fp-math", "no-signed-zeros-fp-math", "approx-func-fp-math"}) {
            function.removeFnAttr(attribute);
        }
        if (!function.getName().starts_with("_ZN5metal7precise")) {
            continue;
        }
        for (llvm::Instruction& instruction : llvm::instructions(function)) {
            if (llvm::isa<llvm::FPMathOperator>(instruction)) {
                instruction.copyFastMathFlags(llvm::FastMathFlags());
            }
        }
    }
}

} // namespace metalki::compiler
