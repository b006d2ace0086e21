"""The exceptions that funcgrad raises: each says what happened, why, and what to do.

The tree, with the built-in exception that Python users would catch for the same mistake::

    FuncgradError                      everything below
    ├── ShapeError          ValueError shapes, sizes or axes that do not fit
    │   └── AxisError       IndexError an axis outside an array's dimensions
    ├── DtypeError          TypeError  a dtype that an operation has no meaning for
    ├── DifferentiationError TypeError something asked of a derivative that it does not have
    ├── ArgumentError       ValueError a number or an option that an operation does not allow
    ├── BatchError          ValueError batch axes or batch sizes that do not fit
    ├── TreeError           ValueError pytrees whose structures do not match
    │   └── LeafError       TypeError  an object in a pytree that is no array
    ├── ImmutableError      TypeError  an attempt to write to a value
    ├── TracerError         TypeError  a traced value used where a concrete one is needed
    │   └── EscapedTracerError         a traced value used after its transformation ended
    ├── ProgramError        ValueError a program that is not well formed
    │   └── GuardError                 a program called where its function would go another way
    ├── UnknownFunctionError NotImplementedError a NumPy function that funcgrad does not have
    └── CheckError          AssertionError  a derivative that a check found wrong

>>> issubclass(ShapeError, ValueError) and issubclass(EscapedTracerError, TracerError)
True
"""

__all__ = [
    "ArgumentError",
    "AxisError",
    "BatchError",
    "CheckError",
    "DifferentiationError",
    "DtypeError",
    "EscapedTracerError",
    "FuncgradError",
    "GuardError",
    "ImmutableError",
    "LeafError",
    "ProgramError",
    "ShapeError",
    "TracerError",
    "TreeError",
    "UnknownFunctionError",
]


class FuncgradError(Exception):
    """The root of all that funcgrad raises on purpose."""


class ShapeError(FuncgradError, ValueError):
    """Shapes, sizes or axes do not fit each other."""


class AxisError(ShapeError, IndexError):
    """An axis lies outside an array's dimensions."""


class DtypeError(FuncgradError, TypeError):
    """An operation has no meaning for the dtype that it was given."""


class DifferentiationError(FuncgradError, TypeError):
    """A derivative was asked for where none is defined."""


class ArgumentError(FuncgradError, ValueError):
    """The value of an argument lies outside of what an operation allows."""


class BatchError(FuncgradError, ValueError):
    """Batch axes or batch sizes do not fit the arguments of a batched function."""


class TreeError(FuncgradError, ValueError):
    """The structures of pytrees do not match."""


class LeafError(TreeError, TypeError):
    """An object inside a pytree is neither a container nor an array."""


class ImmutableError(FuncgradError, TypeError):
    """Values never change; this was an attempt to write to one."""


class TracerError(FuncgradError, TypeError):
    """A traced value was used where only a concrete one has a meaning."""


class EscapedTracerError(TracerError):
    """A traced value was used after the transformation that made it had ended."""


class ProgramError(FuncgradError, ValueError):
    """A program is not well formed."""


class GuardError(ProgramError):
    """A program was called with arguments for which its function would take another path."""


class UnknownFunctionError(FuncgradError, NotImplementedError):
    """A NumPy function was applied to tensors that funcgrad does not have."""


class CheckError(FuncgradError, AssertionError):
    """A check of derivatives found two results that should agree and do not."""
