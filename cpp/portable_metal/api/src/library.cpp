// MTL::Library, Function, FunctionConstantValues, CompileOptions, and newLibrary.
#include <algorithm>
#include <cstring>

#include "Metal/MetalkiExtensions.hpp"
#include "Metal/MetalkiValidation.hpp"
#include "collections.hpp"
#include "device.hpp"
#include "validation.hpp"

namespace metalki::api {
namespace {

class OptionsState final : public ObjectState {
public:
    const char* class_name() const override { return "MTL::CompileOptions"; }
    ObjectState* copy() const override {
        auto* other = new OptionsState;
        other->values = values;
        return other;
    }
    struct Values {
        bool logging = false, preserve_invariance = false;
        MTL::LanguageVersion language = MTL::LanguageVersion3_2;
        MTL::LibraryType type = MTL::LibraryTypeExecutable;
        MTL::MathFloatingPointFunctions functions = MTL::MathFloatingPointFunctionsFast;
        MTL::MathMode math = MTL::MathModeFast;
        NS::UInteger max_threads = 0;
        MTL::LibraryOptimizationLevel optimization = MTL::LibraryOptimizationLevelDefault;
        NS::SharedPtr<NS::Dictionary> macros;
    } values;
};
OptionsState::Values& values(const MTL::CompileOptions* options) {
    return state_of<OptionsState>(options).values;
}

class ConstantState final : public ObjectState {
public:
    const char* class_name() const override { return "MTL::FunctionConstant"; }
    compiler::FunctionConstant constant;
};

compiler::Options compiler_options(const MTL::CompileOptions* options) {
    compiler::Options result;
    result.math_mode = compiler::MathMode::fast;
    if (!options)
        return result;
    const auto& own = values(options);
    result.math_mode = static_cast<compiler::MathMode>(own.math);
    result.language_version = static_cast<unsigned>(own.language);
    if (NS::Dictionary* macros = own.macros.get()) {
        ScopedPool pool_for_the_enumerator;
        auto* keys = macros->keyEnumerator<NS::Object>();
        while (NS::Object* key = keys->nextObject())
            result.macros.emplace_back(state_of<ObjectState>(key).description(),
                                       state_of<ObjectState>(macros->object(key)).description());
    }
    return result;
}

// One entry per constant, by name or in order.
Reference<ObjectState> constant_object(const compiler::FunctionConstant& constant) {
    auto* object = new ConstantState;
    object->constant = constant;
    return Reference<ObjectState>::adopt(object);
}

const char* severity_name(compiler::Severity severity) {
    return severity == compiler::Severity::error ? "error" : severity == compiler::Severity::warning ? "warning" : "note";
}

std::string warning_text(std::span<const compiler::Diagnostic> warnings) {
    std::string text;
    for (const auto& w : warnings)
        text += w.file + ":" + std::to_string(w.line) + ":" + std::to_string(w.column) + ": " + severity_name(w.severity) +
                ": " + w.message + "\n" + w.source_line + "\n" + std::string(w.column ? w.column - 1 : 0, ' ') + "^\n";
    return text;
}

struct ScalarShape {
    compiler::ScalarType scalar;
    unsigned width;
    std::size_t bytes; // of one component
};

std::optional<ScalarShape> constant_shape(MTL::DataType type) {
    using S = compiler::ScalarType;
    struct Row {
        MTL::DataType first;
        S scalar;
        std::size_t bytes;
    };
    static constexpr Row rows[] = {
        {MTL::DataTypeFloat, S::float_, 4}, {MTL::DataTypeHalf, S::half, 2},    {MTL::DataTypeInt, S::int_, 4},
        {MTL::DataTypeUInt, S::uint, 4},    {MTL::DataTypeShort, S::short_, 2}, {MTL::DataTypeUShort, S::ushort, 2},
        {MTL::DataTypeChar, S::char_, 1},   {MTL::DataTypeUChar, S::uchar, 1},  {MTL::DataTypeBool, S::bool_, 1},
        {MTL::DataTypeLong, S::long_, 8},   {MTL::DataTypeULong, S::ulong, 8},  {MTL::DataTypeBFloat, S::bfloat, 2}};
    for (const Row& row : rows)
        if (type >= row.first && type < row.first + 4u)
            return ScalarShape{row.scalar, static_cast<unsigned>(type - row.first + 1), row.bytes};
    return std::nullopt;
}

// Values of vectors of three are read with the stride of four, as they lie in memory.
std::size_t stride_of(const ScalarShape& shape) {
    return shape.bytes * (shape.width == 3 ? 4 : shape.width);
}

void store_constant(ConstantValuesState& state, const void* value, MTL::DataType type, std::optional<unsigned> index,
                    std::string name) {
    constexpr const char* call = "MTL::FunctionConstantValues::setConstantValue";
    const auto shape = constant_shape(type);
    if (!require(value, call, "value is null") ||
        !require(shape.has_value(), call, [&] { return "data type " + std::to_string(type) + " is not a scalar or vector"; }))
        return;
    auto found = std::find_if(state.values.begin(), state.values.end(),
                              [&](const auto& v) { return v.index == index && v.name == name; });
    if (found == state.values.end())
        found = state.values.insert(found, {index, name});
    found->type = shape->scalar;
    found->width = shape->width;
    found->bytes = {};
    std::memcpy(found->bytes.data(), value, shape->bytes * shape->width);
}

const compiler::FunctionInfo* find_function(const LibraryState& library, std::string_view name) {
    for (const auto& function : library.code->functions())
        if (function.name == name)
            return &function;
    return nullptr;
}

std::string unknown_function(const LibraryState& library, const std::string& name) {
    std::string text = "MTL::Library::newFunction: there is no function \"" + name + "\"; the library has:";
    for (const auto& function : library.code->functions())
        text += " " + function.name;
    return text;
}

FunctionState* new_function(LibraryState& library, std::string name) {
    auto* state = new FunctionState;
    state->library = Reference<LibraryState>::share(&library);
    state->name = std::move(name);
    return state;
}

bool constants_match(const LibraryState& library, std::span<const compiler::ConstantValue> given) {
    for (const auto& value : given)
        for (const auto& declared : library.code->constants()) {
            const bool same = value.index ? *value.index == declared.index : value.name == declared.name;
            if (same && !require(value.type == declared.type.scalar && value.width == declared.type.rows,
                                 "MTL::Library::newFunction", [&] {
                                     return "the value for function constant \"" + declared.name + "\" (index " +
                                            std::to_string(declared.index) + ") does not have its type " + declared.type.name;
                                 }))
                return false;
        }
    return true;
}

} // namespace

ObjectState* ConstantValuesState::copy() const {
    auto* other = new ConstantValuesState;
    other->values = values;
    return other;
}

NS::Error* make_error(NS::ErrorDomain domain, NS::Integer code, const std::string& text,
                      std::span<const compiler::Diagnostic> diagnostics) {
    std::vector<Entry> info{text_entry(text_of(NS::LocalizedDescriptionKey), text)};
    if (!diagnostics.empty()) {
        std::vector<Reference<ObjectState>> items;
        for (const auto& d : diagnostics)
            items.push_back(
                adopt(make_dictionary({text_entry("file", d.file), number_entry("line", d.line),
                                       number_entry("column", d.column), text_entry("severity", severity_name(d.severity)),
                                       text_entry("message", d.message), text_entry("sourceLine", d.source_line)})));
        info.emplace_back(Reference<ObjectState>::adopt(make_string(text_of(MTL::CompileDiagnosticsKey))),
                          adopt(make_array(std::move(items))));
    }
    auto dictionary = NS::TransferPtr(make_dictionary(std::move(info)));
    return NS::Error::alloc()->init(domain, code, dictionary.get());
}

void set_error(NS::Error** error, NS::ErrorDomain domain, NS::Integer code, const std::string& text,
               std::span<const compiler::Diagnostic> diagnostics) {
    if (error)
        *error = make_error(domain, code, text, diagnostics)->autorelease();
}

} // namespace metalki::api

