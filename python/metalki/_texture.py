"""Textures and samplers for kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _array, _core, _device, _dtypes
from ._text import shown, unicode_text
from .errors import ArgumentError

__all__ = ["Sampler", "Texture"]

# name: elements of a pixel, numpy dtype of an element
_FORMATS = {name: (channels, np.dtype(_dtypes._NAMES[code])) for name, channels, code in _core.pixel_formats()}
# name: number as Metal has it, axes before the channels (outermost first)
_TYPES = {
    "1d": (0, "w"),
    "1d_array": (1, "lw"),
    "2d": (2, "hw"),
    "2d_array": (3, "lhw"),
    "cube": (5, "fhw"),
    "cube_array": (6, "lfhw"),
    "3d": (7, "dhw"),
}
_BY_AXES = {1: "1d", 2: "2d", 3: "3d"}
_USAGES = {"read": 0, "sample": 0, "write": 1, "read_write": 2}
_FILTERS = {"nearest": 0, "linear": 1}
_MIP_FILTERS = {"none": 0, "nearest": 1, "linear": 2}
_ADDRESSES = {
    "clamp_to_edge": 0,
    "mirror_clamp_to_edge": 1,
    "repeat": 2,
    "mirrored_repeat": 3,
    "clamp_to_zero": 4,
    "clamp_to_border": 5,
}


class Texture(_core.TextureBase):
    """An image for the `texture` arguments of kernels.

    `array_or_shape` is an array with the texels, rows outermost, or the shape of one; a shape gives a texture of zeros.
    An array of `(height, width)` makes a 2D texture, `(depth, height, width)` a 3D one, `(width,)` a 1D one; formats of
    several channels have them as a last axis, which a shape may leave out: `(6, 9)` and `(6, 9, 4)` are the same for
    "rgba8unorm". `type` says otherwise: "1d", "2d", "3d", and "1d_array", "2d_array", "cube", "cube_array" with the
    layers (and the six faces) as first axes.

    `pixel_format` is MTLPixelFormat's name in lower case: "rgba8unorm", "r32float". The dtype of the array is that of the
    format's memory: uint8 for "rgba8unorm", float16 for "rgba16float", uint32 for packed formats such as "rgb10a2unorm".
    `usage` is what kernels may do: "read", "write", "read_write" or "sample" (which is reading). `mip_levels` says how many
    levels there are, each half as large as the one before; the array fills the first one, `copy_from` the others.

    Raises ArgumentError for an array that does not fit the format, sizes that Metal does not have and unknown names, and
    OutOfMemoryError.
    """

    def __init__(
        self,
        array_or_shape: Any,
        pixel_format: str,
        usage: str = "read_write",
        *,
        type: str | None = None,
        mip_levels: int = 1,
        label: str = "",
        device: Any = None,
    ) -> None:
        if hasattr(self, "_shape"):
            raise ArgumentError("Texture: this one is made already; its size cannot change")
        channels, dtype = _choice(_FORMATS, pixel_format, "Texture", "pixel_format")
        access = _choice(_USAGES, usage, "Texture", "usage")
        if type is not None:
            _choice(_TYPES, type, "Texture", "type")
        host: np.ndarray | None = None
        if _is_shape(array_or_shape):
            axes = _axes_of_shape(_array._shape(array_or_shape, "Texture"), channels, type)
        else:
            host = _array.host_array(array_or_shape, "Texture")
            axes = _axes_of_array(host.shape, channels, type, pixel_format)
            _check_dtype(host, dtype, pixel_format, "Texture")
        name = type or _BY_AXES.get(len(axes))
        if name is None or len(axes) != len(_TYPES[name][1]):
            raise ArgumentError(
                f"Texture: {_expected(name, channels)} is expected for pixel format {pixel_format!r}, "
                f"{_given(array_or_shape, host)} was given"
            )
        number, letters = _TYPES[name]
        sizes = dict(zip(letters, axes, strict=True))
        if sizes.get("f", 6) != 6:
            raise ArgumentError(f"Texture: a cube has 6 faces, {sizes['f']} were given")
        if (
            isinstance(mip_levels, bool)
            or not isinstance(mip_levels, (int, np.integer))
            or not 1 <= mip_levels <= 2**31
        ):
            raise ArgumentError(f"Texture: mip_levels is a number from 1, {shown(mip_levels)} was given")
        if not isinstance(label, str):
            raise ArgumentError(f"Texture: label is a str, {shown(label)} was given")
        unicode_text("Texture: the label", label)
        chosen = _device.device() if device is None else _device.find_device(device)
        super().__init__(
            chosen,
            pixel_format,
            number,
            *(_size(sizes.get(letter, 1)) for letter in "whdl"),
            int(mip_levels),
            access,
            label,
        )
        self._type, self._usage = name, usage
        self._axes, self._channels = axes, (channels,) if channels > 1 else ()
        self._shape = (*axes, *self._channels)
        self._dtype: np.dtype[Any] = dtype
        if host is not None:
            self.copy_from(host)

    @property
    def type(self) -> str:
        """The texture's type: "2d", "3d", "cube" and so on."""
        return self._type

    @property
    def usage(self) -> str:
        """What kernels may do with it."""
        return self._usage

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of `numpy()`."""
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of `numpy()`: the format's elements in memory."""
        return self._dtype

    def level_shape(self, level: int) -> tuple[int, ...]:
        """The shape of `numpy(level)`: width, height and depth halve from level to level. Raises ArgumentError for others."""
        if isinstance(level, bool) or not isinstance(level, (int, np.integer)) or not 0 <= level < self.mip_levels:
            raise ArgumentError(f"Texture: level is 0 to {self.mip_levels - 1}, {shown(level)} was given")
        letters = _TYPES[self._type][1]
        halved = (
            max(n >> int(level), 1) if letter in "whd" else n for letter, n in zip(letters, self._axes, strict=True)
        )
        return (*halved, *self._channels)

    def numpy(self, level: int = 0) -> np.ndarray:
        """A copy of the texels of a level. Waits for the device first, and raises what it reported."""
        result = np.empty(self.level_shape(level), self._dtype)
        self._read(result.reshape(-1).view(np.uint8), int(level))
        return result

    def copy_from(self, source: Any, level: int = 0) -> None:
        """Replaces all texels of a level by those of an array of its shape and dtype. Waits for the device first.

        Raises ArgumentError for another shape or dtype and for a level that there is not.
        """
        shape = self.level_shape(level)
        host = _array.host_array(source, "Texture.copy_from")
        _check_dtype(host, self._dtype, self.pixel_format, "Texture.copy_from")
        if host.shape != shape and host.shape != (*shape, 1):
            raise ArgumentError(f"Texture.copy_from: shape {shape} is expected, shape {host.shape} was given")
        self._write(np.ascontiguousarray(host).reshape(-1).view(np.uint8), int(level))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("metalki.Texture: texels are read by a copy")
        texels = self.numpy()
        return texels if dtype is None else texels.astype(dtype, copy=False)

    def __repr__(self) -> str:
        if not hasattr(self, "_shape"):
            return "<metalki.Texture without memory>"
        return (
            f"metalki.Texture(shape={self._shape}, pixel_format={self.pixel_format!r}, usage={self._usage!r}, "
            f"type={self._type!r})"
        )


