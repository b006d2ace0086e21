"""Arrays with the greatest byte first, as files have them, are read wherever others are.

Every public function is called as in the examples of its docstring, with such arrays.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._core import pytrees
from tests.subjects import assert_bits
from tests.tools.refusals.modes import MODES, called, followed
from tests.tools.refusals.sweep import functions, working_call
from tests.tools.refusals.working_calls import WorkingCall


def swapped(tree: Any) -> Any:
    """The arrays of a tree with their bytes in the other order."""

    def leaf(x: Any) -> Any:
        if type(x) is not np.ndarray or x.dtype.kind not in "iufc":
            return x
        return x.astype(x.dtype.newbyteorder("S"))

    try:
        return pytrees.map(leaf, tree)
    except Exception:  # what is no tree
        return tree


def with_swapped_arrays(call: WorkingCall) -> WorkingCall:
    positional = tuple(swapped(x) for x in call.positional)
    return WorkingCall(positional, {name: swapped(x) for name, x in call.named.items()})


def differs(path: str, mode: str) -> str:
    """What another order of bytes changes in a call; empty if nothing."""
    function, call = functions()[path], working_call(path)
    if call is None:
        return ""
    other, traced = with_swapped_arrays(call), followed(call)
    if mode != "eager" and not traced:
        return ""
    with np.errstate(all="ignore"):
        try:
            wanted = called(mode, function, call, traced)
        except Exception:  # it has no such mode
            return ""
        try:
            found = called(mode, function, other, traced)
            assert_bits(found, wanted)
        except Exception as error:
            again = called(mode, function, call, traced)
            if not has_bits(again, wanted):  # another result each time, or none of arrays
                return ""
            return f"{path}, {mode}: {type(error).__name__}: {str(error)[:300]}"
    return ""


def has_bits(found: Any, wanted: Any) -> bool:
    """Whether results are arrays with the same bits."""
    try:
        assert_bits(found, wanted)
    except Exception:
        return False
    return True


UNREAD = frozenset({"fg.parallel.slices"})
"""Functions that hand the user's arrays on as they are."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", MODES)
def test_arrays_of_the_other_order_are_read_by_every_function(mode: str) -> None:
    """Compiling takes longest: ``jit``, which reads all arguments in one place, has a share."""
    share = 16 if mode == "jit" else 1
    every = [path for path in functions() if path not in UNREAD]
    paths = [path for path in every if zlib.crc32(path.encode()) % share == 0]
    assert [text for path in paths if (text := differs(path, mode))] == []


X, K = np.array([1.0, 2.0, 3.0]), np.array([2, 0], np.int32)
READERS = {
    "tensor": lambda x, k: fg.tensor(x),
    "a list of arrays": lambda x, k: fnp.asarray([x]),
    "a list of scalars": lambda x, k: fnp.asarray([x[0], x[1]]),
    "an operand": lambda x, k: fg.tensor(X) * x + x * fg.tensor(X),
    "a scalar": lambda x, k: fnp.sin(x[1]),
    "NumPy's function": lambda x, k: np.add(x, fg.tensor(X)),
    "an index": lambda x, k: fg.tensor(X)[k],
    "an update": lambda x, k: fg.tensor(X).at[k].add(x[:2]),
    "a closure": lambda x, k: fg.jit(lambda y: y * x)(2.0),
    "NumPy's backend": lambda x, k: fg.jit(lambda y: fnp.dot(y, x), backend="numpy")(x),
    "a constant of a derivative": lambda x, k: fg.grad(lambda y: np.dot(x, y))(X),
    "times": lambda x, k: fg.odeint(lambda y, t: -y, 1.0, x),
    "a loop's bound": lambda x, k: fg.fori_loop(0, k[0], lambda _, c: c + x, x),
    "rows": lambda x, k: fg.scan(lambda c, row: (c + row, c), 0.0, x)[1],
    "a cotangent": lambda x, k: fg.vjp(fnp.sin, x)[1](x)[0],
    "a tangent": lambda x, k: fg.jvp(fnp.sin, (x,), (x,))[1],
    "labels": lambda x, k: fg.nn.cross_entropy(fnp.ones((2, 3)), k),
    "parameters": lambda x, k: fg.optim.sgd(0.1).step(x, fg.optim.sgd(0.1).init(x), x)[0],
    "a dtype": lambda x, k: fg.tensor(X).astype(x.dtype) + fnp.zeros(3, x.dtype),
    "a foreign function": lambda x, k: fg.extend.foreign(lambda y: y * x, lambda s: s)(x),
    "a starting point": lambda x, k: fg.fixed_point(lambda y: y / 2.0 + x, x),
    "flat": lambda x, k: fg.tree.ravel({"a": x, "b": [x]})[0],
    "complex numbers": lambda x, k: fnp.abs((x * 1j).astype(x.dtype.byteorder + "c16")),
    "half precision": lambda x, k: fnp.sum(x.astype(x.dtype.byteorder + "f2")),
}


@pytest.mark.parametrize("name", READERS)
def test_arrays_of_the_other_order_are_read(name: str) -> None:
    read = READERS[name]
    found = read(swapped(X), swapped(K))
    assert_bits(found, read(X, K))
    assert all(leaf.dtype.isnative for leaf in fg.tree.leaves(found))


def test_a_file_has_them_in_its_own_order(tmp_path: Any) -> None:
    for name in ("a.safetensors", "a.npz"):
        fg.io.save(tmp_path / name, {"x": swapped(X)})
        for like in (None, {"x": X}, {"x": swapped(X)}):
            assert_bits(fg.io.load(tmp_path / name, like), {"x": fg.tensor(X)})


def test_results_of_ones_own_operations_may_have_either_order() -> None:
    turned = fg.extend.elementwise(
        "turned", lambda x: swapped(np.sin(x)), partials=(lambda y, x: fnp.cos(x),)
    )
    for run in (lambda x: fg.extend.apply(turned, x), fg.jit(lambda x: fg.extend.apply(turned, x))):
        assert_bits(run(X), fnp.sin(X))
