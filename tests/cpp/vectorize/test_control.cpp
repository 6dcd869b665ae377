// Widening of control flow with masks: every kernel runs as vectors and thread by thread, with lanes on different ways.
#include <doctest/doctest.h>

#include "lane_kernel.hpp"

using namespace vectorize_test;

namespace {

std::string placed(std::string_view text) {
    return std::string(own_words) + std::string(text);
}

void compare_placed(std::string_view text, std::uint32_t number = 0) {
    compare(placed(text), number);
}

} // namespace

TEST_CASE("branches in branches, and a value from each way") {
    compare_placed(R"(
  %a = trunc i32 %v to i1
  br i1 %a, label %odd, label %even
odd:
  %b = icmp ult i32 %x, 40
  br i1 %b, label %low, label %join
low:
  store i32 1, ptr %mine
  br label %join
even:
  %e = mul i32 %v, 3
  br label %join
join:
  %r = phi i32 [ %v, %odd ], [ 11, %low ], [ %e, %even ]
  store i32 %r, ptr %mine
  ret void
)");
}

TEST_CASE("what leaves a loop at its end is what its last round had, not what the next one gets") {
    compare_placed(R"(
  br label %loop
loop:
  %first = phi i1 [ true, %entry ], [ false, %round ]
  %k = phi i32 [ 0, %entry ], [ %next, %round ]
  br i1 %first, label %round, label %end
round:
  %next = add i32 %k, 1
  %a = trunc i32 %v to i1
  br i1 %a, label %loop, label %end
end:
  %was.first = phi i1 [ %first, %round ], [ %first, %loop ]
  %rounds = phi i32 [ %k, %round ], [ %k, %loop ]
  %r = select i1 %was.first, i32 100, i32 200
  %s = add i32 %r, %rounds
  store i32 %s, ptr %mine
  ret void
)");
}

TEST_CASE("an early return") {
    compare_placed(R"(
  %a = trunc i32 %v to i1
  br i1 %a, label %out.early, label %on
out.early:
  ret void
on:
  store i32 %x, ptr %mine
  ret void
)");
}

TEST_CASE("a switch with ways that fall into the next") {
    compare_placed(R"(
  %kind = and i32 %v, 3
  switch i32 %kind, label %other [ i32 0, label %zero
                                   i32 1, label %one
                                   i32 2, label %two ]
zero:
  br label %one
one:
  %s = phi i32 [ 5, %entry ], [ 7, %zero ]
  br label %other
two:
  store i32 77, ptr %mine
  br label %end
other:
  %r = phi i32 [ 9, %entry ], [ %s, %one ]
  store i32 %r, ptr %mine
  br label %end
end:
  ret void
)");
}

TEST_CASE("a loop that every lane leaves in its own time, tested at its start") {
    compare_placed(R"(
  %times = and i32 %v, 15
  br label %head
head:
  %k = phi i32 [ 0, %entry ], [ %k2, %body ]
  %s = phi i32 [ 1, %entry ], [ %s2, %body ]
  %more = icmp ult i32 %k, %times
  br i1 %more, label %body, label %end
body:
  %p = getelementptr i32, ptr %in, i32 %k
  %e = load i32, ptr %p
  %m = mul i32 %s, 31
  %s2 = add i32 %m, %e
  %k2 = add i32 %k, 1
  br label %head
end:
  store i32 %s, ptr %mine
  ret void
)");
}

// Over `in` by steps of a SIMD-group: all lanes stay in until the last round.
constexpr std::string_view strided = R"(
  br label %head
head:
  %k = phi i32 [ %lane, %entry ], [ %k2, %body ]
  %s = phi i32 [ 1, %entry ], [ %s2, %body ]
  %more = icmp ult i32 %k, %n
  br i1 %more, label %body, label %end
