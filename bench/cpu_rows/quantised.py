"""ggml's quantised matrix times vector beside the bandwidth of memory; needs ggml's sources (tests/realworld/README.md)."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import metalki as mk

from .row import Peer, Row, in_parts, near, random


def mat_vecs() -> Iterator[Row]:
    folder = os.environ.get("METALKI_REALWORLD_SOURCES")
    found = sorted(Path(folder).glob("*ggml*")) if folder else []
    if not found:
        return
    root = found[0]
    sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "realworld"))
    import ggml
    from test_numerics_ggml import mat_vec_members

    rows = columns = 4096
    limits = (root / "src/ggml-metal/ggml-metal-impl.h").read_text(encoding="utf-8")
    stream, sink = np.ones(1 << 26, np.float32), np.zeros(1 << 26, np.float32)
    copy_part = in_parts(lambda begin, end: np.copyto(sink[begin:end], stream[begin:end]), stream.size)
    for kind in ("q4_0", "q8_0", "q4_K"):
        of_group, groups = (int(re.findall(rf"{what}_{kind.upper()}\s+(\d+)", limits)[0]) for what in ("N_R0", "N_SG"))
        blocks, values = ggml.BLOCKS[kind][0](random, rows, columns)
        x = random.standard_normal((1, columns)).astype(np.float32)
        options = ggml.args(root, "mul_mv", **mat_vec_members(blocks.nbytes // rows, columns, rows, x))
        constants = {"FC_mul_mv_nsg": groups, "FC_mul_mv_ne12": 1, "FC_mul_mv_r2": 1, "FC_mul_mv_r3": 1}
        k = ggml.kernel(root, f"kernel_mul_mv_{kind}_f32", **constants)
        w, v, out = ggml.raw(blocks), ggml.raw(x), ggml.out((1, rows), np.float32)
        shares_rows = kind == "q8_0"  # all SIMD-groups of a group work on the same rows
        scratch = [mk.threadgroup(32 * 4 * of_group)] if len(k.arguments) == 5 else []
        per_group = of_group if shares_rows else of_group * groups

        def run(k=k, options=options, w=w, v=v, out=out, scratch=scratch, per_group=per_group, groups=groups) -> None:  # type: ignore[no-untyped-def]
            k(options, w, v, out, *scratch, numworkgroups=(rows // per_group, 1, 1), workgroupsize=(32, groups, 1))

        def right(out=out, x=x, values=values) -> bool:  # type: ignore[no-untyped-def]
            return near(ggml.result(out, (1, rows), np.float32), x.astype(np.float64) @ values.T, 1e-3)

        # A copy of as many bytes in all (read and written) as the blocks have: the time is what memory's bandwidth allows.
        share = blocks.nbytes / (2 * stream.nbytes)
        peer = Peer(f"bandwidth of {blocks.nbytes / 1e6:.1f} MB", copy_part, 1 / 0.6, share)
        yield Row(f"ggml {kind} mat-vec", run, right, [peer])
