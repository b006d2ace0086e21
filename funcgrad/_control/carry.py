"""The shapes and dtypes of a loop's carry and of a branch's results; errors where they change.

>>> carried = CarrySpecs.of("scan", "init", {"x": 2.0})
>>> carried.specs
[Spec(shape=(), dtype=dtype('float64'), weak=True)]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import index as as_index
from typing import Any, TypeVar

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._base.users_line import users_line
from funcgrad._control.spread import spread
from funcgrad._control.values import strong
from funcgrad._core import pytrees
from funcgrad._core.pytrees import Structure
from funcgrad._core.specs import Spec, dtype_of, shape_of
from funcgrad._core.trace import RAW, STRONG, TracedValue, Value, concrete
from funcgrad._core.users_values import ArrayLike, described, operand
from funcgrad._hooks.key_uses import repetition
from funcgrad._programs.equation import as_spec, gives_way, spec_inside
from funcgrad._programs.program import Program
from funcgrad._transforms.abstract_stager import staged_body
from funcgrad._transforms.arguments import is_whole, values_of
from funcgrad._transforms.probe import probe_again, running_probes
from funcgrad._transforms.stager import Stager
from funcgrad.errors import (
    ArgumentError,
    DtypeError,
    FuncgradError,
    FunctionError,
    ShapeError,
    TreeError,
)
from funcgrad.tensor.tensor import Tensor, strong_truth, wrap

Error = TypeVar("Error", bound=FuncgradError)


def placed(error_class: type[Error], message: str) -> Error:
    """Return an error whose message ends with the user's line."""
    line = users_line()
    return error_class(f"{message} (At {line}.)" if line else message)


def placed_values(
    operation: str, leaves: Sequence[object], structure: Structure, name: Callable[[], str]
) -> list[Value]:
    """Return the values of a user's leaves, or raise an error with the user's line."""
    try:
        return values_of(operation, leaves, structure, name)
    except FuncgradError as error:
        raise placed(type(error), str(error)) from None


def handed(values: Sequence[Value]) -> list[Value]:
    """Return values as a body gets them, with NumPy's truth values where Python's were.

    In Python ``~True`` would be -2, and ``True + True`` would be 2.
    """
    return [value if type(value) in STRONG else strong_truth(value) for value in values]


def placed_operand(operation: str, what: str, value: ArrayLike) -> Value:
    """Return the value of a user's array or number, or raise an error with the user's line."""
    try:
        return concrete(operand(value, operation))
    except FuncgradError as error:
        reason = str(error).removeprefix(f"{operation}: ")
        raise placed(type(error), f"{operation}: {what}: {reason}") from None


def count_of(operation: str, word: str, value: Any, least: int = 1, other: str = "") -> int:
    """Check that a user's number of things is an integer, and return it."""
    if not is_whole(value) or as_index(value) < least:
        what = "a positive integer" if least == 1 else f"an integer from {least} on"
        raise placed(ArgumentError, f"{operation}: {word} has to be {what}{other}, got {value!r}.")
    return as_index(value)


def single(
    operation: str, what: str, value: ArrayLike, noun: str, remedies: tuple[str, str] = ("", "")
) -> Value:
    """Check that a user's value is a single integer or truth value, as the noun says."""
    number = placed_operand(operation, what, value)
    if shape_of(number):
        raise placed(
            ShapeError,
            f"{operation}: {what} has to be one {noun}, got an array of shape"
            f" {shape_of(number)}.{remedies[0]}",
        )
    article, kinds = ("an", "iu") if noun == "integer" else ("a", "b")
    if dtype_of(number).kind not in kinds:
        raise placed(
            DtypeError,
            f"{operation}: {what} has to be {article} {noun}, got {dtype_of(number)}.{remedies[1]}",
        )
    return number


def described_spec(spec: Spec) -> str:
    """Describe a spec in an error."""
    if spec.weak:
        return f"a Python number ({spec.dtype})"
    return str(spec)


