"""One path of a function that is staged for all examples of a batch, though it branches.

A program is written for all values, so it cannot divide a batch. The function runs once for each
path that its answers to ``if`` could take, on all examples; a mask says which examples take it.

>>> import funcgrad as fg
>>> def relu(x):
...     return x if x > 0 else 0.0
>>> staged = fg.program(fg.vmap(relu))(fg.tensor([1.0, -1.0]))
>>> [equation.operation.name for equation in staged.equations][-1]
'where'
>>> staged(fg.tensor([-3.0, 4.0]))
Tensor([0., 4.])
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from contextlib import ExitStack, suppress
from itertools import takewhile
from math import prod
from typing import Any, Final, NoReturn, TypeAlias

import numpy as np

from funcgrad._base.users_line import users_line
from funcgrad._core.specs import dtype_of, shape_of
from funcgrad._core.trace import RAW, Raw, Value, running_traces
from funcgrad._primitives.logic import logical_and, logical_not, not_equal
from funcgrad._primitives.structural import reshape
from funcgrad._transforms.active_examples import with_active
from funcgrad._transforms.answers import Stopped, UnstagedError
from funcgrad._transforms.repeated_looks import Looks, LookSite

Interpreter: TypeAlias = Any
"""A batcher, whose class is in a layer above this one."""

MOST_PATHS: Final = 16
"""The most paths that one program has."""

MOST_OPERATIONS: Final = 100_000
"""The most operations on a path; a path that no example takes might never end."""

MOST_RUNS: Final = 64
"""The most runs of a function that is staged, and the most operations made of loops in them."""


_REMEDIES: Final = (
    (
        "int(t)",
        ". Round with fnp.trunc and compute with the tensor, loop that often with fg.fori_loop, or"
        " choose with fg.switch",
    ),
    ("round(t)", ". Round with fnp.round, and compute with the tensor"),
    (
        "t as an index",
        (". Look up in an array, with fnp.asarray(list)[t], or choose with fg.switch"),
    ),
    ("float(t)", ". Compute with the tensor itself"),
    ("complex(t)", ". Compute with the tensor itself"),
    ("t.item()", ". Compute with the tensor itself"),
    ("t.tolist()", ". Compute with the tensor itself"),
)
"""By uses: how to write them without a Python number."""


class Loops:
    """Which loops of a function cannot be one operation, by the places of their conditions.

    Attributes
    ----------
    reasons : dict
        The loops that cannot, and the lines and reasons, for a warning.
    skips : dict
        How many steps run before the operation.
    known : dict
        The loops that have been seen to repeat.
    looks : Looks
        The places of looks.
    most_operations : int
        How many operations a path may have.
    runs : int
        How often the function has run.
    made : int
        How many operations have been made of loops in these runs.
    """

    def __init__(self) -> None:
        self.reasons: dict[Hashable, tuple[str, str]] = {}
        self.skips: dict[Hashable, int] = {}
        self.known: dict[Hashable, Any] = {}
        self.looks = Looks()
        self.most_operations = MOST_OPERATIONS
        self.runs = 0
        self.made = 0

    def fails(self, place: Hashable, line: str, reason: str) -> None:
        """Note that a loop could not be an operation from its first step on, or at all."""
        if self.skips.setdefault(place, 0):
            self.reasons[place] = line, reason
        self.skips[place] += 1
        self.known.clear()  # some may have this loop in their steps


class Scripts:
    """The answers of runs that have ended, and those that other runs shall give.

    An answer is a truth value, or a pair of a loop and the number of its way out, which is -1 while
    the loop is not known.
    """

    def __init__(self) -> None:
        self.waiting: list[tuple[Any, ...]] = [()]
        self.done: list[tuple[tuple[Any, ...], Any]] = []

    def begin_with(self, script: tuple[Any, ...]) -> None:
        """Replace all runs whose answers begin as a script's do, but for the last, by that one."""
        before = script[:-1]
        self.waiting = [one for one in self.waiting if one[: len(before)] != before]
        self.done = [one for one in self.done if one[0][: len(before)] != before]
        self.waiting.append(script)


