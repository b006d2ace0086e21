"""Random programs, made statement by statement; each statement is run as soon as it is made.

A program has a *style*: a few random operations (so that they are often combined with themselves
and each other: nested, shared, repeated), shapes, dtypes, and how often it nests. Operations that
few programs have had so far, in any check, are drawn more often. Since statements are run at once,
their values, shapes and dtypes are known, and the next statement is made to fit.
"""

from __future__ import annotations

import builtins
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

import funcgrad as fg
from funcgrad._core.primitive import Sample
from funcgrad._primitives.elementwise_rules import batch_elementwise
from funcgrad.errors import FuncgradError
from tests.tools.fuzz import prelude
from tests.tools.fuzz.families import FAMILIES
from tests.tools.fuzz.operations import (
    ARRAYS,
    LOOKS,
    MANY,
    MOTIFS,
    NAMED,
    PRIMITIVES,
    parameter_text,
)
from tests.tools.fuzz.styles import FUNCTIONS, LARGE, Style, Weights, style_of
from tests.tools.fuzz.syntax import (
    Body,
    Nest,
    Program,
    Statement,
    Step,
    constant_text,
    lines_of,
    reads_of,
)
from tests.tools.fuzz.values import drawn, is_tame

SCOPE: Final[Mapping[str, Any]] = {
    "__builtins__": builtins,
    **{name: getattr(prelude, name) for name in prelude.__all__},
}
"""The names that programs can use."""

_REFUSED: Final = (FuncgradError, TypeError, ValueError, IndexError, ArithmeticError)
_DERIVED: Final = frozenset("grad jvp vjp linearize hvp jit_grad".split())
_BATCHED: Final = frozenset("vmap vmap_last".split())
_CONTROLLED: Final = frozenset(
    "branch branch_of_numbers switch fori_loop while_loop scan map".split()
)
"""Ways to call a function that is staged without numbers."""
_RULED: Final = frozenset("checkpoint custom_jvp custom_vjp linear_rule halved clipped".split())
_BROADCAST: Final = frozenset(
    name for name, each in PRIMITIVES.items() if each.batch is batch_elementwise
)
_SEVERAL: Final = frozenset(
    "split array_split hsplit vsplit dsplit divmod modf frexp meshgrid unstack broadcast_arrays"
    " tril_indices_from triu_indices_from diag_indices_from"
    " eig eigh slogdet svd qr lstsq lu cho_factor".split()
)
"""Functions with more than one result."""


class BrokenError(Exception):
    """A nest of statements that work by themselves raised an error."""

    def __init__(self, program: Program, error: BaseException) -> None:
        super().__init__(str(error))
        self.program = program
        self.error = error


def generate(rng: np.random.Generator, weights: Weights) -> Program:
    """A program; ``BrokenError`` where whole statements of working parts raise an error.

    Parameters
    ----------
    weights : callable
        How much an operation is wanted.
    """
    style = style_of(rng, weights)
    maker = _Maker(rng, style)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for _ in range(int(rng.integers(1, 4))):
            maker.input()
        for _ in range(style.length):
            maker.statement(0)
    return maker.program()


def _kind(value: Any) -> str:
    return np.asarray(value).dtype.kind


