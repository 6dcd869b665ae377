// Textures and samplers of the Metal API: what kernels see of them, copies, and misuse.
#include "api_fixture.hpp"

#include <vector>

using namespace api_test;
#define REFUSED(expression) CHECK_THROWS_AS(expression, MTL::ValidationError)

namespace {

constexpr const char* sources = R"(
#include <metal_stdlib>
using namespace metal;
kernel void twice(texture2d<float, access::read> from [[texture(0)]], texture2d<float, access::write> to [[texture(3)]],
                  uint2 p [[thread_position_in_grid]]) { to.write(from.read(p) * 2, p); }
kernel void look(texture2d<float> t [[texture(0)]], sampler s [[sampler(5)]], device float* o [[buffer(0)]],
                 uint i [[thread_position_in_grid]]) { o[i] = t.sample(s, float2((i + 0.5f) / 2, 0.5f)).x; }
kernel void mips(texture2d<float> t [[texture(0)]], sampler s [[sampler(0)]], device float* o [[buffer(0)]]) {
    o[0] = t.sample(s, float2(0.5f), level(2)).x;
}
)";

struct TextureFixture : Fixture {
    NS::SharedPtr<MTL::TextureDescriptor> describe(MTL::PixelFormat format, NS::UInteger width, NS::UInteger height,
                                                   MTL::TextureUsage usage = MTL::TextureUsageShaderRead |
                                                                             MTL::TextureUsageShaderWrite) {
        auto descriptor = NS::RetainPtr(MTL::TextureDescriptor::texture2DDescriptor(format, width, height, false));
        descriptor->setUsage(usage);
        return descriptor;
    }
    NS::SharedPtr<MTL::Texture> texture(NS::UInteger width, NS::UInteger height,
                                        MTL::TextureUsage usage = MTL::TextureUsageShaderRead | MTL::TextureUsageShaderWrite) {
        return NS::TransferPtr(device->newTexture(describe(MTL::PixelFormatR32Float, width, height, usage).get()));
    }
    NS::SharedPtr<MTL::SamplerState> sampler(MTL::SamplerDescriptor* descriptor = nullptr) {
        auto fresh = NS::TransferPtr(MTL::SamplerDescriptor::alloc()->init());
        return NS::TransferPtr(device->newSamplerState(descriptor ? descriptor : fresh.get()));
    }
    template <class Bind> void run(MTL::ComputePipelineState* kernel, MTL::Size grid, Bind bind) {
        auto* commands = queue->commandBuffer();
        auto* encoder = commands->computeCommandEncoder();
        encoder->setComputePipelineState(kernel);
        bind(encoder);
        encoder->dispatchThreads(grid, MTL::Size(4, 1, 1));
        encoder->endEncoding();
        commands->commit();
        commands->waitUntilCompleted();
        CHECK(commands->status() == MTL::CommandBufferStatusCompleted);
    }
};

} // namespace

TEST_CASE_FIXTURE(TextureFixture, "a kernel reads one texture and writes another") {
    auto twice = pipeline(sources, "twice");
    auto from = texture(3, 2), to = texture(3, 2);
    const float texels[] = {1, 2, 3, 4, 5, 6};
    from->replaceRegion(MTL::Region(0, 0, 3, 2), 0, texels, 12);
    run(twice.get(), MTL::Size(3, 2, 1), [&](MTL::ComputeCommandEncoder* encoder) {
        const MTL::Texture* both[] = {from.get(), nullptr, nullptr, to.get()};
        encoder->setTextures(both, NS::Range(0, 4));
    });
    std::vector<float> out(4, -1);
    to->getBytes(out.data(), 8, MTL::Region(1, 0, 2, 2), 0);
    CHECK(out == std::vector<float>{4, 6, 10, 12});
    CHECK(to->width() == 3);
    CHECK(to->height() == 2);
    CHECK(to->depth() == 1);
    CHECK(to->pixelFormat() == MTL::PixelFormatR32Float);
    CHECK(to->textureType() == MTL::TextureType2D);
    CHECK(to->storageMode() == MTL::StorageModeShared);
    CHECK(to->allocatedSize() >= 24);
    to->setLabel(string("target"));
    CHECK(std::string(to->label()->utf8String()) == "target");
}

