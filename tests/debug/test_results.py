"""``nans`` and ``raise_nans``: what is looked at, what an error says, and what stays as it is."""

from __future__ import annotations

import pickle
import re
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import debug
from funcgrad._base.floating_errors import ERROR_STATE
from funcgrad._hooks.result_watch import WATCH
from funcgrad.errors import FuncgradError, FunctionError, NonFiniteError
from tests.together import together


def message_of(call: Callable[..., Any], *args: Any) -> str:
    with pytest.raises(NonFiniteError) as raised:
        call(*args)
    return str(raised.value)


def loss(params: Any, x: Any) -> Any:
    scaled = params["scale"] * x
    return fnp.sum(fnp.sqrt(scaled) * params["weight"])


PARAMS = {"scale": fg.tensor([1.0, 0.0, 2.0]), "weight": fg.tensor([1.0, 1.0, 1.0])}
X = fg.tensor([1.0, 2.0, 3.0])


def test_a_finite_function_is_the_same() -> None:
    f = debug.nans(loss)
    assert f(PARAMS, X) == loss(PARAMS, X)
    assert f(PARAMS, x=X) == loss(PARAMS, X)
    assert f.__name__ == "loss"
    assert debug.nans(lambda: ("text", None, 3, {"a": [True]}))() == (
        "text",
        None,
        3,
        {"a": [True]},
    )


def test_the_path_of_a_gradient_is_named() -> None:
    message = message_of(debug.nans(fg.grad(loss)), PARAMS, X)
    assert message.startswith("nans: grad of loss: gradient['scale'][1] is inf (1 of 3 elements")
    assert "in the pull of sqrt at test_results.py:" in message
    assert "Remedy: clip the argument" in message


def test_a_pair_is_named_with_both_its_parts() -> None:
    def f(x: Any) -> Any:
        w = fnp.where(x > 1.0, x, 0.0)
        far = 1.0 / w
        return fnp.sum(far * w)

    with pytest.raises(NonFiniteError) as raised:
        debug.nans(f)(fg.tensor([2.0, 1.0]))
    (cause,) = raised.value.causes
    line = f.__code__.co_firstlineno
    assert cause.text == "multiply(inf, 0.0) = nan"
    assert [origin.named for origin in cause.origins] == [f"divide at test_results.py:{line + 2}"]
    assert cause.partners == (f"the 0.0 is from where at test_results.py:{line + 1}",)


def test_of_many_partners_of_an_infinity_the_zero_is_shown() -> None:
    def f(x: Any) -> Any:
        w = fnp.where(x > 1.0, x, 0.0)
        return (1.0 / x) @ w

    with pytest.raises(NonFiniteError) as raised:
        debug.nans(f)(fg.tensor([4.0, 2.0, 0.0, 8.0, 4.0]))
    (cause,) = raised.value.causes
    operands = "[inf, 0.25, 0.5, … 5 elements], [0.0, 2.0, 4.0, … 5 elements]"
    assert cause.text == f"matmul({operands}) = nan"
    assert cause.partners[0].startswith("the 0.0 is from where at test_results.py:")


def test_of_two_numbers_only_the_chosen_one_is_to_blame() -> None:
    def f(x: Any) -> Any:
        first, second = fnp.log(x), fnp.sqrt(x)
        return fnp.where(x < -1.0, first, second)

    with pytest.raises(NonFiniteError) as raised:
        debug.nans(f)(fg.tensor([-2.0]))
    assert [cause.operation for cause in raised.value.causes] == ["log"]
    with pytest.raises(NonFiniteError) as raised:
        debug.nans(f)(fg.tensor([-2.0, -0.5, -0.7]))
    found = [(cause.operation, cause.spoilt) for cause in raised.value.causes]
    assert found == [("sqrt", 2), ("log", 1)]


def test_causes_that_spoil_more_come_first() -> None:
    def f(x: Any) -> Any:
        one = fnp.log(x[0])
        many = fnp.sqrt(x[1]) * fnp.ones(5)
        return one, many

    with pytest.raises(NonFiniteError) as raised:
        debug.nans(f)(fg.tensor([0.0, -1.0]))
    causes = raised.value.causes
    assert [(cause.operation, cause.spoilt) for cause in causes] == [("sqrt", 5), ("log", 1)]
    assert "Not finite either: result[1]" in str(raised.value)


