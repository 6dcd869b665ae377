// Serialisation of the compiler's plain data, field by field.
#include "cache/records.hpp"

#include <dlfcn.h>
#include <sys/stat.h>

#include "cache/binary_stream.hpp"
#include "cache/disk_cache.hpp"
#include "codegen/host_target.hpp"
#include "stdlib/embedded_files.hpp"

namespace metalki::compiler {
namespace {

void write_type(BinaryWriter& out, const Type& type) {
    out.write(type.kind);
    out.write(type.scalar);
    out.write(type.columns);
    out.write(type.rows);
    out.write(type.atomic);
    out.write(static_cast<std::uint64_t>(type.size));
    out.write(static_cast<std::uint64_t>(type.alignment));
    out.write(static_cast<std::uint64_t>(type.array_length));
    out.write(type.name);
    out.write_list(type.members, [&](const Member& member) {
        out.write(member.name);
        out.write(static_cast<std::uint64_t>(member.offset));
        out.write(member.argument_id);
        write_type(out, member.type);
    });
}

Type read_type(BinaryReader& in) {
    Type type;
    type.kind = in.read<TypeKind>();
    type.scalar = in.read<ScalarType>();
    type.columns = in.read<std::uint8_t>();
    type.rows = in.read<std::uint8_t>();
    type.atomic = in.read<bool>();
    type.size = in.read<std::uint64_t>();
    type.alignment = in.read<std::uint64_t>();
    type.array_length = in.read<std::uint64_t>();
    type.name = in.read_string();
    type.members = in.read_list([&] {
        Member member;
        member.name = in.read_string();
        member.offset = in.read<std::uint64_t>();
        member.argument_id = in.read<int>();
        member.type = read_type(in);
        return member;
    });
    return type;
}

void write_function(BinaryWriter& out, const FunctionInfo& function) {
    out.write(function.name);
    out.write(function.max_total_threads);
    out.write_list(function.arguments, [&](const Argument& argument) {
        out.write(argument.name);
        out.write(argument.kind);
        out.write(argument.index);
        out.write(argument.access);
        out.write(argument.reference);
        out.write(argument.constant_space);
        out.write(argument.active);
        write_type(out, argument.type);
    });
}

FunctionInfo read_function(BinaryReader& in) {
    FunctionInfo function;
    function.name = in.read_string();
    function.max_total_threads = in.read<unsigned>();
    function.arguments = in.read_list([&] {
        Argument argument;
        argument.name = in.read_string();
        argument.kind = in.read<ArgumentKind>();
        argument.index = in.read<unsigned>();
        argument.access = in.read<Access>();
        argument.reference = in.read<bool>();
        argument.constant_space = in.read<bool>();
        argument.active = in.read<bool>();
        argument.type = read_type(in);
        return argument;
    });
    return function;
}

Diagnostic read_diagnostic(BinaryReader& in) {
    Diagnostic d;
    d.file = in.read_string();
    d.line = in.read<unsigned>();
    d.column = in.read<unsigned>();
    d.severity = in.read<Severity>();
    d.message = in.read_string();
    d.source_line = in.read_string();
    return d;
}

// Another build of this library may generate other code: its file's size and time tell builds apart.
std::string library_stamp() {
    Dl_info info{};
    struct stat file{};
    if (!::dladdr(reinterpret_cast<const void*>(&library_stamp), &info) || !info.dli_fname ||
        ::stat(info.dli_fname, &file) != 0) {
        return "unknown";
    }
    return std::to_string(file.st_size) + "/" + std::to_string(file.st_mtime);
}

// What does not depend on the source: our headers, the compiler, the processor.
const std::string& build_identity() {
    static const std::string identity = [] {
        BinaryWriter out;
        out.write(std::string_view(METALKI_VERSION));
        out.write(version_string());
        for (const std::string& feature : host_target().features) {
            out.write(feature);
        }
        for (const stdlib::EmbeddedFile& file : stdlib::embedded_files()) {
            out.write(file.name);
            out.write(file.text);
        }
        out.write(library_stamp());
        return content_hash(out.take());
    }();
    return identity;
}

template <class Read>
auto undamaged(std::string_view record, Read read) -> std::optional<decltype(read(std::declval<BinaryReader&>()))> {
    try {
        BinaryReader in(record);
        auto value = read(in);
        return in.at_end() ? std::optional(std::move(value)) : std::nullopt;
    } catch (const std::exception&) {
        return std::nullopt;
    }
}

} // namespace

std::string source_key(std::string_view source, const Options& options) {
    BinaryWriter out;
    out.write(build_identity());
    out.write(options.math_mode);
    out.write(options.language_version);
    auto pair = [&](const std::pair<std::string, std::string>& item) {
        out.write(item.first);
        out.write(item.second);
    };
    out.write_list(options.macros, pair);
    out.write_list(options.headers, pair);
    out.write_list(options.include_directories, [&](const std::string& directory) { out.write(directory); });
    out.write(options.include_identity);
    out.write(source);
    return content_hash(out.take());
}

std::string content_key(const std::string& source_key, const std::vector<Dependency>& dependencies) {
    BinaryWriter out;
    out.write(source_key);
    for (const Dependency& dependency : dependencies) {
        out.write(dependency.path);
        out.write(dependency.hash);
    }
    return content_hash(out.take());
}

std::string bitcode_key(const std::string& content_key) {
    return content_hash(content_key + " bitcode");
}

std::string constants_key(const std::string& content_key, std::string_view function) {
    return content_hash(content_key + " constants " + std::string(function));
}

std::string kernel_key(const std::string& content_key, std::string_view function, std::span<const ConstantValue> constants) {
    BinaryWriter out;
    out.write(content_key);
    out.write(function);
    for (const ConstantValue& constant : constants) {
        out.write(constant.index.value_or(~0u));
        out.write(constant.name);
        out.write(constant.type);
        out.write(constant.width);
        out.write(std::string_view(reinterpret_cast<const char*>(constant.bytes.data()), constant.bytes.size()));
    }
    return content_hash(out.take());
}

std::string write_source(const ParsedSource& source) {
    BinaryWriter out;
    out.write_list(source.functions, [&](const FunctionInfo& f) { write_function(out, f); });
    out.write_list(source.constants, [&](const FunctionConstant& c) {
        out.write(c.name);
        out.write(c.index);
        write_type(out, c.type);
    });
    out.write_list(source.constant_symbols, [&](const std::string& s) { out.write(s); });
    out.write_list(source.conditional_slots,
                   [&](const std::vector<unsigned>& slots) { out.write_list(slots, [&](unsigned slot) { out.write(slot); }); });
    out.write_list(source.warnings, [&](const Diagnostic& d) {
        out.write(d.file);
        out.write(d.line);
        out.write(d.column);
        out.write(d.severity);
        out.write(d.message);
        out.write(d.source_line);
    });
    out.write_list(source.dependencies, [&](const Dependency& d) {
        out.write(d.path);
        out.write(d.hash);
    });
    return out.take();
}

std::optional<ParsedSource> read_source(std::string_view record) {
    auto source = undamaged(record, [](BinaryReader& in) {
        ParsedSource s;
        s.functions = in.read_list([&] { return read_function(in); });
        s.constants = in.read_list([&] {
            FunctionConstant c;
            c.name = in.read_string();
            c.index = in.read<unsigned>();
            c.type = read_type(in);
            return c;
        });
        s.constant_symbols = in.read_list([&] { return in.read_string(); });
        s.conditional_slots = in.read_list([&] { return in.read_list([&] { return in.read<unsigned>(); }); });
        s.warnings = in.read_list([&] { return read_diagnostic(in); });
        s.dependencies = in.read_list([&] {
            Dependency d;
            d.path = in.read_string();
            d.hash = in.read_string();
            return d;
        });
        return s;
    });
    return source && unchanged(source->dependencies) ? source : std::nullopt;
}

std::string write_constant_uses(const std::vector<ConstantUse>& uses) {
    BinaryWriter out;
    out.write_list(uses, [&](const ConstantUse& use) {
        out.write(use.constant);
        out.write(use.required);
    });
    return out.take();
}

std::optional<std::vector<ConstantUse>> read_constant_uses(std::string_view record, std::size_t constants) {
    return undamaged(record, [&](BinaryReader& in) {
        return in.read_list([&] {
            ConstantUse use;
            use.constant = in.read<std::uint32_t>();
            use.required = in.read<bool>();
            if (use.constant >= constants) {
                throw DamagedRecord();
            }
            return use;
        });
    });
}

std::string write_kernel(const CompiledKernel& kernel) {
    BinaryWriter out;
    write_function(out, kernel.function);
    out.write(kernel.entry);
    out.write(kernel.form);
    out.write(kernel.synchronizes);
    out.write(kernel.axes_in_row);
    out.write(static_cast<std::uint64_t>(kernel.threadgroup_memory));
    out.write(static_cast<std::uint64_t>(kernel.stack_size));
    out.write(kernel.group_work.of_group);
    out.write(kernel.group_work.of_simdgroup);
    out.write(kernel.group_work.growth);
    out.write(kernel.group_work.row_accesses);
    out.write(kernel.group_work.column_accesses);
    out.write(kernel.group_work.halves);
    out.write(kernel.group_work.loops);
    out.write(kernel.group_work.one_way_ahead);
    out.write(kernel.object);
    out.write(kernel.scalar_entry);
    out.write(kernel.vector_source);
    out.write(kernel.why_scalar);
    return out.take();
}

std::optional<CompiledKernel> read_kernel(std::string_view record) {
    return undamaged(record, [](BinaryReader& in) {
        CompiledKernel kernel;
        kernel.function = read_function(in);
        kernel.entry = in.read_string();
        kernel.form = in.read<CompiledKernel::Form>();
        kernel.synchronizes = in.read<bool>();
        kernel.axes_in_row = in.read<std::uint32_t>();
        kernel.threadgroup_memory = in.read<std::uint64_t>();
        kernel.stack_size = in.read<std::uint64_t>();
        kernel.group_work.of_group = in.read<float>();
        kernel.group_work.of_simdgroup = in.read<float>();
        kernel.group_work.growth = in.read<float>();
        kernel.group_work.row_accesses = in.read<float>();
        kernel.group_work.column_accesses = in.read<float>();
        kernel.group_work.halves = in.read<bool>();
        kernel.group_work.loops = in.read<bool>();
        kernel.group_work.one_way_ahead = in.read<bool>();
        kernel.object = in.read_string();
        kernel.scalar_entry = in.read_string();
        kernel.vector_source = in.read_string();
        kernel.why_scalar = in.read_string();
        return kernel;
    });
}

std::string gpu_key(const std::string& kernel_key, const GpuRequest& request) {
    BinaryWriter out;
    out.write(kernel_key);
    out.write(request.target.architecture);
    out.write(request.target.ptx_version);
    out.write(request.target.libdevice);
    const Uint3 size = request.threadgroup.value_or(Uint3{0, 0, 0});
    for (std::uint32_t number : {size.x, size.y, size.z}) {
        out.write(number);
    }
    out.write(request.driver_knows_size);
    out.write(request.most_threads);
    out.write(request.folded);
    out.write(request.whole);
    out.write(request.may_pair);
    out.write(request.axes);
    out.write_list(request.value_bytes, [&](std::uint32_t bytes) { out.write(bytes); });
    return content_hash(out.take());
}

std::string write_gpu_code(const GpuCode& code) {
    BinaryWriter out;
    write_function(out, code.function);
    out.write(code.ptx);
    out.write(code.entry);
    out.write_list(code.parameter_offsets, [&](std::uint32_t offset) { out.write(offset); });
    out.write(code.parameter_bytes);
    out.write(static_cast<std::uint64_t>(code.static_threadgroup_memory));
    out.write(code.threadgroups_per_block);
    out.write(code.prints);
    return out.take();
}

std::optional<GpuCode> read_gpu_code(std::string_view record) {
    return undamaged(record, [](BinaryReader& in) {
        GpuCode code;
        code.function = read_function(in);
        code.ptx = in.read_string();
        code.entry = in.read_string();
        code.parameter_offsets = in.read_list([&] { return in.read<std::uint32_t>(); });
        code.parameter_bytes = in.read<std::uint32_t>();
        code.static_threadgroup_memory = in.read<std::uint64_t>();
        code.threadgroups_per_block = in.read<unsigned>();
        code.prints = in.read<bool>();
        return code;
    });
}

} // namespace metalki::compiler
