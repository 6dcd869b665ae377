// Source text to the table of its kernels and to what generates code for them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cache/dependencies.hpp"
#include "compiler/compiler.hpp"
#include "frontend/translation_unit.hpp"

namespace metalki::compiler {

struct ParsedSource {
    std::vector<FunctionInfo> functions; // position = kernel number in the entry points' names
    std::vector<FunctionConstant> constants;
    std::vector<std::string> constant_symbols;            // mangled name of each constant, parallel to `constants`
    std::vector<std::vector<unsigned>> conditional_slots; // of each function: slots that a function constant may switch off
    std::vector<Diagnostic> warnings;
    std::vector<Dependency> dependencies;  // files of the disk that the result depends on
    std::shared_ptr<TranslationUnit> unit; // null when read from the cache
};

// Throws CompileError.
ParsedSource parse_source(std::string_view source, const Options& options);

} // namespace metalki::compiler