namespace MTL {

using namespace metalki::api;
namespace compiler = metalki::compiler;

Library* Device::newLibrary(const NS::String* source, const CompileOptions* options, NS::Error** error) {
    return Portable::newLibrary(this, source, options, {}, error);
}

Library* Portable::newLibrary(Device* device, const NS::String* source, const CompileOptions* options,
                              const IncludeSources& includes, NS::Error** error) {
    if (error)
        *error = nullptr;
    if (!require(source, "MTL::Device::newLibrary", "source is null"))
        return nullptr;
    auto state = Reference<LibraryState>::adopt(new LibraryState(device_of(device)));
    try {
        compiler::Options own = compiler_options(options);
        own.headers = includes.headers;
        own.include_directories = includes.directories;
        own.include_identity = includes.identity;
        state->code = compiler::Library::from_source(text_of(source), own);
        const auto warnings = state->code->warnings();
        if (!warnings.empty())
            set_error(error, LibraryErrorDomain, LibraryErrorCompileWarning, warning_text(warnings), warnings);
        return public_of<Library>(state.hand_out());
    } catch (const compiler::CompileError& problem) {
        set_error(error, LibraryErrorDomain, LibraryErrorCompileFailure, problem.what(), problem.diagnostics());
    } catch (const std::exception& problem) {
        set_error(error, LibraryErrorDomain, LibraryErrorInternal, problem.what());
    }
    return nullptr;
}

NS::Array* Portable::functionConstants(const Library* library) {
    std::vector<Reference<ObjectState>> items;
    for (const auto& constant : state_of<LibraryState>(library).code->constants())
        items.push_back(constant_object(constant));
    return make_array(std::move(items))->autorelease();
}

void Device::newLibrary(const NS::String* pSource, const CompileOptions* pOptions,
                        const NewLibraryCompletionHandlerFunction& completionHandler) {
    ScopedPool pool;
    NS::Error* error = nullptr;
    auto library = NS::TransferPtr(newLibrary(pSource, pOptions, &error));
    completionHandler(library.get(), error);
}

Device* Library::device() const {
    return public_of<Device>(&state_of<LibraryState>(this).device);
}
NS::Array* Library::functionNames() const {
    std::vector<Reference<ObjectState>> names;
    for (const auto& function : state_of<LibraryState>(this).code->functions())
        names.push_back(Reference<ObjectState>::adopt(make_string(function.name)));
    return make_array(std::move(names))->autorelease();
}
NS::String* Library::installName() const {
    return nullptr;
}
NS::String* Library::label() const {
    return autoreleased<NS::String>(state_of<LibraryState>(this).label);
}
void Library::setLabel(const NS::String* label) {
    state_of<LibraryState>(this).label = label_of(label);
}
LibraryType Library::type() const {
    return state_of<LibraryState>(this).type;
}

Function* Library::newFunction(const NS::String* functionName) {
    auto& library = state_of<LibraryState>(this);
    if (!require(functionName, "MTL::Library::newFunction", "functionName is null") ||
        !find_function(library, text_of(functionName)))
        return nullptr;
    return public_of<Function>(new_function(library, text_of(functionName)));
}

Function* Library::newFunction(const NS::String* name, const FunctionConstantValues* constantValues, NS::Error** error) {
    constexpr const char* call = "MTL::Library::newFunction";
    auto& library = state_of<LibraryState>(this);
    if (error)
        *error = nullptr;
    if (!require(name, call, "name is null") || !require(constantValues, call, "constantValues is null"))
        return nullptr;
    const auto& values = state_of<ConstantValuesState>(constantValues).values;
    if (!find_function(library, text_of(name))) {
        set_error(error, LibraryErrorDomain, LibraryErrorFunctionNotFound, unknown_function(library, text_of(name)));
        return nullptr;
    }
    if (!constants_match(library, values))
        return nullptr;
    auto state = Reference<FunctionState>::adopt(new_function(library, text_of(name)));
    state->constants = values;
    try {
        state->code = library.device.make_code(library.code, state->name, values);
        return public_of<Function>(state.hand_out());
    } catch (const compiler::CompileError& problem) {
        set_error(error, LibraryErrorDomain, LibraryErrorCompileFailure, problem.what(), problem.diagnostics());
    } catch (const DeviceFailure& problem) {
        set_error(error, LibraryErrorDomain, LibraryErrorInternal, problem.what());
    } catch (const std::exception& problem) {
        set_error(error, LibraryErrorDomain, LibraryErrorCompileFailure, problem.what());
    }
    return nullptr;
}

void Library::newFunction(const NS::String* pFunctionName, const FunctionConstantValues* pConstantValues,
                          const FunctionCompletionHandlerFunction& completionHandler) {
    ScopedPool pool;
    NS::Error* error = nullptr;
    auto function = NS::TransferPtr(newFunction(pFunctionName, pConstantValues, &error));
    completionHandler(function.get(), error);
}

Device* Function::device() const {
    return public_of<Device>(&state_of<FunctionState>(this).library->device);
}
NS::Dictionary* Function::functionConstantsDictionary() const {
    const auto& state = state_of<FunctionState>(this);
    std::vector<Entry> entries;
    for (const auto& constant : state.library->code->used_constants(state.name))
        entries.emplace_back(Reference<ObjectState>::adopt(make_string(constant.name)), constant_object(constant));
    return make_dictionary(std::move(entries))->autorelease();
}
FunctionType Function::functionType() const {
    return FunctionTypeKernel;
}
NS::String* Function::label() const {
    return autoreleased<NS::String>(state_of<FunctionState>(this).label);
}
NS::String* Function::name() const {
    return autoreleased_string(state_of<FunctionState>(this).name);
}
void Function::setLabel(const NS::String* label) {
    state_of<FunctionState>(this).label = label_of(label);
}

NS::UInteger FunctionConstant::index() const {
    return state_of<ConstantState>(this).constant.index;
}
NS::String* FunctionConstant::name() const {
    return autoreleased_string(state_of<ConstantState>(this).constant.name);
}
bool FunctionConstant::required() const {
    return state_of<ConstantState>(this).constant.required;
}
DataType FunctionConstant::type() const {
    return data_type(state_of<ConstantState>(this).constant.type);
}

FunctionConstantValues* FunctionConstantValues::alloc() {
    return public_of<FunctionConstantValues>(new ConstantValuesState);
}
FunctionConstantValues* FunctionConstantValues::init() {
    return this;
}
void FunctionConstantValues::reset() {
    state_of<ConstantValuesState>(this).values.clear();
}
void FunctionConstantValues::setConstantValue(const void* value, DataType type, NS::UInteger index) {
    if (require(index <= 65535, "MTL::FunctionConstantValues::setConstantValue", "index is over the limit of 65535"))
        store_constant(state_of<ConstantValuesState>(this), value, type, static_cast<unsigned>(index), {});
}
void FunctionConstantValues::setConstantValue(const void* value, DataType type, const NS::String* name) {
    if (require(name, "MTL::FunctionConstantValues::setConstantValue", "name is null"))
        store_constant(state_of<ConstantValuesState>(this), value, type, std::nullopt, text_of(name));
}
void FunctionConstantValues::setConstantValues(const void* values, DataType type, NS::Range range) {
    const auto shape = constant_shape(type);
    for (NS::UInteger i = 0; i < range.length; ++i) {
        const auto* value = static_cast<const std::byte*>(values);
        setConstantValue(value && shape ? value + i * stride_of(*shape) : value, type, range.location + i);
    }
}

CompileOptions* CompileOptions::alloc() {
    return public_of<CompileOptions>(new OptionsState);
}
CompileOptions* CompileOptions::init() {
    return this;
}
bool CompileOptions::enableLogging() const {
    return values(this).logging;
}
bool CompileOptions::fastMathEnabled() const {
    return values(this).math == MathModeFast;
}
LanguageVersion CompileOptions::languageVersion() const {
    return values(this).language;
}
LibraryType CompileOptions::libraryType() const {
    return values(this).type;
}
MathFloatingPointFunctions CompileOptions::mathFloatingPointFunctions() const {
    return values(this).functions;
}
MathMode CompileOptions::mathMode() const {
    return values(this).math;
}
NS::UInteger CompileOptions::maxTotalThreadsPerThreadgroup() const {
    return values(this).max_threads;
}
LibraryOptimizationLevel CompileOptions::optimizationLevel() const {
    return values(this).optimization;
}
NS::Dictionary* CompileOptions::preprocessorMacros() const {
    return values(this).macros.get();
}
bool CompileOptions::preserveInvariance() const {
    return values(this).preserve_invariance;
}
void CompileOptions::setEnableLogging(bool enableLogging) {
    values(this).logging = enableLogging;
}
void CompileOptions::setFastMathEnabled(bool fastMathEnabled) {
    values(this).math = fastMathEnabled ? MathModeFast : MathModeSafe;
}
void CompileOptions::setLanguageVersion(LanguageVersion languageVersion) {
    values(this).language = languageVersion;
}
void CompileOptions::setLibraryType(LibraryType libraryType) {
    values(this).type = libraryType;
}
void CompileOptions::setMathFloatingPointFunctions(MathFloatingPointFunctions mathFloatingPointFunctions) {
    values(this).functions = mathFloatingPointFunctions;
}
void CompileOptions::setMathMode(MathMode mathMode) {
    values(this).math = mathMode;
}
void CompileOptions::setMaxTotalThreadsPerThreadgroup(NS::UInteger maxTotalThreadsPerThreadgroup) {
    values(this).max_threads = maxTotalThreadsPerThreadgroup;
}
void CompileOptions::setOptimizationLevel(LibraryOptimizationLevel optimizationLevel) {
    values(this).optimization = optimizationLevel;
}
void CompileOptions::setPreprocessorMacros(const NS::Dictionary* preprocessorMacros) {
    values(this).macros = NS::RetainPtr(const_cast<NS::Dictionary*>(preprocessorMacros));
}
void CompileOptions::setPreserveInvariance(bool preserveInvariance) {
    values(this).preserve_invariance = preserveInvariance;
}

} // namespace MTL
