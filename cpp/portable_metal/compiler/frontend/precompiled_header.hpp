// The standard headers in precompiled form: made when the library is built, and part of its file.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace metalki::compiler {

// No option of a program changes how the headers are read, so that one form serves all.
llvm::StringRef precompiled_prefix();

} // namespace metalki::compiler
