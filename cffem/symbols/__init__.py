# SPDX-License-Identifier: MIT
"""The hall: what a user writes. Fields, operators, libraries of candidate terms, and what may be asked of them."""

from cffem.symbols.components import component, evaluate_on, to_components
from cffem.symbols.constraints import Constraint, CurlFree, DivergenceFree, ZeroMean
from cffem.symbols.coordinates import Parameter, t, x, y, z
from cffem.symbols.errors import InputError, LibraryError, ParseError, ShapeError, SymbolError, TermShapeError
from cffem.symbols.fields import ScalarField, VectorField, n
from cffem.symbols.interventions import Intervention, boundary, delete, force, joint, release, scale, start
from cffem.symbols.interventions import set as set
from cffem.symbols.library import Library
from cffem.symbols.observables import Average, Energy, Flux, Front, Integral, Observable, PointAverage
from cffem.symbols.operators import cross, curl, div, dot, dt, grad, inner, lap, norm2, outer, sym, trace, transpose, vector
from cffem.symbols.parser import parse
from cffem.symbols.rewrites import REWRITES, rewrite
from cffem.symbols.system import System
from cffem.symbols.variation import variation

__all__ = [
    "REWRITES", "Average", "Constraint", "CurlFree", "DivergenceFree", "Energy", "Flux", "Front", "InputError", "Integral",
    "Intervention", "Library", "LibraryError", "Observable", "Parameter", "ParseError", "PointAverage", "ScalarField",
    "ShapeError", "SymbolError", "System", "TermShapeError", "VectorField", "ZeroMean", "boundary", "component", "cross", "curl",
    "delete", "div", "dot", "dt", "evaluate_on", "force", "grad", "inner", "joint", "lap", "n", "norm2", "outer", "parse",
    "release", "rewrite", "scale", "start", "sym", "t", "to_components", "trace", "transpose", "variation", "vector", "x", "y",
    "z",
]  # fmt: skip
