// Kernels and what is known of their arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "metalki/device.hpp"

namespace metalki {

namespace detail {
class KernelImpl;
}

enum class ArgumentKind : std::uint8_t { buffer, threadgroup, texture, sampler };
enum class Access : std::uint8_t { read, write, read_write };

/// The shape of a texture, with MTLTextureType's numbers.
enum class TextureType : std::uint8_t {
    d1 = 0,
    d1_array = 1,
    d2 = 2,
    d2_array = 3,
    cube = 5,
    cube_array = 6,
    d3 = 7,
};

/// Element type of MSL values. `none` for structs and what has no element type.
enum class ScalarType : std::uint8_t {
    none,
    bool_,
    int8,
    uint8,
    int16,
    uint16,
    int32,
    uint32,
    int64,
    uint64,
    float16,
    bfloat16,
    float32,
};

/// Bytes of one element; 0 for `none`.
METALKI_API std::size_t size_of(ScalarType type);
/// MSL's name: "uint", "half"; "struct" for `none`.
METALKI_API std::string_view name_of(ScalarType type);

/// A field of a struct argument.
struct StructMember {
    std::string name;
    std::size_t offset = 0; ///< bytes
    std::string type_name;
    ScalarType scalar = ScalarType::none;
    std::uint8_t rows = 1;
    std::uint8_t columns = 1;
};

/// One argument of a kernel. Position inputs such as thread_position_in_grid are not arguments.
struct ArgumentInfo {
    std::string name;
    ArgumentKind kind = ArgumentKind::buffer;
    unsigned index = 0; ///< [[buffer(n)]], [[threadgroup(n)]], ...
    Access access = Access::read_write;
    std::string type_name;                      ///< MSL spelling of the pointee: "float4", "MyStruct"
    ScalarType scalar = ScalarType::none;       ///< element of the pointee
    std::uint8_t rows = 1;                      ///< components of a vector or of a matrix column
    std::uint8_t columns = 1;                   ///< columns of a matrix
    std::size_t nbytes = 0;                     ///< bytes of the pointee as MSL lays it out; 0: not known
    std::size_t alignment = 1;                  ///< bytes
    bool is_atomic = false;                     ///< the pointee is an atomic; not known on Apple's Metal
    bool is_reference = false;                  ///< `T&`: exactly one element; not known on Apple's Metal
    bool is_pointer_value = false;              ///< the pointee is itself a device address
    bool active = true;                         ///< false: switched off by a function constant or not used; may be left out
    TextureType texture_type = TextureType::d2; ///< textures
    bool is_depth_texture = false;              ///< textures: `depth2d` and the like
    std::vector<StructMember> members;          ///< fields, where the pointee is a struct
};

/// A compiled function, ready to launch. Cheap to copy.
class METALKI_API Kernel {
public:
    explicit Kernel(std::shared_ptr<const detail::KernelImpl> impl) : impl_(std::move(impl)) {}

    const std::string& name() const;
    Device device() const;
    /// In call order, the order in which the kernel declares them (on Apple's Metal: in which its reflection lists them).
    std::span<const ArgumentInfo> arguments() const;
    std::uint64_t max_total_threads_per_threadgroup() const;
    std::uint64_t thread_execution_width() const;
    /// Bytes of threadgroup memory the kernel declares itself.
    std::uint64_t static_threadgroup_memory_length() const;
    /// Largest work-group not above `max_work_items` (0: no cap).
    std::uint64_t max_work_group_size(std::uint64_t max_work_items = 0) const;
    /// Text of the kernel in `form` ("msl", and "llvm", "asm", "ptx" where the device has it). Throws ArgumentError naming
    /// the forms there are.
    std::string disassemble(std::string_view form) const;

    const std::shared_ptr<const detail::KernelImpl>& impl() const { return impl_; }
    friend bool operator==(const Kernel& a, const Kernel& b) { return a.impl_ == b.impl_; }

private:
    std::shared_ptr<const detail::KernelImpl> impl_;
};

} // namespace metalki
