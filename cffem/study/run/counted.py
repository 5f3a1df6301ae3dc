# SPDX-License-Identifier: MIT
"""The fields whose change counts: on a System every unknown is judged against its own norm.

In one norm over all fields a displacement of a millimetre disappears beside a temperature of 300 K.
Auxiliary fields, whose equation has no terms to delete, and multipliers do not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cffem.symbols.problem.library import Library
    from cffem.symbols.problem.system import System


# The norm of the whole system, which has no parts that belong to single fields.
WHOLE = "energy"


def counted_fields(library: Library | System, norm: str) -> tuple[str, ...]:
    """The names of the fields that get verdicts of their own; none where there is one field, or the
    norm is of the whole system.

    Example:
        >>> import cffem as cf
        >>> u, w = cf.ScalarField("u"), cf.ScalarField("w")
        >>> heat = cf.Library(cf.dt(u), {"flow": cf.lap(w)})
        >>> counted_fields(cf.System({u: heat, w: cf.Library(cf.dt(w), {"w": w})}), "L2")
        ('u', 'w')
        >>> counted_fields(cf.System({u: heat, w: cf.Library(w - cf.lap(u), {}, unknown=w)}), "L2")
        ()
    """
    names = tuple(str(unknown) for unknown, equation in library.equations.items() if equation.terms)
    return names if len(names) > 1 and norm != WHOLE else ()


def norm_of(norm: str, field: str) -> str:
    """The name of the norm of one field.

    Example:
        >>> norm_of("L2", "T")
        'L2[T]'
    """
    return f"{norm}[{field}]"
