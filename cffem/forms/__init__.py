"""From SymPy terms to UFL: strong expressions, weak forms by integration by parts, auxiliary fields and derivatives.

`lowering` translates expressions node by node, `strong` and `weak` decide whether and how the elements can carry a term, and
`derivative` linearises. Nothing here knows DOLFINx: functions, constants and test functions are handed in through a `Context`.
"""
