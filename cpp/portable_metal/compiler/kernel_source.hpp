// The unoptimised code of a library's kernels, wherever it is: still in Clang's hands, in memory, or in the disk cache.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "codegen/kernel_module.hpp"
#include "frontend/parse.hpp"

namespace metalki::compiler {

// Clang generates code only for kernels that are asked for, as long as few are. Then, or when the next large source is parsed,
// it generates the rest at once and lets go of the memory that a parsed source takes.
class KernelSource {
public:
    // `parse` is called when the caches have nothing; `key` names the source in the disk cache.
    KernelSource(std::string key, std::function<std::shared_ptr<TranslationUnit>()> parse);

    // Takes over what was just parsed and caches it. Sources of few kernels become bitcode at once.
    void adopt(std::shared_ptr<TranslationUnit> unit, std::size_t kernels);

    // A module with the functions named `roots` and what they use.
    KernelModule read(const std::vector<std::string>& roots) const;

private:
    struct State;
    std::shared_ptr<State> state_;
};

} // namespace metalki::compiler
