// Finding kernels in a library: names, function constants, and one kernel per set of them.
#include "metalki/library.hpp"

#include <algorithm>
#include <cctype>
#include <map>

#include "kernel_interface/backend.hpp"
#include "kernel_interface/process.hpp"

namespace metalki {

namespace {

using detail::ConstantBytes;
using detail::ConstantInfo;

std::string list_of(const std::vector<std::string>& names) {
    constexpr std::size_t most = 20; // libraries with thousands of instantiations exist
    std::string text;
    for (std::size_t i = 0; i < std::min(names.size(), most); ++i)
        text += (i ? ", " : "") + names[i];
    if (names.size() > most)
        text += ", and " + std::to_string(names.size() - most) + " more";
    return names.empty() ? "none" : text;
}

std::string pick_name(const detail::LibraryImpl& library, std::string_view name) {
    const auto& names = library.function_names;
    if (name.empty()) {
        if (names.size() == 1)
            return names.front();
        throw ArgumentError("kernel: a name is needed, as the source has " + std::to_string(names.size()) +
                            " kernels: " + list_of(names));
    }
    if (std::find(names.begin(), names.end(), name) == names.end())
        throw ArgumentError("kernel: there is no kernel \"" + std::string(name) + "\"; there are: " + list_of(names));
    return std::string(name);
}

std::string describe(const FunctionConstant& constant) {
    if (const unsigned* index = std::get_if<unsigned>(&constant.id))
        return "function constant " + std::to_string(*index);
    return "function constant \"" + std::get<std::string>(constant.id) + "\"";
}

bool means(const FunctionConstant& given, const ConstantInfo& declared) {
    const unsigned* index = std::get_if<unsigned>(&given.id);
    return index ? *index == declared.index : std::get<std::string>(given.id) == declared.name;
}

// Constants that another kernel of the source uses are fine.
void need_declared(detail::LibraryImpl& library, const std::string& kernel, const FunctionConstant& given) {
    std::vector<std::string> names;
    for (const ConstantInfo& declared : library.declared_constants()) {
        if (means(given, declared))
            return;
        names.push_back("\"" + declared.name + "\" (index " + std::to_string(declared.index) + ")");
    }
    throw ArgumentError("kernel \"" + kernel + "\": the source has no " + describe(given) + "; there are: " + list_of(names));
}

ConstantBytes convert(const FunctionConstant& given, const ConstantInfo& info, const std::string& kernel) {
    std::string what = "kernel \"" + kernel + "\", " + describe(given);
    if (given.values.size() != info.width)
        throw ArgumentError(what + ": " + std::to_string(info.width) + " values are expected, " +
                            std::to_string(given.values.size()) + " were given");
    ConstantBytes result{&info, {}};
    for (std::size_t i = 0; i < given.values.size(); ++i)
        encode_scalar(info.type, given.values[i], result.bytes.data() + i * size_of(info.type), what);
    return result;
}

// The values that the kernel uses, in the order of their indices.
std::vector<ConstantBytes> match(detail::LibraryImpl& library, const std::string& kernel,
                                 const std::vector<ConstantInfo>& declared, std::span<const FunctionConstant> given) {
    std::map<unsigned, ConstantBytes> values;
    for (const FunctionConstant& constant : given) {
        auto it = std::find_if(declared.begin(), declared.end(), [&](const ConstantInfo& d) { return means(constant, d); });
        if (it != declared.end()) {
            if (!values.emplace(it->index, convert(constant, *it, kernel)).second)
                throw ArgumentError("kernel \"" + kernel + "\": " + describe(constant) + " is given twice");
        } else {
            need_declared(library, kernel, constant);
        }
    }
    std::vector<ConstantBytes> result;
    for (const ConstantInfo& info : declared)
        if (info.required && !values.contains(info.index))
            throw ArgumentError("kernel \"" + kernel + "\": function constant \"" + info.name + "\" (index " +
                                std::to_string(info.index) + ") is used but has no value");
    for (const auto& [index, value] : values)
        result.push_back(value);
    return result;
}

} // namespace

Device Library::device() const {
    return Device(impl_->device);
}
const std::vector<std::string>& Library::function_names() const {
    return impl_->function_names;
}
std::span<const Diagnostic> Library::warnings() const {
    return impl_->warnings;
}

Kernel Library::kernel(std::string_view name, std::span<const FunctionConstant> constants) const {
    const detail::CompileScope scope;
    std::string function = pick_name(*impl_, name);
    std::vector<ConstantInfo> declared = impl_->constants_of(function);
    std::vector<ConstantBytes> values = match(*impl_, function, declared, constants);
    std::string key = function;
    for (const ConstantBytes& value : values) {
        key += '\0' + std::to_string(value.info->index) + '=';
        key.append(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size());
    }
    return Kernel(impl_->kernels.get(key, [&] { return impl_->make_kernel(function, values); }));
}

} // namespace metalki
