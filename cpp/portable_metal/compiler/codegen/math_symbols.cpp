// An explicit table: a kernel can reach nothing else of the process.
#include "codegen/math_symbols.hpp"

#include <cstring>
#include <math.h>

extern "C" {
void __metalki_truncsfhf2();
void __metalki_extendhfsf2();
void __metalki_truncdfhf2();
void __metalki_truncsfbf2();
void __metalki_truncdfbf2();
}

namespace metalki::compiler {
namespace {

template <class F> const void* address(F* function) {
    return reinterpret_cast<const void*>(function);
}

// x to an integer power, by squaring.
template <class T> T power(T x, int n) {
    T result = 1;
    for (unsigned left = n < 0 ? 0u - static_cast<unsigned>(n) : static_cast<unsigned>(n); left > 0; left /= 2) {
        result = left % 2 ? result * x : result;
        x *= x;
    }
    return n < 0 ? 1 / result : result;
}

using F1 = float(float);
using F2 = float(float, float);
using D1 = double(double);
using D2 = double(double, double);

#define METALKI_F1(name)                                                                                                       \
    {#name "f", address<F1>(::name##f)}, {                                                                                     \
        #name, address<D1>(::name)                                                                                             \
    }
#define METALKI_F2(name)                                                                                                       \
    {#name "f", address<F2>(::name##f)}, {                                                                                     \
        #name, address<D2>(::name)                                                                                             \
    }

const RuntimeSymbol symbols[] = {
    METALKI_F1(sin),
    METALKI_F1(cos),
    METALKI_F1(tan),
    METALKI_F1(asin),
    METALKI_F1(acos),
    METALKI_F1(atan),
    METALKI_F1(sinh),
    METALKI_F1(cosh),
    METALKI_F1(tanh),
    METALKI_F1(asinh),
    METALKI_F1(acosh),
    METALKI_F1(atanh),
    METALKI_F1(exp),
    METALKI_F1(exp2),
    METALKI_F1(expm1),
    METALKI_F1(log),
    METALKI_F1(log2),
    METALKI_F1(log10),
    METALKI_F1(log1p),
    METALKI_F1(sqrt),
    METALKI_F1(cbrt),
    METALKI_F1(erf),
    METALKI_F1(erfc),
    METALKI_F1(tgamma),
    METALKI_F1(lgamma),
    METALKI_F1(floor),
    METALKI_F1(ceil),
    METALKI_F1(trunc),
    METALKI_F1(rint),
    METALKI_F1(nearbyint),
    METALKI_F1(round),
    METALKI_F1(fabs),
    METALKI_F1(logb),
#ifdef __GLIBC__
    METALKI_F1(roundeven),
    METALKI_F1(exp10),
    {"sincosf", address<void(float, float*, float*)>(::sincosf)},
    {"sincos", address<void(double, double*, double*)>(::sincos)},
#endif
    METALKI_F2(pow),
    METALKI_F2(atan2),
    METALKI_F2(fmod),
    METALKI_F2(remainder),
    METALKI_F2(hypot),
    METALKI_F2(fmin),
    METALKI_F2(fmax),
    METALKI_F2(copysign),
    METALKI_F2(nextafter),
    METALKI_F2(fdim),
    {"__powisf2", address(power<float>)},
    {"__powidf2", address(power<double>)},
    {"fmaf", address<float(float, float, float)>(::fmaf)},
    {"fma", address<double(double, double, double)>(::fma)},
    {"ldexpf", address<float(float, int)>(::ldexpf)},
    {"ldexp", address<double(double, int)>(::ldexp)},
    {"scalbnf", address<float(float, int)>(::scalbnf)},
    {"frexpf", address<float(float, int*)>(::frexpf)},
    {"frexp", address<double(double, int*)>(::frexp)},
    {"modff", address<float(float, float*)>(::modff)},
    {"modf", address<double(double, double*)>(::modf)},
    {"ilogbf", address<int(float)>(::ilogbf)},
    {"ilogb", address<int(double)>(::ilogb)},
    {"lrintf", address<long(float)>(::lrintf)},
    {"memcpy", address<void*(void*, const void*, std::size_t)>(::memcpy)},
    {"memmove", address<void*(void*, const void*, std::size_t)>(::memmove)},
    {"memset", address<void*(void*, int, std::size_t)>(::memset)},
    {"memcmp", address<int(const void*, const void*, std::size_t)>(::memcmp)},
    {"bcmp", address<int(const void*, const void*, std::size_t)>(::memcmp)},
    {"__truncsfhf2", address(__metalki_truncsfhf2)},
    {"__gnu_f2h_ieee", address(__metalki_truncsfhf2)},
    {"__extendhfsf2", address(__metalki_extendhfsf2)},
    {"__gnu_h2f_ieee", address(__metalki_extendhfsf2)},
    {"__truncdfhf2", address(__metalki_truncdfhf2)},
    {"__truncsfbf2", address(__metalki_truncsfbf2)},
    {"__truncdfbf2", address(__metalki_truncdfbf2)},
};

#undef METALKI_F1
#undef METALKI_F2

} // namespace

std::span<const RuntimeSymbol> math_symbols() {
    return symbols;
}

} // namespace metalki::compiler
