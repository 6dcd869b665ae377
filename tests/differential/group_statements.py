"""Statements in which the threads of a SIMD-group or of a threadgroup tell each other something."""

from __future__ import annotations

from expressions import FLOATS, Expressions
from tree import Expression, Statement


class GroupStatements(Expressions):
    """SIMD functions, and exchanges by way of threadgroup memory between barriers."""

    def same(self, depth: int = 2) -> Expression:
        """A value that all threads of a threadgroup agree on."""
        r = self.rng
        if depth == 0 or r.random() < 0.4:
            return Expression("uint", [r.choice([*self.uniform, "3u", "5u"])])
        return Expression(
            "uint", ["(", self.same(depth - 1), r.choice((" + ", " * ", " ^ ", " >> 1 | ")), self.same(depth - 1), ")"]
        )

    def simd(self) -> Statement:
        r = self.rng
        kinds = ["uint", "uint", "int", "ushort", "short", "uchar", "char"]
        type_ = r.choice(kinds + (["float", "half", "bfloat"] if self.floats else []))
        name = self.pick(type_, writable=True)
        if not name:
            type_, name = "uint", "sum"

        def e() -> Expression:
            return self.expression(type_, 2)

        def lane(size: int) -> Expression:
            return Expression("ushort", ["ushort(", self.expression("uint", 2), f" & {size - 1}u)"])

        prefix = r.choice(("simd_", "simd_", "simd_", "quad_"))
        size = 32 if prefix == "simd_" else 4
        choice = r.randrange(16)
        if choice == 0:
            return Statement([f"{name} = {prefix}shuffle(", e(), ", ", lane(size), ");"])
        if choice == 1:
            return Statement(
                [
                    f"{name} = {prefix}shuffle_",
                    r.choice(("up", "down", "xor")),
                    "(",
                    e(),
                    f", ushort({r.choice((0, 1, 2, 3, 16, 31) if size == 32 else (0, 1, 2, 3))}));",
                ]
            )
        if choice == 12:
            return Statement(
                [
                    f"{name} = {prefix}shuffle_",
                    r.choice(("up", "down", "xor", "rotate_up", "rotate_down")),
                    "(",
                    e(),
                    ", ",
                    lane(size),
                    ");",
                ]
            )
        if choice == 13:
            modulo = f", ushort({r.choice((1, 2, 4, 8, 32) if size == 32 else (1, 2, 4))})" if r.random() < 0.5 else ""
            return Statement(
                [
                    f"{name} = {prefix}shuffle_and_fill_",
                    r.choice(("up", "down")),
                    "(",
                    e(),
                    ", ",
                    e(),
                    ", ",
                    lane(size),
                    f"{modulo});",
                ]
            )
        if choice == 14:
            return Statement(
                [
                    f"{name} = {type_}({r.choice(('served', 'served', 'halved'))}(",
                    self.expression("uint", 2),
                    ", ",
                    self.expression("uint", 2),
                    "));",
                ]
            )
        if choice == 15:
            return Statement(
                ["{ uint4 q = simd_shuffle(", self.expression("uint4", 2), ", ", lane(32), "); sum += bits(q); }"]
            )
        if choice == 2:
            return Statement(
                [
                    f"{name} = {prefix}shuffle_rotate_",
                    r.choice(("up", "down")),
                    "(",
                    e(),
                    f", ushort({r.choice((0, 1, 2, 3))}));",
                ]
            )
        if choice == 3:
            return Statement([f"{name} = {prefix}broadcast(", e(), f", ushort({r.randrange(size)}));"])
        if choice == 4:
            return Statement([f"{name} = {prefix}broadcast_first(", e(), ");"])
        if choice == 5:
            vote = r.choice(("any", "all"))
            return Statement([f"if ({prefix}{vote}(", self.expression("bool", 2), f")) {name} += 1; "])
        if choice == 6:
            return Statement([f"sum ^= uint(ulong({prefix}ballot(", self.expression("bool", 2), ")));"])
        if choice in (7, 11):
            return (
                Statement([f"if ({prefix}is_first()) {name} += 2; "])
                if r.random() < 0.5
                else Statement([f"sum += uint(ulong({prefix}active_threads_mask()));"])
            )
        if type_ in FLOATS:
            # No zeros of both signs, nor NaN, whose order processors do not know.
            operation = r.choice(("sum", "min", "max", "product", "prefix_inclusive_sum", "prefix_exclusive_sum"))
            number = [f"{type_}(", self.expression("char", 2), " | 1) / ", f"{type_}({r.choice((1, 3, 7))})"]
            return Statement([f"{name} = {prefix}{operation}(", *number, ");"])
        if choice < 10:
            return Statement(
                [f"{name} = {prefix}", r.choice(("sum", "min", "max", "and", "or", "xor", "product")), "(", e(), ");"]
            )
        return Statement(
            [
                f"{name} = {prefix}",
                r.choice(
                    (
                        "prefix_inclusive_sum",
                        "prefix_exclusive_sum",
                        "prefix_inclusive_product",
                        "prefix_exclusive_product",
                    )
                ),
                "(",
                e(),
                ");",
            ]
        )

    def exchange(self) -> Statement:
        r = self.rng
        name = self.pick("uint", writable=True) or "sum"
        barrier = "threadgroup_barrier(mem_flags::mem_threadgroup);"
        choice = r.randrange(7)
        if choice == 6 and self.floats:
            own = "tf + sid * 64u"
            fill = "for (uint j = lane; j < 64u; j += lanes) tf[sid * 64u + j] = float(a[(j * 5u + "
            product = "simdgroup_float8x8 p, q, r = simdgroup_float8x8(2.0f); "
            product += f"simdgroup_load(p, {own}); simdgroup_load(q, {own}, 8, ulong2(0), true); "
            product += r.choice(("simdgroup_multiply(r, p, q); ", "simdgroup_multiply_accumulate(r, p, q, r); "))
            end = f"simdgroup_store(r, {own}); {barrier} {name} += bits(tf[(lid * 3u) & 63u]); {barrier}"
            return Statement(
                [
                    "{ const uint lanes = min(32u, many - sid * 32u); ",
                    fill,
                    self.same(),
                    f") & 1023u] & 255u); {barrier} ",
                    product,
                    end,
                    " }",
                ]
            )
        if choice == 0:
            return Statement(
                [
                    "tc[lid] = ",
                    self.expression("uchar"),
                    f"; {barrier} {name} += tc[(lid + ",
                    self.expression("uint", 2),
                    f") % many]; {barrier}",
                ]
            )
        if choice == 1:
            return Statement(
                [
                    "atomic_fetch_add_explicit(&ta[",
                    self.expression("uint", 2),
                    " & 7u], ",
                    self.expression("uint", 2),
                    f", memory_order_relaxed); {barrier} {name} ^= atomic_load_explicit(&ta[",
                    self.expression("uint", 2),
                    f" & 7u], memory_order_relaxed); {barrier}",
                ]
            )
        if choice == 2:
            step = self.new("s")
            halves = f"for (uint {step} = 64u; {step} > 0u; {step} >>= 1)"
            add = f"if (lid < {step} && lid + {step} < many) tg[lid] += tg[lid + {step}];"
            end = f"; {barrier} {halves} {{ {add} {barrier} }} {name} += tg[0]; {barrier}"
            return Statement(["tg[lid] = ", self.expression("uint"), end])
        if choice == 3:
            return Statement(
                [
                    "if (",
                    self.expression("bool"),
                    ") tg[lid] = ",
                    self.expression("uint"),
                    f"; {barrier} if (lid + 1u < many && ",
                    self.expression("bool"),
                    f") {name} ^= tg[lid + 1u]; {barrier}",
                ]
            )
        if r.random() < 0.5:
            bits = self.same()
            return Statement(
                [
                    "tg[lid] = ",
                    self.expression("uint"),
                    f"; {barrier} if ((lid ^ (",
                    bits,
                    f" & 63u)) < many) {name} ^= tg[lid ^ (",
                    bits,
                    f" & 63u)]; {barrier}",
                ]
            )
        return Statement(
            [
                "tg[lid] = ",
                self.expression("uint"),
                f"; {barrier} {name} ^= tg[(lid ",
                r.choice(("+", "^", "*")),
                " ",
                self.same(),
                f") % many]; {barrier}",
            ]
        )
