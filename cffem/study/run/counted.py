# SPDX-License-Identifier: MIT
"""The fields whose change counts: on a System every unknown is judged against its own norm.

In one norm over all fields a displacement of a millimetre disappears beside a temperature of 300 K.
Auxiliary fields, whose equation has no terms to delete, and multipliers do not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cffem.engine.norms import NORMS
from cffem.symbols.problem.norm_names import ENERGY, names_fields, norm_parts

if TYPE_CHECKING:
    from cffem.symbols.problem.library import Library
    from cffem.symbols.problem.system import System


def counted_fields(library: Library | System, norm: str) -> tuple[str, ...]:
    """The names of the fields that get verdicts of their own; none where there is one field, or the
    norm is of the whole system or says by itself how fields count.

    Example:
        >>> import cffem as cf
        >>> u, w = cf.ScalarField("u"), cf.ScalarField("w")
        >>> heat = cf.Library(cf.dt(u), {"flow": cf.lap(w)})
        >>> both = cf.System({u: heat, w: cf.Library(cf.dt(w), {"w": w})})
        >>> counted_fields(both, "L2"), counted_fields(both, cf.Norm({u: 1.0, w: 2.0}))
        (('u', 'w'), ())
        >>> counted_fields(cf.System({u: heat, w: cf.Library(w - cf.lap(u), {}, unknown=w)}), "L2")
        ()
    """
    for part in norm_parts(norm):
        NORMS[part.kind]  # an unknown one is an error that names those there are
    names = tuple(str(unknown) for unknown, equation in library.equations.items() if equation.terms)
    return names if len(names) > 1 and norm != ENERGY and not names_fields(norm) else ()
