// Kernel table: names, argument indices (explicit and automatic), position inputs, function constants.
#include "frontend/kernel_table.hpp"

#include <map>
#include <set>

#include "clang/AST/Attr.h"
#include "clang/AST/DeclTemplate.h"
#include "clang/AST/RecursiveASTVisitor.h"

#include "frontend/attributes.hpp"
#include "frontend/type_description.hpp"

namespace metalki::compiler {
namespace {

constexpr unsigned max_buffers = 31; // Metal Feature Set Tables: buffers per compute function

const clang::AnnotateAttr* annotation(const clang::Decl& declaration, llvm::StringRef name) {
    for (const auto* attribute : declaration.specific_attrs<clang::AnnotateAttr>()) {
        if (attribute->getAnnotation().drop_front(annotation_prefix.size()) == name) {
            return attribute;
        }
    }
    return nullptr;
}

std::string annotation_text(const clang::AnnotateAttr& attribute) {
    if (attribute.args_size() == 0) {
        return {};
    }
    const clang::Expr* value = (*attribute.args_begin())->IgnoreParenImpCasts();
    if (const auto* constant = llvm::dyn_cast<clang::ConstantExpr>(value)) {
        value = constant->getSubExpr()->IgnoreParenImpCasts();
    }
    const auto* literal = llvm::dyn_cast<clang::StringLiteral>(value);
    return literal ? literal->getString().str() : std::string();
}

// The second template argument of a texture class: an enumerator of metal::access.
Access texture_access(clang::QualType type) {
    const auto* texture = llvm::dyn_cast_or_null<clang::ClassTemplateSpecializationDecl>(type->getAsCXXRecordDecl());
    if (!texture || texture->getTemplateArgs().size() < 2 ||
        texture->getTemplateArgs()[1].getKind() != clang::TemplateArgument::Integral) {
        return Access::read;
    }
    constexpr int write = 2, read_write = 3; // sample and read come before them
    auto value = texture->getTemplateArgs()[1].getAsIntegral().getExtValue();
    return value == write ? Access::write : value == read_write ? Access::read_write : Access::read;
}

class Collector : public clang::RecursiveASTVisitor<Collector> {
public:
    explicit Collector(clang::Sema& sema) : sema_(sema), context_(sema.getASTContext()) {}

    KernelTable table;

    bool shouldVisitTemplateInstantiations() const { return true; }
    bool TraverseStmt(clang::Stmt*, DataRecursionQueue* = nullptr) {
        return true;
    } // what is looked for stands outside of functions
    bool VisitFunctionDecl(clang::FunctionDecl* function);
    bool VisitVarDecl(clang::VarDecl* variable);
    bool VisitRecordDecl(clang::RecordDecl* record);

private:
    void add_kernel(clang::FunctionDecl* function, const std::string& name);
    void describe_parameter(clang::ParmVarDecl& parameter, KernelEntry& entry);
    void describe_argument(clang::ParmVarDecl& parameter, KernelEntry& entry);
    std::pair<clang::QualType, unsigned> array_of_objects(clang::QualType type) const;
    std::string unsupported(const clang::ParmVarDecl& parameter) const;
    void check_position_input(clang::ParmVarDecl& parameter, llvm::StringRef attribute);
    void refuse_value(const clang::ParmVarDecl& parameter, const std::string& kernel, const std::string& type);
    void assign_indices(clang::FunctionDecl& function, KernelEntry& entry);
    template <unsigned N> clang::SemaBase::SemaDiagnosticBuilder error(clang::SourceLocation at, const char (&text)[N]) {
        return sema_.Diag(at, sema_.getDiagnostics().getCustomDiagID(clang::DiagnosticsEngine::Error, text));
    }

