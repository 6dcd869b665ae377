// What generated entry points use to call a kernel: mirrors compiler/kernel_abi.hpp.
#ifndef METALKI_ENTRY_H
#define METALKI_ENTRY_H
#pragma clang system_header

// is_function_constant_defined(x) arrives here with the address of x; answered when the kernel is specialised.
extern "C" bool __metalki_is_defined(const __attribute__((opencl_global_host)) void *) __attribute__((nothrow));

// A position input of the running thread, by its number in ThreadInput of kernel_abi.hpp.
extern "C" unsigned __metalki_input(unsigned which) __attribute__((nothrow, const));

namespace metal {

// Helpers that the compiler puts around expressions which Clang would refuse.
// __load copies an object out of its address space, so that both operands of ?: have one type.
template <class T> inline __attribute__((always_inline)) constexpr T __load(const __attribute__((opencl_global_device)) T &v) { return v; }
template <class T> inline __attribute__((always_inline)) constexpr T __load(const __attribute__((opencl_global_host)) T &v) { return v; }
template <class T> inline __attribute__((always_inline)) constexpr T __load(const __attribute__((opencl_local)) T &v) { return v; }
template <class T> inline __attribute__((always_inline)) constexpr T __load(const T &v) { return v; }
// __widen takes half and bfloat to float, from where both can be reached.
template <class T> inline __attribute__((always_inline)) constexpr T __widen(T v) { return v; }
inline __attribute__((always_inline)) constexpr float __widen(half v) { return v; }
inline __attribute__((always_inline)) constexpr float __widen(bfloat v) { return v; }

// Which address space an object expression refers to; picks among members that are overloaded by it.
template <class T> struct __space_of {
    static constexpr bool named = false, device = false, constant = false, threadgroup = false;
};
template <class T> struct __space_of<__attribute__((opencl_global_device)) T> {
    static constexpr bool named = true, device = true, constant = false, threadgroup = false;
};
template <class T> struct __space_of<__attribute__((opencl_global_host)) T> {
    static constexpr bool named = true, device = false, constant = true, threadgroup = false;
};
template <class T> struct __space_of<__attribute__((opencl_local)) T> {
    static constexpr bool named = true, device = false, constant = false, threadgroup = true;
};
template <class T> struct __space_of<T &> : __space_of<T> {};
template <class T> struct __space_of<T &&> : __space_of<T> {};

// __keep_space makes an object in a named space const, so that it binds to no reference to thread memory.
template <class T> struct __const_in_space { typedef T &&type; };
template <class T> struct __const_in_space<T &> { typedef conditional_t<__space_of<T>::named, const T, T> &type; };
template <class T> inline __attribute__((always_inline)) constexpr typename __const_in_space<T>::type __keep_space(T &&v) {
    return static_cast<typename __const_in_space<T>::type>(v);
}

// __value copies an argument out of its address space for a template that deduces the type of a thread reference.
// __in_*: `this` and what a member function returns, for member functions of objects in that space.
#define __MSL_SPACE(name, AS)                                                                                     \
    template <class T, class = enable_if_t<!__is_array(T)>> __fi constexpr T __value(AS T &v) { return v; }       \
    template <class T, class = enable_if_t<!__is_array(T)>> __fi constexpr T __value(const AS T &v) { return v; } \
    template <class T> __fi AS T *__in_##name(AS T *p) { return p; }                                              \
    template <class T> __fi AS T *__in_##name(T *p) { return (AS T *)p; }                                         \
    template <class T> __fi AS T &__in_##name##_reference(AS T &r) { return r; }                                  \
    template <class T> __fi AS T &__in_##name##_reference(T &r) { return (AS T &)r; }
__MSL_SPACE(device, __dev)
__MSL_SPACE(constant, __cst)
__MSL_SPACE(threadgroup, __tgp)
#undef __MSL_SPACE
template <class T, class = enable_if_t<!__space_of<T>::named>> __fi constexpr T &&__value(T &&v) { return static_cast<T &&>(v); }

struct __uint3 {
    uint x, y, z;
};

struct __threadgroup_context {
    void *const *arguments;
    void *static_threadgroup_memory;
    __uint3 threadgroup_position;
    __uint3 threadgroups_per_grid;
    __uint3 threads_per_threadgroup;
    __uint3 threads_in_this_threadgroup;
    __uint3 threads_per_grid;
    const uint *positions;
};
static_assert(sizeof(__threadgroup_context) == 3 * sizeof(void *) + 15 * sizeof(uint) + 4, "kernel_abi.hpp differs");

// An argument slot, converted to whatever pointer or reference the parameter is.
struct __pointer_slot {
    void *p;
    template <class T> inline __attribute__((always_inline)) operator T *() const { return (T *)p; }
};
struct __reference_slot {
    void *p;
    template <class T> inline __attribute__((always_inline)) operator T &() const { return *(T *)p; }
};
// N slots in a row for an array of textures or samplers.
struct __array_slots {
    void *const *p;
    template <class T, size_t N> inline __attribute__((always_inline)) operator array<T, N>() const;
};
struct __value_slot {
    void *p;
    template <class T> inline __attribute__((always_inline)) operator T() const {
        if constexpr (__is_base_of(__texture_base, T)) {
            T texture; // the slot points at what a texture points at
            texture.__d = (const __texture_descriptor *)p;
            return texture;
        } else {
            return *(T *)p;
        }
    }
};

template <class T, size_t N> inline __attribute__((always_inline)) __array_slots::operator array<T, N>() const {
    array<T, N> all;
    for (size_t i = 0; i < N; i++) all[i] = (T)__value_slot{p[i]};
    return all;
}

// A position input, converted to the scalar or vector type of the parameter.
struct __position {
    __uint3 p;
    inline __attribute__((always_inline)) operator uint() const { return p.x; }
    inline __attribute__((always_inline)) operator ushort() const { return (ushort)p.x; }
    inline __attribute__((always_inline)) operator int() const { return (int)p.x; }
    inline __attribute__((always_inline)) operator short() const { return (short)p.x; }
    inline __attribute__((always_inline)) operator ulong() const { return p.x; }
    template <class T> inline __attribute__((always_inline)) operator vec<T, 2>() const {
        return vec<T, 2>((T)p.x, (T)p.y);
    }
    template <class T> inline __attribute__((always_inline)) operator vec<T, 3>() const {
        return vec<T, 3>((T)p.x, (T)p.y, (T)p.z);
    }
};

inline __attribute__((always_inline)) uint __volume(__uint3 s) { return s.x * s.y * s.z; }

// One thread's place; each function is named after the attribute it serves.
struct __thread_place {
    const __threadgroup_context *c;
    uint x, y, z;

#define __MSL_INPUT(name) inline __attribute__((always_inline)) __position name() const
    __MSL_INPUT(thread_position_in_grid) {
        return {{c->threadgroup_position.x * c->threads_per_threadgroup.x + x,
                 c->threadgroup_position.y * c->threads_per_threadgroup.y + y,
                 c->threadgroup_position.z * c->threads_per_threadgroup.z + z}};
    }
    __MSL_INPUT(thread_position_in_threadgroup) { return {{x, y, z}}; }
    inline __attribute__((always_inline)) uint __index() const {
        return x + c->threads_in_this_threadgroup.x * (y + c->threads_in_this_threadgroup.y * z);
    }
    __MSL_INPUT(thread_index_in_threadgroup) { return {{__index(), 0, 0}}; }
    __MSL_INPUT(threadgroup_position_in_grid) { return {c->threadgroup_position}; }
    __MSL_INPUT(threadgroups_per_grid) { return {c->threadgroups_per_grid}; }
    __MSL_INPUT(threads_per_grid) { return {c->threads_per_grid}; }
    __MSL_INPUT(grid_size) { return {c->threads_per_grid}; }
    __MSL_INPUT(grid_origin) { return {{0, 0, 0}}; }
    __MSL_INPUT(threads_per_threadgroup) { return {c->threads_in_this_threadgroup}; }
    __MSL_INPUT(dispatch_threads_per_threadgroup) { return {c->threads_per_threadgroup}; }
    __MSL_INPUT(thread_index_in_simdgroup) { return {{__index() % 32, 0, 0}}; }
    __MSL_INPUT(simdgroup_index_in_threadgroup) { return {{__index() / 32, 0, 0}}; }
    __MSL_INPUT(simdgroups_per_threadgroup) { return {{(__volume(c->threads_in_this_threadgroup) + 31) / 32, 0, 0}}; }
    __MSL_INPUT(dispatch_simdgroups_per_threadgroup) { return {{(__volume(c->threads_per_threadgroup) + 31) / 32, 0, 0}}; }
    __MSL_INPUT(threads_per_simdgroup) { return {{32, 0, 0}}; }
    __MSL_INPUT(thread_execution_width) { return {{32, 0, 0}}; }
    __MSL_INPUT(thread_index_in_quadgroup) { return {{__index() % 4, 0, 0}}; }
    __MSL_INPUT(quadgroup_index_in_threadgroup) { return {{__index() / 4, 0, 0}}; }
    __MSL_INPUT(quadgroups_per_threadgroup) { return {{(__volume(c->threads_in_this_threadgroup) + 3) / 4, 0, 0}}; }
    __MSL_INPUT(dispatch_quadgroups_per_threadgroup) { return {{(__volume(c->threads_per_threadgroup) + 3) / 4, 0, 0}}; }
#undef __MSL_INPUT
};

// The same for a thread whose place is only known when the code for it is generated: one of the lanes of a vector, say.
struct __lane_place {
#define __MSL_INPUT(name, first) \
    inline __attribute__((always_inline)) __position name() const { \
        return {{__metalki_input(first), __metalki_input(first + 1), __metalki_input(first + 2)}}; \
    }
    __MSL_INPUT(thread_position_in_grid, 0)
    __MSL_INPUT(thread_position_in_threadgroup, 3)
    __MSL_INPUT(threadgroup_position_in_grid, 6)
    __MSL_INPUT(threadgroups_per_grid, 9)
    __MSL_INPUT(threads_per_grid, 12)
    __MSL_INPUT(grid_size, 12)
    __MSL_INPUT(threads_per_threadgroup, 15)
    __MSL_INPUT(dispatch_threads_per_threadgroup, 18)
#undef __MSL_INPUT
#define __MSL_INPUT(name, value) \
    inline __attribute__((always_inline)) __position name() const { return {{value, 0, 0}}; }
    inline __attribute__((always_inline)) __position grid_origin() const { return {{0, 0, 0}}; }
    inline __attribute__((always_inline)) uint __threads() const { return __metalki_input(15) * __metalki_input(16) * __metalki_input(17); }
    inline __attribute__((always_inline)) uint __dispatched() const { return __metalki_input(18) * __metalki_input(19) * __metalki_input(20); }
    __MSL_INPUT(thread_index_in_threadgroup, __metalki_input(21))
    __MSL_INPUT(thread_index_in_simdgroup, __metalki_input(22))
    __MSL_INPUT(simdgroup_index_in_threadgroup, __metalki_input(23))
    __MSL_INPUT(simdgroups_per_threadgroup, (__threads() + 31) / 32)
    __MSL_INPUT(dispatch_simdgroups_per_threadgroup, (__dispatched() + 31) / 32)
    __MSL_INPUT(threads_per_simdgroup, 32)
    __MSL_INPUT(thread_execution_width, 32)
    __MSL_INPUT(thread_index_in_quadgroup, __metalki_input(22) % 4)
    __MSL_INPUT(quadgroup_index_in_threadgroup, __metalki_input(21) / 4)
    __MSL_INPUT(quadgroups_per_threadgroup, (__threads() + 3) / 4)
    __MSL_INPUT(dispatch_quadgroups_per_threadgroup, (__dispatched() + 3) / 4)
#undef __MSL_INPUT
};

} // namespace metal

// The compiler inserts their plain names: a qualified one, whose parts all lie in one place of the source, would not survive when
// Clang reads ahead.
using metal::__load; using metal::__widen; using metal::__value; using metal::__keep_space; using metal::__text;
using metal::__in_device; using metal::__in_constant; using metal::__in_threadgroup;
using metal::__in_device_reference; using metal::__in_constant_reference; using metal::__in_threadgroup_reference;

#endif
