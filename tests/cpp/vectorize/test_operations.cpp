// Widening of values: arithmetic, divisions of lanes that are off, casts, vectors of MSL, calls lane by lane.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <sstream>

#include "lane_kernel.hpp"

using namespace vectorize_test;

namespace {

std::string stored(std::string_view lines, std::string_view result = "%r") {
    return std::string(own_words) + std::string(lines) + "\n  store i32 " + std::string(result) + ", ptr %mine\n  ret void\n";
}

} // namespace

TEST_CASE("arithmetic on numbers that differ by lane") {
    for (const char* line :
         {"%r = add i32 %v, %x", "%r = mul i32 %v, %v", "%r = ashr i32 %v, 3", "%r = sub i32 %n, %v", "%r = xor i32 %x, %v"}) {
        compare(stored(line), 1234567);
    }
}

TEST_CASE("evenly spaced numbers that wrap round become what they are when they are made wider") {
    for (const char* extension : {"zext", "sext"}) {
        std::string lines = "  %a = sub i32 %x, %n\n  %b = " + std::string(extension) +
                            " i32 %a to i64\n  %c1 = lshr i64 %b, 20\n  %r = trunc i64 %c1 to i32";
        compare(stored(lines), 20);
        compare(stored(lines), 0);
    }
}

TEST_CASE("numbers of rows are made wider without a choice between two ways") {
    constexpr std::string_view text = R"(
  %p = mul i32 %y, %n
  %q = add i32 %p, %x
  %wq = zext i32 %q to i64
  %there = getelementptr i32, ptr %in, i64 %wq
  %r = load i32, ptr %there
)";
    CHECK(count(vector_code(stored(text), rows()), "sext i32") == 0);
    compare(stored(text), 33);
}

TEST_CASE("rows of a block are multiplied once") {
    constexpr std::string_view text = R"(
  %p = mul i32 %ly, %n
  %q = add i32 %p, %lx
  %wq = zext i32 %q to i64
  %there = getelementptr i32, ptr %in, i64 %wq
  %r = load i32, ptr %there
)";
    std::istringstream code(vector_code(stored(text), columns(4)));
    int products = 0;
    for (std::string line; std::getline(code, line);) {
        products += line.find(" mul ") != std::string::npos && line.find("%n") != std::string::npos;
    }
    CHECK(products == 1);
    compare(stored(text), 37);
}

TEST_CASE("no lane that is off divides: by zero, or the lowest number by -1") {
    constexpr std::string_view text = R"(
  %d = and i32 %v, 3
  %fine = icmp ugt i32 %d, 1
  br i1 %fine, label %divide, label %end
divide:
  %q = udiv i32 %v, %d
  %s = srem i32 %x, %d
  %t = add i32 %q, %s
  br label %end
end:
  %r = phi i32 [ 3, %entry ], [ %t, %divide ]
)";
    compare(stored(text));
}

TEST_CASE("a divisor that is not zero in the lanes that are on, as a flag says") {
    for (const char* divisor : {"lshr exact i32 8, %low", "shl nuw i32 1, %large", "add nuw i32 %top, 1"}) {
        const std::string text = std::string(R"(
  %low = and i32 %v, 15
  %large = mul i32 %low, 9
  %top = sub i32 %low, 5
  %fine = icmp ult i32 %low, 4
  br i1 %fine, label %divide, label %end
divide:
  %d = )") + divisor + R"(
  %q = udiv i32 17, %d
  br label %end
end:
  %r = phi i32 [ 3, %entry ], [ %q, %divide ]
)";
        compare(stored(text));
    }
}

TEST_CASE("a divisor that is a constant of each lane, zero for one that is off") {
    constexpr std::string_view text = R"(
  %d = mul i32 %lane, %lane
  %some = and i32 %v, 1
  %on = icmp eq i32 %some, 1
  %zero = icmp ne i32 %d, 0
  %fine = and i1 %on, %zero
  br i1 %fine, label %divide, label %end
divide:
  %q = urem i32 %lane, %d
  br label %end
end:
  %r = phi i32 [ 77, %entry ], [ %q, %divide ]
)";
    compare(stored(text));
}

