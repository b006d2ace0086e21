"""Plans: the staged programs of a function, for each kind of chunk.

The caller stages the function, so users' code is not sent: a worker receives programs of funcgrad's
operations as JSON, and the arrays that the function closes over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from funcgrad._backends.devices.resident import Resident
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._base.locks import ProcessLock
from funcgrad._core import pytrees
from funcgrad._core.pytrees import Structure
from funcgrad._core.specs import Spec, spec_of
from funcgrad._core.trace import Value
from funcgrad._programs.extract import extract
from funcgrad._programs.program import Program
from funcgrad._staging.capture import Capture
from funcgrad._transforms.arguments import check_function
from funcgrad._transforms.stage import stage
from funcgrad.errors import ArgumentError, ShapeError, TreeError
from funcgrad.parallel.chunks import digest_of
from funcgrad.parallel.device_engine import Workers
from funcgrad.parallel.messages import ChunkProgram, StepCode
from funcgrad.tensor.tensor import wrap

Work: TypeAlias = Callable[[Any, Any, Any], Any]
"""The computation on a chunk: ``(params, args, chunk) -> pytree``."""
_LARGE: Final = 1024
"""Larger constants are sent as arrays, once to each worker, even if several programs use them."""
_MOST_PROGRAMS: Final = 64


@dataclass(frozen=True, slots=True)
class Job:
    """A call of a function of this package, with its options.

    ``roots`` are the user's functions; a plan is valid until an outside value that they read has
    changed. ``alike`` says whether the results of all chunks are combined, so that their shapes
    have to agree: by ``combine``, or else by a sum (in ``dtype``, if given). For the other options
    see ``value_and_grad``.
    """

    operation: str
    work: Work
    roots: tuple[Callable[..., Any], ...]
    executor: Workers
    keep: int | None
    timeout: float | None
    allow_other_bits: bool
    dtype: DTypeLike | None = None
    combine: Callable[[Any, Any], Any] | None = None
    alike: bool = True

    def dtype_of_sums(self) -> str | None:
        """The name of the dtype; empty for an unknown dtype."""
        with suppress(TypeError, ValueError):
            return None if self.dtype is None else np.dtype(self.dtype).name
        return ""

    def check(self) -> None:
        """Check functions and options.

        Raises
        ------
        FunctionError, ArgumentError
            A function or option is not allowed.
        """
        for root in self.roots:
            check_function(self.operation, root)
        keep, timeout, about = self.keep, self.timeout, f"{self.operation}: "
        if self.dtype_of_sums() not in (None, "float32", "float64", "complex64", "complex128"):
            about += f"dtype={self.dtype!r} is not a dtype for sums: 'float64' or None."
        elif keep is not None and (type(keep) is not int or keep < 0):
            about += f"keep has to be a number of bytes, got {keep!r}."
        elif timeout is not None and not (isinstance(timeout, (int, float)) and timeout > 0):
            about += f"timeout has to be a number of seconds, got {timeout!r}."
        else:
            return
        raise ArgumentError(about)


class StagingPlan:
    """The programs of a function for one kind of ``(params, args)``, of a structure ``inputs``.

    ``arrays`` has their large constants by digest. The first program sets the structure and the
    specs of combined results.
    """

    def __init__(self, job: Job, inputs: Structure) -> None:
        self._job, self._inputs = job, inputs
        self._lock = ProcessLock()
        self._captures: list[Capture] = []
        self._programs: tuple[ChunkProgram, ...] = ()
        self._code: StepCode | None = None
        self.arrays: dict[str, Any] = {}
        self.structure: Structure | None = None
        self.specs: tuple[Spec, ...] = ()

    def unchanged(self) -> bool:
        """Whether outside values that the user's functions read are unchanged, as far as known."""
        return all(capture.complete and capture.unchanged() for capture in self._captures)

    def knows(self, structure: Structure, leaves: Sequence[Value]) -> bool:
        """Whether a program for such a chunk exists, for at least one path."""
        specs = tuple([spec_of(leaf) for leaf in leaves])
        return any(p.structure == structure and p.specs == specs for p in self._programs)

    def code(self) -> StepCode:
        """Return everything that workers need to run the plan; a new object for new programs."""
        code, programs = self._code, self._programs
        if code is None or code.programs is not programs:
            combine = None if self._job.combine is None else self._combination(self._job.combine)
            code = StepCode(programs, combine, tuple(self.arrays), self._job.dtype_of_sums())
            self._code = code
        return code

    def result(self, leaves: Sequence[Any]) -> Any:
        """Make the tree of results from leaves."""
        assert self.structure is not None  # staged before the first result
        return pytrees.unflatten(self.structure, leaves)

    def stage(
        self,
        index: int,
        inputs: Sequence[Value],
        leaves: Sequence[Value],
        structure: Structure,
        tried: Sequence[ChunkProgram],
    ) -> None:
        """Stage the function on a chunk, for these leaves of ``(params, args)``.

        No existing program fits the chunk.

        Raises
        ------
        TreeError, ShapeError
            The chunk or its result differs from earlier ones.
        ArgumentError
            The function takes too many different paths, or cannot be staged.
        """
        operation = self._job.operation
        for before in self._programs[:1]:
            if before.structure != structure:
                raise TreeError(
                    f"{operation}: chunk {index} is {structure}, and the chunks before it are"
                    f" {before.structure}. All chunks have to have one structure."
                )
        if len(self._programs) >= _MOST_PROGRAMS:
            raise ArgumentError(
                f"{operation}: the function has taken {_MOST_PROGRAMS} different paths, or the"
                " chunks have as many shapes. Choose with fnp.where instead of `if`, and cut the"
                " data into chunks of one shape."
            )
        results: list[Structure] = []

        def flat(*values: Any) -> tuple[Any, ...]:
            params, args = pytrees.unflatten(self._inputs, values[: len(inputs)])
            chunk = pytrees.unflatten(structure, values[len(inputs) :])
            out_leaves, out_structure = pytrees.flatten(self._job.work(params, args, chunk))
            results.append(out_structure)
            return tuple(out_leaves)

        def staging() -> Program:
            return stage(operation, flat, tuple([wrap(value) for value in [*inputs, *leaves]]), {})

        capture = Capture(*self._job.roots)
        try:
            program = capture.run(staging) or staging()
        except Exception as error:
            error.add_note(f"This happened while {operation} staged it for chunk {index}.")
            raise
        if capture.drew():
            raise ArgumentError(
                f"{operation}: the function draws random numbers from an outside generator. Use"
                " fg.random, with a key that is an argument."
            )
        self._check(index, program.output_specs, results[-1])
        specs = tuple([spec_of(leaf) for leaf in leaves])
        made = self._chunk_program(program, structure, specs)
        if made in tried:
            raise ArgumentError(
                f"{operation}: chunk {index} has different data each time that it is loaded, and"
                " the function takes another path for them. Load the same data every time."
            )
        self._lock.run(lambda: self._add(capture, made))

    def _add(self, capture: Capture, made: ChunkProgram) -> None:
        if made not in self._programs:  # otherwise another thread has staged it
            self._captures.append(capture)
            self._programs = (*self._programs, made)

    def _check(self, index: int, specs: tuple[Spec, ...], result: Structure) -> None:
        """Check that results have the structure and specs of earlier results."""
        if self.structure is None:
            self.structure, self.specs = result, specs
        operation, job = self._job.operation, self._job
        if result != self.structure:
            raise TreeError(
                f"{operation}: for chunk {index} the function returns {result}, and for the chunks"
                f" before it {self.structure}."
            )
        dtypes = [np.result_type(a.dtype, b.dtype) for a, b in zip(self.specs, specs, strict=True)]
        promoted = tuple([Spec(a.shape, t) for a, t in zip(self.specs, dtypes, strict=True)])
        same = [spec.shape for spec in specs] == [spec.shape for spec in self.specs]
        if job.combine is not None:
            same = same and dtypes == [spec.dtype for spec in specs] == [
                s.dtype for s in self.specs
            ]
        if job.alike and not same:
            texts = [[str(spec) for spec in side] for side in (specs, self.specs)]
            raise ShapeError(
                f"{operation}: the results for chunk {index} are {', '.join(texts[0])}, but the"
                f" earlier ones {', '.join(texts[1])}; they cannot be combined. Return sums over"
                " the rows of a chunk."
            )
        self.specs = promoted

    def _chunk_program(
        self, program: Program, structure: Structure, specs: tuple[Spec, ...]
    ) -> ChunkProgram:
        """Prepare a program for sending; its large constants become inputs."""
        first = len(program.inputs)
        constants = [constant.value for constant in program.constants]
        known = [np.asarray(x) if type(x) is Resident else x for x in constants]
        large = [
            first + number
            for number, value in enumerate(known)
            if isinstance(value, np.ndarray) and value.nbytes > _LARGE
        ]
        values = [known[variable - first] for variable in large]
        digests = [digest_of([value]) for value in values]
        self.arrays.update(zip(digests, values, strict=True))
        bare = extract(program, [*range(first), *large], program.outputs, program.guards)
        return ChunkProgram(structure, specs, bare.to_json(), tuple(digests))

    def _combination(self, combine: Callable[[Any, Any], Any]) -> ChunkProgram:
        """Stage the function that combines two results into one.

        Raises
        ------
        TreeError, ShapeError
            The structure or shapes of its result differ from its arguments.
        ArgumentError
            It branches on values.
        """
        structure, operation = self.structure, self._job.operation
        assert structure is not None  # staged before results are combined
        count = structure.num_leaves

        def flat(*leaves: Any) -> tuple[Any, ...]:
            pair = [pytrees.unflatten(structure, half) for half in (leaves[:count], leaves[count:])]
            name = f"{operation}: combine's result"
            return tuple(pytrees.flatten_like(structure, combine(*pair), name))

        examples = [np.ones(spec.shape, spec.dtype)[()] for spec in self.specs] * 2
        program = stage(operation, flat, tuple(map(wrap, examples)), {})
        if program.guards:
            raise ArgumentError(
                f"{operation}: combine branches on a value, with `if` or the like. Choose with"
                " fnp.where, because one program combines all results."
            )
        for old, new in zip(self.specs, program.output_specs, strict=True):
            if (old.shape, old.dtype) != (new.shape, new.dtype):
                raise ShapeError(
                    f"{operation}: combine turns two results of {old} into {new}. Its result has"
                    " to be like its arguments, so that it can be combined again."
                )
        specs = tuple([spec_of(example) for example in examples])
        return self._chunk_program(program, pytrees.of_leaves(2 * count), specs)
