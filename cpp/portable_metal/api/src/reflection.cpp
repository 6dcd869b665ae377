// Bindings, arguments and types of a kernel, as MTL:: shows them.
#include <algorithm>

#include "Metal/MetalkiExtensions.hpp"
#include "collections.hpp"
#include "texture.hpp"

namespace metalki::api {
namespace {

using compiler::ScalarType;
using compiler::TypeKind;

// The compiler's description, seen as any of Type, StructType, ArrayType, PointerType, StructMember, Binding, Argument.
class TypeState final : public ObjectState {
public:
    explicit TypeState(compiler::Type type) : type(std::move(type)) {}
    const char* class_name() const override { return "MTL::Type"; }
    compiler::Type type;
    std::size_t offset = 0; // members only
    int argument_id = 0;
    std::string member;
    MTL::BindingAccess access = MTL::BindingAccessReadWrite;
};

class BindingState final : public ObjectState {
public:
    explicit BindingState(compiler::Argument argument) : argument(std::move(argument)) {}
    const char* class_name() const override { return "MTL::Binding"; }
    compiler::Argument argument;
};

template <class Public> const compiler::Type& type_of(const Public* object) {
    return state_of<TypeState>(object).type;
}
template <class Public> const compiler::Argument& argument_of(const Public* object) {
    return state_of<BindingState>(object).argument;
}

template <class Public> Public* view(const compiler::Type& type, TypeKind kind) {
    return type.kind == kind ? autoreleased<Public>(new TypeState(type)) : nullptr;
}
const compiler::Type& element(const compiler::Type& type) {
    static const compiler::Type nothing;
    return type.members.empty() ? nothing : type.members[0].type;
}

MTL::DataType scalar_data_type(ScalarType scalar) {
    switch (scalar) {
    case ScalarType::none:
        return MTL::DataTypeNone;
    case ScalarType::bool_:
        return MTL::DataTypeBool;
    case ScalarType::char_:
        return MTL::DataTypeChar;
    case ScalarType::uchar:
        return MTL::DataTypeUChar;
    case ScalarType::short_:
        return MTL::DataTypeShort;
    case ScalarType::ushort:
        return MTL::DataTypeUShort;
    case ScalarType::int_:
        return MTL::DataTypeInt;
    case ScalarType::uint:
        return MTL::DataTypeUInt;
    case ScalarType::long_:
        return MTL::DataTypeLong;
    case ScalarType::ulong:
        return MTL::DataTypeULong;
    case ScalarType::half:
        return MTL::DataTypeHalf;
    case ScalarType::bfloat:
        return MTL::DataTypeBFloat;
    case ScalarType::float_:
        return MTL::DataTypeFloat;
    }
    return MTL::DataTypeNone;
}

MTL::BindingAccess access_of(compiler::Access access) {
    return access == compiler::Access::read    ? MTL::BindingAccessReadOnly
           : access == compiler::Access::write ? MTL::BindingAccessWriteOnly
                                               : MTL::BindingAccessReadWrite;
}

template <class Public> MTL::PointerType* pointer_to(const Public* object) {
    const auto& argument = argument_of(object);
    compiler::Type pointer;
    pointer.kind = TypeKind::pointer;
    pointer.size = sizeof(void*);
    pointer.members.push_back({"", 0, -1, argument.type});
    auto* state = new TypeState(std::move(pointer));
    state->access = access_of(argument.access);
    return autoreleased<MTL::PointerType>(state);
}

} // namespace

MTL::DataType data_type(const compiler::Type& type) {
    const NS::UInteger scalar = scalar_data_type(type.scalar);
    switch (type.kind) {
    case TypeKind::scalar:
        return static_cast<MTL::DataType>(scalar);
    case TypeKind::vector:
    case TypeKind::packed_vector:
        return static_cast<MTL::DataType>(scalar ? scalar + type.rows - 1u : 0u);
    case TypeKind::matrix: {
        const NS::UInteger first = type.scalar == ScalarType::half ? MTL::DataTypeHalf2x2 : MTL::DataTypeFloat2x2;
        return static_cast<MTL::DataType>(first + (type.columns - 2u) * 3u + (type.rows - 2u));
    }
    case TypeKind::structure:
        return MTL::DataTypeStruct;
    case TypeKind::array:
        return MTL::DataTypeArray;
    case TypeKind::pointer:
        return MTL::DataTypePointer;
    case TypeKind::texture:
        return MTL::DataTypeTexture;
    case TypeKind::sampler:
        return MTL::DataTypeSampler;
    case TypeKind::other:
        break;
    }
    return MTL::DataTypeNone;
}

NS::Array* make_bindings(const compiler::FunctionInfo& function) {
    std::vector<Reference<ObjectState>> items;
    for (const auto& argument : function.arguments)
        items.push_back(Reference<ObjectState>::adopt(new BindingState(argument)));
    return make_array(std::move(items));
}

} // namespace metalki::api

