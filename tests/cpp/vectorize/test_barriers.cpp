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

} // namespace

TEST_CASE("what one SIMD-group wrote before a barrier another reads behind it") {
    std::string text = shared(R"(
  store i32 %v, ptr %here
  call void @__metalki_barrier(i32 2)
  %other = sub i32 127, %index
  %there = getelementptr i32, ptr %memory, i32 %other
  %w = load i32, ptr %there
  store i32 %w, ptr %mine
  ret void
)");
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
