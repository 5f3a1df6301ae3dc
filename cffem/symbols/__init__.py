"""The hall: what a user writes. Fields, operators, libraries of candidate terms, and what may be asked of them."""

from cffem.symbols.components import component, evaluate_on, to_components
from cffem.symbols.coordinates import Parameter, t, x, y, z
from cffem.symbols.errors import InputError, LibraryError, ParseError, ShapeError, SymbolError, TermShapeError
from cffem.symbols.fields import ScalarField, VectorField, n
from cffem.symbols.library import Library
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
from cffem.symbols.system import System

__all__ = [
    "InputError", "Library", "LibraryError", "Parameter", "ParseError", "ScalarField", "ShapeError", "SymbolError", "System",
    "TermShapeError", "VectorField", "component", "cross", "curl", "div", "dot", "dt", "evaluate_on", "grad", "inner", "lap", "n",
    "norm2", "outer", "sym", "t", "to_components", "trace", "transpose", "vector", "x", "y", "z",
]  # fmt: skip
