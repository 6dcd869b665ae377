// Describes types of the syntax tree in MSL's terms: name, layout, members.
#pragma once

#include "clang/AST/ASTContext.h"
#include "clang/AST/Type.h"

#include "compiler/compiler.hpp"

namespace metalki::compiler {

// Members are described at most `depth` levels down; pointers inside structures are described by their pointee's name only.
Type describe_type(const clang::ASTContext& context, clang::QualType type, int depth = 4);

// Integer value of the first argument of an annotation, or -1.
int annotation_number(const clang::ASTContext& context, const clang::AnnotateAttr& annotation);

} // namespace metalki::compiler
