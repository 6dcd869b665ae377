// Small kernels in LLVM's IR: what the passes of the vectoriser find out about them, and what the vector code computes beside
// the same kernel run thread by thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

#include "compiler/kernel_abi.hpp"
#include "vectorize/divergence.hpp"
#include "vectorize/shape.hpp"

namespace vectorize_test {

using namespace metalki;
using compiler::Uint3;
using compiler::vectorize::Divergence;
using compiler::vectorize::Geometry;
using compiler::vectorize::LaneLayout;
using compiler::vectorize::Level;
using compiler::vectorize::Shape;
using Words = std::vector<std::uint32_t>;

// %mine and %own: this thread's word in `out` and in `in`; %v: what stands there in `in`.
inline constexpr std::string_view own_words = R"(
  %y2 = shl i32 %y, 1
  %yz = add i32 %y2, %z
  %start = mul i32 %yz, 96
  %i = add i32 %start, %x
  %wide = zext i32 %i to i64
  %mine = getelementptr i32, ptr %out, i64 %wide
  %own = getelementptr i32, ptr %in, i64 %wide
  %v = load i32, ptr %own
)";

// A module with one kernel: `void @kernel(ptr %c)`. The text starts in its entry block, where these are known:
//   %x, %y, %z    position in the grid            %lx, %ly    position in the threadgroup
//   %lane         index in the SIMD-group         %index      in the threadgroup
//   %group        position of the threadgroup     %simdgroup  its number in the threadgroup
//   %out, %in     two buffers of 32-bit words     %n          a number
// Positions that the text does not mention are not asked for.
class Kernel {
public:
    explicit Kernel(std::string_view text, std::string_view declarations = "");

    llvm::Module& module() { return *module_; }
    llvm::Function& function() { return *module_->getFunction("kernel"); }
    llvm::TargetMachine& machine() { return *machine_; }

    llvm::Value& value(std::string_view name);
    llvm::BasicBlock& block(std::string_view name);

    Kernel& prepare();

private:
    llvm::LLVMContext context_;
    std::unique_ptr<llvm::Module> module_;
    std::unique_ptr<llvm::TargetMachine> machine_;
};

// Divergence of a kernel with what it needs.
struct Analysed {
    llvm::DominatorTree dominators;
    llvm::LoopInfo loops;
    Divergence divergence;

    explicit Analysed(Kernel& kernel, Geometry geometry = {});
    Shape shape(llvm::Value& value) const { return divergence.shape_of(&value); }
};

// How a kernel is launched.
struct Launch {
    Geometry geometry;
    Uint3 grid{32, 1, 1};
    Uint3 threadgroup{32, 1, 1};
    std::uint32_t number = 0; // %n
};

Geometry flat();
Geometry rows(bool full = true);
Geometry columns(unsigned width, bool full = true);
Geometry table(bool full = true);

// What the kernel leaves in `out` (which starts as it is given), as vectors and thread by thread.
Words run_vectors(std::string_view text, const Launch& launch, Words out, Words in, std::string_view declarations = "");
Words run_threads(std::string_view text, const Launch& launch, Words out, Words in, std::string_view declarations = "");

// What a kernel that asks for no position leaves in `out` when it runs as it is.
Words run_once(Kernel& kernel, Words out, Words in);

// IR of the vector code, tidied up.
std::string vector_code(std::string_view text, Geometry geometry, std::string_view declarations = "");

// Runs both for some grids that fill their SIMD-groups and some that do not, and wants the same.
void compare(std::string_view text, std::uint32_t number = 0, std::string_view declarations = "");

// A feature of this x86 processor.
bool has(const llvm::TargetMachine& machine, const char* feature);

std::size_t count(std::string_view text, std::string_view part);

} // namespace vectorize_test
