"""A Python loop over values of a batch as one ``while_loop``, while the function is staged.

Where a run looks again at the place of an earlier look (``repeated_looks.py``), a loop may be.
The function runs again, and from the first look at that place on, its operations go to a stager
beside the program: they are *captured*. One run follows each way through a step, until the place
is reached again or the function has left the loop. The last runs, one for each way out of the loop,
take all ways in turn, three times. If each way has done the same operations each time, and has
read only values that the function's variables held when it began, then these variables are the
loop's state. The loop becomes an operation, and the tracers that the function holds become tracers
of its results. Where a comparison fails, the loop runs unrolled or unstaged.

>>> import funcgrad as fg
>>> def halved(x):
...     while x > 1.0:
...         x = x / 2
...     return x
>>> staged = fg.program(fg.vmap(halved))(fg.tensor([0.5, 6.0]))
>>> "while_loop" in staged.to_text()  # in a loop over the examples
True
>>> staged(fg.tensor([1000.0, 2.0]))
Tensor([0.9765625, 1.       ])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import takewhile
from typing import Any, Final, NoReturn

from funcgrad._base.users_line import variables_of
from funcgrad._core.context import all_delegated
from funcgrad._core.trace import RAW, Raw, Value, begin_level, escaped, running_traces
from funcgrad._programs.equation import Equation, exact_key
from funcgrad._transforms.abstract_stager import AbstractStager, running_stager
from funcgrad._transforms.answers import Stopped, UnstagedError
from funcgrad._transforms.batcher import Batcher
from funcgrad._transforms.loop_forms import Look, LoopForm, LoopStep
from funcgrad._transforms.record import Recorder
from funcgrad._transforms.repeated_looks import Held, LookSite, held
from funcgrad._transforms.staged_paths import MOST_PATHS, MOST_RUNS, LookScope, Scripts, StagedPath
from funcgrad._transforms.stager import Staged, Stager
from funcgrad.tensor.tensor import Tensor

MOST_WAYS: Final = 8
"""The most ways through a step of a loop that is one operation."""

_ROUNDS: Final = 3


class Lost(Tensor):
    """A value of a step that a loop's results do not contain; a use of it gives up the loop."""

    __slots__ = ("_index", "_trace")

    @property
    def shape(self) -> Any:
        """No shape: the loop is given up."""
        return self._trace.lose()

    @property
    def dtype(self) -> Any:
        """No dtype: the loop is given up."""
        return self._trace.lose()

    def _reveal(self, use: str, exact: bool) -> Any:
        return self._trace.lose()


class Capturer(AbstractStager):
    """The stager of the steps of a loop."""

    def __init__(self, level: int, path: StagedPath, around: Stager | None) -> None:
        super().__init__(level, "vmap", around)
        self.path = self.captures_for = path
        self.made: dict[int, list[Any]] = {}
        self.lost: Any = None

    def reveal(self, tracer: Staged, use: str, exact: bool) -> Raw:
        if not use.startswith("bool(t)"):
            raise self.path.unknown(use)
        return self.path.captured(tracer, self.path.loops.looks.site())

    def _tracer(self, data: Value, index: int) -> Staged:
        self.path.count_operation()
        tracer = super()._tracer(data, index)
        self.made.setdefault(index, []).append(tracer)
        return tracer

    def check(self, *used: Value) -> None:
        if not self._open:
            self.lose()

    def lose(self) -> NoReturn:
        """Give up the loop, whose results lack a value that the function uses."""
        if self.path.has_ended:
            raise escaped()
        self.lost("what it returns or reads later is not among its variables")
        raise AssertionError

    @property
    def count(self) -> int:
        """How many variables there are."""
        return self._variables

    def reference(self, value: Value) -> int:
        """The variable of a value; negative for a value from outside."""
        return self._variable(value)

    def outside(self, reference: int) -> Value:
        """The value from outside that a negative reference stands for."""
        return self._pool.constants[-1 - reference].value

    def equations_between(self, start: int, end: int) -> list[tuple[int, Equation]]:
        """Equations in order, each with the first variable of its results."""
        return sorted(pair for pair in self._equations.items() if start <= pair[0] < end)

    @property
    def has_effects(self) -> bool:
        return bool(self._effects)