body:
  %kw = zext i32 %k to i64
  %p = getelementptr i32, ptr %in, i64 %kw
  %e = load i32, ptr %p
  %m = mul i32 %s, 31
  %s2 = add i32 %m, %e
  %k2 = add i32 %k, 32
  br label %head
end:
  store i32 %s, ptr %mine
  ret void
)";

TEST_CASE("a loop by steps of a SIMD-group, for lengths around its rounds") {
    for (std::uint32_t length : {0u, 1u, 31u, 32u, 33u, 64u, 95u, 96u, 1000u}) {
        compare_placed(strided, length);
    }
}

TEST_CASE("such a loop loads without a mask while all lanes are in it, and with one afterwards") {
    std::string code = vector_code(placed(strided), rows());
    CHECK(count(code, "load <32 x i32>") > 0);
    CHECK(count(code, "call <32 x i32> @llvm.masked.load") > 0);
    // Only the lanes that stay longer than others are compared one by one.
    CHECK(count(code, "icmp ult <32 x i32>") + count(code, "icmp ugt <32 x i32>") == 1);
    // Where the first lane is at its end as well, none is: behind the rounds of all lanes as behind those of some.
    CHECK(count(code, "label %kernel.lanes.exit, label %head") == 2);
}

TEST_CASE("counting down, signed, and where the counter wraps round") {
    for (const char* text : {"icmp sgt i32 %k, -70", "icmp slt i32 %s0, %k", "icmp uge i32 %k, 100", "icmp ule i32 %k, %n"}) {
        std::string loop = R"(
  %s0 = sub i32 0, %n
  %first = add i32 %lx, 250
  br label %head
head:
  %k = phi i32 [ %first, %entry ], [ %k2, %body ]
  %s = phi i32 [ 1, %entry ], [ %s2, %body ]
  %more = )" + std::string(text) +
                           R"(
  %few = icmp ult i32 %s, 20
  %on = and i1 %more, %few
  br i1 %on, label %body, label %end
body:
  %s2 = add i32 %s, 1
  %k2 = sub i32 %k, 32
  br label %head
end:
  store i32 %k, ptr %mine
  ret void
)";
        INFO(text);
        compare_placed(loop, 77);
        compare_placed(loop, 0xffffffff);
    }
}

TEST_CASE("a loop with an exit in the middle behind a store, and a value that only some bring along") {
    compare_placed(R"(
  br label %head
head:
  %k = phi i32 [ 0, %entry ], [ %k2, %rest ]
  %a = phi i32 [ %v, %entry ], [ %a2, %rest ]
  store i32 %a, ptr %mine
  %low = and i32 %a, 7
  %stop = icmp eq i32 %low, 3
  br i1 %stop, label %found, label %rest
found:
  %f = add i32 %k, 1000
  br label %end
rest:
  %a2 = lshr i32 %a, 1
  %k2 = add i32 %k, 1
  %more = icmp ult i32 %k2, 20
  br i1 %more, label %head, label %end
end:
  %r = phi i32 [ %f, %found ], [ %k2, %rest ]
  store i32 %r, ptr %mine
  ret void
)");
}

TEST_CASE("two exits, branches within, and a way that goes round early") {
    compare_placed(R"(
  %limit = and i32 %v, 31
  br label %head
head:
  %k = phi i32 [ 0, %entry ], [ %k2, %latch ]
  %s = phi i32 [ 0, %entry ], [ %s3, %latch ]
  %more = icmp ult i32 %k, %limit
  br i1 %more, label %body, label %end
body:
  %t = xor i32 %s, %v
  %odd = trunc i32 %t to i1
  br i1 %odd, label %latch, label %second1
second1:
  %s2 = add i32 %s, %k
  %stop = icmp ugt i32 %s2, 60
  br i1 %stop, label %end, label %latch
latch:
  %s3 = phi i32 [ %t, %body ], [ %s2, %second1 ]
  %k2 = add i32 %k, 1
  br label %head
end:
  %r = phi i32 [ %s, %head ], [ %s2, %second1 ]
  store i32 %r, ptr %mine
  ret void
)");
}

