// The end of the process while threads compile.
#pragma once

namespace metalki::compiler {

// Around whatever uses LLVM or Clang. Their global objects go when the process ends: that waits until nobody uses them, and who
// comes later gets a std::runtime_error.
class Compiling {
public:
    Compiling();
    ~Compiling();
    Compiling(const Compiling&) = delete;
    Compiling& operator=(const Compiling&) = delete;
};

} // namespace metalki::compiler