def test_what_was_not_finite_from_the_beginning_is_said() -> None:
    table = np.array([1.0, np.nan])
    total, moved = debug.nans(lambda x: fnp.sum(x) * 2.0), debug.nans(lambda x: x + table)
    message = message_of(total, fg.tensor([1.0, np.nan]))
    assert "the argument x is nan, at [1]" in message
    message = message_of(moved, fg.tensor([1.0, 2.0]))
    assert "a closed-over value is nan; add reads it at test_results" in message


def test_operations_on_closed_over_values_are_found() -> None:
    def f() -> Any:
        y = fnp.log(fnp.zeros(2))
        return fnp.sum(y)

    message = message_of(debug.nans(f))
    assert f"log at test_results.py:{f.__code__.co_firstlineno + 1}" in message
    inner = debug.nans(lambda: fg.grad(loss)(PARAMS, X))
    assert "in the pull of sqrt at test_results.py:" in message_of(inner)


def test_a_function_that_changes_its_mind_is_told_so() -> None:
    answers = iter([np.nan, 1.0])
    f = debug.nans(lambda x: x * next(answers))
    message = message_of(f, fg.tensor(1.0))
    assert "did not show the cause" in message


def test_errors_are_values() -> None:
    with pytest.raises(NonFiniteError) as raised:
        debug.nans(fnp.log)(0.0)
    error = raised.value
    assert isinstance(error, FuncgradError)
    assert isinstance(error, FloatingPointError)
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert again.causes == error.causes
    with pytest.raises(FunctionError, match="nans"):
        debug.nans(3.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.complex64, np.complex128])
def test_every_dtype_is_looked_at(kind: Any) -> None:
    x = np.array([[1.0, 0.0], [2.0, 3.0]], kind)
    same = debug.nans(lambda a: a + 0)
    for array in (x, x.T, x[::-1, ::2], np.asfortranarray(x)):
        assert fnp.all(same(array) == array)
        bad = array.copy()
        bad[0, 0] = np.inf
        assert "inf" in message_of(same, bad)
    large = np.array([1e30, 1e-30], np.float32)  # the square overflows, the number does not
    assert fnp.all(same(large) == large)


def test_inside_of_other_transformations_it_only_calls() -> None:
    root = debug.nans(fnp.sqrt)
    assert fg.grad(root)(4.0) == 0.25
    assert fg.jit(root)(4.0) == 2.0
    np.testing.assert_array_equal(fg.vmap(root)(fg.tensor([4.0, 9.0])), [2.0, 3.0])


def test_keys_of_random_numbers_count_once() -> None:
    def f(x: Any) -> Any:
        return fnp.log(x * fg.random.uniform(fg.random.key(0)))

    with fg.random.check_keys():
        assert "log" in message_of(debug.nans(f), 0.0)


# ----------------------------------------------------------------------------- raise_nans


def pulled(x: Any) -> Any:
    return fg.vjp(fnp.sqrt, x)[1](1.0)


def solved(x: Any) -> Any:
    return fg.fixed_point(lambda y, x: 0.5 * y + x, 0.0, fg.tensor(x), failed="nan", max_steps=3)


CALLS: dict[str, Callable[[Any], Any]] = {
    "grad": lambda x: fg.grad(fnp.sqrt)(x),
    "value_and_grad": lambda x: fg.value_and_grad(fnp.sqrt)(x),
    "jvp": lambda x: fg.jvp(fnp.sqrt, (x,), (1.0,)),
    "pullback": pulled,
    "linearize": lambda x: fg.linearize(fnp.sqrt, x)[1](1.0),
    "vmap": lambda x: fg.vmap(fnp.log)(fg.tensor([1.0, x])),
    "jacfwd": lambda x: fg.jacfwd(fnp.sqrt)(x),
    "jacrev": lambda x: fg.jacrev(fnp.sqrt)(x),
    "hessian": lambda x: fg.hessian(fnp.sqrt)(x),
    "hvp": lambda x: fg.hvp(fnp.sqrt, (x,), (1.0,)),
    "jit": lambda x: fg.jit(fnp.log)(x),
    "scan": lambda x: fg.scan(lambda c, _: (fnp.log(c), None), fg.tensor(x), None, length=2),
    "while_loop": lambda x: fg.while_loop(lambda c: c == 0, fnp.log, fg.tensor(x)),
}


