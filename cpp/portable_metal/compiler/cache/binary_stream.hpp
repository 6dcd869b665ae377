// Writes and reads the plain data of cache records. Reading checks every length: a damaged record throws, nothing worse.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace metalki::compiler {

class DamagedRecord : public std::runtime_error {
public:
    DamagedRecord() : std::runtime_error("damaged cache record") {}
};

class BinaryWriter {
public:
    template <class T>
        requires(std::is_arithmetic_v<T> || std::is_enum_v<T>)
    void write(T value) {
        out_.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    void write(std::string_view text) {
        write(static_cast<std::uint64_t>(text.size()));
        out_.append(text);
    }
    void write(const std::string& text) { write(std::string_view(text)); }
    template <class T, class WriteItem> void write_list(const std::vector<T>& items, WriteItem write_item) {
        write(static_cast<std::uint64_t>(items.size()));
        for (const T& item : items) {
            write_item(item);
        }
    }
    std::string take() { return std::move(out_); }

private:
    std::string out_;
};

class BinaryReader {
public:
    explicit BinaryReader(std::string_view in) : in_(in) {}

    template <class T>
        requires(std::is_arithmetic_v<T> || std::is_enum_v<T>)
    T read() {
        T value{};
        std::memcpy(&value, take(sizeof value).data(), sizeof value);
        return value;
    }
    std::string_view read_view() { return take(read<std::uint64_t>()); }
    std::string read_string() { return std::string(read_view()); }
    template <class ReadItem> auto read_list(ReadItem read_item) {
        std::vector<decltype(read_item())> items;
        for (auto count = read<std::uint64_t>(); count > 0; --count) {
            items.push_back(read_item()); // grows with what is really there: a wrong count cannot exhaust memory
        }
        return items;
    }
    bool at_end() const { return in_.empty(); }

private:
    std::string_view take(std::uint64_t size) {
        if (size > in_.size()) {
            throw DamagedRecord();
        }
        std::string_view out = in_.substr(0, size);
        in_.remove_prefix(size);
        return out;
    }

    std::string_view in_;
};

} // namespace metalki::compiler
