"""vmap of functions that use Python's `if` and `while`: one run for each path, never one result of
another example."""

import contextlib
import gc
import operator
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import (
    BatchError,
    BatchWarning,
    DifferentiationError,
    KeyReuseError,
    TracerError,
)
from tests.together import together
from tests.transforms.support import assert_same, halved, numbers

X = np.array([3.0, -2.0, 0.5, 100.0, -1.0, 7.0])


def each(f: Any, batch: Any) -> np.ndarray[Any, Any]:
    """The plain loop."""
    return np.array([np.asarray(f(fg.tensor(x))) for x in batch])


# ------------------------------------------------------------------------------------- what divides


def matched(x: Any) -> Any:
    match int(x):
        case 3:
            return x
        case 0 | 7:
            return x * 10
        case _:
            return -x


def checked(x: Any) -> Any:
    assert x < 1000
    return x


@together(
    "use",
    [
        lambda x: 1.0 if x > 0 else 2.0,
        lambda x: 2.5 if x else 1.5,
        lambda x: x if 0 < x < 5 else 0.0,
        lambda x: 1.0 if (x > 0 and x < 5) or x == 100 else 0.0,
        lambda x: int(x) * 1.0,
        lambda x: round(x) * 1.0,
        lambda x: float(x) + 1,
        lambda x: complex(x) * 1j,
        lambda x: x.item() * 2,
        lambda x: x.tolist() * 2,
        lambda x: fnp.asarray([float(f"{x:.0f}")]).sum(),
        lambda x: [1.0, 2.0, 4.0][(x > 1).astype(int) + (x > 5).astype(int)],
        lambda x: sum([x * k for k in range(operator.index(fnp.abs(x).astype(int) % 4))], 0.0),
        lambda x: max(x, 0.5, x * x),
        lambda x: sorted([x, x * x, 2.0 - x])[1],
        lambda x: x and x * 3,
        lambda x: any(x > bound for bound in (2.0, 50.0)) * 1.0,
        matched,
        checked,
        halved,
    ],
)
def test_every_look_at_an_example_divides_the_batch(use: Any) -> None:
    np.testing.assert_array_equal(fg.vmap(use)(X), each(use, X))


def test_examples_that_agree_are_not_divided() -> None:
    runs: list[Any] = []

    def f(x: Any) -> Any:
        runs.append(x.shape)
        return x if x > 0 else -x

    assert_same(fg.vmap(f)(np.abs(X)), np.abs(X))
    assert len(runs) == 1


def test_a_function_runs_once_for_each_path() -> None:
    runs: list[Any] = []

    def f(x: Any) -> Any:
        runs.append(None)
        steps = 0
        while x > 1.0:
            x, steps = x / 2, steps + 1
        return x * steps

    batch = np.arange(1.0, 65.0)  # seven numbers of steps
    np.testing.assert_array_equal(fg.vmap(f)(batch), each(f, batch))
    runs.clear()
    fg.vmap(f)(batch)
    assert len(runs) == 7
    runs.clear()
    fg.grad(lambda xs: fnp.sum(fg.vmap(f)(xs)))(batch)
    fg.vmap(fg.grad(f))(batch)
    assert len(runs) == 14


def test_answers_are_compared_and_not_values() -> None:
    runs: list[Any] = []

    def f(x: Any) -> Any:
        runs.append(None)
        return 1.0 if x > 0 else 2.0

    fg.vmap(f)(np.array([1.0, 2.0, 3.0, -1.0, -2.0]))
    assert len(runs) == 2
    runs.clear()

    def whole(x: Any) -> Any:
        runs.append(None)
        return 1.0 * int(x)

    fg.vmap(whole)(np.array([0.2, 0.7, -0.3, 1.5, 1.1]))
    assert len(runs) == 2


def test_signed_zeros_and_nan() -> None:
    zeros = np.array([0.0, -0.0, np.nan, 1.0])
    assert_same(fg.vmap(lambda x: 1.0 if x > 0 else 2.0)(zeros), np.array([2.0, 2.0, 2.0, 1.0]))
    assert_same(fg.vmap(lambda x: 1.0 if x else 2.0)(zeros), np.array([2.0, 2.0, 1.0, 1.0]))
    signs = fg.vmap(lambda x: np.copysign(1.0, float(x)))(zeros[:2])
    assert_same(signs, np.array([1.0, -1.0]))


