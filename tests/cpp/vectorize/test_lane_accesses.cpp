// Accesses of lanes that a machine has no instruction for: small numbers in words, all else in a loop over the lanes that are
// on.
#include <doctest/doctest.h>

#include <cstring>

#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Target/TargetOptions.h"

#include "codegen/lane_accesses.hpp"
#include "lane_kernel.hpp"

using namespace vectorize_test;

namespace {

constexpr unsigned lanes = 8;

std::unique_ptr<llvm::TargetMachine> machine_of(Kernel& kernel, const char* cpu) {
    std::string problem, triple = kernel.machine().getTargetTriple().str();
    const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, problem);
    REQUIRE(target);
    return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(triple, cpu, "", {}, llvm::Reloc::PIC_));
}

// In the names of intrinsics.
std::string suffix_of(const std::string& type) {
    return "v8" + (type == "half" ? "f16" : type == "float" ? "f32" : type);
}

std::string declarations(const std::string& type) {
    std::string suffix = suffix_of(type);
    std::string wide = "<8 x " + type + ">";
    return "declare " + wide + " @llvm.masked.gather." + suffix + ".v8p0(<8 x ptr>, i32, <8 x i1>, " + wide + ")\n" +
           "declare void @llvm.masked.scatter." + suffix + ".v8p0(" + wide + ", <8 x ptr>, i32, <8 x i1>)\n" + "declare " +
           wide + " @llvm.masked.load." + suffix + ".p0(ptr, i32, <8 x i1>, " + wide + ")\n" +
           "declare void @llvm.masked.store." + suffix + ".p0(" + wide + ", ptr, i32, <8 x i1>)\n";
}

// Lane l reads at byte 9 * l + 1 of `in` and writes at byte 11 * l of `out` when bit l of the first word of `in` is set.
std::string scattered(const std::string& type) {
    std::string suffix = suffix_of(type);
    return R"(
  %bits = load i8, ptr %in
  %mask = bitcast i8 %bits to <8 x i1>
  %from = getelementptr i8, ptr %in, <8 x i64> <i64 1, i64 10, i64 19, i64 28, i64 37, i64 46, i64 55, i64 64>
  %to = getelementptr i8, ptr %out, <8 x i64> <i64 0, i64 11, i64 22, i64 33, i64 44, i64 55, i64 66, i64 77>
  %v = call <8 x )" +
           type + "> @llvm.masked.gather." + suffix + ".v8p0(<8 x ptr> %from, i32 1, <8 x i1> %mask, <8 x " + type +
           "> zeroinitializer)\n  call void @llvm.masked.scatter." + suffix + ".v8p0(<8 x " + type +
           "> %v, <8 x ptr> %to, i32 1, <8 x i1> %mask)\n  ret void\n";
}

// Lane l copies element l, at byte 4 onwards.
std::string consecutive(const std::string& type) {
    std::string suffix = suffix_of(type);
    return R"(
  %bits = load i8, ptr %in
  %mask = bitcast i8 %bits to <8 x i1>
  %from = getelementptr i8, ptr %in, i64 4
  %v = call <8 x )" +
           type + "> @llvm.masked.load." + suffix + ".p0(ptr %from, i32 1, <8 x i1> %mask, <8 x " + type +
           "> zeroinitializer)\n  call void @llvm.masked.store." + suffix + ".p0(<8 x " + type +
           "> %v, ptr %out, i32 1, <8 x i1> %mask)\n  ret void\n";
}

unsigned masked_calls(Kernel& kernel) {
    unsigned count = 0;
    for (llvm::Instruction& instruction : llvm::instructions(kernel.function())) {
        auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
        count += call && call->getCalledFunction()->getName().starts_with("llvm.masked");
    }
    return count;
}

struct Case {
    const char* type;
    unsigned bytes;
};
constexpr Case types[] = {{"i8", 1}, {"i16", 2}, {"half", 2}, {"float", 4}, {"i64", 8}};

void check(const char* cpu, bool apart) {
    for (const Case& c : types) {
        for (std::uint32_t bits : {0u, 0xffu, 0xa5u, 0x10u}) {
            std::string text = apart ? scattered(c.type) : consecutive(c.type);
            INFO(cpu, " ", c.type, " mask ", bits);
            Kernel kernel(text, declarations(c.type));
            std::unique_ptr<llvm::TargetMachine> machine = machine_of(kernel, cpu);
            compiler::lower_lane_accesses(kernel.function(), *machine);
            CHECK_FALSE(llvm::verifyFunction(kernel.function()));
            Words in(40), want(40, 0x11111111);
            for (std::uint32_t i = 0; i < in.size(); ++i) {
                in[i] = 0x01020304u * (i + 3);
            }
            in[0] = (in[0] & ~0xffu) | bits;
            Words out = want;
            for (unsigned lane = 0; lane < lanes; ++lane) {
                unsigned from = apart ? 9 * lane + 1 : 4 + lane * c.bytes, to = apart ? 11 * lane : lane * c.bytes;
                if (bits >> lane & 1) {
                    std::memcpy(reinterpret_cast<char*>(want.data()) + to, reinterpret_cast<char*>(in.data()) + from, c.bytes);
                }
            }
            CHECK(run_once(kernel, out, in) == want);
        }
    }
}

} // namespace

namespace {
#if defined(__x86_64__)
constexpr const char* machines[] = {"x86-64", "x86-64-v3", "x86-64-v4"};
#else
constexpr const char* machines[] = {"generic"};
#endif
} // namespace

TEST_CASE("each lane at its own place") {
    for (const char* cpu : machines) {
        check(cpu, true);
    }
}

TEST_CASE("lanes side by side") {
    for (const char* cpu : machines) {
        check(cpu, false);
    }
}

#if defined(__x86_64__)
TEST_CASE("what a machine does not know is gone, what it knows stays") {
    auto left = [](const char* cpu, const char* type) {
        Kernel kernel(scattered(type), declarations(type));
        compiler::lower_lane_accesses(kernel.function(), *machine_of(kernel, cpu));
        return masked_calls(kernel);
    };
    CHECK(left("x86-64", "float") == 0);
    CHECK(left("x86-64-v4", "float") == 2);
    CHECK(left("x86-64-v4", "half") == 2); // two gathers of words, and a loop in place of the scatter
}
#endif
