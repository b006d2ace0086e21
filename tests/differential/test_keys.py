"""Keys of every kind choose, and change, the elements that they do in NumPy's arrays.

``x[key]`` is compared with NumPy's, and ``x.at[key].add(values)`` and its like with ``ufunc.at`` on
the elements that the key names, one after the other.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

import numpy as np

import funcgrad as fg
from tests.differential.compare import as_tensors, called, described, difference
from tests.differential.draw import Draw
from tests.together import together

CALLS = 400

UPDATES: Final[MappingProxyType[str, np.ufunc | None]] = MappingProxyType(
    {
        "set": None,
        "add": np.add,
        "subtract": np.subtract,
        "multiply": np.multiply,
        "divide": np.divide,
        "power": np.power,
        "min": np.minimum,
        "max": np.maximum,
    }
)

KINDS: Final = MappingProxyType({"divide": "fc", "power": "iuf"})
"""A quotient of integers is none; the branches of complex powers differ."""


def positions(d: Draw, size: int, common: tuple[int, ...]) -> Any:
    """Integers that name places on an axis, from either end; sometimes beyond it."""
    shape = tuple([1 if d.chance(0.2) else n for n in common])[d.integer(0, len(common)) :]
    beyond = size + 1 if d.chance(0.03) else size
    if not beyond:
        return np.zeros(shape, np.intp) if d.chance(0.2) else np.zeros((0,), np.intp)
    drawn = d.rng.integers(-beyond, beyond, shape).astype(d.pick("l", "l", "i", "b"))
    if d.chance(0.1):
        drawn = (abs(drawn.astype(int)) % max(size, 1)).astype(d.pick("B", "L"))
    return drawn.tolist() if d.chance(0.2) and drawn.size else drawn


def entry(d: Draw, sizes: tuple[int, ...], common: tuple[int, ...]) -> tuple[Any, int]:
    """What stands for the first of some axes, or for several, in a key."""
    size = sizes[0]
    kind = d.pick("slice", "slice", "integer", "array", "array", "mask", "none", "bool", "text")
    if kind == "slice":
        bounds = (None, *range(-size - 1, size + 2))
        return slice(d.pick(*bounds), d.pick(*bounds), d.pick(None, 1, 2, -1, -2)), 1
    if kind == "integer":
        end = size + d.chance(0.03)
        return d.pick(*range(-end, end), np.int8(0)) if end else 0, 1
    if kind == "array":
        return positions(d, size, common), 1
    if kind == "mask":
        depth = d.integer(1, len(sizes))
        shape = (size + 1,) if d.chance(0.03) else sizes[:depth]
        mask = d.rng.random(shape) < 0.5
        return mask if d.chance(0.8) or 0 in shape else mask.tolist(), depth
    if kind == "none":
        return None, 0
    if kind == "bool" and d.chance(0.3):
        return d.pick(True, False, np.True_), 0
    if kind == "text" and d.chance(0.05):
        return d.pick("a", 1.5, np.array([0.5]), {0}, 2**70), 1
    return slice(None), 1


def key_for(d: Draw, shape: tuple[int, ...]) -> Any:
    """A key for arrays of a shape; mostly one that fits."""
    common = d.pick((2,), (3,), (3, 2), (), (0,))
    entries: list[Any] = []
    axis, stop = 0, d.integer(0, len(shape))
    while axis < stop and len(entries) < 7:
        made, taken = entry(d, shape[axis:], common)
        entries.append(made)
        axis += taken
    if d.chance(0.2):
        entries.insert(d.integer(0, len(entries)), ...)
    if d.chance(0.03):
        entries += [d.pick(0, ..., slice(None))] * 2
    return entries[0] if len(entries) == 1 and d.chance(0.7) else tuple(entries)


def with_tensors(d: Draw, key: Any) -> Any:
    """The same key, with tensors in place of some arrays."""
    if isinstance(key, tuple):
        return tuple([with_tensors(d, part) for part in key])
    return as_tensors(key) if isinstance(key, np.ndarray) and d.chance() else key


def chosen_differs(number: int) -> str | None:
    """What is wrong with ``x[key]``, in words; None where nothing is."""
    d = Draw(21, number)
    x = d.ndarray(shape=d.shape(high=3))
    key = key_for(d, x.shape)
    expected = called(lambda: x[key], (), {})
    own = called(lambda: fg.tensor(x)[with_tensors(d, key)], (), {})
    found = difference(own, expected)
    return found and f"{described('x[key]', [x, key], {})}:\n    {found}"


def updated(name: str, x: Any, key: Any, values: Any) -> Any:
    """The elements that a key names updated one after the other, by NumPy."""
    places = np.arange(x.size).reshape(x.shape)[key]
    out = x.copy().reshape(-1)
    values = np.asarray(values, x.dtype)
    while values.ndim > places.ndim and values.shape[0] == 1:  # as in x[0] = [5.0]
        values = values[0]
    each = np.broadcast_to(values, places.shape).ravel()
    function = UPDATES[name]
    if function is None:
        for place, value in zip(places.ravel(), each, strict=True):
            out[place] = value
    else:
        function.at(out, places.ravel(), each)
    return out.reshape(x.shape)


def values_for(d: Draw, x: Any, key: Any) -> Any:
    """Values of the array's dtype that broadcast to what a key chooses; mostly."""
    chosen = called(lambda: x[key].shape, (), {})
    shape = () if chosen.error is not None else d.shape() if d.chance(0.03) else chosen.value
    narrow = tuple([1 if d.chance(0.25) else n for n in shape])[d.integer(0, len(shape)) :]
    made = d.numbers(x.dtype, narrow)
    return made.item() if not narrow and d.chance() else made


