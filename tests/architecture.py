"""Checkers of funcgrad's source: each takes its subject and yields the errors in it.

They read files and hold no state. `test_architecture.py` applies them and shows that they can fail.

>>> list(shared_state(Source("funcgrad.sample", "cache = {}")))
['funcgrad.sample:1 cache']
"""

import ast
import importlib
import json
import re
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import ModuleType

import numpy as np

from funcgrad._core.primitive import Primitive
from funcgrad._hints.lazy_names import LateNames

REPOSITORY = Path(__file__).resolve().parents[1]
MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60

# Imports inside a function: importing module -> imported modules, each with its reason.
DEFERRED_IMPORTS: Mapping[str, frozenset[str]] = {
    # Operators reach the operations through `Tensor.__array_namespace__`, and NumPy's functions
    # theirs through what NumPy asks a tensor.
    "funcgrad.tensor.tensor": frozenset(
        {
            "funcgrad.tensor.numpy_protocols",
            "funcgrad.numpy",
            "funcgrad.sparse.sparse_arrays",
            "funcgrad._hints.other_options",
        }
    ),
    # Devices load programs, which arrays of the host do without.
    "funcgrad.numpy.options": frozenset({"funcgrad._backends.devices.placement"}),
    "funcgrad.numpy.interchange": frozenset({"funcgrad._backends.devices.device"}),
    "funcgrad.numpy.namespace_info": frozenset({"funcgrad._backends.devices.placement"}),
    # A device is found by its name where it is unpickled.
    "funcgrad._backends.devices.device": frozenset({"funcgrad._backends.devices.placement"}),
    "funcgrad._backends.devices.placement": frozenset({"funcgrad._backends.xla.xla_devices"}),
    "funcgrad._backends.devices.resident": frozenset({"funcgrad._base.html"}),
    # A Python loop becomes an operation, which is made of transformations, as this trace is.
    "funcgrad._transforms.batch_runs": frozenset({"funcgrad._transforms.captured_loops"}),
    "funcgrad._transforms.loop_forms": frozenset(
        {"funcgrad._control.choices", "funcgrad._control.whiles"}
    ),
    # Needed by those alone who use SciPy.
    "funcgrad.tensor.numpy_protocols": frozenset({"funcgrad.scipy.special"}),
    # Pictures, which notebooks ask for.
    "funcgrad.tensor.conversion": frozenset({"funcgrad._base.html"}),
    "funcgrad._core.pytree_class": frozenset({"funcgrad._base.html"}),
    "funcgrad._staging.jit": frozenset({"funcgrad._base.html"}),
    "funcgrad._passes.costs": frozenset({"funcgrad._base.html"}),
    "funcgrad.optim.base": frozenset({"funcgrad._base.html"}),
    # One operator needs it, and it would load SciPy's functions of matrices with optimizers.
    "funcgrad.optim.prox": frozenset({"funcgrad.scipy.linalg.banded_systems"}),
    # A file that needs only NumPy, which jitted functions do not write.
    "funcgrad._backends.numpy.backend": frozenset({"funcgrad._forms.python_module"}),
    # Machine code, which needs a package of its own; and NumPy's backend, which that spares.
    "funcgrad._backends.choice": frozenset(
        {
            "funcgrad._backends.native.native_backend",
            "funcgrad._backends.native.same_bits",
            "funcgrad._backends.numpy.backend",
            "funcgrad._backends.xla.jax_library",
            "funcgrad._backends.xla.xla_backend",
            "funcgrad._hints.entry_points",
        }
    ),
    # Metadata of packages, which take 20 ms to import.
    "funcgrad.extend": frozenset({"funcgrad._hints.entry_points"}),
    "funcgrad._staging.loop_programs": frozenset({"funcgrad._backends.numpy.prepare"}),
    "funcgrad._backends.improving_runs": frozenset({"funcgrad._backends.numpy.backend"}),
    # Modules that write text, which programs whose code is on disk do not need.
    "funcgrad._backends.native.native_backend": frozenset({"funcgrad._backends.native.functions"}),
    # Answers to mistakes, which a script without any need not load.
    "funcgrad.errors": frozenset({"funcgrad._hints.other_libraries"}),
    "funcgrad._hints.lookup": frozenset(
        {
            "funcgrad._hints.deprecations",
            "funcgrad._hints.other_libraries",
            "funcgrad._hints.other_options",
        }
    ),
    # Checks of labels that are traced, which eager code does not need.
    "funcgrad.nn.loss_parts": frozenset({"funcgrad.debug.checks"}),
    # Clusters, which need a package of their own, and files of one format.
    "funcgrad.parallel.chunk_steps": frozenset({"funcgrad.parallel.dask_engine"}),
    "funcgrad.parallel.sources": frozenset({"funcgrad.io"}),
    # Layers, for files of other libraries.
    "funcgrad.io.loading": frozenset({"funcgrad.nn.torch_layouts"}),
    # Random matrices have random elements.
    "funcgrad.sparse.constructors": frozenset({"funcgrad.random"}),
    # A pullback is pickled as its program.
    "funcgrad._transforms.transformed": frozenset({"funcgrad._transforms.linear_code"}),
    # A batch in blocks is a loop.
    "funcgrad._transforms.batch": frozenset({"funcgrad._control.batch_blocks"}),
    # A program's forms are functions of it, which its methods offer.
    "funcgrad._programs.program": frozenset(
        {
            "funcgrad._backends.numpy.backend",
            "funcgrad._backends.numpy.writer",
            "funcgrad._forms.json_text",
            "funcgrad._forms.drawing",
            "funcgrad._forms.formulas",
            "funcgrad._forms.graph",
            "funcgrad._forms.listing",
            "funcgrad.interop.onnx.model_writer",
            "funcgrad._transforms.saved",
        }
    ),
}

