"""Textures and samplers: made from and read to numpy, given to kernels, refused when they do not fit."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

import metalki as mk

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"


def kernel(parameters: str, body: str) -> mk.Kernel:
    return mk.Kernel(f"{HEAD}kernel void k({parameters}, uint2 p [[thread_position_in_grid]]) {{ {body} }}")


COPY = """
    kernel void copy(texture2d<float, access::read> from, texture2d<float, access::write> to,
                     uint2 p [[thread_position_in_grid]]) { to.write(from.read(p) * 2.0f, p); }
"""


def image(*shape: int) -> np.ndarray:
    return np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)


def test_a_kernel_reads_one_texture_and_writes_another() -> None:
    source = mk.Texture(image(6, 9, 4), "rgba32float", usage="read")
    target = mk.Texture((6, 9), "rgba32float", usage="write")
    mk.Kernel(HEAD + COPY)(source, target, ndrange=(9, 6))
    assert target.shape == (6, 9, 4)
    np.testing.assert_array_equal(target.numpy(), image(6, 9, 4) * 2)
    np.testing.assert_array_equal(source.numpy(), image(6, 9, 4))
    assert (source.width, source.height, source.depth, source.pixel_format) == (9, 6, 1, "rgba32float")
    assert (source.type, source.usage, source.nbytes) == ("2d", "read", 6 * 9 * 16)
    assert "rgba32float" in repr(source)


@pytest.mark.parametrize(
    ("pixel_format", "dtype", "channels", "most"),
    [
        ("r8unorm", np.uint8, 1, 255),
        ("rg8unorm", np.uint8, 2, 255),
        ("rgba8unorm", np.uint8, 4, 255),
        ("bgra8unorm", np.uint8, 4, 255),
        ("r16unorm", np.uint16, 1, 65535),
        ("rgba8snorm", np.int8, 4, 127),
        ("rg16float", np.float16, 2, 100),
        ("r32float", np.float32, 1, 100),
    ],
)
def test_formats_keep_their_values(pixel_format: str, dtype: Any, channels: int, most: int) -> None:
    shape = (3, 5) if channels == 1 else (3, 5, channels)
    host = np.random.default_rng(1).integers(0, most + 1, shape).astype(dtype)
    source, target = mk.Texture(host, pixel_format), mk.Texture(shape, pixel_format)
    assert (source.dtype, source.shape) == (np.dtype(dtype), shape)
    same = COPY.replace(" * 2.0f", "")
    mk.Kernel(HEAD + same)(source, target, ndrange=(5, 3))
    np.testing.assert_array_equal(target.numpy(), host)


@pytest.mark.parametrize(
    ("pixel_format", "type_name", "dtype"), [("rgba16uint", "uint", np.uint16), ("r32sint", "int", np.int32)]
)
def test_integer_formats(pixel_format: str, type_name: str, dtype: Any) -> None:
    shape = (2, 3, 4) if pixel_format.startswith("rgba") else (2, 3)
    texture = mk.Texture(np.full(shape, 7, dtype), pixel_format)
    kernel(f"texture2d<{type_name}, access::read_write> t", "t.write(t.read(p) + 1, p);")(texture, ndrange=(3, 2))
    np.testing.assert_array_equal(texture.numpy(), np.full(shape, 8, dtype))
    with pytest.raises(mk.ArgumentError, match=r"declares values of type float.*" + pixel_format):
        kernel("texture2d<float, access::read_write> t", "t.write(t.read(p) + 1, p);")(texture, ndrange=(3, 2))


def test_one_and_three_dimensions_arrays_and_cubes() -> None:
    line = mk.Texture(image(5), "r32float")
    volume = mk.Texture(image(2, 3, 4), "r32float")
    layers = mk.Texture(image(2, 3, 4), "r32float", type="2d_array")
    cube = mk.Texture(image(6, 2, 2), "r32float", type="cube")
    assert (volume.width, volume.height, volume.depth) == (4, 3, 2)
    assert (layers.width, layers.height, layers.depth, layers.array_length) == (4, 3, 1, 2)
    assert (line.type, volume.type, layers.type) == ("1d", "3d", "2d_array")
    out = mk.zeros(5)
    kernel(
        "texture1d<float> l, texture3d<float> v, texture2d_array<float> a, texturecube<float> c, device float* o",
        "constexpr sampler n; o[0] = l.read(3u).x; o[1] = v.read(uint3(1, 2, 1)).x; o[2] = a.read(uint2(1, 2), 1).x;"
        "o[3] = c.sample(n, float3(0.1, 0.1, -1)).x; o[4] = a.get_array_size();",
    )(line, volume, layers, cube, out, ndrange=1)
    expected = [3, 21, 21, out.numpy()[3], 2]
    np.testing.assert_array_equal(out.numpy(), expected)
    assert 20 <= out.numpy()[3] <= 23  # the face of -z
    for texture, shape in ((line, (5,)), (volume, (2, 3, 4)), (layers, (2, 3, 4)), (cube, (6, 2, 2))):
        np.testing.assert_array_equal(texture.numpy(), image(*shape))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [0, 0, 1, 3, 3]),
        ({"address": "repeat"}, [2, 0, 1, 3, 1]),
        ({"address": "mirrored_repeat"}, [1, 0, 1, 3, 2]),
        ({"address": "clamp_to_zero"}, [0, 0, 1, 3, 0]),
        ({"filter": "linear"}, [0, 0, 0.5, 3, 3]),
    ],
)
def test_samplers(options: dict[str, Any], expected: list[float]) -> None:
    texture = mk.Texture(image(1, 4), "r32float", usage="sample")
    at = np.array([-1.5, 0.5, 1.0 if "filter" in options else 1.5, 3.5, 5.5], np.float32)
    sample = kernel(
        "texture2d<float> t, sampler s, device const float* x, device float* o",
        "o[p.x] = t.sample(s, float2(x[p.x], 0.5f)).x;",
    )
    out = mk.zeros(5)
    sample(texture, mk.Sampler(**options), at / np.float32(4), out, ndrange=5)
    np.testing.assert_allclose(out.numpy(), expected, atol=1e-6)
    if options.get("address", "clamp") not in ("repeat", "mirrored_repeat"):
        pixels = mk.zeros(5)
        sample(texture, mk.Sampler(**options, normalized=False), at, pixels, ndrange=5)
        np.testing.assert_allclose(pixels.numpy(), expected, atol=1e-6)


def test_launches_in_a_row_see_each_others_texels() -> None:
    texture = mk.Texture(np.zeros((4, 4), np.float32), "r32float")
    add = kernel("texture2d<float, access::read_write> t", "t.write(t.read(p) + 1.0f, p);")
    for _ in range(300):
        add(texture, ndrange=(4, 4))
    np.testing.assert_array_equal(texture.numpy(), np.full((4, 4), 300, np.float32))
    texture.copy_from(image(4, 4))
    add(texture, ndrange=(4, 4))
    np.testing.assert_array_equal(np.asarray(texture), image(4, 4) + 1)


def test_a_launch_keeps_textures_and_samplers_alive() -> None:
    out = mk.zeros((64, 64))
    read = kernel(
        "texture2d<float> t, sampler s, device float* o",
        "o[p.y * 64 + p.x] = t.sample(s, (float2(p) + 0.5f) / 64.0f).x;",
    )
    for i in range(50):
        read(mk.Texture(np.full((64, 64), i, np.float32), "r32float"), mk.Sampler(), out, ndrange=(64, 64))
        gc.collect(0)
    np.testing.assert_array_equal(out.numpy(), np.full((64, 64), 49, np.float32))


def test_arguments_tell_kind_and_access() -> None:
    k = kernel(
        "texture2d<float> a, texture2d<int, access::write> b, texture3d<half, access::read_write> c, sampler s", ""
    )
    facts = [(a.kind, a.index, a.access) for a in k.arguments]
    assert facts == [
        ("texture", 0, "read"),
        ("texture", 1, "write"),
        ("texture", 2, "read_write"),
        ("sampler", 0, "read"),
    ]
    assert k.arguments[0].type_name.startswith("texture2d<float")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mk.Texture((4, 4), "rgba9unorm"), "pixel_format"),
        (lambda: mk.Texture((4, 4), 70), "pixel_format"),
        (lambda: mk.Texture((4, 4), "r32float", usage="draw"), "usage"),
        (lambda: mk.Texture((4, 4), "r32float", type="4d"), "type"),
        (lambda: mk.Texture((0, 4), "r32float"), "height is 0"),
        (lambda: mk.Texture((4, 20000), "r32float"), "width is 20000.*16384"),
        (lambda: mk.Texture((3000, 4, 4), "r32float"), "depth is 3000.*2048"),
        (lambda: mk.Texture((-1, 4), "r32float"), "negative"),
        (lambda: mk.Texture((), "r32float"), "shape"),
        (lambda: mk.Texture((1, 1, 1, 1, 1), "r32float"), "shape"),
        (lambda: mk.Texture((2**70, 1), "r32float"), "above|width|height"),
        (lambda: mk.Texture((5, 4, 4), "r32float", type="cube"), "6 faces"),
        (lambda: mk.Texture((6, 4, 3), "r32float", type="cube"), "square"),
        (lambda: mk.Texture(np.zeros((4, 4, 3), np.uint8), "rgba8unorm"), "4 channels"),
        (lambda: mk.Texture(np.zeros((4, 4, 4), np.float32), "rgba8unorm"), "dtype uint8"),
        (lambda: mk.Texture(np.zeros((4, 4), ">f4"), "r32float"), "dtype"),
        (lambda: mk.Texture("picture", "r32float"), "dtype|array"),
        (lambda: mk.Texture(None, "r32float"), "dtype|array"),
        (lambda: mk.Texture((4, 4), "r32float", label=3), "label"),
        (lambda: mk.Sampler(filter="cubic"), "filter"),
        (lambda: mk.Sampler(address="wrap"), "address"),
        (lambda: mk.Sampler(normalized="no"), "normalized"),
        (lambda: mk.Sampler(address="repeat", normalized=False), "pixel coordinates"),
        (lambda: mk.Texture((4, 4), "r32float").copy_from(np.zeros((4, 5), np.float32)), r"\(4, 4\).*\(4, 5\)"),
        (lambda: mk.Texture((4, 4), "r32float").copy_from(np.zeros((4, 4))), "dtype float32"),
    ],
)
def test_what_makes_no_texture(make: Any, message: str) -> None:
    with pytest.raises(mk.ArgumentError, match=message):
        make()


def test_launches_that_are_refused() -> None:
    read = kernel("texture2d<float> t, sampler s, device float* o", "o[0] = t.sample(s, float2(0)).x;")
    texture, sampler, out = mk.Texture((4, 4), "r32float"), mk.Sampler(), mk.full(1, 5.0)
    for arguments, message in (
        ((sampler, sampler, out), 'argument 0 .*"?t"?.*Texture is expected'),
        ((texture, texture, out), "Sampler is expected"),
        ((texture, sampler, texture), "a buffer is expected"),
        ((out, sampler, out), "Texture is expected"),
        ((None, sampler, out), "Texture is expected"),
        ((np.zeros((4, 4), np.float32), sampler, out), "Texture is expected"),
        ((texture, 1, out), "Sampler is expected"),
        ((mk.Texture((4, 4), "r32float", usage="write"), sampler, out), "reads.*writing only"),
        ((mk.Texture((4, 4, 4), "r32float"), sampler, out), "type 2d is expected, one of type 3d"),
        ((mk.Texture((4, 4), "r32uint"), sampler, out), "float.*r32uint"),
    ):
        with pytest.raises(mk.ArgumentError, match=message):
            read(*arguments, ndrange=1)
    with pytest.raises(mk.ArgumentError, match=r"writes.*reading only"):
        kernel("texture2d<float, access::write> t", "t.write(float4(1), p);")(
            mk.Texture((4, 4), "r32float", usage="sample"), ndrange=1
        )
    with pytest.raises(mk.ArgumentError, match="depth format"):
        kernel("depth2d<float, access::read> t, device float* o", "o[0] = t.read(uint2(0));")(texture, out, ndrange=1)
    assert out.numpy()[0] == 5.0


def test_depth_textures_and_comparison() -> None:
    depth = mk.Texture(np.array([[0.25, 0.75]], np.float32), "depth32float")
    out = mk.zeros(2)
    kernel(
        "depth2d<float> d, device float* o",
        "constexpr sampler less(compare_func::less); float2 at = float2(p.x + 0.5f, 0.5f) / float2(2, 1);"
        "o[p.x] = d.sample_compare(less, at, 0.5f);",
    )(depth, out, ndrange=2)
    np.testing.assert_array_equal(out.numpy(), [0, 1])


def test_a_texture_switched_off_by_a_constant_may_be_none() -> None:
    source = (
        HEAD
        + """
        constant bool use [[function_constant(0)]];
        kernel void k(texture2d<float> t [[texture(0), function_constant(use)]], device float* o) {
            o[0] = use ? t.read(uint2(0)).x : 7.0f;
        }
    """
    )
    out = mk.zeros(1)
    mk.Kernel(source, function_constants={0: False})(None, out, ndrange=1)
    assert out.numpy()[0] == 7
    mk.Kernel(source, function_constants={0: True})(mk.Texture(image(1, 1) + 3, "r32float"), out, ndrange=1)
    assert out.numpy()[0] == 3


def test_textures_made_without_their_constructor_are_refused() -> None:
    unmade = mk.Texture.__new__(mk.Texture)
    with pytest.raises(mk.ArgumentError, match="Texture is expected"):
        kernel("texture2d<float> t, device float* o", "o[0] = t.read(uint2(0)).x;")(unmade, mk.zeros(1), ndrange=1)


def test_a_texture_beyond_the_memory_is_an_error_of_memory() -> None:
    with pytest.raises(mk.OutOfMemoryError, match="16384"):
        mk.Texture((2048, 16384, 16384), "rgba32float", type="2d_array")


def test_textures_are_made_once() -> None:
    texture = mk.Texture((2, 2), "r32float")
    with pytest.raises(mk.ArgumentError, match="made already"):
        texture.__init__((4, 4), "r32float")  # type: ignore[misc]
    assert texture.shape == (2, 2)


def test_threads_with_textures_of_their_own() -> None:
    add = kernel("texture2d<float, access::read_write> t", "t.write(t.read(p) + 1.0f, p);")
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(50):
                texture = mk.Texture((8, 8), "r32float")
                add(texture, ndrange=(8, 8))
                np.testing.assert_array_equal(texture.numpy(), np.ones((8, 8), np.float32))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_mip_levels() -> None:
    t = mk.Texture(image(8, 4), "r32float", mip_levels=4)
    assert (t.mip_levels, t.level_shape(1), t.level_shape(3)) == (4, (4, 2), (1, 1))
    for level in range(1, 4):
        t.copy_from(np.full(t.level_shape(level), 100.0 * level, np.float32), level)
    np.testing.assert_array_equal(t.numpy(), image(8, 4))
    np.testing.assert_array_equal(t.numpy(2), np.full((2, 1), 200, np.float32))
    out = mk.zeros(8, np.float32)
    body = """
        constexpr sampler blend(mip_filter::linear), nearest(mip_filter::nearest), low(mip_filter::nearest, lod_clamp(0, 1));
        float2 c(0.5f);
        o[0] = t.get_num_mip_levels() * 100 + t.get_width(1) * 10 + t.get_height(9);
        o[1] = t.read(uint2(1, 3), 1).x;
        o[2] = t.sample(s, c, level(1.5f)).x;
        o[3] = t.sample(blend, c, level(2.5f)).x;
        o[4] = t.sample(nearest, c, bias(1), min_lod_clamp(2)).x;
        o[5] = t.sample(nearest, c, gradient2d(float2(1, 0), float2(0, 0.5f))).x;
        o[6] = t.sample(low, c, level(3)).x;
        o[7] = t.read(uint2(0), 9).x;
    """
    kernel("device float* o, texture2d<float> t, sampler s", body)(out, t, mk.Sampler(mip_filter="linear"), ndrange=1)
    assert out.numpy().tolist() == [421, 100, 150, 250, 200, 200, 100, 0]
    write = "t.write(float4(7), p, 2);"
    kernel("texture2d<float, access::write> t", write)(t, ndrange=(1, 2))
    np.testing.assert_array_equal(t.numpy(2), np.full((2, 1), 7, np.float32))
    np.testing.assert_array_equal(t.numpy(1), np.full((4, 2), 100, np.float32))


@pytest.mark.parametrize("level", [4, -1, 1.0, True, None])
def test_levels_that_there_are_not(level: Any) -> None:
    t = mk.Texture(image(8, 4), "r32float", mip_levels=4)
    with pytest.raises(mk.ArgumentError, match="level is 0 to 3"):
        t.numpy(level)
    with pytest.raises(mk.ArgumentError, match="level is 0 to 3"):
        t.copy_from(image(8, 4), level)


@pytest.mark.parametrize("levels", [0, -1, 5, 2**40, 1.0, True])
def test_numbers_of_levels_that_no_texture_has(levels: Any) -> None:
    with pytest.raises(mk.ArgumentError, match="mip_levels"):
        mk.Texture(image(8, 4), "r32float", mip_levels=levels)


def test_atomic_functions() -> None:
    t = mk.Texture((4, 4), "r32uint")
    old = mk.zeros(64, np.uint32)
    body = """
        old[p.x] = t.atomic_fetch_add(uint2(1, 2), uint4(1)).x;
        t.atomic_fetch_max(ushort2(0, 0), uint4(p.x));
        t.atomic_fetch_or(uint2(3, 3), uint4(1u << (p.x & 7)));
        t.atomic_fetch_add(uint2(4, 0), uint4(1)); // outside
        uint4 known = t.atomic_load(uint2(2, 2));
        while (!t.atomic_compare_exchange_weak(uint2(2, 2), &known, known + 2)) { }
        if (p.x == 0) { t.atomic_store(uint4(9), uint2(3, 0)); t.atomic_exchange(uint2(0, 3), uint4(5)); }
    """
    kernel("device uint* old, texture2d<uint, access::read_write> t", body)(old, t, ndrange=64, workgroupsize=32)
    expected = np.zeros((4, 4), np.uint32)
    expected[2, 1], expected[0, 0], expected[3, 3], expected[2, 2], expected[0, 3], expected[3, 0] = (
        64,
        63,
        255,
        128,
        9,
        5,
    )
    np.testing.assert_array_equal(t.numpy(), expected)
    assert sorted(old.numpy()) == list(range(64))
    volume = mk.Texture(np.full((2, 3, 4), 7, np.int32), "r32sint")
    kernel("texture3d<int, access::read_write> t", "t.atomic_fetch_min(uint3(3, 2, 1), int4(-5));")(volume, ndrange=1)
    assert volume.numpy()[1, 2, 3] == -5
    assert np.count_nonzero(volume.numpy() == 7) == 23


def test_cubes_in_arrays_gather_and_compare() -> None:
    faces = np.zeros((2, 6, 2, 2), np.float32)
    faces += 100 * np.arange(2).reshape(2, 1, 1, 1) + 10 * np.arange(6).reshape(1, 6, 1, 1) + np.arange(4).reshape(2, 2)
    cubes = mk.Texture(faces, "r32float", type="cube_array")
    out = mk.zeros(12, np.float32)
    body = """
        constexpr sampler s(compare_func::less);
        float3 d(0, 0, -1);
        o[0] = t.sample(s, d, 1).x;
        o[1] = t.read(uint2(1, 0), 4, 1).x;
        float4 g = t.gather(s, d, 1);
        o[2] = g.x; o[3] = g.y; o[4] = g.z; o[5] = g.w;
        o[6] = t.get_array_size();
        o[7] = z.sample_compare(s, d, 1, 152.5f);
        o[8] = z.read(uint2(0, 1), 5, 0);
        o[9] = z.gather_compare(s, d, 1, 151.5f).x;
        o[10] = t.sparse_sample(s, d, 1).resident();
        o[11] = z.sparse_read(uint2(0, 1), 5, 1).value();
    """
    parameters = "device float* o, texturecube_array<float> t, depthcube_array<float> z"
    depth = mk.Texture(faces, "depth32float", type="cube_array")
    kernel(parameters, body)(out, cubes, depth, ndrange=1)
    np.testing.assert_array_equal(out.numpy(), [153, 141, 152, 153, 151, 150, 2, 1, 52, 1, 1, 152])