TEST_CASE_FIXTURE(TextureFixture, "samplers, their range of levels, and mip levels") {
    auto look = pipeline(sources, "look");
    auto t = texture(2, 1);
    const float texels[] = {1, 2};
    t->replaceRegion(MTL::Region(0, 0, 2, 1), 0, texels, 8);
    auto out = buffer(16);
    auto repeat = NS::TransferPtr(MTL::SamplerDescriptor::alloc()->init());
    CHECK(repeat->normalizedCoordinates());
    repeat->setSAddressMode(MTL::SamplerAddressModeRepeat);
    run(look.get(), MTL::Size(4, 1, 1), [&](MTL::ComputeCommandEncoder* encoder) {
        encoder->setTexture(t.get(), 0);
        encoder->setSamplerState(sampler(repeat.get()).get(), 5); // may go at once
        encoder->setBuffer(out.get(), 0, 0);
    });
    const auto* values = static_cast<const float*>(out->contents());
    CHECK(std::vector<float>(values, values + 4) == std::vector<float>{1, 2, 1, 2});

    auto* mipmapped = MTL::TextureDescriptor::texture2DDescriptor(MTL::PixelFormatR32Float, 4, 4, true);
    CHECK(mipmapped->mipmapLevelCount() == 3);
    auto levels = NS::TransferPtr(device->newTexture(mipmapped));
    for (unsigned level = 0; level < 3; ++level) {
        const std::vector<float> same(16, float(level));
        levels->replaceRegion(MTL::Region(0, 0, 4 >> level, 4 >> level), level, same.data(), 16);
    }
    auto nearest = NS::TransferPtr(MTL::SamplerDescriptor::alloc()->init());
    nearest->setMipFilter(MTL::SamplerMipFilterNearest);
    auto state = sampler(nearest.get());
    auto mips = pipeline(sources, "mips");
    for (float highest : {0.0f, 1.0f, 9.0f}) {
        run(mips.get(), MTL::Size(1, 1, 1), [&](MTL::ComputeCommandEncoder* encoder) {
            encoder->setTexture(levels.get(), 0);
            encoder->setSamplerState(state.get(), 0, highest, 0);
            encoder->setBuffer(out.get(), 0, 0);
        });
        CHECK(values[0] == std::min(highest, 2.0f));
    }
}

TEST_CASE_FIXTURE(TextureFixture, "volumes, layers and faces are copied slice by slice") {
    auto descriptor = NS::TransferPtr(MTL::TextureDescriptor::alloc()->init());
    descriptor->setPixelFormat(MTL::PixelFormatR8Uint);
    descriptor->setTextureType(MTL::TextureType3D);
    descriptor->setWidth(2);
    descriptor->setHeight(2);
    descriptor->setDepth(2);
    auto volume = NS::TransferPtr(device->newTexture(descriptor.get()));
    const std::vector<std::uint8_t> texels{1, 2, 3, 4, 5, 6, 7, 8};
    volume->replaceRegion(MTL::Region(0, 0, 0, 2, 2, 2), 0, 0, texels.data(), 2, 4);
    std::vector<std::uint8_t> out(2);
    volume->getBytes(out.data(), 1, 2, MTL::Region(1, 0, 1, 1, 2, 1), 0, 0);
    CHECK(out == std::vector<std::uint8_t>{6, 8});
    auto cube =
        NS::TransferPtr(device->newTexture(MTL::TextureDescriptor::textureCubeDescriptor(MTL::PixelFormatR8Uint, 2, false)));
    cube->replaceRegion(MTL::Region(0, 0, 2, 2), 0, 5, texels.data(), 2, 0);
    cube->getBytes(out.data(), 2, 0, MTL::Region(0, 1, 2, 1), 0, 5);
    CHECK(out == std::vector<std::uint8_t>{3, 4});
    cube->getBytes(out.data(), 2, 0, MTL::Region(0, 1, 2, 1), 0, 4);
    CHECK(out == std::vector<std::uint8_t>{0, 0});
    REFUSED(cube->getBytes(out.data(), 2, 0, MTL::Region(0, 1, 2, 1), 0, 6));
}

