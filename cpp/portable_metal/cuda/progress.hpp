// How far a GPU is with what it was given.
#pragma once

namespace metalki::cuda {

enum class Progress { running, done, failed };

} // namespace metalki::cuda
