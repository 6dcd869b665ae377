// Room for the recursion of Clang and LLVM, which go down a level of the stack for each level of an expression.
#pragma once

#include <optional>
#include <type_traits>
#include <utility>

#include "llvm/ADT/STLFunctionalExtras.h"

namespace metalki::compiler {

// Calls `work`, on a thread with a stack of hundreds of megabytes where the system gives one, and returns when it has ended.
// What it throws comes out here.
void run_on_deep_stack(llvm::function_ref<void()> work);

template <typename Work> auto on_deep_stack(Work&& work) {
    std::optional<std::invoke_result_t<Work>> result;
    run_on_deep_stack([&] { result.emplace(std::forward<Work>(work)()); });
    return std::move(*result);
}

} // namespace metalki::compiler
