"""The exceptions that funcgrad raises: each says what happened, why, and what to do.

The tree, with the built-in exception that Python users would catch for the same mistake::

    FuncgradError                      everything below
    ├── ShapeError          ValueError shapes, sizes or axes that do not fit
    │   ├── AxisError       IndexError an axis or an index outside of an array
    │   ├── MatrixShapeError LinAlgError a matrix that is not square, or an array that is no matrix
    │   ├── ScalarError     TypeError  one Python number of an array that has not one element
    │   └── UnsizedError    TypeError  the length, or the elements one by one, of what has no axes
    ├── DtypeError          TypeError  a dtype that an operation has no meaning for
    │   └── IndexKindError  IndexError a key that is no integer, slice or mask
    ├── DifferentiationError TypeError something asked of a derivative that it does not have
    │   └── DegenerateError LinAlgError a derivative of eigenvectors that are not determined
    ├── FunctionError       TypeError  something that is no function where one is needed
    ├── ArgumentError       ValueError a number or an option that an operation does not allow
    │   ├── MatrixError     LinAlgError a matrix that is singular, or not positive definite
    │   └── RangeError      OverflowError a number outside of what a dtype can hold
    ├── ConvergenceError    RuntimeError an iteration that did not come to its end
    ├── BatchError          ValueError batch axes or batch sizes that do not fit
    ├── TreeError           ValueError pytrees whose structures do not match
    │   └── LeafError       TypeError  an object in a pytree that is no array
    ├── ImmutableError      TypeError  an attempt to write to a value
    │   └── ImmutableAttributeError AttributeError an assignment to an attribute
    ├── MissingAttributeError AttributeError what other libraries' tensors have and these lack
    ├── MissingOptionError  TypeError  an option that other libraries have and these functions lack
    ├── MissingPackageError ImportError a function whose evaluator, another package, is not there
    ├── TracerError         TypeError  a traced value used where a concrete one is needed
    │   └── EscapedTracerError         a traced value used after its transformation ended
    ├── DlpackError         BufferError an array that DLPack cannot hand on as it was asked to
    ├── ProgramError        ValueError a program that is not well formed
    │   └── GuardError                 a program called where its function would take another path
    ├── UnknownFunctionError NotImplementedError a NumPy function that funcgrad does not have
    └── CheckError          AssertionError  a derivative that a check found wrong

``LinAlgError`` is ``numpy.linalg``'s, a ``ValueError``.

>>> issubclass(ShapeError, ValueError) and issubclass(EscapedTracerError, TracerError)
True
"""

from collections.abc import Sequence

from numpy.linalg import LinAlgError

from funcgrad.users_line import libraries_calls, users_line

__all__ = [
    "ArgumentError",
    "AxisError",
    "BatchError",
    "CheckError",
    "ConvergenceError",
    "DegenerateError",
    "DifferentiationError",
    "DlpackError",
    "DtypeError",
    "EscapedTracerError",
    "FuncgradError",
    "FunctionError",
    "GuardError",
    "ImmutableAttributeError",
    "ImmutableError",
    "IndexKindError",
    "LeafError",
    "MatrixError",
    "MatrixShapeError",
    "MissingAttributeError",
    "MissingOptionError",
    "MissingPackageError",
    "ProgramError",
    "RangeError",
    "ScalarError",
    "ShapeError",
    "TracerError",
    "TreeError",
    "UnknownFunctionError",
    "UnsizedError",
]


def __dir__() -> list[str]:
    """The public names alone, for completion; modules that hold parts are not among them."""
    return list(__all__)


class FuncgradError(Exception):
    """The root of all that funcgrad raises on purpose."""


class ShapeError(FuncgradError, ValueError):
    """Shapes, sizes or axes do not fit each other."""


class AxisError(ShapeError, IndexError):
    """An axis or an index lies outside of an array, or indices do not fit each other."""


class MatrixShapeError(ShapeError, LinAlgError):
    """An array that is no matrix, or no square one, where linear algebra needs one."""


class ScalarError(ShapeError, TypeError):
    """An array that has not one element is no Python number."""


class UnsizedError(ShapeError, TypeError):
    """An array without axes has no length and no elements to iterate over."""


class DtypeError(FuncgradError, TypeError):
    """An operation has no meaning for the dtype that it was given."""


class IndexKindError(DtypeError, IndexError):
    """A key that is no integer, no slice, no mask, and nothing else that chooses elements."""


class DifferentiationError(FuncgradError, TypeError):
    """A derivative was asked for where none is defined."""


class DegenerateError(DifferentiationError, LinAlgError):
    """The result to differentiate is not determined, as eigenvectors to equal eigenvalues."""


class FunctionError(FuncgradError, TypeError):
    """Something that cannot be called was given where a function is needed."""


class ArgumentError(FuncgradError, ValueError):
    """The value of an argument lies outside of what an operation allows."""


class MatrixError(ArgumentError, LinAlgError):
    """A matrix is singular, not positive definite, or none that an operation is defined for."""


class RangeError(ArgumentError, OverflowError):
    """A number lies outside of what a dtype can hold."""


class ConvergenceError(FuncgradError, RuntimeError):
    """An iteration did not come to its end, so there is no solution to go on with."""


class BatchError(FuncgradError, ValueError):
    """Batch axes or batch sizes do not fit the arguments of a batched function."""


class TreeError(FuncgradError, ValueError):
    """The structures of pytrees do not match."""


class LeafError(TreeError, TypeError):
    """An object inside a pytree is neither a container nor an array."""


class ImmutableError(FuncgradError, TypeError):
    """Values never change; this was an attempt to write to one."""


class ImmutableAttributeError(ImmutableError, AttributeError):
    """Values never change; this was an assignment to an attribute of one."""


class MissingAttributeError(FuncgradError, AttributeError):
    """Tensors of other libraries have this attribute; here something else is written."""


class MissingOptionError(FuncgradError, TypeError):
    """Functions of other libraries have this option; here something else is written."""


class MissingPackageError(FuncgradError, ImportError):
    """A function is evaluated by another package, which is not installed."""


class TracerError(FuncgradError, TypeError):
    """A traced value was used where only a concrete one has a meaning.

    Attributes
    ----------
    line : str
        File and line of the user's that used it, which the message ends with.
    remedy : str
        What is written in place of the function of another library that it was handed to there;
        empty where that is not known.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.line = users_line()
        self.remedy = _remedy(libraries_calls())

    def __str__(self) -> str:
        message: str = self.args[0]
        if self.remedy and self.remedy not in message:
            message = f"{message} {self.remedy}"
        known = not self.line or self.line in message  # as when it tells of another such error
        return message if known else f"{message} (At {self.line}.)"


def _remedy(calls: Sequence[tuple[str, str]]) -> str:
    """Find what to write in place of the first of some functions that there is an answer for."""
    if not calls:
        return ""
    from funcgrad.answers import advice_of_call

    return next((advice for call in calls if (advice := advice_of_call(*call))), "")


class EscapedTracerError(TracerError):
    """A traced value was used after the transformation that made it had ended."""


class DlpackError(FuncgradError, BufferError):
    """An array that DLPack cannot hand on as it was asked to."""


class ProgramError(FuncgradError, ValueError):
    """A program is not well formed."""


class GuardError(ProgramError):
    """A program was called with arguments for which its function would take another path."""


class UnknownFunctionError(FuncgradError, NotImplementedError):
    """A NumPy function was applied to tensors that funcgrad does not have."""


class CheckError(FuncgradError, AssertionError):
    """A check found two results that should agree and do not."""
