// Barriers cut the kernel: every SIMD-group of a threadgroup has done what stands before one when the first goes on behind it.
#include <doctest/doctest.h>

#include "lane_kernel.hpp"

using namespace vectorize_test;

namespace {

Words run(std::string_view text, Uint3 threadgroup, Geometry geometry, std::uint32_t number = 0, std::uint32_t groups = 2) {
    Words in;
    for (std::uint32_t i = 0; i < 4096; ++i) {
        in.push_back(i * 3 + 1);
    }
    Uint3 grid{threadgroup.x * groups, threadgroup.y, threadgroup.z};
    return run_vectors(text, {geometry, grid, threadgroup, number}, Words(4096, 7), in);
}

// The word of thread %index in the threadgroup's own memory, and this thread's word in `out`.
std::string shared(std::string_view text) {
    return std::string(R"(
  %memory = call ptr @__metalki_threadgroup_memory()
  %here = getelementptr i32, ptr %memory, i32 %index
  %base = mul i32 %group, 128
  %to = add i32 %base, %index
  %mine = getelementptr i32, ptr %out, i32 %to
  %own = getelementptr i32, ptr %in, i32 %to
  %v = load i32, ptr %own
)") + std::string(text);
}

// The words of 128 threads, the last one first.
constexpr std::string_view reversed = R"(
  store i32 %v, ptr %here
  call void @__metalki_barrier(i32 2)
  %other = sub i32 127, %index
  %there = getelementptr i32, ptr %memory, i32 %other
  %w = load i32, ptr %there
  store i32 %w, ptr %mine
  ret void
)";

} // namespace

TEST_CASE("what one SIMD-group wrote before a barrier another reads behind it") {
    std::string text = shared(reversed);
    Words out = run(text, {128, 1, 1}, rows());
    for (std::uint32_t i = 0; i < 256; ++i) {
        CHECK(out[i] == (i / 128 * 128 + 127 - i % 128) * 3 + 1);
    }
}

TEST_CASE("a value lives across barriers of a loop, and the last SIMD-group has fewer lanes") {
    std::string text = shared(R"(
  br label %head
head:
  %k = phi i32 [ 0, %entry ], [ %k2, %head ]
  %s = phi i32 [ %v, %entry ], [ %s2, %head ]
  store i32 %s, ptr %here
  call void @__metalki_barrier(i32 2)
  %next = add i32 %index, 1
  %last = icmp eq i32 %next, 100
  %other = select i1 %last, i32 0, i32 %next
  %there = getelementptr i32, ptr %memory, i32 %other
  %w = load i32, ptr %there
  call void @__metalki_barrier(i32 2)
  %s2 = add i32 %s, %w
  %k2 = add i32 %k, 1
  %more = icmp ult i32 %k2, %n
  br i1 %more, label %head, label %end
end:
  store i32 %s2, ptr %mine
  ret void
)");
    Words out = run(text, {100, 1, 1}, rows(false), 3, 1);
    Words want;
    for (std::uint32_t i = 0; i < 100; ++i) {
        want.push_back(i * 3 + 1);
    }
    for (int round = 0; round < 3; ++round) {
        Words before = want;
        for (std::uint32_t i = 0; i < 100; ++i) {
            want[i] = before[i] + before[(i + 1) % 100];
        }
    }
    CHECK(Words(out.begin(), out.begin() + 100) == want);
    CHECK(out[100] == 7);
}

TEST_CASE("threads that returned before a barrier do not hold up the others") {
    std::string text = shared(R"(
  %gone = icmp ugt i32 %index, 40
  br i1 %gone, label %end, label %stay
stay:
  store i32 %v, ptr %here
  call void @__metalki_barrier(i32 2)
  %other = sub i32 40, %index
  %there = getelementptr i32, ptr %memory, i32 %other
  %w = load i32, ptr %there
  store i32 %w, ptr %mine
  br label %end
end:
  ret void
)");
    Words out = run(text, {128, 1, 1}, rows(), 0, 1);
    for (std::uint32_t i = 0; i < 128; ++i) {
        CHECK(out[i] == (i <= 40 ? (40 - i) * 3 + 1 : 7));
    }
}

TEST_CASE("a thread's own array waits for it at a barrier") {
    std::string text = shared(R"(
  %array = alloca [4 x i32]
  %k = and i32 %index, 3
  %p = getelementptr [4 x i32], ptr %array, i32 0, i32 %k
  store i32 %index, ptr %p
  call void @__metalki_barrier(i32 2)
  %w = load i32, ptr %p
  store i32 %w, ptr %mine
  ret void
)");
    Words out = run(text, {16, 8, 1}, columns(16), 0, 1);
    for (std::uint32_t i = 0; i < 128; ++i) {
        CHECK(out[i] == i);
    }
}

TEST_CASE("a branch that whole threadgroups take alike may have a barrier in it") {
    std::string text = shared(R"(
  store i32 %v, ptr %here
  %some = icmp eq i32 %group, 1
  br i1 %some, label %wait, label %end
wait:
  call void @__metalki_barrier(i32 2)
  %other = xor i32 %index, 64
  %there = getelementptr i32, ptr %memory, i32 %other
  %w = load i32, ptr %there
  store i32 %w, ptr %mine
  br label %end
end:
  ret void
)");
    Words out = run(text, {128, 1, 1}, rows());
    for (std::uint32_t i = 0; i < 128; ++i) {
        CHECK(out[i] == 7);
        CHECK(out[128 + i] == (128 + (i ^ 64)) * 3 + 1);
    }
}

