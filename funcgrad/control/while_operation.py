"""The operations behind ``fg.while_loop`` in programs.

``WHILE`` is the loop. Its derivative in reverse mode is another operation, ``UNWIND``: it runs the
loop once more, keeps its states or some of them, and goes back through them, from the last to the
first, with cotangents. Nobody needs to know how many there are before.

The derivatives of ``UNWIND`` are made of the same two. Let the loop map x to f(x), so that
``UNWIND`` maps (x, u) to f'(x)ᵀu, and let the loop with tangents map (x, t) to (f(x), f'(x)t). The
cotangents of x and t there, for cotangents v of f(x) and u of f'(x)t, are d⟨u, f'(x)t⟩/dx + f'(x)ᵀv
and f'(x)ᵀu. Since second derivatives are symmetric, the first of them is the tangent of ``UNWIND``
along (t, v), and with v = 0 it is the cotangent of x for a cotangent t of its result; that of u is
f'(x)t. So there are derivatives of every order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from funcgrad.control.cotangents import (
    CotangentKind,
    fitted,
    in_kind,
    joined,
    kind_of,
    part_kinds,
    restored_kinds,
    stand_ins,
    total,
)
from funcgrad.control.operation import (
    ControlRecording,
    Params,
    Rules,
    Values,
    check_linear,
    control_primitive,
)
from funcgrad.control.values import as_spec, specs_inside, strong, with_batch
from funcgrad.control.while_loops import WhileLoop, interleaved, states_backwards
from funcgrad.errors import DifferentiationError, ProgramError
from funcgrad.primitives.selection import where
from funcgrad.programs.extract import extract
from funcgrad.programs.program import Program
from funcgrad.shape import Spec, dtype_of, is_inexact, stand_in
from funcgrad.structure import Loop
from funcgrad.trace import Value
from funcgrad.transforms.factors import zeros_like
from funcgrad.transforms.linearization import LinearPart
from funcgrad.transforms.masked import Cotangent, Masked, plain
from funcgrad.transforms.numberless import flat_program
from funcgrad.transforms.with_derivative import flat, restored, with_pullback

__all__ = ["UNWIND", "WHILE", "apply_while"]


class WhileSettings(NamedTuple):
    """The parameters of a loop: its programs, and how many states reverse mode holds at once."""

    loop: WhileLoop
    checkpoints: int | None

    @classmethod
    def of(cls, params: Params) -> WhileSettings:
        """Of the parameters of an equation."""
        loop = WhileLoop(params["cond"], params["body"], params["consts"])
        return cls(loop, params["checkpoints"])

    def params(self) -> dict[str, Any]:
        """The parameters of an equation."""
        return {**self.loop._asdict(), "checkpoints": self.checkpoints}

    def over(self, loop: WhileLoop) -> WhileSettings:
        """The same for another loop."""
        return self._replace(loop=loop)


def apply_while(values: Values, own: WhileSettings) -> list[Value]:
    """The last carry of a loop."""
    inputs = own.loop.body.inputs
    given = [as_spec(x, spec) for x, spec in zip(values, inputs, strict=True)]
    return list(WHILE(*given, **own.params()))


def _evaluate(values: Values, params: Params) -> list[Value]:
    loop = WhileSettings.of(params).loop
    return loop.run(*loop.parts(values))


def _result(*specs: Spec, **params: Any) -> tuple[Spec, ...]:
    loop = WhileSettings.of(params).loop
    outs = loop.body.results(*specs)
    goes_on = loop.cond.results(*specs)
    if outs != tuple(specs[loop.consts :]):
        raise ProgramError("the body of a loop changes the kind of what it carries")
    if len(goes_on) != 1 or goes_on[0].shape or goes_on[0].dtype != bool:
        raise ProgramError("the condition of a loop is no truth value")
    return outs


def _form(**params: Any) -> Loop:
    loop = WhileSettings.of(params).loop
    return Loop(loop.body, loop.consts, len(loop.body.outputs), None, loop.cond)


def _push(values: Values, tangents: Values, params: Params) -> tuple[list[Value], list[Value]]:
    own = WhileSettings.of(params)
    loop, layout = own.loop.pushed([t is not None for t in tangents])
    moved = [zeros_like(x) if t is None else t for x, t in zip(values, tangents, strict=True)]
    outs = apply_while(layout.joined(values, moved), own.over(loop))
    rest = iter(outs[len(layout.state) :])
    return outs[: len(layout.state)], [next(rest) if flag else None for flag in layout.state]


def _batch(
    size: int, values: Values, flags: Sequence[bool], params: Params
) -> tuple[list[Value], list[bool]]:
    own = WhileSettings.of(params)
    batched = own.loop.batched(size, flags)
    outs = apply_while(batched.operands(values, flags), own.over(batched.loop))
    return outs[len(outs) - len(batched.state) :], list(batched.state)


def _check_linear(followed: Sequence[bool], params: Params) -> None:
    loop = WhileSettings.of(params).loop
    consts, state = map(list, loop.parts(followed))
    while True:
        found = check_linear("fg.while_loop", loop.body, [*consts, *state])
        grown = list(map(max, state, found))
        if grown == state:
            break
        state = grown
    check_linear("fg.while_loop", loop.cond, [*consts, *state])


class WhileRecording(ControlRecording):
    """A loop that was recorded: nothing of its steps is kept."""

    __slots__ = ("_followed", "_own", "_params", "_values", "connected", "outs")

    def __init__(self, values: Values, followed: Sequence[bool], params: Params) -> None:
        self._values = values
        self._params = params
        self._own = WhileSettings.of(params)
        self._followed, self.connected = _reached(self._own.loop, followed)
        self.outs = apply_while(values, self._own)

    def pull(self, cts: Sequence[Cotangent]) -> list[Cotangent]:
        return unwind(self._values, self._followed, cts, self._own)

    def push(self, tangents: Values) -> list[Value]:
        return _push(self._values, tangents, self._params)[1]


def _reached(loop: WhileLoop, followed: Sequence[bool]) -> tuple[list[bool], tuple[int, ...]]:
    """Which operands are followed at some step, and the results that depend on them."""
    args = [stand_in(spec) for spec in loop.body.inputs]
    flags = list(followed)
    while True:
        cts = [None] * len(loop.body.outputs)
        connected = with_pullback(loop.body, flags, args, cts, numbers=False).connected
        grown = [
            flag or (k >= loop.consts and k - loop.consts in connected)
            for k, flag in enumerate(flags)
        ]
        if grown == flags:
            start = flags[loop.consts :]  # after no step the results are what the carry was
            return flags, tuple([k for k, flag in enumerate(start) if flag or k in connected])
        flags = grown


# ------------------------------------------------------------------------------- the loop backwards


class UnwindSettings(NamedTuple):
    """The parameters of ``UNWIND``.

    Attributes
    ----------
    own : WhileSettings
    pull : Program
        Of what is shared, of a state, of the cotangents after a step and of the sums so far, to
        the cotangents before it and the sums.
    followed : tuple of bool
        The operands whose cotangents are wanted.
    kinds, sums : tuple of int
        The kinds of the cotangents of the carry, and of the sums.
    """

    own: WhileSettings
    pull: Program
    followed: tuple[bool, ...]
    kinds: tuple[CotangentKind, ...]
    sums: tuple[CotangentKind, ...]

    @classmethod
    def of(cls, params: Params) -> UnwindSettings:
        """Of the parameters of an equation."""
        kinds, sums = [tuple(map(CotangentKind, params[name])) for name in ("kinds", "sums")]
        return cls(WhileSettings.of(params), params["pull"], params["followed"], kinds, sums)

    def params(self) -> dict[str, Any]:
        """The parameters of an equation."""
        return {
            **self.own.params(),
            "pull": self.pull,
            "followed": self.followed,
            "kinds": tuple([kind.value for kind in self.kinds]),
            "sums": tuple([kind.value for kind in self.sums]),
        }

    def parts(self, values: Values) -> tuple[Values, list[Cotangent]]:
        """The operands of the loop, and the cotangents of the last carry."""
        count = len(self.own.loop.body.inputs)
        return values[:count], restored_kinds(self.kinds, iter(values[count:]))

    def found(self, values: Values) -> list[Cotangent]:
        """The cotangents of all operands that results make up."""
        rest = iter(values)
        return [
            restored_kinds([kind], rest)[0] if flag else None
            for kind, flag in zip((*self.sums, *self.kinds), self.followed, strict=True)
        ]

    def results(self, cts: Sequence[Cotangent], specs: Sequence[Spec]) -> list[Value]:
        """The results for cotangents of all operands, which are of these specs."""
        found: list[Value] = []
        for k, kind in enumerate((*self.sums, *self.kinds)):
            if self.followed[k] and kind is CotangentKind.WHOLE:
                found.append(zeros_like(specs[k]) if cts[k] is None else plain(cts[k]))
            elif self.followed[k]:
                found += flat([in_kind(cts[k], kind, specs[k])])
        return found

    def tangents(self, cts: Sequence[Cotangent]) -> list[Value]:
        """Cotangents of all operands as tangents of the results."""
        found: list[Value] = []
        for k, kind in enumerate((*self.sums, *self.kinds)):
            if self.followed[k] and kind is not CotangentKind.ABSENT:
                found.append(None if cts[k] is None else plain(cts[k]))
                found += [None] * (kind is CotangentKind.MASKED)
        return found


def unwind(
    values: Values, followed: Sequence[bool], cts: Sequence[Cotangent], own: WhileSettings
) -> list[Cotangent]:
    """The cotangents of a loop's operands, from those of the last carry."""
    loop = own.loop
    consts, specs = loop.specs
    given = [fitted(ct, spec) for ct, spec in zip(cts, specs, strict=True)]
    settings = _unwinding(own, followed, [*map(kind_of, given)])
    start = [*map(in_kind, given, settings.kinds, specs)]
    found = settings.found(UNWIND(*values, *flat(start), **settings.params()))
    if any(kind is CotangentKind.WHOLE for kind in settings.sums):
        # Of what is shared nothing is read where there is no step, and so there is no cotangent.
        (ran,) = loop.cond.evaluate(values)
        found = [
            Masked(where(ran, ct, 0), ran)
            if k < len(consts) and kind_of(ct) is CotangentKind.WHOLE
            else ct
            for k, ct in enumerate(found)
        ]
    return found


