// The standard headers in precompiled form, one per set of options that changes them.
#pragma once

#include <memory>
#include <string>

#include "compiler/compiler.hpp"

namespace metalki::compiler {

// Built on first use and kept for the life of the process. Safe to call from several threads.
std::shared_ptr<const std::string> precompiled_prefix(const Options& options);

} // namespace metalki::compiler
