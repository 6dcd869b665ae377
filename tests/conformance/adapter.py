"""Runs conformance cases with metalki: `python check.py --adapter adapter:MetalkiAdapter`."""

from __future__ import annotations

from typing import Any

import numpy as np

import metalki as mk


def _memory(value: Any, argument: Any) -> Any:
    """Case data travels as plain integers for bool and bfloat16; gives it the element type that the kernel declares."""
    if argument is None or argument.dtype is None or not isinstance(value, np.ndarray):
        return value
    wanted = argument.dtype
    if (wanted.name == "bfloat16" and value.dtype == np.uint16) or (wanted == np.bool_ and value.dtype == np.uint8):
        return value.view(wanted)
    return value


class MetalkiAdapter:
    """The one method that the runner asks for."""

    def run(self, case: dict[str, Any]) -> dict[Any, np.ndarray]:
        kernel = mk.Kernel(
            case["source"],
            case["kernel"],
            function_constants=self._constants(case),
            options={"math_mode": case.get("compile", {}).get("math_mode", "safe")},
        )
        resources = {r["name"]: mk.array(r["value"]) for r in case["resources"]}
        for resource in case["resources"]:
            self._store_pointers(resource, resources[resource["name"]].numpy().reshape(-1).view(np.uint8), resources)
        arguments, outputs = self._arguments(case, kernel, resources)
        kernel.launch(
            arguments,
            ndrange=tuple(case["grid"]),
            workgroupsize=tuple(case["threadgroup"]),
            uses=tuple(resources.values()),
        )
        mk.synchronize()
        result: dict[Any, np.ndarray] = {}
        for arg in case["args"]:
            if arg["kind"] == "buffer" and arg["access"] != "in":
                result[arg["index"]] = self._plain(outputs[arg["index"]]).view(arg["value"].dtype)
            elif arg["kind"] == "texture" and arg["access"] in ("write", "read_write"):
                result[f"texture:{arg['index']}"] = outputs[f"texture:{arg['index']}"].numpy()
        for resource in case["resources"]:
            if resource["access"] != "in":
                result["resource:" + resource["name"]] = resources[resource["name"]].numpy()
        return result

    @staticmethod
    def _plain(array: Any) -> np.ndarray:
        host = array.numpy() if isinstance(array, mk.Array) else array
        if host.dtype.name == "bfloat16":
            return host.view(np.uint16)
        return host.view(np.uint8) if host.dtype == np.bool_ else host

    @staticmethod
    def _constants(case: dict[str, Any]) -> dict[Any, Any] | None:
        if "constants" not in case:
            return None
        result: dict[Any, Any] = {}
        for constant in case["constants"]:
            key = constant["index"] if "index" in constant else constant["name"]
            value = constant["value"]
            result[key] = tuple(value) if isinstance(value, list) else value
        return result

    @staticmethod
    def _store_pointers(owner: dict[str, Any], memory: np.ndarray, resources: dict[str, mk.Array]) -> None:
        for pointer in owner.get("pointers", []):
            address = resources[pointer["resource"]].gpu_address + pointer.get("byte_offset", 0)
            memory[pointer["offset"] : pointer["offset"] + 8] = np.frombuffer(np.uint64(address).tobytes(), np.uint8)

    def _arguments(
        self, case: dict[str, Any], kernel: mk.Kernel, resources: dict[str, mk.Array]
    ) -> tuple[tuple[Any, ...], dict[Any, Any]]:
        """The arguments in call order: Metal's indices are looked up in the kernel's own list."""
        positions = {(a.kind, a.index): i for i, a in enumerate(kernel.arguments)}
        values: list[Any] = [None] * len(positions)
        given: set[tuple[str, int]] = set()
        extra: list[Any] = []
        outputs: dict[Any, Any] = {}
        for arg in case["args"]:
            own_table = arg["kind"] in ("threadgroup", "texture", "sampler")
            key = (arg["kind"] if own_table else "buffer", arg["index"])
            position = positions.get(key)
            argument = None if position is None else kernel.arguments[position]
            value = self._value(arg, argument, resources, "host" in arg)
            if arg["kind"] == "buffer" and arg["access"] != "in":
                outputs[arg["index"]] = value
            elif arg["kind"] == "texture":
                outputs[f"texture:{arg['index']}"] = value
            if position is None or key in given:
                extra.append(value)  # the launch refuses what the kernel does not declare
            else:
                values[position] = value
                given.add(key)
        return (*values, *extra), outputs

    def _value(self, arg: dict[str, Any], argument: Any, resources: dict[str, mk.Array], as_given: bool) -> Any:
        if arg["kind"] == "threadgroup":
            return mk.threadgroup(arg["bytes"])
        if arg["kind"] == "sampler":
            return mk.Sampler(filter=arg["filter"], address=arg["address"], normalized=arg["normalized"])
        value = arg["value"]
        if arg["kind"] == "texture":
            return mk.Texture(value, arg["pixel_format"], usage=arg["access"])
        if as_given:
            return value
        if "pointers" in arg:
            self._store_pointers(arg, value.reshape(-1).view(np.uint8), resources)
        if arg["kind"] == "buffer":
            array = mk.array(_memory(value, argument))
            # Plain numbers for a struct: the contract wants the reinterpretation spelled out.
            return array.view(np.uint8) if argument is not None and argument.dtype is None else array
        if arg["kind"] == "struct":
            return value.tobytes()
        if argument is not None and argument.dtype is None:
            return value.tobytes()
        value = _memory(value, argument)
        return value.reshape(-1)[0] if value.size == 1 else value
