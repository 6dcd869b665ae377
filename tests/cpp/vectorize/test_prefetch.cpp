// What the next iteration of a long loop reads.
#include <doctest/doctest.h>

#include "lane_kernel.hpp"

using namespace vectorize_test;

namespace {

// Sums up a row of in[], `%n` words from one to the next; `work` multiplications each.
std::string sum_of_rows(int work, std::string_view from = "%in", std::string_view at_the_end = "") {
    std::string text = "  br label %loop\nloop:\n  %k = phi i32 [0, %entry], [%next, %loop]\n"
                       "  %s = phi i32 [0, %entry], [%sum, %loop]\n"
                       "  %row = mul i32 %k, %n\n  %at = add i32 %row, %lane\n  %wide = zext i32 %at to i64\n"
                       "  %place = getelementptr i32, ptr " +
                       std::string(from) +
                       ", i64 %wide\n  %m0 = load i32, ptr %place\n"
                       "  %beside = getelementptr i32, ptr %place, i64 1\n  %b = load i32, ptr %beside\n";
    for (int i = 1; i <= work; ++i) {
        std::string before = "%m" + std::to_string(i - 1);
        text += "  %m" + std::to_string(i) + " = mul i32 " + before + ", " + before + "\n";
    }
    return text + "  %t = add i32 %s, %m" + std::to_string(work) + "\n  %sum = add i32 %t, %b\n" + std::string(at_the_end) +
           "  %next = add i32 %k, 1\n  %more = icmp ult i32 %next, 5\n  br i1 %more, label %loop, label %done\n"
           "done:\n  %li = zext i32 %lane to i64\n  %mine = getelementptr i32, ptr %out, i64 %li\n"
           "  store i32 %sum, ptr %mine\n  ret void\n";
}

std::size_t prefetches(const std::string& text) {
    return count(vector_code(text, rows()), "call void @llvm.prefetch");
}

} // namespace

TEST_CASE("a long loop asks for the next iteration's lines") {
    CHECK(prefetches(sum_of_rows(400)) == 2); // 32 words lie in two of them, their neighbours in the same
    CHECK(prefetches(sum_of_rows(20)) == 0);
    CHECK(prefetches("  %own = call ptr @__metalki_threadgroup_memory()\n" + sum_of_rows(400, "%own")) == 0);
}

TEST_CASE("each iteration asks for what it reads in the next threadgroup") {
    for (int work : {400, 60}) {
        std::string all = sum_of_rows(work), own = all;
        own.replace(own.find("mul i32 %k, %n"), 14, "mul i32 %of, %n");
        own.insert(own.find("  %row ="), "  %of = add i32 %first, %k\n");
        own.insert(0, "  %first = mul i32 %group, 5\n");
        CAPTURE(work);
        CHECK(prefetches(all) == 2);
        CHECK(prefetches(own) == 4);
        Words in(3000);
        for (std::size_t i = 0; i < in.size(); ++i) {
            in[i] = static_cast<std::uint32_t>(3 * i + 1);
        }
        Launch launch{.geometry = rows(), .grid = {96, 1, 1}, .number = 100};
        CHECK(run_vectors(own, launch, Words(96), in) == run_threads(own, launch, Words(96), in));
    }
}

TEST_CASE("a shorter loop looks further ahead, where no stream leads there") {
    std::string text = vector_code(sum_of_rows(60), rows());
    CHECK(count(text, "call void @llvm.prefetch") == 2);
    std::string near = sum_of_rows(60);
    near.replace(near.find("mul i32 %k, %n"), 14, "mul i32 %k, 32");
    CHECK(prefetches(near) == 0);
}

TEST_CASE("a loop that waits for others asks for nothing") {
    std::string text = sum_of_rows(400, "%in", "  call void @__metalki_barrier(i32 1)\n");
    CHECK(prefetches(text) == 0);
    Words in(200, 3);
    Launch launch{.geometry = rows(), .number = 8};
    CHECK(run_vectors(text, launch, Words(32), in) == run_vectors(sum_of_rows(400), launch, Words(32), in));
}

TEST_CASE("what is asked for behind the last iteration changes nothing") {
    Words in(32);
    for (std::size_t i = 0; i < in.size(); ++i) {
        in[i] = static_cast<std::uint32_t>(2 * i + 1);
    }
    in.push_back(7);
    Launch launch{.geometry = rows(), .number = 0};
    CHECK(run_vectors(sum_of_rows(400), launch, Words(32), in) == run_threads(sum_of_rows(400), launch, Words(32), in));
}

