// Finds the kernels and function constants of a parsed source and reflects their arguments.
#pragma once

#include <vector>

#include "clang/AST/Decl.h"
#include "clang/Sema/Sema.h"

#include "compiler/compiler.hpp"

namespace metalki::compiler {

// How one parameter of a kernel gets its value.
struct Parameter {
    enum class Source { pointer, reference, value, array, position };
    Source source = Source::position;
    std::string position;  // attribute name of a position input
    unsigned slot = 0;     // argument slot otherwise
    unsigned slots = 1;    // more than one for an array of textures or samplers
    std::string active_if; // condition text of [[function_constant(...)]]
};

struct KernelEntry {
    clang::FunctionDecl* declaration = nullptr;
    FunctionInfo info;
    std::vector<Parameter> parameters;
};

struct ConstantEntry {
    clang::VarDecl* declaration = nullptr;
    FunctionConstant info;
};

struct KernelTable {
    std::vector<KernelEntry> kernels;
    std::vector<ConstantEntry> constants;
};

// `declarations` are the top-level ones of the source. Violations of MSL's rules for kernels are reported to Clang.
KernelTable collect_kernels(clang::Sema& sema, const std::vector<clang::Decl*>& declarations);

} // namespace metalki::compiler
