"""A tensor is an index wherever a NumPy array is one, and selects the same elements."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import ScalarError, TracerError
from tests.together import together

TABLE = np.arange(60.0).reshape(3, 4, 5)
NAMES = ["a", "b", "c"]

KEYS: dict[str, np.ndarray] = {
    "0-d": np.array(1),
    "one": np.array([1]),
    "one in two axes": np.array([[1]]),
    "one in three axes": np.array([[[2]]]),
    "several": np.array([1, 0, 1]),
    "none": np.array([], int),
    "unsigned": np.array([2], np.uint8),
    "behind": np.array([-1]),
    "mask": np.array([True, False, True]),
    "0-d mask": np.array(True),
    "float": np.array([1.0]),
    "0-d float": np.array(1.0),
}


def written(key: Any) -> Any:
    table = TABLE.copy()
    table[key] = 7.0
    return table


def added(key: Any) -> Any:
    table = TABLE.copy()
    table[key] += 1.0
    return table


USES: dict[str, Any] = {
    "table[k]": lambda k: TABLE[k],
    "table[k,]": lambda k: TABLE[k,],
    "table[k, 0]": lambda k: TABLE[k, 0],
    "table[0, k]": lambda k: TABLE[0, k],
    "table[k, k]": lambda k: TABLE[k, k],
    "table[k, :]": lambda k: TABLE[k, :],
    "table[:, k]": lambda k: TABLE[:, k],
    "table[k, :, k]": lambda k: TABLE[k, :, k],
    "table[..., k]": lambda k: TABLE[..., k],
    "table[None, k]": lambda k: TABLE[None, k],
    "table[[k]]": lambda k: TABLE[[k]],
    "table[[k, k]]": lambda k: TABLE[[k, k]],
    "table[[k, 1]]": lambda k: TABLE[[k, 1]],
    "table[k:]": lambda k: TABLE[k:],
    "table[:, ::k]": lambda k: TABLE[:, ::k],
    "table[k] = 7": written,
    "table[k] += 1": added,
    "names[k]": lambda k: NAMES[k],
    "names[k:]": lambda k: NAMES[k:],
    "range": lambda k: list(range(k)),
    "operator.index": operator.index,
    "hex": hex,
    "chr": chr,
    "bytes": lambda k: list(bytes(k)),
    "names * k": lambda k: np.size(NAMES * operator.index(k)),
    "zeros": np.zeros,
    "zeros of a tuple": lambda k: np.zeros((k, 2)),
    "sum over an axis": lambda k: np.sum(TABLE, axis=k),
    "swapaxes": lambda k: np.swapaxes(TABLE, k, 0),
    "round": lambda k: round(1.234, k),
    "reshape": lambda k: np.ones(1).reshape(k),
    "take": lambda k: np.take(TABLE, k.astype(int), axis=0),
    "roll": lambda k: np.roll(TABLE, k),
}


def outcome(use: Any, key: Any) -> Any:
    """The result of a use as a plain array, or None if it raises."""
    try:
        with np.errstate(over="ignore"):  # NumPy 2.0 rolls by the negative of an unsigned number
            return np.asarray(use(key))
    except (TypeError, IndexError, ValueError):
        return None


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@together("use", USES)
@together("key", KEYS)
def test_a_tensor_indexes_as_an_array_does(use: str, key: str) -> None:
    expected = outcome(USES[use], KEYS[key])
    found = outcome(USES[use], fg.tensor(KEYS[key]))
    assert (found is None) == (expected is None)
    if expected is not None:
        assert found.shape == expected.shape
        np.testing.assert_array_equal(found, expected)


ONES = ("one", "one in two axes", "one in three axes")


@pytest.mark.parametrize("key", ONES)
def test_a_staged_index_of_one_element_keeps_its_axes(key: str) -> None:
    staged = fg.jit(lambda k: (TABLE[k], TABLE[:, k], TABLE[[k, k]], fnp.asarray(TABLE)[k]))
    for index in (KEYS[key], KEYS[key] - 1):
        expected = TABLE[index], TABLE[:, index], TABLE[[index, index]], TABLE[index]
        for one, other in zip(staged(index), expected, strict=True):
            np.testing.assert_array_equal(one, other)
    with pytest.raises(ScalarError, match="Python needs one integer"):
        fg.jit(lambda k: NAMES[k])(KEYS[key])


@pytest.mark.parametrize("transform", [fg.jit, lambda f: lambda k: fg.vmap(f)(k[None])[0]])
def test_an_array_indexed_with_traced_integers_says_what_to_write(transform: Any) -> None:
    words = r"table\[t\], with a NumPy array *write fnp\.asarray\(table\)\[t\]"
    with pytest.raises(TracerError, match=words):
        transform(lambda k: TABLE[k])(KEYS["several"])
    remedied = transform(lambda k: fnp.asarray(TABLE)[k])
    np.testing.assert_array_equal(remedied(KEYS["several"]), TABLE[KEYS["several"]])


def test_a_staged_integer_without_axes_is_looked_at() -> None:
    staged = fg.jit(lambda k: (TABLE[k], TABLE[[k, 0]], TABLE[k:].sum(), len(NAMES[k:])))
    for number in (1, 2, 1):
        found = staged(np.array(number))
        expected = TABLE[number], TABLE[[number, 0]], TABLE[number:].sum(), 3 - number
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)
