"""Mistakes that could have been made in a source file: each replaces a text by another.

A condition is dropped, a comparison is negated or off by one, operands are swapped, or a sign, a
number or an axis is changed. Docstrings, types and error messages are left alone, and so are the
samples at which tests check primitives.

>>> source = '''
... def first(x, y):
...     if x > 1 and y:
...         return x - y
...     return None
... '''
>>> for mutant in mutants_of(source):
...     print(mutant.line, mutant.kind, "|", mutant.old, "->", mutant.new)
3 dropped condition | x > 1 and y -> False
3 dropped condition | x > 1 and y -> (y)
3 dropped condition | x > 1 and y -> (x > 1)
3 negated comparison | x > 1 -> (x <= 1)
3 off by one | x > 1 -> (x >= 1)
3 off by one | 1 -> 2
4 swapped operands | x - y -> y - x
4 wrong sign | x - y -> x + y
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

KINDS: Final = (
    "dropped condition",
    "negated comparison",
    "off by one",
    "swapped operands",
    "wrong axis",
    "wrong sign",
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A text that stands in place of another.

    Attributes
    ----------
    kind : str
        One of ``KINDS``.
    line, column : int
        Where the old text begins, counted from 1.
    start, end : int
        The range of the old text, in characters of the source.
    old, new : str
    """

    kind: str
    line: int
    column: int
    start: int
    end: int
    old: str
    new: str

    @property
    def what(self) -> str:
        """The mistake and its column, on one line."""
        old, new = [" ".join(text.split()) for text in (self.old, self.new)]
        return f"{self.column} {self.kind}: {old} -> {new}"

    def planted(self, source: str) -> str:
        """The source with the mistake."""
        return source[: self.start] + self.new + source[self.end :]


def mutants_of(source: str, without: Collection[str] = ()) -> list[Mutant]:
    """All mistakes for a source, in order, without duplicates; some functions are skipped."""
    finder = _Finder(source)
    nodes = _executed(ast.parse(source), without)
    found = [mutant for node in nodes for mutant in finder.of(node)]
    found.sort(key=lambda mutant: mutant.start)
    return list(dict.fromkeys(found))


