# SPDX-License-Identifier: MIT
"""The hall: what a user writes. Fields, operators, libraries of candidate terms, and what may
be asked of them.
"""

from cffem.symbols.algebra.components import component, evaluate_on, to_components
from cffem.symbols.algebra.rewrites import REWRITES, rewrite
from cffem.symbols.algebra.variation import variation
from cffem.symbols.coordinates import Parameter, t, x, y, z
from cffem.symbols.errors import (
    InputError,
    LibraryError,
    ParseError,
    ShapeError,
    SymbolError,
    TermShapeError,
)
from cffem.symbols.fields import ScalarField, VectorField, n
from cffem.symbols.operators import (
    cross,
    curl,
    div,
    dot,
    dt,
    grad,
    inner,
    lap,
    norm2,
    outer,
    sym,
    trace,
    transpose,
    vector,
)
from cffem.symbols.parser.parse import parse
from cffem.symbols.problem.constraint_classes import Constraint, CurlFree, DivergenceFree, ZeroMean
from cffem.symbols.problem.interventions import (
    Intervention,
    boundary,
    delete,
    force,
    joint,
    release,
    scale,
    start,
)
from cffem.symbols.problem.interventions import set as set
from cffem.symbols.problem.library import Library
from cffem.symbols.problem.observables import (
    Average,
    Energy,
    Flux,
    Front,
    Integral,
    Observable,
    PointAverage,
)
from cffem.symbols.problem.system import System

__all__ = [
    "REWRITES",
    "Average",
    "Constraint",
    "CurlFree",
    "DivergenceFree",
    "Energy",
    "Flux",
    "Front",
    "InputError",
    "Integral",
    "Intervention",
    "Library",
    "LibraryError",
    "Observable",
    "Parameter",
    "ParseError",
    "PointAverage",
    "ScalarField",
    "ShapeError",
    "SymbolError",
    "System",
    "TermShapeError",
    "VectorField",
    "ZeroMean",
    "boundary",
    "component",
    "cross",
    "curl",
    "delete",
    "div",
    "dot",
    "dt",
    "evaluate_on",
    "force",
    "grad",
    "inner",
    "joint",
    "lap",
    "n",
    "norm2",
    "outer",
    "parse",
    "release",
    "rewrite",
    "scale",
    "start",
    "sym",
    "t",
    "to_components",
    "trace",
    "transpose",
    "variation",
    "vector",
    "x",
    "y",
    "z",
]
