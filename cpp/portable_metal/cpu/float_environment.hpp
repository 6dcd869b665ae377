// While alive: rounding to nearest, no traps, denormals kept. Kernels must not depend on what the caller has set.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace metalki::cpu {

class FloatEnvironment {
public:
    FloatEnvironment() : saved_(read()) { write(default_value); }
    ~FloatEnvironment() { write(saved_); }
    FloatEnvironment(const FloatEnvironment&) = delete;
    FloatEnvironment& operator=(const FloatEnvironment&) = delete;

private:
#if defined(__x86_64__)
    using Register = std::uint32_t;
    static constexpr Register default_value = 0x1f80;
    static Register read() { return _mm_getcsr(); }
    static void write(Register value) { _mm_setcsr(value); }
#else
    using Register = std::uint64_t;
    static constexpr Register default_value = 0;
    static Register read() {
        Register value;
        asm volatile("mrs %0, fpcr" : "=r"(value));
        return value;
    }
    static void write(Register value) { asm volatile("msr fpcr, %0" ::"r"(value) : "memory"); }
#endif
    Register saved_;
};

} // namespace metalki::cpu
