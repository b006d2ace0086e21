"""Read operations as loops and choices: the form that they declare, ``Control.form``.

The gradient of a loop is an operation whose form is a program of loops. ``written_out`` replaces
the operation by this program.

>>> import funcgrad as fg
>>> tripled = fg.grad(lambda x: fg.while_loop(lambda c: c < 9.0, lambda c: c * 3.0, x))
>>> [equation.name for equation in fg.program(tripled)(1.0).equations]
['while_loop', 'while_reverse']
>>> sorted({equation.name for equation in written_out(fg.program(tripled)(1.0)).equations})
['stacking_scan', 'stacking_while']
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import Spec, shape_of
from funcgrad._core.structure.structures import Choice, Control, Loop
from funcgrad._core.trace import Value
from funcgrad._primitives.index_keys import Key
from funcgrad._primitives.joining import concatenate
from funcgrad._primitives.structural import reshape, view
from funcgrad._programs.builder import Draft, rewrite
from funcgrad._programs.equation import Equation, exact_key
from funcgrad._programs.extract import extract
from funcgrad._programs.program import Program
from funcgrad._transforms.abstract_stager import flat_program


def written_out(
    program: Program,
    python_slices: bool = False,
    leaves: Callable[[Program], bool] = lambda form: False,
) -> Program:
    """Replace operations whose form is a program by the equations of that program.

    Such an operation may first repeat the work of an earlier one (``Control.begins``): the gradient
    of a loop repeats the loop. The earlier operation is then replaced by the same equations, and
    the passes remove one of the two equal loops.

    Parameters
    ----------
    program : Program
    python_slices : bool
        Whether the compiler converts elements of an array to Python numbers, which some bodies of
        loops take as slices. If not, operations with such loops stay.
    leaves : callable
        Whether the compiler leaves an operation with such a program as it is.
    """
    loops: dict[int, Program] = {}
    begun: dict[Hashable, Program] = {}
    for position, equation in enumerate(program.equations):
        structure = equation.operation.structure
        if isinstance(structure, Control) and structure.form is not None:
            loop = structure.form(**dict(equation.params))
            if not isinstance(loop, Program) or leaves(loop):
                continue
            if python_slices or not _has_python_slices(loop):
                loops[position] = loop
                if structure.begins is not None:
                    operation, params, arity = structure.begins(**dict(equation.params))
                    begun[_beginning(operation, params, equation.operands[:arity])] = loop
    if not loops:
        return program
    positions = iter(range(len(program.equations)))

    def step(draft: Draft, equation: Equation) -> list[int]:
        position = next(positions)
        count = len(equation.results)
        if position in loops:
            return draft.splice(loops[position], equation.operands)[-count:]
        original = program.equations[position]
        key = _beginning(original.operation, dict(original.params), original.operands)
        loop = begun.get(key)
        if loop is None:
            return draft.append(equation)
        begins = extract(loop, range(len(original.operands)), loop.outputs[:count])
        return draft.splice(begins, equation.operands)

    return rewrite(program, step)


def _has_python_slices(program: Program) -> bool:
    """Whether a loop in a program takes elements of arrays as Python numbers."""
    for equation in program.equations:
        structure = equation.operation.structure
        if isinstance(structure, Control) and structure.form is not None:
            form = structure.form(**dict(equation.params))
            if isinstance(form, Loop):
                slices = form.body.inputs[form.shared + form.carried :]
                if any(spec.weak for spec in slices):
                    return True
    return False


def _beginning(
    operation: Primitive, params: Mapping[str, Any], operands: Sequence[int]
) -> Hashable:
    """Identify the work that an equation repeats, whether it knows of that or not."""
    settings = {name: value for name, value in params.items() if name != "replayed"}
    return operation, exact_key(tuple(sorted(settings.items()))), tuple(operands)


def programs_inside(equation: Equation) -> tuple[Program, ...]:
    """The programs of an equation: a loop's body and condition, or a choice's branches."""
    structure = equation.operation.structure
    assert isinstance(structure, Control)
    assert structure.form is not None
    return in_form(structure.form(**dict(equation.params)))


def in_form(form: object) -> tuple[Program, ...]:
    """The programs of the form of a loop or a choice."""
    if isinstance(form, Loop):
        return (form.body,) if form.condition is None else (form.body, form.condition)
    return tuple(form.branches) if isinstance(form, Choice) else ()


def form_of(equation: Equation, specs: Sequence[Spec] | Mapping[int, Spec]) -> Loop | Choice | None:
    """An equation's form as a loop or choice; None if its programs do not fit its operands."""
    structure = equation.operation.structure
    if not isinstance(structure, Control) or structure.form is None:
        return None
    form = structure.form(**dict(equation.params))
    if not isinstance(form, Loop | Choice):
        return None
    operands, results = [specs[variable] for variable in equation.operands], equation.results
    if isinstance(form, Loop) and _tells_steps(form, len(results)):
        return None
    if isinstance(form, Choice):
        fits = all(_fits(branch, operands[1:], results) for branch in form.branches)
        return form if fits else None
    stop = form.shared + form.carried
    inputs = form.body.inputs[stop:]
    slices = [
        Spec(array.shape[1:], array.dtype, spec.weak)
        for array, spec in zip(operands[stop:], inputs, strict=False)
    ]
    body_inputs = [*operands[:stop], *slices]
    carried = operands[form.shared : stop]
    stacked = [Spec(spec.shape[1:], spec.dtype) for spec in results[form.carried :]]
    fits = _fits(form.body, body_inputs, [*carried, *stacked])
    if form.condition is not None:
        fits = fits and form.condition.is_raw and form.condition.inputs == tuple(body_inputs)
    return form if fits else None