def update_differs(name: str, number: int) -> str | None:
    """What is wrong with an update, in words; None where nothing is."""
    d = Draw(22, len(name), number)
    d.finite = name in ("add", "subtract", "multiply", "divide", "power")
    x = d.ndarray(KINDS.get(name, "iufc" if d.chance(0.9) else "b"), shape=d.shape(high=3))
    key = key_for(d, x.shape)
    values = values_for(d, x, key)
    if name == "power":  # a power of a power is one of a product, of positive numbers alone
        x, values = abs(x), np.asarray(values).astype(x.dtype)
        values = abs(values) % 4 if x.dtype.kind in "iu" else values.real % 1
    expected = called(updated, (name, x, key, values), {})
    at = fg.tensor(x).at
    own = called(lambda: getattr(at[with_tensors(d, key)], name)(values), (), {})
    found = difference(own, expected, signs=False)
    return found and f"{described(f'x.at[key].{name}', [x, key, values], {})}:\n    {found}"


def test_keys_choose_what_numpys_choose() -> None:
    wrong = sorted(filter(None, map(chosen_differs, range(4 * CALLS))), key=len)
    assert not wrong, f"{len(wrong)} keys differ, for example\n" + "\n".join(wrong[:3])


@together("name", UPDATES)
def test_updates_are_numpys(name: str) -> None:
    found = [update_differs(name, number) for number in range(CALLS)]
    wrong = sorted(filter(None, found), key=len)
    assert not wrong, f"{len(wrong)} of {CALLS} differ, for example\n" + "\n".join(wrong[:3])


def test_the_keys_are_of_every_kind_and_mostly_fit() -> None:
    drawn = [(d, d.shape(high=3)) for d in (Draw(23, n) for n in range(500))]
    keys = [(shape, key_for(d, shape)) for d, shape in drawn]
    parts = [part for _, key in keys for part in (key if isinstance(key, tuple) else (key,))]
    kinds = {type(part) for part in parts}
    assert {slice, int, np.ndarray, list, bool, type(None), type(...)} <= kinds
    fits = [
        called(lambda s=shape, k=key: np.zeros(s)[k], (), {}).error is None for shape, key in keys
    ]
    assert 0.6 < sum(fits) / len(fits) < 0.98
