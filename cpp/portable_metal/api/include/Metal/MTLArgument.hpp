// What a kernel takes: bindings and the shapes of the values behind them.
#pragma once

#include "MTLDataType.hpp"
#include "MTLDefines.hpp"
#include "MTLTexture.hpp"

namespace MTL {

class ArrayType;
class PointerType;
class StructType;

enum BindingType : NS::Integer {
    BindingTypeBuffer = 0,
    BindingTypeThreadgroupMemory = 1,
    BindingTypeTexture = 2,
    BindingTypeSampler = 3,
    BindingTypeImageblockData = 16,
    BindingTypeImageblock = 17,
    BindingTypeVisibleFunctionTable = 24,
    BindingTypePrimitiveAccelerationStructure = 25,
    BindingTypeInstanceAccelerationStructure = 26,
    BindingTypeIntersectionFunctionTable = 27,
    BindingTypeObjectPayload = 34,
    BindingTypeTensor = 37,
};

enum ArgumentType : NS::UInteger {
    ArgumentTypeBuffer = 0,
    ArgumentTypeThreadgroupMemory = 1,
    ArgumentTypeTexture = 2,
    ArgumentTypeSampler = 3,
    ArgumentTypeImageblockData = 16,
    ArgumentTypeImageblock = 17,
    ArgumentTypeVisibleFunctionTable = 24,
    ArgumentTypePrimitiveAccelerationStructure = 25,
    ArgumentTypeInstanceAccelerationStructure = 26,
    ArgumentTypeIntersectionFunctionTable = 27,
};

enum BindingAccess : NS::UInteger {
    BindingAccessReadOnly = 0,
    BindingAccessReadWrite = 1,
    BindingAccessWriteOnly = 2,
    ArgumentAccessReadOnly = 0,
    ArgumentAccessReadWrite = 1,
    ArgumentAccessWriteOnly = 2,
};

class METALKI_API Type : public NS::Referencing<Type> {
public:
    DataType dataType() const;
};

class METALKI_API StructMember : public NS::Referencing<StructMember> {
public:
    // The [[id(n)]] of a member of an argument buffer, 0 elsewhere.
    NS::UInteger argumentIndex() const;
    ArrayType* arrayType();
    DataType dataType() const;
    NS::String* name() const;
    NS::UInteger offset() const;
    PointerType* pointerType();
    StructType* structType();
};

class METALKI_API StructType : public NS::Referencing<StructType, Type> {
public:
    StructMember* memberByName(const NS::String* name);
    NS::Array* members() const;
};

class METALKI_API ArrayType : public NS::Referencing<ArrayType, Type> {
public:
    NS::UInteger argumentIndexStride() const;
    NS::UInteger arrayLength() const;
    ArrayType* elementArrayType();
    PointerType* elementPointerType();
    StructType* elementStructType();
    DataType elementType() const;
    NS::UInteger stride() const;
};

class METALKI_API PointerType : public NS::Referencing<PointerType, Type> {
public:
    BindingAccess access() const;
    NS::UInteger alignment() const;
    NS::UInteger dataSize() const;
    ArrayType* elementArrayType();
    bool elementIsArgumentBuffer() const;
    StructType* elementStructType();
    DataType elementType() const;
};

// The older form of a binding, with the same content.
class METALKI_API Argument : public NS::Referencing<Argument> {
public:
    BindingAccess access() const;
    [[deprecated("please use isActive instead")]] bool active() const;
    NS::UInteger arrayLength() const;
    NS::UInteger bufferAlignment() const;
    NS::UInteger bufferDataSize() const;
    DataType bufferDataType() const;
    PointerType* bufferPointerType() const;
    StructType* bufferStructType() const;
    NS::UInteger index() const;
    bool isActive() const;
    bool isDepthTexture() const;
    NS::String* name() const;
    DataType textureDataType() const;
    TextureType textureType() const;
    NS::UInteger threadgroupMemoryAlignment() const;
    NS::UInteger threadgroupMemoryDataSize() const;
    ArgumentType type() const;
};

class METALKI_API Binding : public NS::Referencing<Binding> {
public:
    BindingAccess access() const;
    [[deprecated("please use isArgument instead")]] bool argument() const;
    NS::UInteger index() const;
    bool isArgument() const;
    bool isUsed() const;
    NS::String* name() const;
    BindingType type() const;
    [[deprecated("please use isUsed instead")]] bool used() const;
};

class METALKI_API BufferBinding : public NS::Referencing<BufferBinding, Binding> {
public:
    NS::UInteger bufferAlignment() const;
    NS::UInteger bufferDataSize() const;
    DataType bufferDataType() const;
    PointerType* bufferPointerType() const;
    StructType* bufferStructType() const;
};

class METALKI_API TextureBinding : public NS::Referencing<TextureBinding, Binding> {
public:
    NS::UInteger arrayLength() const;
    [[deprecated("please use isDepthTexture instead")]] bool depthTexture() const;
    bool isDepthTexture() const;
    DataType textureDataType() const;
    TextureType textureType() const;
};

class METALKI_API ThreadgroupBinding : public NS::Referencing<ThreadgroupBinding, Binding> {
public:
    NS::UInteger threadgroupMemoryAlignment() const;
    NS::UInteger threadgroupMemoryDataSize() const;
};

} // namespace MTL
