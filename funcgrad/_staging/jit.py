"""``jit``: stage a function once for each kind of arguments, and run the program from then on.

Each signature (trees, shapes, dtypes, static arguments) has a list of *variants*: the function
staged along one path through its control flow. A variant is valid as long as the outside values
that the function reads are unchanged.

A call first tries the *entries*, written for the most recent forms of call (``entry.py``). If none
fits, the general path stages the function if the call is new, and then writes an entry for it.

>>> import funcgrad as fg
>>> @fg.jit
... def halved(x):
...     return x / 2 if x > 0 else -x / 2
>>> halved(3.0), halved(-3.0), halved(5.0)
(Tensor(1.5), Tensor(1.5), Tensor(2.5))
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from functools import update_wrapper
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from types import MethodType
from typing import Any, Final, Generic, ParamSpec, TypeVar, overload
from weakref import WeakMethod

from funcgrad._backends.choice import LateChoice, chosen_backend, numpy_backend, thread_count
from funcgrad._backends.devices.device import Device
from funcgrad._backends.devices.placement import DeviceLike, device_of
from funcgrad._backends.interface import MISS, Backend, Compiled, DirectlyCalled, evaluated
from funcgrad._base.interpreters import doubt
from funcgrad._base.users_line import shorten, warn_user
from funcgrad._core import pytrees
from funcgrad._core.pytrees import Structure
from funcgrad._core.trace import Value
from funcgrad._hints.lookup import decorating
from funcgrad._hooks.key_uses import current_uses
from funcgrad._hooks.result_watch import WATCH, WATCHING
from funcgrad._passes.pipeline import optimize
from funcgrad._programs.program import Program
from funcgrad._programs.suspicious import warn_of_loops
from funcgrad._staging import eagerness
from funcgrad._staging.capture import Capture
from funcgrad._staging.derived import Run, by_numpy
from funcgrad._staging.entry import Form, argument_type, types_at, write_entry
from funcgrad._staging.lowered import Failure, Lowered, lowered
from funcgrad._staging.placed import Whereabouts, device_of_values, is_placed
from funcgrad._staging.signature import Signature, make_variant
from funcgrad._staging.static_arguments import (
    Static,
    filled,
    hinted,
    parts_of,
    same_values,
    split_static,
    static_places,
    with_static,
    within_arguments,
)
from funcgrad._transforms.answers import OF_VALUES, UnstagedError
from funcgrad._transforms.arguments import call_values, check_function
from funcgrad._transforms.stage import stage
from funcgrad._transforms.transformed import importable_name
from funcgrad._transforms.with_derivative import example
from funcgrad.errors import ArgumentError, CheckError, FuncgradError, LeafError

P = ParamSpec("P")
R = TypeVar("R")

_MOST_VARIANTS: Final = 16
_MOST_SIGNATURES: Final = 256
_MOST_ENTRIES, _MOST_TABLES = 8, 64  # a table that does not fit takes 0.1 µs, an entry 1 µs
_MOST_FAILURES: Final = 8


class JitWarning(RuntimeWarning):
    """A jitted function runs without being staged, or by another backend than was asked for."""


class Jitted(DirectlyCalled, Generic[P, R]):
    """A function that is staged when it is first called; see ``jit``."""

    def __init__(
        self,
        f: Callable[P, R],
        static: frozenset[int | str],
        backend: Backend | LateChoice,
        relaxed: bool = False,
        device: Device | None = None,
    ) -> None:
        self._function: Callable[..., R] = f
        self._static, self._choice, self._relaxed = static, backend, relaxed
        self._at = Whereabouts(f, backend, device)
        self._signatures: dict[Hashable, Signature] = {}
        self._forms: dict[Form, tuple[Signature, Callable[[Any, Any], Any] | None]] = {}
        self._entries: tuple[Callable[[Any, Any], Any], ...] = eagerness.unstaged_entries(f, static)
        self._ways = (_BY_PYTHON,)
        self._failures, self._warned = deque[Failure](maxlen=_MOST_FAILURES), set[str]()
        self._stagings: list[None] = []  # a list, to which many threads may append
        update_wrapper(self, f, updated=())  # a jitted function has attributes of its own
        self.__name__: str = getattr(f, "__name__", type(f).__name__)
        self.__qualname__: str = getattr(f, "__qualname__", self.__name__)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if WATCHING.begun and (watch := WATCH.get()) is not None:
            return watch.called_jitted(self._function, self, args, kwargs)
        try:
            for entry in self._entries:
                result: R = entry(args, kwargs)
                if result is not MISS:
                    return result
            return self._call(args, kwargs)
        except Exception as error:
            if isinstance(error, OF_VALUES) and eagerness.may_run_again(error):
                with suppress(FuncgradError, *OF_VALUES):  # it may catch a program's error
                    return eagerness.run_unstaged(self._function, self._static, args, kwargs)
            shorten(error)
            raise

    def __reduce__(self) -> Any:
        """Pickle by name, as functions are; else by the function and the options of ``jit``."""
        made = Jitted, (self._function, self._static, self._choice, self._relaxed, self._at.device)
        return importable_name(self) or made

    def __repr__(self) -> str:
        return f"jit({self._function!r})"

    def _repr_html_(self) -> str:
        from funcgrad._base.html import function_table

        return function_table(self._function, "jit")

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        """Bind to an instance, so that a jitted function in a class is a method."""
        return self if instance is None else MethodType(self, instance)

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The programs that could not be compiled, the latest last."""
        return tuple(self._failures.copy())

    @property
    def stagings(self) -> int:
        """The number of times that the function was staged."""
        return len(self._stagings)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
        """Call in the general way, for any form of call: it flattens the trees in loops."""
        static, dynamic = split_static(self._function, self._static, args, kwargs)
        leaves, structure = pytrees.flatten(dynamic)
        values = self._values(leaves, structure, static)
        if not all(map(is_placed, values)):
            if eagerness.belongs_to_caller():  # here, as each call takes frames of Python's
                return self._function(*args, **kwargs)
            return self._inside(args, kwargs, values, structure)
        argument_types = tuple([argument_type(value) for value in values])
        parts = parts_of(structure)
        device = self._at.of(values, structure)
        kinds = types_at(device, argument_types)
        variants = self._signature((structure, parts, tuple([arg[:2] for arg in static]), kinds))
        inputs = values if device is None else device.inputs("jit", values)
        result: R = variants.run(inputs)
        if result is MISS:
            fresh = self._fresh(variants, args, kwargs, device)
            if fresh is MISS or (result := fresh.attempt(*inputs, ())) is MISS:
                return eagerness.run_unstaged(self._function, self._static, args, kwargs)
            return result
        types = tuple([type(leaf) for leaf in leaves])
        self._ease(Form(structure, parts, types, argument_types, len(args), static), variants)
        return result

    def _inside(self, args: Any, kwargs: Any, values: Sequence[Value], structure: Structure) -> R:
        """Call on tracers: by the variant for raw numbers of their shapes and dtypes."""
        static = split_static(self._function, self._static, args, kwargs)[0]
        examples = [example(value) for value in values]
        argument_types = tuple([argument_type(value) for value in examples])
        key = structure, parts_of(structure), tuple([arg[:2] for arg in static]), argument_types
        variants = self._signature(key)
        with suppress(FuncgradError, *OF_VALUES):  # the function itself gives a better error
            result: R = variants.run_inside(values)
            staged: list[list[Value]] = []
            while result is MISS:
                # Guards may have divided a batch, so that other examples are left.
                examples = [example(value) for value in values]
                if any(map(same_values, staged, [examples] * len(staged))):
                    break
                staged.append(examples)
                call = with_static(examples, structure, static)
                if self._fresh(variants, *call, device_of_values(examples)) is MISS:
                    break
                result = variants.run_inside(values)
            if result is not MISS:
                return result
        return eagerness.run_unstaged(self._function, self._static, args, kwargs)

    def _values(self, leaves: Sequence[Any], structure: Structure, static: Static) -> list[Value]:
        try:
            return call_values("jit", self._function, leaves, structure)
        except FuncgradError:
            named = filled(self._function, static)
            try:
                return call_values("jit", named, leaves, structure)
            except LeafError as error:
                raise LeafError(hinted(str(error))) from None

    @property  # a capture counts a jitted function's attributes, so none is added later
    def _backend(self) -> Backend:
        choice = self._choice
        return choice.backend() if isinstance(choice, LateChoice) else choice

    def _signature(self, key: Hashable) -> Signature:
        if (known := self._signatures.get(key)) is not None:
            return known
        for oldest in list(self._signatures)[: 1 - _MOST_SIGNATURES]:
            self._forms = {}
            self._forget()  # an entry might use the dropped signature
            self._signatures.pop(oldest, None)
        return self._signatures.setdefault(key, Signature())

    def _ease(self, form: Form, variants: Signature) -> None:
        """Try the entry for this form first from now on; write it if it does not exist yet."""
        known, entry = self._forms.get(form, (None, None))
        if known is not variants:  # another thread may have dropped these, or others, meanwhile
            if len(self._forms) >= _MOST_SIGNATURES:
                self._forms = {}
                self._forget()
            entry = write_entry(form, variants)
            self._forms[form] = variants, entry
        if entry is not None:
            others = [other for other in self._entries if other is not entry]
            self._entries = (entry, *others)[:_MOST_ENTRIES]
            if not form.static:
                self._add_ways(variants.tables(form.leaves, Jitted))

    def _add_ways(self, tables: tuple[Any, ...]) -> None:
        """Let machine code take calls by these tables first."""
        others = [way for way in self._ways[:-1] if all(way is not table for table in tables)]
        self._ways = (*[*tables, *others][:_MOST_TABLES], _BY_PYTHON)

    def _forget(self) -> None:
        """Have the next call take the general path."""
        self._entries, self._ways = (), (_BY_PYTHON,)

    def _fresh(self, variants: Signature, args: Any, kwargs: Any, device: Device | None) -> Any:
        """Stage the function, and return the new variant; MISS if it has to run unstaged."""
        if not variants.watched or current_uses() is not None:  # keys are checked by value
            return MISS
        count, cause = variants.refresh()
        if cause is not None:
            why = f"it, because {cause} changes between the calls. Pass it as an argument.{doubt()}"
            self._warn(f"is staged anew at every call, which takes far longer than running {why}")
        if count >= _MOST_VARIANTS:
            self._warn(
                f"took {_MOST_VARIANTS} different paths for arguments of one kind, and now runs"
                " without being staged for any other path. Choose with fnp.where instead of `if`,"
                " or make the argument that it depends on static."
            )
            return MISS
        self._stagings.append(None)
        split = split_static(self._function, self._static, args, kwargs)
        capture = Capture(self._function, *within_arguments(*split))
        try:
            program = capture.run(lambda: self._staged(args, kwargs, device), self._warn)
        except UnstagedError as error:
            variants.watched = False
            self._warn(f"runs without being staged: {error.reason}.")
            return MISS
        if program is None:
            variants.watched = False
            self._warn(
                "may read more values from outside its arguments than can be watched for changes,"
                f" so it runs without being staged. Pass these values as arguments.{doubt()}"
            )
            return MISS
        warn_of_loops(program, self._warn)
        program = optimize(program, self._relaxed)  # the other one's objects may go
        if not program.is_raw:
            device = self._at.closed_over(program, device, *pytrees.flatten(split[1]))
            if device is None:
                return MISS
        is_kept = capture.unchanged()  # else the function may have read an old or a new value
        if capture.drew():
            is_kept = variants.watched = False
            self._warn(
                "draws random numbers from a generator outside its arguments, so it runs without"
                " being staged. Use fg.random with a key that is an argument."
            )
        elif not is_kept:
            is_kept = variants.keeps_changed(capture.alone)
            capture.look()
            if not capture.complete:
                return MISS
        relaxed, weak = self._relaxed, WeakMethod(self._compiled)  # a variant must not hold `self`

        def compile(derived: Program) -> Run:
            return (weak() or by_numpy)(derived, relaxed)[1].run

        variant = make_variant(program, *self._compiled(program, relaxed, device), capture, compile)
        if is_kept:
            variants.add(variant)
            self._forget()  # the general path marks it as used
        return variant

    def lower(self, *args: P.args, **kwargs: P.kwargs) -> Lowered:
        """The program that would run for these arguments, before and after passes, and its source.

        Lower a method through its class: ``Model.apply.lower(model, x)``.

        Raises
        ------
        ArgumentError
            The function runs without being staged: it closes over a traced value.
        """
        _, trees = split_static(self._function, self._static, args, kwargs)
        leaves, structure = pytrees.flatten(trees)
        device = self._at.of(self._values(leaves, structure, ()), structure)
        staged = self._staged(args, kwargs, device)
        optimized = optimize(staged, self._relaxed)
        device = self._at.closed_over(optimized, device, leaves, structure)
        return lowered(self.__name__, staged, optimized, device or self._backend, self._relaxed)

    def _staged(
        self, args: Sequence[Any], kwargs: dict[str, Any], device: Device | None = None
    ) -> Program:
        static, trees = split_static(self._function, self._static, args, kwargs)
        dynamic, named = trees if device is None else pytrees.map(device.place_array, trees)
        return stage("jit", filled(self._function, static), dynamic, named)

    def _compiled(
        self, optimized: Program, relaxed: bool, device: Device | None = None
    ) -> tuple[Program, Compiled]:
        """The program as the backend prepares it, and its compiled form."""
        if device is not None:
            return optimized, device.compiled(optimized, relaxed)
        backend = self._backend if self._backend.supports(optimized) else numpy_backend()
        if backend is not self._backend:
            self._warn(
                f"has a program that the backend {self._backend.name!r} does not support; the NumPy"
                " backend runs it."
            )
        while True:
            prepared = optimized
            try:
                prepared = backend.prepare(optimized, relaxed)
                return prepared, backend.compile(prepared)
            except CheckError:  # of a pass, which ``fg.testing.validated`` asked for
                raise
            except Exception as error:  # a failure to compile must never cost a result
                if self._note_failure(backend, prepared, error):
                    return optimized, evaluated(optimized)
            backend = numpy_backend()

    def _note_failure(self, backend: Backend, program: Program, error: Exception) -> bool:
        self._failures.append(Failure(program, backend.name, repr(error)))
        is_last = backend is numpy_backend()
        instead = "is evaluated operation by operation" if is_last else "NumPy's runs"
        self._warn(
            f"has a program that the backend {backend.name!r} could not compile, and that"
            f" {instead} instead: {error!r}. To report it, save the program:"
            f" {self.__name__}.failures[-1].program.to_text()."
        )
        return is_last

    def _warn(self, text: str) -> None:
        """Warn at the user's line that made the call, once for each text."""
        if text not in self._warned:
            warn_user(f"jit: {self.__name__} {text}", JitWarning)  # which may raise it
            self._warned.add(text)


