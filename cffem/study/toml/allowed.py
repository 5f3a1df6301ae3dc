# SPDX-License-Identifier: MIT
"""What a study file from a stranger may name: PETSc options that only choose numbers and methods,
and paths in its own folder.

PETSc's options can load libraries, run Python, open files and start debuggers, so a study file gets
those that are listed here with the values that are listed here, and nothing else. A program of
one's own may use any.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cffem.study.toml.study_keys import is_number, shown
from cffem.symbols.errors import InputError, nearest

KSP = """
preonly richardson cg gmres fgmres lgmres bcgs bicg minres symmlq cr gcr tfqmr chebyshev
"""
PC = """
none jacobi bjacobi sor asm ilu icc lu cholesky hypre gamg fieldsplit
"""
# The largest value of each number: beyond it a solve would take for ever, or more memory than there
# is, for nothing.
LARGEST: dict[str, float] = {
    "snes_rtol": 1,
    "snes_max_it": 10_000,
    "ksp_rtol": 1,
    "ksp_atol": 1e300,
    "ksp_max_it": 100_000,
    "ksp_gmres_restart": 1000,
    "pc_factor_levels": 20,
    "pc_factor_fill": 100,
    "pc_factor_shift_amount": 1e300,
    "pc_sor_omega": 2,
    "pc_sor_its": 1000,
    "pc_asm_overlap": 20,
    "pc_hypre_boomeramg_max_iter": 1000,
    "pc_hypre_boomeramg_tol": 1,
    "pc_hypre_boomeramg_strong_threshold": 1,
    "pc_hypre_boomeramg_max_levels": 100,
    "pc_hypre_boomeramg_agg_nl": 100,
    "pc_hypre_boomeramg_P_max": 1000,
    "pc_hypre_ams_cycle_type": 14,
    "pc_gamg_threshold": 1,
    "pc_gamg_agg_nsmooths": 20,
    "mat_mumps_icntl_7": 7,
    "mat_mumps_icntl_10": 100,
    "mat_mumps_icntl_13": 1,
    "mat_mumps_icntl_14": 1000,
    "mat_mumps_icntl_24": 1,
    "mat_mumps_icntl_28": 2,
    "mat_mumps_icntl_29": 2,
    "mat_mumps_cntl_1": 1,
    "mat_mumps_cntl_3": 1e300,
}
SMALLEST: dict[str, float] = {
    "pc_gamg_threshold": -1,
    "mat_mumps_icntl_10": -100,
    "mat_mumps_icntl_13": -1,
    "mat_mumps_cntl_1": -1,
    "mat_mumps_cntl_3": -1e300,
}
WORDS: dict[str, Iterable[str]] = {
    "preset": ["direct", "amg", "ams", "stokes", "ilu", "marching"],
    "snes_linesearch_type": ("bt", "basic"),
    "ksp_type": KSP.split(),
    "ksp_pc_side": ("left", "right", "symmetric"),
    "ksp_norm_type": ("none", "preconditioned", "unpreconditioned", "natural", "default"),
    "pc_type": PC.split(),
    "pc_side": ("left", "right", "symmetric"),
    "pc_factor_mat_solver_type": ("mumps", "petsc", "superlu_dist"),
    "pc_factor_mat_ordering_type": ("natural", "nd", "1wd", "rcm", "qmd", "external"),
    "pc_factor_shift_type": ("none", "nonzero", "positive_definite", "inblocks"),
    "pc_hypre_type": ("boomeramg", "ams", "ads", "euclid"),
    "pc_hypre_boomeramg_coarsen_type": (
        "CLJP",
        "Ruge-Stueben",
        "modifiedRuge-Stueben",
        "Falgout",
        "PMIS",
        "HMIS",
    ),
    "pc_hypre_boomeramg_interp_type": (
        "classical",
        "direct",
        "multipass",
        "standard",
        "ext+i",
        "ext+i-cc",
        "FF",
        "FF1",
    ),
    "pc_hypre_boomeramg_relax_type_all": (
        "Jacobi",
        "SOR/Jacobi",
        "symmetric-SOR/Jacobi",
        "l1scaled-SOR/Jacobi",
        "Chebyshev",
    ),
    "pc_fieldsplit_type": ("additive", "multiplicative", "symmetric_multiplicative", "schur"),
    "pc_fieldsplit_schur_fact_type": ("diag", "lower", "upper", "full"),
    "pc_gamg_type": ("agg", "classical"),
}
PREFIX = re.compile(r"^(?:(?:sub|fieldsplit_velocity|fieldsplit_pressure|fieldsplit_[01])_)*")


def check_petsc_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, if each is one that a study file may set.

    Raises:
        InputError: naming the first option or value that is not allowed.

    Example:
        >>> check_petsc_options({"ksp_type": "cg", "ksp_rtol": 1e-9})
        {'ksp_type': 'cg', 'ksp_rtol': 1e-09}
        >>> check_petsc_options({"pc_type": "python"})
        Traceback (most recent call last):
        ...
        cffem.symbols.errors.InputError: the PETSc option pc_type cannot be 'python' in a study
            file; it can be none, jacobi, ...
    """
    for key, value in options.items():
        name = PREFIX.sub("", str(key)[:200])
        if name in WORDS:
            if not isinstance(value, str) or value not in WORDS[name]:
                known = ", ".join(WORDS[name])
                raise InputError(
                    f"the PETSc option {key} cannot be {shown(value)} in a study file; it can be "
                    f"{known}"
                )
        elif name in LARGEST:
            low, high = SMALLEST.get(name, 0), LARGEST[name]
            if not is_number(value) or not low <= value <= high:
                raise InputError(
                    f"the PETSc option {key} needs a number from {low:g} to {high:g} in a study "
                    f"file, not {shown(value)}"
                )
        else:
            raise InputError(
                f"the PETSc option {key!r} cannot be set in a study file; "
                f"{nearest(name[:100], [*WORDS, *LARGEST])}"
            )
    return dict(options)


def inside(folder: Path, path: str, anywhere: bool) -> Path:
    """A path that a study file names, if it lies in the file's own folder.

    Args:
        folder: the folder of the study file.
        path: what the file says.
        anywhere: whether paths may lead elsewhere (`--allow-path`).

    Raises:
        InputError: it leads elsewhere, by its name or by a link.
    """
    try:
        target = (folder / path).resolve()
    except (
        OSError,
        ValueError,
        RuntimeError,
    ):  # names with a null byte or of thousands of letters, links in a circle
        raise InputError(f"{shown(path)} is not the name of a file") from None
    if not anywhere and not target.is_relative_to(folder.resolve()):
        raise InputError(
            f"{path!r} lies outside the study's folder; move the file there, or allow such paths "
            "with --allow-path"
        )
    return target