// A loop in a loop; `exit` is where the inner one leads when lanes of `v` have had enough.
std::string nested(std::string_view exit, std::string_view end_phi) {
    return R"(
  %outer.times = and i32 %v, 7
  %inner.times = and i32 %x, 3
  br label %outer
outer:
  %j = phi i32 [ 0, %entry ], [ %j2, %outer.latch ]
  %s = phi i32 [ 0, %entry ], [ %t, %outer.latch ]
  %outer.more = icmp ule i32 %j, %outer.times
  br i1 %outer.more, label %inner, label %end
inner:
  %k = phi i32 [ 0, %outer ], [ %k2, %inner.latch ]
  %t = phi i32 [ %s, %outer ], [ %t2, %inner.latch ]
  %inner.more = icmp ule i32 %k, %inner.times
  br i1 %inner.more, label %inner.body, label %outer.latch
inner.body:
  %t2 = add i32 %t, %v
  %enough = trunc i32 %t2 to i8
  %stop = icmp ugt i8 %enough, 200
  br i1 %stop, label %)" +
           std::string(exit) + R"(, label %inner.latch
inner.latch:
  %k2 = add i32 %k, 1
  br label %inner
outer.latch:
  %j2 = add i32 %j, 1
  br label %outer
end:
  %r = phi i32 [ %s, %outer ])" +
           std::string(end_phi) + R"(
  store i32 %r, ptr %mine
  ret void
)";
}

TEST_CASE("lanes leave two loops at once and keep their values while the others go on") {
    compare_placed(nested("end", ", [ %t2, %inner.body ]"));
}

TEST_CASE("lanes return out of two loops") {
    std::string text = nested("gone", "");
    compare_placed(text + "gone:\n  store i32 %t2, ptr %mine\n  ret void\n");
}

TEST_CASE("a loop in a masked part, entered by some lanes only or by all") {
    for (const char* condition : {"icmp ult i32 %x, 70", "icmp ult i32 %v, 3", "icmp ne i32 %x, 33"}) {
        std::string text = "  %some = " + std::string(condition) + R"(
  br i1 %some, label %loop, label %end
loop:
  %k = phi i32 [ 0, %entry ], [ %k2, %loop ]
  %s = phi i32 [ %v, %entry ], [ %s2, %loop ]
  %h = lshr i32 %s, 3
  %s2 = xor i32 %h, %k
  %k2 = add i32 %k, 1
  %more = icmp ugt i32 %s2, 40
  br i1 %more, label %loop, label %done
done:
  store i32 %s2, ptr %mine
  br label %end
end:
  ret void
)";
        INFO(condition);
        compare_placed(text);
    }
}

TEST_CASE("stores under a mask leave the words of the other lanes alone") {
    compare_placed(R"(
  %a = trunc i32 %v to i1
  br i1 %a, label %then, label %end
then:
  store i32 4711, ptr %mine
  br label %end
end:
  ret void
)");
}

TEST_CASE("a uniform loop with a branch of the lanes in it needs no mask of its own") {
    constexpr std::string_view text = R"(
  br label %head
head:
  %k = phi i32 [ 0, %entry ], [ %k2, %latch ]
  %s = phi i32 [ 0, %entry ], [ %s3, %latch ]
  %b = lshr i32 %v, %k
  %odd = trunc i32 %b to i1
  br i1 %odd, label %add, label %latch
add:
  %s2 = add i32 %s, %k
  br label %latch
latch:
  %s3 = phi i32 [ %s, %head ], [ %s2, %add ]
  %k2 = add i32 %k, 1
  %more = icmp ult i32 %k2, 24
  br i1 %more, label %head, label %end
end:
  store i32 %s3, ptr %mine
  ret void
)";
    compare_placed(text);
    CHECK(count(vector_code(placed(text), rows()), "masked") == 0);
}
