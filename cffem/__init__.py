"""cffem: which terms of a PDE can this experiment identify, which change the solution when deleted, and how sure are we?"""

from cffem.symbols.coordinates import Parameter, t, x, y, z
from cffem.symbols.fields import ScalarField, VectorField
from cffem.symbols.operators import (
    component,
    cross,
    curl,
    div,
    dot,
    dt,
    grad,
    inner,
    lap,
    n,
    norm2,
    outer,
    sym,
    trace,
    transpose,
    vector,
)

__version__ = "0.1.0"