def _unwinding(
    own: WhileSettings, followed: Sequence[bool], kinds: Sequence[CotangentKind]
) -> UnwindSettings:
    """How a loop is unwound for cotangents of some kinds."""
    loop = own.loop
    consts, specs = loop.specs
    args = [stand_in(spec) for spec in loop.body.inputs]
    state = [_wide(kind) for kind in kinds]
    while True:
        both = with_pullback(loop.body, followed, args, stand_ins(state, specs), numbers=False)
        outs = both.program.outputs[len(specs) :]
        pulled = extract(both.program, range(len(both.program.inputs)), outs)
        part = LinearPart(pulled, (), both.widths)
        sums, found = loop.parts([_wide(kind) for kind in part_kinds(part)])
        grown = [_wide(joined(*pair)) for pair in zip(state, found, strict=True)]
        if grown == state:
            break
        state = grown

    def back(values: Values) -> list[Value]:
        count = len(loop.body.inputs)
        rest = iter(values[count:])
        given = restored_kinds(state, rest)
        before = restored_kinds(sums, rest)
        cts = restored(part.widths, pulled.evaluate([*values[:count], *flat(given)]))
        own_cts = [fitted(ct, spec) for ct, spec in zip(cts, loop.body.inputs, strict=True)]
        shared, ends = loop.parts(own_cts)
        more = [total(*pair) for pair in zip(before, shared, strict=True)]
        return flat([*map(in_kind, ends, state, specs), *map(in_kind, more, sums, consts)])

    wide = flat([*stand_ins(state, specs), *stand_ins(sums, consts)])
    program = flat_program(f"{loop.body.name}_pull", back, [*loop.body.inputs, *specs_inside(wide)])
    return UnwindSettings(own, program, tuple(followed), tuple(state), tuple(sums))