# -------------------------------------------------------------------------------------- the results


def test_results_join_in_the_order_of_the_examples() -> None:
    def f(x: Any, scale: Any, *, shift: Any) -> Any:
        if x.sum() > 0:
            return {"a": x * scale, "b": (shift["s"], None)}
        return {"a": -x, "b": (shift["s"] * 2, None)}

    x, shift = numbers(5, 3), numbers(5, seed=1)
    out = fg.vmap(f, in_axes=(0, None), out_axes={"a": 1, "b": 0})(x, 2.0, shift={"s": shift})
    positive = x.sum(1) > 0
    assert set(positive) == {True, False}
    assert_same(out["a"], np.where(positive[:, None], x * 2.0, -x).T)
    assert_same(out["b"], (np.where(positive, shift, shift * 2), None))


@together(
    ("one", "other", "dtype"),
    [
        (lambda x: x, lambda x: 0.0, "f4"),
        (lambda x: x, lambda x: 0, "f4"),
        (lambda x: 1, lambda x: 2.5, "f8"),
        (lambda x: True, lambda x: False, "?"),
        (lambda x: x > 5, lambda x: 3, "i8"),
        (lambda x: x, lambda x: np.float64(1.0), "f8"),
        (lambda x: x.astype("f2"), lambda x: np.int8(1), "f2"),
        (lambda x: x, lambda x: 1j, "c8"),
    ],
)
def test_dtypes_promote_and_python_numbers_give_way(one: Any, other: Any, dtype: str) -> None:
    out = fg.vmap(lambda x: one(x) if x > 0 else other(x))(np.array([1, -1], "f4"))
    assert out.dtype == np.dtype(dtype)


def test_results_that_do_not_fit_are_refused_with_the_paths() -> None:
    def pair(x: Any) -> Any:
        if x > 0:
            return x, x
        return x

    words = r"one structure.*examples 0, 2, 3, 5 \(test_paths\.py:\d+: True\).*1, 4 \(.*: False\)"
    with pytest.raises(BatchError, match=words):
        fg.vmap(pair)(X)
    with pytest.raises(BatchError, match=r"one shape, but it is \(2,\) for examples 0"):
        fg.vmap(lambda x: fnp.ones(2) if x > 0 else fnp.ones(3))(X)


def test_a_result_that_no_example_changes_has_no_batch() -> None:
    out = fg.vmap(lambda x: (x if x > 0 else -x, 3.0), out_axes=(0, None))(X)
    assert_same(out, (np.abs(X), 3.0))
    with pytest.raises(BatchError, match="out_axes is None"):
        fg.vmap(lambda x: 3.0 if x > 0 else 4.0, out_axes=None)(X)


def test_an_empty_batch_and_a_batch_of_one() -> None:
    for f in (halved, matched):
        assert_same(fg.vmap(f)(X[:0]), np.zeros(0))
        assert_same(fg.vmap(f)(X[:1]), each(f, X[:1]))
    assert fg.vmap(lambda x: x if x.sum() > 0 else -x)(np.zeros((0, 3))).shape == (0, 3)


