"""Random kernels that do the same on every correct implementation, bit by bit.

Every thread writes to places of its own; what threads share goes through atomics whose order does not matter, or through
threadgroup memory between barriers. Loops end, indices and divisors are in range, floats are compared without the sign of NaN.
Which threads are active together in a SIMD function is told by the source's structure (docs/vectors.md).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from expressions import INTEGERS, SIZE, VECTORS
from group_statements import GroupStatements
from tree import Block, Expression, Statement

PRELUDE = Path(__file__).parent / "prelude.metal"
PARAMETERS = """device uint* o [[buffer(0)]], device ushort* os [[buffer(1)]], device uchar* oc [[buffer(2)]],
    device float4* ov [[buffer(3)]], device atomic_uint* at [[buffer(4)]], device const uint* a [[buffer(5)]],
    device const uchar* ac [[buffer(6)]], device const short* as [[buffer(7)]], device const long* al [[buffer(8)]],
    device const float* af [[buffer(9)]], device const half* ah [[buffer(10)]], device const uint4* av [[buffer(11)]],
    device const Record* rs [[buffer(12)]], constant Record& cr [[buffer(13)]], constant uint& n [[buffer(14)]],
    device atomic_ulong* aw [[buffer(15)]],
    uint3 gid [[thread_position_in_grid]], uint3 gsz [[threads_per_grid]]"""
OF_A_GROUP = """,
    uint3 lid3 [[thread_position_in_threadgroup]], uint lid [[thread_index_in_threadgroup]],
    uint3 tid [[threadgroup_position_in_grid]], uint3 tsz [[threads_per_threadgroup]],
    uint lane [[thread_index_in_simdgroup]], uint sid [[simdgroup_index_in_threadgroup]]"""


class Kernel(GroupStatements):
    """Writes one kernel."""

    def new(self, prefix: str = "v") -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def some_type(self) -> str:
        r = self.rng
        kinds = ["uint"] * 5 + ["int"] * 3 + list(INTEGERS) + ["bool", "uint4", "int2", "short3", "char4", "long2"]
        kinds += ["float", "float", "half", "bfloat", "float4", "half4", "half3", "bfloat2"] if self.floats else []
        return r.choice(kinds)

    def block(self, context: dict[str, Any], budget: int) -> Block:
        self.scopes.append([])
        uniform = len(self.uniform)
        out = Block()
        for _ in range(self.rng.randint(1, max(1, budget))):
            if self.left <= 0:
                break
            self.left -= 1
            out.statements.append(self.statement(context))
        del self.uniform[uniform:]
        self.scopes.pop()
        return out

    def assign(self) -> Statement:
        r = self.rng
        for _ in range(8):
            type_ = self.some_type()
            name = self.pick(type_, writable=True)
            if not name:
                continue
            if type_ in INTEGERS and r.random() < 0.4:
                return Statement(
                    [name, r.choice((" += ", " -= ", " ^= ", " |= ", " *= ")), self.expression(type_), ";"]
                )
            if type_ in VECTORS and r.random() < 0.4:
                element, size = VECTORS[type_]
                return Statement(
                    [
                        name,
                        "[",
                        self.expression("uint", 2),
                        f" % {size}u] = {element}(",
                        self.expression(element, 2),
                        ");",
                    ]
                )
            return Statement([name, " = ", self.expression(type_), ";"])
        return self.declare()

    def declare(self) -> Statement:
        type_ = self.some_type()
        value = self.expression(type_)
        name = self.new()
        self.scopes[-1].append((name, type_, True))
        return Statement([f"{type_} {name} = ", value, ";"])

    def statement(self, context: dict[str, Any]) -> Statement:
        r = self.rng
        depth = context["depth"]
        roll = r.random()
        inner = {**context, "depth": depth + 1}
        # A thread that leaves a loop with barriers alone would miss them.
        stays = {"loop": None} if context["loop"] == "uniform" else {}
        masked = {**inner, **stays, "uniform": False}
        if context["simd"] and r.random() < 0.3:
            return self.simd()
        if context["uniform"] and self.kind == "group" and r.random() < 0.3:
            return self.exchange()
        if depth < 4 and roll < 0.18:
            parts: list[str | Expression | Block] = ["if (", self.expression("bool"), ") {", self.block(masked, 3)]
            if r.random() < 0.5:
                parts += ["} else {", self.block(masked, 3)]
            return Statement([*parts, "}"])
        if depth < 4 and roll < 0.22:
            parts = ["if (((", self.same(), f") & {r.choice((1, 3))}u) == 0u) {{", self.block(inner, 3)]
            if r.random() < 0.5:
                parts += ["} else {", self.block(inner, 3)]
            return Statement([*parts, "}"])
        if depth < 3 and roll < 0.40:
            return self.loop(inner)
        if depth < 3 and roll < 0.45:
            return self.switch(masked)
        if roll < 0.51 and context["loop"] and depth > 0:
            word = r.choice(("break;", "continue;"))
            if context["loop"] == "divergent":
                return self.leaving(masked, word)
            return Statement(["if (((", self.same(), ") & 7u) == 5u) ", word])
        if roll < 0.52 and context["switch"]:
            return self.leaving(masked, "continue;" if context["switch"] == "divergent" else "break;")
        if roll < 0.54:
            return Statement(
                ["if (", self.expression("bool"), ") { o[own + 6u] = ", self.expression("uint"), "; return; }"]
            )
        if roll < 0.60:
            name, type_, size = r.choice(self.arrays)
            where = (
                Expression("uint", [str(r.randrange(size)) + "u"]) if r.random() < 0.3 else self.expression("uint", 2)
            )
            return Statement([name, "[", where, f" % {size}u] = ", self.expression(type_, 2), ";"])
        if roll < 0.66:
            return self.special()
        if roll < 0.74:
            return self.output()
        return self.declare() if r.random() < 0.4 else self.assign()

    def leaving(self, context: dict[str, Any], word: str) -> Statement:
        """Some threads leave, at once or after they have done something."""
        if context["depth"] > 4 or self.rng.random() < 0.5:
            return Statement(["if (", self.expression("bool"), ") ", word])
        return Statement(["if (", self.expression("bool"), ") {", self.block(context, 2), word + " }"])

    def output(self) -> Statement:
        r = self.rng
        choice = r.randrange(7)
        if choice == 0:
            return Statement(["os[i * 3u + ", str(r.randrange(3)), "u] = ", self.expression("ushort"), ";"])
        if choice == 1:
            return Statement(["oc[i * 4u + (", self.expression("uint", 2), " & 3u)] = ", self.expression("uchar"), ";"])
        if choice == 2 and self.floats:
            return Statement(
                ["{ float4 w = ", self.expression("float4"), "; ov[i] = select(w, float4(5.0f), isnan(w)); }"]
            )
        if choice == 3:
            return Statement(["at_or(at, ", self.expression("uint", 2), ", ", self.expression("uint", 2), ");"])
        if choice == 4:
            place, operation = r.choice(((0, "max"), (8, "min")))
            start = f"atomic_{operation}_explicit(&aw[{place}u + ("
            value = self.expression("ulong", 2)
            return Statement([start, self.expression("uint", 2), " & 7u)], ", value, ", memory_order_relaxed);"])
        return Statement([f"o[own + {r.randrange(6)}u] = ", self.expression("uint"), ";"])

    def special(self) -> Statement:
        r = self.rng
        name = self.pick("uint", writable=True) or "sum"

        def e(t: str = "uint") -> Expression:
            return self.expression(t, 2)

        choice = r.randrange(15)
        if choice == 11:
            return Statement([f"{name} += nested(a, ", e(), ", ", e(), ");"])
        if choice == 12:
            return Statement(
                [
                    f"{{ Pair p = changed(Pair{{{name}, ",
                    e("short"),
                    ", ",
                    e("ulong"),
                    "}, rs[",
                    e(),
                    f" & 63u]); {name} ^= p.x + bits(p.z); }}",
                ]
            )
        if choice == 13:
            return Statement([f"if (chosen && many_times > 2u) {name} += ", e(), "; else ", f"{name} ^= many_times;"])
        if choice == 14:
            return Statement(
                [f"for (uint j = 0; j < many_times; ++j) {name} = {name} * 3u + a[(", e(), " + j) & 1023u];"]
            )
        if choice == 0:
            distance = r.choice((1, 1, 2, 3))
            return Statement([f"if (i >= {distance}u) {name} += a[min(i, {SIZE - 1}u) - {distance}u];"])
        if choice == 1:
            return Statement([f"if (gid.x > 0u && gid.x < {SIZE}u) {name} ^= a[gid.x - 1u] + uint(as[gid.x - 1u]);"])
        if choice == 2:
            other = self.new("d")
            t = r.choice(("uint", "ulong", "ushort", "uchar"))
            return Statement(
                [
                    f"{{ {t} {other} = ",
                    self.expression(t, 2),
                    f"; if ({other} != 0) {name} += uint(",
                    self.expression(t, 2),
                    r.choice((" / ", " % ")),
                    f"{other}); }}",
                ]
            )
        if choice == 3:
            return Statement([f"{name} += walk(a + (", e(), " & 511u), ", e(), ");"])
        if choice == 4:
            return Statement(
                [f"{name} ^= through(", r.choice(("four", "arr", "arr + 2", "&arr[i & 3u]")), ", ", e(), ");"]
            )
        if choice == 5:
            return Statement(
                [
                    "{ thread uint* p = ",
                    e("bool"),
                    " ? arr : four; p[",
                    e(),
                    f" & 3u] += 1u; {name} += p[",
                    e(),
                    " & 3u]; }",
                ]
            )
        if choice == 6:
            return Statement(
                [
                    "{ device const Record* p = rs + (",
                    e(),
                    f" & 63u); {name} += p->a + uint(p->t[",
                    e(),
                    " & 3u]) + bits(p->v) + bits(p->f); }",
                ]
            )
        if choice == 7:
            return Statement(
                [
                    "{ Pair p = {",
                    e(),
                    ", ",
                    e("short"),
                    ", ",
                    e("ulong"),
                    "}, q = p; if (",
                    e("bool"),
                    f") {{ q.x += 1u; q.z ^= p.x; }} {name} += q.x ^ bits(q.z) ^ bits(q.y); }}",
                ]
            )
        if choice == 8:
            return Statement(["{ uint low, high; split(", e(), f", low, high); {name} += low * 3u + high; }}"])
        if choice == 9:
            place, operation = r.choice(list(enumerate(("add", "or", "xor", "max", "min", "and"))))
            start = f"atomic_fetch_{operation}_explicit(&at[{16 * place}u + ("
            return Statement([start, e(), " & 15u)], ", e(), ", memory_order_relaxed);"])
        return Statement(
            [
                "{ device const uchar* p = (device const uchar*)a + (",
                e(),
                f" & 1023u); {name} += p[",
                e(),
                f" & 255u]; {name} ^= *(device const ushort*)(ac + ((",
                e(),
                " & 255u) * 2u)); }",
            ]
        )

    def switch(self, context: dict[str, Any]) -> Statement:
        r = self.rng
        inside = {**context, "loop": None, "switch": context["loop"] or "none"}
        count = r.randint(2, 4)
        parts: list[str | Expression | Block] = ["switch (", self.expression("uint", 2), f" % {count + 1}u) {{\n"]
        for k in range(count):
            parts += [f" case {k}: {{", self.block(inside, 2), "} " + r.choice(("break;", "break;", "")) + "\n"]
        if r.random() < 0.6:
            parts += [" default: {", self.block(inside, 2), "}\n"]
        return Statement([*parts, " }"])

    def loop(self, context: dict[str, Any]) -> Statement:
        r = self.rng
        same = r.random() < (0.6 if context["uniform"] else 0.3)
        barriers = same and context["uniform"]
        inside = {
            **context,
            "simd": context["simd"] and r.random() < 0.7,
            "uniform": barriers,
            "loop": "uniform" if barriers else "divergent",
            "switch": None,
        }
        counter = self.new("k")
        limit = Expression("uint", ["(", self.expression("uint", 2), f") % {r.choice((3, 6))}u"])
        if same:
            limit = Expression("uint", ["((", self.same(), ") & 3u) + 1u"])
        bound = self.new("n")
        start = f"const uint {bound} = "
        kind = r.randrange(5)
        self.scopes.append([(counter, "uint", False)])
        if same:
            self.uniform.append(counter)
        body = self.block(inside, 4)
        if same:
            self.uniform.remove(counter)
        self.scopes.pop()
        if kind == 0:
            return Statement(
                [
                    f"{{ {start}",
                    limit,
                    f"; uint {counter} = 0; while ({counter} < {bound}) {{ ++{counter};",
                    body,
                    "} }",
                ]
            )
        if kind == 1:
            return Statement(
                [
                    f"{{ {start}",
                    limit,
                    f"; uint {counter} = 0; do {{",
                    body,
                    f"}} while (++{counter} < {bound}); }}",
                ]
            )
        if kind == 4:
            return Statement(
                [
                    f"{{ {start}",
                    limit,
                    f"; for (uint {counter} = 0;;) {{ if (++{counter} > {bound}) break;",
                    body,
                    "} }",
                ]
            )
        if kind == 2:
            return Statement(
                [
                    f"{{ {start}",
                    limit,
                    f"; for (uint {counter} = {bound}; {counter} > 0u; --{counter}) {{",
                    body,
                    "} }",
                ]
            )
        return Statement(
            [
                f"{{ {start}",
                limit,
                f"; for (uint {counter} = 0; {counter} < {bound}; ++{counter}) {{",
                body,
                "} }",
            ]
        )

    def body(self) -> Block:
        r = self.rng
        top = self.scopes[0]
        top += [
            ("i", "uint", False),
            ("sum", "uint", True),
            ("gid.x", "uint", False),
            ("gid.y", "uint", False),
            ("x0", "int", True),
        ]
        start = [
            "const uint i = gid.x + gsz.x * (gid.y + gsz.y * gid.z), own = i * 8u; uint sum = 1u; int x0 = int(i) - 40;"
        ]
        start += ["uint arr[8] = {1, 2, 3, 4, 5, 6, 7, i}; uint four[4] = {n, 1, i, 3};"]
        if r.random() < 0.3:
            size = r.choice((3, 4, 6, 16))
            t = r.choice(
                ["uchar", "ushort", "uint4", "ulong", "int2"] + (["float", "half", "float4"] if self.floats else [])
            )
            self.arrays.append(("extra", t, size))
            start.append(f"{t} extra[{size}] = {{}};")
        if self.kind != "flat":
            top += [
                ("lid", "uint", False),
                ("lane", "uint", False),
                ("sid", "uint", False),
                ("lid3.x", "uint", False),
                ("lid3.y", "uint", False),
            ]
            self.uniform += ["tid.x", "tid.y", "tsz.x"]
        if self.kind == "group":
            start += [
                "threadgroup uint tg[1024]; threadgroup uchar tc[1024]; threadgroup atomic_uint ta[8];",
                "threadgroup float tf[2048];",
                "const uint many = tsz.x * tsz.y * tsz.z;",
                "for (uint j = lid; j < 1024u; j += many) { tg[j] = j * 7u; tc[j] = uchar(j); }",
                "for (uint j = lid; j < 2048u; j += many) tf[j] = 1.0f;",
                "for (uint j = lid; j < 8u; j += many) atomic_store_explicit(&ta[j], j, memory_order_relaxed);",
                "threadgroup_barrier(mem_flags::mem_threadgroup);",
            ]
        out = Block([Statement([line], fixed=True) for line in start])
        context = {"depth": 0, "uniform": True, "simd": self.kind != "flat", "loop": None, "switch": None}
        while self.left > 0:
            self.left -= 1
            out.statements.append(self.statement(context))
        for name, _, writable in top:
            if writable:
                out.statements.append(Statement([f"sum = sum * 31u + bits({name});"]))
        for name, _, size in self.arrays:
            out.statements.append(Statement([f"for (uint j = 0; j < {size}u; ++j) sum = sum * 7u + bits({name}[j]);"]))
        out.statements.append(Statement(["o[own + 7u] = sum;"]))
        return out


def kernel_tree(seed: int, floats: bool) -> tuple[Kernel, Block]:
    """One kernel and the tree of its body."""
    kernel = Kernel(seed, floats)
    return kernel, kernel.body()


def kernel_text(kernel: Kernel, body: Block, name: str) -> str:
    """The kernel as MSL."""
    more = "" if kernel.kind == "flat" else OF_A_GROUP
    return f"kernel void {name}({PARAMETERS}{more}) {{\n{body.text('    ')}}}\n"


def source(kernels: list[str]) -> str:
    """A whole source."""
    return PRELUDE.read_text() + "".join(kernels)
