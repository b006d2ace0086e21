"""An operation with a program inside: a function of several values, applied repeatedly."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import extend


def _evaluate(*values: Any, body: fg.Program, times: int) -> tuple[Any, ...]:
    for _ in range(times):
        values = tuple(body.evaluate(values))
    return values


def _push(
    tangents: tuple[Any, ...], outs: Any, *values: Any, body: fg.Program, times: int
) -> tuple[Any, ...]:
    given = [fnp.zeros_like(x) if t is None else t for x, t in zip(values, tangents, strict=True)]
    pushed: Any = tuple(given)
    for _ in range(times):
        values, pushed = fg.jvp(body, values, pushed)
    return tuple(pushed)


def _batch(
    primitive: extend.Primitive,
    size: int,
    args: tuple[Any, ...],
    batched: tuple[bool, ...],
    params: dict[str, Any],
) -> Any:
    whole = [
        fnp.asarray(x) if flag else fnp.broadcast_to(x, (size, *np.shape(x)))
        for x, flag in zip(args, batched, strict=True)
    ]
    body = fg.program(fg.vmap(params["body"]))(*[np.ones(x.shape, x.dtype) for x in whole])
    return primitive(*whole, body=body, times=params["times"])


def _turned(x: Any, y: Any) -> tuple[Any, Any]:
    return fnp.sin(y) * 0.9, x * y - 0.1 * fnp.sum(x)


def _samples() -> Iterator[extend.Sample]:
    rng = np.random.default_rng(3)
    for shape in ((3,), (2, 2), (0,)):
        x, y = rng.standard_normal((2, *shape))
        body = fg.program(_turned)(x, y)
        for times in (0, 1, 3):
            yield extend.Sample((x, y), {"body": body, "times": times})


iterate = extend.Primitive(
    "iterate",
    _evaluate,
    lambda *specs, body, times: specs,
    extend.Linearized(_push),
    _batch,
    _samples,
    structure=extend.Control(
        lambda *, body, times: [(body, times)],
        form=lambda *, body, times: extend.Loop(body, 0, len(body.inputs), times),
    ),
)


def iterated(f: Callable[..., Any], times: int, *values: Any) -> tuple[fg.Tensor, ...]:
    """The operation as users call it: the function returns values like its arguments."""
    examples = [np.ones(np.shape(x), fnp.asarray(x).dtype) for x in values]
    body = fg.program(f)(*examples)
    return extend.apply_several(iterate, *values, body=body, times=times)
