// What went wrong: a domain, a code in it, and text for people.
#pragma once

#include "NSObject.hpp"

namespace NS {

using ErrorDomain = class String*;
using ErrorUserInfoKey = class String*;

METALKI_API extern ErrorDomain const CocoaErrorDomain;
METALKI_API extern ErrorDomain const POSIXErrorDomain;
METALKI_API extern ErrorDomain const OSStatusErrorDomain;
METALKI_API extern ErrorDomain const MachErrorDomain;

METALKI_API extern ErrorUserInfoKey const UnderlyingErrorKey;
METALKI_API extern ErrorUserInfoKey const LocalizedDescriptionKey;
METALKI_API extern ErrorUserInfoKey const LocalizedFailureReasonErrorKey;
METALKI_API extern ErrorUserInfoKey const LocalizedRecoverySuggestionErrorKey;
METALKI_API extern ErrorUserInfoKey const LocalizedRecoveryOptionsErrorKey;
METALKI_API extern ErrorUserInfoKey const RecoveryAttempterErrorKey;
METALKI_API extern ErrorUserInfoKey const HelpAnchorErrorKey;
METALKI_API extern ErrorUserInfoKey const DebugDescriptionErrorKey;
METALKI_API extern ErrorUserInfoKey const LocalizedFailureErrorKey;
METALKI_API extern ErrorUserInfoKey const StringEncodingErrorKey;
METALKI_API extern ErrorUserInfoKey const URLErrorKey;
METALKI_API extern ErrorUserInfoKey const FilePathErrorKey;

class METALKI_API Error : public Copying<Error> {
public:
    static Error* error(ErrorDomain domain, Integer code, class Dictionary* pDictionary);

    static Error* alloc();
    Error* init();
    Error* init(ErrorDomain domain, Integer code, class Dictionary* pDictionary);

    Integer code() const;
    ErrorDomain domain() const;
    class Dictionary* userInfo() const;

    // Never null: made from domain and code when userInfo has none.
    class String* localizedDescription() const;
    class Array* localizedRecoveryOptions() const;
    class String* localizedRecoverySuggestion() const;
    class String* localizedFailureReason() const;
};

} // namespace NS
