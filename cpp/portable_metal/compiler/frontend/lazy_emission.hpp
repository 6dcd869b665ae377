// Lets Clang generate code for chosen functions only.
#pragma once

#include <set>
#include <string>

namespace metalki::compiler {

// While one lives, Clang emits on this thread the functions with these plain names and what they use, and nothing else.
class EmitOnly {
public:
    explicit EmitOnly(const std::set<std::string>& names);
    ~EmitOnly();
    EmitOnly(const EmitOnly&) = delete;
    EmitOnly& operator=(const EmitOnly&) = delete;
};

} // namespace metalki::compiler