    clang::Sema& sema_;
    clang::ASTContext& context_;
    std::set<const clang::Decl*> seen_;
    std::map<int, std::string> constant_indices_;
    std::vector<std::pair<clang::ParmVarDecl*, unsigned>> vector_inputs_; // of the current kernel: input, components
};

bool Collector::VisitVarDecl(clang::VarDecl* variable) {
    const auto* attribute = annotation(*variable, "function_constant");
    if (!attribute || llvm::isa<clang::ParmVarDecl>(variable) || !seen_.insert(variable->getCanonicalDecl()).second) {
        return true;
    }
    ConstantEntry entry;
    entry.declaration = variable;
    entry.info.name = variable->getNameAsString();
    int index = annotation_number(context_, *attribute);
    if (index < 0 || index > 65535) {
        error(attribute->getLocation(), "'function_constant' takes an index from 0 to 65535");
        return true;
    }
    entry.info.index = static_cast<unsigned>(index);
    entry.info.type = describe_type(context_, variable->getType());
    if (variable->hasInit()) {
        error(variable->getLocation(), "function constant '%0' cannot have an initializer: its value is given with the kernel")
            << entry.info.name;
    }
    if (entry.info.type.kind != TypeKind::scalar && entry.info.type.kind != TypeKind::vector) {
        error(variable->getLocation(), "function constant '%0' must be a scalar or a vector") << entry.info.name;
        return true;
    }
    auto [other, is_new] = constant_indices_.emplace(index, entry.info.name);
    if (!is_new) {
        error(attribute->getLocation(), "duplicate 'function_constant' index '%0': '%1' has it already")
            << index << other->second;
    }
    table.constants.push_back(std::move(entry));
    return true;
}

bool Collector::VisitFunctionDecl(clang::FunctionDecl* function) {
    if (!annotation(*function, "kernel") || function->isDependentContext() ||
        function->getTemplateSpecializationKind() == clang::TSK_ImplicitInstantiation) {
        return true;
    }
    if (!function->isThisDeclarationADefinition() && !function->getTemplateInstantiationPattern()) {
        return true;
    }
    if (!seen_.insert(function->getCanonicalDecl()).second) {
        return true;
    }
    if (!function->getReturnType()->isVoidType()) {
        error(function->getLocation(), "kernel '%0' must return void") << function->getNameAsString();
        return true;
    }
    if (function->isVariadic()) {
        error(function->getLocation(), "kernel '%0' cannot have '...' among its parameters") << function->getNameAsString();
    }
    if (llvm::isa<clang::CXXMethodDecl>(function)) {
        error(function->getLocation(), "kernel '%0' cannot be a member function") << function->getNameAsString();
        return true;
    }
    bool named = false;
    for (const clang::Decl* declaration : function->redecls()) {
        for (const auto* attribute : declaration->specific_attrs<clang::AnnotateAttr>()) {
            if (attribute->getAnnotation() == "msl:host_name") {
                std::string name = annotation_text(*attribute);
                if (name.empty()) {
                    error(attribute->getLocation(), "'host_name' takes a name: [[host_name(\"name\")]]");
                } else {
                    add_kernel(function, name);
                }
                named = true;
            }
        }
    }
    if (!named) {
        add_kernel(function, function->getNameAsString());
    }
    return true;
}

void Collector::add_kernel(clang::FunctionDecl* function, const std::string& name) {
    auto other =
        std::find_if(table.kernels.begin(), table.kernels.end(), [&](const KernelEntry& k) { return k.info.name == name; });
    if (other != table.kernels.end()) {
        bool same = other->declaration->getCanonicalDecl() == function->getCanonicalDecl();
        std::string qualified = function->getQualifiedNameAsString();
        if (!same && name != qualified && name == function->getNameAsString()) {
            add_kernel(function, qualified); // kernels of one name in different namespaces
        } else if (!same) {
            error(function->getLocation(), "two kernels have the name '%0': give one of them another [[host_name]]") << name;
            sema_.Diag(other->declaration->getLocation(),
                       sema_.getDiagnostics().getCustomDiagID(clang::DiagnosticsEngine::Note, "the other one is here"));
        }
        return;
    }
    KernelEntry entry;
    entry.declaration = function;
    entry.info.name = name;
    if (const auto* limit = annotation(*function, "max_total_threads_per_threadgroup")) {
        int threads = annotation_number(context_, *limit);
        if (threads < 1 || threads > 1024) {
            error(limit->getLocation(), "'max_total_threads_per_threadgroup' takes 1 to 1024 threads");
        } else {
            entry.info.max_total_threads = static_cast<unsigned>(threads);
        }
    }
    for (const clang::ParmVarDecl* parameter : function->parameters()) {
        if (std::string what = unsupported(*parameter); !what.empty()) {
            auto id = sema_.getDiagnostics().getCustomDiagID(
                clang::DiagnosticsEngine::Warning,
                "kernel '%0' is left out: its parameter '%1' is %2, which is not supported on this device");
            sema_.Diag(parameter->getLocation(), id) << name << parameter->getNameAsString() << what;
            return;
        }
    }
    vector_inputs_.clear();
    for (clang::ParmVarDecl* parameter : function->parameters()) {
        describe_parameter(*parameter, entry);
    }
    assign_indices(*function, entry);
    table.kernels.push_back(std::move(entry));
}

// What keeps a kernel from running although it compiles, or an empty string.
std::string Collector::unsupported(const clang::ParmVarDecl& parameter) const {
    for (const char* attribute : {"stage_in", "imageblock", "imageblock_data", "payload"}) {
        if (annotation(parameter, attribute)) {
            return std::string("[[") + attribute + "]]";
        }
    }
    const clang::CXXRecordDecl* type = parameter.getType().getNonReferenceType()->getAsCXXRecordDecl();
    for (const char* name :
         {"visible_function_table", "intersection_function_table", "acceleration_structure", "imageblock", "command_buffer"}) {
        if (type && type->getName() == name) {
            return std::string(name[0] == 'i' || name[0] == 'a' ? "an " : "a ") + name;
        }
    }
    return {};
}

void Collector::describe_parameter(clang::ParmVarDecl& parameter, KernelEntry& entry) {
    std::set<llvm::StringRef> given;
    for (const auto* attribute : parameter.specific_attrs<clang::AnnotateAttr>()) {
        llvm::StringRef name = attribute->getAnnotation().drop_front(annotation_prefix.size());
        if (!given.insert(name).second) {
            error(attribute->getLocation(), "parameter '%0' has the attribute '%1' twice")
                << parameter.getNameAsString() << name;
        }
    }
    for (const auto* attribute : parameter.specific_attrs<clang::AnnotateAttr>()) {
        llvm::StringRef name = attribute->getAnnotation().drop_front(annotation_prefix.size());
        if (classify_attribute(name.str()) == AttributeClass::position_input) {
            check_position_input(parameter, name);
            for (const char* other : {"buffer", "texture", "sampler", "threadgroup"}) {
                if (annotation(parameter, other)) {
                    error(attribute->getLocation(), "parameter '%0' cannot be both '%1' and '%2'")
                        << parameter.getNameAsString() << name << other;
                }
            }
            Parameter p;
            p.position = name.str();
            entry.parameters.push_back(std::move(p));
            return;
        }
    }
    describe_argument(parameter, entry);
}

void Collector::check_position_input(clang::ParmVarDecl& parameter, llvm::StringRef attribute) {
    if (parameter.getType()->isReferenceType()) {
        error(parameter.getLocation(), "attribute '%0' is for a value: parameter '%1' cannot be a reference")
            << attribute << parameter.getNameAsString();
        return;
    }
    Type type = describe_type(context_, parameter.getType());
    bool unsigned_integer =
        type.scalar == ScalarType::uint || type.scalar == ScalarType::ushort || type.scalar == ScalarType::ulong;
    bool one_number = attribute.contains("index") || attribute.starts_with("simdgroups") ||
                      attribute.starts_with("quadgroups") || attribute.starts_with("dispatch_simdgroups") ||
                      attribute.starts_with("dispatch_quadgroups") || attribute == "threads_per_simdgroup" ||
                      attribute == "thread_execution_width";
    if (!unsigned_integer ||
        (type.kind != TypeKind::scalar && (type.kind != TypeKind::vector || one_number || type.rows > 3))) {
        error(parameter.getLocation(), "type '%0' is not valid for attribute '%1': it takes %2")
            << type.name << attribute.str()
            << (one_number ? "ushort or uint" : "ushort, ushort2, ushort3, uint, uint2 or uint3");
        return;
    }
    if (one_number) {
        return;
    }
    unsigned components = type.kind == TypeKind::vector ? type.rows : 1;
    for (auto& [other, width] : vector_inputs_) {
        if (width != components) {
            error(parameter.getLocation(),
                  "the types of '%0' and '%1' do not match: position inputs of one kernel have the same "
                  "number of components")
                << parameter.getNameAsString() << other->getNameAsString();
            return;
        }
    }
    vector_inputs_.emplace_back(&parameter, components);
}

void Collector::describe_argument(clang::ParmVarDecl& parameter, KernelEntry& entry) {
    clang::QualType type = parameter.getType();
    Argument argument;
    argument.name = parameter.getNameAsString();
    Parameter how;
    how.slot = static_cast<unsigned>(entry.info.arguments.size());
    auto [element, count] = array_of_objects(type);
    type = count > 0 ? element : type;
    clang::QualType pointee = type->getPointeeType();
    if (!pointee.isNull()) {
        how.source = type->isReferenceType() ? Parameter::Source::reference : Parameter::Source::pointer;
        argument.reference = type->isReferenceType();
        // A specialisation of a template has no members yet where the source only names it.
        (void)sema_.isCompleteType(parameter.getLocation(), pointee);
        argument.type = describe_type(context_, pointee);
        clang::LangAS space = pointee.getAddressSpace();
        argument.constant_space = space == clang::LangAS::sycl_global_host;
        argument.access = pointee.isConstQualified() || argument.constant_space ? Access::read : Access::read_write;
        if (space == clang::LangAS::sycl_local) {
            argument.kind = ArgumentKind::threadgroup;
        } else if (space != clang::LangAS::sycl_global_device && space != clang::LangAS::sycl_global_host) {
            error(parameter.getLocation(),
                  "parameter '%0' must have an address space qualifier: device, constant or threadgroup")
                << argument.name;
        }
    } else {
        how.source = Parameter::Source::value;
        argument.type = describe_type(context_, type);
        argument.access = Access::read;
        if (argument.type.kind == TypeKind::texture) {
            argument.kind = ArgumentKind::texture;
            argument.access = texture_access(type);
        } else if (argument.type.kind == TypeKind::sampler) {
            argument.kind = ArgumentKind::sampler;
        } else {
            refuse_value(parameter, entry.info.name, argument.type.name);
        }
    }
    if (const auto* condition = annotation(parameter, "function_constant")) {
        how.active_if = annotation_text(*condition);
    }
    if (count > 0) { // one argument for each element: their indices follow each other
        how.source = Parameter::Source::array;
        how.slots = count;
        for (unsigned i = 0; i < count; ++i) {
            Argument part = argument;
            part.name += "[" + std::to_string(i) + "]";
            entry.info.arguments.push_back(std::move(part));
        }
    } else {
        entry.info.arguments.push_back(std::move(argument));
    }
    entry.parameters.push_back(std::move(how));
}

void Collector::refuse_value(const clang::ParmVarDecl& parameter, const std::string& kernel, const std::string& type) {
    const auto* attribute = parameter.getAttr<clang::AnnotateAttr>();
    if (!attribute) {
        error(parameter.getLocation(), "parameter '%0' of kernel '%1' has neither an attribute nor an address space: pass "
                                       "scalars as 'constant %2& %0'")
            << parameter.getNameAsString() << kernel << type;
    } else if (llvm::StringRef name = attribute->getAnnotation().drop_front(annotation_prefix.size()); name == "buffer") {
        error(parameter.getLocation(), "parameter '%0' of kernel '%1' has no address space: pass scalars as 'constant %2& %0'")
            << parameter.getNameAsString() << kernel << type;
    } else {
        error(parameter.getLocation(), "attribute '%0' of parameter '%1' is not valid for a '%2' of a kernel")
            << name << parameter.getNameAsString() << type;
    }
}

// Members of argument buffers: one index is for one of them.
bool Collector::VisitRecordDecl(clang::RecordDecl* record) {
    if (!record->isThisDeclarationADefinition() || record->isDependentContext() || !seen_.insert(record).second) {
        return true;
    }
    std::map<int, std::string> taken;
    for (const clang::FieldDecl* field : record->fields()) {
        const auto* attribute = annotation(*field, "id");
        if (!attribute) {
            continue;
        }
        const int index = annotation_number(context_, *attribute);
        if (index < 0) {
            error(attribute->getLocation(), "'id' takes an index from 0 on: [[id(n)]]");
        } else if (auto [other, is_new] = taken.emplace(index, field->getNameAsString()); !is_new) {
            error(attribute->getLocation(), "'id' attribute index '%0' of member '%1' is taken by '%2' already")
                << index << field->getNameAsString() << other->second;
        }
    }
    return true;
}

// Element type and length of array<T, N>, if its elements are textures or samplers; otherwise the length is 0.
std::pair<clang::QualType, unsigned> Collector::array_of_objects(clang::QualType type) const {
    const auto* array = llvm::dyn_cast_or_null<clang::ClassTemplateSpecializationDecl>(type->getAsCXXRecordDecl());
    if (!array || array->getName() != "array" || array->getTemplateArgs().size() != 2) {
        return {};
    }
    clang::QualType element = array->getTemplateArgs()[0].getAsType();
    TypeKind kind = describe_type(context_, element).kind;
    bool is_object = kind == TypeKind::texture || kind == TypeKind::sampler;
    return {element, is_object ? static_cast<unsigned>(array->getTemplateArgs()[1].getAsIntegral().getZExtValue()) : 0};
}

// Arguments without an index take the next one that no argument of their kind claims explicitly, as Metal does.
void Collector::assign_indices(clang::FunctionDecl& function, KernelEntry& entry) {
    struct Kind {
        const char* attribute;
        unsigned limit;
        const char* plural;
    };
    static constexpr Kind kinds[] = {{"buffer", max_buffers, "buffers"},
                                     {"threadgroup", 31, "threadgroup arguments"},
                                     {"texture", 128, "textures"},
                                     {"sampler", 16, "samplers"}};
    std::map<ArgumentKind, std::map<int, std::string>> claimed;
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < entry.parameters.size(); ++i) {
        const Parameter& how = entry.parameters[i];
        if (how.source == Parameter::Source::position) {
            continue;
        }
        ArgumentKind kind_of = entry.info.arguments[how.slot].kind;
        const Kind& kind = kinds[static_cast<int>(kind_of)];
        clang::ParmVarDecl& parameter = *function.getParamDecl(static_cast<unsigned>(i));
        for (const Kind& other : kinds) {
            if (const auto* wrong = &other == &kind ? nullptr : annotation(parameter, other.attribute)) {
                error(wrong->getLocation(), "parameter '%0' takes a '%1' index, not a '%2' index")
                    << parameter.getNameAsString() << kind.attribute << other.attribute;
            }
        }
        const auto* attribute = annotation(parameter, kind.attribute);
        if (!attribute) {
            for (unsigned k = 0; k < how.slots; ++k) {
                open.push_back(how.slot + k);
            }
            continue;
        }
        if (attribute->args_size() == 0 || !(*attribute->args_begin())->getType()->isIntegralOrEnumerationType()) {
            error(attribute->getLocation(), "'%0' takes an index: [[%0(n)]]") << kind.attribute;
            continue;
        }
        int first = annotation_number(context_, *attribute);
        for (unsigned k = 0; k < how.slots; ++k) {
            Argument& argument = entry.info.arguments[how.slot + k];
            int index = first + static_cast<int>(k);
            if (first < 0 || index >= static_cast<int>(kind.limit)) {
                error(attribute->getLocation(),
                      "'%0' attribute index %1 of parameter '%2' is out of range: a kernel has at most %3 %4, "
                      "0 to %5")
                    << kind.attribute << index << argument.name << kind.limit << kind.plural << (kind.limit - 1);
                break;
            }
            auto [other, is_new] = claimed[kind_of].emplace(index, argument.name);
            if (!is_new && how.active_if.empty()) {
                error(attribute->getLocation(), "'%0' attribute index '%1' of parameter '%2' is taken by '%3' already")
                    << kind.attribute << index << argument.name << other->second;
            }
            argument.index = static_cast<unsigned>(index);
        }
    }
    for (std::size_t free_slot : open) {
        Argument& argument = entry.info.arguments[free_slot];
        const Kind& kind = kinds[static_cast<int>(argument.kind)];
        auto& taken = claimed[argument.kind];
        int index = 0;
        while (taken.count(index)) {
            ++index;
        }
        if (index >= static_cast<int>(kind.limit)) {
            error(function.getLocation(), "kernel '%0' has more than %1 %2") << entry.info.name << kind.limit << kind.plural;
            return;
        }
        taken.emplace(index, argument.name);
        argument.index = static_cast<unsigned>(index);
    }
}

} // namespace

KernelTable collect_kernels(clang::Sema& sema, const std::vector<clang::Decl*>& declarations) {
    Collector collector(sema);
    for (clang::Decl* declaration : declarations) {
        collector.TraverseDecl(declaration);
    }
    return std::move(collector.table);
}

} // namespace metalki::compiler