def test_many_paths_warn_once_and_name_the_line() -> None:
    def f(x: Any) -> Any:
        if x > 100:
            x = x + 0
        return int(x) * 2

    line = f.__code__.co_firstlineno + 3
    batched = fg.vmap(f)
    with pytest.warns(BatchWarning, match=f"f took more than 256 paths.*test_paths.py:{line}"):
        assert_same(batched(np.arange(300)), np.arange(300) * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        batched(np.arange(300))
        fg.vmap(f)(np.arange(200))


@pytest.mark.slow
def test_ten_thousand_paths() -> None:
    batch = np.arange(10_000)[::-1]
    with pytest.warns(BatchWarning):
        assert_same(fg.vmap(lambda x: int(x) * 2)(batch), batch * 2)


# -------------------------------------------------------------------------------------- derivatives


def test_what_an_example_does_not_take_cannot_reach_it() -> None:
    def f(x: Any) -> Any:
        return fnp.sqrt(x) if x > 0 else x * 2

    batch = np.array([4.0, 0.0, -1.0])
    slopes = np.array([0.25, 2.0, 2.0])
    total = lambda xs: fnp.sum(fg.vmap(f)(xs))  # noqa: E731
    for transform in (lambda g: g, fg.jit):
        assert_same(transform(fg.vmap(fg.grad(f)))(batch), slopes)
        assert_same(transform(fg.grad(total))(batch), slopes)
    assert_same(fg.jvp(fg.vmap(f), (batch,), (np.ones(3),))[1], slopes)


def test_values_that_are_closed_over() -> None:
    def outer(s: Any) -> Any:
        return fg.vmap(lambda x: x * s if x * s > 0 else x - s * s)(X).sum()

    def plain(s: Any) -> Any:
        return sum(float(x) * s if float(x) * s > 0 else float(x) - s * s for x in X)

    scales = np.array([2.0, -1.0, 0.5])
    assert_same(fg.vmap(outer)(scales), np.array([plain(s) for s in scales]))
    slopes = np.array([float(fg.grad(plain)(s)) for s in scales])
    for form in (fg.vmap(fg.grad(outer)), lambda s: fg.grad(lambda s: fg.vmap(outer)(s).sum())(s)):
        assert_same(form(scales), slopes)
    assert_same(fg.jacfwd(outer)(2.0), slopes[0])
    assert_same(fg.hessian(outer)(2.0), -4.0)


def test_custom_rules_and_checkpoints_branch() -> None:
    f = fg.custom_vjp(lambda x: x * x if x > 0 else x)
    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * 2 * x if x > 0 else ct * 7.0,))
    segment = fg.checkpoint(lambda x: x * x if x > 0 else fnp.sin(x))
    for g in (f, segment):
        slopes = each(fg.grad(g), X)
        assert_same(fg.vmap(fg.grad(g))(X), slopes)
        assert_same(fg.grad(lambda x, g=g: fnp.sum(fg.vmap(g)(x)))(X), slopes)
        assert_same(fg.vmap(fg.vmap(fg.grad(g)))(X.reshape(2, 3)), slopes.reshape(2, 3))


def test_a_forward_rule_may_save_other_residuals_on_each_path() -> None:
    f = fg.custom_vjp(lambda x, w: w * x * x if x > 0 else x - w)

    def forward(x: Any, w: Any) -> Any:
        return (f(x, w), [x, w]) if x > 0 else (x - w, ())

    def backward(residuals: Any, ct: Any) -> Any:
        if not residuals:
            return ct, -ct
        x, w = residuals
        return (2 * w * x * ct, x * x * ct) if x < 5 else (None, ct * 3.0)

    f.defvjp(forward, backward)
    slopes = np.select([X <= 0, X < 5], [1.0, 4.0 * X], 0.0)
    weights = np.select([X <= 0, X < 5], [-1.0, X**2], 3.0)
    per_example = fg.vmap(fg.grad(f, argnums=(0, 1)), in_axes=(0, None))
    assert_same(per_example(X, 2.0), (slopes, weights))
    total = lambda xs, w: fnp.sum(fg.vmap(f, in_axes=(0, None))(xs, w))  # noqa: E731
    assert_same(fg.grad(total, argnums=(0, 1))(X, 2.0), (slopes, weights.sum()))
    nested = lambda xs, w: fg.vmap(total, in_axes=(0, None))(xs, w).sum()  # noqa: E731
    rows = X.reshape(2, 3), 2.0
    assert_same(fg.grad(nested, argnums=(0, 1))(*rows), (slopes.reshape(2, 3), weights.sum()))


def test_a_rule_may_have_no_derivative_on_a_path() -> None:
    f = fg.custom_vjp(lambda x, y: x * y)
    f.defvjp(
        lambda x, y: (x * y, (x, y)),
        lambda xy, ct: (ct * xy[1], None) if xy[0] > 0 else (None, ct * 5.0),
    )
    total = lambda x, y: fnp.sum(fg.vmap(f)(x, y))  # noqa: E731
    slopes = fg.grad(total, argnums=(0, 1))(X, X + 1)
    assert_same(slopes, (np.where(X > 0, X + 1, 0.0), np.where(X > 0, 0.0, 5.0)))


