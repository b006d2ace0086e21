"""``Device``: the trace of the tensors that are kept on a device; it never ends.

Each operation on such tensors is a program of one equation, which the device's backend compiles;
the device keeps it by the operation, its parameters, and the shapes and dtypes of its arguments.
A jitted function is one program.

A device is outside of all transformations: its level is below theirs, so they bind operations on
the values inside their tracers, and these operations arrive here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from funcgrad._backends.devices.resident import HeldArray, Resident
from funcgrad._backends.devices.users_arguments import check_constant
from funcgrad._backends.interface import Compiled, DeviceBackend, Handle, evaluated
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._base.users_line import users_line, warn_user
from funcgrad._core import pytrees
from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import Spec, spec_of
from funcgrad._core.trace import NUMBERS, RAW, Raw, Trace, TracedValue, Value, concrete
from funcgrad._core.users_values import ArrayLike, checked_dtype, freeze, operand
from funcgrad._programs.equation import Equation, exact_key
from funcgrad._programs.names import variable_names
from funcgrad._programs.program import Program
from funcgrad._transforms.staging_notes import hashable_params
from funcgrad.errors import DeviceError, DeviceWarning, DlpackError, TracerError
from funcgrad.tensor.tensor import Tensor, wrap

_MOST: Final = 4096
"""The most operations whose programs a device keeps."""
_MOST_CONSTANTS: Final = 256
_MAIN_MEMORY: Final = 1
"""DLPack's number of it."""


@dataclass(frozen=True, slots=True)
class _Ready:
    """A program of one equation, ready to run."""

    program: Program
    run: Callable[..., tuple[Any, ...] | None]
    makers: tuple[Callable[..., Resident] | None, ...]
    has_several: bool