def _executed(tree: ast.AST, without: Collection[str]) -> Iterator[ast.AST]:
    """The nodes that are executed, parents before children."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if _is_only_tried(node) or _is_type(node) or getattr(node, "name", None) in without:
            continue
        yield node
        skipped: set[int] = set()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            skipped = {id(part) for part in (node.args, node.returns, *node.decorator_list)}
        elif isinstance(node, ast.AnnAssign):
            skipped = {id(node.annotation)}
            if isinstance(node.annotation, ast.Name) and node.annotation.id == "TypeAlias":
                continue
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            skipped = {id(part) for part in node.comparators}  # their order plays no part
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
            skipped = {id(part) for part in node.args[1:]}  # nor here
        elif isinstance(node, _SAID):
            continue
        waiting += [child for child in ast.iter_child_nodes(node) if id(child) not in skipped]


def _is_only_tried(node: ast.AST) -> bool:
    """Whether a node makes or contains the samples at which tests check a primitive."""
    if isinstance(node, ast.keyword):
        return node.arg == "samples"
    if isinstance(node, ast.FunctionDef) and node.returns is not None:
        return node.name in _OF_SAMPLES or "Sample]" in ast.unparse(node.returns)
    named = node.func if isinstance(node, ast.Call) else None
    return isinstance(named, ast.Name) and named.id in _OF_SAMPLES


def _is_type(node: ast.AST) -> bool:
    """Whether a node is a type with parameters: ``dict[str, int]``, ``Callable[[T], T]``."""
    if not isinstance(node, ast.Subscript):
        return False
    if isinstance(node.value, ast.Attribute):
        return node.value.attr == "ndarray"
    name = node.value.id if isinstance(node.value, ast.Name) else ""
    return name in ("dict", "frozenset", "list", "set", "tuple", "type") or (
        name[:1].isupper() and not name.isupper()
    )


_OF_SAMPLES: Final = ("arrays_and_axes", "combined", "complexes", "edges", "reals")
_SAID: Final = (ast.Raise, ast.Assert, ast.Import, ast.ImportFrom)

_NEGATED: Final[Mapping[type[ast.cmpop], str]] = MappingProxyType(
    {
        ast.Eq: "!=",
        ast.NotEq: "==",
        ast.Lt: ">=",
        ast.LtE: ">",
        ast.Gt: "<=",
        ast.GtE: "<",
        ast.Is: "is not",
        ast.IsNot: "is",
        ast.In: "not in",
        ast.NotIn: "in",
    }
)
_SHIFTED: Final[Mapping[type[ast.cmpop], str]] = MappingProxyType(
    {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}
)
_ORDERED: Final[Mapping[type[ast.operator], str]] = MappingProxyType(
    {
        ast.Sub: "-",
        ast.Div: "/",
        ast.FloorDiv: "//",
        ast.Mod: "%",
        ast.Pow: "**",
        ast.MatMult: "@",
        ast.LShift: "<<",
        ast.RShift: ">>",
    }
)
_BY_AXIS: Final = ("axes", "axis", "shape", "strides")
"""How the names of what has a number for each axis end."""


class _Finder:
    """The mistakes that can be made in a node."""

    __slots__ = ("_lines", "_source")

    def __init__(self, source: str) -> None:
        self._source = source
        self._lines = [0]
        for line in source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def of(self, node: ast.AST) -> Iterator[Mutant]:
        """The mistakes of one node, without those of the nodes inside."""
        if isinstance(node, ast.BoolOp):
            yield from self._shorter(node)
        elif isinstance(node, ast.If | ast.IfExp | ast.While):
            if "TYPE_CHECKING" in self._text(node.test):
                return
            yield self._mutant("dropped condition", node.test, "False")
            if isinstance(node, ast.IfExp):
                yield self._mutant("dropped condition", node.test, "True")
        elif isinstance(node, ast.comprehension):
            for test in node.ifs:
                yield self._mutant("dropped condition", test, "True")
        elif isinstance(node, ast.Call):
            yield from self._quantified(node)
            if isinstance(node.func, ast.Name) and node.func.id == "negative":
                yield self._mutant("wrong sign", node.func, "")
        elif isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield from self._compared(node)
        elif isinstance(node, ast.BinOp) and type(node.op) in _ORDERED:
            sign = _ORDERED[type(node.op)]
            left, right = self._inside(node.left), self._inside(node.right)
            if left != right:
                yield self._mutant("swapped operands", node, f"{right} {sign} {left}")
            if isinstance(node.op, ast.Sub):
                yield self._mutant("wrong sign", node, f"{left} + {right}")
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            yield self._mutant("wrong sign", node, f"({self._text(node.operand)})")
        elif isinstance(node, ast.Tuple) and len(node.elts) == 2:
            yield from self._swapped(node)
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            yield self._mutant("off by one", node, str(node.value + 1))
        elif isinstance(node, ast.keyword) and node.arg in ("axis", "axes"):
            value = node.value.value if isinstance(node.value, ast.Constant) else None
            if type(value) is int:
                yield self._mutant("wrong axis", node.value, str(value - 1))
        elif isinstance(node, ast.Subscript) and self._text(node.value).endswith(_BY_AXIS):
            text = self._text(node.slice)
            if text in ("0", "-1"):
                yield self._mutant("wrong axis", node.slice, "-1" if text == "0" else "0")

    def _shorter(self, node: ast.BoolOp) -> Iterator[Mutant]:
        """Drop ``a``, or ``b``, from ``a and b``."""
        sign = " and " if isinstance(node.op, ast.And) else " or "
        for place in range(len(node.values)):
            rest = [self._text(v) for k, v in enumerate(node.values) if k != place]
            text = sign.join(rest) if len(rest) > 1 else f"({rest[0]})"
            yield self._mutant("dropped condition", node, text)

    def _quantified(self, node: ast.Call) -> Iterator[Mutant]:
        """``all`` and ``any`` of conditions, which may be left out."""
        if isinstance(node.func, ast.Name) and node.func.id in ("all", "any"):
            yield self._mutant("dropped condition", node, str(node.func.id == "all"))
            other = "any" if node.func.id == "all" else "all"
            yield self._mutant("negated comparison", node.func, other)

    def _compared(self, node: ast.Compare) -> Iterator[Mutant]:
        left, right = self._inside(node.left), self._inside(node.comparators[0])
        kind = type(node.ops[0])
        yield self._mutant("negated comparison", node, f"({left} {_NEGATED[kind]} {right})")
        if kind in _SHIFTED:
            yield self._mutant("off by one", node, f"({left} {_SHIFTED[kind]} {right})")

    def _swapped(self, node: ast.Tuple) -> Iterator[Mutant]:
        """A pair of names turned around, where it is made; not where it is taken apart."""
        first, second = node.elts
        is_name = isinstance(first, ast.Constant)  # with a value
        if isinstance(node.ctx, ast.Load) and not is_name and ast.dump(first) != ast.dump(second):
            text = f"({self._text(second)}, {self._text(first)})"
            if ast.Slice not in (type(first), type(second)):  # which are not Python in parentheses
                yield self._mutant("swapped operands", node, text)

    # Texts.

    def _offset(self, line: int, column: int) -> int:
        """Convert a place to characters; the parser counts bytes."""
        start = self._lines[line - 1]
        text = self._source[start : self._lines[line]]
        return start + len(text.encode()[:column].decode())

    def _span(self, node: ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._offset(node.lineno, node.col_offset)
        return start, self._offset(node.end_lineno, node.end_col_offset)

    def _text(self, node: ast.expr) -> str:
        start, end = self._span(node)
        text = self._source[start:end]
        return f"({text})" if isinstance(node, ast.GeneratorExp) else text

    def _inside(self, node: ast.expr) -> str:
        """The text of an operand, in parentheses if it may need them."""
        text = self._text(node)
        plain = ast.Name | ast.Constant | ast.Call | ast.Attribute | ast.Subscript | ast.Tuple
        return text if isinstance(node, plain) else f"({text})"

    def _mutant(self, kind: str, node: ast.expr, new: str) -> Mutant:
        start, end = self._span(node)
        line = self._source.count("\n", 0, start) + 1
        column = start - self._lines[line - 1] + 1
        return Mutant(kind, line, column, start, end, self._source[start:end], new)
