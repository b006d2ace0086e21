"""The exceptions of funcgrad. Each message names the mistake, its reason, and the remedy.

The classes, with the built-in exception from which each derives::

    FuncgradError                      everything below
    ├── ShapeError          ValueError shapes, sizes or axes that do not fit
    │   ├── AxisError       IndexError an axis or an index outside of an array
    │   ├── MatrixShapeError LinAlgError an array that is not a matrix, or not a square one
    │   ├── ScalarError     TypeError  a Python number of an array with zero or several elements
    │   └── UnsizedError    TypeError  the length of a 0-d array, or iteration over one
    ├── DtypeError          TypeError  a dtype that an operation is not defined for
    │   └── IndexKindError  IndexError a key that is not an integer, slice or mask
    ├── DifferentiationError TypeError a derivative that is not defined
    │   └── DegenerateError LinAlgError a derivative of eigenvectors that are not unique
    ├── FunctionError       TypeError  an object that is not a function where one is needed
    ├── ArgumentError       ValueError a value or an option that is not allowed
    │   ├── MatrixError     LinAlgError a matrix that is singular, or not positive definite
    │   └── RangeError      OverflowError a number outside the range of a dtype
    ├── KeyReuseError       RuntimeError a key that is used twice for random numbers
    ├── NonFiniteError      FloatingPointError a result that is NaN or infinite, with its causes
    ├── ConditionError      ValueError a condition of ``fg.debug.check`` that does not hold
    ├── ConvergenceError    RuntimeError an iteration that did not converge
    ├── BatchError          ValueError batch axes or batch sizes that do not fit
    ├── TreeError           ValueError pytrees whose structures do not match
    │   └── LeafError       TypeError  an object in a pytree that is not an array
    ├── ImmutableError      TypeError  an attempt to write to a value
    │   └── ImmutableAttributeError AttributeError an assignment to an attribute
    ├── MissingAttributeError AttributeError an attribute that other libraries' tensors have
    ├── MissingOptionError  TypeError  an option that other libraries' functions have
    ├── MissingPackageError ImportError a function that needs a package which is not installed
    ├── TracerError         TypeError  a traced value used where a concrete one is needed
    │   └── EscapedTracerError         a traced value used after its transformation ended
    ├── DeviceError         ValueError a value that is on the wrong device
    ├── DlpackError         BufferError an array that cannot be exported by DLPack as requested
    ├── ProgramError        ValueError a program that is not well formed
    │   └── GuardError                 a program whose function would take another path
    ├── FileFormatError     ValueError a file that is damaged, or of another format
    ├── StorageError        OSError    a file that cannot be read or written
    │   └── MissingFileError FileNotFoundError a file that does not exist
    ├── WorkerError         RuntimeError workers that are gone, or differ from the caller
    │   └── ChunkError                 a chunk of data on which the workers fail
    ├── UnknownFunctionError NotImplementedError a NumPy function that funcgrad lacks
    └── CheckError          AssertionError  a derivative that a check found wrong

The documentation has a page for each error, with an example and its repair: search the site for the
name of the error.

Tracebacks omit this library's frames, except for the first and the last after each of the user's;
``FUNCGRAD_TRACEBACKS=full`` in the environment shows all.

``LinAlgError`` is ``numpy.linalg.LinAlgError``, a ``ValueError``.

>>> issubclass(ShapeError, ValueError) and issubclass(EscapedTracerError, TracerError)
True
"""

from collections.abc import Sequence
from typing import Any, Self

from numpy.linalg import LinAlgError

from funcgrad._base.users_line import libraries_calls, users_line

