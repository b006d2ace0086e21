"""Every method, property and operator that tensors share with NumPy's arrays does what NumPy's do.

They are found by discovery: one for which no arguments can be drawn fails. The arguments of a
method are those of the function of its name.
"""

from __future__ import annotations

import operator
import zlib
from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final

import numpy as np

import funcgrad as fg
from tests.differential.calls import generator_of
from tests.differential.compare import as_arrays, as_tensors, called, described, difference
from tests.differential.draw import Draw
from tests.differential.family import Family, Generator, call, one
from tests.differential.test_values import LOOSE_ZEROS, skip_if_numpy_is_too_old
from tests.together import together

CALLS = 100

PROPERTIES = frozenset("T dtype flat imag itemsize mT nbytes ndim real shape size".split())
OPERATORS: Final = MappingProxyType(
    {
        "abs": "abs",
        "add": "add",
        "and": "bitwise_and",
        "divmod": "divmod",
        "eq": "equal",
        "floordiv": "floor_divide",
        "ge": "greater_equal",
        "gt": "greater",
        "le": "less_equal",
        "invert": "invert",
        "lshift": "left_shift",
        "lt": "less",
        "matmul": "matmul",
        "mod": "remainder",
        "mul": "multiply",
        "ne": "not_equal",
        "neg": "negative",
        "or": "bitwise_or",
        "pos": "positive",
        "pow": "power",
        "rshift": "right_shift",
        "sub": "subtract",
        "truediv": "divide",
        "xor": "bitwise_xor",
    }
)
CONVERSIONS: Final[MappingProxyType[str, Callable[..., Any]]] = MappingProxyType(
    {
        "__bool__": bool,
        "__complex__": complex,
        "__contains__": operator.contains,
        "__float__": float,
        "__index__": operator.index,
        "__int__": int,
        "__iter__": list,
        "__len__": len,
    }
)
ELSEWHERE: Final = MappingProxyType(
    {
        "__array__": "test_tensor.py",
        "__array_function__": "test_dispatch_discovery.py",
        "__array_namespace__": "ours is funcgrad.numpy",
        "__array_ufunc__": "test_dispatch_discovery.py",
        "__copy__": "a tensor is its own copy",
        "__deepcopy__": "a tensor is its own copy",
        "__delitem__": "test_immutability.py",
        "__dlpack__": "test_interchange.py",
        "__dlpack_device__": "test_interchange.py",
        "__getitem__": "test_keys.py",
        "__setitem__": "test_immutability.py",
        "device": "both are 'cpu'",
        "flags": "those of a view that is read only",
        "strides": "those of the tensor's own memory",
        "to_device": "only 'cpu' is there",
    }
)


def _scalar(d: Draw) -> Any:
    """One number, or an array of none or several; one with axes converts as in older NumPy."""
    return call(d.array(shape=d.pick((), (), (2,), (0,), (2, 3))))


def _sized(name: str) -> Generator:
    """Where the function takes a tuple, the method takes its members too."""

    def draw(d: Draw) -> Any:
        generator = generator_of(name)
        assert generator is not None
        (x, *rest), options = generator(d)
        if rest and isinstance(rest[0], tuple) and rest[0] and d.chance():
            return (x, *rest[0]), options
        return (x, *rest), options

    return draw


def _item(d: Draw) -> Any:
    x = d.array()
    size = max(np.size(x), 1)
    return call(x, *d.pick((), (), (d.integer(-size, size),), (tuple([0] * np.ndim(x)),)))


OWN: Final[Family] = MappingProxyType(
    {
        **dict.fromkeys(("byteswap", "conjugate", "copy", "tolist"), one),
        **dict.fromkeys(PROPERTIES - {"mT"}, one),
        **dict.fromkeys(("__iter__", "__len__"), one),
        **dict.fromkeys(("__bool__", "__complex__", "__float__", "__index__", "__int__"), _scalar),
        "__contains__": lambda d: call(d.array(), d.pick(0, 1, 2.0, d.number(), True)),
        "__divmod__": lambda d: call(*d.pair("iuf")),
        "flatten": lambda d: call(d.array(), **d.options(order=lambda: d.pick("C", "F"))),
        "item": _item,
        "mT": lambda d: call(d.array(low=1)),
        "reshape": _sized("reshape"),
        "tobytes": lambda d: call(d.ndarray(), *d.pick((), ("C",), ("F",))),
        "transpose": _sized("transpose"),
    }
)


def shared() -> list[str]:
    """The names that arrays and tensors share, and that are not Python's for every object."""
    every = set(dir(object)) - {"__eq__", "__ge__", "__gt__", "__le__", "__lt__", "__ne__"}
    return sorted(set(dir(np.ndarray)) & set(dir(fg.tensor(1.0))) - every - set(ELSEWHERE))


def reflected(name: str) -> str | None:
    """The operator that a method reflects: ``add`` for ``__radd__``."""
    plain = name.strip("_").removeprefix("r")
    return plain if name.startswith("__r") and plain in OPERATORS else None


def arguments(name: str) -> Generator | None:
    """How arguments are drawn for what has a name."""
    if name in OWN:
        return OWN[name]
    plain = reflected(name) or name.strip("_")
    if plain == "divmod":
        return OWN["__divmod__"]
    return generator_of(OPERATORS.get(plain, plain) if name.startswith("__") else name)


def action(name: str) -> Callable[..., Any]:
    """What is done to an array or tensor and further arguments."""
    if name in PROPERTIES:
        return lambda x: list(x.flat) if name == "flat" else getattr(x, name)
    if name in CONVERSIONS:
        return CONVERSIONS[name]
    if name.startswith("__"):
        plain = reflected(name)
        word = plain or name.strip("_")
        run: Callable[..., Any] = _BUILTIN[word] if word in _BUILTIN else _operator(word)
        return (lambda x, y: run(y, x)) if plain else run
    return lambda x, *args, **kwargs: getattr(x, name)(*args, **kwargs)


_BUILTIN: Final[MappingProxyType[str, Callable[..., Any]]] = MappingProxyType(
    {"abs": abs, "divmod": divmod}
)


def _operator(word: str) -> Callable[..., Any]:
    return getattr(operator, f"__{word}__")


def compared(name: str, number: int) -> str | None:
    """What is wrong with one drawn call, in words; None where nothing is."""
    generator = arguments(name)
    assert generator is not None
    (x, *rest), options = generator(Draw(zlib.crc32(name.encode()), 11, number))
    array, plain = np.asarray(as_arrays(x)), [as_arrays(arg) for arg in rest]
    run = action(name)
    expected = called(run, [array, *plain], {k: as_arrays(v) for k, v in options.items()})
    others = [as_tensors(arg) for arg in rest] if number % 2 else plain
    own = called(run, [fg.tensor(array), *others], options)
    found = difference(own, expected, signs=name not in {*LOOSE_ZEROS, "prod"})
    return found and f"{described(name, [array, *rest], options)}:\n    {found}"


def test_every_method_has_a_generator() -> None:
    found = shared()
    assert len(found) > 90
    assert [name for name in found if arguments(name) is None] == []
    assert set(ELSEWHERE) <= set(dir(np.ndarray)) & set(dir(fg.Tensor))


@together("name", shared())
def test_methods_are_numpys(name: str) -> None:
    skip_if_numpy_is_too_old(name)
    wrong = sorted(filter(None, [compared(name, n) for n in range(CALLS)]), key=len)
    assert not wrong, f"{len(wrong)} of {CALLS} calls differ, for example\n" + "\n".join(wrong[:3])
