"""``check_backend``: check that a backend runs every kind of program correctly.

It raises a ``CheckError`` that lists every program that goes wrong. Each program is prepared,
compiled and run on raw values, which shows mistakes most precisely, and then run by ``jit``, as
users do.
"""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._backends.choice import chosen_backend
from funcgrad._backends.devices.on_host import OnHost
from funcgrad._backends.devices.placement import device_of
from funcgrad._backends.interface import Backend, DeviceBackend
from funcgrad._base.floating_errors import quiet
from funcgrad._core import pytrees
from funcgrad._core.specs import Spec
from funcgrad._core.trace import Raw
from funcgrad._core.users_values import ArrayLike
from funcgrad._passes.pipeline import optimize
from funcgrad._programs.program import Program
from funcgrad._staging.jit import JitWarning, jit
from funcgrad._transforms.batch import vmap
from funcgrad._transforms.reverse import grad
from funcgrad._transforms.stage import program as stage
from funcgrad.errors import ArgumentError, CheckError, DeviceWarning, FuncgradError, GuardError
from funcgrad.numpy.options import sequence
from funcgrad.tensor.tensor import Tensor, tensor
from funcgrad.testing.backend_programs import ProgramOfAKind, every_program
from funcgrad.testing.backend_results import (
    Wrong,
    compare,
    compare_numbers,
    compare_trees,
    same_bits,
)
from funcgrad.testing.device_check import ON_DEVICES

Function = Callable[..., Any]

_CALLS: Final = 4
"""How often a check calls a function: from the second call on ``jit`` uses an entry for them."""
_THREADS: Final = 8
_BEHAVIOUR: Final = "behaviour"
"""The kind of the checks without a particular program."""
_DERIVED: Final = frozenset({"elementwise", "contraction", "loop", "choice", "rules and calls"})
"""The kinds whose jitted functions are also differentiated and batched."""


def check_backend(
    backend: Backend | DeviceBackend | str, kinds: Sequence[str] | None = None
) -> None:
    """Check that a backend runs programs of every kind correctly.

    Use it while you write a backend, and in its test suite. The reference is plain evaluation,
    operation by operation.

    Some 200 programs are run: elementwise operations, reductions, movements, contractions, gathers
    and scatters, random numbers, loops in both directions, choices, Python's control flow with its
    guards, custom rules, checkpoints, nested ``jit``, trees of results, Python numbers, empty and
    0-d arrays, all dtypes, operations that only NumPy has, derivatives and batches. Values, shapes,
    dtypes and weakness are compared. Further checks: arguments are neither written to nor kept,
    results share no memory with the caller's writable arrays, errors are raised unchanged, NumPy
    does not warn, and many threads may call at once.

    A ``DeviceBackend`` is checked on values of the host, whose results are copied back, and then on
    handles: copies to the device and back keep every bit of all dtypes; handles do not change when
    the array that they come from does; programs take handles and return handles, which may be
    arguments of further programs; operations that the device lacks run on the host.

    Parameters
    ----------
    backend : Backend or str
        See ``funcgrad._backends.interface``. Programs that it does not ``support`` are skipped.
    kinds : sequence of str
        The kinds of programs to run, such as ``"loop"``, at least one; by default all.

    Raises
    ------
    CheckError
        Some programs go wrong: the message lists them with their errors.
    ArgumentError
        ``backend`` is not a backend, a kind does not exist, or ``kinds`` is empty.

    Examples
    --------
    >>> import funcgrad as fg
    >>> fg.testing.check_backend("numpy", kinds=("elementwise", "guards"))
    """
    keeps: Any = backend if hasattr(backend, "lacks") else None
    device = None if keeps is None else device_of(keeps, "check_backend")
    chosen: Backend = chosen_backend(OnHost(device.backend) if device else backend, "check_backend")
    programs = [*every_program()]
    known = [*dict.fromkeys(program.kind for program in programs), _BEHAVIOUR]
    kinds = known if kinds is None else sequence(kinds, "check_backend", "kinds")
    if not kinds:
        raise ArgumentError(
            f"check_backend: kinds names none, so nothing would be checked. Leave it out to check "
            f"all, or name some of: {', '.join(known)}."
        )
    for kind in kinds:
        if not isinstance(kind, str) or kind not in known:
            raise ArgumentError(f"check_backend: no kind {kind!r}. Kinds: {', '.join(known)}.")
    wanted = [program for program in programs if program.kind in kinds]
    report = _Report(chosen.name)
    with quiet():
        for program in wanted:
            report.add(program.kind, program.name, partial(_check, chosen, program))
        for name, check in _BEHAVIOURS if _BEHAVIOUR in kinds else ():
            report.add(_BEHAVIOUR, name, partial(check, chosen))
        if device is not None and _BEHAVIOUR in kinds:
            for title, held in ON_DEVICES:
                report.add(_BEHAVIOUR, title, partial(held, device))
    report.close()