# They import modules by their names. For the first, packages say which: `late_names` compares that
# with imports that linters read. The second finds other libraries. The third has a table of names,
# which `tests/compat` compares with the files.
LOADERS = frozenset(
    {
        "funcgrad._hints.lazy_names",
        "funcgrad._hints.optional_packages",
        "funcgrad.compat.autograd.lazy_modules",
    }
)

# They may use the decorator of the standard library, which takes four times as long: the first is
# written with it, the others are about classes of users.
USERS_DATACLASSES = frozenset(
    {"funcgrad._base.fast_dataclass", "funcgrad._core.pytree_class", "funcgrad._core.pytrees"}
)

# What `import funcgrad` may load of NumPy beyond what `import numpy` does.
EXTRA_NUMPY_MODULES = {
    "numpy.fft",  # the transforms that the fft primitives evaluate
    "numpy.typing",  # the names of NumPy's types in annotations
    "numpy._typing._add_docstring",  # comes with numpy.typing
}


@dataclass(frozen=True)
class Source:
    """One file: its dotted module name and its text."""

    name: str
    text: str
    is_package: bool = False

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All parts of the tree; a dozen checks read them."""
        return tuple(ast.walk(self.tree))

    @cached_property
    def functions(self) -> tuple[tuple["Function", bool], ...]:
        """Every function however deep, with whether it stands in a class."""
        return tuple(functions_of(self.tree))

    @property
    def is_public(self) -> bool:
        return not any(component.startswith("_") for component in self.name.split("."))


def read_source(path: Path) -> Source:
    parts = path.relative_to(REPOSITORY).with_suffix("").parts
    is_package = parts[-1] == "__init__"
    return Source(
        ".".join(parts[:-1] if is_package else parts), path.read_text("utf-8"), is_package
    )


SOURCES = tuple(
    read_source(path)
    for path in sorted((REPOSITORY / "funcgrad").rglob("*.py"))
    if (path.parent / "__init__.py").exists()  # the plugin is installed beside the package
)

Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTION_TYPES = (ast.FunctionDef, ast.AsyncFunctionDef)


STATEMENTS = (ast.stmt, ast.ExceptHandler, ast.match_case)
"""Where functions stand: no expression has one, and to look there takes ten times as long."""


def functions_of(tree: ast.AST, parent: ast.AST | None = None) -> Iterator[tuple[Function, bool]]:
    if isinstance(tree, FUNCTION_TYPES):
        yield tree, isinstance(parent, ast.ClassDef)
    around = parent if isinstance(tree, ast.If) else tree  # `if TYPE_CHECKING` in a class
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, STATEMENTS):
            yield from functions_of(child, around)


def dotted_name(node: ast.expr) -> str:
    """`a.b` for the expressions `a.b`, `a.b(...)` and `a.b[...]`; empty for any other."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attribute):
            return f"{dotted_name(value)}.{attribute}"
        case ast.Call(func=inner) | ast.Subscript(value=inner):
            return dotted_name(inner)
    return ""