class Device(Trace):
    """A device that keeps values; ``fg.devices()`` lists the devices of this machine.

    Devices are equal if their backends are one object, and equal their names.

    Attributes
    ----------
    name : str
        ``"cpu"`` is the host, where tensors are unless they are put elsewhere.
    backend : DeviceBackend, optional
        None for the host.
    """

    __slots__ = ("_constants", "_programs", "_told", "backend", "calls_host", "name")
    has_numbers = True
    is_remote = True

    def __init__(
        self,
        name: str,
        backend: DeviceBackend | None = None,
        level: int = 0,
        calls_host: bool = True,
    ) -> None:
        self.level = level
        self.name = name
        self.backend: Any = backend
        self.calls_host = calls_host
        self._programs: dict[Hashable, _Ready] = {}
        self._told: set[str] = set()
        self._constants: dict[Hashable, Tensor] = {}

    @property
    def title(self) -> str:  # type: ignore[override]
        """The device's name, in the text of tracers."""
        return self.name

    def __repr__(self) -> str:
        return f"Device({self.name!r})"

    def __str__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Device):
            return self.backend is other.backend
        return self.name == other if isinstance(other, str) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> Any:
        from funcgrad._backends.devices.placement import pickled_device

        return pickled_device, (self.name, self.calls_host)

    # Moving values.

    def place(self, leaf: ArrayLike, operation: str = "put") -> Tensor:
        """Copy an array, a number or a tensor to this device."""
        if self.backend is not None and is_elsewhere(leaf):
            return self.imported(leaf, operation)
        value = concrete(operand(leaf, operation))
        if type(value) is Resident:
            if value._trace is self or self.backend is None:
                return (
                    value
                    if self.backend is not None
                    else wrap(value._reveal(operation, exact=True))
                )
            if value._trace.backend is self.backend:  # with the other answer to calls_host
                return self.follow(spec_of(value))(value._value.handle, value._value.origin)
            sent = getattr(value._trace.backend, "sent", None)
            handle = None if sent is None else sent(value._value.handle, self.backend)
            if handle is not None:
                return self.follow(spec_of(value))(handle, users_line())
            value = value._reveal(operation, exact=True)
        if type(value) not in RAW:
            raise TracerError(
                f"{operation}: the tensor is traced by a transformation. Put the arguments or the"
                " result on the device outside the transformed function."
            )
        array = np.asarray(value)
        if self.backend is None:
            return wrap(array[()])
        handle = self.backend.put(freeze(array)[()])
        return Resident.of(self, handle, Spec(array.shape, array.dtype), users_line())

    def imported(self, array: object, operation: str) -> Tensor:
        """Copy an array of another library's that is not in main memory, without main memory.

        Raises
        ------
        DlpackError
            The device cannot read that memory.
        DtypeError
            Tensors cannot have its dtype.
        """
        read = getattr(self.backend, "imported", None)
        if read is None:
            raise DlpackError(f"{operation}: {self.name} reads main memory only.")
        try:
            handle, shape, dtype = read(array)
        except (BufferError, RuntimeError) as error:
            raise DlpackError(f"{operation}: {self.name} cannot read it: {error}") from error
        return Resident.of(self, handle, Spec(shape, checked_dtype(dtype, operation)), users_line())

    def place_array(self, leaf: ArrayLike) -> ArrayLike:
        """Copy an array or a tensor to this device; a Python number stays as it is."""
        return leaf if type(leaf) in NUMBERS else self.place(leaf)

    def constant(self, raw: Raw) -> Value:
        """A constant on this device; one without axes is copied there once."""
        array = np.asarray(raw)
        if array.ndim:
            return self.place(raw)
        key = array.dtype.char, array.tobytes()
        known = self._constants.get(key)
        if known is None:
            if len(self._constants) >= _MOST_CONSTANTS:
                self._constants = {}
            known = self._constants[key] = self.place(array[()])
        return known

    def refuse_arguments(self, operation: str) -> None:
        """Refuse arrays of the host that the user passed to the function that is running.

        Raises
        ------
        DeviceError
            There is one.
        """
        check_constant(operation, self.name, "")

    def fetched(self, handle: object) -> Raw:
        """A raw copy of an array on this device."""
        array = np.asarray(self.backend.get(handle))
        return freeze(array) if array.ndim else array[()]

    def follow(self, spec: Spec) -> Callable[..., Any]:
        """The function that makes a tensor of a handle, or of a Python number that is weak."""
        if spec.weak:
            return lambda number, origin="": wrap(number)
        return Resident.maker(self, spec)

    def inputs(self, operation: str, args: Sequence[Value]) -> list[Any]:
        """The inputs of a program that runs here: handles, and values of the host unchanged.

        Raises
        ------
        DeviceError
            An argument is on another device.
        """
        handles: list[Any] = []
        for arg in args:
            if type(arg) is not Resident:
                handles.append(concrete(arg))
                continue
            if arg._trace is not self:
                self._check_same(operation, args, arg._value)
            handles.append(arg._value.handle)
        return handles

    # A trace.

    def inner(self, value: Value) -> Value:
        """The raw value of a resident, copied."""
        return value._value._value if type(value) is Resident else concrete(value)

    def rebuild(self, tracer: TracedValue, change: Callable[[Value], Value]) -> Value:
        """The tensor itself, which contains no tracer."""
        return tracer

    def process(
        self, primitive: Primitive, args: tuple[Value, ...], params: Mapping[str, Any]
    ) -> Value:
        """Run an operation on the device."""
        kinds: list[Any] = []
        inputs: list[Any] = []
        origin = ""
        for arg in args:
            if type(arg) is Resident:
                held = arg._value
                if held.device is not self:
                    self._check_same(primitive.name, args, held)
                kinds.append((held.shape, held.dtype))
                inputs.append(held.handle)
                origin = origin or held.origin
            else:
                value = concrete(arg)
                if type(value) in NUMBERS:
                    kinds.append(type(value))
                else:
                    kinds.append((value.shape, value.dtype))
                    if value.shape:
                        check_constant(primitive.name, self.name, origin)
                        value = freeze(value)
                inputs.append(value)
        options = exact_key(tuple(sorted(params.items()))) if params else ()
        key = primitive, options, tuple(kinds)
        try:
            ready = self._programs.get(key)
        except TypeError:  # a parameter is a list, which most operations refuse by name
            ready = self._ready(primitive, args, params)
        if ready is None:
            ready = self._keep(key, self._ready(primitive, args, params))
        outs = ready.run(*inputs)
        if outs is None:  # a guard in it does not hold; this raises the error that says which
            ready.program.evaluate(args)
            raise DeviceError(f"{primitive.name}: {self.name} found that a guard does not hold.")
        results = [
            out if make is None else make(out, origin)
            for out, make in zip(outs, ready.makers, strict=True)
        ]
        return tuple(results) if ready.has_several else results[0]

    def run_program(self, program: Program, args: Sequence[Value]) -> list[Value]:
        """Run an optimized program on the device, as one program."""
        outs = self.attempt(program, args)
        return program.evaluate(args) if outs is None else outs  # which names the guard

    def attempt(self, program: Program, args: Sequence[Value]) -> list[Value] | None:
        """Run an optimized program on the device; None if a guard does not hold."""
        compiled = program.derived(("on device", self.level), lambda: self.compiled(program))
        outs = compiled.run(*self.inputs(program.name, args))
        if outs is None:
            return None
        specs, origin = program.output_specs, _origin(args)
        return [
            out if spec.weak else Resident.of(self, out, spec, origin)
            for out, spec in zip(outs, specs, strict=True)
        ]

    def compiled(self, program: Program, relaxed: bool = False) -> Compiled:
        """Prepare and compile a program for this device; its constants may be on it already.

        Raises
        ------
        DeviceError
            The device lacks an operation, and values on it may not be computed on the host.
        """
        program, closed = _without_residents(program)
        run = self._run(program, relaxed)
        if closed:
            handles, inner = self.inputs(program.name, closed), run

            def run(*inputs: Handle) -> tuple[Any, ...] | None:
                return inner(*inputs, *handles)

        return Compiled(run, warns=False, is_fresh=True, follow=self.follow)

    def prepared(self, program: Program, relaxed: bool) -> Program:
        """A program as this device's backend prepares it; its constants that are on the device are
        further inputs."""
        prepared: Program = self.backend.prepare(_without_residents(program)[0], relaxed)
        return prepared

    # How it works.

    def _run(self, program: Program, relaxed: bool) -> Callable[..., tuple[Any, ...] | None]:
        """The function of handles that runs a program."""
        if not self.backend.supports(program):
            return self._one_by_one(program)
        prepared = self.backend.prepare(program, relaxed)
        lacking = self.backend.lacks(prepared)
        if lacking:
            self._tell(lacking)
        if not lacking or self.backend.calls_host:
            run: Callable[..., tuple[Any, ...] | None] = self.backend.compile(prepared).run
            return run
        return (self._on_host if len(prepared.equations) == 1 else self._one_by_one)(prepared)

    def _check_same(self, operation: str, args: Sequence[Value], held: HeldArray) -> None:
        """Refuse a value of another device."""
        if held.device.backend is self.backend:
            return
        mine = [arg._value for arg in args if type(arg) is Resident and arg._trace is self]
        here = f"a value of {described(mine[0])}" if mine else f"the operation is on {self.name}"
        raise DeviceError(
            f"{operation}: {here}, another value of {described(held)}. The values of an operation"
            f" have to be on one device: copy one of them with fg.put(x, {self.name!r})."
        )

    def _keep(self, key: Hashable, ready: _Ready) -> _Ready:
        for oldest in list(self._programs)[: len(self._programs) - _MOST + 1]:
            self._programs.pop(oldest, None)
        return self._programs.setdefault(key, ready)

    def _ready(
        self, primitive: Primitive, args: Sequence[Value], params: Mapping[str, Any]
    ) -> _Ready:
        """Make the program of one operation."""
        specs = tuple([spec_of(concrete(arg)) for arg in args])
        said = primitive.checked_result(*specs, **params)
        results = said if isinstance(said, tuple) else (said,)
        arity = len(specs)
        operands, outputs = tuple(range(arity)), tuple(range(arity, arity + len(results)))
        equation = Equation(primitive, operands, hashable_params(params), results, users_line())
        program = Program(
            name=primitive.name,
            names=tuple(variable_names((), arity)),
            inputs=specs,
            constants=(),
            equations=(equation,),
            outputs=outputs,
            arguments=pytrees.of_arguments(arity),
            result=pytrees.of_leaves(len(results)),
        )
        run = self.compiled(program).run
        makers = [None if spec.weak else Resident.maker(self, spec) for spec in results]
        return _Ready(program, run, tuple(makers), isinstance(said, tuple))

    def _tell(self, lacking: Sequence[Equation]) -> None:
        """Warn, once for each operation, that it is computed on the host; or refuse it."""
        names = ", ".join(dict.fromkeys([equation.name for equation in lacking]))
        lines = [equation.source for equation in lacking if equation.source]
        where = f" (at {lines[0]})" if lines else ""
        if not self.calls_host:
            raise DeviceError(
                f"{self.name} cannot compute {names}{where}, and its values were put there with"
                ' host="never". Put them there without it, or copy them with fg.get first.'
            )
        if names not in self._told:
            self._told.add(names)
            warn_user(
                f"{self.name} cannot compute {names}{where}: the values are copied to the host and"
                " back at each call.",
                DeviceWarning,
            )

    def _values(self, program: Program, inputs: Sequence[Any]) -> list[Value]:
        """The values of inputs of ``run``, as tensors."""
        return [
            value if type(value) in RAW else Resident.of(self, value, spec, "")
            for value, spec in zip(inputs, program.inputs, strict=True)
        ]

    def _on_host(self, program: Program) -> Callable[..., tuple[Any, ...]]:
        """Evaluate a program on the host."""

        def run(*inputs: Handle) -> tuple[Any, ...]:
            raw = [value if type(value) in RAW else self.fetched(value) for value in inputs]
            outs = program.evaluate(raw)
            return tuple([out if type(out) in NUMBERS else self.backend.put(out) for out in outs])

        return run

    def _one_by_one(self, program: Program) -> Callable[..., tuple[Any, ...] | None]:
        """Evaluate a program equation by equation, since the host computes some of them."""
        evaluate = evaluated(program).run

        def run(*inputs: Handle) -> tuple[Any, ...] | None:
            outs = evaluate(*self._values(program, inputs))
            if outs is None:
                return None
            return tuple(
                [
                    out._value.handle
                    if type(out) is Resident
                    else out
                    if type(out) in NUMBERS
                    else self.backend.put(out)
                    for out in outs
                ]
            )

        return run


