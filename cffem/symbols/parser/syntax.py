# SPDX-License-Identifier: MIT
"""The grammar of terms written as text: a tokenizer and a precedence-climbing parser that know
nothing of SymPy.

Text becomes a `Tree` of plain tuples and strings, or a `ParseError` with the column. Length, number
of tokens and nesting are limited before anything else happens, so that no text can exhaust the
stack or the memory. Precedences are Python's; `and`, `or`, `not` and their printed forms `&`, `|`,
`~` join conditions. There is no attribute access, no string, no assignment: the grammar has no
place for them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cffem.symbols.errors import ParseError


@dataclass(frozen=True)
class TextLimits:
    """How long a text may be.

    Args:
        length: characters.
        tokens: words, numbers and signs.
        depth: brackets within each other.
        name: characters of a name.
    """

    length: int = 10_000
    tokens: int = 2_000
    depth: int = 32
    name: int = 64


TEXT_LIMITS = TextLimits()


KEYWORDS = frozenset({"and", "or", "not", "True", "False"})
COMPARISONS = ("<", "<=", ">", ">=")

TOKEN = re.compile(
    r"(?P<space>[ \t\r\n]+)"
    r"|(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z_0-9]*)"
    r"|(?P<operator>\*\*|<=|>=|[-+*/(),\[\]<>&|~])"
)

HINTS = {
    ".": "attributes cannot be reached; write diff(u, x) for u.diff(x)",
    "^": "powers are written **",
    "=": "there is no assignment; equality in a condition is written Eq(a, b)",
    "!": "inequality in a condition is written Ne(a, b)",
    "'": "there are no strings in a term",
    '"': "there are no strings in a term",
}

# Binding strength of each infix operator, in Python's order.
BINDING = {
    "or": 1,
    "and": 2,
    **dict.fromkeys(COMPARISONS, 4),
    "|": 5,
    "&": 6,
    "+": 7,
    "-": 7,
    "*": 8,
    "/": 8,
    "**": 10,
}
NOT_BINDING, SIGN_BINDING = 3, 9
CHAINS = {
    "or": "or",
    "and": "and",
    "|": "or",
    "&": "and",
    "+": "sum",
    "-": "sum",
    "*": "product",
    "/": "product",
}


@dataclass(frozen=True)
class Token:
    """A piece of the text: `kind` is number, name, operator or end."""

    kind: str
    text: str
    column: int


@dataclass(frozen=True)
class Tree:
    """A node of the syntax tree: what it is, where it stands, its word (a name, a number's
    digits) and its parts.
    """

    kind: str
    column: int
    word: str = ""
    parts: tuple[Tree, ...] = ()


def tokenize(text: str) -> list[Token]:
    """Split a text into tokens, refusing what has no place in the language.

    Example:
        >>> [token.text for token in tokenize("2*u**2")]
        ['2', '*', 'u', '**', '2', '']
    """
    if len(text) > TEXT_LIMITS.length:
        raise ParseError(
            f"the text has {len(text)} characters; at most {TEXT_LIMITS.length} are read",
            TEXT_LIMITS.length + 1,
        )
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        match = TOKEN.match(text, position)
        if match is None:
            raise ParseError(_refusal(text[position]), position + 1)
        kind, word, column = str(match.lastgroup), match.group(), position + 1
        position = match.end()
        if kind == "space":
            continue
        if kind == "name" and len(word) > TEXT_LIMITS.name:
            raise ParseError(
                f"a name has at most {TEXT_LIMITS.name} characters, not {len(word)}", column
            )
        if (
            kind == "name"
            and tokens
            and tokens[-1].kind == "number"
            and tokens[-1].column + len(tokens[-1].text) == column
        ):
            raise ParseError(
                f"{tokens[-1].text + word!r} is neither a number nor a name; a product is written "
                "2*x",
                column,
            )
        tokens.append(
            Token("operator" if word in KEYWORDS - {"True", "False"} else kind, word, column)
        )
        if len(tokens) > TEXT_LIMITS.tokens:
            raise ParseError(f"the text has more than {TEXT_LIMITS.tokens} words and signs", column)
    return [*tokens, Token("end", "", len(text) + 1)]


def _refusal(character: str) -> str:
    if not character.isascii():
        return (
            f"the character U+{ord(character):04X} is not ASCII; only plain letters, digits and "
            "signs are read"
        )
    return HINTS.get(character, f"the character {character!a} is not part of the language")


class SyntaxParser:
    """Precedence climbing over the tokens of one text; `tree()` returns the whole expression."""

    def __init__(self, text: str):
        self.tokens = tokenize(text)
        self.position = 0
        self.depth = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.position]

    def advance(self) -> Token:
        token = self.token
        self.position += 1
        return token

    def expect(self, text: str) -> None:
        if self.token.text != text:
            raise ParseError(
                f"expected {text!r}, but found {_describe(self.token)}", self.token.column
            )
        self.advance()

    def tree(self) -> Tree:
        if self.token.kind == "end":
            raise ParseError("the text is empty", 1)
        tree = self.expression(0)
        if self.token.kind != "end":
            raise ParseError(
                f"expected an operator, but found {_describe(self.token)}", self.token.column
            )
        return tree

    def expression(self, weakest: int) -> Tree:
        """Read an expression whose operators all bind at least as strongly as `weakest`."""
        self.depth += 1
        if self.depth > TEXT_LIMITS.depth:
            raise ParseError(
                f"the expression is nested more than {TEXT_LIMITS.depth} levels deep",
                self.token.column,
            )
        left = self.prefix()
        while self.token.kind == "operator" and BINDING.get(self.token.text, -1) >= weakest:
            left = self.infix(left)
        self.depth -= 1
        return left

    def prefix(self) -> Tree:
        token = self.token
        if token.text in ("-", "+"):
            self.advance()
            operand = self.expression(SIGN_BINDING)
            return (
                operand if token.text == "+" else Tree("negative", token.column, parts=(operand,))
            )
        if token.text in ("not", "~"):
            self.advance()
            return Tree(
                "not",
                token.column,
                parts=(self.expression(NOT_BINDING if token.text == "not" else SIGN_BINDING),),
            )
        return self.postfix()

    def postfix(self) -> Tree:
        tree = self.atom()
        while self.token.text in ("[", "("):
            bracket = self.advance()
            if bracket.text == "[":
                index = self.advance()
                if index.kind != "number" or not index.text.isdigit():
                    raise ParseError(
                        f"an index is a whole number, not {_describe(index)}", index.column
                    )
                self.expect("]")
                tree = Tree("component", bracket.column, index.text, (tree,))
            elif tree.kind == "name":
                tree = Tree("call", tree.column, tree.word, self.arguments())
            else:
                raise ParseError(
                    "only a function's name can be called; a product is written with *",
                    bracket.column,
                )
        return tree

    def atom(self) -> Tree:
        token = self.advance()
        if token.kind in ("number", "name"):
            return Tree(token.kind, token.column, token.text)
        if token.text == "(":
            parts = [self.expression(0)]
            is_tuple = self.token.text == ","
            while self.token.text == ",":
                self.advance()
                if self.token.text == ")":
                    break
                parts.append(self.expression(0))
            self.expect(")")
            return Tree("tuple", token.column, parts=tuple(parts)) if is_tuple else parts[0]
        raise ParseError(
            f"expected a number, a name or '(', but found {_describe(token)}", token.column
        )

    def arguments(self) -> tuple[Tree, ...]:
        parts: list[Tree] = []
        while self.token.text != ")":
            parts.append(self.expression(0))
            if self.token.text != ",":
                break
            self.advance()
        self.expect(")")
        return tuple(parts)

    def infix(self, left: Tree) -> Tree:
        token = self.token
        if token.text == "**":
            self.advance()
            return Tree("power", token.column, parts=(left, self.expression(SIGN_BINDING)))
        if token.text in COMPARISONS:
            return self.comparison(left)
        return self.chain(left, CHAINS[token.text], BINDING[token.text])

    def chain(self, first: Tree, kind: str, binding: int) -> Tree:
        """Read all of `first + b - c + …` into one flat node, so that long sums are not deep."""
        column, parts = self.token.column, [first]
        while self.token.kind == "operator" and BINDING.get(self.token.text) == binding:
            sign = self.advance()
            part = self.expression(binding + 1)
            wrapper = {"-": "negative", "/": "reciprocal"}.get(sign.text)
            parts.append(part if wrapper is None else Tree(wrapper, sign.column, parts=(part,)))
        return Tree(kind, column, parts=tuple(parts))

    def comparison(self, left: Tree) -> Tree:
        """Read `a < b`, or `a < b < c`, which means `a < b and b < c`."""
        parts: list[Tree] = []
        while self.token.text in COMPARISONS:
            sign = self.advance()
            right = self.expression(BINDING["<"] + 1)
            parts.append(Tree("comparison", sign.column, sign.text, (left, right)))
            left = right
        return parts[0] if len(parts) == 1 else Tree("and", parts[0].column, parts=tuple(parts))


def _describe(token: Token) -> str:
    return "the end of the text" if token.kind == "end" else repr(token.text[:40])
