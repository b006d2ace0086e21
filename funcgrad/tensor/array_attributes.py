"""Attributes of other libraries' arrays that tensors lack, each with a replacement.

There are three kinds. Attributes that only other libraries' tensors have raise ``AttributeError``,
so that ``hasattr`` and ``getattr`` with a default work. Methods that would write to the tensor
exist, and raise an error. So does assignment to attributes that are writable in NumPy.

>>> from funcgrad import tensor
>>> t = tensor([1.0, 2.0])
>>> hasattr(t, "backward"), hasattr(t, "sort")
(False, True)
>>> t.detach()
Traceback (most recent call last):
funcgrad.errors.MissingAttributeError: Tensors have no detach: fg.stop_gradient(t) is t without...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NoReturn

from funcgrad._core.trace import TracedValue
from funcgrad.errors import ImmutableAttributeError, ImmutableError, MissingAttributeError

_NO_GRAPH: Final = (
    "tensors record no graph. Write the loss as a function of its parameters, and"
    " fg.grad(loss)(params), or fg.value_and_grad(loss)(params), is the gradient"
)
_CPU: Final = "tensors are in main memory, like NumPy arrays; leave it out, or t.astype(dtype)"

_ABSENT: Final[Mapping[str, str]] = MappingProxyType(
    {
        # PyTorch and TensorFlow: state in tensors.
        "backward": _NO_GRAPH,
        "grad": f"nothing accumulates in a tensor, and {_NO_GRAPH}",
        "grad_fn": _NO_GRAPH,
        "is_leaf": _NO_GRAPH,
        "zero_grad": f"nothing accumulates in a tensor, and {_NO_GRAPH}",
        "retain_grad": 'fg.probe(t, "name") marks a value whose gradient fg.grad returns too',
        "requires_grad": "not needed; fg.grad(f, argnums=...) selects the arguments",
        "requires_grad_": "not needed; fg.grad(f, argnums=...) selects the arguments",
        "detach": "fg.stop_gradient(t) is t without its derivative",
        "detach_": "fg.stop_gradient(t) is t without its derivative",
        "clone": "tensors never change, so they need no copy; leave it out",
        "contiguous": "leave it out; NumPy accepts any layout",
        # Device and dtype.
        "numpy": "np.asarray(t) is a read-only view of it as an array, np.array(t) a copy",
        "cpu": _CPU,
        "cuda": _CPU,
        "to": _CPU,
        "type": "t.dtype is its dtype, t.astype(dtype) converts",
        "half": "t.astype(fnp.float16)",
        "float": "t.astype(fnp.float32)",
        "double": "t.astype(fnp.float64)",
        "int": "t.astype(fnp.int32)",
        "long": "t.astype(fnp.int64)",
        "bool": "t.astype(bool)",
        "block_until_ready": "operations return when their result is complete; leave it out",
        # Shapes under other names.
        "dim": "t.ndim",
        "numel": "t.size",
        "permute": "t.transpose(axes)",
        "unsqueeze": "fnp.expand_dims(t, axis), or t[:, None]",
        "expand": "fnp.broadcast_to(t, shape)",
        "expand_as": "fnp.broadcast_to(t, other.shape)",
        "view": "t.reshape(shape); np.asarray(t).view(dtype) reads the bytes as another dtype",
        # Functions as methods.
        **{name: f"fnp.{name}(t)" for name in "abs cos exp log pow sin sqrt tanh where".split()},
        **{name: f"fg.nn.{name}(t)" for name in "relu sigmoid softmax log_softmax".split()},
        "mm": "a @ b",
        "matmul": "a @ b",
        "bmm": "a @ b",
        "norm": "fnp.sqrt(fnp.sum(t * t))",
        # NumPy: memory.
        "base": "np.asarray(t).base",
        "choose": "fnp.choose(t, choices)",
        "compress": "fnp.compress(condition, t, axis)",
        "ctypes": "np.asarray(t).ctypes",
        "data": "fg.stop_gradient(t) is t without its derivative, np.asarray(t).data its buffer",
        "dump": "pickle.dump(t, file), or np.save(file, t)",
        "dumps": "pickle.dumps(t)",
        "getfield": "np.asarray(t).getfield(dtype, offset)",
        "tofile": "np.asarray(t).tofile(file)",
        "tostring": "t.tobytes()",
    }
)
"""Attributes that tensors lack, each with an expression to write instead."""

_WRITERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "fill": "t = fnp.full_like(t, value)",
        "itemset": "t = t.at[i].set(value)",
        "partition": "t = fnp.partition(t, kth, axis)",
        "put": "t = t.ravel().at[indices].set(values).reshape(t.shape)",
        "resize": "t = fnp.resize(t, shape), which repeats the elements, or fnp.pad for zeros",
        "setfield": "np.array(t), which is a copy that can be written to",
        "setflags": "np.array(t), which is a copy that can be written to",
        "sort": "t = fnp.sort(t, axis)",
        "add_": "t = t + other",
        "copy_": "t = other",
        "div_": "t = t / other",
        "fill_": "t = fnp.full_like(t, value)",
        "mul_": "t = t * other",
        "sub_": "t = t - other",
        "zero_": "t = fnp.zeros_like(t)",
    }
)
"""Methods that write to arrays, and what to write instead."""

_ASSIGNED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "T": "t = value.T",
        "dtype": "t = t.astype(dtype), or np.asarray(t).view(dtype) for the same bytes",
        "flat": "t = fnp.broadcast_to(value, t.shape)",
        "imag": "t = t.real + 1j * value",
        "mT": "t = value.mT",
        "real": "t = value + 1j * t.imag, or t = value where t is real",
        "shape": "t = t.reshape(shape)",
    }
)
"""Attributes of arrays that can be assigned to, and what to write instead."""


class _Absent:
    """A descriptor of a missing attribute: reading it raises an error with advice."""

    __slots__ = ("_advice", "_name")

    def __init__(self, name: str, advice: str) -> None:
        self._name = name
        self._advice = advice

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise MissingAttributeError(f"Tensors have no {self._name}: {self._advice}.")


def _refusing(name: str, advice: str) -> Callable[..., NoReturn]:
    """Make a method that raises an error with advice instead of writing."""

    def method(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise ImmutableError(f"t.{name}() would write to t, and tensors never change: {advice}.")

    method.__name__ = name
    method.__doc__ = f"Raises ImmutableError: {advice}."
    return method


def _fixed(name: str) -> Callable[[Any, Any], NoReturn]:
    """Make a setter that raises an error with advice."""
    advice = f"Write {_ASSIGNED[name]}" if name in _ASSIGNED else "Make another one"

    def assign(self: TracedValue, value: object) -> NoReturn:
        raise ImmutableAttributeError(f"t.{name} = ... : tensors never change. {advice}.")

    return assign


class AbsentAttributes(TracedValue):
    """Attributes that raise errors with advice. (Type checkers do not see them.)"""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        """Make assignment to any property of a class of tensors an error with advice."""
        for name, value in tuple(vars(cls).items()):
            if isinstance(value, property) and value.fset is None:
                setattr(cls, name, value.setter(_fixed(name)))

    def __dir__(self) -> Iterable[str]:
        return [name for name in super().__dir__() if name not in _ABSENT and name not in _WRITERS]


for _name, _advice in _ABSENT.items():
    setattr(AbsentAttributes, _name, _Absent(_name, _advice))
for _name, _advice in _WRITERS.items():
    setattr(AbsentAttributes, _name, _refusing(_name, _advice))
