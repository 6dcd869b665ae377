// Reads the records of gpu_code.hpp. Kernels may have written over them: nothing outside of a record is touched.
#include "gpu_log.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "compiler/gpu_code.hpp"

namespace metalki::api {
namespace {

using compiler::GpuLogArgument;
using compiler::GpuLogHeader;
using compiler::GpuLogRecord;

// Records hold the format as well, and numbers that are short as texts.
constexpr std::size_t room_for_records = 4;

// One record, with its bounds.
class Record {
public:
    explicit Record(std::span<const std::byte> bytes) : bytes_(bytes) { std::memcpy(&head_, bytes.data(), sizeof head_); }

    const GpuLogRecord& head() const { return head_; }

    // The text at an offset, which ends inside of the record; null for offset 0.
    std::optional<const char*> text(std::uint32_t offset) const {
        if (offset == 0)
            return nullptr;
        if (offset >= bytes_.size())
            return std::nullopt;
        const auto rest = bytes_.subspan(offset);
        if (std::find(rest.begin(), rest.end(), std::byte{0}) == rest.end())
            return std::nullopt;
        return reinterpret_cast<const char*>(rest.data());
    }

    std::optional<std::vector<compiler::LogArgument>> arguments() const {
        if (head_.count > (bytes_.size() - sizeof head_) / sizeof(GpuLogArgument))
            return std::nullopt;
        std::vector<compiler::LogArgument> result;
        for (std::uint32_t i = 0; i < head_.count; ++i) {
            GpuLogArgument argument;
            std::memcpy(&argument, bytes_.data() + sizeof head_ + i * sizeof argument, sizeof argument);
            const auto value = argument_of(argument);
            if (!value)
                return std::nullopt;
            result.push_back(*value);
        }
        return result;
    }

private:
    std::optional<compiler::LogArgument> argument_of(const GpuLogArgument& argument) const {
        const auto type = static_cast<compiler::LogType>(argument.type);
        const bool is_inside = argument.offset <= bytes_.size() && argument.bytes <= bytes_.size() - argument.offset;
        if (!is_inside || argument.type > static_cast<std::uint32_t>(compiler::LogType::text))
            return std::nullopt;
        compiler::LogArgument result{bytes_.data() + argument.offset, type, argument.rows, argument.columns};
        if (type == compiler::LogType::text) {
            const auto found = text(argument.offset);
            if (!found)
                return std::nullopt;
            result.data = *found;
        } else if (type == compiler::LogType::pointer) {
            if (argument.bytes < sizeof result.data)
                return std::nullopt;
            std::memcpy(&result.data, bytes_.data() + argument.offset, sizeof result.data);
        } else if (argument.bytes < element_bytes(type) * padded(argument)) {
            return std::nullopt;
        }
        return result;
    }

    static std::size_t padded(const GpuLogArgument& argument) {
        const std::size_t rows = argument.columns > 1 && argument.rows == 3 ? 4 : argument.rows;
        return rows * argument.columns;
    }
    static std::size_t element_bytes(compiler::LogType type) {
        using Type = compiler::LogType;
        switch (type) {
        case Type::i64:
        case Type::u64:
            return 8;
        case Type::i32:
        case Type::u32:
        case Type::f32:
            return 4;
        case Type::i16:
        case Type::u16:
        case Type::f16:
        case Type::bf16:
            return 2;
        default:
            return 1;
        }
    }

    std::span<const std::byte> bytes_;
    GpuLogRecord head_{};
};

void format(const Record& record) {
    const GpuLogRecord& head = record.head();
    const auto subsystem = record.text(head.subsystem), category = record.text(head.category), text = record.text(head.format);
    const auto arguments = record.arguments();
    if (head.complete == 1 && subsystem && category && text && arguments)
        cpu::log_message(head.target, *subsystem, *category, *text, arguments->data(),
                         static_cast<std::uint32_t>(arguments->size()));
}

} // namespace

GpuLog::GpuLog(cuda::Gpu& gpu, cuda::Stream& stream, const cpu::MessageLog& log)
    : gpu_(gpu), bytes_(sizeof(GpuLogHeader) + room_for_records * log.capacity()), generation_(gpu.device.generation()) {
    device_ = gpu.memory.allocate_on_device(bytes_);
    host_ = device_ ? gpu.memory.allocate_on_host(bytes_) : nullptr;
    if (!host_) {
        if (device_)
            gpu.memory.free_on_device(device_, bytes_, generation_);
        throw std::runtime_error("no memory of " + std::to_string(bytes_) + " bytes for what kernels print");
    }
    GpuLogHeader header{};
    header.capacity = static_cast<std::uint32_t>(bytes_ - sizeof header);
    header.lowest = static_cast<std::uint32_t>(log.lowest());
    header.end = UINT32_MAX;
    std::memcpy(host_, &header, sizeof header);
    stream.copy(device_, reinterpret_cast<cuda::Address>(host_), sizeof header);
}

GpuLog::~GpuLog() {
    gpu_.memory.free_on_device(device_, bytes_, generation_);
    gpu_.memory.free_on_host(host_, bytes_);
}

void GpuLog::fetch(cuda::Stream& stream) {
    stream.copy(reinterpret_cast<cuda::Address>(host_), device_, bytes_);
}

void GpuLog::deliver(cpu::MessageLog& log) const {
    GpuLogHeader header;
    std::memcpy(&header, host_, sizeof header);
    const std::size_t capacity = bytes_ - sizeof header;
    const std::size_t end = std::min<std::size_t>({capacity, header.used, header.end});
    const cpu::LogScope scope(&log);
    for (std::size_t at = 0; at + sizeof(GpuLogRecord) <= end;) {
        GpuLogRecord head;
        std::memcpy(&head, host_ + sizeof header + at, sizeof head);
        if (head.bytes < sizeof head || head.bytes > end - at)
            break;
        format(Record({host_ + sizeof header + at, head.bytes}));
        at += head.bytes;
    }
    log.add_dropped(header.dropped_prints, header.dropped_logs);
}

} // namespace metalki::api
