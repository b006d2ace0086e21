"""A traced value prints as what it is, and no number of it is ever baked into a program."""

from __future__ import annotations

import copy
import io
import json
import math
import operator
import pickle
import pprint
import reprlib
from collections.abc import Callable
from fractions import Fraction
from queue import SimpleQueue
from string import Template
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
from tests.together import together


def saved(write: Callable[..., None], out: Any, x: Any) -> Any:
    """What is written to a file."""
    write(out, x)
    return out.getvalue()


WAYS: dict[str, Callable[[Any], Any]] = {
    "str": str,
    "repr": repr,
    "ascii": ascii,
    "f-string": lambda x: f"{x}",
    "f-string with a format": lambda x: f"{x:.3f}",
    "f-string of repr": lambda x: f"{x!r}",
    "%s": lambda x: "%s" % x,  # noqa: UP031
    "%r": lambda x: "%r" % x,  # noqa: UP031
    "%f": lambda x: "%.3f" % x,  # noqa: UP031
    "%d": lambda x: "%d" % x,  # noqa: UP031
    "%s of a tuple": lambda x: "%s" % ((x,),),  # noqa: UP031
    "str.format": "{:.2e}".format,
    "format": format,
    "Template": lambda x: Template("$x").substitute(x=x),
    "a list's repr": lambda x: repr([x, {"a": x}]),
    "print": lambda x: saved(lambda out, x: print(x, file=out), io.StringIO(), x),
    "pprint": pprint.pformat,
    "reprlib": reprlib.repr,
    "bytes": bytes,
    "hash": hash,
    "a key": lambda x: {x: 1},
    "a member": lambda x: x in [3.0, 4.0],
    "pickle": pickle.dumps,
    "pickle, loaded": lambda x: pickle.loads(pickle.dumps(x)),
    "json": json.dumps,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "float": float,
    "int": int,
    "complex": complex,
    "bool": lambda x: bool(x > 3.5),
    "round": round,
    "index": operator.index,
    "floor": math.floor,
    "sqrt": math.sqrt,
    "isclose": lambda x: math.isclose(x, 3.0),
    "Fraction": Fraction,
    "item": lambda x: x.item(),
    "tolist": lambda x: x.tolist(),
    "memoryview": memoryview,
    "np.array2string": np.array2string,
    "np.array_repr": np.array_repr,
    "np.array_str": np.array_str,
    "np.format_float_positional": np.format_float_positional,
    "np.format_float_scientific": np.format_float_scientific,
    "np.base_repr": np.base_repr,
    "np.save": lambda x: saved(np.save, io.BytesIO(), x),
    "np.savetxt": lambda x: saved(np.savetxt, io.StringIO(), x),
    "np.asarray": np.asarray,
    "np.array, object": lambda x: np.array(x, dtype=object),
    "np.from_dlpack": np.from_dlpack,
    "np.float64": np.float64,
    "np.frombuffer": np.frombuffer,
    "np.testing": lambda x: np.testing.assert_array_equal(x, 3.0),
    "comparison": lambda x: x == 3.0 and "three",
    "range": range,
    "sorted": lambda x: sorted([x, 3.5]),
    "max": lambda x: "three" if max(x, 3.5) is x else "more",
    "a match": lambda x: [3.0, 4.0].index(x),
}

WHOLE = (3.0, 4.0)
ARRAYS = (np.array([3.0, 1.0]), np.array([4.0, 1.0]))


def seen_by(way: Callable[[Any], Any], numbers: tuple[Any, Any]) -> list[list[Any]]:
    """What the user's code sees in each of two calls of a jitted function."""
    queue: SimpleQueue[Any] = SimpleQueue()  # which is not watched, so that it may be written to

    def f(x: Any) -> Any:
        try:
            queue.put(way(x))
        except Exception as error:
            queue.put(type(error))
        return x * 2.0

    jitted, seen = fg.jit(f), []
    for number in numbers:
        np.testing.assert_array_equal(jitted(number), number * 2.0)
        seen.append([queue.get() for _ in range(queue.qsize())])
    assert seen[0]
    return seen


