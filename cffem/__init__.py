# SPDX-License-Identifier: MIT
"""cffem: which terms of a PDE can this experiment identify, which change the solution when deleted,
and how sure are we?

The names below are the public interface. They are loaded when first used, so that importing cffem
is quick and the data wing works without DOLFINx.
"""

from __future__ import annotations

# isort: off
import cffem._path  # noqa: F401  before anything that could be taken from the current folder

# isort: on
import importlib
import sys
from typing import Any

from cffem import _guard

_guard.install()

__version__ = "0.2.0"

_HOME: dict[str, str] = {
    name: module
    for module, names in {
        "cffem.symbols.coordinates": "Parameter t x y z",
        "cffem.symbols.fields": "ScalarField VectorField",
        "cffem.symbols.known": "Known",
        "cffem.symbols.form_terms": "Form",
        "cffem.symbols.restricted": "on",
        "cffem.symbols.problem.measured": "Interpolated",
        "cffem.symbols.operators": "component cross curl det div dot dt grad identity inner inv "
        "lap n norm2 outer sym tensor trace transpose vector",
        "cffem.symbols.errors": "InputError LibraryError ParseError ShapeError SymbolError",
        "cffem.symbols.problem.library": "Library",
        "cffem.symbols.problem.system": "System",
        "cffem.symbols.parser.parse": "parse",
        "cffem.symbols.problem.interventions": "Intervention boundary delete force release scale "
        "set start",
        "cffem.symbols.problem.norm_names": "Norm",
        "cffem.symbols.problem.constraint_classes": "Constraint CurlFree DivergenceFree ZeroMean",
        "cffem.symbols.problem.observables": "Average Energy Flux Front Integral PointAverage",
        "cffem.symbols.problem.observations": "Part Sensors Series Trace",
        "cffem.symbols.problem.uncertain": "Uncertain",
        "cffem.symbols.problem.conditions": "Dirichlet Natural Neumann Periodic Robin Tangential",
        "cffem.symbols.problem.experiment": "Experiment",
        "cffem.symbols.problem.window": "Window",
        "cffem.engine.solve.linear": "SolveError",
        "cffem.engine.model": "Model",
        "cffem.engine.solution": "Solution",
        "cffem.engine.mesh.region": "region_mesh",
        "cffem.engine.observed": "observed",
        "cffem.engine.calibration.best_sensors": "best_sensors",
        "cffem.engine.calibration.calibrating_readings": "calibrate",
        "cffem.engine.calibration.calibration_settings": "CalibrationSettings",
        "cffem.engine.response.taylor": "taylor_linearised taylor_observable taylor_order "
        "taylor_test",
        "cffem.constraints.projections.choose": "projection",
        "cffem.constraints.effective": "effective_library",
        "cffem.constraints.nulls": "constraint_nulls",
        "cffem.bounds.entrance": "certify_deletion certify_solution certify_sweep",
        "cffem.bounds.observable_bounds": "certify_observable",
        "cffem.bounds.supplied_fields": "certify_fields",
        "cffem.design.design": "Design",
        "cffem.screening.screening": "Screening",
        "cffem.data.dataset": "Dataset",
        "cffem.data.readers.plane": "Plane",
        "cffem.data.readers.sphere": "Region sphere_dataset sphere_points",
        "cffem.verdicts.decisions": "decide",
        "cffem.verdicts.certification": "Certification",
        "cffem.study.study": "Study",
        "cffem.study.report.report": "Report",
    }.items()
    for name in names.split()
}

# Names that are whole modules: cffem.mesh.square(comm, h).
_MODULES = {"mesh": "cffem.engine.mesh.mesh_shapes"}

__all__ = ["__version__", *sorted({**_HOME, **_MODULES})]

_FINITE_ELEMENTS = {"basix", "dolfinx", "ffcx", "gmsh", "mpi4py", "petsc4py", "slepc4py", "ufl"}


class MissingFiniteElements(ImportError):
    """DOLFINx or one of its companions is not installed here."""


def without_finite_elements(error: ImportError, what: str) -> MissingFiniteElements | None:
    """The error that says how to get DOLFINx, where it or a companion is what could not be
    imported.
    """
    if error.name is None or error.name.split(".")[0] not in _FINITE_ELEMENTS:
        return None
    return MissingFiniteElements(
        f"{what} needs DOLFINx with PETSc and MPI, and {error.name} is missing here: run your "
        "command with "
        "containers/run, or use conda-forge's fenics-dolfinx or Debian 13's python3-dolfinx."
    )


def __getattr__(name: str) -> Any:
    if name not in _HOME and name not in _MODULES:
        raise AttributeError(
            f"module 'cffem' has no attribute {name!r}", name=name, obj=sys.modules[__name__]
        )
    try:
        module = importlib.import_module(_MODULES.get(name) or _HOME[name])
    except ModuleNotFoundError as error:
        missing = without_finite_elements(error, f"cffem.{name}")
        if missing is None:
            raise
        raise missing from None
    value = module if name in _MODULES else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
