// Generated functions through which the executor calls kernels, so that no one needs to know their C++ calling convention.
#pragma once

#include <string>
#include <vector>

#include "clang/Lex/Token.h"
#include "clang/Sema/Sema.h"

#include "frontend/kernel_table.hpp"

namespace metalki::compiler {

std::string thread_entry_name(std::size_t kernel);          // ThreadEntry of kernel_abi.hpp
std::string threadgroup_entry_name(std::size_t kernel);     // ThreadgroupEntry
std::string active_name(std::size_t kernel, unsigned slot); // bool(): does a function constant switch the argument on?

// Tokens of the entry points of all kernels, eof at the end; to be parsed while the translation unit is still open.
std::vector<clang::Token> entry_point_tokens(clang::Sema& sema, const KernelTable& table);

} // namespace metalki::compiler