# ------------------------------------------------------------------------------------------- size


def long_files(source: Source) -> Iterator[str]:
    lines = len(source.text.splitlines())
    if lines > MAX_FILE_LINES:
        yield f"{source.name}: {lines} lines, more than {MAX_FILE_LINES}"


def long_functions(source: Source) -> Iterator[str]:
    """Functions over the limit; decorators and the docstring do not count."""
    for function, _ in source.functions:
        lines = span(function)
        if ast.get_docstring(function, clean=False) is not None:
            lines -= span(function.body[0])
        if lines > MAX_FUNCTION_LINES:
            yield f"{source.name}:{function.lineno} {function.name}: {lines} lines"


def span(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


# ------------------------------------------------------------------------------------ annotations


def missing_annotations(source: Source) -> Iterator[str]:
    """Functions with a parameter or a result that lacks its type; lambdas cannot have any."""
    for function, in_class in source.functions:
        arguments = function.args
        positional = arguments.posonlyargs + arguments.args
        is_static = any(dotted_name(d) == "staticmethod" for d in function.decorator_list)
        if in_class and not is_static:
            positional = positional[1:]  # self or cls
        extras = [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
        bare = [a.arg for a in positional + arguments.kwonlyargs + extras if a.annotation is None]
        if function.returns is None:
            bare.append("return")
        if bare:
            yield f"{source.name}:{function.lineno} {function.name}: {', '.join(bare)}"


# ----------------------------------------------------------------------------------- shared state

MUTABLE_DISPLAYS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)

# Calls whose result changes, by the last part of the name.
MUTABLE_CALLS = frozenset(
    """
    list dict set bytearray iter defaultdict deque ChainMap Counter OrderedDict UserDict UserList
    SimpleNamespace WeakKeyDictionary WeakSet WeakValueDictionary count cycle local Lock RLock
    Condition Semaphore Event Queue LifoQueue PriorityQueue SimpleQueue Random RandomState
    default_rng cache lru_cache singledispatch
    """.split()
)
CACHING_DECORATORS = frozenset({"cache", "lru_cache", "singledispatch"})

# Calls that freeze what they are given.
FREEZING_CALLS = frozenset({"MappingProxyType", "bytes", "frozenset", "tuple"})

# A NumPy array can be written unless its flags say otherwise.
ARRAY_CALLS = re.compile(
    r"(np|numpy)\.(array|asarray|arange|empty|eye|full|identity|linspace|ones|zeros)"
)


def is_mutable(value: ast.expr) -> bool:
    """Whether the value of an expression is mutable, or is a tuple with a mutable element."""
    match value:
        case ast.Tuple(elts=parts) | ast.BoolOp(values=parts):
            return any(map(is_mutable, parts))
        case ast.Starred(value=inner) | ast.NamedExpr(value=inner):
            return is_mutable(inner)
        case ast.IfExp(body=left, orelse=right) | ast.BinOp(left=left, right=right):
            return is_mutable(left) or is_mutable(right)
        case ast.GeneratorExp():
            return True
        case ast.Call():
            return is_mutable_call(value)
    return isinstance(value, MUTABLE_DISPLAYS)


def is_mutable_call(call: ast.Call) -> bool:
    name = dotted_name(call.func)
    last = name.rpartition(".")[2]
    if last in FREEZING_CALLS:
        return False
    if last == "ContextVar":  # the design's one context; its default must not change either
        return any(is_mutable(keyword.value) for keyword in call.keywords)
    return last in MUTABLE_CALLS or ARRAY_CALLS.fullmatch(name) is not None


def shared_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run on import: those of the module, its branches and its classes."""
    for statement in body:
        yield statement
        if isinstance(statement, FUNCTION_TYPES):
            continue
        for field in ("body", "orelse", "finalbody"):
            yield from shared_statements(getattr(statement, field, []))
        for handler in getattr(statement, "handlers", []):
            yield from shared_statements(handler.body)


def shared_state(source: Source) -> Iterator[str]:
    """Module and class variables that can change, caches of functions, `global`, `globals()`."""
    for node in source.nodes:
        if isinstance(node, ast.Global):
            yield f"{source.name}:{node.lineno} global {', '.join(node.names)}"
        if isinstance(node, ast.Call) and dotted_name(node.func) == "globals":
            yield f"{source.name}:{node.lineno} globals()"
    for statement in shared_statements(source.tree.body):
        match statement:
            case ast.Assign(targets=targets, value=value):
                pass
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                targets = [target]
            case ast.AugAssign(target=target, value=value):
                targets = [target]
            case ast.FunctionDef(decorator_list=decorators, name=name):
                if any(dotted_name(d).rpartition(".")[2] in CACHING_DECORATORS for d in decorators):
                    yield f"{source.name}:{statement.lineno} {name} has a cache or a registry"
                continue
            case _:
                continue
        writes_into = any(isinstance(target, ast.Subscript) for target in targets)
        if writes_into or is_mutable(value):
            names = [ast.unparse(target) for target in targets]
            if names != ["__all__"]:
                yield f"{source.name}:{statement.lineno} {' = '.join(names)}"


# ------------------------------------------------------------------------------- process services

READ_ONLY = "Enum Tensor LateNames BoundFormula CustomJvp".split()
"""Classes whose attributes are set only while an object is made, though Python would let one."""


def can_change(value: object) -> bool:
    """Whether an object is a container, a context variable, or lets its attributes be set."""
    if isinstance(value, (list, dict, set, bytearray, deque, ContextVar)):
        return True
    if isinstance(value, np.ndarray):
        return value.flags.writeable
    kind = type(value)
    if not kind.__module__.startswith("funcgrad"):
        return hasattr(value, "cache_info")
    if any(parent.__name__ in READ_ONLY for parent in kind.__mro__):
        return False
    slots = [name for parent in kind.__mro__ for name in vars(parent).get("__slots__", ())]
    for name in [*slots, *getattr(value, "__dict__", ())]:
        try:
            setattr(value, name, getattr(value, name))
        except AttributeError:
            continue
        return True
    return False


def process_state(modules: Iterable[ModuleType]) -> Iterator[str]:
    """The module variables whose value can change, by the module that made it."""
    known = set()
    for module in modules:
        for name, value in list(vars(module).items()):
            if name.startswith("__") or isinstance(value, (type, ModuleType)) or id(value) in known:
                continue
            if can_change(value) and assigns(module, name):
                known.add(id(value))
                yield f"{module.__name__.removeprefix('funcgrad.')}.{name}"


def assigns(module: ModuleType, name: str) -> bool:
    """Whether a module assigns to a variable, rather than importing it."""
    source = next(source for source in SOURCES if source.name == module.__name__)
    return any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
        for node in source.nodes
    )


def services_on_page(page: str) -> set[str]:
    """The variables in the first column of the page's table of process services."""
    section = page.partition("\n## Process services\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`([\w.]+)`", row.split("|")[1])}