TEST_CASE_FIXTURE(TextureFixture, "textures that cannot be, and copies beyond them") {
    auto refused = [&](auto change) {
        auto descriptor = describe(MTL::PixelFormatR32Float, 4, 4);
        change(*descriptor.get());
        REFUSED(device->newTexture(descriptor.get()));
    };
    REFUSED(device->newTexture(nullptr));
    refused([](MTL::TextureDescriptor& d) { d.setWidth(0); });
    refused([](MTL::TextureDescriptor& d) { d.setHeight(16385); });
    refused([](MTL::TextureDescriptor& d) { d.setDepth(2); });
    refused([](MTL::TextureDescriptor& d) { d.setArrayLength(2); });
    refused([](MTL::TextureDescriptor& d) { d.setMipmapLevelCount(4); });
    refused([](MTL::TextureDescriptor& d) { d.setSampleCount(4); });
    refused([](MTL::TextureDescriptor& d) { d.setPixelFormat(static_cast<MTL::PixelFormat>(130)); });
    refused([](MTL::TextureDescriptor& d) { d.setTextureType(MTL::TextureType2DMultisample); });
    refused([](MTL::TextureDescriptor& d) { d.setTextureType(MTL::TextureType1D); });
    refused([](MTL::TextureDescriptor& d) { d.setStorageMode(MTL::StorageModeMemoryless); });
    refused([](MTL::TextureDescriptor& d) { d.setUsage(1 << 9); });
    auto t = texture(4, 4);
    std::vector<float> bytes(16);
    REFUSED(t->getBytes(nullptr, 16, MTL::Region(0, 0, 4, 4), 0));
    REFUSED(t->getBytes(bytes.data(), 15, MTL::Region(0, 0, 4, 4), 0));
    REFUSED(t->getBytes(bytes.data(), 16, MTL::Region(1, 0, 4, 4), 0));
    REFUSED(t->getBytes(bytes.data(), 16, MTL::Region(0, 0, ~NS::UInteger{0}, 1), 0));
    REFUSED(t->getBytes(bytes.data(), 16, MTL::Region(0, 0, 0, 1), 0));
    REFUSED(t->replaceRegion(MTL::Region(0, 0, 4, 4), 1, bytes.data(), 16));
    REFUSED(t->replaceRegion(MTL::Region(0, 0, 4, 4), 0, 1, bytes.data(), 16, 0));
    auto hidden = describe(MTL::PixelFormatR32Float, 4, 4);
    hidden->setStorageMode(MTL::StorageModePrivate);
    REFUSED(NS::TransferPtr(device->newTexture(hidden.get()))->getBytes(bytes.data(), 16, MTL::Region(0, 0, 4, 4), 0));
    auto pixels = NS::TransferPtr(MTL::SamplerDescriptor::alloc()->init());
    pixels->setNormalizedCoordinates(false);
    CHECK(sampler(pixels.get()).get());
    pixels->setTAddressMode(MTL::SamplerAddressModeRepeat);
    REFUSED(device->newSamplerState(pixels.get()));
    auto steep = NS::TransferPtr(MTL::SamplerDescriptor::alloc()->init());
    steep->setMaxAnisotropy(17);
    REFUSED(device->newSamplerState(steep.get()));
}

