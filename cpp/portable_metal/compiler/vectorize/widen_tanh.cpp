// The hyperbolic tangent of all lanes at once, within 4 ulp: one division and no table. Small numbers x: x and a polynomial of
// x^2; others: t = tanh(x / 2) is x times a quotient n / d of polynomials of x^2, tanh(x) is 2 t / (1 + t^2) = 2 n d / (d^2 +
// n^2), in which the errors of t matter the less the closer it is to 1.
#include "vectorize/polynomial.hpp"
#include "vectorize/widener.hpp"

namespace metalki::compiler::vectorize {
namespace {

// tanh(x) / x up to 0.6, within 2^-28.
constexpr double quotient[] = {1, -0.333332980027, 0.133319241409, -0.0537838313703, 0.0207959750533, -0.00589516175481};
constexpr double largest_small = 0.6 * 0.6;
// tanh(x / 2) / x up to `most`, within 2^-25: from there on tanh(x) is 1.
constexpr double numerator[] = {0.49999998844, 0.01574435328, 7.99014530e-05, 4.29014016e-08};
constexpr double denominator[] = {1, 0.1148219767, 0.001394996273, 2.73396064e-06};
constexpr double most = 9.02;

} // namespace

llvm::Value* Widener::emit_tanh(llvm::Value* x) {
    llvm::IRBuilderBase::FastMathFlagGuard guard(builder_);
    builder_.clearFastMathFlags();
    // What is no number stays itself.
    llvm::Value* near = builder_.CreateSelect(builder_.CreateFCmpOGT(x, number(x, most)), number(x, most), x);
    near = builder_.CreateSelect(builder_.CreateFCmpOLT(near, number(x, -most)), number(x, -most), near);
    llvm::Value* square = builder_.CreateFMul(near, near);
    llvm::Value* n = builder_.CreateFMul(polynomial(builder_, square, numerator), near);
    llvm::Value* d = polynomial(builder_, square, denominator);
    llvm::Value* above = builder_.CreateFMul(builder_.CreateFAdd(n, n), d);
    llvm::Value* large = builder_.CreateFDiv(above, fused(builder_, n, n, builder_.CreateFMul(d, d)));
    llvm::Value* small = builder_.CreateFMul(near, polynomial(builder_, square, quotient));
    return builder_.CreateSelect(builder_.CreateFCmpOLT(square, number(x, largest_small)), small, large);
}

} // namespace metalki::compiler::vectorize
