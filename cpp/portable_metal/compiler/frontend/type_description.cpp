// Recognises the class templates of our standard headers (vec, packed_vec, matrix, atomic) and plain structures.
#include "frontend/type_description.hpp"

#include "clang/AST/Attr.h"
#include "clang/AST/DeclTemplate.h"
#include "clang/AST/Expr.h"
#include "clang/AST/RecordLayout.h"

#include "frontend/attributes.hpp"
#include "frontend/diagnostics.hpp"

namespace metalki::compiler {
namespace {

struct ScalarName {
    ScalarType type;
    const char* name;
};

ScalarName scalar_of(const clang::Type* type) {
    using Kind = clang::BuiltinType;
    const auto* builtin = type->getAs<clang::BuiltinType>();
    switch (builtin ? builtin->getKind() : Kind::Void) {
    case Kind::Bool:
        return {ScalarType::bool_, "bool"};
    case Kind::Char_S:
    case Kind::SChar:
        return {ScalarType::char_, "char"};
    case Kind::Char_U:
    case Kind::UChar:
        return {ScalarType::uchar, "uchar"};
    case Kind::Short:
        return {ScalarType::short_, "short"};
    case Kind::UShort:
        return {ScalarType::ushort, "ushort"};
    case Kind::Int:
        return {ScalarType::int_, "int"};
    case Kind::UInt:
        return {ScalarType::uint, "uint"};
    case Kind::Long:
    case Kind::LongLong:
        return {ScalarType::long_, "long"};
    case Kind::ULong:
    case Kind::ULongLong:
        return {ScalarType::ulong, "ulong"};
    case Kind::Float16:
    case Kind::Half:
        return {ScalarType::half, "half"};
    case Kind::BFloat16:
        return {ScalarType::bfloat, "bfloat"};
    case Kind::Float:
        return {ScalarType::float_, "float"};
    default:
        return {ScalarType::none, ""};
    }
}

// The specialisation of a template of namespace metal with this name, or null.
const clang::ClassTemplateSpecializationDecl* metal_template(const clang::CXXRecordDecl* record) {
    const auto* special = llvm::dyn_cast_or_null<clang::ClassTemplateSpecializationDecl>(record);
    const auto* scope =
        special ? llvm::dyn_cast<clang::NamespaceDecl>(special->getDeclContext()->getEnclosingNamespaceContext()) : nullptr;
    return scope && scope->getName() == "metal" ? special : nullptr;
}

void describe_library_type(const clang::ASTContext& context, const clang::ClassTemplateSpecializationDecl& record, Type& out,
                           int depth) {
    llvm::StringRef name = record.getName();
    const auto& arguments = record.getTemplateArgs();
    auto number = [&](unsigned i) { return static_cast<std::uint8_t>(arguments[i].getAsIntegral().getZExtValue()); };
    bool first_is_type = arguments.size() > 0 && arguments[0].getKind() == clang::TemplateArgument::Type;
    if (!first_is_type) {
        return;
    }
    ScalarName scalar = scalar_of(arguments[0].getAsType().getTypePtr());
    if ((name == "vec" || name == "packed_vec") && arguments.size() >= 2) {
        out.kind = name == "vec" ? TypeKind::vector : TypeKind::packed_vector;
        out.scalar = scalar.type;
        out.rows = number(1);
        out.name = (name == "vec" ? "" : "packed_") + std::string(scalar.name) + std::to_string(out.rows);
    } else if (name == "matrix" && arguments.size() >= 3) {
        out.kind = TypeKind::matrix;
        out.scalar = scalar.type;
        out.columns = number(1);
        out.rows = number(2);
        out.name = scalar.name + std::to_string(out.columns) + "x" + std::to_string(out.rows);
    } else if (name == "atomic" || name == "_atomic") {
        std::size_t size = out.size, alignment = out.alignment;
        out = describe_type(context, arguments[0].getAsType(), depth);
        out.size = size;
        out.alignment = alignment;
        out.atomic = true;
        out.name = "atomic_" + out.name;
    } else if (name.starts_with("texture") || name.starts_with("depth")) {
        out.kind = TypeKind::texture;
        out.scalar = scalar.type;
        out.name = name.str() + "<" + scalar.name + ">";
    }
}

void describe_record(const clang::ASTContext& context, const clang::CXXRecordDecl& record, Type& out, int depth) {
    out.kind = TypeKind::structure;
    out.name = record.getNameAsString();
    if (const auto* special = metal_template(&record)) {
        describe_library_type(context, *special, out, depth);
    } else if (out.name == "sampler") {
        out.kind = TypeKind::sampler;
    }
    if (out.kind != TypeKind::structure || depth <= 0) {
        return;
    }
    const clang::ASTRecordLayout& layout = context.getASTRecordLayout(&record);
    for (const clang::FieldDecl* field : record.fields()) {
        Member member;
        member.name = field->getNameAsString();
        member.offset = layout.getFieldOffset(field->getFieldIndex()) / 8;
        member.type = describe_type(context, field->getType(), depth - 1);
        for (const auto* annotation : field->specific_attrs<clang::AnnotateAttr>()) {
            if (annotation->getAnnotation() == "msl:id") {
                member.argument_id = annotation_number(context, *annotation);
            }
        }
        out.members.push_back(std::move(member));
    }
}

} // namespace

int annotation_number(const clang::ASTContext& context, const clang::AnnotateAttr& annotation) {
    if (annotation.args_size() == 0) {
        return -1;
    }
    const clang::Expr* value = *annotation.args_begin();
    clang::Expr::EvalResult result;
    if (value->isValueDependent() || !value->EvaluateAsInt(result, context)) {
        return -1;
    }
    return static_cast<int>(result.Val.getInt().getExtValue());
}

Type describe_type(const clang::ASTContext& context, clang::QualType type, int depth) {
    Type out;
    clang::QualType plain = type.getNonReferenceType().getCanonicalType().getUnqualifiedType();
    bool has_size = !plain->isIncompleteType() && !plain->isFunctionType() && !plain->isDependentType();
    if (has_size) {
        out.size = static_cast<std::size_t>(context.getTypeSizeInChars(plain).getQuantity());
        out.alignment = static_cast<std::size_t>(context.getTypeAlignInChars(plain).getQuantity());
    }
    if (const auto* array = context.getAsConstantArrayType(plain)) {
        out.kind = TypeKind::array;
        out.array_length = array->getSize().getZExtValue();
        Type element = describe_type(context, array->getElementType(), depth - 1);
        out.scalar = element.scalar;
        out.name = element.name + "[" + std::to_string(out.array_length) + "]";
        out.members.push_back({"", 0, -1, std::move(element)});
    } else if (const auto* pointer = plain->getAs<clang::PointerType>()) {
        out.kind = TypeKind::pointer;
        Type pointee = depth > 0 ? describe_type(context, pointer->getPointeeType(), 0) : Type{};
        out.name = pointee.name + "*";
        out.members.push_back({"", 0, -1, std::move(pointee)});
    } else if (const auto* record = plain->getAsCXXRecordDecl(); record && record->hasDefinition()) {
        describe_record(context, *record->getDefinition(), out, depth);
    } else if (const auto* enumeration = plain->getAs<clang::EnumType>()) {
        out = describe_type(context, enumeration->getDecl()->getIntegerType(), depth);
    } else {
        ScalarName scalar = scalar_of(plain.getTypePtr());
        out.kind = scalar.type == ScalarType::none ? TypeKind::other : TypeKind::scalar;
        out.scalar = scalar.type;
        out.name = scalar.type == ScalarType::none ? in_msl_terms(plain.getAsString()) : scalar.name;
    }
    return out;
}

} // namespace metalki::compiler
