// A place where execution can be left and resumed: a stack with its saved registers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#if defined(__SANITIZE_ADDRESS__)
#define METALKI_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define METALKI_ADDRESS_SANITIZER 1
#endif
#endif

#ifdef METALKI_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define METALKI_NO_ADDRESS_SANITIZER __attribute__((no_sanitize("address")))
#else
#define METALKI_NO_ADDRESS_SANITIZER
#endif

extern "C" {
void metalki_switch_context(void** save, void* load);
void metalki_start_context();
}

namespace metalki::cpu {

struct Context {
    void* stack_pointer = nullptr;
#ifdef METALKI_ADDRESS_SANITIZER
    void* fake_stack = nullptr;
    const void* stack_bottom = nullptr;
    std::size_t stack_size = 0;
#endif
};

// Makes `context` start with function(argument) on the stack that ends at `top`.
inline void prepare_context(Context& context, std::byte* bottom, std::byte* top, void (*function)(void*), void* argument) {
    auto address = reinterpret_cast<std::uintptr_t>(top) & ~std::uintptr_t{63};
#if defined(__x86_64__)
    // r15 r14 r13 r12 rbx rbp, return address; the stack is 16-byte aligned once that has been popped, as a call wants it.
    auto* frame = reinterpret_cast<void**>(address) - 9;
    const std::array<void*, 9> words{nullptr,
                                     nullptr,
                                     reinterpret_cast<void*>(function),
                                     argument,
                                     nullptr,
                                     nullptr,
                                     reinterpret_cast<void*>(&metalki_start_context),
                                     nullptr,
                                     nullptr};
#else
    auto* frame = reinterpret_cast<void**>(address) - 20;
    std::array<void*, 20> words{};
    words[0] = argument;
    words[1] = reinterpret_cast<void*>(function);
    words[11] = reinterpret_cast<void*>(&metalki_start_context);
#endif
    for (std::size_t i = 0; i < words.size(); ++i)
        frame[i] = words[i];
    context.stack_pointer = frame;
#ifdef METALKI_ADDRESS_SANITIZER
    context.fake_stack = nullptr;
    context.stack_bottom = bottom;
    context.stack_size = static_cast<std::size_t>(top - bottom);
#else
    static_cast<void>(bottom);
#endif
}

// Tells the sanitizer which stack we are on now, and `left` where its own stack lies.
inline void arrived_in_context([[maybe_unused]] Context& here, [[maybe_unused]] Context& left) {
#ifdef METALKI_ADDRESS_SANITIZER
    const void* bottom = nullptr;
    std::size_t size = 0;
    __sanitizer_finish_switch_fiber(here.fake_stack, &bottom, &size);
    here.fake_stack = nullptr;
    if (left.stack_bottom == nullptr) {
        left.stack_bottom = bottom;
        left.stack_size = size;
    }
#endif
}

// Leaves `from` and resumes `to`; returns when somebody resumes `from`. The caller then reports its arrival.
// `ends`: nothing that lives on `from` is needed any more.
METALKI_NO_ADDRESS_SANITIZER inline void leave_context(Context& from, Context& to, [[maybe_unused]] bool ends = false) {
#ifdef METALKI_ADDRESS_SANITIZER
    __sanitizer_start_switch_fiber(ends ? nullptr : &from.fake_stack, to.stack_bottom, to.stack_size);
#endif
    metalki_switch_context(&from.stack_pointer, to.stack_pointer);
}

} // namespace metalki::cpu
