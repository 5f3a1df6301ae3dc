# SPDX-License-Identifier: MIT
"""From a library and an experiment to forms: one compiled form for each term, anchor, forcing and
constraint.

With the state w = (fields, multipliers, auxiliary fields), its rate ẇ and acceleration ẅ, every
ingredient k is a form F_k(w, ẇ, ẅ, t; v), and the discrete equation is Σ_k c_k F_k = 0 with c = +1
for anchors, −α_j for terms, −1 for forcing and ±1 for constraints. Deleting a term changes a number
c_j; nothing is compiled or assembled again.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp
import ufl
from dolfinx import fem
from petsc4py import PETSc
from ufl.algorithms import expand_derivatives
from ufl.constantvalue import Zero

from cffem import _compat
from cffem.engine.assembly import experiment_checks as checks
from cffem.engine.assembly.auxiliary import auxiliary_traces, check_tangential, is_held, leader_of
from cffem.engine.assembly.fluxes import lax_friedrichs, nitsche, streamline
from cffem.engine.assembly.fluxes.transport import Upwind, upwind
from cffem.engine.assembly.ingredients import Ingredient
from cffem.engine.assembly.natural_conditions import check_natural
from cffem.engine.assembly.periodic.elimination import Periodicity
from cffem.engine.assembly.spaces import Spaces, basix_element, default_multiplier
from cffem.engine.assembly.traces import essential, given_values, on_part
from cffem.engine.inputs import field_data as data
from cffem.engine.inputs.known_fields import KnownFields
from cffem.engine.inputs.sharp_boundary import SharpBoundary
from cffem.engine.inputs.sharp_data import SharpData, Time
from cffem.engine.mesh.boundary_parts import Boundary
from cffem.engine.mesh.wrapped import wrapped
from cffem.forms.elements import HCURL, L2, carrier
from cffem.forms.given_forms import captured, given_form
from cffem.forms.lowering import Context, Lowering
from cffem.forms.parts import Trace, contraction
from cffem.forms.quadrature import with_fixed_quadrature
from cffem.forms.strong import strong_form
from cffem.forms.translation_errors import NotRepresentable, UnsupportedTerm
from cffem.forms.weak import surface_term, test_of, weak_form
from cffem.forms.weakterm import Auxiliary, WeakTerm
from cffem.symbols.algebra.nodes import Curl
from cffem.symbols.algebra.splitting import is_stand_in
from cffem.symbols.coordinates import Parameter, t
from cffem.symbols.errors import InputError
from cffem.symbols.fields import Field, ScalarField
from cffem.symbols.form_terms import FormTerm
from cffem.symbols.operators import as_expr, dt
from cffem.symbols.problem.conditions import BoundaryCondition, Dirichlet
from cffem.symbols.problem.experiment import Experiment
from cffem.symbols.restricted import split_parts

if TYPE_CHECKING:
    from basix.ufl import _ElementBase
    from ufl.core.expr import Expr

    from cffem.engine.assembly.carried import Symbol
    from cffem.engine.mesh.meshes import MeshData
    from cffem.symbols.problem.conditions import Periodic
    from cffem.symbols.problem.library import Library
    from cffem.symbols.problem.system import System


class Discretisation:
    """Spaces and forms of a library in an experiment.

    Args:
        library: a `Library` or `System`.
        experiment: the experiment.
        domain: the mesh with its named boundary parts, as `cffem.engine.mesh.meshes` gives it.
        coefficients: α_j of the factual problem; their signs decide what is upstream, and they
            give the speeds of fields that conservation laws couple.
    """

    def __init__(
        self,
        library: Library | System,
        experiment: Experiment,
        domain: MeshData,
        coefficients: Mapping[str, float] | None = None,
    ):
        _compat.keep_cells()
        self.factual = dict(coefficients or {})
        # −1 for the terms whose coefficients are negative.
        self.signs = {name: -1 for name, value in self.factual.items() if value < 0}
        # Terms in parts that deletions add, with the opposite of the coefficient of the whole term,
        # whose fluxes they undo there.
        self.part_terms: set[str] = set()
        # Functions and constants of this very mesh that terms given as forms bring along.
        self.captured: list[Any] = []
        self.library = library
        self.experiment = experiment
        # The mesh as it was given; that of the forms may have its periodic sides joined.
        self.given = domain
        checks.check_mesh(domain.mesh)
        library.check(domain.mesh.geometry.dim)
        self.unknowns: tuple[Field, ...] = tuple(library.unknowns)
        checks.check_fields(library, experiment)
        elements = self._on(domain, experiment.boundary)
        if self.boundary.periodic and self._has_fluxes(elements):
            # Fluxes cross periodic sides between cells that are neighbours there.
            conditions = [c for c in experiment.boundary if isinstance(c, BoundaryCondition)]
            elements = self._on(wrapped(domain, self.boundary.periodic), conditions)
        self.auxiliaries = self._auxiliaries()
        self.spaces = Spaces(
            self.mesh, {**elements, **{a.field: a.element for a in self.auxiliaries}}
        )
        space = self.spaces.space
        self.state, self.rate, self.acceleration = (
            fem.Function(space, name=name) for name in ("state", "rate", "acceleration")
        )
        window = experiment.time
        span = (0.0, 0.0) if window is None else (float(window.start), float(window.end))
        self.sharp, self.sharp_boundary = (
            SharpData(self.mesh, self.time, span),
            SharpBoundary(self.mesh, self.time, span),
        )
        checks.check_data(self)
        checks.check_effects(self)
        check_natural(self)
        check_tangential(self)
        nitsche.check_weakly_given(self)
        self.parameters = self._parameters()
        self.context = self._context()

    def _on(
        self, domain: MeshData, conditions: Sequence[BoundaryCondition | Periodic]
    ) -> dict[Field, _ElementBase]:
        """Weak forms on a mesh; returns the elements."""
        self.domain, self.mesh = domain, domain.mesh
        library, experiment = self.library, self.experiment
        self.boundary = Boundary(domain, conditions)
        self.time = Time(self.mesh, PETSc.ScalarType(0))
        window = experiment.time
        span = None if window is None else (float(window.start), float(window.end))
        self.known = KnownFields(domain, experiment.known, self.time, span)
        elements = {f: basix_element(self.mesh, f, experiment.elements[f]) for f in self.unknowns}
        self.multiplier = self._multiplier(elements)
        if self.multiplier is not None:
            elements[self.multiplier[0]] = self.multiplier[1]
        self.weak_terms = {name: self._weak_term(name, elements) for name in library.names}
        self.weak_anchors = {
            f: self._weak_anchor(f, equation.anchor, elements)
            for f, equation in library.equations.items()
        }
        return elements

    def _has_fluxes(self, elements: Mapping[Field, _ElementBase]) -> bool:
        """Whether discontinuous fields flow between cells, and nothing else does, so that they flow
        across periodic sides as well.
        """
        weak = [(self.library.locate(name)[0], term) for name, term in self.weak_terms.items()]
        weak += [(f, term) for f, term in self.weak_anchors.items() if term is not None]
        flowing = [
            field
            for field, term in weak
            if term.jumps or term.penalties or term.conserved is not None
        ]
        return bool(flowing) and all(carrier(elements[field]).space == L2 for field in flowing)

    # What the user said
    # ----------------------------------------------------------------------------------------------

    def with_conditions(self, conditions: Sequence[BoundaryCondition | Periodic]) -> Discretisation:
        """The same spaces and states with other boundary conditions, for interventions on
        natural data.
        """
        result = copy.copy(self)
        result.boundary = Boundary(self.domain, [*conditions, *self.boundary.periodic])
        result.context = result._context()
        check_natural(result)
        check_tangential(result)
        return result

    @cached_property
    def periodicity(self) -> Periodicity | None:
        """The identification of unknowns by periodic conditions."""
        return Periodicity(self.spaces, self.boundary) if self.boundary.periodic else None

    @cached_property
    def surface_share(self) -> fem.Function:
        """|∂K|/|K| of every cell, which penalties between cells are multiples of; collective."""
        return nitsche.surface_share(self.mesh)

    @cached_property
    def streamlines(self) -> dict[Field, Symbol]:
        """Transport and diffusion of the equations that SUPG stabilises."""
        return streamline.check_streamline(self, self.factual)

    @cached_property
    def kinds(self) -> dict[Field, str]:
        """The Sobolev space of every field's element: "H1", "H(curl)", "H(div)" or, where it
        is discontinuous, "L2".
        """
        return {f: carrier(element).space for f, element in self.spaces.elements.items()}

    def _multiplier(
        self, elements: Mapping[Field, _ElementBase]
    ) -> tuple[Field, _ElementBase] | None:
        constraint = self.experiment.constraint
        if constraint is None:
            return None
        for unknown in constraint.fields:
            if unknown not in elements:
                raise InputError(f"the constraint is on {unknown}, which has no equation here")
        if not constraint.pointwise:
            raise InputError(
                f"a zero mean of {constraint.fields[0]} is a class to project onto and is not "
                "enforced by solves; give a term or a "
                "boundary condition that determines the mean instead"
            )
        if constraint.multiplier is not None:
            unknown, description = constraint.multiplier
            return unknown, basix_element(self.mesh, unknown, description)
        return default_multiplier(self.mesh, constraint, elements)

    def _weak_term(self, name: str, elements: Mapping[Field, _ElementBase]) -> WeakTerm:
        term, equation = self.library[name], self.library.locate(name)[0]
        if isinstance(term, FormTerm):
            return WeakTerm(term, test_of(equation, elements), sp.S.Zero)
        try:
            return self.weak_in_parts(term, equation, elements, f"term {name!r}")
        except UnsupportedTerm as error:
            raise error.named(name) from None

    def weak_in_parts(
        self,
        term: sp.Expr,
        equation: Field,
        elements: Mapping[Field, _ElementBase],
        what: str,
        multipliers: Collection[Field] = (),
        smooth: bool = False,
    ) -> WeakTerm:
        """The weak form of a term, in the parts where it acts.

        Args:
            term: the term.
            equation: the field of its equation.
            elements: the elements of all fields.
            what: how to call it in an error message.
            multipliers: fields that are never differentiated.
            smooth: whether the test function is a given one with all derivatives.
        """
        plain, parts = split_parts(term)
        weak = self._everywhere(plain, equation, elements, multipliers, smooth)
        for part, inner in parts.items():
            if not checks.is_subdomain(self.domain, self.boundary, part, what):
                checks.check_has_effect(self, part, equation, elements, what)
                surface = surface_term(part, inner, equation, elements, self.known.elements)
                weak = weak.plus(surface)
                continue
            # A smooth test function times an indicator is not smooth.
            within = self._everywhere(inner, equation, elements, multipliers)
            if within.conserved is not None:
                raise UnsupportedTerm(
                    "fluxes of nonlinear terms between discontinuous cells are not restricted to a "
                    "part; take a Lagrange element",
                    inner,
                )
            weak = weak.plus(within, self.known.indicator(part, what))
        return replace(weak, term=term)

    def strong_in_parts(self, term: sp.Expr, what: str) -> Expr:
        """A term at points inside cells, in the parts where it acts.

        Raises:
            NotRepresentable: it acts on a surface, or the elements lack a derivative.
        """
        plain, parts = split_parts(term)
        for part, inner in parts.items():
            if not checks.is_subdomain(self.domain, self.boundary, part, what):
                raise NotRepresentable(
                    f"it acts on {part!r}, and points inside the domain do not see it", node=term
                )
            plain += self.known.indicator(part, what) * inner
        context = self.context.extended(self.known.values)
        return strong_form(plain, context, self.spaces.elements)

    def _everywhere(
        self,
        term: sp.Expr,
        equation: Field,
        elements: Mapping[Field, _ElementBase],
        multipliers: Collection[Field],
        smooth: bool = False,
    ) -> WeakTerm:
        if term.has(FormTerm):
            raise UnsupportedTerm("it is given as a UFL form, which cannot be taken apart", term)
        if term == 0:
            return WeakTerm(term, test_of(equation, elements), sp.S.Zero)
        return weak_form(
            term, equation, elements, multipliers, known=self.known.elements, smooth=smooth
        )

    def _weak_anchor(
        self, unknown: Field, anchor: sp.Expr | None, elements: Mapping[Field, _ElementBase]
    ) -> WeakTerm | None:
        if anchor is None:
            return None
        return weak_form(anchor, unknown, elements, known=self.known.elements)

    def _auxiliaries(self) -> list[Auxiliary]:
        weak = [*self.weak_terms.values(), *filter(None, self.weak_anchors.values())]
        return list({a.field: a for term in weak for a in term.auxiliaries}.values())

    def _parameters(self) -> dict[Parameter, fem.Constant]:
        missing = [str(p) for p, value in self.library.parameters.items() if value is None]
        if missing:
            raise InputError(
                f"no value for parameter {', '.join(missing)}: give it in Library(..., "
                f"parameters={{'{missing[0]}': …}})"
            )
        return {
            p: fem.Constant(self.mesh, PETSc.ScalarType(float(value)))
            for p, value in self.library.parameters.items()
            if value is not None
        }

    # Symbols
    # ----------------------------------------------------------------------------------------------

    def _context(self) -> Context:
        values: dict[Any, Any] = {t: self.time, **self.parameters, **self.known.values}
        rates, accelerations = self.spaces.parts(self.rate), self.spaces.parts(self.acceleration)
        for unknown, value in self.spaces.parts(self.state).items():
            values[unknown] = value
            values[dt(unknown)] = rates[unknown]
            values[dt(dt(unknown))] = accelerations[unknown]
        for condition, symbol in self.boundary.data_symbols.items():
            values[symbol] = condition.value
        return Context(self.mesh.ufl_domain(), values)

    @cached_property
    def tests(self) -> dict[Field, Expr]:
        """UFL test functions by field."""
        return self.spaces.parts(ufl.TestFunction(self.spaces.space))

    # Forms
    # ----------------------------------------------------------------------------------------------

    def form_of(
        self, weak: WeakTerm, equation: Field, closed: bool = False, sign: int = 1
    ) -> ufl.Form:
        """The UFL form of a weak term with the natural traces that the boundary conditions leave.

        Args:
            weak: the weak term.
            equation: the field whose test function it meets.
            closed: whether traces without derivatives are left out as well (normal components on a
                closed boundary).
            sign: that of the coefficient with which it stands on the right of the equation.
        """
        if isinstance(weak.term, FormTerm):
            return self._given_form(weak.term, equation)
        context = self.context.extended({weak.test: self.tests[equation]})
        within = replace(weak, traces=(), penalties=())
        sides = self.sharp.on_sides(context)
        form = within.forms(self.sharp.context(weak.volume, context)).volume
        form += replace(within, volume=sp.S.Zero).forms(sides).interior
        form += nitsche.between_cells(self, weak, sides)
        low, measure = Lowering(context), self.boundary.measure
        multiplier = None if self.multiplier is None else self.multiplier[0]
        if weak.conserved is not None:
            form += lax_friedrichs.flux_form(self, weak, equation, sign, context)
        flux = None
        if not self.is_coupled(equation):
            flux = upwind(weak, equation, self.kinds, self.mesh.geometry.dim, sign)
        if flux is not None:
            form += with_fixed_quadrature(
                flux.between_cells(Lowering(sides), context.values[equation], self.tests[equation])
            )
        for part, conditions in self.boundary.conditions.items():
            symbols = self.boundary.data_symbols
            dimension = self.mesh.geometry.dim
            given = (
                weak.traces,
                conditions,
                equation,
                part,
                symbols,
                dimension,
                self.kinds,
                multiplier,
                nitsche.weakly_given(weak, conditions, self.kinds),
            )
            traces = [] if closed else on_part(*given)
            if traces and not self._zero_on(equation, conditions):
                form += self.on_boundary(contraction(tuple(traces)), context) * measure(
                    self.boundary.tags[part]
                )
            if weak.penalties:
                here = measure(self.boundary.tags[part])
                form += nitsche.through_boundary(self, weak, conditions, context, here)
            if entering := self._inflow(weak, conditions):
                share = self._share(equation, conditions) if flux is None else flux.entering(low)
                form += (
                    share
                    * self.on_boundary(contraction(tuple(entering)), context)
                    * measure(self.boundary.tags[part])
                )
        for part, integrand in weak.surfaces:
            if part in self.boundary.tags:
                form += self.on_boundary(integrand, context) * measure(self.boundary.tags[part])
            if part in self.boundary.surfaces:
                form += 0.5 * low(integrand) * measure(self.boundary.surfaces[part])
        return form

    def _share(self, equation: Field, conditions: list[BoundaryCondition]) -> float:
        """How much of a jump to given values a central flux takes: half of it where the other side
        is given as a whole, and is not mirrored.
        """
        group = next((g for g in self.coupled if equation in g.fields), None)
        given = {c.unknown for c in conditions if isinstance(c, Dirichlet)}
        return 0.5 if group is not None and {*group.fields} <= given else 1.0

    def is_coupled(self, unknown: Field) -> bool:
        """Whether a conservation law couples a field with others."""
        return any(unknown in group.fields for group in self.coupled)

    @cached_property
    def coupled(self) -> list[lax_friedrichs.Coupled]:
        """The groups of discontinuous fields that nonlinear conservation laws couple."""
        return lax_friedrichs.coupled_fields(self, self.factual)

    def _given_form(self, term: FormTerm, equation: Field) -> ufl.Form:
        """The form of a term that the user gave as one."""
        name = next(name for name, expr in self.library.items() if expr == term)
        domain = self.mesh.ufl_domain()
        cells = ufl.Measure("dx", domain=domain, subdomain_data=self.domain.cell_tags)
        facets = ufl.Measure("dS", domain=domain, subdomain_data=self.domain.facet_tags)
        measures = {"dx": cells, "ds": self.boundary.measure, "dS": facets}
        form = given_form(term, name, self.context, self.tests[equation], measures)
        self.captured += captured(form, self.context)
        return form

    def on_boundary(self, expr: sp.Expr, context: Context) -> ufl.Form:
        """An integrand over exterior facets, with functions in place of data that rules on
        facets do not see.
        """
        return Lowering(self.sharp_boundary.context(expr, context))(expr)

    def depends_on_time(self, form: ufl.Form) -> bool:
        """Whether a form contains the time, or data that move."""
        moving = self.sharp.moving | self.sharp_boundary.moving | self.known.moving
        return self.time in form.constants() or any(c in moving for c in form.coefficients())

    def _inflow(self, weak: WeakTerm, conditions: list[BoundaryCondition]) -> list[Trace]:
        """Boundary values of discontinuous fields: the jump from the trace to the given
        value, charged to the test function.
        """
        given = given_values(conditions, self.boundary.data_symbols, self.kinds)
        jumps = [(trace.xreplace(given) - trace, weight) for trace, weight in weak.jumps]
        return [(jump, weight) for jump, weight in jumps if jump != 0]

    def _zero_on(self, unknown: Field, conditions: list[BoundaryCondition]) -> bool:
        """Whether the test functions of a field vanish on a part: multipliers and auxiliaries
        follow their leading field.
        """
        held = essential(conditions, unknown, self.kinds[unknown])
        return held or unknown in self.pinned_with(conditions)

    def pinned_with(self, conditions: list[BoundaryCondition]) -> set[Field]:
        """Scalar multipliers and auxiliary fields that vanish on a part with these conditions."""
        pinned = {
            a.field
            for a, leader in self.leaders.items()
            if is_held(leader, self.kinds[leader], conditions, leader in self.closed_fields)
        }
        return pinned | {
            f
            for f, leader in self.followers.items()
            if essential(conditions, leader, self.kinds[leader])
        }

    @cached_property
    def leaders(self) -> dict[Auxiliary, Field]:
        """The field whose divergence, curl or second derivative each auxiliary field is."""
        return {a: leader_of(a, self.kinds) for a in self.auxiliaries}

    @cached_property
    def closed_fields(self) -> frozenset[Field]:
        """H(curl) fields under a divergence constraint, (E, ∇q) = 0 for all q, normal
        components on the boundary included.
        """
        constraint = self.experiment.constraint
        fields = () if constraint is None or constraint.expr.has(Curl) else constraint.fields
        return frozenset(f for f in fields if self.kinds[f] == HCURL)

    @cached_property
    def followers(self) -> dict[Field, Field]:
        """The multiplier of a divergence constraint with its H(curl) field: it vanishes where
        the tangential part is given.
        """
        if (
            self.multiplier is None
            or not isinstance(self.multiplier[0], ScalarField)
            or not self.closed_fields
        ):
            return {}
        return {self.multiplier[0]: min(self.closed_fields, key=str)}

    def ingredient(self, name: str, form: ufl.Form) -> Ingredient:
        """Differentiate a form and see what it depends on."""
        form = _compat.one_rule_per_part(with_fixed_quadrature(form))
        trial = ufl.TrialFunction(self.spaces.space)
        states = (self.state, self.rate, self.acceleration)
        jacobians = []
        for state in states:
            jacobian = (
                expand_derivatives(ufl.derivative(form, state, trial))
                if state in form.coefficients()
                else None
            )
            jacobians.append(None if jacobian is None or jacobian.empty() else jacobian)
        present = [j for j in jacobians if j is not None]
        linear = not any(state in j.coefficients() for j in present for state in states)
        autonomous = not any(self.depends_on_time(j) for j in present)
        constant = None
        if linear:
            zeros = {
                state: Zero(state.ufl_shape) for state in states if state in form.coefficients()
            }
            constant = expand_derivatives(ufl.replace(form, zeros)) if zeros else form
            constant = None if constant.empty() else constant
        steady = constant is None or not self.depends_on_time(constant)
        a, b, c = jacobians
        return Ingredient(name, form, (a, b, c), constant, linear, autonomous, steady)

    def terms(self) -> dict[str, Ingredient]:
        """The ingredients of all candidate terms."""
        found = {
            name: self.ingredient(
                name,
                self.form_of(weak, self.library.locate(name)[0], sign=self.signs.get(name, 1))
                + streamline.share(self, self.library.locate(name)[0], self.library[name]),
            )
            for name, weak in self.weak_terms.items()
        }
        for name, ingredient in found.items():
            term = self.library[name]
            if isinstance(term, FormTerm) and term.form.linear and not ingredient.linear:
                raise InputError(
                    f"term {name!r}: its form is said to be linear, but its derivative depends on "
                    "the fields; leave linear=True out"
                )
        return found

    def turned(self, coefficients: Mapping[str, float]) -> bool:
        """Whether other coefficients change what is upstream, so that fluxes between cells are
        other ones.
        """
        names = [*self.upwind_terms, *self.conserved_terms]
        if any((coefficients[name] < 0) != (name in self.signs) for name in names):
            return True
        coupled = any(
            coefficients[name] != factor
            for group in self.coupled
            for name, factor in zip(group.names, group.coefficients, strict=True)
        )
        return coupled or any(
            coefficients.get(name, 0.0) != self.factual.get(name, 0.0)
            for name in self.library.names
            if self.library.locate(name)[0] in self.streamlines
        )

    @cached_property
    def conserved_terms(self) -> dict[str, int]:
        """The nonlinear conservation laws of discontinuous fields, with their signs."""
        return {
            name: self.signs.get(name, 1)
            for name, weak in self.weak_terms.items()
            if weak.conserved is not None
        }

    @cached_property
    def upwind_terms(self) -> dict[str, Upwind]:
        """The terms that carry discontinuous fields upwind."""
        spaces, dimension = self.kinds, self.mesh.geometry.dim
        found = {
            name: upwind(
                weak, self.library.locate(name)[0], spaces, dimension, self.signs.get(name, 1)
            )
            for name, weak in self.weak_terms.items()
            if name not in self.part_terms and not self.is_coupled(self.library.locate(name)[0])
        }
        return {name: flux for name, flux in found.items() if flux is not None}

    def fixed(self) -> list[tuple[float, Ingredient]]:
        """Anchors, constraints and auxiliary equations with their signs."""
        found: list[tuple[float, Ingredient]] = []
        for unknown, weak in self.weak_anchors.items():
            if weak is not None:
                found.append(
                    (
                        1.0,
                        self.ingredient(
                            f"anchor of {unknown}",
                            self.form_of(weak, unknown, sign=-1)
                            + streamline.share(self, unknown, weak.term),
                        ),
                    )
                )
        for auxiliary in self.auxiliaries:
            found.append(
                (1.0, self.ingredient(f"{auxiliary.field}", self._auxiliary_form(auxiliary)))
            )
        for group in self.coupled:
            name = f"dissipation of {', '.join(map(str, group.fields))}"
            form = lax_friedrichs.dissipation_form(self, group)
            found.append((1.0, self.ingredient(name, form)))
        if self.multiplier is not None:
            found.append((-1.0, self.ingredient("constraint", self._constraint_form())))
        return found

    def forcing(self, forcing: Mapping[Field, Any]) -> list[tuple[float, Ingredient]]:
        """Right-hand sides that no term carries."""
        found = []
        for unknown, value in forcing.items():
            data.check_on_mesh(
                value, unknown, self.mesh, f"the forcing of {unknown}", callables=False
            )
            measure = ufl.dx(domain=self.mesh.ufl_domain())
            if isinstance(value, fem.Function):
                element = value.function_space.ufl_element()
                if element.has_custom_quadrature:
                    measure = measure(metadata={"quadrature_degree": element.embedded_superdegree})
            elif as_expr(value) == 0:
                continue
            else:
                given = as_expr(value)
                value = Lowering(self.sharp.context(given, self.context, self.tests[unknown]))(
                    given
                )
                self.sharp.check_not_zero(given, unknown, f"the forcing of {unknown}")
            form = ufl.inner(value, self.tests[unknown]) * measure
            form += streamline.share(self, unknown, None, value)
            found.append((-1.0, self.ingredient(f"forcing of {unknown}", form)))
        return found

    def _auxiliary_form(self, auxiliary: Auxiliary) -> ufl.Form:
        value = self.spaces.parts(self.state)[auxiliary.field]
        mass = auxiliary.mass(
            value, self.tests[auxiliary.field], ufl.dx(domain=self.mesh.ufl_domain())
        )
        leader = self.leaders[auxiliary]
        split = is_stand_in(auxiliary.field)
        form = self.form_of(auxiliary.definition, auxiliary.field, closed=not split)
        if split:
            return mass - form
        space, context = (
            self.kinds[leader],
            self.context.extended({auxiliary.test: self.tests[auxiliary.field]}),
        )
        for part, conditions in self.boundary.conditions.items():
            if leader in self.closed_fields or is_held(leader, space, conditions, closed=False):
                continue
            traces = auxiliary_traces(
                auxiliary, leader, space, conditions, part, self.boundary.data_symbols
            )
            if traces:
                form += self.on_boundary(
                    contraction(tuple(traces)), context
                ) * self.boundary.measure(self.boundary.tags[part])
        return mass - form

    def _constraint_form(self) -> ufl.Form:
        """c(w, μ) and its transpose c(v, λ), so that the multiplier acts along the
        constraint's gradient.
        """
        assert self.multiplier is not None
        multiplier, constraint = self.multiplier[0], self.experiment.constraint
        elements = {**self.spaces.elements}
        weak = weak_form(constraint.expr, multiplier, elements, known=self.known.elements)
        tested = self.form_of(weak, multiplier, closed=True)
        value = self.spaces.parts(self.state)[multiplier]
        context = self.context.extended({weak.test: value})
        with_value = replace(weak, traces=()).forms(context).total
        test = ufl.TestFunction(self.spaces.space)
        # Only the constrained fields are varied: the multiplier itself stands where the test
        # function stood.
        direction = self._only(test, constraint.fields)
        return tested + expand_derivatives(ufl.derivative(with_value, self.state, direction))

    def _only(self, argument: Expr, fields: Sequence[Field]) -> Expr:
        """An argument of the state space with the components of all other fields set to zero."""
        if not self.spaces.mixed:
            return argument
        parts = []
        for unknown, part in self.spaces.parts(argument).items():
            for index in np.ndindex(part.ufl_shape):
                parts.append((part[index] if index else part) if unknown in fields else Zero())
        return ufl.as_vector(parts)
