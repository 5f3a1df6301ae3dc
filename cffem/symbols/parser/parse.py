# SPDX-License-Identifier: MIT
"""`parse`: terms from text, in the language users write in SymPy, for studies that come from a
stranger.

The text is read by the grammar of `parser_syntax`, every name is looked up in the fixed tables of
`parser_words`, and every operation is first charged to the budget of `parser_limits`. Nothing is
evaluated as Python. Differences from a Python program: derivatives are `diff(u, x, 2)` or
`Derivative(u, (x, 2))` because there are no attributes, `a < x < b` means both, conditions are
joined by `and`, `or`, `not` or by `&`, `|`, `~`, whole numbers divide exactly (`1/2`), and Euler's
number is `exp(1)` because `E` is a good field name.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence

import sympy as sp
from sympy.core.relational import Relational
from sympy.logic.boolalg import Boolean

from cffem.symbols import operators
from cffem.symbols.algebra.shapes import rank_name, shape_of
from cffem.symbols.coordinates import COORDINATES, Parameter
from cffem.symbols.errors import ParseError
from cffem.symbols.fields import Field
from cffem.symbols.known import Known
from cffem.symbols.parser.constants import check_exponent, constant_value, finite
from cffem.symbols.parser.limits import CALL_LIMITS, LIMITS, Budget
from cffem.symbols.parser.polynomials import is_condition, is_quadratic, sign_work
from cffem.symbols.parser.syntax import KEYWORDS, SyntaxParser, Tree
from cffem.symbols.parser.words import (
    CALLABLE,
    CONSTANTS,
    DIFFERENTIAL,
    FUNCTIONS,
    POINTWISE,
    PRODUCTS,
    RELATIONS,
    SPECIAL,
)

# What SymPy and the operators raise when arguments make no sense.
REFUSALS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    NotImplementedError,
    RecursionError,
    TypeError,
    ValueError,
)


def parse(
    text: str, fields: Iterable[Field | Known] = (), parameters: Iterable[str | sp.Symbol] = ()
) -> sp.Expr:
    """Read a term from text without ever running it.

    Args:
        text: the term, for instance `"-curl(curl(E)) + nu*lap(E)"`.
        fields: the unknowns and known fields that may occur.
        parameters: named constants that may occur, as names or as `Parameter` objects.

    Returns:
        The same expression as written in SymPy.

    Raises:
        ParseError: naming the column and what is wrong there; for an unknown name also the nearest
            known one.

    Example:
        >>> import cffem as cf
        >>> from cffem.symbols.parser.parse import parse
        >>> E = cf.VectorField("E", dim=3)
        >>> parse("-curl(curl(E)) + nu*lap(E)", fields=[E], parameters=["nu"])
        nu*lap(E) - curl(curl(E))
        >>> parse("0.5*diff(u**2, x)", fields=[cf.ScalarField("u")])
        1.0*u*Derivative(u, x)
    """
    if not isinstance(text, str):
        raise TypeError(f"parse reads a string, not {type(text).__name__}")
    builder = Builder(declared_names(fields, parameters))
    tree = SyntaxParser(text).tree()
    expr = builder.build(tree)
    if is_condition(expr):
        raise ParseError(
            "a condition is not a term; use it inside Piecewise((value, condition), …)", tree.column
        )
    builder.shape(expr, tree.column)
    return expr


def declared_names(
    fields: Iterable[Field | Known], parameters: Iterable[str | sp.Symbol]
) -> dict[str, sp.Expr]:
    """The names a text may use besides the functions: coordinates, constants, and the given
    fields and parameters.
    """
    names: dict[str, sp.Expr] = dict(CONSTANTS)
    for item in (*fields, *parameters):
        if isinstance(item, str):
            try:
                item = Parameter(item)
            except ValueError as error:
                raise ParseError(str(error)) from None
        if not isinstance(item, Field | Known | sp.Symbol):
            raise TypeError(f"fields and parameters are Field and Parameter objects, not {item!r}")
        if item.name in CALLABLE | KEYWORDS or item.name in names:
            raise ParseError(
                f"the name {item.name!r} is declared twice or belongs to the language; choose "
                "another"
            )
        if not item.name.isascii() or "__" in item.name:
            raise ParseError(
                f"the name {item.name!a} cannot be written in a term; use plain ASCII letters"
            )
        names[item.name] = item
    return names


class Builder:
    """Turns a syntax tree into an expression, one small method per kind of node."""

    def __init__(self, names: dict[str, sp.Expr]):
        self.names = names
        self.budget = Budget()

    def build(self, tree: Tree) -> sp.Basic:
        return getattr(self, f"build_{tree.kind}")(tree)

    def expression(self, tree: Tree) -> sp.Expr:
        """Build a part that must not be a condition."""
        expr = self.build(tree)
        if is_condition(expr):
            raise ParseError("a condition is not a number", tree.column)
        return expr

    def condition(self, tree: Tree) -> sp.Basic:
        expr = self.build(tree)
        if not is_condition(expr):
            raise ParseError("expected a condition such as x < 1/2", tree.column)
        return expr

    def apply(
        self, function: Callable[..., sp.Basic], *arguments: sp.Basic, column: int, work: int = 0
    ) -> sp.Basic:
        """Carry out one SymPy operation within the budget, with its complaints as `ParseError`."""
        nodes = sum(self.budget.measure(argument, column).nodes for argument in arguments)
        self.budget.spend(work + nodes // 4, column)
        try:
            result = function(*arguments)
        except REFUSALS as error:
            raise ParseError(one_line(error), column) from None
        if not isinstance(result, sp.Expr | Boolean):
            raise ParseError("this is not an expression", column)
        self.budget.measure(result, column)
        self.number(result, column)
        return result

    def number(self, expr: object, column: int) -> float | None:
        """The value of a constant, which must be real and finite; None for what is not constant."""
        if is_condition(expr) or self.budget.measure(expr, column).leaves > 0:
            return None
        return constant_value(expr, column)

    def numbers(self, exprs: Sequence[sp.Basic], column: int) -> list[float] | None:
        """The values of constants, or None unless all are constant."""
        found = [
            number for number in (self.number(expr, column) for expr in exprs) if number is not None
        ]
        return found if len(found) == len(exprs) else None

    def shape(self, expr: sp.Expr, column: int) -> tuple[int | None, ...]:
        try:
            return shape_of(expr)
        except REFUSALS as error:
            raise ParseError(one_line(error), column) from None

    # ----------------------------------------------------------------------------------------------
    # Numbers and names

    def build_number(self, tree: Tree) -> sp.Expr:
        number = finite(lambda: float(tree.word), tree.column)
        if tree.word.isdigit():
            if len(tree.word) > LIMITS.digits:
                raise ParseError(
                    f"a whole number has at most {LIMITS.digits} digits; write 1e50 for a decimal",
                    tree.column,
                )
            return sp.Integer(int(tree.word))
        if number == 0 and any(digit in "123456789" for digit in tree.word.lower().split("e")[0]):
            raise ParseError("the number is too small for a floating-point number", tree.column)
        return sp.Float(number)

    def build_name(self, tree: Tree) -> sp.Basic:
        if tree.word in ("True", "False"):
            return sp.true if tree.word == "True" else sp.false
        if tree.word in self.names:
            return self.names[tree.word]
        if tree.word in CALLABLE:
            raise ParseError(f"{tree.word} is a function; write {tree.word}(…)", tree.column)
        if tree.word == "E":
            raise ParseError("E is not declared; Euler's number is written exp(1)", tree.column)
        raise ParseError(self.undeclared(tree.word), tree.column)

    def undeclared(self, word: str) -> str:
        """The message about an unknown name; people write u_xx and du for derivatives."""
        for name in (name for name, meaning in self.names.items() if isinstance(meaning, Field)):
            short = re.fullmatch(rf"{re.escape(name)}_?([xyzt]{{1,4}})", word)
            if short or word == f"d{name}":
                return (
                    f"unknown name {word!r}; a derivative is written diff({name}, "
                    f"{', '.join(short[1]) if short else 'x'})"
                )
        said = unknown_name(word, {*self.names, *CALLABLE}, "declare it as a field or parameter")
        return f"{said} If not, declare it as a field or parameter" if said.endswith("?") else said

    # ----------------------------------------------------------------------------------------------
    # Arithmetic

    def build_sum(self, tree: Tree) -> sp.Expr:
        expr = self.apply(
            sp.Add, *(self.expression(part) for part in tree.parts), column=tree.column
        )
        self.shape(expr, tree.column)
        return expr

    def build_product(self, tree: Tree) -> sp.Expr:
        expr = self.apply(
            sp.Mul,
            *(factor for part in tree.parts for factor in self.factors(part)),
            column=tree.column,
        )
        self.shape(expr, tree.column)
        return expr

    def build_negative(self, tree: Tree) -> sp.Expr:
        return self.build_product(Tree("product", tree.column, parts=(tree,)))

    def factors(self, tree: Tree) -> list[sp.Expr]:
        """The factors of a product; signs and denominators become factors, as SymPy prints them."""
        if tree.kind == "negative":
            return [sp.S.NegativeOne, *self.factors(tree.parts[0])]
        if tree.kind == "product":
            return [factor for part in tree.parts for factor in self.factors(part)]
        if tree.kind == "reciprocal":
            return [self.power(self.expression(tree.parts[0]), sp.S.NegativeOne, tree.column)]
        return [self.expression(tree)]

    def build_power(self, tree: Tree) -> sp.Expr:
        base, exponent = map(self.expression, tree.parts)
        return self.power(base, exponent, tree.column)

    def power(self, base: sp.Expr, exponent: sp.Expr, column: int) -> sp.Expr:
        degree, number = self.number(exponent, column), self.number(base, column)
        if degree is not None and abs(degree) > LIMITS.power:
            raise ParseError(f"powers up to {LIMITS.power} are read, not {degree:g}", column)
        if number is not None:
            self.check_constant(base, column)
            check_exponent(base, exponent, column)
            if degree is not None:
                finite(lambda: number**degree, column)
        expr = self.apply(sp.Pow, base, exponent, column=column)
        self.shape(expr, column)
        return expr

    def build_tuple(self, tree: Tree) -> sp.Expr:
        return self.apply(
            operators.vector, *(self.expression(part) for part in tree.parts), column=tree.column
        )

    def build_component(self, tree: Tree) -> sp.Expr:
        return self.component(self.expression(tree.parts[0]), tree.word, tree.column)

    def component(self, vector: sp.Expr, index: str, column: int) -> sp.Expr:
        shape = self.shape(vector, column)
        if vector == 0:
            return vector
        if len(shape) != 1:
            raise ParseError(
                f"only vectors have components, and {one_line(vector)} is a {rank_name(shape)}",
                column,
            )
        dim = 3 if shape[0] is None else shape[0]
        if len(index) > 2 or int(index) >= dim:
            raise ParseError(f"the components are numbered 0 to {dim - 1}, not {index[:9]}", column)
        work = self.operator_work(vector, 1, column)
        return self.apply(
            lambda v: operators.component(v, int(index)), vector, column=column, work=work
        )

    # ----------------------------------------------------------------------------------------------
    # Conditions

    def build_comparison(self, tree: Tree) -> sp.Basic:
        return self.relation(tree, [self.expression(part) for part in tree.parts])

    def relation(self, tree: Tree, sides: list[sp.Expr]) -> sp.Basic:
        self.check_scalars(tree, sides)
        if any(side.has(sp.Piecewise) for side in sides):
            # SymPy would rewrite the whole condition as a case distinction.
            raise ParseError("a condition cannot contain Piecewise", tree.column)
        return self.apply(RELATIONS[tree.word], *sides, column=tree.column)

    def build_and(self, tree: Tree) -> sp.Basic:
        conditions = [self.condition(part) for part in tree.parts]
        return self.junction(sp.And if tree.kind == "and" else sp.Or, conditions, tree.column)

    build_or = build_and

    def build_not(self, tree: Tree) -> sp.Basic:
        return self.junction(sp.Not, [self.condition(tree.parts[0])], tree.column)

    def junction(
        self, function: Callable[..., sp.Basic], conditions: Sequence[sp.Basic], column: int
    ) -> sp.Basic:
        """Join conditions. SymPy solves joined conditions on one variable, so these must be
        simple enough to solve.
        """
        relations = set().union(*(condition.atoms(Relational) for condition in conditions))
        if len(relations) > CALL_LIMITS.comparisons:
            raise ParseError(
                f"a condition joins at most {CALL_LIMITS.comparisons} comparisons", column
            )
        for relation in relations:
            if len(relation.free_symbols) == 1:
                (variable,) = relation.free_symbols
                if not all(is_quadratic(side, variable) for side in relation.args):
                    raise ParseError(
                        f"joined conditions on {variable} must be linear or quadratic in it", column
                    )
        return self.apply(function, *conditions, column=column)

    # ----------------------------------------------------------------------------------------------
    # Functions and operators

    def build_call(self, tree: Tree) -> sp.Basic:
        word = tree.word
        if word in FUNCTIONS:
            return self.call_function(tree)
        if word in PRODUCTS:
            return self.product(PRODUCTS[word], *self.arguments(tree, 2), column=tree.column)
        if word in DIFFERENTIAL or word in POINTWISE:
            (argument,) = self.arguments(tree, 1)
            work = self.operator_work(argument, 2 if word == "lap" else 1, tree.column)
            return self.apply(
                (DIFFERENTIAL | POINTWISE)[word], argument, column=tree.column, work=work
            )
        if word in SPECIAL:
            return getattr(self, f"call_{SPECIAL[word]}")(tree)
        if word in self.names:
            raise ParseError(
                f"{word} is not a function and takes no arguments; a product is written with *",
                tree.column,
            )
        raise ParseError(
            unknown_name(word, CALLABLE, "it is not a function of the language"), tree.column
        )

    def arguments(self, tree: Tree, count: int) -> list[sp.Expr]:
        if len(tree.parts) != count:
            raise ParseError(
                f"{tree.word} takes {count} argument{'s' * (count > 1)}, not {len(tree.parts)}",
                tree.column,
            )
        return [self.expression(part) for part in tree.parts]

    def check_constant(self, expr: sp.Expr, column: int) -> None:
        """SymPy finds signs of constants numerically, in time exponential in their nesting."""
        size = self.budget.measure(expr, column)
        if size.leaves == 0 and size.nodes > CALL_LIMITS.constant:
            raise ParseError(
                f"a constant of more than {CALL_LIMITS.constant} parts is not read here; write it "
                "as a "
                "decimal",
                column,
            )

    def check_scalars(self, tree: Tree, exprs: list[sp.Expr]) -> None:
        for expr in exprs:
            if self.shape(expr, tree.column) != ():
                raise ParseError(
                    f"{tree.word} takes scalars; {one_line(expr)} is not one", tree.column
                )
            self.check_constant(expr, tree.column)
            self.budget.spend(sign_work(expr), tree.column)

    def call_function(self, tree: Tree) -> sp.Expr:
        function, evaluate = FUNCTIONS[tree.word]
        arguments = self.arguments(tree, 1)
        self.check_scalars(tree, arguments)
        numbers = self.numbers(arguments, tree.column)
        if numbers is not None:
            finite(lambda: evaluate(*numbers), tree.column)
        if function is sp.exp:
            check_exponent(sp.E, arguments[0], tree.column)
        size = self.budget.measure(arguments[0], tree.column)
        return self.apply(
            function, *arguments, column=tree.column, work=size.summands**2 * size.weight
        )

    def call_angle(self, tree: Tree) -> sp.Expr:
        arguments = self.arguments(tree, 2)
        self.check_scalars(tree, arguments)
        return self.apply(sp.atan2, *arguments, column=tree.column)

    def call_extremum(self, tree: Tree) -> sp.Expr:
        if not 1 <= len(tree.parts) <= CALL_LIMITS.arguments:
            raise ParseError(
                f"{tree.word} takes 1 to {CALL_LIMITS.arguments} arguments, not {len(tree.parts)}",
                tree.column,
            )
        arguments = self.arguments(tree, len(tree.parts))
        self.check_scalars(tree, arguments)
        # SymPy compares the arguments, and those of nested extrema, in pairs.
        nested = sum(len(argument.atoms(sp.Max, sp.Min)) + 1 for argument in arguments)
        work = nested**2 * sum(
            self.budget.measure(argument, tree.column).nodes for argument in arguments
        )
        return self.apply(
            sp.Max if tree.word == "Max" else sp.Min, *arguments, column=tree.column, work=work
        )

    def call_branches(self, tree: Tree) -> sp.Expr:
        if not 1 <= len(tree.parts) <= CALL_LIMITS.arguments:
            raise ParseError(
                f"Piecewise takes 1 to {CALL_LIMITS.arguments} pairs (value, condition)",
                tree.column,
            )
        pairs = []
        for part in tree.parts:
            if part.kind != "tuple" or len(part.parts) != 2:
                raise ParseError("Piecewise takes pairs (value, condition)", part.column)
            pairs.append((self.expression(part.parts[0]), self.condition(part.parts[1])))
        work = sum(
            self.budget.measure(entry, tree.column).nodes for pair in pairs for entry in pair
        ) * len(pairs)
        return self.apply(lambda: sp.Piecewise(*pairs), column=tree.column, work=work)

    def call_equality(self, tree: Tree) -> sp.Basic:
        return self.relation(tree, self.arguments(tree, 2))

    def call_vector(self, tree: Tree) -> sp.Expr:
        return self.build_tuple(tree)

    def call_tensor(self, tree: Tree) -> sp.Expr:
        if any(part.kind != "tuple" for part in tree.parts):
            raise ParseError("tensor takes its rows, tensor((2, 1), (1, 3)) say", tree.column)
        rows = [tuple(self.expression(entry) for entry in part.parts) for part in tree.parts]
        self.check_scalars(tree, [entry for row in rows for entry in row])
        return self.apply(lambda: operators.tensor(*rows), column=tree.column)

    def call_identity(self, tree: Tree) -> sp.Expr:
        if len(tree.parts) != 1 or tree.parts[0].word not in ("1", "2", "3"):
            raise ParseError("identity takes the dimension of space, 1, 2 or 3", tree.column)
        dimension = int(tree.parts[0].word)
        return self.apply(lambda: operators.identity(dimension), column=tree.column)

    def call_component(self, tree: Tree) -> sp.Expr:
        if (
            len(tree.parts) != 2
            or tree.parts[1].kind != "number"
            or not tree.parts[1].word.isdigit()
        ):
            raise ParseError(
                "component takes a vector and the number of the component", tree.column
            )
        return self.component(self.expression(tree.parts[0]), tree.parts[1].word, tree.column)

    def product(
        self, function: Callable[..., sp.Basic], a: sp.Expr, b: sp.Expr, column: int
    ) -> sp.Expr:
        first, second = self.budget.measure(a, column), self.budget.measure(b, column)
        work = first.summands * second.summands * (5 + first.weight + second.weight)
        return self.apply(function, a, b, column=column, work=work)

    def call_norm(self, tree: Tree) -> sp.Expr:
        (argument,) = self.arguments(tree, 1)
        return self.product(operators.inner, argument, argument, tree.column)

    def operator_work(self, expr: sp.Expr, order: int, column: int) -> int:
        """Work of a differential operator: every term is taken apart and differentiated by
        each function in it.
        """
        size = self.budget.measure(expr, column)
        return (
            size.summands
            * (20 + size.weight)
            * max(1, size.leaves) ** order
            * (1 + size.powers // 12)
        )

    def call_derivative(self, tree: Tree) -> sp.Expr:
        if len(tree.parts) < 2:
            raise ParseError(
                f"{tree.word} takes an expression and the coordinates to differentiate by",
                tree.column,
            )
        expr = step = self.expression(tree.parts[0])
        variables = self.variables(tree.parts[1:])
        if len(variables) > CALL_LIMITS.order:
            raise ParseError(
                f"derivatives up to order {CALL_LIMITS.order} are read, not {len(variables)}",
                tree.column,
            )
        for variable in variables:
            # One at a time, so that growth is noticed; SymPy's own higher derivative is of the same
            # size.
            step = self.apply(
                sp.Expr.diff,
                step,
                variable,
                column=tree.column,
                work=self.operator_work(step, 1, tree.column),
            )
        counts = [(variable, variables.count(variable)) for variable in dict.fromkeys(variables)]
        work = 2 * self.budget.measure(step, tree.column).nodes
        return self.apply(lambda: expr.diff(*counts), column=tree.column, work=work)

    def variables(self, parts: Sequence[Tree]) -> list[sp.Symbol]:
        """The coordinates in `diff(u, x, 2, y)` or `Derivative(u, (x, 2), y)`, each as often
        as it is differentiated by.
        """
        found: list[sp.Symbol] = []
        for part in parts:
            pair = part.parts if part.kind == "tuple" and len(part.parts) == 2 else (part,)
            for entry in pair:
                if entry.kind == "name" and self.names.get(entry.word) in COORDINATES:
                    found.append(self.names[entry.word])
                elif (
                    found
                    and entry.kind == "number"
                    and entry.word.isdigit()
                    and entry.word.strip("0")
                    and len(entry.word) <= 2
                ):
                    found.extend([found[-1]] * (int(entry.word) - 1))
                else:
                    raise ParseError(
                        "derivatives are by x, y, z or t, each followed by how often: diff(u, x, "
                        "2)",
                        entry.column,
                    )
        return found


def unknown_name(word: str, known: Iterable[str], otherwise: str) -> str:
    """What to say about a name nobody knows: the nearest known one, or what to do."""
    if "__" in word:
        return "names with double underscores are not read"
    nearest = difflib.get_close_matches(word, sorted(known), n=1)
    return f"unknown name {word!r}; " + (f"did you mean {nearest[0]!r}?" if nearest else otherwise)


def one_line(message: object, length: int = 200) -> str:
    """A message on one line of bounded length."""
    text = " ".join(str(message).split())
    return text if len(text) <= length else text[: length - 1] + "…"
