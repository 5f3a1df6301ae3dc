# SPDX-License-Identifier: MIT
# The public names with their types, for mypy and editors. At run time cffem/__init__.py loads each
# when it is first used; tests/house/test_public_types.py keeps the two together.

from cffem.bounds.entrance import certify_deletion as certify_deletion
from cffem.bounds.entrance import certify_solution as certify_solution
from cffem.bounds.entrance import certify_sweep as certify_sweep
from cffem.bounds.observable_bounds import certify_observable as certify_observable
from cffem.bounds.supplied_fields import certify_fields as certify_fields
from cffem.constraints.effective import effective_library as effective_library
from cffem.constraints.nulls import constraint_nulls as constraint_nulls
from cffem.constraints.projections.choose import projection as projection
from cffem.data.dataset import Dataset as Dataset
from cffem.data.readers.plane import Plane as Plane
from cffem.data.readers.sphere import Region as Region
from cffem.data.readers.sphere import sphere_dataset as sphere_dataset
from cffem.data.readers.sphere import sphere_points as sphere_points
from cffem.design.design import Design as Design
from cffem.engine.calibration.best_sensors import best_sensors as best_sensors
from cffem.engine.calibration.calibrating_readings import calibrate as calibrate
from cffem.engine.calibration.calibration_settings import (
    CalibrationSettings as CalibrationSettings,
)
from cffem.engine.mesh import mesh_shapes
from cffem.engine.mesh.region import region_mesh as region_mesh
from cffem.engine.model import Model as Model
from cffem.engine.observed import observed as observed
from cffem.engine.response.taylor import taylor_linearised as taylor_linearised
from cffem.engine.response.taylor import taylor_observable as taylor_observable
from cffem.engine.response.taylor import taylor_order as taylor_order
from cffem.engine.response.taylor import taylor_test as taylor_test
from cffem.engine.solution import Solution as Solution
from cffem.engine.solve.linear import SolveError as SolveError
from cffem.screening.screening import Screening as Screening
from cffem.study.report.report import Report as Report
from cffem.study.study import Study as Study
from cffem.symbols.coordinates import Parameter as Parameter
from cffem.symbols.coordinates import t as t
from cffem.symbols.coordinates import x as x
from cffem.symbols.coordinates import y as y
from cffem.symbols.coordinates import z as z
from cffem.symbols.errors import InputError as InputError
from cffem.symbols.errors import LibraryError as LibraryError
from cffem.symbols.errors import ParseError as ParseError
from cffem.symbols.errors import ShapeError as ShapeError
from cffem.symbols.errors import SymbolError as SymbolError
from cffem.symbols.fields import ScalarField as ScalarField
from cffem.symbols.fields import VectorField as VectorField
from cffem.symbols.form_terms import Form as Form
from cffem.symbols.known import Known as Known
from cffem.symbols.operators import component as component
from cffem.symbols.operators import cross as cross
from cffem.symbols.operators import curl as curl
from cffem.symbols.operators import det as det
from cffem.symbols.operators import div as div
from cffem.symbols.operators import dot as dot
from cffem.symbols.operators import dt as dt
from cffem.symbols.operators import grad as grad
from cffem.symbols.operators import identity as identity
from cffem.symbols.operators import inner as inner
from cffem.symbols.operators import inv as inv
from cffem.symbols.operators import lap as lap
from cffem.symbols.operators import n as n
from cffem.symbols.operators import norm2 as norm2
from cffem.symbols.operators import outer as outer
from cffem.symbols.operators import sym as sym
from cffem.symbols.operators import tensor as tensor
from cffem.symbols.operators import trace as trace
from cffem.symbols.operators import transpose as transpose
from cffem.symbols.operators import vector as vector
from cffem.symbols.parser.parse import parse as parse
from cffem.symbols.problem.conditions import Dirichlet as Dirichlet
from cffem.symbols.problem.conditions import Natural as Natural
from cffem.symbols.problem.conditions import Neumann as Neumann
from cffem.symbols.problem.conditions import Periodic as Periodic
from cffem.symbols.problem.conditions import Robin as Robin
from cffem.symbols.problem.conditions import Tangential as Tangential
from cffem.symbols.problem.constraint_classes import Constraint as Constraint
from cffem.symbols.problem.constraint_classes import CurlFree as CurlFree
from cffem.symbols.problem.constraint_classes import DivergenceFree as DivergenceFree
from cffem.symbols.problem.constraint_classes import ZeroMean as ZeroMean
from cffem.symbols.problem.experiment import Experiment as Experiment
from cffem.symbols.problem.interventions import Intervention as Intervention
from cffem.symbols.problem.interventions import boundary as boundary
from cffem.symbols.problem.interventions import delete as delete
from cffem.symbols.problem.interventions import force as force
from cffem.symbols.problem.interventions import release as release
from cffem.symbols.problem.interventions import scale as scale
from cffem.symbols.problem.interventions import set as set
from cffem.symbols.problem.interventions import start as start
from cffem.symbols.problem.library import Library as Library
from cffem.symbols.problem.measured import Interpolated as Interpolated
from cffem.symbols.problem.norm_names import Norm as Norm
from cffem.symbols.problem.observables import Average as Average
from cffem.symbols.problem.observables import Energy as Energy
from cffem.symbols.problem.observables import Flux as Flux
from cffem.symbols.problem.observables import Front as Front
from cffem.symbols.problem.observables import Integral as Integral
from cffem.symbols.problem.observables import PointAverage as PointAverage
from cffem.symbols.problem.observations import Part as Part
from cffem.symbols.problem.observations import Sensors as Sensors
from cffem.symbols.problem.observations import Series as Series
from cffem.symbols.problem.observations import Trace as Trace
from cffem.symbols.problem.system import System as System
from cffem.symbols.problem.uncertain import Uncertain as Uncertain
from cffem.symbols.problem.window import Window as Window
from cffem.symbols.restricted import on as on
from cffem.verdicts.certification import Certification as Certification
from cffem.verdicts.decisions import decide as decide

mesh = mesh_shapes
__version__: str
__all__: list[str]

class MissingFiniteElements(ImportError): ...

def without_finite_elements(error: ImportError, what: str) -> MissingFiniteElements | None: ...
