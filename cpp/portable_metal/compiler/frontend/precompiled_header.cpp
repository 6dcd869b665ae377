// Pages of the library's own file: only those that a program needs are ever read.
#include "frontend/precompiled_header.hpp"

extern "C" const char metalki_prefix_begin[], metalki_prefix_end[]; // precompiled_header_data.S

namespace metalki::compiler {

llvm::StringRef precompiled_prefix() {
    return {metalki_prefix_begin, static_cast<std::size_t>(metalki_prefix_end - metalki_prefix_begin)};
}

} // namespace metalki::compiler