@together("call", CALLS.values(), ids=CALLS)
def test_outermost_calls_are_looked_at(call: Callable[[Any], Any]) -> None:
    with np.errstate(all="ignore"):
        call(0.0)
        with debug.raise_nans():
            call(4.0)
            with pytest.raises(NonFiniteError, match="Cause"):
                call(0.0)
        call(0.0)


def test_a_jitted_function_keeps_its_code() -> None:
    f = fg.jit(lambda x: fnp.log(x) + 1.0)
    for x in (1.0, 2.0, 3.0):
        f(x)
    seen = []

    def trace(frame: Any, event: str, arg: Any) -> None:
        if event == "call":
            seen.append(frame.f_code.co_name)

    with debug.raise_nans():
        sys.setprofile(trace)
        try:
            f(2.0)
        finally:
            sys.setprofile(None)
    assert "_call" not in seen  # nothing was staged or flattened
    assert "process" not in seen


def test_machine_code_that_is_called_directly_is_looked_at() -> None:
    f = fg.jit(fnp.log)
    for _ in range(3):  # from then on Python takes no part in a call, where there is machine code
        assert f(0.0) == -np.inf
    with debug.raise_nans(), pytest.raises(NonFiniteError, match="log"):
        f(0.0)
    assert f(0.0) == -np.inf


def test_what_is_inside_of_a_call_is_not_looked_at() -> None:
    with debug.raise_nans():
        out = fg.vmap(lambda x: fnp.where(x > 0, fg.grad(fnp.sqrt)(x), 0.0))(fg.tensor([4.0, 0.0]))
    np.testing.assert_array_equal(out, [0.25, 0.0])


def test_the_user_s_function_is_named() -> None:
    def deep(x: Any) -> Any:
        return fnp.log(x)

    for made in (fg.grad(deep), fg.value_and_grad(deep), fg.jacfwd(deep)):
        with debug.raise_nans():
            text = message_of(made, 0.0)
        assert re.match(r"(grad|value_and_grad|jacfwd) of deep: ", text), text
    with debug.raise_nans():
        assert message_of(fg.vmap(deep), fg.tensor([0.0])).startswith("vmap of deep: ")
        assert message_of(fg.vjp(fnp.sqrt, 0.0)[1], 1.0).startswith("pullback: ")
        assert message_of(fg.linearize(fnp.sqrt, 0.0)[1], 1.0).startswith("push: ")


def test_the_context_ends_and_nests() -> None:
    f = fg.jit(fnp.log)
    with np.errstate(all="ignore"):
        with debug.raise_nans():
            with debug.raise_nans():
                pass
            with pytest.raises(NonFiniteError):
                f(0.0)
            with np.errstate(divide="ignore"), pytest.raises(NonFiniteError):
                f(0.0)
        assert f(0.0) == -np.inf
    assert WATCH.get() is None
    assert ERROR_STATE is None or ERROR_STATE.read() is ERROR_STATE.usual


def test_other_threads_are_not_watched() -> None:
    results: list[Any] = []
    f = fg.jit(fnp.log)

    def run() -> None:
        results.append(f(0.0))

    with debug.raise_nans():
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    assert results == [-np.inf]


def test_a_profiler_that_runs_stays() -> None:
    calls = []

    def profiler(frame: Any, event: str, arg: Any) -> None:
        calls.append(event)

    sys.setprofile(profiler)
    try:
        message = message_of(debug.nans(fg.grad(loss)), PARAMS, X)
        assert sys.getprofile() is profiler
    finally:
        sys.setprofile(None)
    assert "in the pull of sqrt" in message
    assert calls