namespace {

// The same as thread by thread without the barriers, which change nothing where threads do not look at one another's memory.
void compare_across_barriers(const std::string& text, std::uint32_t number = 0) {
    const std::string barrier = "call void @__metalki_barrier(i32 2)\n";
    std::string apart = text;
    for (std::size_t at; (at = apart.find(barrier)) != std::string::npos;) {
        apart.erase(at, barrier.size());
    }
    Words in;
    for (std::uint32_t i = 0; i < 4096; ++i) {
        in.push_back(i * 7 + 3);
    }
    for (const Launch& launch :
         {Launch{rows(), {128, 2, 1}, {64, 1, 1}, number}, Launch{rows(false), {90, 1, 1}, {45, 1, 1}, number},
          Launch{columns(8), {16, 8, 1}, {8, 8, 1}, number}}) {
        CHECK(run_vectors(text, launch, Words(4096), in) == run_threads(apart, launch, Words(4096), in));
    }
}

// Two sums over a loop with two barriers; `next_a` and `next_b` are what they are in the next iteration.
std::string sums_over_barriers(std::string_view next_a, std::string_view next_b) {
    return std::string(own_words) +
           "  br label %loop\nloop:\n  %k = phi i32 [0, %entry], [%k1, %loop]\n"
           "  %a = phi i32 [%v, %entry], [%a1, %loop]\n  %b = phi i32 [%lane, %entry], [%b1, %loop]\n"
           "  call void @__metalki_barrier(i32 2)\n"
           "  %a2 = mul i32 %a, 3\n  %b2 = add i32 %b, %k\n  %a3 = xor i32 %a2, %v\n"
           "  %a1 = add i32 " +
           std::string(next_a) + ", 0\n  %b1 = add i32 " + std::string(next_b) +
           ", 0\n  call void @__metalki_barrier(i32 2)\n"
           "  %k1 = add i32 %k, 1\n  %more = icmp ult i32 %k1, 4\n  br i1 %more, label %loop, label %done\n"
           "done:\n  %s = shl i32 %b, 1\n  %t = add i32 %s, %a1\n  %r = xor i32 %t, %b1\n"
           "  store i32 %r, ptr %mine\n  ret void\n";
}

} // namespace

TEST_CASE("what a loop over barriers adds up waits in one place") {
    std::string sum = std::string(own_words) +
                      "  br label %loop\nloop:\n  %k = phi i32 [0, %entry], [%k1, %loop]\n"
                      "  %a = phi i32 [0, %entry], [%a1, %loop]\n  call void @__metalki_barrier(i32 2)\n"
                      "  %w = load i32, ptr %own\n  %a1 = add i32 %a, %w\n  call void @__metalki_barrier(i32 2)\n"
                      "  %k1 = add i32 %k, 1\n  %more = icmp ult i32 %k1, %n\n  br i1 %more, label %loop, label %done\n"
                      "done:\n  store i32 %a1, ptr %mine\n  ret void\n";
    CHECK(count(vector_code(sum, rows()), "alloca [33 x <32 x i32>]") == 1);
    compare_across_barriers(sum, 3);
}

TEST_CASE("sums that change places, or are needed as they were, do not share one") {
    compare_across_barriers(sums_over_barriers("%a3", "%b2"));
    compare_across_barriers(sums_over_barriers("%b2", "%a3"));
    compare_across_barriers(sums_over_barriers("%b", "%a"));
    compare_across_barriers(sums_over_barriers("%a", "%a3"));
    compare_across_barriers(sums_over_barriers("%b2", "%b"));
}

TEST_CASE("what all SIMD-groups of a threadgroup share is computed once for each piece between barriers") {
    std::string code = vector_code(shared(reversed), rows());
    std::size_t behind = code.find("\ninside");
    REQUIRE(behind != std::string::npos);
    std::string block = code.substr(behind, code.find("\n\n", behind) - behind);
    CHECK(count(block, "load <32 x i32>") == 1);
    CHECK(count(block, "invariant.load") == 0);
}

TEST_CASE("what all SIMD-groups read in threadgroup memory between two barriers is read once") {
    for (const bool sized : {true, false}) {
        std::string text = shared(R"(
  store i32 %v, ptr %here
  call void @__metalki_barrier(i32 2)
  %there = getelementptr i32, ptr %memory, i32 %lane
  %w = load i32, ptr %there
  %sum = add i32 %v, %w
  call void @__metalki_barrier(i32 2)
  store i32 %sum, ptr %mine
  ret void
)");
        const std::string_view call = "call ptr @__metalki_threadgroup_memory";
        REQUIRE(text.find(call) != std::string::npos);
        text.replace(text.find(call), call.size(),
                     std::string("call ") + (sized ? "align 64 dereferenceable(512) " : "") + std::string(call.substr(5)));
        const std::string code = vector_code(text, rows());
        const std::size_t sum = code.find("add <32 x i32>"), block = code.rfind("\n\n", sum);
        REQUIRE(sum != std::string::npos);
        // Beside the sum stands the load of %v alone.
        CHECK(count(code.substr(block, sum - block), "load <32 x i32>") == (sized ? 1 : 2));
    }
}