namespace {

// Sums up every 32nd word from the thread's own on, in rows of %n words: one row for each threadgroup, or one for all.
std::string sum_of_row(std::string_view row, unsigned step = 32) {
    return "  %row = mul i32 " + std::string(row) +
           ", %n\n  br label %loop\nloop:\n  %k = phi i32 [%lane, %entry], [%next, %loop]\n"
           "  %s = phi i32 [0, %entry], [%sum, %loop]\n"
           "  %at = add i32 %row, %k\n  %wide = zext i32 %at to i64\n"
           "  %place = getelementptr i32, ptr %in, i64 %wide\n  %v = load i32, ptr %place\n"
           "  %sum = add i32 %s, %v\n  %next = add i32 %k, " +
           std::to_string(step) +
           "\n  %more = icmp ult i32 %next, 128\n  br i1 %more, label %loop, label %done\n"
           "done:\n  %first = shl i32 %group, 5\n  %li = add i32 %first, %lane\n  %lw = zext i32 %li to i64\n"
           "  %mine = getelementptr i32, ptr %out, i64 %lw\n  store i32 %sum, ptr %mine\n  ret void\n";
}

} // namespace

TEST_CASE("a short loop asks for what its stream brings two pages on") {
    std::string text = vector_code(sum_of_row("%group"), rows());
    CHECK(count(text, "call void @llvm.prefetch") >= 2);
    CHECK(count(text, "i64 8192") == count(text, "i64 8256"));
}

TEST_CASE("no stream: what all threadgroups read, lines far apart, one line read many times") {
    CHECK(prefetches(sum_of_row("%n")) == 0);
    CHECK(prefetches(sum_of_row("%group", 4096)) == 0);
    CHECK(prefetches(sum_of_row("%group", 1)) == 0);
}

TEST_CASE("a short loop down columns asks for what the next SIMD-group reads") {
    auto down_columns = [](std::string_view first) {
        std::string text = sum_of_row("0", 4096);
        text.replace(text.find("phi i32 [%lane"), 14, "phi i32 [" + std::string(first));
        return text;
    };
    CHECK(prefetches(down_columns("%x")) == 4); // two lines, while all lanes are in the loop and later
    CHECK(prefetches(down_columns("%index")) == 2);
    CHECK(prefetches(down_columns("%lane")) == 0);
    CHECK(prefetches(down_columns("%group")) == 0);
}

TEST_CASE("what a short loop asks for changes nothing") {
    Words in(256);
    for (std::size_t i = 0; i < in.size(); ++i) {
        in[i] = static_cast<std::uint32_t>(3 * i + 1);
    }
    Launch launch{.geometry = rows(), .grid = {64, 1, 1}, .number = 128};
    const std::string text = sum_of_row("%group");
    CHECK(run_vectors(text, launch, Words(64), in) == run_threads(text, launch, Words(64), in));
}

TEST_CASE("the copy of a tile asks for the one after next, a loop inside it too") {
    // Word %k * 128 + %j * 32 + %lane goes to threadgroup memory, then all wait.
    const std::string text = "  %own = call ptr @__metalki_threadgroup_memory()\n  br label %loop\nloop:\n"
                             "  %k = phi i32 [0, %entry], [%next, %copied]\n  br label %copy\ncopy:\n"
                             "  %j = phi i32 [0, %loop], [%j1, %copy]\n  %jw = shl i32 %j, 5\n"
                             "  %kw = mul i32 %k, %n\n  %at = add i32 %kw, %jw\n  %from = add i32 %at, %lane\n"
                             "  %wide = zext i32 %from to i64\n  %place = getelementptr i32, ptr %in, i64 %wide\n"
                             "  %v = load i32, ptr %place\n  %to = add i32 %jw, %lane\n  %tw = zext i32 %to to i64\n"
                             "  %there = getelementptr i32, ptr %own, i64 %tw\n  store i32 %v, ptr %there\n"
                             "  %j1 = add i32 %j, 1\n  %more = icmp ult i32 %j1, 4\n"
                             "  br i1 %more, label %copy, label %copied\ncopied:\n"
                             "  call void @__metalki_barrier(i32 2)\n  %next = add i32 %k, 1\n"
                             "  %again = icmp ult i32 %next, 3\n  br i1 %again, label %loop, label %done\n"
                             "done:\n  ret void\n";
    CHECK(prefetches(text) == 4); // two lines, in front of the first barrier and behind a barrier
    std::string computed = text;
    computed.replace(computed.find("store i32 %v"), 12, "%v3 = mul i32 %v, 3\n  store i32 %v3");
    CHECK(prefetches(computed) == 0);
    std::string same = text;
    same.replace(same.find("mul i32 %k, %n"), 14, "mul i32 %n, %n");
    CHECK(prefetches(same) == 0);
}
