// The attributes of MSL: which exist, and which of them are position inputs of a compute kernel.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace metalki::compiler {

enum class AttributeClass { unknown, msl, position_input, standard };

AttributeClass classify_attribute(std::string_view name);

// The candidate that `name` was probably meant to be, or an empty string.
std::string nearest(std::string_view name, const std::vector<std::string_view>& candidates);
// The known attribute that `name` was probably meant to be, or an empty string.
std::string nearest_attribute(std::string_view name);
// The same for scalar types, which are keywords for Clang and never suggested by it.
std::string nearest_scalar_type(std::string_view name);

// Every MSL attribute travels through Clang as an annotation with this prefix.
inline constexpr std::string_view annotation_prefix = "msl:";

// Section name that marks threadgroup variables on their way from the source to the generated module.
inline constexpr const char* threadgroup_section = ".metalki.threadgroup";

} // namespace metalki::compiler
