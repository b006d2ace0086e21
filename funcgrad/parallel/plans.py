"""Plans: the programs that a function is staged to, for the kinds of chunks that it meets.

The caller stages the function, so that no code of the user's travels: a worker receives programs as
JSON, whose operations are funcgrad's, and the arrays that the function closes over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, Final

import numpy as np

from funcgrad import trees
from funcgrad.errors import ArgumentError, ShapeError, TreeError
from funcgrad.parallel.messages import ChunkProgram
from funcgrad.programs.extract import extract
from funcgrad.programs.program import Program
from funcgrad.shape import Spec, spec_of
from funcgrad.staging.capture import Capture
from funcgrad.tensor import wrap
from funcgrad.trace import Value
from funcgrad.transforms.stage import stage
from funcgrad.trees import Structure

_LARGE: Final = 1024
"""Constants of more bytes travel as arrays, once a worker, whatever programs have them."""
_MOST_PROGRAMS: Final = 64


def digest_of(arrays: Sequence[Value]) -> str:
    """A name for values by their content."""
    digest = blake2b(digest_size=16)
    for value in arrays:
        array = np.asarray(value)  # a Python number is not the array of it
        digest.update(f"{type(value).__name__}{array.dtype.str}{array.shape};".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _chunk_program(
    program: Program, structure: Structure, specs: tuple[Spec, ...], arrays: dict[str, Any]
) -> ChunkProgram:
    """Make a program ready to travel; its large constants become inputs, and go to ``arrays``."""
    first = len(program.inputs)
    large = [
        first + number
        for number, constant in enumerate(program.constants)
        if isinstance(constant.value, np.ndarray) and constant.value.nbytes > _LARGE
    ]
    values = [program.constants[variable - first].value for variable in large]
    digests = [digest_of([value]) for value in values]
    arrays.update(zip(digests, values, strict=True))
    sources = [*range(first), *large]
    bare = extract(program, sources, program.outputs, program.guards)
    return ChunkProgram(structure, specs, bare.fingerprint(), bare.to_json(), tuple(digests))


class StagingPlan:
    """The programs of a function for parameters of one kind.

    Parameters
    ----------
    operation : str
        The function that the user called.
    f : callable
        ``(params, args, chunk) -> pytree``.
    roots : sequence of object
        The user's functions that ``f`` calls; when something that they read from outside of their
        arguments has changed, the plan is no longer valid.
    inputs : Structure
        That of ``(params, args)``.
    alike : bool
        Whether the results of all chunks have the same shapes, as those of sums.
    """

    def __init__(
        self,
        operation: str,
        f: Callable[[Any, Any, Any], Any],
        roots: Sequence[Any],
        inputs: Structure,
        alike: bool,
    ) -> None:
        self._operation, self._f, self._alike = operation, f, alike
        self._roots = roots
        self._structure = inputs
        self._captures: list[Capture] = []
        self._programs: tuple[ChunkProgram, ...] = ()
        self._chunk_structure: Structure | None = None
        self._combination: ChunkProgram | None = None
        self.arrays: dict[str, Any] = {}
        self.structure: Structure | None = None
        self.specs: tuple[Spec, ...] = ()

    @property
    def programs(self) -> tuple[ChunkProgram, ...]:
        """The programs so far."""
        return self._programs

    def combination(self, make: Callable[[], ChunkProgram]) -> ChunkProgram:
        """The program that combines two results, made once they are known."""
        if self._combination is None:
            self._combination = make()
        return self._combination

    def unchanged(self) -> bool:
        """Whether what the user's functions read from outside is what it was."""
        return all(capture.unchanged() for capture in self._captures)

    def knows(self, structure: Structure, leaves: Sequence[Value]) -> bool:
        """Whether there is a program for such a chunk, at least for one path."""
        specs = tuple([spec_of(leaf) for leaf in leaves])
        return any(p.structure == structure and p.specs == specs for p in self._programs)

    def stage(
        self, index: int, inputs: Sequence[Value], leaves: Sequence[Value], structure: Structure
    ) -> None:
        """Stage the function on a chunk, for these leaves of ``(params, args)``.

        Raises
        ------
        TreeError
            The chunk's structure is another than that of the chunks before.
        ShapeError
            The results have other shapes than those of the chunks before, and cannot be combined.
        ArgumentError
            The function takes too many paths, or cannot be staged.
        """
        if self._chunk_structure not in (None, structure):
            raise TreeError(
                f"{self._operation}: chunk {index} is {structure}, and the chunks before it are"
                f" {self._chunk_structure}. All chunks have to have one structure."
            )
        if len(self._programs) >= _MOST_PROGRAMS:
            raise ArgumentError(
                f"{self._operation}: the function has taken {_MOST_PROGRAMS} different paths, or"
                " met chunks of as many shapes. Choose with fnp.where instead of `if`, and cut the"
                " data into chunks of one shape."
            )
        results: list[Structure] = []
        values = [*inputs, *leaves]

        def flat(*flat_leaves: Any) -> tuple[Any, ...]:
            count = len(inputs)
            params, args = trees.unflatten(self._structure, flat_leaves[:count])
            result = self._f(params, args, trees.unflatten(structure, flat_leaves[count:]))
            out_leaves, out_structure = trees.flatten(result)
            results.append(out_structure)
            return tuple(out_leaves)

        capture = Capture(*self._roots)

        def staging() -> Program:
            return stage(self._operation, flat, tuple([wrap(value) for value in values]), {})

        try:
            program = capture.run(staging) or staging()
        except Exception as error:
            error.add_note(f"This happened while {self._operation} staged it for chunk {index}.")
            raise
        if capture.drew():
            raise ArgumentError(
                f"{self._operation}: the function draws random numbers from a generator outside of"
                " its arguments. Use fg.random with a key that is an argument."
            )
        self._check(index, program, results[-1])
        self._captures.append(capture)
        self._chunk_structure, self.structure = structure, results[-1]
        self.specs = program.output_specs
        specs = tuple([spec_of(leaf) for leaf in leaves])
        made = _chunk_program(program, structure, specs, self.arrays)
        if made in self._programs:
            raise ArgumentError(
                f"{self._operation}: chunk {index} has other numbers each time that it is loaded,"
                " and the function takes another path for them. Load the same data every time."
            )
        self._programs = (*self._programs, made)

    def _check(self, index: int, program: Program, result: Structure) -> None:
        if self.structure is None:
            return
        if result != self.structure:
            raise TreeError(
                f"{self._operation}: for chunk {index} the function returns {result}, and for the"
                f" chunks before it {self.structure}."
            )
        shapes, before = [
            [spec.shape for spec in specs] for specs in (program.output_specs, self.specs)
        ]
        if self._alike and shapes != before:
            raise ShapeError(
                f"{self._operation}: the results for chunk {index} have the shapes {shapes}, and"
                f" those before it {before}; they cannot be combined. Return sums over the rows of"
                " a chunk."
            )