TEST_CASE_FIXTURE(TextureFixture, "dispatches check what is bound") {
    auto look = pipeline(sources, "look"), twice = pipeline(sources, "twice");
    auto t = texture(4, 4), out = texture(4, 4, MTL::TextureUsageShaderWrite);
    auto data = buffer(64);
    auto state = sampler();
    auto* commands = queue->commandBuffer();
    auto* encoder = commands->computeCommandEncoder();
    const MTL::Size one(1, 1, 1);
    encoder->setComputePipelineState(look.get());
    encoder->setBuffer(data.get(), 0, 0);
    REFUSED(encoder->dispatchThreads(one, one)); // no texture
    encoder->setTexture(t.get(), 0);
    REFUSED(encoder->dispatchThreads(one, one)); // no sampler
    encoder->setSamplerState(state.get(), 5);
    encoder->dispatchThreads(one, one);
    encoder->setTexture(out.get(), 0);
    REFUSED(encoder->dispatchThreads(one, one)); // not for reading
    auto integers = NS::TransferPtr(device->newTexture(describe(MTL::PixelFormatR32Uint, 4, 4).get()));
    encoder->setTexture(integers.get(), 0);
    REFUSED(encoder->dispatchThreads(one, one)); // other values
    auto cube =
        NS::TransferPtr(device->newTexture(MTL::TextureDescriptor::textureCubeDescriptor(MTL::PixelFormatR32Float, 4, false)));
    encoder->setTexture(cube.get(), 0);
    REFUSED(encoder->dispatchThreads(one, one)); // other type
    encoder->setTexture(t.get(), 0);
    encoder->setComputePipelineState(twice.get());
    encoder->setTexture(texture(4, 4, MTL::TextureUsageShaderRead).get(), 3);
    REFUSED(encoder->dispatchThreads(one, one)); // not for writing
    encoder->setTexture(nullptr, 3);
    REFUSED(encoder->dispatchThreads(one, one));
    encoder->setTexture(out.get(), 3);
    encoder->dispatchThreads(one, one);
    REFUSED(encoder->setTexture(t.get(), 128));
    REFUSED(encoder->setSamplerState(state.get(), 16));
    REFUSED(encoder->setTextures(nullptr, NS::Range(0, 2)));
    REFUSED(encoder->setSamplerState(state.get(), 2, 1, 0));
    encoder->useResource(t.get(), MTL::ResourceUsageRead);
    encoder->endEncoding();
    REFUSED(encoder->setTexture(t.get(), 0));
    commands->commit();
    commands->waitUntilCompleted();
    CHECK(commands->status() == MTL::CommandBufferStatusCompleted);
}

TEST_CASE_FIXTURE(TextureFixture, "reflection of textures, and memory that is given back") {
    NS::Error* error = nullptr;
    auto library = NS::TransferPtr(device->newLibrary(string(sources), nullptr, &error));
    auto function = NS::TransferPtr(library->newFunction(string("look")));
    MTL::ComputePipelineReflection* reflection = nullptr;
    auto state =
        NS::TransferPtr(device->newComputePipelineState(function.get(), MTL::PipelineOptionBindingInfo, &reflection, &error));
    auto* bindings = reflection->bindings();
    auto* first = bindings->object<MTL::TextureBinding>(0);
    CHECK(first->type() == MTL::BindingTypeTexture);
    CHECK(first->access() == MTL::BindingAccessReadOnly);
    CHECK(first->textureType() == MTL::TextureType2D);
    CHECK(first->textureDataType() == MTL::DataTypeFloat);
    CHECK(!first->isDepthTexture());
    CHECK(bindings->object<MTL::Binding>(1)->type() == MTL::BindingTypeSampler);
    CHECK(bindings->object<MTL::Binding>(1)->index() == 5);
    const auto before = device->currentAllocatedSize();
    texture(1024, 1024);
    CHECK(device->currentAllocatedSize() == before);
}

TEST_CASE_FIXTURE(TextureFixture, "argument buffers hold textures and samplers by their resource IDs") {
    auto kernel = pipeline(R"(
        #include <metal_stdlib>
        using namespace metal;
        struct Inside { texture2d<float> t [[id(0)]]; sampler s [[id(1)]]; };
        kernel void k(constant Inside& in [[buffer(0)]], device float* o [[buffer(1)]]) {
            o[0] = in.t.sample(in.s, float2(0.75f, 0.5f)).x;
        })",
                           "k");
    auto t = texture(2, 1);
    const float texels[] = {1, 2};
    t->replaceRegion(MTL::Region(0, 0, 2, 1), 0, texels, 8);
    auto state = sampler();
    const MTL::ResourceID inside[] = {t->gpuResourceID(), state->gpuResourceID()};
    auto out = buffer(4);
    run(kernel.get(), MTL::Size(1, 1, 1), [&](MTL::ComputeCommandEncoder* encoder) {
        encoder->setBytes(inside, sizeof inside, 0);
        encoder->setBuffer(out.get(), 0, 1);
        encoder->useResource(t.get(), MTL::ResourceUsageRead);
    });
    CHECK(*static_cast<const float*>(out->contents()) == 2);
}
