// Where the messages of kernels go: attach one to a queue or a command buffer by its descriptor.
#pragma once

#include <functional>

#include "MTLDefines.hpp"

namespace MTL {

enum LogLevel : NS::Integer {
    LogLevelUndefined = 0,
    LogLevelDebug = 1,
    LogLevelInfo = 2,
    LogLevelNotice = 3,
    LogLevelError = 4,
    LogLevelFault = 5,
};

enum LogStateError : NS::UInteger {
    LogStateErrorInvalidSize = 1,
    LogStateErrorInvalid = 2,
};

using LogHandlerFunction =
    std::function<void(NS::String* subsystem, NS::String* category, LogLevel logLevel, NS::String* message)>;

METALKI_API extern NS::ErrorDomain const LogStateErrorDomain;

class METALKI_API LogState : public NS::Referencing<LogState> {
public:
    // Handlers get the messages of a command buffer when it has completed, before its completed handlers; those of one thread
    // in their order. Subsystem and category are null where the kernel gave none. Without any handler what kernels print goes
    // to the standard output, and their log messages to the standard error stream.
    void addLogHandler(const LogHandlerFunction& handler);
};

class METALKI_API LogStateDescriptor : public NS::Copying<LogStateDescriptor> {
public:
    static LogStateDescriptor* alloc();
    LogStateDescriptor* init();
    // Bytes for the messages of one command buffer; 1 MiB by default. What does not fit is counted, and one message tells.
    NS::Integer bufferSize() const;
    // Messages below are not kept; LogLevelDebug by default.
    LogLevel level() const;
    void setBufferSize(NS::Integer bufferSize);
    void setLevel(LogLevel level);
};

} // namespace MTL