def test_probes_mark_the_examples_of_their_path() -> None:
    def f(x: Any) -> Any:
        return fg.probe(x * 2, "h") ** 2 if x > 0 else fg.probe(x, "h") * 5 if x < -1 else x

    total = lambda xs: fnp.sum(fg.vmap(f)(xs))  # noqa: E731
    for gradient in (fg.grad(total, probes=("h",)), fg.jit(fg.grad(total, probes=("h",)))):
        slopes, marked = gradient(np.array([1.0, -2.0, -0.5, 3.0]))
        assert_same(slopes, np.array([8.0, 5.0, 1.0, 24.0]))
        assert_same(marked["h"], np.array([4.0, 5.0, 0.0, 12.0]))

    def twice(x: Any) -> Any:
        return fg.probe(fg.probe(x, "h"), "h") if x > 0 else x

    with pytest.raises(DifferentiationError, match="marked twice"):
        fg.grad(lambda xs: fnp.sum(fg.vmap(twice)(xs)), probes=("h",))(X)


def test_loops_and_random_keys() -> None:
    def scanned(x: Any) -> Any:
        step = lambda c, k: (c * k if c > 2 else c + x, c)  # noqa: E731
        return fg.scan(step, x, fnp.arange(3.0))[0]

    def repeated(x: Any) -> Any:
        return fg.while_loop(lambda c: c < 10, lambda c: c * 2 if c > 3 else c + 3, x)

    def drawn(key: Any) -> Any:
        return fg.random.normal(key, ()) if fg.random.uniform(key, ()) > 0.4 else 0.0

    for f in (scanned, repeated):
        assert_same(fg.vmap(f)(X), each(f, X))
        assert_same(fg.vmap(fg.grad(f))(X), each(fg.grad(f), X))
    keys = fg.random.split(fg.random.key(0), 6)
    assert_same(fg.vmap(drawn)(keys), np.array([float(drawn(key)) for key in keys]))


# --------------------------------------------------------------------------------------- exceptions


def test_an_operation_that_fails_for_some_examples_divides_them() -> None:
    def factor(m: Any) -> Any:
        try:
            return fnp.sum(fnp.linalg.cholesky(m))
        except np.linalg.LinAlgError:
            return m[0, 0] * -100

    def inverse(m: Any) -> Any:
        try:
            return fnp.linalg.inv(m)[0, 0]
        except np.linalg.LinAlgError:
            return -1.0

    good, bad = np.eye(2), -np.eye(2)
    matrices = np.array([good, bad, 4 * good])
    assert_same(fg.vmap(factor)(matrices), np.array([2.0, 100.0, 4.0]))
    assert_same(fg.vmap(fg.grad(factor))(matrices), each(fg.grad(factor), matrices))
    assert_same(fg.vmap(inverse)(np.array([good, 0 * good, 4 * good])), np.array([1.0, -1.0, 0.25]))
    pairs = np.array([[good, bad], [bad, bad], [bad, good]])
    assert_same(fg.vmap(fg.vmap(factor))(pairs), np.array([[2.0, 100], [100, 100], [100, 2]]))
    with pytest.raises(np.linalg.LinAlgError):
        fg.vmap(fnp.linalg.cholesky)(matrices)


def test_indices_out_of_range_and_floating_point_errors_divide() -> None:
    table = fnp.arange(5.0)

    def looked_up(i: Any) -> Any:
        try:
            return table[i]
        except IndexError:
            return -1.0

    def inverted(x: Any) -> Any:
        with np.errstate(all="raise"):
            try:
                return 1.0 / x
            except FloatingPointError:
                return -1.0

    assert_same(fg.vmap(looked_up)(np.array([0, 7, 2, -9])), np.array([0.0, -1.0, 2.0, -1.0]))
    assert_same(fg.vmap(inverted)(np.array([2.0, 0.0])), np.array([0.5, -1.0]))


def test_an_exception_is_raised_as_by_the_loop_with_a_note() -> None:
    def f(x: Any) -> Any:
        if x > 50:
            raise KeyError("large")
        if x < 0:
            raise ValueError("negative")
        return x

    with pytest.raises(ValueError, match="negative") as caught:
        fg.vmap(f)(X)
    line = f.__code__.co_firstlineno
    (note,) = caught.value.__notes__
    assert note == (
        "In vmap, for examples 1, 4"
        f" (test_paths.py:{line + 1}: False; test_paths.py:{line + 3}: True)."
    )
    with pytest.raises(KeyError):
        fg.vmap(f)(X[[0, 3, 1]])


