"""Array primitives, built on the public API: kernels in MSL, launched like anybody's. Loaded when first used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from . import arranging as _arranging
from . import assigning as _assigning
from . import extrema as _extrema
from . import functions as _functions
from . import linalg as _linalg
from . import operators as _operators
from . import reductions as _reductions
from . import scans as _scans
from . import searching as _searching
from . import selecting as _selecting
from . import sorting as _sorting
from . import standard as _standard
from .arranging import *  # noqa: F403
from .assigning import *  # noqa: F403
from .elementwise import broadcast as broadcast
from .extrema import *  # noqa: F403
from .functions import *  # noqa: F403
from .linalg import *  # noqa: F403
from .operators import *  # noqa: F403
from .reductions import *  # noqa: F403
from .scans import *  # noqa: F403
from .searching import *  # noqa: F403
from .selecting import *  # noqa: F403
from .sorting import *  # noqa: F403
from .standard import *  # noqa: F403

__all__ = [
    "broadcast",
    *_arranging.__all__,
    *_assigning.__all__,
    *_extrema.__all__,
    *_functions.__all__,
    *_linalg.__all__,
    *_operators.__all__,
    *_reductions.__all__,
    *_scans.__all__,
    *_searching.__all__,
    *_selecting.__all__,
    *_sorting.__all__,
    *_standard.__all__,
    "bfloat16",  # noqa: F405
    "random",  # noqa: F405
]


def __getattr__(name: str) -> Any:
    """What few programs use: mk.random, and the dtype that needs ml_dtypes."""
    if name == "random":
        return import_module(".random", __name__)
    if name == "bfloat16":
        return import_module("metalki._dtypes").bfloat16()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