def _wide(kind: CotangentKind) -> CotangentKind:
    """A truth value for each element, so that a batch of such cotangents is another."""
    return CotangentKind.MASKED if kind is CotangentKind.SWITCHED else kind


def _evaluate_unwind(values: Values, params: Params) -> list[Value]:
    settings = UnwindSettings.of(params)
    loop = settings.own.loop
    count = len(loop.body.inputs)
    consts, state = loop.parts(values[:count])
    cts = values[count:]
    sums = flat(
        [
            zeros_like(spec) if kind is CotangentKind.WHOLE else in_kind(None, kind, spec)
            for kind, spec in zip(settings.sums, loop.specs[0], strict=True)
        ]
    )
    backwards = states_backwards(
        lambda own: loop.body.evaluate([*consts, *own]),
        lambda own: loop.goes_on(consts, own),
        state,
        settings.own.checkpoints,
    )
    carried = [*cts, *sums]
    for own in backwards:
        carried = settings.pull.evaluate([*consts, *own, *carried])
    rest = iter(carried)
    ends = restored_kinds(settings.kinds, rest)
    return settings.results([*restored_kinds(settings.sums, rest), *ends], loop.body.inputs)


def _result_unwind(*specs: Spec, **params: Any) -> tuple[Spec, ...]:
    settings = UnwindSettings.of(params)
    own = settings.own.loop.body.inputs
    if specs[: len(own)] != own:
        raise ProgramError("a loop is unwound for operands of another kind")
    settings.pull.results(*specs, *settings.pull.inputs[len(specs) :])
    kinds = [*settings.sums, *settings.kinds]
    chosen = [k for k, flag in enumerate(settings.followed) if flag]
    wide = stand_ins([kinds[k] for k in chosen], [own[k] for k in chosen])
    return tuple(specs_inside(flat(wide)))