def bare(x: Any) -> Any:
    try:
        return x if x > 0 else -x
    except:  # noqa: E722 - what this test is about
        return x * 0


def suppressed(x: Any) -> Any:
    with contextlib.suppress(BaseException):
        return x if x > 0 else -x
    return x * 0


class Quiet:
    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> bool:
        return True


def quiet(x: Any) -> Any:
    with Quiet():
        return x if x > 0 else -x
    return x * 0


def replaced(x: Any) -> Any:
    try:
        return x if x > 0 else -x
    except BaseException:
        raise RuntimeError("another") from None


@together("f", [bare, suppressed, quiet, replaced])
def test_a_division_that_goes_on_raises_nothing_that_could_be_swallowed(f: Any) -> None:
    assert_same(fg.vmap(f)(X), each(f, X))
    assert_same(fg.vmap(fg.grad(f))(X), each(fg.grad(f), X))


@together("f", [bare, suppressed, quiet, replaced])
def test_a_swallowed_division_is_an_error_that_names_the_place(f: Any) -> None:
    line = f.__code__.co_firstlineno + 2
    chosen = lambda x: fg.cond(x < 50, f, f, x)  # noqa: E731 - whose batch the branches hold
    with pytest.raises(BatchError, match=f"swallowed the exception at test_paths.py:{line}"):
        fg.vmap(chosen)(X)
    with pytest.raises(BatchError, match="swallowed"):
        fg.vmap(fg.grad(chosen))(X)
    assert_same(fg.vmap(chosen)(np.abs(X)), np.abs(X))


def test_finally_and_exceptions_of_the_users_own_are_as_in_the_loop() -> None:
    ended: list[Any] = []

    def f(x: Any) -> Any:
        try:
            if x > 50:
                raise OSError
            return x * (2.0 if x > 0 else 3.0)
        except OSError:
            return 0.0
        finally:
            ended.append(x)

    assert_same(fg.vmap(f)(X), np.array([6.0, -6.0, 1.0, 0.0, -3.0, 14.0]))


def test_effects_happen_once_for_each_path() -> None:
    seen: list[str] = []

    def f(x: Any) -> Any:
        sign = "positive" if x > 0 else "negative"
        seen.append(sign)
        return x

    fg.vmap(f)(X)
    assert sorted(seen) == ["negative", "positive"]


def test_keys_are_checked_for_each_path() -> None:
    def once(key: Any) -> Any:
        first, second = fg.random.split(key)
        return fg.random.normal(second, ()) if fg.random.uniform(first, ()) > 0.4 else 0.0

    def twice(key: Any) -> Any:
        return fg.random.normal(key, ()) if fg.random.uniform(key, ()) > 0.4 else 0.0

    keys = fg.random.split(fg.random.key(0), 6)
    expected = np.array([float(once(key)) for key in keys])
    assert len(set(expected == 0)) == 2
    with fg.random.check_keys():
        assert_same(fg.vmap(once)(keys), expected)
        with pytest.raises(KeyReuseError):
            fg.vmap(twice)(fg.random.split(fg.random.key(1), 6))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same(fg.jit(fg.vmap(once))(keys), expected)


def test_threads_inside_and_around() -> None:
    def inside(x: Any) -> Any:
        with ThreadPoolExecutor(2) as pool:
            return sum(pool.map(lambda k: x * k if x > k else x, range(3)))

    assert_same(fg.vmap(inside)(X), each(inside, X))
    with ThreadPoolExecutor(4) as pool:
        outs = list(pool.map(lambda k: fg.vmap(halved)(X * k), range(1, 9)))
    for k, out in enumerate(outs, 1):
        assert_same(out, each(halved, X * k))


@together("f", [halved, lambda x: fg.cond(x < 50, halved, halved, x)])
def test_divisions_leave_nothing_to_the_garbage_collector(f: Any) -> None:
    gradient = fg.grad(lambda x: fnp.sum(fg.vmap(f)(x)))
    gradient(X)
    gc.collect()
    gc.disable()
    try:
        gradient(X)
        assert gc.collect() == 0
    finally:
        gc.enable()


