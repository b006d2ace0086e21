r"""Which blocks of the package each test executes: only these tests can see a mistake there.

A block is a run of statements that are executed together: from the beginning of a body, or from
the end of a compound statement, to the next of them. ``instrumented`` has every block of a source
mark its place in a ``bytearray``; this costs a test some percents of its time.

>>> tree, spans = instrumented("def f(x):\n    if x:\n        return 1\n    return 2\n", 0)
>>> print(ast.unparse(tree))
def f(x):
    __blocks__[0] = 1
    if x:
        __blocks__[1] = 1
        return 1
    __blocks__[2] = 1
    return 2
>>> block_at(spans, 3, 8), block_at(spans, 4, 4), block_at(spans, 1, 0)
(1, 2, None)
"""

from __future__ import annotations

import ast
import builtins
import importlib.machinery
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

Span: TypeAlias = tuple[int, int, int, int, int]
"""The first line and column, the last ones, and the block."""
_NAME: Final = "__blocks__"
_MARK: Final = "__mark_block__"
"""In a lambda, which has no statements: ``__mark_block__(3, 1) or value``."""


def instrumented(source: str, first: int) -> tuple[ast.Module, list[Span]]:
    """Make the syntax tree that marks blocks, numbered from ``first``; tell where each is."""
    tree = ast.parse(source)
    marks = _Marks(first)
    marks.visit(tree)
    return ast.fix_missing_locations(tree), marks.spans


class _Marks(ast.NodeVisitor):
    def __init__(self, first: int) -> None:
        self.next = first
        self.spans: list[Span] = []

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._mark(node.body)
        for child in node.body:
            self.visit(child)
        for other in (node.args, *node.decorator_list):
            self.visit(other)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815  # the name that ast asks for

    def visit_Lambda(self, node: ast.Lambda) -> None:
        block = self._new(node)
        self.generic_visit(node)
        mark = ast.parse(f"{_MARK}({block}, 1)", mode="eval").body
        node.body = ast.BoolOp(ast.Or(), [mark, node.body])

    def _mark(self, body: list[ast.stmt]) -> None:
        """Mark the blocks of a body, and of all bodies inside that belong to the same function."""
        marked: list[ast.stmt] = []
        block = -1
        for statement in body:
            is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            if block < 0 and not is_text:
                block = self._new(statement)
                marked += ast.parse(f"{_NAME}[{block}] = 1").body
            elif block >= 0:
                self.spans.append((*_span(statement), block))
            marked.append(statement)
            inside = list(_bodies(statement))
            for other in inside:
                self._mark(other)
            if inside:
                block = -1
        body[:] = marked

    def _new(self, node: ast.stmt | ast.Lambda) -> int:
        self.spans.append((*_span(node), self.next))
        self.next += 1
        return self.next - 1


def _bodies(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return  # functions are visited by themselves
    parts = [statement, *getattr(statement, "handlers", ()), *getattr(statement, "cases", ())]
    for part in parts:
        for field in ("body", "orelse", "finalbody"):
            if getattr(part, field, None):
                yield getattr(part, field)


def _span(node: ast.stmt | ast.Lambda) -> tuple[int, int, int, int]:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def block_at(spans: Sequence[Span], line: int, column: int) -> int | None:
    """The block of a place: None outside of functions."""
    place = (line, column)
    over = [span for span in spans if span[:2] <= place < span[2:4]]
    return max(over, key=lambda span: span[:2])[4] if over else None


def digest(root: Path) -> str:
    """A name for the sources of the package: what is known about blocks holds for these."""
    files = sorted((root / "funcgrad").rglob("*.py"))
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


class Recording:
    """The blocks that are executed from now on, in modules of the package imported from now on."""

    def __init__(self, root: Path) -> None:
        count = 0
        self.places: dict[str, list[Span]] = {}
        trees: dict[str, ast.Module] = {}
        for file in sorted((root / "funcgrad").rglob("*.py")):
            tree, spans = instrumented(file.read_text(), count)
            self.places[str(file.relative_to(root))] = spans
            trees[str(file)] = tree
            count = 1 + max((span[4] for span in spans), default=count - 1)
        self._marks = bytearray(count)
        setattr(builtins, _NAME, self._marks)
        setattr(builtins, _MARK, self._marks.__setitem__)
        loader: Any = importlib.machinery.SourceFileLoader
        usual = loader.get_code

        def get_code(self: Any, name: str) -> Any:
            tree = trees.get(self.path)
            if tree is None:
                return usual(self, name)
            return compile(tree, self.path, "exec", dont_inherit=True)

        loader.get_code = get_code

    def taken(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """The blocks executed since the last time, as bits."""
        bits = np.packbits(np.frombuffer(bytes(self._marks), np.uint8))
        self._marks[:] = bytes(len(self._marks))
        return bits


@dataclass(frozen=True)
class Reach:
    """The tests of the suite, and the blocks that each executes.

    Attributes
    ----------
    places : dict
        The spans of each file.
    tests : dict
        For each test whether it is slow and the seconds of processor time that it takes.
    executed : ndarray
        A row of bits for each test.
    at_import : ndarray
        The bits of the blocks that are executed before any test.
    """

    places: dict[str, list[Span]]
    tests: dict[str, tuple[bool, float]]
    executed: np.ndarray[Any, np.dtype[np.uint8]]
    at_import: np.ndarray[Any, np.dtype[np.uint8]]

    def block(self, path: str, line: int, column: int) -> int | None:
        """The block of a place in a file, counted from 1 and 1."""
        return block_at(self.places[path], line, column - 1)

    def is_imported(self, block: int) -> bool:
        """Whether a block is executed before any test."""
        return bool(self.at_import[block // 8] >> (7 - block % 8) & 1)

    def of(self, blocks: Sequence[int]) -> list[str]:
        """The tests that execute one of some blocks, those that do little first."""
        reached = np.zeros(len(self.tests), bool)
        for block in blocks:
            reached |= (self.executed[:, block // 8] >> (7 - block % 8) & 1).astype(bool)
        names = list(self.tests)
        found = [(self._work[k], names[k]) for k in np.flatnonzero(reached)]
        return [name for _, name in sorted(found)]

    @cached_property
    def _work(self) -> list[float]:
        """The time of each test, times the number of blocks that it executes."""
        seconds = [seconds for _, seconds in self.tests.values()]
        return list(np.bitwise_count(self.executed).sum(1) * np.array(seconds))

    def saved(self, file: Path) -> None:
        """Write a file for ``loaded``."""
        text = json.dumps([self.places, self.tests])
        with file.open("wb") as stream:
            np.savez_compressed(stream, text=text, executed=self.executed, at_import=self.at_import)

    @classmethod
    def loaded(cls, file: Path) -> Reach:
        """Read a file of ``saved``."""
        with np.load(file) as stored:
            places, tests = json.loads(str(stored["text"]))
            places = {path: [tuple(span) for span in spans] for path, spans in places.items()}
            return cls(places, tests, stored["executed"], stored["at_import"])
