# SPDX-License-Identifier: MIT
"""Constraint classes: projections onto them, terms that vanish or coincide on them, and the library
that is left.

On data that obey a constraint, terms are identified only modulo what vanishes on the class M = {u :
c(u) = 0}. Importing this package gives `Model` its `constraint_nulls`; what needs SLEPc is loaded
when it is used.
"""

from __future__ import annotations

import importlib
from typing import Any

from cffem.engine.model import OFFERED

_HOME = {
    "projection": "choose",
    "projection_of": "choose",
    "ConstraintAnalysis": "nulls",
    "constraint_nulls": "nulls",
    "EffectiveLibrary": "effective",
    "effective_library": "effective",
}

__all__ = [
    "ConstraintAnalysis",
    "EffectiveLibrary",
    "constraint_nulls",
    "effective_library",
    "projection",
    "projection_of",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'cffem.constraints' has no attribute {name!r}")
    return getattr(importlib.import_module(f"cffem.constraints.{_HOME[name]}"), name)


def _constraint_nulls(*arguments: Any) -> Any:
    from cffem.constraints.nulls import constraint_nulls

    return constraint_nulls(*arguments)


OFFERED["constraint_nulls"] = _constraint_nulls