# ------------------------------------------------------------------------------------------ options


def test_one_run_can_be_asked_for() -> None:
    with pytest.raises(TracerError, match="inside vmap this stands for one example"):
        fg.vmap(halved, branches=False)(X)
    with pytest.raises(TracerError, match="Without branches=False, vmap follows `if`"):
        fg.jit(fg.vmap(halved, branches=False))(X)


# ---------------------------------------------------------------------------------------------- jit


def test_a_few_paths_are_one_program_for_every_batch() -> None:
    def parts(x: Any) -> Any:
        return (fnp.log(x) if x > 1 else x) if x > 0 else x * x

    f = fg.jit(fg.vmap(parts))
    for batch in (X, -X, np.abs(X), X * 0.1):
        assert_same(f(batch), each(parts, batch))
    assert f.stagings == 1


def test_a_program_raises_only_for_examples_that_it_has() -> None:
    def f(m: Any) -> Any:
        if m[1, 1] > 50:
            raise AssertionError("large")
        return fnp.linalg.inv(m).sum() if m[0, 0] > 0 else m.sum()

    matrices = np.array([np.eye(2), np.zeros((2, 2)), 2 * np.eye(2)])
    jitted = fg.jit(fg.vmap(f))
    assert_same(jitted(matrices), np.array([2.0, 0.0, 1.0]))
    slopes = each(fg.grad(f), matrices)
    assert_same(fg.jit(fg.vmap(fg.grad(f)))(matrices), slopes)
    assert_same(fg.jit(fg.grad(lambda m: fnp.sum(fg.vmap(f)(m))))(matrices), slopes)
    with pytest.raises(AssertionError, match="large"):
        jitted(matrices * 100)
    assert_same(jitted(matrices), np.array([2.0, 0.0, 1.0]))


def test_more_paths_run_unstaged_with_one_warning() -> None:
    def counted(x: Any) -> Any:
        steps = 0
        while x > 1.0:
            x, steps = x / 2, steps + 1
        return x * steps

    line = counted.__code__.co_firstlineno + 2
    inner = fg.jit(fg.vmap(counted))
    for f, count in ((fg.jit(fg.vmap(counted)), 1), (fg.jit(lambda x: inner(x)), 2)):
        with pytest.warns(RuntimeWarning, match=rf"test_paths.py:{line}.*fg.while_loop") as caught:
            assert_same(f(X), each(counted, X))
        assert len(caught) == count  # one for each jitted function
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert_same(f(X[::-1].copy()), each(counted, X[::-1]))
    slope = fg.jit(fg.grad(lambda x: fnp.sum(fg.vmap(counted)(x))))
    with pytest.warns(RuntimeWarning, match="runs without being staged"):
        assert_same(slope(X), each(fg.grad(counted), X))
    with pytest.raises(TracerError, match=r"more than 16 paths.*`steps` is a Python number"):
        fg.program(fg.vmap(counted))(X)


@together(
    ("f", "words"),
    [
        (lambda x: float(x) + 1, r"needs float\(t\) of each example at test_paths.py:\d+"),
        (lambda x: int(x) * 1.0, r"needs int\(t\) of each example at test_paths.py:\d+"),
        (lambda x: round(x) * 1.0, r"needs round\(t\) of each example"),
        (lambda x: sum([x * k for k in range(int(x % 3))], 0.0), r"needs int\(t\).*fg.fori_loop"),
        (
            lambda x: [1.0, 2.0, 4.0][(x > 1).astype(int) + (x > 5).astype(int)],
            r"needs t as an index of each example.*fnp.asarray\(list\)\[t\]",
        ),
        (lambda x: x.item() * 2, r"needs t.item\(\) of each example"),
    ],
)
def test_other_looks_run_unstaged_and_the_warning_says_what_to_write(f: Any, words: str) -> None:
    jitted = fg.jit(fg.vmap(f), backend="numpy")
    with pytest.warns(RuntimeWarning, match=words) as caught:
        outs = jitted(X), jitted(X[::-1].copy())
    assert_same(outs, (each(f, X), each(f, X[::-1])))
    assert len(caught) == 1