class LookScope:
    """The answers of a run, or of a step of a loop within it.

    Parameters
    ----------
    script : tuple
        The answers to the first looks; later ones are true at first, and false in another run.

    Attributes
    ----------
    answers, sites : list
        The answers, and the places of the looks.
    others : list of tuple
        The scripts that turn off at a new look.
    """

    __slots__ = ("answers", "others", "script", "sites")

    def __init__(self, script: tuple[Any, ...] = ()) -> None:
        self.script = script
        self.answers: list[Any] = []
        self.sites: list[LookSite] = []
        self.others: list[tuple[Any, ...]] = []

    def next(self, site: LookSite) -> Any:
        """The answer to a look."""
        place = len(self.answers)
        if place >= len(self.script):
            answer: Any = True
            self.others.append((*self.answers, False))
        else:
            answer = self.script[place]
            if type(answer) is tuple and answer[1] < 0 and answer[0].exits:
                loop = answer[0]
                self.others += [
                    (*self.answers, (loop, number)) for number in range(1, len(loop.exits))
                ]
                answer = loop, 0
        self.answers.append(answer)
        self.sites.append(site)
        return answer

    def came_before(self, site: LookSite, loop: LookSite) -> bool:
        """Whether a look came before the first one of a loop, so that it is not of its steps."""
        for earlier in self.sites:
            if earlier[:2] == loop[:2]:
                return False
            if earlier[:2] == site[:2]:
                return True
        return False

    def repeated(self, site: LookSite, loops: Loops) -> int:
        """The number of the look at which a loop begins that now looks again; -1 for none."""
        if site.frame is None or len(self.answers) < len(self.script):
            return -1
        if site.place in loops.reasons:
            return -1
        looks = []
        for place in reversed(range(len(self.sites))):
            if self.sites[place].frame is site.frame and self.sites[place].place == site.place:
                if type(self.answers[place]) is tuple:
                    break
                looks.append(place)
        skip = loops.skips.get(site.place, 0)
        if len(looks) <= skip:
            return -1
        reason = loops.looks.obstacle(site.frame)
        if reason:
            loops.reasons[site.place] = site.line, reason
            return -1
        return looks[-1 - skip]