# ---------------------------------------------------------------------------------------- exports


def lists_its_names(source: Source) -> bool:
    """Whether a module has ``__all__``."""
    return any(
        ast.unparse(target) == "__all__"
        for statement in source.tree.body
        if isinstance(statement, ast.Assign | ast.AnnAssign)
        for target in getattr(statement, "targets", [getattr(statement, "target", None)])
    )


def wrong_exports(module: ModuleType) -> Iterator[str]:
    names = list(getattr(module, "__all__", ()))
    for name in names:
        if not hasattr(module, name):
            yield f"{module.__name__}.__all__ names {name}, which is not there"
    if len(names) != len(set(names)):
        yield f"{module.__name__}.__all__ names something twice"


def unlisted_names(module: ModuleType) -> Iterator[str]:
    """Public names of a façade that its `__all__` does not list; submodules show by themselves."""
    for name, value in vars(module).items():
        if not name.startswith("_") and name not in module.__all__:
            if isinstance(value, ModuleType) and value.__name__.startswith(f"{module.__name__}."):
                continue
            yield f"{module.__name__}.{name} is public but not in __all__"


# ---------------------------------------------------------------------------------------- imports


@dataclass(frozen=True)
class Import:
    """One import of one module: where it stands, and whether inside a function."""

    importer: str
    imported: str
    line: int
    deferred: bool


def imports_of(source: Source, known: frozenset[str]) -> Iterator[Import]:
    """Every import of a file; `from a import b` imports `a.b` where that is a known module."""

    spans = [(node.lineno, node.end_lineno or 0) for node, _ in source.functions]
    for node in source.nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            deferred = any(first <= node.lineno <= last for first, last in spans)
            for name in imported_names(node, source, known):
                yield Import(source.name, name, node.lineno, deferred)