def test_looks_at_known_and_at_staged_values_divide_one_batch() -> None:
    def f(s: Any) -> Any:
        def inner(y: Any) -> Any:
            if y > 1:  # which is known
                y = y / (1 + s)
            if y > 1.5:  # which is not
                y = y * 0.1
            return y

        return fg.vmap(inner)(X)

    assert_same(fg.jit(f, backend="numpy")(0.5), f(0.5))


def test_an_answer_is_known_where_the_same_is_asked_again() -> None:
    def f(x: Any) -> Any:
        result = 0.0
        for _ in range(20):
            result = result + (1.0 if x > 1 else 2.0 if x * 2 > 3 else x)
        return result

    jitted = fg.jit(fg.vmap(f), backend="numpy")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same(jitted(X), each(f, X))


@pytest.mark.slow
def test_a_path_that_no_example_takes_need_not_end() -> None:
    def forever(x: Any) -> Any:
        while True:
            x = x + 1

    def within_a_step(x: Any) -> Any:
        while x > 1:
            x = x * 0.5
            if x > 1e6:
                forever(x)
        return x

    def unchanged(x: Any) -> Any:
        while x > 1000:
            pass
        return x

    for f in (lambda x: forever(x) if x > 1000 else x * 2, within_a_step, unchanged):
        jitted = fg.jit(fg.vmap(f), backend="numpy")
        with pytest.warns(RuntimeWarning, match=r"has a path that does not end after the answer"):
            assert_same(jitted(X), each(f, X))


def test_a_rule_that_closes_over_values_and_branches() -> None:
    def squared(s: Any) -> Any:
        f = fg.custom_vjp(lambda x: x * x * s if x > 0 else x * s)
        f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * 2 * x * s if x > 0 else ct * 7.0,))
        return f

    def values(xs: Any, s: Any) -> Any:
        return fg.vmap(squared(s))(xs)

    def slopes(xs: Any, s: Any) -> Any:
        return fg.vmap(lambda x: fg.grad(squared(s))(x))(xs)

    for f in (values, slopes, fg.grad(lambda xs, s: fnp.sum(values(xs, s)))):
        jitted = fg.jit(f, backend="numpy")
        with pytest.warns(RuntimeWarning, match="has a rule|with a rule that closes over values"):
            assert_same(jitted(X, 1.5), f(X, 1.5))
        assert_same(jitted(-X, 1.5), f(-X, 1.5))


def test_errors_that_a_function_catches_under_jit() -> None:
    def factor(m: Any) -> Any:
        try:
            return fnp.sum(fnp.linalg.cholesky(m))
        except np.linalg.LinAlgError:
            return m[0, 0] * -100

    def looked_up(i: Any) -> Any:
        try:
            return fnp.arange(5.0)[i]
        except IndexError:
            return -1.0

    good, bad = np.eye(2), -np.eye(2)
    matrices = [np.array([good, good, 4 * good]), np.array([good, bad, 4 * good])]
    indices = [np.array([0, 4]), np.array([3, 9])]
    for f, batches in ((factor, matrices), (looked_up, indices)):
        for order in (batches, batches[::-1]):
            jitted, single = fg.jit(fg.vmap(f)), fg.jit(f)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                for batch in order:
                    assert_same(jitted(batch), each(f, batch))
                    np.testing.assert_array_equal([float(single(x)) for x in batch], each(f, batch))
    with pytest.warns(RuntimeWarning, match=r"catches MatrixError at test_paths.py:\d+"):
        fg.jit(fg.vmap(factor))(matrices[1])
    with pytest.raises(np.linalg.LinAlgError):
        fg.jit(fg.vmap(fnp.linalg.cholesky))(matrices[1])


def test_a_jitted_function_inside_is_staged_for_each_path() -> None:
    f = fg.jit(halved)
    assert_same(fg.vmap(f)(X), each(halved, X))
    assert_same(fg.vmap(fg.grad(f))(X), each(fg.grad(halved), X))
    assert_same(fg.grad(lambda x: fnp.sum(fg.vmap(f)(x)))(X), each(fg.grad(halved), X))
    paths = f.stagings
    fg.vmap(f)(X)
    assert f.stagings == paths
