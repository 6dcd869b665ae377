// Compiled sources, function constants and pipelines.
#include "kernel_interface/process.hpp"
#include "metal_backend/messages.hpp"
#include "metal_backend/objects.hpp"

namespace metalki::metal {

namespace {

constexpr unsigned most_buffers = 31;

MTL::LanguageVersion language_version(const std::string& text) {
    struct Version {
        std::string_view name;
        MTL::LanguageVersion value;
    };
    constexpr Version versions[] = {{"", MTL::LanguageVersion3_2},    {"3.2", MTL::LanguageVersion3_2},
                                    {"3.1", MTL::LanguageVersion3_1}, {"3.0", MTL::LanguageVersion3_0},
                                    {"2.4", MTL::LanguageVersion2_4}, {"2.3", MTL::LanguageVersion2_3}};
    for (const Version& version : versions)
        if (version.name == text)
            return version.value;
    throw ArgumentError("compile: language version \"" + text + "\" is not known; there are 2.3, 2.4, 3.0, 3.1 and 3.2");
}

MTL::MathMode math_mode(MathMode mode) {
    return mode == MathMode::safe ? MTL::MathModeSafe : mode == MathMode::fast ? MTL::MathModeFast : MTL::MathModeRelaxed;
}

NS::SharedPtr<MTL::CompileOptions> make_options(const CompileOptions& options) {
    auto result = NS::TransferPtr(MTL::CompileOptions::alloc()->init());
    result->setLanguageVersion(language_version(options.language_version));
    result->setMathMode(math_mode(options.math_mode));
    if (!options.macros.empty()) {
        std::vector<NS::SharedPtr<NS::String>> owners;
        std::vector<const NS::Object*> names, texts;
        for (const auto& [name, text] : options.macros) {
            names.push_back(owners.emplace_back(make_string(name)).get());
            texts.push_back(owners.emplace_back(make_string(text)).get());
        }
        result->setPreprocessorMacros(NS::Dictionary::dictionary(texts.data(), names.data(), names.size()));
    }
    return result;
}

[[noreturn]] void fail(NS::Error* error, const std::string& source, const std::string& otherwise) {
    if (!error)
        throw CompileError(otherwise, {});
    throw CompileError(to_string(error->localizedDescription()), read_diagnostics(error, source));
}

// The source is fine; what is asked of it is not.
[[noreturn]] void fail_to_specialise(NS::Error* error, const std::string& source, const std::string& kernel) {
    const std::string text = error ? to_string(error->localizedDescription()) : "the device gives no reason";
    if (error && read_diagnostics(error, source).empty() && text.find("function constant") != std::string::npos)
        throw ArgumentError(text);
    if (error && error->code() == MTL::LibraryErrorInternal)
        throw DeviceError("kernel \"" + kernel + "\": " + text);
    fail(error, source, "kernel \"" + kernel + "\": " + text);
}

NS::SharedPtr<MTL::Library> new_library(MTL::Device& device, const detail::Program& program, const CompileOptions& options,
                                        NS::Error** error) {
    NS::SharedPtr<MTL::CompileOptions> metal_options = make_options(options);
    if (!METALKI_EXTENDED_METAL && may_print(program.inlined))
        metal_options->setEnableLogging(true); // older systems do not have it
#if METALKI_EXTENDED_METAL
    NS::SharedPtr<NS::String> text = make_string(program.source);
#else
    NS::SharedPtr<NS::String> text = make_string(program.inlined);
#endif
    if (!text)
        throw ArgumentError("compile: the source is not UTF-8 text");
#if METALKI_EXTENDED_METAL
    const MTL::Portable::IncludeSources includes{options.headers, options.include_dirs,
                                                 options.include_dirs.empty() ? std::string() : program.inlined};
    return NS::TransferPtr(MTL::Portable::newLibrary(&device, text.get(), metal_options.get(), includes, error));
#else
    return NS::TransferPtr(device.newLibrary(text.get(), metal_options.get(), error));
#endif
}

detail::ConstantInfo describe(const MTL::FunctionConstant& constant) {
    const ValueShape shape = shape_of(constant.type());
    // The portable compiler finds out by itself, after optimising, which values are missing.
    const bool required = !METALKI_EXTENDED_METAL && constant.required();
    return {to_string(constant.name()), static_cast<unsigned>(constant.index()), shape.scalar, shape.rows, required};
}

void check_buffers(const std::string& kernel, const std::vector<ArgumentInfo>& arguments) {
    unsigned buffers = 0;
    for (const ArgumentInfo& info : arguments)
        buffers += info.kind == ArgumentKind::buffer;
    if (buffers > most_buffers)
        throw CompileError("kernel \"" + kernel + "\" has " + std::to_string(buffers) +
                               " buffer arguments; a kernel has at most " + std::to_string(most_buffers),
                           {});
}

} // namespace

std::shared_ptr<detail::LibraryImpl> MetalDevice::compile(const detail::Program& program, const CompileOptions& options) {
    AutoreleaseScope scope;
    NS::Error* error = nullptr;
    auto made = std::make_shared<MetalLibrary>();
    made->library = new_library(*device.get(), program, options, &error);
    made->source = METALKI_EXTENDED_METAL ? program.source : program.inlined;
    if (!made->library)
        fail(error, made->source, "compile: the device gives no reason");
    if (error)
        made->warnings = read_diagnostics(error, made->source);
    made->device = shared_from_this();
    made->may_print = !METALKI_EXTENDED_METAL && may_print(program.inlined);
    const NS::Array* names = made->library->functionNames();
    for (NS::UInteger i = 0; i < names->count(); ++i)
        made->function_names.push_back(to_string(names->object<NS::String>(i)));
    return made;
}

std::vector<detail::ConstantInfo> MetalLibrary::constants_of(const std::string& function) {
#if METALKI_EXTENDED_METAL
    if (declared_constants().empty())
        return {}; // spares looking into the function
#endif
    std::lock_guard lock(constants_mutex_);
    if (auto it = constants_.find(function); it != constants_.end())
        return it->second;
    AutoreleaseScope scope;
    std::vector<detail::ConstantInfo> result;
    auto found = NS::TransferPtr(library->newFunction(make_string(function).get()));
    NS::Dictionary* dictionary = found ? found->functionConstantsDictionary() : nullptr;
    auto* keys = dictionary ? dictionary->keyEnumerator<NS::String>() : nullptr;
    for (NS::String* key = keys ? keys->nextObject() : nullptr; key; key = keys->nextObject())
        result.push_back(describe(*dictionary->object<MTL::FunctionConstant>(key)));
    return constants_.emplace(function, std::move(result)).first->second;
}

// Apple's Metal knows the constants of single functions only; all of them together are those that matter.
std::vector<detail::ConstantInfo> MetalLibrary::declared_constants() {
    std::vector<detail::ConstantInfo> result;
#if METALKI_EXTENDED_METAL
    AutoreleaseScope scope;
    NS::Array* all = MTL::Portable::functionConstants(library.get());
    for (NS::UInteger i = 0; i < all->count(); ++i)
        result.push_back(describe(*all->object<MTL::FunctionConstant>(i)));
#else
    std::map<unsigned, detail::ConstantInfo> found;
    for (const std::string& function : function_names)
        for (detail::ConstantInfo& constant : constants_of(function))
            found.emplace(constant.index, std::move(constant));
    for (auto& [index, constant] : found)
        result.push_back(std::move(constant));
#endif
    return result;
}

std::shared_ptr<const detail::KernelImpl> MetalLibrary::make_kernel(const std::string& function,
                                                                    std::span<const detail::ConstantBytes> constants) {
    if (device->info.kind == "cuda")
        detail::check_device(); // its driver is of no use in a forked child
    AutoreleaseScope scope;
    auto values = NS::TransferPtr(MTL::FunctionConstantValues::alloc()->init());
    for (const detail::ConstantBytes& constant : constants)
        values->setConstantValue(constant.bytes.data(), data_type_of(constant.info->type, constant.info->width),
                                 NS::UInteger(constant.info->index));
    NS::Error* error = nullptr;
    auto specialised = NS::TransferPtr(library->newFunction(make_string(function).get(), values.get(), &error));
    if (!specialised)
        fail_to_specialise(error, source, function);
    if (specialised->functionType() != MTL::FunctionTypeKernel)
        throw ArgumentError("kernel: \"" + function + "\" is not a kernel function");
    auto made = std::make_shared<MetalKernel>();
    MTL::AutoreleasedComputePipelineReflection reflection = nullptr;
    const MTL::PipelineOption options = MTL::PipelineOptionBindingInfo | MTL::PipelineOptionBufferTypeInfo;
    auto& metal = static_cast<MetalDevice&>(*device);
    made->pipeline = NS::TransferPtr(metal.device->newComputePipelineState(specialised.get(), options, &reflection, &error));
    if (!made->pipeline)
        fail_to_specialise(error, source, function);
    made->function = specialised;
#if METALKI_EXTENDED_METAL
    made->prints = MTL::Portable::printsMessages(made->pipeline.get());
    made->preferred_threads = MTL::Portable::preferredThreads(made->pipeline.get());
    const MTL::Portable::GroupWork work = MTL::Portable::groupWork(made->pipeline.get());
    made->group_work = {work.ofGroup,        work.ofSimdgroup, work.growth, work.rowAccesses,
                        work.columnAccesses, work.halves,      work.loops,  work.oneWayAhead};
    made->takes_only_memory = MTL::Portable::canDispatch(made->pipeline.get());
#else
    made->prints = may_print;
#endif
    made->device = device;
    made->library = shared_from_this();
    made->name = function;
    made->arguments = read_arguments(reflection);
    check_buffers(function, made->arguments);
    made->max_total_threads = made->pipeline->maxTotalThreadsPerThreadgroup();
    made->execution_width = made->pipeline->threadExecutionWidth();
    made->static_threadgroup_memory = made->pipeline->staticThreadgroupMemoryLength();
    made->prepare();
    return made;
}

std::string MetalKernel::disassemble(std::string_view form) const {
    if (form == "msl")
        return library->source;
#if METALKI_EXTENDED_METAL
    if (form == "llvm" || form == "asm" || form == "ptx")
        return MTL::Portable::disassemble(function.get(), std::string(form));
    constexpr const char* forms = "there are \"msl\", \"llvm\", \"asm\" and \"ptx\"";
#else
    constexpr const char* forms = "there is \"msl\"";
#endif
    throw ArgumentError("disassemble: form \"" + std::string(form) + "\" is not there for kernel \"" + name + "\"; " + forms);
}

} // namespace metalki::metal