def _second(
    settings: UnwindSettings,
    values: Values,
    wanted: Sequence[bool],
    tangents: Values,
    cts: tuple[Sequence[Cotangent], Sequence[Cotangent]],
) -> tuple[list[Cotangent], list[Cotangent]]:
    """Cotangents of the loop's operands that are wanted, and of their tangents.

    Both are those of the loop with tangents, for cotangents of its last carry and of the tangents
    of that.
    """
    own = settings.own
    loop, layout = own.loop.pushed([t is not None for t in tangents])
    moved = [zeros_like(x) if t is None else t for x, t in zip(values, tangents, strict=True)]
    found = unwind(
        layout.joined(values, moved),
        layout.joined(wanted, [True] * len(wanted)),
        interleaved(*cts, layout.state),
        own.over(loop),
    )
    return layout.taken_apart(found)


def _push_unwind(
    values: Values, tangents: Values, params: Params
) -> tuple[list[Value], list[Value]]:
    settings = UnwindSettings.of(params)
    operands, cts = settings.parts(values)
    moved, ct_tangents = settings.parts(tangents)
    given = [
        zeros_like(x) if flag and t is None else t
        for x, t, flag in zip(operands, moved, settings.followed, strict=True)
    ]
    more = [_moved(ct, t) for ct, t in zip(cts, ct_tangents, strict=True)]
    first, second = _second(settings, operands, settings.followed, given, (more, cts))
    outs = settings.results(second, settings.own.loop.body.inputs)
    return outs, settings.tangents(first)


def _moved(ct: Cotangent, tangent: Cotangent) -> Cotangent:
    """The tangent of a cotangent, which has its gaps."""
    if ct is None or plain(tangent) is None:
        return None
    return Masked(tangent.value, ct.mask) if type(ct) is Masked else tangent


