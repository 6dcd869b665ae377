// Compiled sources, function constants and pipelines.
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

std::shared_ptr<detail::LibraryImpl> MetalDevice::compile(const std::string& source, const CompileOptions& options) {
    AutoreleaseScope scope;
    NS::SharedPtr<MTL::CompileOptions> metal_options = make_options(options);
    NS::Error* error = nullptr;
    NS::SharedPtr<NS::String> text = make_string(source);
    if (!text)
        throw ArgumentError("compile: the source is not UTF-8 text");
    auto made = std::make_shared<MetalLibrary>();
    made->library = NS::TransferPtr(device->newLibrary(text.get(), metal_options.get(), &error));
    if (!made->library)
        fail(error, source, "compile: the device gives no reason");
    if (error)
        made->warnings = read_diagnostics(error, source);
    made->device = shared_from_this();
    made->source = source;
    const NS::Array* names = made->library->functionNames();
    for (NS::UInteger i = 0; i < names->count(); ++i)
        made->function_names.push_back(to_string(names->object<NS::String>(i)));
    return made;
}

std::vector<detail::ConstantInfo> MetalLibrary::constants_of(const std::string& function) {
    std::lock_guard lock(constants_mutex_);
    if (auto it = constants_.find(function); it != constants_.end())
        return it->second;
    AutoreleaseScope scope;
    std::vector<detail::ConstantInfo> result;
    auto found = NS::TransferPtr(library->newFunction(make_string(function).get()));
    NS::Dictionary* dictionary = found ? found->functionConstantsDictionary() : nullptr;
    auto* keys = dictionary ? dictionary->keyEnumerator<NS::String>() : nullptr;
    for (NS::String* key = keys ? keys->nextObject() : nullptr; key; key = keys->nextObject()) {
        auto* constant = dictionary->object<MTL::FunctionConstant>(key);
        const ValueShape shape = shape_of(constant->type());
        result.push_back({to_string(constant->name()), static_cast<unsigned>(constant->index()), shape.scalar, shape.rows,
                          constant->required()});
    }
    return constants_.emplace(function, std::move(result)).first->second;
}

std::shared_ptr<const detail::KernelImpl> MetalLibrary::make_kernel(const std::string& function,
                                                                    std::span<const detail::ConstantBytes> constants) {
    AutoreleaseScope scope;
    auto values = NS::TransferPtr(MTL::FunctionConstantValues::alloc()->init());
    for (const detail::ConstantBytes& constant : constants)
        values->setConstantValue(constant.bytes.data(), data_type_of(constant.info->type, constant.info->width),
                                 NS::UInteger(constant.info->index));
    NS::Error* error = nullptr;
    auto specialised = NS::TransferPtr(library->newFunction(make_string(function).get(), values.get(), &error));
    if (!specialised)
        fail(error, source, "kernel \"" + function + "\": the device gives no reason");
    if (specialised->functionType() != MTL::FunctionTypeKernel)
        throw ArgumentError("kernel: \"" + function + "\" is not a kernel function");
    auto made = std::make_shared<MetalKernel>();
    MTL::AutoreleasedComputePipelineReflection reflection = nullptr;
    const MTL::PipelineOption options = MTL::PipelineOptionBindingInfo | MTL::PipelineOptionBufferTypeInfo;
    auto& metal = static_cast<MetalDevice&>(*device);
    made->pipeline = NS::TransferPtr(metal.device->newComputePipelineState(specialised.get(), options, &reflection, &error));
    if (!made->pipeline)
        fail(error, source, "kernel \"" + function + "\": the device gives no reason");
    made->device = device;
    made->library = shared_from_this();
    made->name = function;
    made->arguments = read_arguments(reflection);
    check_buffers(function, made->arguments);
    made->max_total_threads = made->pipeline->maxTotalThreadsPerThreadgroup();
    made->execution_width = made->pipeline->threadExecutionWidth();
    made->static_threadgroup_memory = made->pipeline->staticThreadgroupMemoryLength();
    return made;
}

std::string MetalKernel::disassemble(std::string_view form) const {
    if (form == "msl")
        return library->source;
    throw ArgumentError("disassemble: form \"" + std::string(form) + "\" is not there for kernel \"" + name +
                        "\"; there is \"msl\"");
}

} // namespace metalki::metal