class PythonLoop:
    """A loop of the user's function, as far as the runs before have made it known.

    Attributes
    ----------
    site : LookSite
        The look that a step begins with.
    goes_on : bool
        The answer with which another step begins.
    scripts : Scripts
        The ways through a step: whether each leads to another step.
    exits : list of tuple
        The answers, from the beginning of a step, that lead out of it; the empty tuple for the
        answer at its beginning. Empty while the ways are not known.
    """

    def __init__(self, site: LookSite, goes_on: bool) -> None:
        self.place, self.line, self.goes_on = site.place, site.line, goes_on
        self.scripts = Scripts()
        self.exits: list[tuple[Any, ...]] = []

    @property
    def ways(self) -> list[tuple[Any, ...]]:
        """The answers along each way to another step."""
        return [answers for answers, returns in self.scripts.done if returns]

    def begin(self, path: StagedPath, number: int, site: LookSite, condition: Value) -> bool:
        """Capture the loop from this look on, to leave it by a way out; the answer to the look."""
        capture = LoopCapture(self, path, self.exits[number] if self.exits else (), site)
        path.captures.append(capture)
        return capture.arrive(condition)

    def know(self) -> str:
        """Find the ways out when all ways through a step are known; also why there are none."""
        ways = self.ways
        if not ways or len(ways) > MOST_WAYS:
            return f"its steps take more than {MOST_WAYS} ways" if ways else "it has no second step"
        exits: list[tuple[Any, ...]] = [()]
        for answers, returns in self.scripts.done:
            if not returns:
                shared = max(_agreeing(answers, way) for way in ways)
                exits.append(answers[: shared + 1])
        self.exits = [*dict.fromkeys(exits)]
        return ""


