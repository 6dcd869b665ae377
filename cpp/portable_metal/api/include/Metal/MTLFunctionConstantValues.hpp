// Values for the function constants of a source.
#pragma once

#include "MTLDataType.hpp"
#include "MTLDefines.hpp"

namespace MTL {

class METALKI_API FunctionConstantValues : public NS::Copying<FunctionConstantValues> {
public:
    static FunctionConstantValues* alloc();
    FunctionConstantValues* init();
    void reset();
    // Scalars and vectors; the value is copied. A value by index goes before one by name.
    void setConstantValue(const void* value, DataType type, NS::UInteger index);
    void setConstantValue(const void* value, DataType type, const NS::String* name);
    void setConstantValues(const void* values, DataType type, NS::Range range);
};

} // namespace MTL