__all__ = [
    "ArgumentError",
    "AxisError",
    "BatchError",
    "BatchWarning",
    "CheckError",
    "ChunkError",
    "ConditionError",
    "ConvergenceError",
    "DegenerateError",
    "DeviceError",
    "DeviceWarning",
    "DifferentiationError",
    "DlpackError",
    "DtypeError",
    "EscapedTracerError",
    "FileFormatError",
    "FuncgradDeprecationWarning",
    "FuncgradError",
    "FunctionError",
    "GuardError",
    "ImmutableAttributeError",
    "ImmutableError",
    "IndexKindError",
    "KeyReuseError",
    "KeyReuseWarning",
    "LeafError",
    "MatrixError",
    "MatrixShapeError",
    "MissingAttributeError",
    "MissingFileError",
    "MissingOptionError",
    "MissingPackageError",
    "NonFiniteError",
    "ProgramError",
    "RangeError",
    "ScalarError",
    "ShapeError",
    "StorageError",
    "TracerError",
    "TreeError",
    "UnknownFunctionError",
    "UnsizedError",
    "WorkerError",
]

__dir__ = __all__.copy  # completion shows the public names, without the modules


class FuncgradError(Exception):
    """The base class of all exceptions that funcgrad raises on purpose."""


class FuncgradDeprecationWarning(DeprecationWarning):
    """A former name is used, which a later version will not have; the message says the new name.

    Python shows it in scripts and notebooks, and pytest in tests. To make it an error, call
    ``warnings.simplefilter("error", fg.errors.FuncgradDeprecationWarning)``.
    """


class ShapeError(FuncgradError, ValueError):
    """Shapes, sizes or axes do not fit each other."""


class AxisError(ShapeError, IndexError):
    """An axis or an index lies outside of an array, or indices do not fit each other."""


class MatrixShapeError(ShapeError, LinAlgError):
    """An array is not a matrix, or not square, where linear algebra needs it."""


class ScalarError(ShapeError, TypeError):
    """An array with zero or several elements cannot be converted to a Python number."""


class UnsizedError(ShapeError, TypeError):
    """An array without axes has no length and no elements to iterate over."""


class DtypeError(FuncgradError, TypeError):
    """An operation is not defined for the dtype of an argument."""


class IndexKindError(DtypeError, IndexError):
    """An indexing key is not an integer, slice, mask, or anything else that selects elements."""


class DifferentiationError(FuncgradError, TypeError):
    """A derivative is undefined."""


class DegenerateError(DifferentiationError, LinAlgError):
    """The result to differentiate is not unique, such as eigenvectors of equal eigenvalues."""


class FunctionError(FuncgradError, TypeError):
    """An object that cannot be called was passed where a function is needed."""


class ArgumentError(FuncgradError, ValueError):
    """The value of an argument is not allowed."""


class MatrixError(ArgumentError, LinAlgError):
    """A matrix is singular, not positive definite, or otherwise not allowed by an operation."""


class RangeError(ArgumentError, OverflowError):
    """A number is outside of the range of a dtype."""


class KeyReuseError(FuncgradError, RuntimeError):
    """A key is used twice for random numbers, within ``fg.random.check_keys``."""


class KeyReuseWarning(UserWarning):
    """A program draws random numbers twice from one variable."""


class NonFiniteError(FuncgradError, FloatingPointError):
    """A result is NaN or infinite, within one of the checks of ``fg.debug``.

    Attributes
    ----------
    causes : tuple of ``fg.debug.Cause``
        The causes, ordered by the number of elements they affect, the largest first.
    """

    def __init__(self, message: str, causes: tuple[Any, ...] = ()) -> None:
        super().__init__(message)
        self.causes = causes

    def __reduce__(self) -> tuple[type[Self], tuple[str, tuple[Any, ...]]]:
        return type(self), (str(self), self.causes)


class ConditionError(FuncgradError, ValueError):
    """A condition of ``fg.debug.check`` does not hold."""


class ConvergenceError(FuncgradError, RuntimeError):
    """An iteration did not converge to a solution."""


class BatchError(FuncgradError, ValueError):
    """Batch axes or sizes do not fit a function's arguments, or its results for the examples."""


