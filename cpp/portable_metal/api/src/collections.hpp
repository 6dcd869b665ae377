// Objects behind NS::Array, NS::Dictionary and NS::Error.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "object.hpp"

namespace metalki::api {

// New objects that the caller owns; the references given are taken over.
NS::Array* make_array(std::vector<Reference<ObjectState>> items);
using Entry = std::pair<Reference<ObjectState>, Reference<ObjectState>>; // key, value
NS::Dictionary* make_dictionary(std::vector<Entry> entries);

template <class Public> Reference<ObjectState> adopt(Public* object) {
    return Reference<ObjectState>::adopt(&state_of<ObjectState>(object));
}
Entry text_entry(std::string_view key, std::string_view value);
Entry number_entry(std::string_view key, std::int64_t value);

} // namespace metalki::api
