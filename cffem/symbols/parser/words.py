# SPDX-License-Identifier: MIT
"""The words of the term language: functions, operators, relations and constants, each bound to what
it means.

The parser knows no other callable than these, which is what makes a text from a stranger harmless.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import sympy as sp

from cffem.symbols import operators
from cffem.symbols.coordinates import COORDINATES
from cffem.symbols.parser.syntax import COMPARISONS

# Each function with its value for plain numbers, which tells before SymPy starts whether the result
# is real and finite.
FUNCTIONS: dict[str, tuple[Callable[..., sp.Basic], Callable[[float], float]]] = {
    "sin": (sp.sin, math.sin),
    "cos": (sp.cos, math.cos),
    "tan": (sp.tan, math.tan),
    "cot": (sp.cot, lambda a: 1 / math.tan(a)),
    "sec": (sp.sec, lambda a: 1 / math.cos(a)),
    "csc": (sp.csc, lambda a: 1 / math.sin(a)),
    "asin": (sp.asin, math.asin),
    "acos": (sp.acos, math.acos),
    "atan": (sp.atan, math.atan),
    "acot": (sp.acot, lambda a: math.pi / 2 - math.atan(a)),
    "sinh": (sp.sinh, math.sinh),
    "cosh": (sp.cosh, math.cosh),
    "tanh": (sp.tanh, math.tanh),
    "coth": (sp.coth, lambda a: 1 / math.tanh(a)),
    "asinh": (sp.asinh, math.asinh),
    "acosh": (sp.acosh, math.acosh),
    "atanh": (sp.atanh, math.atanh),
    "exp": (sp.exp, math.exp),
    "log": (sp.log, math.log),
    "sqrt": (sp.sqrt, math.sqrt),
    "Abs": (sp.Abs, abs),
    "abs": (sp.Abs, abs),
    "sign": (sp.sign, lambda a: math.copysign(1, a)),
    "erf": (sp.erf, math.erf),
    "erfc": (sp.erfc, math.erfc),
    "Heaviside": (sp.Heaviside, lambda a: float(a > 0)),
}
PRODUCTS = {name: getattr(operators, name) for name in ("dot", "cross", "inner", "outer")}
DIFFERENTIAL = {name: getattr(operators, name) for name in ("grad", "div", "curl", "lap", "dt")}
POINTWISE = {name: getattr(operators, name) for name in ("sym", "transpose", "trace", "det", "inv")}
RELATIONS = dict(zip(COMPARISONS, (sp.Lt, sp.Le, sp.Gt, sp.Ge), strict=True)) | {
    "Eq": sp.Eq,
    "Ne": sp.Ne,
}

# Words with rules of their own, and the method of the parser's `Builder` that knows them.
SPECIAL = {
    "Min": "extremum",
    "Max": "extremum",
    "atan2": "angle",
    "norm2": "norm",
    "vector": "vector",
    "tensor": "tensor",
    "identity": "identity",
    "component": "component",
    "diff": "derivative",
    "Derivative": "derivative",
    "Piecewise": "branches",
    "Eq": "equality",
    "Ne": "equality",
}
CALLABLE = frozenset({*FUNCTIONS, *PRODUCTS, *DIFFERENTIAL, *POINTWISE, *SPECIAL})
CONSTANTS = {**{str(symbol): symbol for symbol in COORDINATES}, "n": operators.n, "pi": sp.pi}
