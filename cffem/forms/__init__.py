# SPDX-License-Identifier: MIT
"""From SymPy terms to UFL: strong expressions, weak forms by integration by parts, auxiliary fields
and derivatives.

`lowering` translates expressions node by node, `strong` and `weak` decide whether and how the
elements can carry a term (`orders` and `elements` tell them which derivatives occur and which an
element has, `parts` moves them), and `derivative` linearises. Nothing here knows DOLFINx:
functions, constants and test functions are handed in through a `Context`.

A term goes through in three steps: its weak form is found once as SymPy integrands, boundary
conditions are substituted in it, and it is translated for given functions.

    >>> import basix.ufl, ufl, cffem as cf
    >>> from cffem.forms.derivative import gateaux
    >>> from cffem.forms.lowering import Context
    >>> from cffem.forms.weak import weak_form
    >>> u, nu, element = (
    ...     cf.ScalarField("u"),
    ...     cf.Parameter("nu"),
    ...     basix.ufl.element("Lagrange", "triangle", 2),
    ... )
    >>> weak = weak_form(nu * cf.lap(u) - u**3, u, {u: element}).imposing(
    ...     {cf.dot(cf.grad(u), cf.n): 0}
    ... )
    >>> print(weak)
    ∫ -nu*dot(grad(u), grad(u_test)) - u**3*u_test dx
    >>> domain = ufl.Mesh(basix.ufl.element("Lagrange", "triangle", 1, shape=(2,)))
    >>> space = ufl.FunctionSpace(domain, element)
    >>> function = ufl.Coefficient(space)
    >>> context = Context(
    ...     domain, {u: function, nu: ufl.Constant(domain), weak.test: ufl.TestFunction(space)}
    ... )
    >>> residual = weak.forms(context).total
    >>> [len(form.arguments()) for form in (residual, gateaux(residual, function))]
    [1, 2]
"""
