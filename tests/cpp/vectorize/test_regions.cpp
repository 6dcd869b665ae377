// Partial linearisation: which blocks run under a mask, and the form of loops while all lanes are in them.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>

#include "lane_kernel.hpp"

using namespace vectorize_test;

namespace {

struct Found {
    Kernel kernel;
    std::unique_ptr<Analysed> analysed;

    explicit Found(std::string_view text) : kernel(text) {
        kernel.prepare();
        analysed = std::make_unique<Analysed>(kernel, rows());
    }
    const Level& function() const { return analysed->divergence.regions().function(); }

    static const Level::Node* find(const Level& level, const llvm::BasicBlock& block) {
        for (const Level::Node& node : level.nodes) {
            if (node.block == &block && !node.inner) {
                return &node;
            }
            if (node.inner) {
                if (const Level::Node* inner = find(*node.inner, block)) {
                    return inner;
                }
            }
        }
        return nullptr;
    }
    const Level::Node& node(std::string_view block) {
        const Level::Node* found = find(function(), kernel.block(block));
        REQUIRE(found != nullptr);
        return *found;
    }
    const Level& only_loop() const {
        auto loop = std::ranges::find_if(function().nodes, [](const Level::Node& node) { return node.inner != nullptr; });
        REQUIRE(loop != function().nodes.end());
        return *loop->inner;
    }
};

constexpr std::string_view diamond = R"(
  %a = icmp ult i32 %x, 5
  br i1 %a, label %left, label %right
left:
  store volatile i32 1, ptr %out
  br label %join
right:
  %b = icmp ult i32 %n, 5
  br i1 %b, label %inner, label %join
inner:
  store volatile i32 2, ptr %out
  br label %join
join:
  store volatile i32 3, ptr %out
  ret void
)";

} // namespace

TEST_CASE("only what lies between a branch of the lanes and where they meet is masked") {
    Found found(diamond);
    CHECK(found.node("entry").split);
    CHECK_FALSE(found.node("entry").predicated);
    CHECK(found.node("left").predicated);
    CHECK(found.node("right").predicated);
    CHECK(found.node("inner").predicated);
    CHECK_FALSE(found.node("join").predicated);
    CHECK(found.analysed->divergence.regions().is_join(&found.kernel.block("join")));
}

TEST_CASE("a branch that all lanes take alike stays a branch") {
    std::string text(diamond);
    text.replace(text.find("%x, 5"), 2, "%n");
    Found found(text);
    for (const char* block : {"entry", "left", "right", "inner", "join"}) {
        CHECK_FALSE(found.node(block).split);
        CHECK_FALSE(found.node(block).predicated);
    }
}

TEST_CASE("control flow that joins a masked part from the side makes the branch further up a split") {
    Found found(R"(
  %a = icmp ult i32 %n, 5
  br i1 %a, label %first, label %shared
first:
  %b = icmp ult i32 %x, 5
  br i1 %b, label %shared, label %join
shared:
  store volatile i32 1, ptr %out
  br label %join
join:
  ret void
)");
    CHECK(found.node("entry").split);
    CHECK(found.node("first").predicated);
    CHECK(found.node("shared").predicated);
}

TEST_CASE("a loop that lanes leave at different times has a form for all lanes") {
    Found found(R"(
  br label %head
head:
  %k = phi i32 [ %lane, %entry ], [ %k2, %body ]
  %more = icmp ult i32 %k, %n
  br i1 %more, label %body, label %end
body:
  %k2 = add i32 %k, 32
  store volatile i32 %k, ptr %out
  br label %head
end:
  ret void
)");
    const Level& loop = found.only_loop();
    CHECK(loop.divergent);
    CHECK(found.node("body").predicated);
    CHECK(found.analysed->divergence.regions().is_divergent_exit(&found.kernel.block("end")));
    REQUIRE(loop.together);
    CHECK_FALSE(loop.together->divergent);
    const Level::Node* head = Found::find(*loop.together, found.kernel.block("head"));
    const Level::Node* body = Found::find(*loop.together, found.kernel.block("body"));
    REQUIRE(head);
    REQUIRE(body);
    CHECK(head->parts);
    CHECK_FALSE(head->split);
    CHECK(head->edges.size() == 1);
    CHECK_FALSE(body->predicated);
}

TEST_CASE("an exit in the middle parts the lanes as well; what leads out only is not part of the form for all lanes") {
    Found found(R"(
  br label %head
head:
  %k = phi i32 [ 0, %entry ], [ %k2, %rest ]
  %p = getelementptr i32, ptr %in, i32 %x
  %v = load i32, ptr %p
  %stop = icmp ult i32 %v, %k
  br i1 %stop, label %found, label %rest
found:
  store volatile i32 %k, ptr %out
  br label %end
rest:
  %k2 = add i32 %k, 1
  %more = icmp ult i32 %k2, %n
  br i1 %more, label %head, label %end
end:
  ret void
)");
    const Level& loop = found.only_loop();
    REQUIRE(loop.together);
    CHECK(Found::find(*loop.together, found.kernel.block("found")) == nullptr);
    const Level::Node* rest = Found::find(*loop.together, found.kernel.block("rest"));
    REQUIRE(rest);
    CHECK_FALSE(rest->parts); // all lanes leave here together
    CHECK(rest->edges.size() == 2);
}

TEST_CASE("no form for all lanes where some leave out of a masked part, or past a barrier") {
    constexpr const char* text = R"(
  br label %head
head:
  %k = phi i32 [ 0, %entry ], [ %k2, %rest ]
  %p = getelementptr i32, ptr %in, i32 %x
  %v = load i32, ptr %p
  %c1 = icmp ult i32 %v, %k
  br i1 %c1, label %some, label %rest
some:
  store volatile i32 %k, ptr %out
  %c2 = icmp ult i32 %v, 9
  br i1 %c2, label %end, label %rest
rest:
  %k2 = add i32 %k, 1
  %more = icmp ult i32 %k2, %n
  br i1 %more, label %head, label %end
end:
  ret void
)";
    CHECK(Found(text).only_loop().divergent);
    CHECK_FALSE(Found(text).only_loop().together);
    Found waiting(R"(
  br label %head
head:
  %k = phi i32 [ %lane, %entry ], [ %k2, %body ]
  %more = icmp ult i32 %k, %n
  br i1 %more, label %body, label %end
body:
  %k2 = add i32 %k, 32
  call void @__metalki_barrier(i32 2)
  br label %head
end:
  ret void
)");
    CHECK(waiting.only_loop().divergent);
    CHECK_FALSE(waiting.only_loop().together);
}
