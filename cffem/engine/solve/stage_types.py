# SPDX-License-Identifier: MIT
"""Names for what solvers hand around: value, rate and acceleration of a stage, and options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from petsc4py import PETSc

# (W, Ẇ, Ẅ) of a stage as vectors, and as owned values; None for a rate that the equation has not.
StageVectors: TypeAlias = tuple[PETSc.Vec, PETSc.Vec, PETSc.Vec]
StageValues: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]
# PETSc's options without prefix; None for one that is given without a value.
OptionValue: TypeAlias = str | int | float | bool | None
PetscOptions: TypeAlias = Mapping[str, OptionValue]