def tells_a_number(found: Any) -> bool:
    """Whether what is seen is more than an error, a tracer, or a text that names one."""
    if isinstance(found, (list, tuple, dict)):
        return any(map(tells_a_number, found))
    if isinstance(found, (fg.Tensor, type)):
        return type(found) is fg.Tensor
    return not (isinstance(found, str) and "Traced(" in found)


@together("numbers", [WHOLE, ARRAYS], ids=["number", "array"])
@together("way", WAYS)
def test_no_text_or_number_of_a_staged_value_is_stale(way: str, numbers: Any) -> None:
    first, second = seen_by(WAYS[way], numbers)
    # Where the function is not run again for other numbers, it has not seen those of the first.
    assert second or not tells_a_number(first)


def test_a_format_is_a_look_at_the_number() -> None:
    shouted = fg.jit(lambda x: x * float(f"{x:.3f}"))
    assert [shouted(x).item() for x in (3.0, 4.0, 3.0)] == [9.0, 16.0, 9.0]
    named = fg.jit(lambda x: x * 2 if "Traced" in str(x) else x)
    assert [named(x).item() for x in (3.0, -4.0)] == [6.0, -8.0]


def texts(transformed: Callable[..., Any], *args: Any) -> str:
    """The text of the value inside of a transformation."""
    found = []

    def f(x: Any) -> Any:
        found.append((repr(x), str(x), f"{x}", "%s" % x))  # noqa: UP031
        return (x * x).sum()

    transformed(f)(*args)
    assert len({*found[0]}) == 1
    return str(found[0][0])


def test_a_traced_value_prints_as_what_it_is() -> None:
    three = np.ones(3)
    assert texts(fg.jit, three) == "Traced(float64[3], in jit)"
    assert texts(fg.program, np.float32(1)) == "Traced(float32[], in program)"
    assert texts(fg.vmap, three) == "Traced(float64[], in vmap over 3)"
    assert texts(fg.grad, 2.0) == "Traced(2.0, in reverse mode)"
    assert texts(fg.grad, three[:1]) == "Traced([1.], in reverse mode)"
    assert texts(fg.grad, np.float32(2)) == "Traced(2.0, dtype=float32, in reverse mode)"
    assert texts(lambda f: lambda x: fg.jvp(f, (x,), (x,)), 2.0) == "Traced(2.0, in forward mode)"
    assert texts(lambda f: fg.jit(fg.grad(f)), 2.0) == "Traced(float64[], in reverse mode, in jit)"
    assert texts(lambda f: fg.vmap(fg.grad(f)), np.ones((2, 3))) == (
        "Traced(float64[3], in reverse mode, in vmap over 2)"
    )
    assert texts(lambda f: fg.grad(fg.grad(f)), 2.0) == (
        "Traced(2.0, in reverse mode, in reverse mode)"
    )


def test_the_batch_is_not_shown_under_the_shape_of_an_example() -> None:
    rows = np.arange(6.0).reshape(2, 3)
    assert texts(fg.vmap, rows) == "Traced(float64[3], in vmap over 2)"


def test_numbers_that_are_differentiated_can_be_formatted() -> None:
    found = []

    def f(x: Any) -> Any:
        found.append(f"{x:.2f} {x[0]:5.1e}" if x.shape else f"{x:.2f}")
        return x * x

    fg.grad(f)(2.0)
    fg.jvp(f, (3.0,), (1.0,))
    assert found == ["2.00", "3.00"]
    with pytest.raises(fg.errors.TracerError, match="inside vmap this stands for one example"):
        fg.vmap(f, branches=False)(np.ones(2))
    with pytest.raises(fg.errors.ShapeError, match="is for one number"):
        fg.grad(lambda x: f"{x:.2f}")(np.ones(2))


def test_printing_an_array_needs_no_second_run() -> None:
    runs = []
    large = np.ones(100_000)

    def f(x: Any) -> Any:
        runs.append(str(x))
        return x * 2.0

    fg.jit(f)(large)
    assert runs == ["Traced(float64[100000], in jit)"]