class UnwindRecording(ControlRecording):
    """A loop backwards that was recorded."""

    __slots__ = ("_followed", "_params", "_settings", "_values", "connected", "outs")

    def __init__(self, values: Values, followed: Sequence[bool], params: Params) -> None:
        self._values = values
        self._params = params
        self._settings = settings = UnwindSettings.of(params)
        count = len(settings.followed)
        self._followed, _ = _reached(settings.own.loop, followed[:count])
        self.outs = list(UNWIND(*values, **params))
        self.connected = tuple([k for k, x in enumerate(self.outs) if is_inexact(dtype_of(x))])

    def pull(self, cts: Sequence[Cotangent]) -> list[Cotangent]:
        settings = self._settings
        operands, given = settings.parts(self._values)
        inputs = settings.own.loop.body.inputs
        gaps, weights = settings.found(self.outs), settings.found(cts)
        directions = []
        for gap, weight, spec in zip(gaps, weights, inputs, strict=True):
            own = weight.value if type(gap) is Masked else weight
            if own is not None:
                own = plain(fitted(own, strong(spec)))
                own = where(gap.mask, own, 0) if type(gap) is Masked else own
            directions.append(own)
        if all(direction is None for direction in directions):
            return [None] * len(self._values)
        none = [None] * len(given)
        first, _ = _second(settings, operands, self._followed, directions, (none, given))
        pushed = _push(operands, directions, settings.own.params())[1]
        seeds: list[Cotangent] = []
        for ct, tangent in zip(given, pushed, strict=True):
            if type(ct) is Masked:
                own = None if tangent is None else Masked(where(ct.mask, tangent, 0), ct.mask)
                seeds += [own, None]
            elif ct is not None:
                seeds.append(tangent)
        return [*first, *seeds]

    def push(self, tangents: Values) -> list[Value]:
        return _push_unwind(self._values, tangents, self._params)[1]


def _batch_unwind(
    size: int, values: Values, flags: Sequence[bool], params: Params
) -> tuple[list[Value], list[bool]]:
    settings = UnwindSettings.of(params)
    own = settings.own
    count = len(settings.followed)
    every = list(map(max, flags[:count], settings.followed))
    operands = with_batch(values[:count], flags[:count], every, size)
    batched = own.loop.batched(size, every)
    whole = with_batch(values[count:], flags[count:], [True] * len(flags[count:]), size)
    cts = restored_kinds(settings.kinds, iter(whole))
    consts, state = own.loop.parts(settings.followed)
    given = [ct if flag else None for ct, flag in zip(cts, state, strict=True)]
    added = [] if batched.cond is None else [False]
    found = unwind(
        batched.operands(operands, every),
        [*consts, *added, *state],
        [*[None] * len(added), *given],
        own.over(batched.loop),
    )
    found = [*found[: len(consts)], *found[len(consts) + len(added) :]]
    specs = [Spec((size, *spec.shape), spec.dtype) for spec in own.loop.body.inputs]
    outs = settings.results(found, specs)
    return outs, [True] * len(outs)


def _check_linear_unwind(followed: Sequence[bool], params: Params) -> None:
    if any(followed[: len(params["followed"])]):
        raise DifferentiationError(
            "linear_transpose: the function is not linear: the derivative of a loop is not linear"
            " in the loop's operands, which depend on the function's own."
        )


def _leaner(read: Sequence[bool], **params: Any) -> tuple[Params, list[int], list[int]] | None:
    own = WhileSettings.of(params)
    loop, operands, results = own.loop.leaner(read)
    return None if loop is own.loop else (own.over(loop).params(), operands, results)


WHILE: Final = control_primitive(
    "while_loop",
    Rules(_evaluate, WhileRecording, _push, _batch, _check_linear, _evaluate),
    _result,
    lambda **params: [(params["cond"], None), (params["body"], None)],
    leaner=_leaner,
    form=_form,
)
"""A loop of as many steps as it takes."""

UNWIND: Final = control_primitive(
    "unwind",
    Rules(
        _evaluate_unwind,
        UnwindRecording,
        _push_unwind,
        _batch_unwind,
        _check_linear_unwind,
        _evaluate_unwind,
    ),
    _result_unwind,
    lambda **params: [(params[name], None) for name in ("cond", "body", "pull")],
)
"""Such a loop, and the way back through its states with cotangents."""