class _Report:
    """Collects the findings of a run."""

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self._tried = 0
        self._findings: dict[str, list[str]] = {}

    def add(self, kind: str, name: str, check: Callable[[], bool]) -> None:
        """Run a check; it returns whether the backend supports its program."""
        try:
            self._tried += check()
            return
        except Wrong as wrong:
            finding = str(wrong)
        except Exception as error:
            finding = f"raised {type(error).__name__}: {str(error).strip() or '(no message)'}"
        self._tried += 1
        self._findings.setdefault(finding, []).append(f"{kind}: {name}")

    def close(self) -> None:
        """Raise an error that lists the findings, if any."""
        if not self._tried:
            raise CheckError(
                f"check_backend: {self._backend!r} supports none of the programs: its supports()"
                " returns False for all."
            )
        if not self._findings:
            return
        count = sum(map(len, self._findings.values()))
        lines = [f"check_backend: {self._backend!r} is wrong in {count} of {self._tried} checks."]
        for finding, names in self._findings.items():
            lines += ["", *[f"  {name}" for name in names], f"      {finding}"]
        lines += [
            "",
            "  The programs: funcgrad/testing/backend_programs.py. To see the code of one of them:",
            "  print(backend.inspect(backend.prepare(fg.program(f)(*args), False)))",
        ]
        raise CheckError("\n".join(lines))


# ------------------------------------------------------------------------------- one program


def _check(backend: Backend, trial: ProgramOfAKind) -> bool:
    """Run all checks of a program; return whether the backend supports it."""
    staged = stage(trial.function)(*trial.args)
    optimized = optimize(staged)
    if not backend.supports(optimized):
        return False
    prepared = _prepared(backend, optimized)
    text = backend.inspect(prepared)
    if not isinstance(text, str):
        raise Wrong(f"inspect() returned {type(text).__name__}, not text")
    compiled = backend.compile(prepared)
    results: list[tuple[Raw, Raw]] = []
    for args in (trial.args, *trial.others, trial.args):
        results += _check_run(staged, compiled.run, args)
        if not all(same_bits(out, copy) for out, copy in results):
            raise Wrong("a result changes at a later call")
    _check_jit(backend, trial)
    if trial.kind in _DERIVED:
        _check_derived(backend, trial)
    return True


def _prepared(backend: Backend, program: Program) -> Program:
    prepared = backend.prepare(program, False)
    if not isinstance(prepared, Program):
        raise Wrong(f"prepare() returned {type(prepared).__name__}, not a Program")
    prepared.verify()
    for side, specs, others in (
        ("inputs", prepared.inputs, program.inputs),
        ("outputs", _output_specs(prepared), _output_specs(program)),
    ):
        if specs != others:
            raise Wrong(f"prepare() changed the {side} from {_listed(others)} to {_listed(specs)}")
    return prepared


def _output_specs(program: Program) -> tuple[Spec, ...]:
    specs = program.specs()
    return tuple([specs[variable] for variable in program.outputs])


def _listed(specs: Sequence[Spec]) -> str:
    return ", ".join([f"{spec}{' (weak)' if spec.weak else ''}" for spec in specs]) or "nothing"


