"""Expressions written as text, as on the command line: ``unit = emb.normalize(); emb.mean()``.

The grammar is that of method chains, read by hand: nothing is ever evaluated as Python.

```text
program    = statement {(";" | ",") statement}
statement  = [name "="] sum
sum        = product {("+" | "-") product}
product    = unary {("*" | "/") unary}
unary      = "-" unary | chain
chain      = atom {"." method "(" [argument {"," argument}] ")"}
argument   = [option "="] sum
atom       = number | text | "True" | "False" | "None" | "[" [sum {"," sum}] "]" | "(" sum ")"
           | "len" "(" ")" | "@" path ["[" column "]"] | column
column     = letters | "`" anything "`"
```
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from raptors_arrow import _native
from raptors_arrow.errors import RaptorsError, RaptorsValueError
from raptors_arrow.expr import Expr, col, length

__all__ = ["ParseError", "parse"]

#: Gives the operand that a file holds: its path, and the name of a column of it.
Load = Callable[[str, str | None], Any]


class ParseError(RaptorsValueError):
    """A text that is no expression: what is wrong, and where."""

    def __init__(self, message: str, text: str, at: int) -> None:
        begin = text.rfind("\n", 0, at) + 1
        line = text[begin:].split("\n", 1)[0]
        super().__init__(f"{message}\n  {line}\n  {' ' * (at - begin)}^")


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


_WORDS = {"True": True, "False": False, "None": None}
_TOKENS = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<number>(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<name>[^\W\d]\w*)
    | (?P<column>`[^`]*`)
    | (?P<text>"[^"\\]*(?:\\.[^"\\]*)*"|'[^'\\]*(?:\\.[^'\\]*)*')
    | (?P<file>@(?:"[^"]+"|'[^']+'|[^\s,;()\[\]]+))
    | (?P<sign>[-+*/.,;=()\[\]])
    """,
    re.VERBOSE,
)
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"'}


def parse(text: str, load: Load) -> dict[str, Expr]:
    """Read expressions from a text: their names, and what they are.

    A result without a name has that of its first column and its last function: ``emb_mean``.

    Raises
    ------
    ParseError
        With the text and a caret at the place.
    """
    return _Parser(text, load).program()


