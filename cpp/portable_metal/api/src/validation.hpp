// Reports of misuse of the API, and the checks that several classes share.
#pragma once

#include <string>
#include <string_view>

#include "Foundation/Foundation.hpp"

namespace metalki::api {

// Throws MTL::ValidationError, aborts, or calls the handler that the program installed: "CALL: PROBLEM". Returns only
// when such a handler does; the caller then returns without effect.
void violation(std::string_view call, std::string_view problem);

// True when `ok`; otherwise reports. Write the problem as a lambda so that the good case builds no text.
template <class Problem> bool require(bool ok, const char* call, Problem&& problem) {
    if (ok) [[likely]]
        return true;
    violation(call, problem());
    return false;
}
inline bool require(bool ok, const char* call, const char* problem) {
    if (ok) [[likely]]
        return true;
    violation(call, problem);
    return false;
}

} // namespace metalki::api