def _check_run(
    staged: Program, run: Callable[..., Any], args: tuple[Any, ...]
) -> list[tuple[Raw, Raw]]:
    """Call the compiled function twice on raw values; return its results, and copies of them."""
    raw = [_copied(leaf) for leaf in pytrees.flatten((args, {}))[0]]
    try:
        expected = staged.evaluate([_copied(value) for value in raw])
    except GuardError:
        outs = run(*raw)
        if outs is not None:
            raise Wrong(
                "a guard does not hold for other arguments, and run() did not return None"
            ) from None
        return []
    before = [_copied(value) for value in raw]
    held = _outputs(run(*raw), expected)
    first = [_copied(out) for out in held]
    second = _outputs(run(*raw), expected)
    for number, (value, old) in enumerate(zip(raw, before, strict=True)):
        if not same_bits(value, old):
            raise Wrong(f"run() writes to argument {number}")
    for number, (out, again, wanted) in enumerate(zip(first, second, expected, strict=True)):
        where = f"result {number} of {len(expected)}"
        compare(where, out, wanted)
        if not same_bits(out, again):
            raise Wrong(f"{where} has different bits at the second call")
    return [*zip(held, first, strict=True)]


def _outputs(outs: object, expected: Sequence[Raw]) -> list[Raw]:
    if outs is None:
        raise Wrong("run() returned None, though all guards hold")
    if not isinstance(outs, (tuple, list)) or len(outs) != len(expected):
        text = f"{len(outs)} values" if isinstance(outs, (tuple, list)) else type(outs).__name__
        raise Wrong(f"run() returned {text} instead of a tuple of {len(expected)}")
    return [*outs]


def _copied(value: Raw) -> Any:
    """Return a writable copy, with gaps between its elements if the value has gaps."""
    if not isinstance(value, np.ndarray):
        return value
    if value.flags.forc:
        return np.array(value)
    wide = np.zeros([2 * n for n in value.shape], value.dtype)
    copy = wide[(slice(None, None, 2),) * value.ndim]
    copy[...] = value
    return copy


# ------------------------------------------------------------------------------------ by jit


def _check_jit(backend: Backend, trial: ProgramOfAKind) -> None:
    """Check the jitted function in repeated calls, also with arguments that are written to."""
    staged: Any = jit(trial.function, backend=backend)
    for number in range(_CALLS):
        for args in (trial.args, *trial.others):
            mine = pytrees.map(_copied, args)
            result = _without_warnings(staged, mine)
            compare_trees(f"by jit, call {number + 1}", result, trial.function(*_tensors(args)))
            before = pytrees.map(np.array, result)
            for leaf in pytrees.flatten(mine)[0]:
                if isinstance(leaf, np.ndarray):
                    leaf[...] = 0
            if not all(map(same_bits, pytrees.flatten(result)[0], pytrees.flatten(before)[0])):
                raise Wrong("by jit: a result changes when the caller writes to an argument")
    if staged.failures:
        raise Wrong(f"by jit: compile() failed: {staged.failures[0].error}")


def _tensors(args: tuple[Any, ...]) -> Any:
    return pytrees.map(lambda leaf: tensor(leaf) if isinstance(leaf, np.ndarray) else leaf, args)


def _without_warnings(f: Function, args: tuple[Any, ...]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DeviceWarning)
        try:
            return f(*args)
        except (JitWarning, RuntimeWarning) as warning:
            raise Wrong(f"by jit: warned {type(warning).__name__}: {warning}") from None


def _check_derived(backend: Backend, trial: ProgramOfAKind) -> None:
    """Check transformations of the jitted function, where they apply."""
    first = trial.args[0] if trial.args else None
    if not isinstance(first, np.ndarray) or first.dtype.kind != "f":
        return
    staged: Any = jit(trial.function, backend=backend)
    for name, derived in (("grad", _gradient), ("vmap", _batched)):
        try:
            expected = derived(trial.function)(*_tensors(trial.args))
        except FuncgradError:
            continue  # no derivative
        for _ in range(2):
            compare_trees(f"{name} of jit", derived(staged)(*trial.args), expected)