class _Parser:
    """Reads tokens one after the other."""

    def __init__(self, text: str, load: Load) -> None:
        self._text, self._load = text, load
        self._tokens = self._split()
        self._next = 0

    def _split(self) -> list[_Token]:
        tokens, at = [], 0
        while at < len(self._text):
            match = _TOKENS.match(self._text, at)
            if match is None:
                what = "an end of this text" if self._text[at] in "'\"`" else "an expression"
                raise self._error(f"expected {what}, got {self._text[at]!r}", at)
            kind = str(match.lastgroup)
            if kind != "space":
                tokens.append(_Token(kind, match.group(), at))
            at = match.end()
        tokens.append(_Token("end", "", len(self._text)))
        return tokens

    def _error(self, message: str, at: int) -> ParseError:
        return ParseError(message, self._text, at)

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _is(self, *signs: str) -> bool:
        return self._token.kind == "sign" and self._token.text in signs

    def _take(self) -> _Token:
        token = self._token
        self._next += token.kind != "end"
        return token

    def _expect(self, sign: str, more: str = "") -> _Token:
        if not self._is(sign):
            raise self._unexpected(f"{sign!r}{more}")
        return self._take()

    def _unexpected(self, expected: str) -> ParseError:
        got = "the end" if self._token.kind == "end" else repr(self._token.text)
        return self._error(f"expected {expected}, got {got}", self._token.at)

    def program(self) -> dict[str, Expr]:
        made: dict[str, Expr] = {}
        while True:
            at = self._token.at
            name, expr = self._statement()
            if name in made:
                raise self._error(f"{name} is there twice; give each result a name: b = …", at)
            made[name] = expr
            if self._token.kind == "end":
                return made
            if not self._is(";", ","):
                raise self._unexpected("';' or ','")
            self._take()
            if self._token.kind == "end":
                return made

    def _statement(self) -> tuple[str, Expr]:
        at, name = self._token.at, None
        following = self._tokens[min(self._next + 1, len(self._tokens) - 1)]
        is_named = self._token.kind in ("name", "column") and following.text == "="
        if is_named:
            name = self._take().text.strip("`")
            self._take()
            at = self._token.at
        value = self._sum()
        if not isinstance(value, Expr):
            raise self._error("expected an expression of a column, got a value", at)
        return name or _default_name(value), value

    def _sum(self) -> Any:
        return self._operators(self._product, {"+": "add", "-": "subtract"})

    def _product(self) -> Any:
        return self._operators(self._unary, {"*": "multiply", "/": "divide"})

    def _operators(self, part: Callable[[], Any], functions: dict[str, str]) -> Any:
        left = part()
        while self._is(*functions):
            sign = self._take()
            left = self._applied(sign, functions[sign.text], left, part())
        return left

    def _applied(self, sign: _Token, function: str, left: Any, right: Any) -> Any:
        if isinstance(left, Expr) or isinstance(right, Expr):
            if not isinstance(left, Expr) and function in ("add", "multiply"):
                left, right = right, left
            return Expr(function, (left, right), {})
        is_number = all(isinstance(side, int | float) for side in (left, right))
        if not is_number:
            raise self._error(f"expected a column or numbers on both sides of {sign.text}", sign.at)
        try:
            return {
                "add": lambda: left + right,
                "subtract": lambda: left - right,
                "multiply": lambda: left * right,
                "divide": lambda: left / right,
            }[function]()
        except ZeroDivisionError:
            raise self._error("division by zero", sign.at) from None

    def _unary(self) -> Any:
        if not self._is("-"):
            return self._chain()
        sign = self._take()
        value = self._unary()
        if isinstance(value, Expr):
            return Expr("negate", (value,), {})
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._error("expected a column or a number after -", sign.at)
        return -value

    def _chain(self) -> Any:
        at, value = self._token.at, self._atom()
        while self._is("."):
            self._take()
            if self._token.kind != "name":
                raise self._unexpected("the name of a function")
            method = self._take()
            self._expect("(", f" after {method.text}")
            args, options = self._arguments()
            if not isinstance(value, Expr):
                raise self._error("expected a column before a function, got a value", at)
            value = self._called(value, method, args, options)
        return value

    def _called(self, x: Expr, method: _Token, args: list[Any], options: dict[str, Any]) -> Expr:
        if method.text not in _native.list_functions():
            try:
                _native.get_function(method.text)
            except RaptorsError as error:
                raise self._error(str(error), method.at) from None
        args = [_vector(arg) if isinstance(arg, list) else arg for arg in args]
        try:
            made: Expr = getattr(x, method.text)(*args, **options)
            made.is_rows  # noqa: B018 - checks the options
        except RaptorsError as error:
            raise self._error(str(error), method.at) from None
        return made

    def _arguments(self) -> tuple[list[Any], dict[str, Any]]:
        args: list[Any] = []
        options: dict[str, Any] = {}
        while not self._is(")"):
            following = self._tokens[min(self._next + 1, len(self._tokens) - 1)]
            if self._token.kind == "name" and following.text == "=":
                name = self._take()
                self._take()
                at = self._token.at
                value = self._sum()
                if isinstance(value, Expr):
                    raise self._error(
                        f"expected a value for {name.text}; a word is written in quotes", at
                    )
                if name.text in options:
                    raise self._error(f"{name.text} was given twice", name.at)
                options[name.text] = value
            else:
                args.append(self._sum())
            if not self._is(")"):
                self._expect(",", " or ')'")
        self._take()
        return args, options

    def _atom(self) -> Any:
        token = self._token
        if token.kind == "number":
            return self._number(self._take())
        if token.kind == "text":
            return self._string(self._take())
        if token.kind == "file":
            return self._file(self._take())
        if token.kind == "column":
            return col(self._take().text[1:-1])
        if token.kind == "name":
            return self._word(self._take())
        if self._is("("):
            self._take()
            value = self._sum()
            self._expect(")")
            return value
        if self._is("["):
            self._take()
            return self._list()
        raise self._unexpected("a column, a number, a list or @file")

    def _word(self, token: _Token) -> Any:
        if token.text in _WORDS:
            return _WORDS[token.text]
        if self._is("("):
            if token.text != "len":
                raise self._error(
                    f"expected a column before {token.text}(…): column.{token.text}(…)", token.at
                )
            self._take()
            self._expect(")")
            return length()
        return col(token.text)

    def _list(self) -> list[Any]:
        values: list[Any] = []
        while not self._is("]"):
            at, value = self._token.at, self._sum()
            if isinstance(value, Expr):
                raise self._error("expected a number, a list of them or a text in a list", at)
            values.append(value)
            if not self._is("]"):
                self._expect(",", " or ']'")
        self._take()
        return values

    def _number(self, token: _Token) -> int | float:
        text = token.text.replace("_", "")
        try:
            return int(text) if text.isdigit() else float(text)
        except ValueError:  # more digits than Python reads
            raise self._error("expected a number", token.at) from None

    def _string(self, token: _Token) -> str:
        inside = token.text[1:-1]
        return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m.group(1), m.group()), inside)

    def _file(self, token: _Token) -> Any:
        path, column = token.text[1:].strip("'\""), None
        if self._is("["):
            self._take()
            if self._token.kind not in ("name", "column"):
                raise self._unexpected("the name of a column of the file")
            column = self._take().text.strip("`")
            self._expect("]")
        try:
            return self._load(path, column)
        except (RaptorsError, OSError) as error:
            raise self._error(str(error), token.at) from None


def _vector(values: list[Any]) -> Any:
    import pyarrow as pa

    return pa.array(values)


def _default_name(expr: Expr) -> str:
    first = next(iter(expr.columns), None)
    if first is None:
        return expr.name
    return first if expr.name == "col" else f"{first}_{expr.name}"
