"""The interface of backends: objects that compile programs.

The rest of funcgrad uses only these five members of a backend, so a backend of your own needs no
more. A backend that compiles nothing can use ``evaluated``:

>>> import funcgrad as fg
>>> from dataclasses import dataclass
>>> @dataclass(frozen=True)
... class Plain:
...     name: str = "plain"
...
...     def supports(self, program):
...         return program.is_raw
...
...     def prepare(self, program, relaxed):
...         return program
...
...     def compile(self, program):
...         return evaluated(program)
...
...     def inspect(self, program):
...         return program.to_text()
>>> fg.jit(lambda x: x * x, backend=Plain())(3.0)
Tensor(9.0)

``fg.testing.check_backend`` runs every kind of program through a backend:

>>> fg.testing.check_backend(Plain(), kinds=("elementwise", "guards"))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, Protocol, TypeAlias

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.specs import Spec
from funcgrad._core.trace import Raw
from funcgrad._programs.equation import Equation
from funcgrad._programs.program import Program
from funcgrad.errors import GuardError

MISS: Final[Any] = object()
"""Returned by specialized code for a call that it does not handle."""


class DirectlyCalled:
    """The base class of functions whose calls a backend's machine code may take.

    Attributes
    ----------
    _ways : tuple
        Tables of the backend's, which are tried one after the other, and last a function in Python,
        which takes all calls.
    taken_by : object
        The machine code that takes calls of the class.
    """

    __slots__ = ("_ways",)
    _ways: tuple[Any, ...]
    taken_by: ClassVar[object] = None


@dataclass(frozen=True, slots=True)
class OutsidePlaces:
    """The outside values that a program relies on, and where they are.

    Attributes
    ----------
    attributes : tuple of (owner, name, value)
        Attributes of Python's functions and cells, and slots of objects that have one slot.
    entries : tuple of (dict, key, value)
        The value is ``MISS`` where the key is missing.
    sizes : tuple of (dict, size)
    others : callable, optional
        Returns whether all other outside values are unchanged.
    """

    attributes: tuple[tuple[Any, str, Any], ...]
    entries: tuple[tuple[Any, str, Any], ...]
    sizes: tuple[tuple[Any, int], ...]
    others: Callable[[], bool] | None


@dataclass(frozen=True, slots=True)
class Direct:
    """How a backend's machine code takes the calls of users' functions.

    Attributes
    ----------
    table : callable
        From the types of the arguments' leaves, the outside values, and the function that joins
        results (None for one result, ``tuple``, or another) to a table for ``DirectlyCalled``; None
        if such calls are left to Python.
    take_calls : callable
        Has the machine code take the calls of a class.
    """

    table: Callable[[Sequence[type[Any]], OutsidePlaces, Callable[..., Any] | None], Any]
    take_calls: Callable[[type[DirectlyCalled]], None]


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled program.

    Attributes
    ----------
    run : callable
        ``(*raw inputs) -> raw outputs``, or None if a guard of the program fails. The inputs have
        the shapes, dtypes and weakness of ``program.inputs``; ``run`` need not check. An output
        is a Python number if the program marks it as weak, else an array or a NumPy scalar.
        ``run`` neither writes to its inputs nor keeps them, but outputs may be views of inputs. It
        raises errors of operations unchanged. It keeps no state between calls, and many threads
        may call it at once.

        A guard is checked as soon as its variable is known, before anything that might fail if
        the guard does. ``program.index.guards`` lists guards by variable. Guards of inputs and
        constants are listed under -1, and are checked before the first equation.
    warns : bool
        Whether NumPy may warn of overflow and the like in ``run``. The caller silences NumPy then.
    is_fresh : bool
        Whether all results of ``run`` are new arrays, never views of its inputs.
    direct : Direct, optional
    follow : callable, optional
        From a spec to the function that makes a tensor of an output of ``run``, where outputs are
        handles on a device rather than raw values.
    """

    run: Callable[..., tuple[Any, ...] | None]
    warns: bool = True
    is_fresh: bool = False
    direct: Direct | None = None
    follow: Callable[[Spec], Callable[[Any], Any]] | None = None


def evaluated(program: Program) -> Compiled:
    """Return a "compiled" program that evaluates the program, one operation after another."""

    def run(*values: Raw) -> tuple[Any, ...] | None:
        try:
            return tuple(program.evaluate(values))
        except GuardError:
            return None

    return Compiled(run)


class Backend(Protocol):
    """A compiler of programs. It has no state, so one object can be shared."""

    @property
    def name(self) -> str:
        """The name by which users choose the backend."""
        ...

    def supports(self, program: Program) -> bool:
        """Whether the backend can compile a program."""
        ...

    def prepare(self, program: Program, relaxed: bool) -> Program:
        """Rewrite an optimized program to the form that this backend runs best.

        Inputs and outputs stay the same. Derivative rules of calls may be dropped, since the result
        is not differentiated. If ``relaxed``, results may differ in their last digits.

        A backend may return the program unchanged. A backend that generates code for operations
        replaces calls by their equations (``_programs.inline.inlined``) and operations that it
        lacks by their bodies (``_backends.decompose.decomposed``). It does the same in the programs
        of loops and branches, which are not optimized yet
        (``_programs.inline.with_programs_inside``). If it still cannot translate an operation, the
        compiled program evaluates it on raw values, by ``trace.bind``.
        """
        ...

    def compile(self, program: Program) -> Compiled:
        """Compile a program."""
        ...

    def inspect(self, program: Program) -> str:
        """The compiled form of a program as readable text."""
        ...


Handle: TypeAlias = Any
"""The name that a device has for an array: an object of any kind."""


class DeviceBackend(Backend, Protocol):
    """A backend that keeps its own values: a device, such as the memory of a graphics card.

    Beside the members of ``Backend`` it moves arrays. The function that it compiles takes and
    returns *handles*: objects of any kind, one for each array on the device, which never change,
    and which Python frees when nobody refers to them. ``funcgrad._backends.devices`` makes tensors
    of handles; a backend need not know tensors.

    An input of ``Compiled.run`` is a handle, a Python number where the program's input is weak, or
    a raw value of the input's shape and dtype, which ``run`` moves to the device. An output is a
    handle, or a Python number where the program's output is weak. Constants of the program are raw
    values; they are moved once. Without guards, ``run`` copies nothing to the host.

    Three more members are optional. ``imported(array)`` copies an array of another library's, which
    has ``__dlpack__``, and returns its handle, shape and dtype; without it, such an array has to be
    in main memory. ``exported(handle)`` returns a copy that has ``__dlpack__``; without it, tensors
    are exported from main memory. ``sent(handle, other)`` copies an array to another device, and
    returns its handle there; without it, or if it returns None, the copy passes main memory.
    """

    @property
    def calls_host(self) -> bool:
        """Whether a compiled program may evaluate an operation on the host, in its midst."""
        ...

    def put(self, array: Raw) -> Handle:
        """Copy an array or a NumPy scalar to the device; return its handle.

        The array is never written to afterwards, so the handle may share its memory.
        """
        ...

    def get(self, handle: Handle) -> np.ndarray[Any, Any]:
        """Copy an array to the host, after the operations that compute it.

        Errors of these operations are raised here at the latest.
        """
        ...

    def lacks(self, program: Program) -> Sequence[Equation]:
        """The equations of a prepared program, also in its loops and branches, that the device
        cannot compute.

        They are evaluated on the host: if ``calls_host``, by the compiled program, and else between
        programs of the other equations; then ``compile`` never gets such a program.
        """
        ...
