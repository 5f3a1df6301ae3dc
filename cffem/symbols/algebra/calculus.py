# SPDX-License-Identifier: MIT
"""Vector calculus: how the normal form of each operator is found.

Safe identities are applied at once: operators are linear, products and functions differentiate by
the product and chain rules, div curl = 0, curl grad = 0, div grad = lap, partial derivatives go
innermost. Coefficients that jump (`Piecewise`, `Heaviside` in the coordinates) are not
differentiated: `div(a*grad(u))` then stays a divergence, as the physics means it. Held operators
are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import sympy as sp
from sympy.core.sorting import default_sort_key

from cffem.symbols.algebra.components import (
    component,
    cross_of_components,
    determinant_of_entries,
    inverse_of_entries,
)
from cffem.symbols.algebra.nodes import (
    Cross,
    Curl,
    Div,
    Dot,
    Grad,
    Inner,
    Lap,
    Node,
    Outer,
    Sym,
    TensorTrace,
    Transpose,
    Vec,
    as_expr,
)
from cffem.symbols.algebra.normal_forms import NORMAL_FORMS, normal_form
from cffem.symbols.algebra.shapes import shape_of
from cffem.symbols.algebra.tensor_nodes import Det, Inverse, Tensor
from cffem.symbols.coordinates import SPACE
from cffem.symbols.errors import ShapeError
from cffem.symbols.fields import CoordinateFunction, Field, VectorField
from cffem.symbols.known import Known, KnownTensor

JUMPS = (sp.Piecewise, sp.Heaviside, sp.sign, sp.floor, sp.ceiling)

NORMAL_FORMS[tuple] = as_expr


def is_a(expr: sp.Basic, *kinds: type[Node]) -> bool:
    """Whether an expression is one of these operators and not held as written."""
    return isinstance(expr, kinds) and not expr.held


def is_unit(expr: sp.Basic) -> bool:
    """Whether an expression is the unit vector along a coordinate, written grad(x)."""
    return isinstance(expr, Grad) and expr.args[0] in SPACE


def is_identity(expr: sp.Basic) -> bool:
    """Whether an expression is the identity tensor, `identity(2)` or grad((x, y))."""
    return isinstance(expr, Grad) and expr.is_identity


def is_atom(expr: sp.Basic) -> bool:
    """Whether the chain rule stops at this node."""
    return isinstance(expr, CoordinateFunction | sp.Derivative | sp.Dummy) or expr in SPACE


def depends_on_space(expr: sp.Basic) -> bool:
    """Whether an expression varies in space. Fields always do, and so do the dummies SymPy
    puts in their place for a while.
    """
    return any(symbol in SPACE or isinstance(symbol, sp.Dummy) for symbol in expr.free_symbols)


def has_jump(expr: sp.Expr) -> bool:
    """Whether a coefficient jumps in space, so that the product rule would lose a surface term."""
    return any(depends_on_space(node) for node in expr.atoms(*JUMPS)) or any(
        not known.smooth for known in expr.atoms(Known)
    )


def split_constant(expr: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """Split a monomial into a factor constant in space and the rest."""
    constant: list[sp.Expr] = []
    rest: list[sp.Expr] = []
    for factor in sp.Mul.make_args(expr):
        (rest if depends_on_space(factor) or shape_of(factor) != () else constant).append(factor)
    return sp.Mul(*constant), sp.Mul(*rest)


def split_scalar(expr: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """Split a monomial into its scalar factor and its vector or tensor factor (or 1)."""
    scalar: list[sp.Expr] = []
    tensor: list[sp.Expr] = []
    for factor in sp.Mul.make_args(expr):
        (tensor if shape_of(factor) != () else scalar).append(factor)
    if len(tensor) > 1:
        shape_of(expr)
    return sp.Mul(*scalar), sp.Mul(*tensor)


def linear(of_monomial: Callable[[sp.Expr], sp.Expr]) -> Callable[[sp.Expr], sp.Expr]:
    """Make the rule for monomials one for all arguments: sums come apart and constants come out."""

    def rule(arg: sp.Expr) -> sp.Expr:
        terms = []
        for monomial in sp.Add.make_args(sp.expand_mul(arg)):
            constant, rest = split_constant(monomial)
            if depends_on_space(rest):
                terms.append(constant * of_monomial(rest))
        return sp.Add(*terms)

    return rule


@normal_form(Grad)
@linear
def gradient(arg: sp.Expr) -> sp.Expr:
    """grad(s T) = s grad(T) + T ⊗ grad(s), and the chain rule for scalars."""
    scalar, tensor = split_scalar(arg)
    if tensor == 1:
        return chain_rule(Grad, scalar)
    if scalar == 1 or has_jump(arg):
        return Grad.build(arg)
    return scalar * Grad(tensor) + Outer(tensor, Grad(scalar))


@normal_form(Div)
def divergence(arg: sp.Expr) -> sp.Expr:
    """Summand by summand; what is known stays with a flux that is integrated by parts.

    In div(grad(u) + q) the divergence of a constant q is zero, but q·n belongs to the flux through
    a boundary, as I n does to the traction of F − F⁻ᵀ.
    """
    summands = sp.Add.make_args(sp.expand_mul(arg))
    known = [part for part in summands if not part.has(Field)]
    fluxes = [part for part in summands if part.has(Field) and leaves_trace(part)]
    if not known or not fluxes:
        return divergence_of_summands(arg)
    flux = min(fluxes, key=lambda part: (part.count_ops(), default_sort_key(part)))
    rest = sp.Add(*(part for part in summands if part is not flux and part not in known))
    return held_divergence(sp.Add(flux, *known)) + (Div(rest) if rest != 0 else sp.S.Zero)


def held_divergence(arg: sp.Expr) -> sp.Expr:
    """A divergence that is integrated by parts as it is written."""
    node = Div.build(arg)
    node.held = True
    return node


def leaves_trace(flux: sp.Expr) -> bool:
    """Whether the divergence of a flux is integrated by parts: it contains derivatives of fields
    in space, or is an isotropic stress.
    """
    return takes_derivatives(flux) or is_pressure(*split_scalar(flux))


def takes_derivatives(expr: sp.Expr) -> bool:
    """Whether derivatives of fields in space occur."""
    slopes = {d for d in expr.atoms(sp.Derivative) if {*d.variables} & {*SPACE}}
    return any(node.has(Field) for node in expr.atoms(Grad, Div, Curl, Lap) | slopes)


@linear
def divergence_of_summands(arg: sp.Expr) -> sp.Expr:
    """div(s T) = s div(T) + T·grad(s); div grad = lap, div curl = 0; cross, outer products."""
    scalar, tensor = split_scalar(arg)
    if scalar != 1 and is_pressure(scalar, tensor):
        # Its trace p n belongs to the traction of a stress, which grad(p) would not leave.
        return held_divergence(arg)
    if scalar != 1:
        whole = has_jump(arg) or scalar.has(Det, Inverse)
        return Div.build(arg) if whole else scalar * Div(tensor) + Dot(tensor, Grad(scalar))
    if is_unit(arg) or isinstance(arg, Curl):
        return sp.S.Zero
    if is_a(arg, Grad):
        return Lap(arg.args[0])
    if is_a(arg, Cross) and not has_jump(arg):
        a, b = arg.args
        return Dot(b, Curl(a)) - Dot(a, Curl(b))
    if is_a(arg, Outer) and not has_jump(arg):
        a, b = arg.args
        return Dot(Grad(a), b) + a * Div(b)
    if isinstance(arg, Vec) and not any(has_jump(part) for part in arg.args):
        return sp.Add(*(part.diff(s) for part, s in zip(arg.args, SPACE, strict=False)))
    # div(∇vᵀ) = grad(div v) is a rewrite: its trace is ∇vᵀ n, that of grad(div v) is (div v) n.
    return Div.build(arg)


def is_pressure(scalar: sp.Expr, tensor: sp.Expr) -> bool:
    """Whether a tensor is an isotropic stress whose size is a function of fields themselves."""
    return is_identity(tensor) and scalar.has(Field) and not takes_derivatives(scalar)


@normal_form(Curl)
@linear
def rotation(arg: sp.Expr) -> sp.Expr:
    """curl(s v) = s curl(v) + grad(s) × v; curl grad = 0; the chain rule for 2D scalars."""
    scalar, tensor = split_scalar(arg)
    if tensor == 1:
        return chain_rule(Curl, scalar)
    if scalar != 1:
        return (
            Curl.build(arg)
            if has_jump(arg)
            else scalar * Curl(tensor) + Cross(Grad(scalar), tensor)
        )
    if isinstance(arg, Grad):
        return sp.S.Zero
    if is_a(arg, Curl) and shape_of(arg.args[0]) == ():
        # In 2D, curl curl of a scalar is minus its Laplacian, with no second operator to choose.
        return -Lap(arg.args[0])
    if isinstance(arg, Vec) and not any(has_jump(part) for part in arg.args):
        return curl_of_components(arg.args)
    return Curl.build(arg)


@normal_form(Lap)
@linear
def laplacian(arg: sp.Expr) -> sp.Expr:
    """lap(s T) = s lap(T) + 2 grad(T)·grad(s) + T lap(s); lap goes inside grad, div and curl."""
    scalar, tensor = split_scalar(arg)
    if tensor == 1:
        return laplacian_chain_rule(scalar)
    if scalar != 1:
        if has_jump(arg):
            return Lap.build(arg)
        return scalar * Lap(tensor) + 2 * Dot(Grad(tensor), Grad(scalar)) + tensor * Lap(scalar)
    if is_unit(arg):
        return sp.S.Zero
    if is_a(arg, Grad, Curl, Div) and len(shape_of(arg.args[0])) < 2:
        return type(arg)(Lap(arg.args[0]))
    if isinstance(arg, Vec):
        return Vec(*(Lap(part) for part in arg.args))
    return Lap.build(arg)


def scalar_atoms(expr: sp.Expr) -> list[sp.Expr]:
    """The indivisible functions of space in a scalar expression, in a fixed order."""
    found: set[sp.Expr] = set()

    def visit(node: sp.Basic) -> None:
        if is_atom(node):
            found.add(node)
        else:
            for arg in node.args:
                visit(arg)

    visit(expr)
    return sorted(found, key=default_sort_key)


def chain_rule(operator: type[Node], expr: sp.Expr) -> sp.Expr:
    """operator(f(a, b, …)) = Σ ∂f/∂a operator(a), for the gradient and the 2D curl of a scalar."""
    if is_atom(expr) or has_jump(expr):
        return operator.build(expr)
    atoms = scalar_atoms(expr)
    partials = partial_derivatives(expr, atoms)
    return sp.Add(*(f_a * operator(a) for a, f_a in zip(atoms, partials, strict=True)))


def laplacian_chain_rule(expr: sp.Expr) -> sp.Expr:
    """lap f(a, b, …) = Σ ∂f/∂a lap(a) + Σ ∂²f/∂a∂b grad(a)·grad(b)."""
    if is_a(expr, Div, Curl):
        return type(expr)(Lap(expr.args[0]))
    if expr in SPACE:
        return sp.S.Zero
    if is_atom(expr) or has_jump(expr):
        return Lap.build(expr)
    atoms = scalar_atoms(expr)
    first = partial_derivatives(expr, atoms)
    result = [f_a * Lap(a) for a, f_a in zip(atoms, first, strict=True)]
    for a, f_a in zip(atoms, first, strict=True):
        for b, f_ab in zip(atoms, partial_derivatives(f_a, atoms), strict=True):
            if f_ab != 0:
                result.append(f_ab * Dot(Grad(a), Grad(b)))
    return sp.Add(*result)


def partial_derivatives(expr: sp.Expr, atoms: Iterable[sp.Expr]) -> list[sp.Expr]:
    """Derivatives of an expression with respect to each atom, the others held fixed."""
    dummies = {a: sp.Dummy(real=True) for a in atoms}
    back = {d: a for a, d in dummies.items()}
    plain = expr.xreplace(dummies)
    return [plain.diff(d).xreplace(back) for d in dummies.values()]


def bilinear(
    of_pair: Callable[[sp.Expr, sp.Expr], sp.Expr],
) -> Callable[[sp.Expr, sp.Expr], sp.Expr]:
    """Make the rule for pairs one for all factors: sums come apart and scalar factors come out."""

    def rule(a: sp.Expr, b: sp.Expr) -> sp.Expr:
        terms = []
        for p in sp.Add.make_args(sp.expand_mul(a)):
            for q in sp.Add.make_args(sp.expand_mul(b)):
                (sa, va), (sb, vb) = split_scalar(p), split_scalar(q)
                terms.append(sa * sb * of_pair(va, vb))
        return sp.Add(*terms)

    return rule


@normal_form(Dot)
@bilinear
def dot_product(a: sp.Expr, b: sp.Expr) -> sp.Expr:
    """Symmetric for vectors; products with a unit vector, with a⊗b or between vectors given
    by components are written out.
    """
    if len(shape_of(a)) == len(shape_of(b)) == 1:
        for unit, other in ((a, b), (b, a)):
            if is_unit(unit) and isinstance(
                other, VectorField | Vec | Grad | Curl | sp.Derivative | KnownTensor
            ):
                return component(other, SPACE.index(unit.args[0]))
        for vec, other in ((a, b), (b, a)):
            if isinstance(vec, Vec) and isinstance(other, Grad | Vec):
                return sp.Add(*(part * component(other, i) for i, part in enumerate(vec.args)))
        return Dot.build(*sorted((a, b), key=default_sort_key))
    if is_identity(a) or is_identity(b):
        return b if is_identity(a) else a
    if is_unit(b) and is_a(a, Grad):
        return a.args[0].diff(b.args[0])
    if is_a(a, Outer) and len(shape_of(b)) == 1:
        return a.args[0] * Dot(a.args[1], b)
    if is_a(b, Outer) and len(shape_of(a)) == 1:
        return Dot(a, b.args[0]) * b.args[1]
    return Dot.build(a, b)


@normal_form(Inner)
def full_contraction(a: sp.Expr, b: sp.Expr) -> sp.Expr:
    """The product of scalars, the dot product of vectors, and A : B for tensors."""
    rank = len(shape_of(a))
    if rank < 2:
        return Dot(a, b) if rank else a * b
    return contract_tensors(a, b)


@bilinear
def contract_tensors(a: sp.Expr, b: sp.Expr) -> sp.Expr:
    """A : B, symmetric; with the identity it is the trace."""
    if is_identity(a) or is_identity(b):
        return TensorTrace(b if is_identity(a) else a)
    return Inner.build(*sorted((a, b), key=default_sort_key))


@normal_form(Cross)
@bilinear
def cross_product(a: sp.Expr, b: sp.Expr) -> sp.Expr:
    """Antisymmetric, hence zero for equal factors."""
    if a == b:
        return sp.S.Zero
    if isinstance(a, Vec) and isinstance(b, Vec):
        entries = cross_of_components(a.args, b.args)
        return entries[0] if len(entries) == 1 else Vec(*entries)
    first, second = sorted((a, b), key=default_sort_key)
    node = Cross.build(first, second)
    return node if first == a else -node


@normal_form(Outer)
@bilinear
def outer_product(a: sp.Expr, b: sp.Expr) -> sp.Expr:
    """Only bilinear."""
    return Outer.build(a, b)


def tensor_linear(of_tensor: Callable[[sp.Expr], sp.Expr]) -> Callable[[sp.Expr], sp.Expr]:
    """Make the rule for a tensor one for sums of scalars times tensors."""

    def rule(arg: sp.Expr) -> sp.Expr:
        pairs = (split_scalar(monomial) for monomial in sp.Add.make_args(sp.expand_mul(arg)))
        return sp.Add(*(scalar * of_tensor(tensor) for scalar, tensor in pairs))

    return rule


@normal_form(Transpose)
@tensor_linear
def transposed(arg: sp.Expr) -> sp.Expr:
    """An involution; symmetric tensors stay."""
    if is_a(arg, Transpose):
        return arg.args[0]
    if is_a(arg, Outer):
        return Outer(arg.args[1], arg.args[0])
    if isinstance(arg, Tensor):
        return Tensor(*(entry for row in zip(*arg.rows, strict=True) for entry in row))
    return arg if isinstance(arg, Sym) or is_identity(arg) else Transpose.build(arg)


@normal_form(Sym)
@tensor_linear
def symmetric_part(arg: sp.Expr) -> sp.Expr:
    """A projection that does not see the transpose."""
    if isinstance(arg, Sym) or is_identity(arg):
        return arg
    if isinstance(arg, Tensor):
        return (arg + Transpose(arg)) / 2
    if is_a(arg, Outer):
        return Sym.build(Outer.build(*sorted(arg.args, key=default_sort_key)))
    return Sym.build(arg.args[0] if is_a(arg, Transpose) else arg)


@normal_form(TensorTrace)
@tensor_linear
def trace_of(arg: sp.Expr) -> sp.Expr:
    """tr grad = div, tr(a ⊗ b) = a·b, and the trace sees only the symmetric part."""
    if is_a(arg, Sym, Transpose):
        return TensorTrace(arg.args[0])
    if is_a(arg, Grad):
        return Div(arg.args[0])
    if is_a(arg, Outer):
        return Dot(*arg.args)
    if isinstance(arg, Tensor):
        return sp.Add(*(row[i] for i, row in enumerate(arg.rows)))
    return TensorTrace.build(arg)


@normal_form(Det)
def determinant(arg: sp.Expr) -> sp.Expr:
    """Written out where the entries are given; it does not see the transpose."""
    if is_identity(arg):
        return sp.S.One
    if isinstance(arg, Tensor):
        return determinant_of_entries(arg.args)
    return Det.build(arg.args[0] if is_a(arg, Transpose) else arg)


@normal_form(Inverse)
def inverse(arg: sp.Expr) -> sp.Expr:
    """Written out where the entries are given; the transpose comes out."""
    if is_identity(arg):
        return arg
    if isinstance(arg, Tensor):
        if determinant_of_entries(arg.args) == 0:
            raise ShapeError(f"{arg} has no inverse: its determinant is zero")
        return Tensor(*inverse_of_entries(arg.args))
    if is_a(arg, Transpose):
        return Transpose(Inverse(arg.args[0]))
    return arg.args[0] if isinstance(arg, Inverse) else Inverse.build(arg)


@normal_form(Tensor)
def tensor_of(*parts: sp.Expr) -> sp.Expr:
    """The entries as they are."""
    return Tensor.build(*parts)


@normal_form(Vec)
def vector_of(*parts: sp.Expr) -> sp.Expr:
    """The components as they are."""
    return Vec.build(*parts)


def curl_of_components(parts: tuple[sp.Expr, ...]) -> sp.Expr:
    """Curl of a vector given by components (2D: a scalar)."""
    x, y, z = SPACE
    if len(parts) == 2:
        return parts[1].diff(x) - parts[0].diff(y)
    a, b, c = parts
    return Vec(c.diff(y) - b.diff(z), a.diff(z) - c.diff(x), b.diff(x) - a.diff(y))