TEST_CASE("a sum written as an or, of numbers that have bits in common in lanes that are off") {
    for (const char* use : {"%r = trunc i64 %b to i32", "%c1 = lshr i64 %b, 20\n  %r = trunc i64 %c1 to i32"}) {
        compare(stored("  %a = sub i32 %x, %n\n  %fine = icmp ult i32 %a, 32\n  br i1 %fine, label %on, label %end\non:\n"
                       "  %high = mul i32 %n, 32\n  %s = or disjoint i32 %high, %a\n  %b = zext i32 %s to i64\n  " +
                           std::string(use) + "\n  br label %end\nend:\n  %p = phi i32 [ 5, %entry ], [ %r, %on ]",
                       "%p"),
                20);
    }
}

TEST_CASE("floats become integers that stop at the ends of their range") {
    const std::vector<float> edges{0.0F,           -0.0F,          0.5F,          -0.5F,
                                   -1.0F,          126.5F,         127.0F,        128.0F,
                                   -128.9F,        -129.0F,        254.9F,        255.0F,
                                   256.0F,         32767.5F,       32768.0F,      -32769.0F,
                                   65535.9F,       65536.0F,       2147483520.0F, 2147483648.0F,
                                   -2147483648.0F, -2147483904.0F, 4294967040.0F, 4294967296.0F,
                                   9.2233714e18F,  9.2233720e18F,  1.8446743e19F, 1.8446744e19F,
                                   3e38F,          -3e38F,         INFINITY,      NAN};
    Words in(96);
    for (std::size_t i = 0; i < in.size(); ++i) {
        in[i] = std::bit_cast<std::uint32_t>(edges[i % edges.size()] * (i == 95 ? -1.0F : 1.0F));
    }
    in[94] = std::bit_cast<std::uint32_t>(-INFINITY);
    for (const char* from : {"float", "half"}) {
        for (std::string sign : {"si", "ui"}) {
            for (std::string bits : {"8", "16", "32", "64"}) {
                std::string name = "@llvm.fpto" + sign + ".sat.i" + bits + (from[0] == 'f' ? ".f32" : ".f16");
                std::string value = from[0] == 'f' ? "  %f = bitcast i32 %v to float\n"
                                                   : "  %g = bitcast i32 %v to float\n  %f = fptrunc float %g to half\n";
                std::string text =
                    stored(value + "  %w = call i" + bits + " " + name + "(" + from +
                           " %f)\n  %w64 = " + (bits == "64" ? "add i64 0, %w" : "sext i" + bits + " %w to i64") +
                           "\n  %top = lshr i64 %w64, 32\n  %both = xor i64 %w64, %top\n" + "  %r = trunc i64 %both to i32");
                std::string declaration = "declare i" + bits + " " + name + "(" + from + ")\n";
                Launch launch{rows(), {96, 1, 1}, {32, 1, 1}, 0};
                Words out(96, 7);
                CHECK(run_vectors(text, launch, out, in, declaration) == run_threads(text, launch, out, in, declaration));
                CHECK(count(vector_code(text, rows(), declaration), ".sat.") == 0);
            }
        }
    }
}

TEST_CASE("choices between numbers, by lane and by all") {
    compare(stored("  %c1 = icmp slt i32 %v, %x\n  %a = select i1 %c1, i32 %v, i32 5\n"
                   "  %c2 = icmp eq i32 %n, 4\n  %r = select i1 %c2, i32 %a, i32 %x"),
            4);
}

