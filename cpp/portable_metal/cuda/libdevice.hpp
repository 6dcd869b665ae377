// Where CUDA's mathematics for kernels lies on this machine.
#pragma once

#include <string>

namespace metalki::cuda {

// Path of libdevice.10.bc: METALKI_LIBDEVICE (empty: none), or in a CUDA toolkit; empty when there is none. Looked for once.
const std::string& find_libdevice();

} // namespace metalki::cuda
