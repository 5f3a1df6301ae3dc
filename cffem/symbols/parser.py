"""`parse`: terms from text, in the language users write in SymPy, for studies that come from a stranger.

The text is read by the grammar of `parser_syntax`, every name is looked up in the fixed tables of `parser_words`, and every
operation is first charged to the budget of `parser_limits`. Nothing is evaluated as Python. Differences from a Python
program: derivatives are `diff(u, x, 2)` or `Derivative(u, (x, 2))` because there are no attributes, `a < x < b` means both,
conditions are joined by `and`, `or`, `not` or by `&`, `|`, `~`, whole numbers divide exactly (`1/2`), and Euler's number is
`exp(1)` because `E` is a good field name.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sympy as sp
from sympy.logic.boolalg import Boolean

from cffem.symbols import operators
from cffem.symbols.coordinates import COORDINATES, Parameter
from cffem.symbols.errors import ParseError
from cffem.symbols.fields import Field
from cffem.symbols.parser_limits import MAX_POWER, Budget, check_digits
from cffem.symbols.parser_syntax import KEYWORDS, SyntaxParser, Tree
from cffem.symbols.parser_words import CALLABLE, CONSTANTS, DIFFERENTIAL, FUNCTIONS, POINTWISE, PRODUCTS, RELATIONS, SPECIAL
from cffem.symbols.shapes import rank_name, shape_of

MAX_ARGUMENTS = 8
MAX_ORDER = 8
MAX_COMPARISONS = 8
MAX_CONSTANT = 24

# What SymPy and the operators raise when arguments make no sense.
REFUSALS = (ArithmeticError, AttributeError, LookupError, NotImplementedError, RecursionError, TypeError, ValueError)


@dataclass(frozen=True)
class Value:
    """An expression, and its floating-point value where it is a plain number."""

    expr: Any
    number: float | None = None


def parse(text: str, fields: Iterable[Field] = (), parameters: Iterable[str | sp.Symbol] = ()) -> sp.Expr:
    """Read a term from text without ever running it.

    Args:
        text: the term, for instance `"-curl(curl(E)) + nu*lap(E)"`.
        fields: the unknowns that may occur.
        parameters: named constants that may occur, as names or as `Parameter` objects.

    Returns:
        The same expression as written in SymPy.

    Raises:
        ParseError: naming the column and what is wrong there; for an unknown name also the nearest known one.

    Example:
        >>> import cffem as cf
        >>> from cffem.symbols.parser import parse
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
    expr = builder.build(tree).expr
    if is_condition(expr):
        raise ParseError("a condition is not a term; use it inside Piecewise((value, condition), …)", tree.column)
    builder.check_shape(expr, tree.column)
    return expr


def declared_names(fields: Iterable[Field], parameters: Iterable[str | sp.Symbol]) -> dict[str, sp.Expr]:
    """The names a text may use besides the functions: coordinates, constants, and the given fields and parameters."""
    names: dict[str, sp.Expr] = dict(CONSTANTS)
    for item in (*fields, *parameters):
        if isinstance(item, str):
            try:
                item = Parameter(item)
            except ValueError as error:
                raise ParseError(str(error)) from None
        if not isinstance(item, Field | sp.Symbol):
            raise TypeError(f"fields and parameters are Field and Parameter objects, not {item!r}")
        if item.name in CALLABLE | KEYWORDS or item.name in names:
            raise ParseError(f"the name {item.name!r} is declared twice or belongs to the language; choose another")
        if not item.name.isascii() or "__" in item.name:
            raise ParseError(f"the name {item.name!a} cannot be written in a term; use plain ASCII letters")
        names[item.name] = item
    return names