def is_elsewhere(leaf: object) -> bool:
    """Whether an object is another library's array that is not in main memory, as DLPack says."""
    if type(leaf) in RAW or isinstance(leaf, (TracedValue, type)):
        return False
    where = getattr(leaf, "__dlpack_device__", None)
    return where is not None and where()[0] != _MAIN_MEMORY


def _origin(args: Sequence[Value]) -> str:
    return next((arg._value.origin for arg in args if type(arg) is Resident), "")


def described(held: HeldArray) -> str:
    """Where an array is, and since when, for an error message."""
    since = f"put there at {held.origin}" if held.origin else "where it was computed"
    return f"shape {held.shape} is on {held.device.name} ({since})"


def _without_residents(program: Program) -> tuple[Program, list[Value]]:
    """Make inputs of the constants of a program that are tensors on a device."""
    if program.is_raw:
        return program, []
    count, constants = len(program.inputs), program.constants
    order = sorted(range(len(constants)), key=lambda k: constants[k].is_raw)
    closed = [constants[k] for k in order if not constants[k].is_raw]
    final = [*range(count + len(constants) + sum(len(e.results) for e in program.equations))]
    for place, k in enumerate(order, count):
        final[count + k] = place
    inputs = (*program.inputs, *[constant.spec for constant in closed])
    moved = replace(
        program,
        names=tuple(variable_names((), len(inputs))),
        inputs=inputs,
        constants=tuple([constants[k] for k in order[len(closed) :]]),
        equations=tuple([e.on(tuple([final[k] for k in e.operands])) for e in program.equations]),
        outputs=tuple([final[k] for k in program.outputs]),
        guards=tuple([replace(g, variable=final[g.variable]) for g in program.guards]),
        arguments=pytrees.of_arguments(len(inputs)),
    )
    return moved, [constant.value for constant in closed]
