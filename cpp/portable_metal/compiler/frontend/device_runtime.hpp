// The functions of stdlib/include/metalki_gpu.h, compiled.
#pragma once

#include <memory>
#include <string>

namespace metalki::compiler {

// Bitcode; compiled when it is first wanted and no process has cached it.
std::shared_ptr<const std::string> device_runtime();

} // namespace metalki::compiler