class StagedPath:
    """The answers along a path, and the mask of the examples that take it.

    Attributes
    ----------
    scope : LookScope
        The answers.
    mask : value
        The examples that answer so, from outside the batch; None for all.
    loops : Loops
        Loops that are known not to be operations; all paths share them.
    captures : list of LoopCapture
        The loops whose steps are running, to become operations, the innermost last.
    repetition : (LookScope, int, LookSite) or None
        A look at which a loop was seen to repeat, with the number of its first look.
    has_ended : bool
        Whether the run is over, and its results are known.
    failed : bool
        Whether a loop could not be an operation, so that all runs begin anew.
    stopped : Stopped or None
        The exception that abandoned the run, since it ran to find out about a loop.
    operations : int
        How many operations the run has had.
    refused : UnstagedError or None
        The error, if the function cannot be staged.
    """

    def __init__(self, script: tuple[Any, ...] = (), loops: Loops | None = None) -> None:
        self._active = ExitStack()
        self.scope = LookScope(script)
        self.mask: Value = None
        self.loops = Loops() if loops is None else loops
        self.captures: list[Any] = []
        self.repetition: tuple[LookScope, int, LookSite] | None = None
        self.failed = self.has_ended = False
        self._batcher: Any = None
        self.operations = 0
        self.stopped: Stopped | None = None
        self.refused: UnstagedError | None = None
        self._known: dict[Hashable, bool] = {}  # answers, by the identities of the values
        self._outside: dict[int, Any] = {}  # tracers of values that were looked at, by identity

    @property
    def lines(self) -> list[tuple[str, Any]]:
        """The lines that looked at a value, each with the answer."""
        return [
            (site.line, "its loop" if type(answer) is tuple else answer)
            for site, answer in zip(self.scope.sites, self.scope.answers, strict=True)
        ]

    def choose(self, batcher: Interpreter, data: Value, use: str) -> Raw:
        """Answer a look at a value, whose batch is on axis 0, and keep who would answer so."""
        if self.stopped is not None:
            raise self.stopped
        shape = shape_of(data)
        if not use.startswith("bool(t)"):
            raise self.unknown(use)
        if prod(shape[1:]) != 1:
            return np.zeros(shape[1:], np.bool_)  # which has no truth value, and is refused
        condition = data if dtype_of(data) == np.bool_ else not_equal(data, 0)
        condition = reshape(condition, shape=shape[:1]) if len(shape) > 1 else condition
        site = self.loops.looks.site()
        self._check_captures(batcher)
        same = identity_of(data)
        repeats = any(capture.repeats_at(site) for capture in self.captures)
        if same in self._known and not repeats:
            self.count_operation()
            if not self.captures:
                self._check_repetition(self.scope, site)
            return np.bool_(self._known[same])
        if self.captures:
            known = self._outside.setdefault(id(data), (data, batcher.follow(condition)))
            return np.bool_(self.captured(known[1], site))
        self._check_repetition(self.scope, site)
        answer = self.scope.next(site)
        if sum(type(one) is not tuple for one in self.scope.answers) > MOST_PATHS:
            raise self.too_many()
        if type(answer) is tuple:
            loop, number = answer
            self._batcher = batcher
            return np.bool_(loop.begin(self, number, site, batcher.follow(condition)))
        if same is not None:
            self._known[same] = answer
        self._take(batcher.follow(condition if answer else logical_not(condition)), batcher)
        return np.bool_(answer)

    def count_operation(self) -> None:
        """Count an operation, and refuse a path that does not end, which no example may take.

        Raises
        ------
        UnstagedError
        """
        self.operations += 1
        if self.operations > self.loops.most_operations:
            sites = self.scope.sites
            where = f" after the answer {self.lines[-1][1]} at {sites[-1].line}" if sites else ""
            raise self.refuse(f"has a path that does not end{where}")

    def take(self, condition: Value) -> None:
        """Go on with the examples for which a truth value holds."""
        self._take(condition, self._batcher)

    def _take(self, condition: Value, batcher: Interpreter) -> None:
        taken = batcher.batch_of(condition)
        self.mask = taken if self.mask is None else logical_and(self.mask, taken)
        self._active.enter_context(with_active(condition))

    def _check_captures(self, until: object = None) -> None:
        """Refuse a look within steps that are captured for another batch."""
        inner = takewhile(lambda trace: trace is not until, running_traces())
        paths = [path for trace in inner if (path := getattr(trace, "captures_for", None))]
        if paths and paths[0] is not self:
            raise self.refuse(
                f"has a loop over values of a batch within a batch, and looks at values of"
                f" the outer one at {users_line()}"
            )

    def captured(self, condition: Value, site: LookSite) -> bool:
        """Answer a look within steps of a loop that is to become an operation."""
        if self.stopped is not None:
            raise self.stopped
        self._check_captures()
        *around, inner = self.captures
        for capture in around:
            if capture.repeats_at(site):
                inner.leave()
        if inner.repeats_at(site):
            return bool(inner.arrive(condition))
        scopes = [self.scope, *[capture.scope for capture in around]]
        if inner.has_left() or (
            site.place not in self.loops.reasons
            and any(scope.came_before(site, inner.site) for scope in scopes)
        ):
            inner.leave()
        self._check_repetition(inner.scope, site)
        return bool(inner.look(condition, site))

    def _check_repetition(self, scope: LookScope, site: LookSite) -> None:
        """Abandon the run if a loop is seen to repeat."""
        first = scope.repeated(site, self.loops)
        if first >= 0:
            self.repetition = scope, first, site
            self.stop()

    def stop(self) -> NoReturn:
        """Abandon the run.

        Raises
        ------
        Stopped
        """
        self.stopped = Stopped()
        raise self.stopped

    def unknown(self, use: str) -> UnstagedError:
        """The error for a look whose answers no program could list."""
        word = use.partition(",")[0]
        remedy = next((text for start, text in _REMEDIES if use.startswith(start)), "")
        return self.refuse(
            f"needs {word} of each example at {users_line()}, whose number no program knows{remedy}"
        )

    def too_many(self) -> UnstagedError:
        """The error for more paths than a program has, which names the line that looks most."""
        if not self.scope.sites:
            return self.refuse(f"takes more than {MOST_PATHS} paths over a batch")
        line, _ = Counter([site.line for site in self.scope.sites]).most_common(1)[0]
        reasons = [reason for place, reason in self.loops.reasons.values() if place == line]
        because = f" (it cannot be one operation here, since {reasons[0]})" if reasons else ""
        return self.refuse(
            f"takes more than {MOST_PATHS} paths over a batch, most by the answers at {line}, and"
            " a program has to have them all. Write a loop whose number of steps depends on the"
            f" example as fg.while_loop{because}"
        )

    def refuse(self, reason: str) -> UnstagedError:
        self.refused = UnstagedError(f"under vmap it {reason}")
        return self.refused

    def close(self) -> None:
        """End the run: all examples take part again."""
        for capture in reversed(self.captures):
            capture.close()
        # The frames hold the tracers of this run, which hold the path.
        self.scope.sites = [site._replace(frame=None) for site in self.scope.sites]
        with suppress(ValueError):  # a look in another thread
            self._active.close()


def identity_of(data: Value) -> Hashable:
    """A key that is the same for values that are surely equal; None without such a key."""
    kinds: list[Any] = []
    while type(data) not in RAW:
        identity = getattr(data._trace, "identity", None)
        if identity is not None:
            return (*kinds, identity(data))
        kinds.append(data._trace)
        data = data._value
    return None