class BatchWarning(UserWarning):
    """A batched function takes so many paths that it is as slow as a loop over the examples."""


class TreeError(FuncgradError, ValueError):
    """The structures of pytrees do not match."""


class LeafError(TreeError, TypeError):
    """An object inside a pytree is neither a container nor an array."""


class ImmutableError(FuncgradError, TypeError):
    """Values are immutable; this was an attempt to write to one."""


class ImmutableAttributeError(ImmutableError, AttributeError):
    """Values are immutable; this was an assignment to an attribute of one."""


class MissingAttributeError(FuncgradError, AttributeError):
    """Other libraries' tensors have this attribute; the message says what to write instead."""

    def __init__(self, message: str, name: str = "") -> None:
        # Without ``obj``, Python's traceback does not add a guess ("Did you mean ...").
        super().__init__(message, name=name, obj=None)


class MissingOptionError(FuncgradError, TypeError):
    """Other libraries' functions have this option; the message says what to write instead."""


class MissingPackageError(FuncgradError, ImportError):
    """A function needs another package, which is not installed."""


class TracerError(FuncgradError, TypeError):
    """A traced value was used where a concrete value is needed.

    Attributes
    ----------
    line : str
        The user's file and line that used the value; the message ends with it.
    remedy : str
        The replacement of the other library's function that received the value; empty if unknown.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.line = users_line()
        self.remedy = _remedy(libraries_calls())

    def __str__(self) -> str:
        message: str = self.args[0]
        if self.remedy and self.remedy not in message:
            message = f"{message} {self.remedy}"
        if not self.line or self.line in message:  # as when it quotes another such error
            return message
        sentences, newline, table = message.partition("\n")
        return f"{sentences} (At {self.line}.){newline}{table}"


def _remedy(calls: Sequence[tuple[str, str]]) -> str:
    """Find a replacement for the first of these functions that has a known one."""
    if not calls:
        return ""
    from funcgrad._hints.other_libraries import advice_of_call

    return next((advice for call in calls if (advice := advice_of_call(*call))), "")


class EscapedTracerError(TracerError):
    """A traced value was used after the end of the transformation that made it."""


class DeviceError(FuncgradError, ValueError):
    """Values are on different devices, or a device does not exist or lacks an operation."""


class DeviceWarning(RuntimeWarning):
    """Values are copied between a device and the host, since the device lacks an operation."""


class DlpackError(FuncgradError, BufferError):
    """An array cannot be exported by DLPack as requested."""


class ProgramError(FuncgradError, ValueError):
    """A program is not well formed."""


class GuardError(ProgramError):
    """A program was called with arguments for which its function would take another path."""


class FileFormatError(FuncgradError, ValueError):
    """A file is truncated, damaged, or of an unsupported format."""


class StorageError(FuncgradError, OSError):
    """A file cannot be read or written.

    Attributes
    ----------
    errno : int or None
        The system's error code, such as ``errno.ENOSPC``.
    """

    def __init__(self, message: str, number: int | None = None) -> None:
        super().__init__(message)
        self.errno = number

    def __reduce__(self) -> tuple[type[Self], tuple[str, int | None]]:
        return type(self), (str(self), self.errno)


class MissingFileError(StorageError, FileNotFoundError):
    """The file does not exist."""


class WorkerError(FuncgradError, RuntimeError):
    """The workers of ``fg.parallel`` are gone, or one has other versions or gives other results."""


class ChunkError(WorkerError):
    """A chunk of data cannot be loaded, or the function or its workers fail on it.

    Attributes
    ----------
    index : int
        The position of the chunk.
    """

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message)
        self.index = index

    def __reduce__(self) -> tuple[type[Self], tuple[str, int]]:
        return type(self), (str(self), self.index)


class UnknownFunctionError(FuncgradError, NotImplementedError):
    """A NumPy function that funcgrad lacks was applied to tensors."""


class CheckError(FuncgradError, AssertionError):
    """A check found two results that should agree and do not."""