namespace MTL {

using namespace metalki::api;
namespace compiler = metalki::compiler;

DataType Type::dataType() const {
    return data_type(type_of(this));
}

NS::UInteger StructMember::argumentIndex() const {
    return static_cast<NS::UInteger>(std::max(state_of<TypeState>(this).argument_id, 0));
}
ArrayType* StructMember::arrayType() {
    return view<ArrayType>(type_of(this), TypeKind::array);
}
DataType StructMember::dataType() const {
    return data_type(type_of(this));
}
NS::String* StructMember::name() const {
    return autoreleased_string(state_of<TypeState>(this).member);
}
NS::UInteger StructMember::offset() const {
    return state_of<TypeState>(this).offset;
}
PointerType* StructMember::pointerType() {
    return view<PointerType>(type_of(this), TypeKind::pointer);
}
StructType* StructMember::structType() {
    return view<StructType>(type_of(this), TypeKind::structure);
}

NS::Array* StructType::members() const {
    std::vector<Reference<ObjectState>> items;
    for (const auto& member : type_of(this).members) {
        auto* state = new TypeState(member.type);
        state->member = member.name;
        state->offset = member.offset;
        state->argument_id = member.argument_id;
        items.push_back(Reference<ObjectState>::adopt(state));
    }
    return make_array(std::move(items))->autorelease();
}
StructMember* StructType::memberByName(const NS::String* name) {
    NS::Array* all = members();
    for (NS::UInteger i = 0; i < all->count(); ++i)
        if (state_of<TypeState>(all->object(i)).member == text_of(name))
            return all->object<StructMember>(i);
    return nullptr;
}

NS::UInteger ArrayType::argumentIndexStride() const {
    return 0;
}
NS::UInteger ArrayType::arrayLength() const {
    return type_of(this).array_length;
}
ArrayType* ArrayType::elementArrayType() {
    return view<ArrayType>(element(type_of(this)), TypeKind::array);
}
PointerType* ArrayType::elementPointerType() {
    return view<PointerType>(element(type_of(this)), TypeKind::pointer);
}
StructType* ArrayType::elementStructType() {
    return view<StructType>(element(type_of(this)), TypeKind::structure);
}
DataType ArrayType::elementType() const {
    return data_type(element(type_of(this)));
}
NS::UInteger ArrayType::stride() const {
    return element(type_of(this)).size;
}

BindingAccess PointerType::access() const {
    return state_of<TypeState>(this).access;
}
NS::UInteger PointerType::alignment() const {
    return element(type_of(this)).alignment;
}
NS::UInteger PointerType::dataSize() const {
    return element(type_of(this)).size;
}
ArrayType* PointerType::elementArrayType() {
    return view<ArrayType>(element(type_of(this)), TypeKind::array);
}
bool PointerType::elementIsArgumentBuffer() const {
    const auto& members = element(type_of(this)).members;
    return std::any_of(members.begin(), members.end(), [](const auto& member) { return member.argument_id >= 0; });
}
StructType* PointerType::elementStructType() {
    return view<StructType>(element(type_of(this)), TypeKind::structure);
}
DataType PointerType::elementType() const {
    return data_type(element(type_of(this)));
}

BindingAccess Binding::access() const {
    return access_of(argument_of(this).access);
}
bool Binding::argument() const {
    return true;
}
NS::UInteger Binding::index() const {
    return argument_of(this).index;
}
bool Binding::isArgument() const {
    return true;
}
bool Binding::isUsed() const {
    return argument_of(this).active;
}
NS::String* Binding::name() const {
    return autoreleased_string(argument_of(this).name);
}
BindingType Binding::type() const {
    return static_cast<BindingType>(argument_of(this).kind);
}
bool Binding::used() const {
    return isUsed();
}

#define METALKI_BUFFER_FACTS(Class)                                                                                            \
    NS::UInteger Class::bufferAlignment() const {                                                                              \
        return argument_of(this).type.alignment;                                                                               \
    }                                                                                                                          \
    NS::UInteger Class::bufferDataSize() const {                                                                               \
        return argument_of(this).type.size;                                                                                    \
    }                                                                                                                          \
    DataType Class::bufferDataType() const {                                                                                   \
        return data_type(argument_of(this).type);                                                                              \
    }                                                                                                                          \
    PointerType* Class::bufferPointerType() const {                                                                            \
        return pointer_to(this);                                                                                               \
    }                                                                                                                          \
    StructType* Class::bufferStructType() const {                                                                              \
        return view<StructType>(argument_of(this).type, TypeKind::structure);                                                  \
    }
#define METALKI_THREADGROUP_FACTS(Class)                                                                                       \
    NS::UInteger Class::threadgroupMemoryAlignment() const {                                                                   \
        return argument_of(this).type.alignment;                                                                               \
    }                                                                                                                          \
    NS::UInteger Class::threadgroupMemoryDataSize() const {                                                                    \
        return argument_of(this).type.size;                                                                                    \
    }
#define METALKI_TEXTURE_FACTS(Class)                                                                                           \
    bool Class::isDepthTexture() const {                                                                                       \
        return texture_needs(argument_of(this)).depth;                                                                         \
    }                                                                                                                          \
    DataType Class::textureDataType() const {                                                                                  \
        return scalar_data_type(argument_of(this).type.scalar);                                                                \
    }                                                                                                                          \
    TextureType Class::textureType() const {                                                                                   \
        return texture_needs(argument_of(this)).type;                                                                          \
    }
METALKI_BUFFER_FACTS(BufferBinding)
METALKI_BUFFER_FACTS(Argument)
METALKI_THREADGROUP_FACTS(ThreadgroupBinding)
METALKI_THREADGROUP_FACTS(Argument)
METALKI_TEXTURE_FACTS(TextureBinding)
METALKI_TEXTURE_FACTS(Argument)
#undef METALKI_BUFFER_FACTS
#undef METALKI_THREADGROUP_FACTS
#undef METALKI_TEXTURE_FACTS

NS::UInteger TextureBinding::arrayLength() const {
    return 1;
}
bool TextureBinding::depthTexture() const {
    return isDepthTexture();
}

BindingAccess Argument::access() const {
    return access_of(argument_of(this).access);
}
bool Argument::active() const {
    return argument_of(this).active;
}
NS::UInteger Argument::arrayLength() const {
    return 1;
}
NS::UInteger Argument::index() const {
    return argument_of(this).index;
}
bool Argument::isActive() const {
    return argument_of(this).active;
}
NS::String* Argument::name() const {
    return autoreleased_string(argument_of(this).name);
}
Portable::ArgumentFacts Portable::argumentFacts(const Binding* binding) {
    const auto& argument = argument_of(binding);
    return {argument.type.name, argument.type.atomic, argument.reference};
}

ArgumentType Argument::type() const {
    return static_cast<ArgumentType>(argument_of(this).kind);
}

} // namespace MTL