TEST_CASE("vectors of MSL are loaded, changed and stored whole") {
    compare(stored(R"(
  %at = and i32 %i, 1023
  %pair = getelementptr <2 x i32>, ptr %in, i32 %at
  %both = load <2 x i32>, ptr %pair, align 8
  %first = extractelement <2 x i32> %both, i32 0
  %changed = insertelement <2 x i32> %both, i32 %x, i32 0
  %other = extractelement <2 x i32> %changed, i32 1
  %r = add i32 %first, %other
)"));
}

TEST_CASE("an index into a vector that differs by lane") {
    compare(stored(R"(
  %a = insertelement <4 x i32> <i32 3, i32 5, i32 7, i32 9>, i32 %x, i32 2
  %k = and i32 %v, 3
  %r = extractelement <4 x i32> %a, i32 %k
)"));
}

TEST_CASE("intrinsics work on all lanes; what has no vector form goes lane by lane") {
    compare(stored("  %r = call i32 @llvm.ctpop.i32(i32 %v)"), 0, "declare i32 @llvm.ctpop.i32(i32)");
    compare(stored("  %a = call { i32, i1 } @llvm.uadd.with.overflow.i32(i32 %v, i32 4000000000)\n"
                   "  %b = extractvalue { i32, i1 } %a, 1\n  %r = zext i1 %b to i32"),
            0, "declare { i32, i1 } @llvm.uadd.with.overflow.i32(i32, i32)");
    CHECK(count(vector_code(stored("  %r = call i32 @llvm.ctpop.i32(i32 %v)"), rows(), "declare i32 @llvm.ctpop.i32(i32)"),
                "llvm.ctpop.v32i32") > 0);
}

TEST_CASE("a power does not depend on what other lanes compute") {
    std::string text = stored("  %b = bitcast i32 %v to float\n  %p = call float @llvm.pow.f32(float %b, float 2.5)\n"
                              "  %r = bitcast float %p to i32");
    constexpr std::string_view pow = "declare float @llvm.pow.f32(float, float)\n";
    Words plain(96);
    for (std::size_t i = 0; i < plain.size(); ++i) {
        plain[i] = 0x3f000000u + static_cast<std::uint32_t>(i) * 123457u;
    }
    Words wanted = run_vectors(text, {}, Words(96), plain, pow);
    for (std::uint32_t special : {0u, 1u, 0x7f800000u, 0x7fc00000u, 0xc0000000u, 0x7f000000u}) {
        Words some = plain;
        some[5] = special;
        Words got = run_vectors(text, {}, Words(96), some, pow);
        CHECK(got[5] != wanted[5]);
        got[5] = wanted[5];
        CHECK(got == wanted);
    }
}

TEST_CASE("atomic operations: every lane that is on takes part once") {
    compare(R"(
  %at = and i32 %x, 3
  %p = getelementptr i32, ptr %out, i32 %at
  %odd = trunc i32 %x to i1
  br i1 %odd, label %count, label %end
count:
  %old = atomicrmw add ptr %p, i32 %x monotonic
  br label %end
end:
  ret void
)");
}

TEST_CASE("changes in threadgroup memory whose results nobody wants, one after the other") {
    std::string text = R"(
  %shared = call ptr @__metalki_threadgroup_memory()
  %at = and i32 %v, 3
  %p = getelementptr i32, ptr %shared, i32 %at
  store i32 0, ptr %p
  %a = atomicrmw add ptr %p, i32 %x monotonic
  %b = atomicrmw umax ptr %p, i32 %n monotonic
  %r = load i32, ptr %p
)";
    std::string code = vector_code(stored(text), rows());
    CHECK(code.find("each.lane") == std::string::npos);
    CHECK(code.find("atomicrmw") == std::string::npos);
    Words in(96);
    for (std::size_t i = 0; i < in.size(); ++i) {
        in[i] = static_cast<std::uint32_t>(i * i);
    }
    Words out = run_vectors(stored(text), {.geometry = rows(), .number = 20}, Words(96), in);
    Words sums(4), wanted(96);
    for (std::uint32_t i = 0; i < 32; ++i) {
        sums[in[i] & 3] += i;
    }
    for (std::uint32_t i = 0; i < 32; ++i) {
        wanted[i] = std::max(sums[in[i] & 3], 20u);
    }
    CHECK(out == wanted);
}

TEST_CASE("a thread's own array keeps the lanes' values apart, also with an index that differs by lane") {
    compare(stored(R"(
  %array = alloca [8 x i32]
  %k = and i32 %v, 7
  %l = and i32 %x, 7
  %p = getelementptr [8 x i32], ptr %array, i32 0, i32 %k
  %q = getelementptr [8 x i32], ptr %array, i32 0, i32 %l
  %first = getelementptr [8 x i32], ptr %array, i32 0, i32 %n
  store i32 1, ptr %q
  store i32 2, ptr %first
  store i32 %x, ptr %p
  %a = load i32, ptr %q
  %b = load i32, ptr %first
  %r = add i32 %a, %b
)"),
            5);
}