def _tells_steps(form: Loop, results: int) -> bool:
    """Whether a loop prints the number of its step, which only a loop that is called knows.

    A loop whose stacks have as many rows as it ran steps is compiled together with its readers, so
    it is written out all the same.
    """
    if form.condition is not None and results > form.carried:
        return False
    effects = [effect for body in in_form(form) for effect in body.index.effects]
    return any(effect.operation.is_foreign for effect in effects)


def _fits(program: Program, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> bool:
    specs = program.specs()
    output_specs = [specs[variable] for variable in program.outputs]
    same = [
        a.shape == b.shape and a.dtype == b.dtype
        for a, b in zip(output_specs, outputs, strict=True)
    ]
    return program.is_raw and program.inputs == tuple(inputs) and all(same)


# ------------------------------------------------------------------- loops over the examples


def in_blocks(program: Program, block_of: Callable[[Loop], tuple[int, Loop]]) -> Program:
    """Let loops over the examples of a batch run several examples in one step.

    Parameters
    ----------
    program : Program
    block_of : callable
        From a loop over examples to how many of them run together, and to the same loop as they run
        best: with one the loop stays as it is, with all it is replaced by its body on the whole
        batch.
    """
    bodies: dict[int, Program] = {}
    for position, equation in enumerate(program.equations):
        structure = equation.operation.structure
        if isinstance(structure, Control) and structure.together is not None:
            loop = Loop(**dict(equation.params))
            size, loop = block_of(loop) if loop.examples else (1, loop)
            if size > 1:
                body = structure.together(min(size, loop.length or 0), **loop.params())
                specs = [program.specs()[variable] for variable in equation.operands]
                bodies[position] = _by_blocks(equation.operation, loop, body, size, specs)
    if not bodies:
        return program
    positions = iter(range(len(program.equations)))

    def step(draft: Draft, equation: Equation) -> list[int]:
        body = bodies.get(next(positions))
        return draft.append(equation) if body is None else draft.splice(body, equation.operands)

    return rewrite(program, step)


def _by_blocks(
    operation: Primitive, loop: Loop, body: Program, size: int, specs: Sequence[Spec]
) -> Program:
    """A loop over blocks of so many examples; the last block may run some of them once more.

    So every block is run by the same program, and no result depends on an example's place.
    """
    length = loop.length or 0
    if size >= length:
        return body
    count, left = divmod(length, size)

    def run(values: Sequence[Value]) -> list[Value]:
        shared, _, xs = loop.parts(values)

        def blocks(rows: slice, times: int) -> list[Value]:
            some = [view(x, key=Key((rows,))) for x in xs]
            cut = [reshape(x, shape=(times, size, *shape_of(x)[1:])) for x in some]
            outs = operation(*shared, *cut, **Loop(body, loop.shared, 0, times).params())
            return [reshape(out, shape=(times * size, *shape_of(out)[2:])) for out in outs]

        outs = blocks(slice(0, count * size), count)
        if not left:
            return outs
        last = blocks(slice(length - size, length), 1)
        new = [view(out, key=Key((slice(size - left, size),))) for out in last]
        return [concatenate(*pair, axis=0) for pair in zip(outs, new, strict=True)]

    return flat_program(body.name, run, specs)
