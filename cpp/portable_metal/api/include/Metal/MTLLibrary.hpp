// Compiled sources and the functions in them.
#pragma once

#include <functional>

#include "MTLArgument.hpp"
#include "MTLDefines.hpp"
#include "MTLTypes.hpp"

namespace MTL {

class Device;
class Function;
class FunctionConstantValues;
class Library;

enum FunctionType : NS::UInteger {
    FunctionTypeVertex = 1,
    FunctionTypeFragment = 2,
    FunctionTypeKernel = 3,
    FunctionTypeVisible = 5,
    FunctionTypeIntersection = 6,
    FunctionTypeMesh = 7,
    FunctionTypeObject = 8,
};

enum LanguageVersion : NS::UInteger {
    LanguageVersion1_0 = 0x10000,
    LanguageVersion1_1 = 0x10001,
    LanguageVersion1_2 = 0x10002,
    LanguageVersion2_0 = 0x20000,
    LanguageVersion2_1 = 0x20001,
    LanguageVersion2_2 = 0x20002,
    LanguageVersion2_3 = 0x20003,
    LanguageVersion2_4 = 0x20004,
    LanguageVersion3_0 = 0x30000,
    LanguageVersion3_1 = 0x30001,
    LanguageVersion3_2 = 0x30002,
    LanguageVersion4_0 = 0x40000,
};

enum LibraryType : NS::Integer {
    LibraryTypeExecutable = 0,
    LibraryTypeDynamic = 1,
};

enum LibraryOptimizationLevel : NS::Integer {
    LibraryOptimizationLevelDefault = 0,
    LibraryOptimizationLevelSize = 1,
};

enum MathMode : NS::Integer {
    MathModeSafe = 0,
    MathModeRelaxed = 1,
    MathModeFast = 2,
};

enum MathFloatingPointFunctions : NS::Integer {
    MathFloatingPointFunctionsFast = 0,
    MathFloatingPointFunctionsPrecise = 1,
};

enum LibraryError : NS::UInteger {
    LibraryErrorUnsupported = 1,
    LibraryErrorInternal = 2,
    LibraryErrorCompileFailure = 3,
    LibraryErrorCompileWarning = 4,
    LibraryErrorFunctionNotFound = 5,
    LibraryErrorFileNotFound = 6,
};

using FunctionCompletionHandlerFunction = std::function<void(Function* pFunction, NS::Error* pError)>;

class METALKI_API FunctionConstant : public NS::Referencing<FunctionConstant> {
public:
    NS::UInteger index() const;
    NS::String* name() const;
    bool required() const;
    DataType type() const;
};

class METALKI_API Function : public NS::Referencing<Function> {
public:
    Device* device() const;
    // Name of the constant to FunctionConstant, for those that the function reads.
    NS::Dictionary* functionConstantsDictionary() const;
    FunctionType functionType() const;
    NS::String* label() const;
    NS::String* name() const;
    void setLabel(const NS::String* label);
};

class METALKI_API CompileOptions : public NS::Copying<CompileOptions> {
public:
    static CompileOptions* alloc();
    CompileOptions* init();

    bool enableLogging() const;
    // True when mathMode is fast.
    bool fastMathEnabled() const;
    LanguageVersion languageVersion() const;
    LibraryType libraryType() const;
    MathFloatingPointFunctions mathFloatingPointFunctions() const;
    // Fast by default.
    MathMode mathMode() const;
    NS::UInteger maxTotalThreadsPerThreadgroup() const;
    LibraryOptimizationLevel optimizationLevel() const;
    // Name to replacement: NS::String or NS::Number.
    NS::Dictionary* preprocessorMacros() const;
    bool preserveInvariance() const;

    void setEnableLogging(bool enableLogging);
    void setFastMathEnabled(bool fastMathEnabled);
    void setLanguageVersion(LanguageVersion languageVersion);
    void setLibraryType(LibraryType libraryType);
    void setMathFloatingPointFunctions(MathFloatingPointFunctions mathFloatingPointFunctions);
    void setMathMode(MathMode mathMode);
    void setMaxTotalThreadsPerThreadgroup(NS::UInteger maxTotalThreadsPerThreadgroup);
    void setOptimizationLevel(LibraryOptimizationLevel optimizationLevel);
    void setPreprocessorMacros(const NS::Dictionary* preprocessorMacros);
    void setPreserveInvariance(bool preserveInvariance);
};

class METALKI_API Library : public NS::Referencing<Library> {
public:
    Device* device() const;
    NS::Array* functionNames() const;
    NS::String* installName() const;
    NS::String* label() const;
    // Null when there is no such function.
    Function* newFunction(const NS::String* functionName);
    Function* newFunction(const NS::String* name, const FunctionConstantValues* constantValues, NS::Error** error);
    void newFunction(const NS::String* pFunctionName, const FunctionConstantValues* pConstantValues,
                     const FunctionCompletionHandlerFunction& completionHandler);
    void setLabel(const NS::String* label);
    LibraryType type() const;
};

} // namespace MTL
