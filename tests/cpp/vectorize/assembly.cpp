// Prints the code of a kernel for a 64-bit Arm processor, which a processor of another kind can make but not run:
//   vector_assembly FILE KERNEL [CPU] [asm|llvm]
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>

#include "llvm/Support/TargetSelect.h"

#include "codegen/host_target.hpp"
#include "compiler/compiler.hpp"

int main(int count, char** arguments) {
    if (count < 3) {
        std::fputs("vector_assembly FILE KERNEL [CPU] [asm|llvm]\n", stderr);
        return 2;
    }
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
    metalki::compiler::look_at_target({"aarch64-unknown-linux-gnu", count > 3 ? arguments[3] : "neoverse-n1", {}});
    try {
        std::ifstream file(arguments[1]);
        std::string source(std::istreambuf_iterator<char>(file), {});
        auto library = metalki::compiler::Library::from_source(source, {});
        std::fputs(library->disassemble(arguments[2], {}, count > 4 ? arguments[4] : "asm").c_str(), stdout);
        return 0;
    } catch (const std::exception& problem) {
        std::fprintf(stderr, "%s\n", problem.what());
        return 1;
    }
}