@dataclass(slots=True)
class _Maker:
    """A program in the making."""

    rng: np.random.Generator
    style: Style
    inputs: list[tuple[str, Any]] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    frames: list[list[Statement]] = field(default_factory=lambda: [[]])
    visible: list[str] = field(default_factory=list)
    parameters: list[Mapping[str, Any]] = field(default_factory=list)
    batched: bool = False
    count: int = 0

    def name(self, letter: str) -> str:
        """A name that no variable has yet."""
        self.count += 1
        return f"{letter}{self.count}"

    def program(self) -> Program:
        """The program so far; its outputs are the values that nothing reads, and the last value."""
        statements = tuple(self.frames[0])
        made = [each.target for each in statements]
        outputs = made[-1:] + [str(each) for each in self.rng.permutation(made[:-1])[:2]]
        if not outputs:
            outputs = [self.inputs[0][0]]
        return Program(tuple(self.inputs), dict(self.constants), statements, tuple(outputs))

    # ------------------------------------------------------------------------------ values

    def input(self) -> None:
        """An argument of the program."""
        rng, name = self.rng, self.name("x")
        shape = self.style.shapes[rng.integers(len(self.style.shapes))]
        chance = rng.random()
        if self.inputs and chance < 0.1:
            value: Any = float(rng.normal()) if chance < 0.07 else int(rng.integers(1, 3))
        elif self.inputs and chance < 0.25:
            value = drawn(rng, shape, str(rng.choice(list("?bBlh"))))
        else:
            value = drawn(rng, shape, self.style.dtype, self.style.edges)
        self.inputs.append((name, value))
        self.values[name] = value if isinstance(value, (int, float)) else fg.tensor(value)
        self.visible.append(name)

    def constant(self, value: Any) -> str:
        """A piece of text for a constant."""
        if isinstance(value, (bool, int, float, complex)) and not isinstance(value, np.generic):
            return f"({constant_text(value)})"
        for known, other in self.constants.items():
            same = type(other) is type(value) and np.shape(other) == np.shape(value)
            if same and other.dtype == value.dtype and other.tobytes() == value.tobytes():
                return known
        name = self.name("c")
        self.constants[name] = self.values[name] = np.array(value)[()]
        return name

    def anywhere(self, test: Callable[[Any], bool]) -> str | None:
        """A visible variable whose value passes a test, preferably a late one."""
        fitting = [name for name in self.visible if test(self.values[name])]
        if not fitting:
            return None
        back = min(int(self.rng.geometric(0.35)), len(fitting))
        return fitting[-back]

    def attempt(self, statement: Statement) -> bool:
        """Run a statement; keep it if its value can be used further."""
        namespace = {**SCOPE, **self.values}
        exec("\n".join(lines_of(statement)), namespace)
        value = namespace[statement.target]
        if not isinstance(value, (fg.Tensor, bool, int, float)):
            return False
        most = 5000 if self.style.shapes[0] == LARGE else 200
        if not is_tame(value, self.style.edges, most):
            return False
        self.values[statement.target] = value
        self.frames[-1].append(statement)
        self.visible.append(statement.target)
        return True

    def tried(self, statement: Statement) -> bool:
        """Attempt a statement that NumPy's rules may forbid."""
        numbers = any(not isinstance(self.values[each], fg.Tensor) for each in reads_of(statement))
        refused = (*_REFUSED, AttributeError) if numbers else _REFUSED  # which lack methods
        with suppress(*refused):
            return self.attempt(statement)
        return False

    # ------------------------------------------------------------------------------ statements

    def statement(self, depth: int) -> None:
        """One more statement, if one is found in a few attempts."""
        for _ in range(6):
            if self.style.nests and depth < 2 and self.rng.random() < 0.3:
                done = self.nest(str(self.rng.choice(self.style.nests)), depth)
            elif self.rng.random() < 0.15:
                done = self.motif(str(self.rng.choice(MOTIFS)))
            else:
                done = self.operation(str(self.rng.choice(self.style.operations)))
            if done:
                return

    def operation(self, name: str) -> bool:
        """A statement with a certain operation."""
        if name in FUNCTIONS:
            return self.function(name)
        if name.startswith("motif "):
            return self.motif(MOTIFS[int(name[6:])], name)
        if name.startswith("family "):
            return self.motif(FAMILIES[int(name[7:])], name)
        if name.startswith("look "):
            return not self.batched and self.motif(LOOKS[int(name[5:])], name)
        if name.startswith(("form ", "ground ")):
            return self.form(*name.split())
        return self.primitive(name)

    def form(self, kind: str, name: str, number: str = "") -> bool:
        """An expression of two matrices to which a rule of a pass applies."""
        first = self.anywhere(lambda value: np.ndim(value) == 2 and min(np.shape(value)) > 2)
        if first is None:
            return False
        second = self.anywhere(lambda value: self._spec(value) == self._spec(self.values[first]))
        place = f"{number}, " if number else ""
        text = f"{kind}({name!r}, {place}{{}}, {{}}, {int(self.rng.integers(1000))})"
        names = (f"{kind} {name} {number}".strip(),)
        return self.tried(Step(self.name("v"), text, (first, second or first), names))

    def motif(self, text: str, name: str = "") -> bool:
        """A statement from a text whose places are filled with values of one kind."""
        first = self.anywhere(lambda value: True)
        if first is None:
            return False
        shape = np.shape(self.values[first])
        close = self.rng.random() < 0.8
        others = [
            self.anywhere(lambda value: not close or np.shape(value) == shape) or first
            for _ in range(2)
        ]
        filled = [first, *others]
        places = [k for k in range(3) if f"{{{k}}}" in text]
        numbers = [not isinstance(self.values[filled[k]], fg.Tensor) for k in places]
        if text.startswith("np.") and any(numbers):
            return False  # NumPy's own meaning, which allows more
        plain = text
        reads = tuple(filled[k] for k in places)
        for position, k in enumerate(places):
            plain = plain.replace(f"{{{k}}}", f"{{{position}}}")
        return self.tried(Step(self.name("v"), plain, reads, (name,) if name else ()))

    def function(self, name: str) -> bool:
        """A call of a public function, with arguments by its parameters' names."""
        texts, reads, ndim = [], [], 0
        for parameter in FUNCTIONS[name].parameters.values():
            required = parameter.default is parameter.empty
            if parameter.name in ARRAYS and (required or self.rng.random() < 0.3):
                found = self.anywhere(lambda value: np.ndim(value) > 0 or self.rng.random() < 0.3)
                if found is None:
                    return False
                ndim = max(ndim, np.ndim(self.values[found]))
                reads.append(found)
                text = "{}"
            elif parameter.name in MANY:
                found_all = [self.anywhere(lambda value: True) for _ in range(2)]
                reads += [each for each in found_all if each]
                text = ", ".join(["{}"] * 2)
                text = text if parameter.kind is parameter.VAR_POSITIONAL else f"[{text}]"
            elif parameter.name in NAMED and (required or self.rng.random() < 0.4):
                text = parameter_text(NAMED[parameter.name](self.rng, ndim))
            elif required:
                return False
            else:
                continue
            keyword = parameter.kind is parameter.KEYWORD_ONLY or not required
            texts.append(f"{parameter.name}={text}" if keyword else text)
        call = f"{name}({', '.join(texts)})"
        if name.split(".")[-1] in _SEVERAL:
            call += f"[{int(self.rng.choice([0, 1, -1]))}]"
        return self.tried(Step(self.name("v"), call, tuple(reads), (name,)))

    def primitive(self, name: str) -> bool:
        """A primitive at one of its samples, or at values that are like those."""
        samples = list(PRIMITIVES[name].samples()) or [Sample((np.array([0.5, -1.0]),))]
        sample = samples[self.rng.integers(len(samples))]
        if not (self.style.edges or all(np.all(np.isfinite(arg)) for arg in sample.args)):
            return False
        pieces, reads = [], []
        free = name in _BROADCAST and self.rng.random() < 0.4
        for arg in sample.args:
            text = self.argument(arg, free, sample.smooth)
            reads += [text] if text in self.values else []
            pieces.append("{}" if text in self.values else text)
        params = [f"{key}={parameter_text(value)}" for key, value in sample.params.items()]
        pieces += [each.replace("{", "{{").replace("}", "}}") for each in params]
        text = f"run.{name}({', '.join(pieces)})"
        return self.tried(Step(self.name("v"), text, tuple(reads), (name,)))

    def argument(self, wanted: Any, free: bool, smooth: bool) -> str:
        """Text for an argument: a variable of that kind, the number itself, or something near."""
        chance = self.rng.random()
        if chance < 0.12:
            return self.constant(wanted)
        spec = (np.shape(wanted), np.asarray(wanted).dtype.kind)
        fits: Callable[[Any], bool] = lambda value: (  # noqa: E731 - one of two tests
            np.asarray(value).dtype.kind == spec[1] and (free or np.shape(value) == spec[0])
        )
        if spec[1] in "fc" or free:
            found = self.anywhere(fits) if chance < 0.55 else None
            return found or self.near(wanted)
        return self.constant(wanted)

    def near(self, wanted: Any) -> str:
        """A value next to a number that is fit for the operation, and that depends on others."""
        like = np.asarray(wanted)
        source = self.anywhere(
            lambda value: np.asarray(value).dtype.kind in "fc" and np.size(value) > 0
        )
        if source is None or like.dtype.kind not in "fc":
            return self.constant(wanted)
        dtype = self.style.dtype if self.style.dtype.kind == like.dtype.kind else like.dtype
        if self.rng.random() < 0.2:
            dtype = like.dtype
        anchor = self.constant(like.astype(dtype)[()])
        text = f"{{}} + 0.03125 * fnp.tanh(fnp.resize({{}}.real, {like.shape}))"
        if not like.shape:
            text = "{} + 0.03125 * fnp.tanh(fnp.ravel({})[0].real)"
        target = self.name("v")
        text = f"({text}).astype(np.{np.dtype(dtype).name})"
        kept = self.tried(Step(target, text, (anchor, source)))
        return target if kept else self.constant(wanted)

    # ------------------------------------------------------------------------------ nesting

    def nest(self, kind: str, depth: int) -> bool:
        """A branch, a loop, or a function that is called in a way of its own."""
        if self.batched and kind in ("if", "while"):
            return False
        inexact = kind not in ("closure", "jit", "program", "if", *_BATCHED, *_CONTROLLED)
        needs_rows = kind in (*_BATCHED, "rows", "stacked_rows", "map")
        chosen = self.anywhere(
            lambda value: (
                isinstance(value, fg.Tensor)
                and (not inexact or value.dtype.kind in "fc")
                and (not needs_rows or (value.ndim > 0 and 0 not in value.shape))
            )
        )
        if chosen is None:
            return False
        value = self.values[chosen]
        row = value[..., 0] if kind == "vmap_last" else value[0] if needs_rows else value
        if kind in ("for", "while", "rows"):
            return self._loop(kind, depth, chosen, row)
        if kind == "if":
            bodies = tuple([self._body(depth, {}, False, like=chosen) for _ in range(2)])
            test = f"bool(total({{}}) > {float(self.rng.normal()):.3f})"
            return self._ended(Nest(self.name("v"), kind, (), (), bodies, test, (chosen,)))
        batched, self.batched = self.batched, self.batched or kind in _BATCHED | _CONTROLLED
        parameter = self.name("p")
        hidden = kind in _RULED and not self.style.closes
        body = self._body(depth, {parameter: row}, hidden, inexact=kind in _DERIVED | _RULED)
        self.batched = batched
        return self._ended(Nest(self.name("v"), kind, (chosen,), (parameter,), (body,)))

    def _loop(self, kind: str, depth: int, chosen: str, row: Any) -> bool:
        start, parameter = self.values[chosen], self.name("p")
        parameters: dict[str, Any] = {parameter: start}
        arguments: tuple[str, ...] = (chosen,)
        if kind == "rows":
            parameters, arguments = {parameter: start, self.name("p"): row}, (chosen, chosen)
        test = str(int(self.rng.integers(1, 4)))
        if kind == "while":
            test = f"bool(total({{}}) < {float(self.rng.normal() + 1):.3f})"
        body = self._body(depth, parameters, False, like=parameter)
        tests = (parameter,) if kind == "while" else ()
        nest = Nest(self.name("v"), kind, arguments, tuple(parameters), (body,), test, tests)
        return self._ended(nest)

    def _body(
        self,
        depth: int,
        parameters: Mapping[str, Any],
        hidden: bool,
        like: str | None = None,
        inexact: bool = False,
    ) -> Body:
        """A few statements about parameters; ``hidden``: about nothing else."""
        outside = self.visible
        self.visible = [*([] if hidden else outside), *parameters]
        self.values.update(parameters)
        self.parameters.append(parameters)
        self.frames.append([])
        for _ in range(int(self.rng.integers(1, 4))):
            self.statement(depth + 1)
        inside = [each.target for each in self.frames[-1]]
        fitting = [n for n in inside if not inexact or _kind(self.values[n]) in "fc"]
        result = (fitting or list(parameters) or [like or ""])[-1]
        if like is not None:
            step = Step(self.name("v"), "fit({}, {})", (like, result))
            if self._alike(result, like) or not self.tried(step):
                result = result if self._alike(result, like) else like
            else:
                result = step.target
        statements = tuple(self.frames.pop())
        self.parameters.pop()
        self.visible = outside
        return Body(statements, result)

    def _alike(self, first: str, second: str) -> bool:
        return self._spec(self.values[first]) == self._spec(self.values[second])

    def _spec(self, value: Any) -> Any:
        array = np.asarray(value)
        return array.shape, array.dtype

    def _ended(self, nest: Nest) -> bool:
        """Run a nest whose statements work: an error is a finding."""
        try:
            return self.attempt(nest)
        except Exception as error:
            raise BrokenError(self._unfolded(nest), error) from error

    def _unfolded(self, last: Statement) -> Program:
        """The statements so far, of all bodies that are open, one after the other."""
        statements = list(self.frames[0])
        constants = dict(self.constants)
        for parameters, frame in zip(self.parameters, self.frames[1:], strict=True):
            for name, value in parameters.items():
                constants[f"c_{name}"] = np.array(value)[()]
                statements.append(Step(name, "fnp.asarray({})", (f"c_{name}",)))
            statements += frame
        return Program(tuple(self.inputs), constants, (*statements, last), (last.target,))
