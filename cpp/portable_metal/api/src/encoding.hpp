// What the files of the encoders share.
#pragma once

#include "commands.hpp"

namespace metalki::api {

// The address that a kernel's argument slot gets, and what tells it apart from others.
struct BoundArgument {
    void* address = nullptr;
    std::uint64_t digest = 0;
};

// Retains the resource as long as the commands, where the command buffer does so.
void keep(EncoderState& encoder, const ResourceState& resource);

bool check_texture_or_sampler(const EncoderState& encoder, const ArgumentPlan& plan, const char* call);
// The check has passed.
BoundArgument bound_texture_or_sampler(const EncoderState& encoder, const ArgumentPlan& plan);

} // namespace metalki::api