_BY_PYTHON: Final = Jitted.__call__
"""It is called if machine code, which may become ``__call__``, does not take a call."""


@overload
def jit(
    f: Callable[P, R],
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    backend: Backend | str | None = None,
    relaxed: bool = False,
    exact: bool = False,
    threads: int | None = None,
    device: DeviceLike | None = None,
) -> Jitted[P, R]: ...
@overload
def jit(
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    backend: Backend | str | None = None,
    relaxed: bool = False,
    exact: bool = False,
    threads: int | None = None,
    device: DeviceLike | None = None,
) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...
@decorating
def jit(
    f: Callable[P, R],
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    backend: Backend | str | None = None,
    relaxed: bool = False,
    exact: bool = False,
    threads: int | None = None,
    device: DeviceLike | None = None,
) -> Jitted[P, R]:
    """Compile a function: it is staged on its first call and runs as a program from then on.

    Use it for functions that are called many times with arguments of the same shapes and dtypes,
    such as a training step: ``step = fg.jit(step)``. As a decorator it takes options, too.

    Parameters
    ----------
    f : callable
        Takes and returns pytrees of arrays. Side effects happen only while it is staged.
    static_argnums, static_argnames : int, str, or sequences of them
        Arguments that are not arrays, by position or by name. They are part of the key under which
        programs are cached, so they have to be hashable.
    backend : Backend or str, optional
        The compiler of programs, or its name. ``"native"`` compiles to machine code, and is the
        default if ``funcgrad[native]`` is installed (see ``funcgrad/_backends/native/README.md``);
        ``"numpy"`` needs only NumPy; ``"xla"`` compiles by JAX (``funcgrad[xla]``). Or an object
        with the five members of ``funcgrad._backends.interface.Backend``.
    relaxed : bool
        If true, results may differ in their last digits to save work: factors are grouped, shared,
        and moved out of sums. If false, only sums, matrix products and derivatives of ``prod`` may
        be computed in another order.
    exact : bool
        If true, elementwise operations give NumPy's bits with every backend. If false, machine code
        has its own exponentials, trigonometric functions and the like, within 2 units in the last
        place.
    threads : int, optional
        The number of threads that large steps of a call may use, in machine code; results do not
        depend on it. Without it the variable ``FUNCGRAD_THREADS`` decides, or the cores that the
        process may use, limited by ``OMP_NUM_THREADS``; in forks and ``multiprocessing`` it is 1.
    device : Device, str or DeviceBackend, optional
        The device to copy arguments to at each call; results stay there. By default nothing is
        copied.

    Returns
    -------
    Jitted
        A function with the signature of ``f``. Inside another transformation its program is
        transformed once, and the derived program is cached as well. As an attribute of a class it
        is a method; ``self`` is then a pytree, or static (``static_argnums=0``).

    Raises
    ------
    ArgumentError
        ``f`` does not have such an argument; the backend does not exist, or does not support
        ``exact``; ``threads``, or ``FUNCGRAD_THREADS``, is not a positive integer.

    Warns
    -----
    JitWarning
        The function runs without being staged, since it takes too many paths, may read more than
        can be watched, or draws random numbers. It reads a data frame, which is read only once. It
        is staged at every call, because an outside value changes. A program was not compiled (see
        ``failures``). A Python loop is long.

    Notes
    -----
    Each path through control flow, and each shape, is staged when it first comes. Shapes that need
    the same instructions, such as batches of different lengths, share machine code. Outside values
    are watched, and the function is staged again if one has changed: values of names in its code
    and in Python functions that it calls, their elements and attributes, arrays by content; not
    compiled code, files, clocks and computed names. See ``funcgrad/_staging/README.md``.

    Examples
    --------
    >>> import funcgrad as fg
    >>> gradient = fg.jit(fg.grad(lambda x: (x**2).sum()))
    >>> gradient(fg.tensor([1.0, 2.0]))
    Tensor([2., 4.])
    >>> fg.jit(lambda x: x * x, backend="numpy").lower(3.0)
    Lowered(<lambda>: 1 equation(s), 1 optimized, backend 'numpy')
    >>> @fg.jit(threads=1)
    ... def waves(x):
    ...     return fg.numpy.sin(x) * x
    >>> waves(fg.numpy.ones(1_000_000)).shape
    (1000000,)
    """
    check_function("jit", f)
    if iscoroutinefunction(f) or isgeneratorfunction(f) or isasyncgenfunction(f):
        raise ArgumentError(
            f"jit: {getattr(f, '__name__', f)} is a generator function or a coroutine, so a call"
            " returns before its body has run. Return the arrays, in a list if there are many."
        )
    places = static_places(f, static_argnums, static_argnames)
    if exact and relaxed:
        raise ArgumentError("jit: relaxed=True gives up NumPy's bits, which exact=True asks for.")
    count = thread_count(threads, "jit")
    late = LateChoice(exact, count) if backend is None else None
    chosen = late or chosen_backend(backend, "jit", exact, count)
    place = None if device is None else device_of(device, "jit")
    return Jitted(f, places, chosen, relaxed, place)
