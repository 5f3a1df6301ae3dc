# SPDX-License-Identifier: MIT
"""Constraint classes: projections onto them, terms that vanish or coincide on them, and the library
that is left.

On data that obey a constraint, terms are identified only modulo what vanishes on the class M = {u :
c(u) = 0}.
"""
