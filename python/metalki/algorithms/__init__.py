"""Array primitives, built on the public API: kernels in MSL, launched like anybody's. Loaded when first used."""

from __future__ import annotations

from . import arranging as _arranging
from . import extrema as _extrema
from . import functions as _functions
from . import operators as _operators
from . import reductions as _reductions
from . import scans as _scans
from . import selecting as _selecting
from .arranging import *  # noqa: F403
from .elementwise import broadcast as broadcast
from .extrema import *  # noqa: F403
from .functions import *  # noqa: F403
from .operators import *  # noqa: F403
from .reductions import *  # noqa: F403
from .scans import *  # noqa: F403
from .selecting import *  # noqa: F403

__all__ = [
    "broadcast",
    *_arranging.__all__,
    *_extrema.__all__,
    *_functions.__all__,
    *_operators.__all__,
    *_reductions.__all__,
    *_scans.__all__,
    *_selecting.__all__,
]
