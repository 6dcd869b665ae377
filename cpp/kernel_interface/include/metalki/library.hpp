// Compiled MSL source.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "metalki/error.hpp"
#include "metalki/kernel.hpp"

namespace metalki {

namespace detail {
class LibraryImpl;
}

/// What the compiler may assume of floating-point arithmetic.
enum class MathMode : std::uint8_t { safe, relaxed, fast };

/// How to compile. Two equal sets of options and sources give the same library.
struct CompileOptions {
    std::vector<std::pair<std::string, std::string>> macros; ///< name, replacement text
    MathMode math_mode = MathMode::relaxed;
    std::string language_version;                             ///< "3.2"; empty: the newest there is
    std::vector<std::string> include_dirs;                    ///< folders searched for `#include`d files
    std::vector<std::pair<std::string, std::string>> headers; ///< name as in `#include`, text; searched first
};

/// A value before it is converted to the type that the kernel declares.
using ScalarValue = std::variant<bool, std::int64_t, std::uint64_t, double>;

/// A value for a function constant.
struct FunctionConstant {
    std::variant<unsigned, std::string> id; ///< index or name
    std::vector<ScalarValue> values;        ///< one, or one per component of a vector

    FunctionConstant(unsigned index, std::vector<ScalarValue> v) : id(index), values(std::move(v)) {}
    FunctionConstant(std::string name, std::vector<ScalarValue> v) : id(std::move(name)), values(std::move(v)) {}
};

/// A compiled source. Cheap to copy.
class METALKI_API Library {
public:
    explicit Library(std::shared_ptr<detail::LibraryImpl> impl) : impl_(std::move(impl)) {}

    Device device() const;
    /// The names kernel() takes.
    const std::vector<std::string>& function_names() const;
    /// What the compiler warned of.
    std::span<const Diagnostic> warnings() const;

    /// The kernel of that name; the only one when `name` is empty. The same name and constants give the same kernel again.
    /// Constants that it does not use are accepted. Throws ArgumentError for an unknown name (naming those there are), an
    /// unknown constant, a value that does not fit its declared type and a constant that is used but not given;
    /// CompileError when code generation fails.
    Kernel kernel(std::string_view name = {}, std::span<const FunctionConstant> constants = {}) const;

    const std::shared_ptr<detail::LibraryImpl>& impl() const { return impl_; }
    friend bool operator==(const Library& a, const Library& b) { return a.impl_ == b.impl_; }

private:
    std::shared_ptr<detail::LibraryImpl> impl_;
};

/// Writes `value` as one element of `type` to `out` and returns the bytes written (at most 8). `what` names the argument in
/// messages. Throws ArgumentError when the value does not fit: an integer out of range, a floating-point value for an
/// integer type, a finite value too large for half.
METALKI_API std::size_t encode_scalar(ScalarType type, const ScalarValue& value, void* out, std::string_view what);

} // namespace metalki
