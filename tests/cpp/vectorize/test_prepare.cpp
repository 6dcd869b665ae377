// The form that the vectoriser reads.
#include <doctest/doctest.h>

#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"

#include "codegen/runtime_calls.hpp"
#include "lane_kernel.hpp"

using namespace vectorize_test;

TEST_CASE("switches become two-way branches, returns become one") {
    Kernel kernel(R"(
  switch i32 %x, label %other [ i32 1, label %one
                                i32 5, label %five ]
one:
  store volatile i32 1, ptr %out
  ret void
five:
  store volatile i32 5, ptr %out
  ret void
other:
  ret void
)");
    unsigned returns = 0;
    for (llvm::BasicBlock& block : kernel.prepare().function()) {
        llvm::Instruction* end = block.getTerminator();
        returns += llvm::isa<llvm::ReturnInst>(end);
        CHECK((llvm::isa<llvm::ReturnInst, llvm::BranchInst>(end)));
    }
    CHECK(returns == 1);
}

TEST_CASE("irreducible loops become reducible, loops have a preheader and one latch") {
    Kernel kernel(R"(
  %c1 = icmp ult i32 %x, 5
  br i1 %c1, label %a, label %b
a:
  %i = phi i32 [ 0, %entry ], [ %j, %b ]
  %i2 = add i32 %i, 1
  store volatile i32 %i, ptr %out
  br label %b
b:
  %j = phi i32 [ 3, %entry ], [ %i2, %a ]
  %c2 = icmp ult i32 %j, %n
  br i1 %c2, label %a, label %end
end:
  ret void
)");
    kernel.prepare();
    llvm::DominatorTree dominators(kernel.function());
    llvm::LoopInfo loops(dominators);
    REQUIRE(loops.getTopLevelLoops().size() == 1);
    CHECK(loops.getTopLevelLoops().front()->getLoopPreheader() != nullptr);
    CHECK(loops.getTopLevelLoops().front()->getLoopLatch() != nullptr);
    CHECK(loops.getTopLevelLoops().front()->isLCSSAForm(dominators));
}

TEST_CASE("every barrier ends its block") {
    Kernel kernel(R"(
  store volatile i32 1, ptr %out
  call void @__metalki_barrier(i32 2)
  store volatile i32 2, ptr %out
  call void @__metalki_barrier(i32 2)
  store volatile i32 3, ptr %out
  ret void
)");
    kernel.prepare();
    auto barriers = compiler::calls_of(kernel.function(), "__metalki_barrier");
    REQUIRE(barriers.size() == 2);
    for (llvm::CallInst* barrier : barriers) {
        CHECK(barrier->getNextNode()->isTerminator());
    }
}

TEST_CASE("arithmetic on vectors is taken apart") {
    Kernel kernel(R"(
  %p = getelementptr <2 x i32>, ptr %in, i32 %x
  %v = load <2 x i32>, ptr %p
  %twice = add <2 x i32> %v, %v
  %first = extractelement <2 x i32> %twice, i32 0
  %second1 = extractelement <2 x i32> %twice, i32 1
  %sum = add i32 %first, %second1
  store volatile i32 %sum, ptr %out
  ret void
)");
    for (llvm::Instruction& instruction : llvm::instructions(kernel.prepare().function())) {
        CHECK_FALSE((llvm::isa<llvm::BinaryOperator>(instruction) && instruction.getType()->isVectorTy()));
    }
}

TEST_CASE("a pair of numbers that travels as one integer keeps what is known of each") {
    Kernel kernel(R"(
  %v1 = insertelement <2 x i32> poison, i32 %n, i32 0
  %v2 = insertelement <2 x i32> %v1, i32 %x, i32 1
  %pair = bitcast <2 x i32> %v2 to i64
  %low = trunc i64 %pair to i32
  %top = lshr i64 %pair, 32
  %high = trunc i64 %top to i32
  store volatile i32 %low, ptr %out
  store volatile i32 %high, ptr %out
  ret void
)");
    Analysed analysed(kernel.prepare(), rows());
    std::vector<Shape> stored;
    for (llvm::Instruction& instruction : llvm::instructions(kernel.function())) {
        if (auto* store = llvm::dyn_cast<llvm::StoreInst>(&instruction)) {
            stored.push_back(analysed.shape(*store->getValueOperand()));
        }
    }
    REQUIRE(stored.size() == 2);
    CHECK(stored[0].is_uniform());
    CHECK(stored[1].kind == Shape::Kind::affine);
}
