// Stores that go past the caches, for launches that write more than these hold: memory is not read before it is overwritten.
#pragma once

#include <string>

#include "llvm/IR/Function.h"
#include "llvm/IR/Instructions.h"

namespace metalki::compiler::vectorize {

// A launch that writes less is read again before long, and should stay in the caches.
constexpr std::uint64_t streamed_bytes = std::uint64_t{16} << 20;
constexpr unsigned cache_line = 64;

// The kernel is short and without loops, and some of its stores write to buffers that it does not read.
bool can_stream(const llvm::Function& kernel);
bool can_stream(const llvm::StoreInst& store);

// Marks the address of a vector store, as a number, that is tested for its alignment; the metadata holds the bytes of a lane.
inline constexpr const char* streamed_address = "metalki.streamed";

// Like `rows`, which has the form of make_row_entry's result; large launches use `body`, made for stores past the caches.
llvm::Function& make_streaming_entry(llvm::Function& rows, llvm::Function& body, llvm::Function& rest, const std::string& name);

} // namespace metalki::compiler::vectorize