class Sampler(_core.SamplerBase):
    """How kernels look up textures, for `sampler` arguments.

    `filter` is "nearest" or "linear"; `address`, what lies beyond the edge, is "clamp_to_edge", "mirror_clamp_to_edge",
    "repeat", "mirrored_repeat", "clamp_to_zero" or "clamp_to_border" (transparent black). With `normalized` coordinates go
    from 0 to 1, else they count pixels, which needs an address that does not repeat. `mip_filter` is "none" (only the first
    level), "nearest" or "linear". Raises ArgumentError for anything else.
    """

    def __init__(
        self,
        filter: str = "nearest",
        address: str = "clamp_to_edge",
        normalized: bool = True,
        *,
        mip_filter: str = "none",
        device: Any = None,
    ) -> None:
        if hasattr(self, "_filter"):
            raise ArgumentError("Sampler: this one is made already")
        chosen_filter = _choice(_FILTERS, filter, "Sampler", "filter")
        chosen_address = _choice(_ADDRESSES, address, "Sampler", "address")
        chosen_mip = _choice(_MIP_FILTERS, mip_filter, "Sampler", "mip_filter")
        if not isinstance(normalized, (bool, np.bool_)):
            raise ArgumentError(f"Sampler: normalized is True or False, {shown(normalized)} was given")
        chosen = _device.device() if device is None else _device.find_device(device)
        super().__init__(chosen, chosen_filter, chosen_mip, chosen_address, bool(normalized))
        self._filter, self._address = filter, address

    @property
    def filter(self) -> str:
        """ "nearest" or "linear"."""
        return self._filter

    @property
    def address(self) -> str:
        """What lies beyond the edge."""
        return self._address

    def __repr__(self) -> str:
        if not hasattr(self, "_filter"):
            return "<metalki.Sampler without state>"
        return f"metalki.Sampler(filter={self._filter!r}, address={self._address!r}, normalized={self.normalized})"