def alike(new: Any, old: Any) -> bool:
    """Whether a quick check shows that two trees have one structure, and leaves with equal specs.

    Loops check this at every step: for an array it takes 0.2 µs, while flattening a tree takes 2.
    """
    kind = type(new)
    if kind is not type(old):
        return False
    if kind is Tensor:
        new, old = new._value, old._value
        kind = type(new)
        if kind is not type(old):
            return False
    if kind is np.ndarray:
        return bool(new.shape == old.shape and new.dtype is old.dtype)
    if kind in RAW or new is None:
        return True
    if kind is tuple or kind is list:
        if len(new) != len(old):
            return False
        return False not in map(alike, new, old)
    if kind is dict:
        return new.keys() == old.keys() and all(alike(new[key], old[key]) for key in new)
    return isinstance(new, TracedValue) and alike(new._value, old._value)


def pair_of(operation: str, out: object) -> tuple[Any, Any]:
    """Check that the body of a scan returned a pair, and return it."""
    if type(out) is not tuple or len(out) != 2:
        raise placed(
            FunctionError,
            f"{operation}: the function has to return a pair (carry, y), but it returned"
            f" {described(out)}. Return (carry, None) if a step has no result.",
        )
    return out


@dataclass(slots=True)
class CarrySpecs:
    """The structure and the specs of a loop's carry.

    Attributes
    ----------
    operation : str
    structure : Structure
    specs : list of Spec
    values : list of values
        The first carry.
    numbers : list of bool
        Whether each leaf is a Python number in the carry that the user passed.
    """

    operation: str
    structure: Structure
    specs: list[Spec]
    values: list[Value]
    numbers: list[bool]

    @classmethod
    def of(cls, operation: str, name: str, tree: Any) -> CarrySpecs:
        """Read the specs from the first carry, a pytree that the user passes."""
        leaves, structure = pytrees.flatten(tree)
        begun = placed_values(operation, leaves, structure, lambda: name)
        values = handed(begun)
        numbers = [spec_inside(value).weak for value in begun]
        return cls(operation, structure, [*map(spec_inside, values)], values, numbers)

    @property
    def gives_way(self) -> bool:
        """Whether any leaf can still become an array, or a number of a later type."""
        return True in self.numbers

    def _becomes(self, k: int, new: Spec) -> bool:
        """Whether a leaf that began as a Python number becomes a value with another spec.

        It may already have become an array while another leaf was still a Python number.
        """
        spec = self.specs[k]
        if not self.numbers[k] or not gives_way(replace(spec, weak=True), new):
            return False
        higher = np.promote_types(spec.dtype, new.dtype) == new.dtype != spec.dtype
        return higher or (spec.weak and not new.weak)

    def tree(self, values: Sequence[Value] | None = None) -> Any:
        """Return values, by default the first, as the tree that the user's function gets."""
        carried = self.values if values is None else values
        return pytrees.unflatten(self.structure, [wrap(value) for value in carried])

    def flatten(self, tree: Any, step: str) -> list[Value]:
        """Return the values of a carry from the user's function, and check its structure."""
        leaves, structure = pytrees.flatten(tree)
        if structure != self.structure:
            try:
                pytrees.flatten_like(self.structure, tree, f"{self.operation}: the carry{step}")
            except FuncgradError as error:
                raise placed(
                    TreeError, f"{error}. The function has to return a carry like the one it gets."
                ) from None
        return placed_values(self.operation, leaves, structure, lambda: f"the carry{step}")

    def fit(self, values: Sequence[Value], step: str) -> tuple[list[Value], bool]:
        """Convert the Python numbers of a carry to arrays where ``specs`` has arrays.

        Returns the values, and whether ``specs`` has changed: a leaf that began as a Python number
        became an array or a number of a later type.
        """
        fitted, promoted = [], False
        for k, (value, spec) in enumerate(zip(values, self.specs, strict=True)):
            value_spec = spec_inside(value)
            if value_spec == spec:
                fitted.append(value)
            elif gives_way(value_spec, spec):
                fitted.append(as_spec(value, spec))
            elif self._becomes(k, value_spec):
                self.specs[k] = value_spec if spec.weak else strong(value_spec)
                promoted = True
                fitted.append(value)
            else:
                raise self._changed(k, value_spec, step)
        return fitted, promoted

    def promote(self) -> None:
        """Convert the first values to the specs that are known now."""
        self.values = [as_spec(x, spec) for x, spec in zip(self.values, self.specs, strict=True)]

    def staged(
        self,
        stager: Stager | None,
        run: Callable[[Sequence[Value]], list[Value]],
        others: Sequence[Spec],
        name: str,
    ) -> tuple[Program, list[Value]]:
        """Stage a body as a program of the carry and of other values; see ``staged_body``.

        The body is staged again until the specs of the carry no longer change. The loop begins with
        those specs.
        """
        place = f"fg.{self.operation}"

        def staged_with(specs: list[Spec]) -> tuple[tuple[Program, list[Value]], list[Spec]]:
            self.promote()
            return staged_body(stager, place, run, [*specs, *others], name), self.specs

        return spread(self.specs, staged_with, lambda _, spec: spec)[1]

    def next(self, tree: Any, step: str, is_first: bool, body: Callable[[Any], Any]) -> Any:
        """Return the next carry, from the tree that the user's function returned.

        A first step that makes an array of a Python number runs once more and begins with an array:
        the number may have given way to arrays of a lower precision.
        """
        before = [*self.specs]
        values, promoted = self.fit(self.flatten(tree, step), step)
        if promoted and not is_first:
            changed = zip(before, self.specs, strict=True)
            if any(old.dtype != new.dtype for old, new in changed):
                raise self.late(before, step)
            return self.tree(values)
        while promoted:
            self.promote()
            with probe_again(running_probes()), repetition():
                values, promoted = self.fit(self.flatten(body(self.tree()), step), step)
        return self.tree(values)

    def late(self, before: Sequence[Spec], step: str) -> Exception:
        """Return the error for a Python number that becomes an array after the first step."""
        k = next(k for k, spec in enumerate(before) if spec.dtype != self.specs[k].dtype)
        late_spec, self.specs[k] = self.specs[k], before[k]
        return self._changed(k, late_spec, step)

    def _changed(self, k: int, new: Spec, step: str) -> Exception:
        spec = self.specs[k]
        error_class = ShapeError if new.shape != spec.shape else DtypeError
        remedy = (
            "A loop carries arrays of one shape: put a growing array into the second result, or"
            " into an array that is there from the start."
            if new.shape != spec.shape
            else f"Convert it, with .astype({str(spec.dtype)!r}), or begin with an array of"
            f" {new.dtype}."
        )
        return placed(
            error_class,
            f"{self.operation}: the carry{self.structure.paths()[k]} came in as"
            f" {described_spec(spec)} and was returned as {described_spec(new)}{step}. {remedy}",
        )


