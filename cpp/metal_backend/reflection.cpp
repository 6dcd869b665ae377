// Metal's reflection, read into the kernel interface's terms.
#include "metal_backend/texture.hpp"

namespace metalki::metal {

namespace {

struct Family {
    MTL::DataType first; // of four: scalar, 2, 3 and 4 components
    ScalarType scalar;
};

constexpr Family families[] = {
    {MTL::DataTypeFloat, ScalarType::float32}, {MTL::DataTypeHalf, ScalarType::float16},
    {MTL::DataTypeInt, ScalarType::int32},     {MTL::DataTypeUInt, ScalarType::uint32},
    {MTL::DataTypeShort, ScalarType::int16},   {MTL::DataTypeUShort, ScalarType::uint16},
    {MTL::DataTypeChar, ScalarType::int8},     {MTL::DataTypeUChar, ScalarType::uint8},
    {MTL::DataTypeBool, ScalarType::bool_},    {MTL::DataTypeLong, ScalarType::int64},
    {MTL::DataTypeULong, ScalarType::uint64},  {MTL::DataTypeBFloat, ScalarType::bfloat16},
};

std::string spell(const ValueShape& shape, bool packed) {
    std::string text = std::string(packed ? "packed_" : "") + std::string(name_of(shape.scalar));
    if (shape.scalar == ScalarType::none)
        return "struct";
    if (shape.columns > 1)
        return text + std::to_string(shape.columns) + "x" + std::to_string(shape.rows);
    return shape.rows > 1 ? text + std::to_string(shape.rows) : text;
}

std::vector<StructMember> read_members(const MTL::StructType* type) {
    std::vector<StructMember> members;
    const NS::Array* array = type ? type->members() : nullptr;
    for (NS::UInteger i = 0; array && i < array->count(); ++i) {
        auto* member = array->object<MTL::StructMember>(i);
        const ValueShape shape = shape_of(member->dataType());
        members.push_back(
            {to_string(member->name()), member->offset(), spell(shape, false), shape.scalar, shape.rows, shape.columns});
    }
    return members;
}

void read_buffer(ArgumentInfo& info, MTL::BufferBinding* binding) {
    const MTL::DataType type = binding->bufferDataType();
    const ValueShape shape = shape_of(type);
    info.scalar = shape.scalar;
    info.rows = shape.rows;
    info.columns = shape.columns;
    info.nbytes = binding->bufferDataSize();
    info.alignment = binding->bufferAlignment();
    // Metal tells float3 and packed_float3 apart by their size only.
    const std::size_t tight = size_of(shape.scalar) * shape.rows;
    info.type_name = spell(shape, shape.rows == 3 && shape.columns == 1 && info.nbytes == tight);
    info.is_pointer_value = type == MTL::DataTypePointer;
    info.members = read_members(binding->bufferStructType());
}

void add_facts(ArgumentInfo& info, const MTL::Binding* binding) {
#if METALKI_EXTENDED_METAL
    MTL::Portable::ArgumentFacts facts = MTL::Portable::argumentFacts(binding);
    if (!facts.typeName.empty())
        info.type_name = std::move(facts.typeName);
    info.is_atomic = facts.atomic;
    info.is_reference = facts.reference;
#endif
}

} // namespace

ValueShape shape_of(MTL::DataType type) {
    for (const Family& family : families)
        if (type >= family.first && type < family.first + 4)
            return {family.scalar, static_cast<std::uint8_t>(1 + type - family.first), 1};
    auto matrix = [type](MTL::DataType first, ScalarType scalar) {
        const auto i = static_cast<unsigned>(type - first);
        return ValueShape{scalar, static_cast<std::uint8_t>(2 + i % 3), static_cast<std::uint8_t>(2 + i / 3)};
    };
    if (type >= MTL::DataTypeFloat2x2 && type <= MTL::DataTypeFloat4x4)
        return matrix(MTL::DataTypeFloat2x2, ScalarType::float32);
    if (type >= MTL::DataTypeHalf2x2 && type <= MTL::DataTypeHalf4x4)
        return matrix(MTL::DataTypeHalf2x2, ScalarType::float16);
    return {};
}

MTL::DataType data_type_of(ScalarType scalar, unsigned width) {
    for (const Family& family : families)
        if (family.scalar == scalar)
            return static_cast<MTL::DataType>(family.first + width - 1);
    return MTL::DataTypeNone;
}

std::vector<ArgumentInfo> read_arguments(const MTL::ComputePipelineReflection* reflection) {
    std::vector<ArgumentInfo> result;
    const NS::Array* bindings = reflection ? reflection->bindings() : nullptr;
    // In the order of declaration, so far as is known of Apple's drivers and by construction of the portable one.
    for (NS::UInteger i = 0; bindings && i < bindings->count(); ++i) {
        auto* binding = bindings->object<MTL::Binding>(i);
        // The kernel's own threadgroup variables are listed by some drivers; they are not arguments.
        if (binding->type() == MTL::BindingTypeThreadgroupMemory && !binding->isArgument())
            continue;
        ArgumentInfo info;
        info.name = to_string(binding->name());
        info.index = static_cast<unsigned>(binding->index());
        info.active = binding->isUsed();
        info.access = binding->access() == MTL::BindingAccessReadOnly    ? Access::read
                      : binding->access() == MTL::BindingAccessWriteOnly ? Access::write
                                                                         : Access::read_write;
        if (binding->type() == MTL::BindingTypeBuffer) {
            read_buffer(info, static_cast<MTL::BufferBinding*>(binding));
        } else if (binding->type() == MTL::BindingTypeThreadgroupMemory) {
            auto* memory = static_cast<MTL::ThreadgroupBinding*>(binding);
            info.kind = ArgumentKind::threadgroup;
            info.type_name = "threadgroup memory";
            info.nbytes = memory->threadgroupMemoryDataSize();
            info.alignment = memory->threadgroupMemoryAlignment();
        } else if (binding->type() == MTL::BindingTypeTexture) {
            info.kind = ArgumentKind::texture;
            read_texture(info, static_cast<MTL::TextureBinding*>(binding));
        } else {
            info.kind = ArgumentKind::sampler;
            info.type_name = "sampler";
            info.access = Access::read;
        }
        add_facts(info, binding);
        result.push_back(std::move(info));
    }
    return result;
}

} // namespace metalki::metal