def _choice(choices: dict[str, Any], value: Any, call: str, what: str) -> Any:
    if not isinstance(value, str) or value not in choices:
        raise ArgumentError(f"{call}: {what} is one of {', '.join(choices)}; {shown(value)} was given")
    return choices[value]


def _is_shape(value: Any) -> bool:
    if isinstance(value, (int, np.integer)):
        return True
    return isinstance(value, (tuple, list)) and all(isinstance(size, (int, np.integer)) for size in value)


def _axes_of_shape(shape: list[int], channels: int, type: str | None) -> list[int]:
    """The axes without the channels, which a shape may leave out."""
    wanted = 2 if type is None else len(_TYPES[type][1])
    named = channels > 1 and len(shape) > wanted and shape[-1] == channels
    return shape[:-1] if named or (type is not None and channels == 1 and shape[wanted:] == [1]) else shape


def _axes_of_array(shape: tuple[int, ...], channels: int, type: str | None, pixel_format: str) -> list[int]:
    if channels == 1:
        one_channel = type is not None and len(shape) == len(_TYPES[type][1]) + 1 and shape[-1] == 1
        return list(shape[:-1] if one_channel else shape)
    if len(shape) < 2 or shape[-1] != channels:
        raise ArgumentError(
            f"Texture: an array for pixel format {pixel_format!r} has {channels} channels as its last axis, "
            f"shape {tuple(shape)} was given"
        )
    return list(shape[:-1])


def _check_dtype(host: np.ndarray, dtype: np.dtype[Any], pixel_format: str, call: str) -> None:
    if host.dtype != dtype or not host.dtype.isnative:
        raise ArgumentError(
            f"{call}: dtype {dtype} is expected for pixel format {pixel_format!r}, dtype {host.dtype.str!r} was given"
        )


def _expected(name: str | None, channels: int) -> str:
    if name is None:
        return "an array of one to three axes" + (" and one for the channels" if channels > 1 else "")
    words = {"w": "width", "h": "height", "d": "depth", "l": "layers", "f": "6 faces"}
    axes = [words[letter] for letter in _TYPES[name][1]] + ([f"{channels} channels"] if channels > 1 else [])
    return f"({', '.join(axes)}) for type {name!r}"


def _given(value: Any, host: np.ndarray | None) -> str:
    return f"shape {shown(value)}" if host is None else f"an array of shape {host.shape}"


def _size(size: int) -> int:
    if size > 2**31:
        raise ArgumentError(f"Texture: a size of {shown(size)} is above what any texture has")
    return size