def common_specs(
    operation: str, names: Sequence[str], structures: Sequence[Structure], specs: Sequence[Any]
) -> list[Spec]:
    """Return the specs of a choice's results, from the specs that its branches return.

    A Python number gives way to an array of its kind or a later one (bool, int, float, complex),
    and to a Python number of a later kind: the order of the branches does not matter. The dtype of
    an array never depends on other branches.

    Raises
    ------
    TreeError, ShapeError, DtypeError
        The branches disagree.
    """
    for name, structure in zip(names[1:], structures[1:], strict=True):
        if structure != structures[0]:
            raise placed(
                TreeError,
                f"{operation}: the branches return different trees: {names[0]} returns"
                f" {structures[0]}, and {name} returns {structure}.",
            )
    common: list[Spec] = list(specs[0])
    for name, branch_specs in zip(names[1:], specs[1:], strict=True):
        for k, (spec, other) in enumerate(zip(common, branch_specs, strict=True)):
            if gives_way(spec, other):
                common[k] = other
            elif spec != other and not gives_way(other, spec):
                error_class = ShapeError if spec.shape != other.shape else DtypeError
                raise placed(
                    error_class,
                    f"{operation}: the branches disagree about the result"
                    f"{structures[0].paths()[k]}: {names[0]} returns {described_spec(spec)},"
                    f" and {name} returns {described_spec(other)}. They have to return arrays"
                    " of one shape and dtype.",
                )
    return [strong(spec) if spec.dtype.kind == "b" else spec for spec in common]