class Builder:
    """Turns a syntax tree into an expression, one small method per kind of node."""

    def __init__(self, names: dict[str, sp.Expr]):
        self.names = names
        self.budget = Budget()

    def build(self, tree: Tree) -> Value:
        return getattr(self, f"build_{tree.kind}")(tree)

    def scalar_or_vector(self, tree: Tree) -> Value:
        """Build a part that must not be a condition."""
        value = self.build(tree)
        if is_condition(value.expr):
            raise ParseError("a condition is not a number", tree.column)
        return value

    def condition(self, tree: Tree) -> Any:
        value = self.build(tree)
        if not is_condition(value.expr):
            raise ParseError("expected a condition such as x < 1/2", tree.column)
        return value.expr

    def apply(self, function: Callable[..., Any], *arguments: Any, column: int, work: int = 0) -> Any:
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
        return result

    def check_shape(self, expr: sp.Expr, column: int) -> None:
        try:
            shape_of(expr)
        except REFUSALS as error:
            raise ParseError(one_line(error), column) from None

    # ----------------------------------------------------------------------------------------------------------------------------
    # Numbers and names

    def build_number(self, tree: Tree) -> Value:
        number = self.number_of(lambda: float(tree.word), tree.column)
        if tree.word.isdigit():
            if len(tree.word) > 400:
                raise ParseError("the number is too long", tree.column)
            check_digits(sp.Integer(int(tree.word)), tree.column)
            return Value(sp.Integer(int(tree.word)), number)
        if number == 0 and any(digit in "123456789" for digit in tree.word.lower().split("e")[0]):
            raise ParseError("the number is too small for a floating-point number", tree.column)
        return Value(sp.Float(number), number)

    def number_of(self, function: Callable[[], float], column: int) -> float:
        """Evaluate a plain number, refusing what is not real and finite."""
        try:
            number = function()
        except ZeroDivisionError:
            raise ParseError("division by zero", column) from None
        except (OverflowError, ValueError):
            number = math.nan
        if isinstance(number, complex) or not math.isfinite(number):
            raise ParseError("the value is not a finite real number", column)
        return number

    def build_name(self, tree: Tree) -> Value:
        if tree.word in ("True", "False"):
            return Value(sp.true if tree.word == "True" else sp.false)
        if tree.word in self.names:
            return Value(self.names[tree.word], math.pi if tree.word == "pi" else None)
        if tree.word in CALLABLE:
            raise ParseError(f"{tree.word} is a function; write {tree.word}(…)", tree.column)
        if tree.word == "E":
            raise ParseError("E is not declared; Euler's number is written exp(1)", tree.column)
        raise ParseError(unknown_name(tree.word, {*self.names, *CALLABLE}, "declare it as a field or parameter"), tree.column)

    # ----------------------------------------------------------------------------------------------------------------------------
    # Arithmetic

    def build_sum(self, tree: Tree) -> Value:
        values = [self.scalar_or_vector(part) for part in tree.parts]
        expr = self.apply(sp.Add, *(value.expr for value in values), column=tree.column)
        self.check_shape(expr, tree.column)
        return Value(expr, self.combine(sum, values, tree.column))

    def build_product(self, tree: Tree) -> Value:
        values = [value for part in tree.parts for value in self.factors(part)]
        number = self.combine(math.prod, values, tree.column)
        expr = self.apply(sp.Mul, *(value.expr for value in values), column=tree.column)
        self.check_shape(expr, tree.column)
        return Value(expr, number)

    def build_negative(self, tree: Tree) -> Value:
        return self.build_product(tree if tree.kind == "product" else Tree("product", tree.column, parts=(tree,)))

    build_reciprocal = build_negative

    def factors(self, tree: Tree) -> list[Value]:
        """The factors of a product; signs and denominators become factors, as SymPy prints them."""
        if tree.kind == "negative":
            return [Value(sp.S.NegativeOne, -1.0), *self.factors(tree.parts[0])]
        if tree.kind == "product":
            return [value for part in tree.parts for value in self.factors(part)]
        if tree.kind == "reciprocal":
            return [self.power(self.scalar_or_vector(tree.parts[0]), Value(sp.S.NegativeOne, -1.0), tree.column)]
        return [self.scalar_or_vector(tree)]

    def combine(self, function: Callable[[list[float]], float], values: list[Value], column: int) -> float | None:
        numbers = [value.number for value in values if value.number is not None]
        return self.number_of(lambda: function(numbers), column) if len(numbers) == len(values) else None

    def build_power(self, tree: Tree) -> Value:
        base, exponent = map(self.scalar_or_vector, tree.parts)
        return self.power(base, exponent, tree.column)

    def power(self, base: Value, exponent: Value, column: int) -> Value:
        number = None
        if exponent.number is not None:
            if abs(exponent.number) > MAX_POWER:
                raise ParseError(f"powers up to {MAX_POWER} are read, not {exponent.number:g}", column)
            if base.number is not None:
                self.check_constant(base, column)
                number = self.number_of(lambda: base.number**exponent.number, column)
        expr = self.apply(sp.Pow, base.expr, exponent.expr, column=column)
        self.check_shape(expr, column)
        return Value(expr, number)

    def build_tuple(self, tree: Tree) -> Value:
        parts = [self.scalar_or_vector(part).expr for part in tree.parts]
        return Value(self.apply(operators.vector, *parts, column=tree.column))

    def build_component(self, tree: Tree) -> Value:
        vector = self.scalar_or_vector(tree.parts[0]).expr
        return self.component(vector, tree.word, tree.column)

    def component(self, vector: sp.Expr, index: str, column: int) -> Value:
        shape = self.apply_shape(vector, column)
        if vector == 0:
            return Value(vector)
        if len(shape) != 1:
            raise ParseError(f"only vectors have components, and {one_line(vector)} is a {rank_name(shape)}", column)
        dim = 3 if shape[0] is None else shape[0]
        if len(index) > 2 or int(index) >= dim:
            raise ParseError(f"the components are numbered 0 to {dim - 1}, not {index[:9]}", column)
        work = self.operator_work(vector, 1, column)
        return Value(self.apply(lambda v: operators.component(v, int(index)), vector, column=column, work=work))

    def apply_shape(self, expr: sp.Expr, column: int) -> tuple[int | None, ...]:
        self.check_shape(expr, column)
        return shape_of(expr)

    # ----------------------------------------------------------------------------------------------------------------------------
    # Conditions

    def build_comparison(self, tree: Tree) -> Value:
        sides = self.scalars(tree, [self.scalar_or_vector(part) for part in tree.parts])
        return Value(self.apply(RELATIONS[tree.word], *sides, column=tree.column))

    def build_and(self, tree: Tree) -> Value:
        conditions = [self.condition(part) for part in tree.parts]
        return self.junction(sp.And if tree.kind == "and" else sp.Or, conditions, tree.column)

    build_or = build_and

    def build_not(self, tree: Tree) -> Value:
        return self.junction(sp.Not, [self.condition(tree.parts[0])], tree.column)

    def junction(self, function: Any, conditions: list[Any], column: int) -> Value:
        """Join conditions. SymPy solves joined conditions on one variable, so these must be simple enough to solve."""
        relations = set().union(*(condition.atoms(sp.core.relational.Relational) for condition in conditions))
        if len(relations) > MAX_COMPARISONS:
            raise ParseError(f"a condition joins at most {MAX_COMPARISONS} comparisons", column)
        for relation in relations:
            if len(relation.free_symbols) == 1:
                (variable,) = relation.free_symbols
                difference = sp.Add(relation.lhs, sp.Mul(-1, relation.rhs))
                if not isinstance(variable, sp.Symbol) or not is_quadratic(difference, variable):
                    raise ParseError(f"joined conditions on {variable} must be linear or quadratic in it", column)
        return Value(self.apply(function, *conditions, column=column))

    # ----------------------------------------------------------------------------------------------------------------------------
    # Functions and operators

    def build_call(self, tree: Tree) -> Value:
        word = tree.word
        if word in FUNCTIONS:
            return self.call_function(tree)
        if word in PRODUCTS:
            a, b = self.arguments(tree, 2)
            return Value(self.product(PRODUCTS[word], a.expr, b.expr, tree.column))
        if word in DIFFERENTIAL or word in POINTWISE:
            (a,) = self.arguments(tree, 1)
            order = {"lap": 2}.get(word, 1)
            work = self.operator_work(a.expr, order, tree.column)
            return Value(self.apply((DIFFERENTIAL | POINTWISE)[word], a.expr, column=tree.column, work=work))
        if word in SPECIAL:
            return getattr(self, f"call_{SPECIAL[word]}")(tree)
        if word in self.names:
            raise ParseError(f"{word} is not a function and takes no arguments; a product is written with *", tree.column)
        raise ParseError(unknown_name(word, CALLABLE, "it is not a function of the language"), tree.column)

    def arguments(self, tree: Tree, count: int) -> list[Value]:
        if len(tree.parts) != count:
            raise ParseError(f"{tree.word} takes {count} argument{'s' * (count > 1)}, not {len(tree.parts)}", tree.column)
        return [self.scalar_or_vector(part) for part in tree.parts]

    def check_constant(self, value: Value, column: int) -> None:
        """SymPy finds signs of constants numerically, in time exponential in their nesting."""
        if value.number is not None and self.budget.measure(value.expr, column).nodes > MAX_CONSTANT:
            raise ParseError(f"a constant of more than {MAX_CONSTANT} parts is not read here; write it as a decimal", column)

    def scalars(self, tree: Tree, values: list[Value]) -> list[Any]:
        for value in values:
            self.check_constant(value, tree.column)
            if self.apply_shape(value.expr, tree.column) != ():
                raise ParseError(f"{tree.word} takes scalars; {one_line(value.expr)} is not one", tree.column)
        return [value.expr for value in values]

    def call_function(self, tree: Tree) -> Value:
        function, evaluate = FUNCTIONS[tree.word]
        values = self.arguments(tree, 1)
        number = self.combine(lambda numbers: evaluate(*numbers), values, tree.column)
        (argument,) = self.scalars(tree, values)
        size = self.budget.measure(argument, tree.column)
        return Value(self.apply(function, argument, column=tree.column, work=size.summands**2 * size.weight), number)

    def call_angle(self, tree: Tree) -> Value:
        values = self.arguments(tree, 2)
        return Value(
            self.apply(sp.atan2, *self.scalars(tree, values), column=tree.column),
            self.combine(lambda numbers: math.atan2(*numbers), values, tree.column),
        )

    def call_extremum(self, tree: Tree) -> Value:
        if not 1 <= len(tree.parts) <= MAX_ARGUMENTS:
            raise ParseError(f"{tree.word} takes 1 to {MAX_ARGUMENTS} arguments, not {len(tree.parts)}", tree.column)
        values = self.arguments(tree, len(tree.parts))
        arguments = self.scalars(tree, values)
        # SymPy compares the arguments, and those of nested extrema, in pairs.
        nested = sum(len(a.atoms(sp.Max, sp.Min)) + 1 for a in arguments)
        work = nested**2 * sum(self.budget.measure(a, tree.column).nodes for a in arguments)
        largest, function = (max, sp.Max) if tree.word == "Max" else (min, sp.Min)
        return Value(
            self.apply(function, *arguments, column=tree.column, work=work),
            self.combine(largest, values, tree.column),
        )

    def call_branches(self, tree: Tree) -> Value:
        pairs = []
        if not 1 <= len(tree.parts) <= MAX_ARGUMENTS:
            raise ParseError(f"Piecewise takes 1 to {MAX_ARGUMENTS} pairs (value, condition)", tree.column)
        for part in tree.parts:
            if part.kind != "tuple" or len(part.parts) != 2:
                raise ParseError("Piecewise takes pairs (value, condition)", part.column)
            pairs.append((self.scalar_or_vector(part.parts[0]).expr, self.condition(part.parts[1])))
        work = sum(self.budget.measure(entry, tree.column).nodes for pair in pairs for entry in pair) * len(pairs)
        return Value(self.apply(lambda: sp.Piecewise(*pairs), column=tree.column, work=work))

    def call_equality(self, tree: Tree) -> Value:
        sides = self.scalars(tree, self.arguments(tree, 2))
        return Value(self.apply(RELATIONS[tree.word], *sides, column=tree.column))

    def call_vector(self, tree: Tree) -> Value:
        return self.build_tuple(tree)

    def call_component(self, tree: Tree) -> Value:
        if len(tree.parts) != 2 or tree.parts[1].kind != "number" or not tree.parts[1].word.isdigit():
            raise ParseError("component takes a vector and the number of the component", tree.column)
        return self.component(self.scalar_or_vector(tree.parts[0]).expr, tree.parts[1].word, tree.column)

    def product(self, function: Callable[..., Any], a: sp.Expr, b: sp.Expr, column: int) -> sp.Expr:
        first, second = self.budget.measure(a, column), self.budget.measure(b, column)
        work = first.summands * second.summands * (5 + first.weight + second.weight)
        return self.apply(function, a, b, column=column, work=work)

    def call_norm(self, tree: Tree) -> Value:
        (a,) = self.arguments(tree, 1)
        return Value(self.product(operators.inner, a.expr, a.expr, tree.column))

    def operator_work(self, expr: sp.Expr, order: int, column: int) -> int:
        """Work of a differential operator: every term is taken apart and differentiated by each function in it."""
        size = self.budget.measure(expr, column)
        return size.summands * (20 + size.weight) * max(1, size.leaves) ** order

    def call_derivative(self, tree: Tree) -> Value:
        if len(tree.parts) < 2:
            raise ParseError(f"{tree.word} takes an expression and the coordinates to differentiate by", tree.column)
        expr = self.scalar_or_vector(tree.parts[0]).expr
        variables = self.variables(tree.parts[1:])
        if len(variables) > MAX_ORDER:
            raise ParseError(f"derivatives up to order {MAX_ORDER} are read, not {len(variables)}", tree.column)
        step = expr
        for variable in variables:
            # One at a time, so that growth is noticed; SymPy's own higher derivative is of the same size.
            step = self.apply(sp.Expr.diff, step, variable, column=tree.column, work=self.operator_work(step, 1, tree.column))
        counts = [(v, variables.count(v)) for v in dict.fromkeys(variables)]
        return Value(
            self.apply(lambda: expr.diff(*counts), column=tree.column, work=2 * self.budget.measure(step, tree.column).nodes)
        )

    def variables(self, parts: Sequence[Tree]) -> list[sp.Symbol]:
        """The coordinates in `diff(u, x, 2, y)` or `Derivative(u, (x, 2), y)`, each as often as it is differentiated by."""
        found: list[sp.Symbol] = []
        for part in parts:
            pair = part.parts if part.kind == "tuple" and len(part.parts) == 2 else (part,)
            for entry in pair:
                if entry.kind == "name" and self.names.get(entry.word) in COORDINATES:
                    found.append(self.names[entry.word])
                elif found and entry.kind == "number" and entry.word.isdigit() and entry.word.strip("0") and len(entry.word) <= 2:
                    found.extend([found[-1]] * (int(entry.word) - 1))
                else:
                    raise ParseError("derivatives are by x, y, z or t, each followed by how often: diff(u, x, 2)", entry.column)
        return found


def is_condition(expr: Any) -> bool:
    """Whether this is a truth value; SymPy's symbols could be either, ours are numbers."""
    return isinstance(expr, Boolean) and not isinstance(expr, sp.Expr)


def is_quadratic(expr: sp.Expr, variable: sp.Symbol) -> bool:
    """Whether an expression is a polynomial of degree at most 2, seen without multiplying it out."""
    if not expr.has(variable):
        return True
    if expr == variable:
        return True
    if isinstance(expr, sp.Add):
        return all(is_quadratic(arg, variable) for arg in expr.args)
    if isinstance(expr, sp.Mul):
        degrees = [arg for arg in expr.args if arg.has(variable)]
        return len(degrees) == 1 and is_quadratic(degrees[0], variable)
    return (
        isinstance(expr, sp.Pow) and expr.exp == 2 and expr.base.is_Add | expr.base.is_Symbol and is_linear(expr.base, variable)
    )


def is_linear(expr: sp.Expr, variable: sp.Symbol) -> bool:
    """Whether an expression is a sum of constants and multiples of the variable."""
    parts = [arg.as_coeff_Mul()[1] for arg in sp.Add.make_args(expr) if arg.has(variable)]
    return all(part == variable for part in parts)


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