def _gradient(f: Function) -> Function:
    def total(*args: ArrayLike) -> Tensor:
        leaves, _ = pytrees.flatten(f(*args))
        return fnp.sum(fnp.stack([fnp.sum(fnp.real(leaf) * 1.0) for leaf in leaves]))

    return grad(total)


def _batched(f: Function) -> Function:
    return lambda x, *others: vmap(lambda x: f(x, *others))(fnp.stack([x, x * 0.5]))


# -------------------------------------------------------------------------------- behaviours


def _check_threads(backend: Backend) -> bool:
    """Check that threads that call one compiled function do not mix up their results."""

    def f(x: ArrayLike, k: ArrayLike) -> Any:
        return fnp.sum(fnp.sin(x * k) * fnp.exp(x)), fnp.multiply(x, k)

    x = np.linspace(0.0, 1.0, 500)
    staged: Any = jit(f, backend=backend)
    expected = [np.asarray(f(x, np.float64(k))[0]) for k in range(_THREADS)]
    staged(x, np.float64(0.0))

    def call(k: int) -> None:
        for _ in range(50):
            total, product = staged(x, np.float64(k))
            compare_numbers(f"thread {k}: result 0", np.asarray(total), expected[k])
            compare_numbers(f"thread {k}: result 1", np.asarray(product), x * k)

    with ThreadPoolExecutor(_THREADS) as pool:
        for done in [pool.submit(call, k) for k in range(_THREADS)]:
            done.result()
    return True


def _check_errors(backend: Backend) -> bool:
    """Check that errors are raised unchanged, and that later calls still work."""

    def f(a: ArrayLike) -> Tensor:
        return fnp.linalg.inv(a * 2.0) + fnp.sin(a)

    good, singular = np.array([[2.0, 1.0], [1.0, 3.0]]), np.ones((2, 2))
    staged: Any = jit(f, backend=backend)
    expected = np.asarray(f(good))
    kind = _error_of(f, singular)
    for _ in range(_CALLS):
        compare_numbers("a call beside one that raises", np.asarray(staged(good)), expected)
        raised = _error_of(staged, singular)
        if raised is not kind:
            names = [
                error_type.__name__ if error_type else "no error" for error_type in (raised, kind)
            ]
            raise Wrong(f"an operation that fails: {names[0]} by jit, {names[1]} by evaluation")
    return True


def _error_of(f: Function, *args: ArrayLike) -> type[Exception] | None:
    try:
        f(*args)
    except Exception as error:
        return type(error)
    return None


def _check_warnings(backend: Backend) -> bool:
    """Check that NumPy's default warnings do not reach users of compiled functions."""
    staged: Any = jit(lambda x: (fnp.exp(x) * x, 1.0 / (x - x), fnp.log(x)), backend=backend)
    with np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"):
        for _ in range(_CALLS):
            _without_warnings(staged, (np.array([1e308, -1.0, 0.0]),))
    return True


def _check_memory(backend: Backend) -> bool:
    """Check that a compiled function does not keep its arguments."""
    staged = stage(lambda x: fnp.sum(fnp.sin(x) * x))(np.ones(50))
    run = backend.compile(_prepared(backend, optimize(staged))).run
    gc.disable()
    try:
        for number in range(3):
            x = np.linspace(0.0, 1.0, 50)
            run(x)
            reference = weakref.ref(x)
            del x
            if reference() is not None:
                run(np.zeros(50))  # a library may hold the arguments of the last call
            if reference() is not None:
                raise Wrong(f"run() keeps its argument after call {number + 1}")
    finally:
        gc.enable()
    return True


def _check_name(backend: Backend) -> bool:
    if not (isinstance(backend.name, str) and backend.name):
        raise Wrong(f"its name is {backend.name!r}, not a text")
    return True


_BEHAVIOURS: Final[Sequence[tuple[str, Callable[[Backend], bool]]]] = (
    ("name", _check_name),
    ("threads", _check_threads),
    ("errors", _check_errors),
    ("warnings", _check_warnings),
    ("memory", _check_memory),
)
