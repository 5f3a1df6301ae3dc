# SPDX-License-Identifier: MIT
"""Adding to cffem from outside: schemes, norms, strategies, certifiers, projections, screening
methods and readers of data files. docs/extending.md shows each.

What is added is known by its name in models, studies, TOML files and error messages from then on,
in this process. Each function is loaded with its room when it is first used, so that the data wing
works without DOLFINx.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cffem.bounds.certifiers import add_certifier
    from cffem.constraints.projections.choose import add_projection
    from cffem.engine.deletion.strategies import add_strategy
    from cffem.engine.norms import add_norm
    from cffem.screening.screening import add_screening_method
    from cffem.study.toml.named_data import add_reader
    from cffem.symbols.problem.schemes import Scheme, add_scheme, composed

_HOME = {
    "Scheme": "cffem.symbols.problem.schemes",
    "add_certifier": "cffem.bounds.certifiers",
    "add_norm": "cffem.engine.norms",
    "add_projection": "cffem.constraints.projections.choose",
    "add_reader": "cffem.study.toml.named_data",
    "add_scheme": "cffem.symbols.problem.schemes",
    "add_strategy": "cffem.engine.deletion.strategies",
    "add_screening_method": "cffem.screening.screening",
    "composed": "cffem.symbols.problem.schemes",
}

__all__ = [
    "Scheme",
    "add_certifier",
    "add_norm",
    "add_projection",
    "add_reader",
    "add_scheme",
    "add_screening_method",
    "add_strategy",
    "composed",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'cffem.extend' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