def combination(
    operation: str, combine: Callable[[Any, Any], Any], plan: StagingPlan, arrays: dict[str, Any]
) -> ChunkProgram:
    """Stage the function that makes one result of two.

    Raises
    ------
    TreeError, ShapeError
        It does not return what it takes.
    ArgumentError
        It looks at numbers.
    """
    structure = plan.structure
    assert structure is not None  # a result is there before it is combined with another
    count = structure.num_leaves

    def flat(*leaves: Any) -> tuple[Any, ...]:
        pair = [trees.unflatten(structure, half) for half in (leaves[:count], leaves[count:])]
        name = f"{operation}: combine's result"
        return tuple(trees.flatten_like(structure, combine(*pair), name))

    examples = [np.ones(spec.shape, spec.dtype)[()] for spec in plan.specs] * 2
    program = stage(operation, flat, tuple(map(wrap, examples)), {})
    if program.guards:
        raise ArgumentError(
            f"{operation}: combine looks at a number, by `if` or the like. Choose with fnp.where,"
            " since all results are combined by one program."
        )
    for old, new in zip(plan.specs, program.output_specs, strict=True):
        if (old.shape, old.dtype) != (new.shape, new.dtype):
            raise ShapeError(
                f"{operation}: combine makes {new} of two results of {old}. It has to return what"
                " it takes, so that its result can be combined again."
            )
    specs = tuple([spec_of(example) for example in examples])
    return _chunk_program(program, trees.of_leaves(2 * count), specs, arrays)