def imported_names(node: ast.AST, source: Source, known: frozenset[str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            package = source.name.split(".")
            package = package[: len(package) + source.is_package - node.level]
            base = ".".join([*package, *filter(None, [base])])
        for alias in node.names:
            full = f"{base}.{alias.name}"
            yield full if full in known else base


def deferred_imports(source: Source, known: frozenset[str]) -> Iterator[str]:
    """Imports inside functions that are not documented above, and those that no linter can read.

    An optional package of others may be imported where it is needed; NumPy, the standard library
    and funcgrad itself are there anyway.
    """
    for node in source.nodes:
        if isinstance(node, ast.Call):
            name = dotted_name(node.func).rpartition(".")[2].lstrip("_")
            if name in {"import__", "import_module"} and source.name not in LOADERS:
                yield f"{source.name}:{node.lineno} calls {name}"
    allowed = DEFERRED_IMPORTS.get(source.name, frozenset())
    for dependency in imports_of(source, known):
        top = dependency.imported.partition(".")[0]
        is_present = top in {"funcgrad", "numpy"} or top in sys.stdlib_module_names
        if dependency.deferred and is_present and dependency.imported not in allowed:
            yield f"{source.name}:{dependency.line} imports {dependency.imported} inside a function"


def late_names(source: Source) -> Iterator[str]:
    """Names that a package loads late and does not import for type checkers, or the other way."""
    imported: set[tuple[str, str, str]] = set()
    for node in source.nodes:
        if isinstance(node, ast.If) and dotted_name(node.test).endswith("TYPE_CHECKING"):
            imported |= {
                (child.module or "", alias.name, alias.asname or alias.name)
                for child in node.body
                if isinstance(child, ast.ImportFrom)
                for alias in child.names
            }
    for node in source.nodes:
        if source.name in LOADERS or not isinstance(node, ast.Call):
            continue
        if dotted_name(node.func).lstrip("_") == "LateNames":
            listed = () if len(node.args) < 3 else ast.literal_eval(names_listed(source))
            late = {
                (f"{source.name}.{module}".rstrip("."), inner, public)
                for public, (module, inner) in LateNames(
                    source.name, ast.literal_eval(node.args[1]), listed
                ).places.items()
            }
            yield from (f"{source.name}: {name}" for name in sorted(late ^ imported))


def names_listed(source: Source) -> ast.expr:
    """The value of `__all__`."""
    for node in source.nodes:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return node.value
    raise LookupError(source.name)


def slow_dataclasses(source: Source) -> Iterator[str]:
    """Imports of the standard library's decorator, see `funcgrad._base.fast_dataclass`."""
    for node in source.nodes:
        imports = isinstance(node, ast.Import) and node.names[0].name == "dataclasses"
        if isinstance(node, ast.ImportFrom) and node.module == "dataclasses":
            imports = any(alias.name == "dataclass" for alias in node.names)
        if imports and source.name not in USERS_DATACLASSES:
            yield f"{source.name}: {ast.unparse(node)}"


def import_cycle(sources: tuple[Source, ...]) -> list[str]:
    """One cycle of modules that import each other, or nothing; type-checking imports count."""
    known = frozenset(source.name for source in sources)
    graph: dict[str, set[str]] = {name: set() for name in known}
    for source in sources:
        allowed = DEFERRED_IMPORTS.get(source.name, frozenset())
        for dependency in imports_of(source, known):
            is_documented = dependency.deferred and dependency.imported in allowed
            if dependency.imported in known and not is_documented:
                graph[source.name].add(dependency.imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


LOADED_MODULES = """
import json, sys
import numpy
before = set(sys.modules)
import {module}
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def foreign_modules(module: str) -> list[str]:
    """The modules beyond NumPy and the standard library that a fresh `import module` loads."""
    command = [sys.executable, "-c", LOADED_MODULES.format(module=module)]
    printed = subprocess.run(
        command, cwd=REPOSITORY, check=True, capture_output=True, text=True
    ).stdout
    return [name for name in json.loads(printed) if is_foreign(name)]


def is_foreign(name: str) -> bool:
    top = name.partition(".")[0]
    if top == "numpy":
        extra = EXTRA_NUMPY_MODULES
        return not any(name == allowed or name.startswith(f"{allowed}.") for allowed in extra)
    return top != "funcgrad" and top not in sys.stdlib_module_names


# ---------------------------------------------------------------------------- one name, one meaning

MIRRORS: Mapping[str, frozenset[str]] = {
    "funcgrad._primitives": frozenset(
        {"funcgrad.numpy", "funcgrad.nn", "funcgrad.scipy", "funcgrad.scipy.linalg"}
    ),
    "funcgrad.numpy": frozenset(
        {"funcgrad.scipy", "funcgrad.scipy.linalg", "funcgrad.scipy.sparse"}
    ),
    "funcgrad._primitives.special_functions": frozenset({"funcgrad.scipy.special"}),
}
"""Where a file may have the name of another: a family of operations and its public functions, and
what NumPy and SciPy both have under a name, such as ``fft``."""


USERS_NAMES = frozenset({("funcgrad.nn.layers", "Linear")})
"""Classes that have to be called as users call them, though a class inside has the name."""


OTHERS_NAMES = "funcgrad.compat."
"""Files and classes there are called as in the library that they stand for."""


def doubled_names(sources: Sequence[Source]) -> Iterator[str]:
    """Classes of one name, private or not, and files of one name but for mirrors."""
    classes: dict[str, str] = {}
    files: dict[str, str] = {}
    for source in sources:
        if source.name.startswith(OTHERS_NAMES):
            continue
        for node in source.nodes:
            if isinstance(node, ast.ClassDef) and (source.name, node.name) not in USERS_NAMES:
                first = classes.setdefault(node.name.lstrip("_"), source.name)
                if first != source.name:
                    yield f"class {node.name}: {first} and {source.name}"
        if not source.is_package:
            package, _, name = source.name.rpartition(".")
            first = files.setdefault(name, package)
            is_mirror = package in MIRRORS.get(first, ()) or first in MIRRORS.get(package, ())
            if first != package and not is_mirror:
                yield f"file {name}: {first} and {package}"


ONE_MEANING: Mapping[str, frozenset[str]] = {
    # Words that once had two meanings, and the packages in which the remaining meaning is at home.
    "closure": frozenset({"_transforms"}),  # values that a function closes over
    "delegate": frozenset({"_core", "_transforms", "debug"}),  # a trace that asks a stager
    "deputy": frozenset(),
    "encounter": frozenset(),
    "foreign": frozenset({"_external", "_transforms", "interop"}),  # functions of other libraries
    "knot": frozenset(),
    "parcel": frozenset(),
    "settle": frozenset(),
    "settled": frozenset(),
    "stranger": frozenset(),
    "turns": frozenset({"scipy"}),  # rotations
}
"""Functions and classes with one of these words in their names are in these packages only."""


def words_of_two_meanings(source: Source) -> Iterator[str]:
    """Functions and classes whose names have a word outside of the packages where it belongs."""
    package = source.name.split(".")[1] if "." in source.name else source.name
    for node in source.nodes:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            spaced = re.sub(r"([A-Z])", r"_\1", node.name).lower()
            for word in set(spaced.split("_")) & ONE_MEANING.keys():
                if package not in ONE_MEANING[word]:
                    yield f"{source.name}:{node.lineno} {node.name}: {word!r} means something else"


# ------------------------------------------------------------------------------ changed classes


def changed_classes(source: Source) -> Iterator[str]:
    """Assignments to ``__class__``, after which an object is not what its reader thinks.

    A function that runs holds tracers of a loop's step, and only they can become the results.
    """
    if source.name == "funcgrad._transforms.captured_loops":
        return
    for node in source.nodes:
        if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Store):
            continue
        if node.attr == "__class__":
            yield f"{source.name}:{node.lineno} assigns to __class__"


# ------------------------------------------------------------------------- one kind of operation


def kinds_of_operations(source: Source) -> Iterator[str]:
    """Questions whether an operation is a primitive, or of which class, or whether it has a field:
    all are primitives, and what is to be known of one is a field of it."""
    for node in source.nodes:
        if not isinstance(node, ast.Call) or not node.args:
            continue
        asked = dotted_name(node.func)
        if asked == "isinstance" and "Primitive" not in ast.unparse(node):
            continue
        if asked not in {"getattr", "hasattr", "isinstance"}:
            continue
        if ast.unparse(node.args[0]).rpartition(".")[2] == "operation":
            yield f"{source.name}:{node.lineno} asks for the kind of an operation"


# ------------------------------------------------------------------------------------- unfinished

UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX)\b")


def reads_of_locals(source: Source) -> Iterator[str]:
    """Reads of a frame's local variables, which would depend on their names."""
    if source.name != "funcgrad._base.users_line":  # reads arguments, by position
        for node in source.nodes:
            if isinstance(node, ast.Attribute) and node.attr == "f_locals":
                yield f"{source.name}:{node.lineno} reads local variables"


def unfinished_business(source: Source) -> Iterator[str]:
    for number, line in enumerate(source.text.splitlines(), start=1):
        if UNFINISHED.search(line):
            yield f"{source.name}:{number} {line.strip()}"


# ---------------------------------------------------------------------------------- first words

RIDDLE = re.compile(r"(As|Of|The same|Those|What)\b")
"""First words of a docstring that do not say what its subject is: "Of two reshapes the last one
counts." is to be "``reshape(reshape(x))`` is one reshape." """


def riddles(source: Source) -> Iterator[str]:
    """Docstrings, also those of variables and fields, that begin with one of some words."""
    for node in source.nodes:
        match node:
            case ast.Expr(value=ast.Constant(value=str() as text)):
                first = text.strip().partition("\n")[0]
                if RIDDLE.match(first):
                    yield f"{source.name}:{node.lineno} {first}"


def sets_made_anew(source: Source) -> Iterator[str]:
    """Comprehensions that make one set for each element, to look the element up in it."""
    for node in source.nodes:
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            bound = {name.id for name in _names(node) if isinstance(name.ctx, ast.Store)}
            parts = [part for loop in node.generators for part in loop.ifs]
            for made in [call for part in parts for call in ast.walk(part)]:
                match made:
                    case ast.Compare(
                        comparators=[ast.Call(func=ast.Name("set" | "frozenset")) as call]
                    ):
                        if bound.isdisjoint(name.id for name in _names(call)):
                            yield f"{source.name}:{node.lineno} {ast.unparse(call)}"


def _names(node: ast.AST) -> list[ast.Name]:
    return [name for name in ast.walk(node) if isinstance(name, ast.Name)]


# ---------------------------------------------------------------------------------- empty names

EMPTY_WORDS = frozenset("own found given rest kept part each".split())
"""They would fit everything: a name is to say what a thing is, in the words of the field."""

JAX_NAMES: Mapping[str, frozenset[str]] = {
    "funcgrad._core.pytrees": frozenset({"rest"})  # tree.map(f, tree, *rest)
}


def empty_names(source: Source) -> Iterator[str]:
    """Variables, parameters, attributes, functions and classes whose name is one of these words."""
    for node in source.nodes:
        name = bound_name(node)
        if name in JAX_NAMES.get(source.name, ()):
            continue
        if name.strip("_") in EMPTY_WORDS:
            yield f"{source.name}:{getattr(node, 'lineno', 0)} {name} does not say what it is"


def bound_name(node: ast.AST) -> str:
    """The name that a part of a program binds; empty if it binds none."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            return name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case ast.arg(arg=name) | ast.alias(asname=str() as name):
            return name
        case ast.MatchAs(name=str() as name) | ast.MatchStar(name=str() as name):
            return name
        case ast.MatchMapping(rest=str() as name) | ast.ExceptHandler(name=str() as name):
            return name
    return ""


# ----------------------------------------------------------------------------------------- maps


def unmapped(page: Path) -> Iterator[str]:
    """Files and folders beside a README that its map leaves out."""
    text = page.read_text("utf-8")
    for path in sorted(page.parent.iterdir()):
        name = f"{path.name}/" if (path / "__init__.py").exists() else path.name
        is_code = name.endswith(("/", ".py")) and name != "__init__.py"
        if is_code and not re.search(rf"(?<![\w.]){re.escape(name)}", text):
            yield f"{page}: {name}"


# ------------------------------------------------------------------------- operations by name

LAWS = frozenset(
    {
        "funcgrad.interop.onnx.operator_writer",
        "funcgrad.interop.onnx.replacements",
        "funcgrad._backends.native.chosen_sides",
        "funcgrad._backends.native.same_bits",
        "funcgrad._backends.step_sums",
        "funcgrad._passes.few_of_order",
        "funcgrad._passes.in_place",
        "funcgrad._passes.relax",
        "funcgrad._passes.simplify",
    }
)
"""Algebraic laws relate particular operations, such as sums. ONNX has some operators of its own,
such as ``Conv`` and ``TopK``, which no structure says; others are written in operations that it
has."""


def operations_by_name(source: Source) -> Iterator[str]:
    """Comparisons with a particular primitive, and tables that have primitives for keys."""
    if source.name.startswith(("funcgrad._primitives", "funcgrad.numpy")) or source.name in LAWS:
        return
    names, modules = primitives_in(source)

    def is_primitive(node: ast.AST) -> bool:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            return node.value.id in modules
        return isinstance(node, ast.Name) and node.id in names

    for node in source.nodes:
        asked: list[ast.AST] = []
        if isinstance(node, ast.Compare):
            asked = [inner for value in node.comparators for inner in ast.walk(value)]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            asked = [*node.args] if node.func.attr in {"is_made_by", "made_by"} else []
        elif isinstance(node, ast.Dict):
            asked = [key for key in node.keys if key is not None]
        elif isinstance(node, ast.Set):
            asked = [*node.elts]
        if any(is_primitive(inner) for inner in asked):
            line = getattr(node, "lineno", 0)
            yield f"{source.name}:{line} asks for a particular operation; LAWS has the exceptions"


def primitives_in(source: Source) -> tuple[set[str], set[str]]:
    """The names of primitives, and of modules of primitives, that a module imports."""
    names: set[str] = set()
    modules: set[str] = set()
    for node in source.nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PRIMITIVES):
            home = None if node.module == PRIMITIVES else importlib.import_module(node.module or "")
            for alias in node.names:
                bound = alias.asname or alias.name
                if home is None or not hasattr(home, alias.name):
                    modules.add(bound)
                elif isinstance(getattr(home, alias.name), Primitive):
                    names.add(bound)
    return names, modules


PRIMITIVES = "funcgrad._primitives"


# --------------------------------------------------------------------------- types that say nothing

KNOWN_ANY: Mapping[str, int] = {
    # The user's: pytrees and their leaves, functions' arguments and results, keys in brackets,
    # options that are checked. The rest is to get a type.
    "funcgrad._base": 1,
    "funcgrad._core": 32,
    "funcgrad._core.structure": 3,
    "funcgrad.tensor": 29,
    "funcgrad._backends": 1,
    "funcgrad.compat.autograd": 38,
    "funcgrad._backends.array_code": 3,
    "funcgrad._backends.native": 5,
    "funcgrad._backends.numpy": 4,
    "funcgrad._backends.xla": 50,  # arrays and modules of JAX's
    "funcgrad._control": 43,
    "funcgrad.debug": 3,
    "funcgrad.nn": 23,
    "funcgrad._external": 30,
    "funcgrad._forms": 13,
    "funcgrad.integrate": 63,  # integrands of users, their arguments and results
    "funcgrad.implicit": 4,
    "funcgrad.interop": 90,  # arrays of other libraries
    "funcgrad.interop.onnx": 100,  # objects of the package onnx, and inputs of its operators
    "funcgrad.interop.sklearn": 56,  # the same, tables and lists
    "funcgrad.numpy": 23,
    "funcgrad.optim": 1,
    "funcgrad.optimize": 90,  # trees of users, their functions and options
    "funcgrad.parallel": 6,
    "funcgrad._primitives": 13,  # an object of SciPy
    "funcgrad._programs": 5,
    "funcgrad.random": 1,
    "funcgrad.tree": 3,
    "funcgrad.sparse": 30,  # also objects of SciPy
    "funcgrad.scipy.sparse": 4,  # matrices of SciPy or of funcgrad
    "funcgrad.scipy.optimize": 19,  # also in overloads, by which results have types
    "funcgrad._staging": 16,
    "funcgrad.testing": 5,
    "funcgrad._transforms": 71,
}
"""How many parameters of a package's functions may be anything. These numbers may only fall."""


def parameters_of_any_type(source: Source) -> Iterator[str]:
    """Parameters that are annotated with ``Any`` alone."""
    for function, _ in source.functions:
        parameters = function.args
        extras = [
            parameter
            for parameter in (parameters.vararg, parameters.kwarg)
            if parameter is not None
        ]
        for parameter in (
            *parameters.posonlyargs,
            *parameters.args,
            *parameters.kwonlyargs,
            *extras,
        ):
            if parameter.annotation is not None and dotted_name(parameter.annotation).endswith(
                "Any"
            ):
                yield f"{source.name}:{function.lineno} {function.name}: {parameter.arg}"


def package_of(source: Source) -> str:
    return source.name if source.is_package else source.name.rpartition(".")[0]
