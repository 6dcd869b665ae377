"""Draws the Mandelbrot set into a PNG file: `python mandelbrot.py [FILE]`."""

from __future__ import annotations

import struct
import sys
import tempfile
import zlib
from pathlib import Path

import numpy as np

import metalki as mk

SOURCE = """
#include <metal_stdlib>
using namespace metal;
kernel void mandelbrot(device uchar4* image, constant uint& width, constant float2& corner, constant float& step,
                       uint2 p [[thread_position_in_grid]]) {
    float2 c = corner + step * float2(p), z = 0;
    uint n = 0;
    for (; n < 300 && dot(z, z) < 16; ++n)
        z = float2(z.x * z.x - z.y * z.y, 2 * z.x * z.y) + c;
    float4 colour = float4(0, 0, 0, 1);
    if (n < 300)
        colour.xyz = 0.5f + 0.5f * cos(3.0f + 0.12f * float(n) + float3(0.0f, 0.6f, 1.0f));
    image[p.y * width + p.x] = uchar4(round(colour * 255));
}
"""


def png(pixels: np.ndarray) -> bytes:
    """An RGBA image of shape (height, width, 4) as a PNG file."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width = pixels.shape[:2]
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")


def main(arguments: list[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    path = Path(given[0]) if given else Path(tempfile.gettempdir()) / "mandelbrot.png"
    width, height = 768, 512
    image = mk.empty((height, width, 4), np.uint8)
    mk.Kernel(SOURCE)(image, width, (-2.25, -1.0 - 1 / 256), 1 / 256, ndrange=(width, height))
    pixels = image.numpy()
    path.write_bytes(png(pixels))
    inside = float((pixels[..., :3].sum(axis=2) == 0).mean())
    area = inside * 3 * 2  # of the part of the plane shown; the set's own is 1.5066, 300 steps see a little more
    right = 1.50 < area < 1.55 and bool((pixels[..., 3] == 255).all())
    print(f"mandelbrot: {width}x{height}, area {area:.3f}, {'right' if right else 'WRONG'}, written to {path}")
    return 0 if right else 1


if __name__ == "__main__":
    raise SystemExit(main())
