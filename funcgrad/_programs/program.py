"""``Program``: a computation as a value.

Staging a function returns a program: a list of equations in static single assignment form, with the
shape and dtype of every variable. It is immutable, and can be printed, compared and verified. It is
called like its function, also under every transformation, since evaluation binds primitives.

Variables are integers: first the inputs, then the constants, then the equations' results in order.

>>> import funcgrad as fg
>>> print(fg.program(lambda x: x * x + 1.0)(3.0).to_text(sources=False))
program <lambda>(x: float64[]) -> float64[]
  a = constant 1.0
  b: float64[] = multiply x x
  c: float64[] = add b a
  return c
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field
from os import PathLike
from typing import Any, TypeVar

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core import pytrees
from funcgrad._core.context import repeated
from funcgrad._core.pytrees import Structure
from funcgrad._core.specs import Spec
from funcgrad._core.trace import Value
from funcgrad._programs.conformity import check_guard, fitted, miscounted, unfit, verify_equations
from funcgrad._programs.equation import Constant, Equation, EquationRun, Guard, bound
from funcgrad._programs.index import Index
from funcgrad._programs.names import variable_names
from funcgrad.errors import ProgramError
from funcgrad.tensor.tensor import wrap

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Program:
    """A computation in static single assignment form.

    Attributes
    ----------
    name : str
    names : tuple of str
        The names of the arguments' leaves, such as ``params['w']``.
    inputs : tuple of Spec
    constants : tuple of Constant
    equations : tuple of Equation
    outputs : tuple of int
        Variables.
    guards : tuple of Guard
    arguments, result : Structure
        The pytrees of the arguments, a pair ``(args, kwargs)``, and of the result.
    """

    name: str
    names: tuple[str, ...] = field(compare=False)
    inputs: tuple[Spec, ...]
    constants: tuple[Constant, ...]
    equations: tuple[Equation, ...]
    outputs: tuple[int, ...]
    guards: tuple[Guard, ...] = ()
    arguments: Structure = field(kw_only=True)
    result: Structure = field(kw_only=True)
    _index: Index | None = field(default=None, init=False, repr=False, compare=False)
    _derived: dict[Hashable, Any] | None = field(
        default=None, init=False, repr=False, compare=False
    )

    def __hash__(self) -> int:
        return self.index.hash

    def __tree_flatten__(self) -> tuple[tuple[Any, ...], Program]:
        return (), self  # a value without leaves, not a container of its parts

    @classmethod
    def __tree_unflatten__(cls, aux: Program, children: Any) -> Program:
        return aux

    def __copy__(self) -> Program:
        return self  # it is immutable

    def __deepcopy__(self, memo: dict[int, Any]) -> Program:
        return self

    @property
    def is_raw(self) -> bool:
        """Whether no constant is a tracer of an enclosing transformation."""
        return False not in [constant.is_raw for constant in self.constants]

    @property
    def index(self) -> Index:
        """Facts about variables, such as the equations that define and read each."""
        if self._index is None:
            index = Index(self.inputs, self.constants, self.equations, self.outputs, self.guards)
            object.__setattr__(self, "_index", index)
            return index
        return self._index

    def derived(self, key: Hashable, make: Callable[[], T]) -> T:
        """Cache an object that depends only on the program, such as its derivative, by a key."""
        if self._derived is None:
            object.__setattr__(self, "_derived", {})
        known: Any = self._derived
        if key not in known:
            known[key] = make()
        return known[key]

    def specs(self) -> tuple[Spec, ...]:
        """The shape and dtype of every variable."""
        return self.index.specs

    @property
    def output_specs(self) -> tuple[Spec, ...]:
        """The shapes and dtypes of the outputs."""
        return tuple(map(self.index.specs.__getitem__, self.outputs))

    def results(self, *specs: Spec) -> tuple[Spec, ...]:
        """The shapes and dtypes of the outputs, for inputs of the program's shapes and dtypes.

        Raises
        ------
        ProgramError
            The inputs have other shapes or dtypes.
        """
        if specs != self.inputs:
            raise unfit(self.name, specs, self.inputs)
        return self.output_specs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluate the program like the function from which it was staged.

        Parameters
        ----------
        *args, **kwargs : pytrees
            Arguments with the trees, shapes and dtypes with which the program was staged.

        Raises
        ------
        TreeError, ShapeError, DtypeError
            The arguments have other trees, shapes or dtypes.
        GuardError
            The function's control flow would take another path.
        """
        leaves = pytrees.flatten_like(self.arguments, (args, kwargs), "arguments")
        values = [
            fitted(self.name, name, leaf, spec)
            for name, leaf, spec in zip(self.names, leaves, self.inputs, strict=True)
        ]
        return pytrees.unflatten(self.result, [wrap(out) for out in self.evaluate(values)])

    def evaluate(self, values: Sequence[Value], run: EquationRun = bound) -> list[Value]:
        """Evaluate the program on raw values or tracers, one for each input; return the outputs.

        Each variable is dropped after its last use. ``run`` evaluates an equation on its operands.
        """
        if len(values) != len(self.inputs):
            raise miscounted(self.name, len(values), self.names)
        known: list[Any] = [*values, *(constant.value for constant in self.constants)]
        guards, freed, results = self.index.guards, self.index.freed, self.index.results
        runs: dict[int, object] = {}  # by epoch
        for guard in guards.get(-1, ()):
            check_guard(self.name, guard, known[guard.variable])
        for position, equation in enumerate(self.equations):
            operands = tuple([known[variable] for variable in equation.operands])
            if equation.epoch:
                with repeated(runs.setdefault(equation.epoch, object())):
                    known += run(equation, operands)
            else:
                known += run(equation, operands)
            for variable in results[position] if guards else ():
                for guard in guards.get(variable, ()):
                    check_guard(self.name, guard, known[variable])
            for variable in freed[position]:
                known[variable] = None
        return [known[variable] for variable in self.outputs]

    def verify(self) -> Program:
        """Check that the program is well formed, and return it.

        Raises
        ------
        ProgramError
            A variable is used before its definition, an equation's result does not have the shape
            and dtype of its operation, parameters cannot be compared, or inputs and outputs do not
            fit the trees.
        """
        defined = [*self.inputs, *(constant.spec for constant in self.constants)]
        defined += verify_equations(self.name, defined, self.equations)
        for variable in (*self.outputs, *(guard.variable for guard in self.guards)):
            if not 0 <= variable < len(defined):
                raise ProgramError(f"{self.name}: the output or guard {variable} is not defined.")
        if not len(self.inputs) == len(self.names) == self.arguments.num_leaves:
            raise ProgramError(f"{self.name}: the inputs do not fit the arguments' tree or names.")
        if self.result.num_leaves != len(self.outputs):
            raise ProgramError(f"{self.name}: the outputs do not fit the result's tree.")
        return self

    def variable_names(self) -> list[str]:
        """Names of all variables: arguments' names if they are identifiers, else letters."""
        return variable_names(self.names, len(self.specs()))

    def __repr__(self) -> str:
        head = f"{self.name}({', '.join(self.names)}): {len(self.outputs)} result(s)"
        return f"Program({head}, {len(self.equations)} equation(s))"

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self, sources: bool = True) -> str:
        """Write the program as text, with a line for each equation.

        Parameters
        ----------
        sources : bool
            Whether to show the user's line of each equation.
        """
        from funcgrad._forms.listing import listing

        return listing(self, sources)

    def to_numpy_source(self, lines: bool = False) -> str:
        """Write the program as a Python module that uses NumPy, as the NumPy backend runs it.

        Parameters
        ----------
        lines : bool
            Whether comments name the line of your code behind each equation.

        Returns
        -------
        str
            It defines a function from the flat inputs to the tuple of the flat outputs, with
            bit-for-bit the same results. If some constants have no literal, such as large arrays,
            it defines ``with_constants``, which makes that function from ``numpy_constants()``.

        Examples
        --------
        >>> import funcgrad as fg
        >>> print(fg.program(lambda x, y: x * y + 1.0)(2.0, 3.0).to_numpy_source())
        import numpy as np
        <BLANKLINE>
        <BLANKLINE>
        def f(x, y):
            a = x * y
            b = a + 1.0
            return (b,)
        """
        from funcgrad._backends.numpy.writer import numpy_source

        return numpy_source(self, lines).text

    def numpy_constants(self) -> tuple[Any, ...]:
        """The constants that cannot be written as literals, for the source of ``to_numpy_source``.

        Examples
        --------
        >>> import funcgrad as fg
        >>> table = fg.numpy.arange(1000.0)
        >>> looked_up = fg.program(lambda i: table[i] * 2.0)(7)
        >>> module = {}
        >>> exec(looked_up.to_numpy_source(), module)
        >>> module["with_constants"](looked_up.numpy_constants())(7)
        (np.float64(14.0),)
        """
        from funcgrad._backends.numpy.writer import numpy_source

        return numpy_source(self).constants

    def to_module(self, path: str | PathLike[str], *args: object, **kwargs: object) -> None:
        """Write the program as a Python file that needs only NumPy, with a self-test inside.

        Parameters
        ----------
        path : path
            The file, which is overwritten. It defines a function with the program's name, which
            takes trees of arrays and Python numbers, and checks their structure, shapes and dtypes.
            It returns new arrays, bit-for-bit as ``jit(f, backend="numpy")``. Loops and branches
            are Python's. Dataclasses become named tuples in results; as arguments all objects with
            the same fields work. ``python path`` computes an example, compares it with stored
            results, and exits with status 1 if they differ. Operations that SciPy evaluates import
            it, and the file says so. Functions of funcgrad are copied into the file.
        *args, **kwargs : pytrees
            The example; by default fractions between 0 and 1.

        Raises
        ------
        ProgramError
            An operation has no text, such as a function of ``extend.foreign``, or the program
            cannot be run on the example.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import numpy as np
        >>> import funcgrad as fg
        >>> path = pathlib.Path(tempfile.mkdtemp(), "cube.py")
        >>> fg.program(fg.grad(lambda x: x**3))(np.float64(2.0)).to_module(path)
        >>> module = {"__name__": "cube"}
        >>> exec(path.read_text(), module)
        >>> module["f"](2.0)
        np.float64(12.0)
        """
        from funcgrad._backends.numpy.backend import write_module

        write_module(self, path, args, kwargs)

    def to_dot(self) -> str:
        r"""Write the program as a graph in the DOT language of Graphviz.

        Examples
        --------
        >>> import funcgrad as fg
        >>> fg.program(lambda x: -x)(2.0).to_dot().splitlines()[2]
        '  n0 [label="x\\nfloat64[]", shape=ellipse];'
        """
        from funcgrad._forms.graph import dot, program_graph

        return dot(program_graph(self))

    def to_mermaid(self) -> str:
        """Write the program as a Mermaid flowchart, which Markdown viewers draw.

        Examples
        --------
        >>> import funcgrad as fg
        >>> fg.program(lambda x: -x)(2.0).to_mermaid().splitlines()[2]
        '  n1["negative<br/>a: float64[]"]'
        """
        from funcgrad._forms.graph import mermaid, program_graph

        return mermaid(program_graph(self))

    def to_latex(self) -> str:
        r"""Write a program as a formula in LaTeX, with a line for each value that is used twice.

        Raises
        ------
        ProgramError
            An operation contains a program or has several results, or there are guards.

        Examples
        --------
        >>> import funcgrad as fg
        >>> print(fg.program(lambda x: 1 / (1 + x**2))(2.0).to_latex())
        f(x) = \frac{1}{1 + x^{2}}
        """
        from funcgrad._forms.formulas import latex

        return latex(self)

    def _repr_html_(self) -> str:
        from funcgrad._forms.drawing import html

        return html(self)

    def to_json(self) -> str:
        """Write the program as JSON, which ``from_json`` reads.

        Returns
        -------
        str
            ASCII text with a line for each equation. It contains the whole program, to the last bit
            of its constants, except for two things. The memory layout of arrays is not stored: they
            are loaded in C order. The rules of custom derivatives are Python functions, and not
            stored: the loaded program computes the same, and raises an error if it needs a rule. A
            staged derivative contains the rules' operations, and does not need the rules.

        Raises
        ------
        ProgramError
            The program contains an object that cannot be saved: a call of a Python function that
            computes with another library; a tracer of an enclosing transformation; a primitive, or
            a class of a pytree, that is not defined at the top level of a module.

        Examples
        --------
        >>> import funcgrad as fg
        >>> staged = fg.program(lambda x: x * x)(3.0)
        >>> fg.Program.from_json(staged.to_json()) == staged
        True
        """
        from funcgrad._forms.json_text import program_text

        return program_text(self)

    def to_onnx(
        self,
        path: str | PathLike[str] | None = None,
        *,
        opset: int = 20,
        initializers: Mapping[str, Any] | None = None,
    ) -> Any:
        """Convert the program to an ONNX model, for other runtimes and tools.

        Parameters
        ----------
        path : path-like, optional
            A file to write the model to.
        opset : int
            The version of the operators, from 18 on.
        initializers : mapping, optional
            Maps names of arguments to values: these inputs become arrays that the model stores,
            such as trained parameters. The others stay inputs.

        Returns
        -------
        onnx.ModelProto
            Inputs are named by ``names``, outputs by their paths, such as ``result['loss']``. Nodes
            carry the user's lines, the model its fingerprint. Results agree up to rounding; indices
            out of bounds and singular matrices are not checked. The README of ``funcgrad.interop``
            lists the limitations.

        Raises
        ------
        MissingPackageError
            The package ``onnx`` is not installed.
        ProgramError
            ONNX has no operators for an operation, which the message names with its line; or the
            program depends on values that a graph cannot check (see ``guards``).
        DtypeError
            A value is complex.
        ArgumentError
            ``opset`` is not supported, or an initializer does not fit any input.

        Examples
        --------
        >>> import pytest
        >>> onnx = pytest.importorskip("onnx")
        >>> import numpy as np
        >>> import funcgrad as fg
        >>> model = fg.program(fg.grad(lambda x: x * x))(3.0).to_onnx()
        >>> from onnx.reference import ReferenceEvaluator
        >>> [result] = ReferenceEvaluator(model).run(None, {"x": np.float64(5.0)})
        >>> float(result)
        10.0
        """
        from funcgrad.interop.onnx.model_writer import model_of

        return model_of(self, path, opset=opset, initializers=initializers)

    @classmethod
    def from_json(cls, text: str) -> Program:
        """Read a program from the text of ``to_json``; unpickling does the same.

        Parameters
        ----------
        text : str
            Read only texts that you trust: modules named in the text for operations, classes of
            pytrees and static fields are imported, which runs their code.

        Raises
        ------
        ProgramError
            The text is incomplete or changed, has another version of the format, or names a missing
            primitive, class or field.

        Examples
        --------
        >>> import funcgrad as fg
        >>> text = fg.program(lambda x, y: x * y)(3.0, 4.0).to_json()
        >>> fg.Program.from_json(text)(5.0, 6.0)
        Tensor(30.0)
        """
        from funcgrad._forms.json_text import program_parts
        from funcgrad._transforms.saved import saved_call

        return cls(**program_parts(text, saved_call)).verify()

    def __reduce__(self) -> tuple[Any, ...]:
        return Program.from_json, (self.to_json(),)

    def fingerprint(self) -> str:
        """Compute a hash that is the same in every process and on every machine, for caches.

        Returns
        -------
        str
            SHA-256 in hexadecimal digits. Equal programs have equal fingerprints, as do programs
            that differ only in their name, the names of their inputs, or the user's lines.

        Raises
        ------
        ProgramError
            The program cannot be saved; see ``to_json``.

        Examples
        --------
        >>> import funcgrad as fg
        >>> first, second = fg.program(lambda x: x + 1.0), fg.program(lambda y: y + 1.0)
        >>> first(3.0).fingerprint() == second(4.0).fingerprint()
        True
        """
        from funcgrad._forms.json_text import program_fingerprint

        return program_fingerprint(self)
