// Turns the tokens of MSL into tokens of the C++ dialect that Clang is set up for. Works on tokens, not text, so that
// every diagnostic keeps the user's own line and column.
#pragma once

#include <set>
#include <vector>

#include "clang/Lex/Preprocessor.h"
#include "clang/Lex/Token.h"

#include "frontend/repairs.hpp"

namespace metalki::compiler {

// `tokens` is the whole preprocessed file, eof included. Violations of MSL that C++ would accept are reported to the
// preprocessor's diagnostics engine. `says_thread` receives the raw locations of the tokens behind the word `thread`, which
// Clang never sees.
std::vector<clang::Token> rewrite_msl_tokens(clang::Preprocessor& preprocessor, std::vector<clang::Token> tokens,
                                             const Repairs& repairs, std::set<unsigned>& says_thread);

} // namespace metalki::compiler