def _agreeing(first: Sequence[Any], second: Sequence[Any]) -> int:
    """How many answers of two ways agree from the beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second)))  # noqa: B905


class LoopCapture:
    """A run that captures steps of a loop."""

    def __init__(
        self, loop: PythonLoop, path: StagedPath, way_out: tuple[Any, ...], site: LookSite
    ) -> None:
        self.loop, self.path, self.way_out, self.site = loop, path, way_out, site
        self.scope = LookScope()
        looks, frame = path.loops.looks, site.frame
        assert frame is not None
        self.start = looks.map_of(frame).place(frame.f_lasti)[1]
        self.steps: list[LoopStep] = []
        self.helds: list[Held] = []
        self._first: list[Value] = []
        self._stack = ExitStack()
        self.stager = self._begin()

    def _begin(self) -> Capturer:
        around = running_stager()
        kinds = Stager | Recorder | Batcher
        traces: list[Any] = [*takewhile(lambda trace: isinstance(trace, kinds), running_traces())]
        for trace in traces:
            if isinstance(trace, Recorder):
                trace.is_plain = False
            elif isinstance(trace, Batcher):
                trace.lend()
        stager = Capturer(self._stack.enter_context(begin_level()), self.path, around)
        self._stack.enter_context(all_delegated(traces, stager))
        stager.lost = self.fail
        return stager

    def close(self) -> None:
        """End the capture."""
        self.stager.close()
        self._stack.close()
        self.site = self.site._replace(frame=None)  # which holds the tracers of this run
        self.scope.sites, self.helds = [], []

    def fail(self, reason: str) -> NoReturn:
        """Give up the loop, or try it from its second step on.

        Raises
        ------
        Stopped
        """
        self.path.loops.fails(self.loop.place, self.loop.line, reason)
        self.path.failed = True
        self.path.stop()

    def repeats_at(self, site: LookSite) -> bool:
        """Whether a look is where a step of the loop begins."""
        return site.frame is self.site.frame and site.place == self.loop.place

    def has_left(self) -> bool:
        """Whether the function cannot come to another step."""
        frame: Any = self.site.frame
        return self.path.loops.looks.has_left(frame, self.start)

    def _state(self) -> dict[str, int]:
        """The variables of the function, as references."""
        frame: Any = self.site.frame
        self.helds.append(held(variables_of(frame)))
        return {name: self.stager.reference(x) for name, x in self.helds[-1].values.items()}

    # ------------------------------------------------------------------------------- the looks

    def arrive(self, condition: Value) -> bool:
        """Answer the look that a step begins with."""
        loop, stager = self.loop, self.stager
        if not loop.exits:
            if self.steps:
                self._ended(returns=True)
            self.scope = LookScope(loop.scripts.waiting[-1])
            self.steps.append(LoopStep(self.scope, 0, {}))
            return loop.goes_on
        state, reference = self._state(), stager.reference(condition)
        if self.steps:
            step = self.steps[-1]
            if len(self.scope.answers) < len(self.scope.script):
                self.fail("its steps differ")
            step.end, step.end_state, step.condition = stager.count, state, reference
        else:
            self._first = [condition]
        ways = loop.ways
        order = [*ways * (_ROUNDS - 1), *reversed(ways)]
        count = len(self.steps)
        if count < len(order):
            following: tuple[Any, ...] = order[count]
        else:
            self._check_others()
            following = ways[count % len(ways)]
            if self._is_separate(state):
                if not self.way_out:
                    self._finish(state)
                    return not loop.goes_on
                following = self.way_out
            elif count > len(order) + 2 * len(ways):
                self.fail("two of its variables cannot be told apart")
        self.scope = LookScope(following)
        self.steps.append(LoopStep(self.scope, stager.count, state))
        return loop.goes_on

    def look(self, condition: Value, site: LookSite) -> bool:
        """Answer a look within a step."""
        is_known = bool(self.loop.exits)
        if is_known and len(self.scope.answers) >= len(self.scope.script):
            self.fail("its steps differ")
        if len(self.scope.answers) > MOST_PATHS:
            self.fail(f"a step looks at more than {MOST_PATHS} values")
        answer = self.scope.next(site)
        if type(answer) is tuple:
            loop, number = answer
            return bool(loop.begin(self.path, number, site, condition))
        self._looked([condition])
        return bool(answer)

    def _looked(self, conditions: Sequence[Value]) -> None:
        """Keep a look that was answered, and finish the loop if the answer leads out of it."""
        if self.loop.exits:
            answers = tuple(self.scope.answers)
            at_exit = any(one[:-1] == answers[:-1] for one in self.loop.exits if one)
            state = self._state() if at_exit else {}
            references = [self.stager.reference(value) for value in conditions]
            self.steps[-1].looks.append(Look(self.stager.count, references, state))
            if answers == self.way_out:
                self._finish(state)

    def leave(self) -> NoReturn:
        """Note that the function has left the loop.

        Raises
        ------
        Stopped
        """
        if self.loop.exits:
            self.fail("its steps differ")
        self._ended(returns=False)

    def _ended(self, returns: bool) -> NoReturn:
        self.ended(returns)
        self.path.stop()

    def ended(self, returns: bool) -> None:
        """Note where a way through a step has led."""
        scripts = self.loop.scripts
        scripts.waiting.pop()
        scripts.waiting += self.scope.others
        scripts.done.append((tuple(self.scope.answers), returns))
        if len(scripts.waiting) + len(scripts.done) > 2 * MOST_WAYS:
            self.fail(f"its steps take more than {MOST_WAYS} ways")
        reason = "" if scripts.waiting else self.loop.know()
        if reason:
            self.fail(reason)

    # ---------------------------------------------------------------------------- the operation

    def headers(self) -> list[dict[str, int]]:
        """The variables at the beginning of each step, and after the last."""
        ended = [step for step in self.steps if step.end_state]
        return [self.steps[0].state, *[step.end_state for step in ended]]

    def _is_separate(self, state: Mapping[str, int]) -> bool:
        """Whether all variables that change hold values of their own."""
        headers = self.headers()
        changing = self._changing(headers)
        for place, name in enumerate(changing):
            if state[name] < 0:
                return False
            for other in changing[:place]:
                alike = state[name] == state[other]
                if alike and any(header[name] != header[other] for header in headers):
                    return False
        return True

    def _changing(self, states: Sequence[Mapping[str, int]]) -> list[str]:
        return [
            name
            for name, first in states[0].items()
            if all(name in state for state in states)
            and any(state[name] != first for state in states)
        ]

    def _check_others(self) -> None:
        """Check that nothing changes but values that may be the loop's state."""
        first, *others = self.helds
        for now in others:
            name = first.change(now)
            if name and (name in first.others or now is not others[0]):
                self.fail(f"`{name}` is another object in the next step")
            if name:
                self.fail(f"`{name}` is new in the first step")
        for now in others:
            for name, value in now.values.items():
                if type(value) in RAW and name in first.values:
                    before = first.values[name]
                    if type(before) not in RAW or exact_key(before) != exact_key(value):
                        self.fail(f"`{name}` is a Python number that changes")
                elif type(value) in RAW and name not in first.values:
                    self.fail(f"`{name}` is new in the first step")

    def _finish(self, state: Mapping[str, int]) -> None:
        """Replace the steps by an operation, and the values that the function holds by results."""
        looks = [look.state for step in self.steps for look in step.looks if look.state]
        carried = self._changing([*self.headers(), *looks])
        self._check_others()
        self.path.loops.made += 1
        if self.path.loops.made > MOST_RUNS:
            raise self.path.too_many()
        if self.stager.has_effects:
            self.fail("it has effects")
        if not self._changing(self.headers()):
            self.fail("no step changes a variable")
        form = LoopForm(self, carried)
        headers = {name: self.steps[0].state[name] for name in carried}
        start = [self.stager.outside(headers[name]) for name in carried]
        made = self.stager.made
        self.close()
        self.path.captures.pop()
        try:
            results, flags = form.run(self._first[0], start)
        except Exception as error:
            self.fail(f"{type(error).__name__}: {error}")
        for name, result in zip(carried, results, strict=True):
            for tracer in made.pop(state[name], ()) if state[name] >= 0 else ():
                self._become(tracer, result)
        for tracers in made.values():
            for tracer in tracers:
                tracer.__class__ = Lost
        if self.path.captures:
            self.path.captures[-1]._looked(flags)
        elif flags:
            self.path.take(flags[self.loop.exits.index(self.way_out)])

    def _become(self, tracer: Value, result: Value) -> None:
        """Let a tracer of a step be the tracer of a result."""
        try:
            tracer.__class__ = type(result)
        except TypeError:
            self.fail("a transformation inside of vmap knows no loops")
        for name in ("_value", *type(result).__slots__):
            if hasattr(result, name):
                setattr(tracer, name, getattr(result, name))
        if isinstance(tracer._trace, Capturer):  # of a loop around
            tracer._trace.made[tracer._index].append(tracer)


def learn(path: StagedPath, scripts: Scripts, error: BaseException | None) -> None:
    """Note all that a run has shown of loops, and which run is the next one.

    Raises
    ------
    UnstagedError
        The function has swallowed the exception that abandoned the run.
    """
    if path.stopped is None:  # the function has ended within a loop
        if not isinstance(error, Exception | None):
            raise error
        with suppress(Stopped):
            path.captures[-1].leave()
    elif error is not path.stopped:
        raise UnstagedError(
            "under vmap it swallows the exception that abandons one of its runs, as in a bare"
            " `except:`"
        ) from error
    if path.failed:
        scripts.waiting, scripts.done = [()], []
        return
    if path.repetition is None:
        return
    scope, first, site = path.repetition
    goes_on = bool(scope.answers[first])
    key = site.place, path.loops.skips.get(site.place, 0), goes_on
    loop = path.loops.known.get(key)
    if loop is None:  # else it is known from other ways through a loop around
        loop = path.loops.known[key] = PythonLoop(site, goes_on)
    owner = scripts if scope is path.scope else path.captures[-1].loop.scripts
    owner.waiting.pop()
    owner.waiting += scope.others
    owner.begin_with((*scope.answers[:first], (loop, -1)))
