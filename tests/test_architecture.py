"""The laws for every file of funcgrad: size, annotations, exports, imports, no shared state.

The checks read the source tree, so a new file is covered the moment it exists. Each is shown at the
end to fail on a small offender.
"""

import gc
import importlib
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import funcgrad as fg
from funcgrad._core.primitive import Primitive
from funcgrad._forms.json_text import declared_primitives
from funcgrad._hooks.result_watch import WATCHING, Watching
from funcgrad._primitives.elementwise import add
from funcgrad._primitives.index_keys import Key
from tests.architecture import (
    DEFERRED_IMPORTS,
    KNOWN_ANY,
    MAX_FILE_LINES,
    MAX_FUNCTION_LINES,
    REPOSITORY,
    SOURCES,
    Source,
    can_change,
    changed_classes,
    deferred_imports,
    doubled_names,
    empty_names,
    foreign_modules,
    import_cycle,
    imports_of,
    kinds_of_operations,
    late_names,
    lists_its_names,
    long_files,
    long_functions,
    missing_annotations,
    operations_by_name,
    package_of,
    parameters_of_any_type,
    process_state,
    reads_of_locals,
    riddles,
    services_on_page,
    sets_made_anew,
    shared_state,
    slow_dataclasses,
    unfinished_business,
    unlisted_names,
    unmapped,
    words_of_two_meanings,
    wrong_exports,
)
from tests.comprehensions import hidden_names
from tests.test_names import public_modules
from tests.together import together

# ------------------------------------------------------------------------- the checks on funcgrad

Check = Callable[[Source], Iterator[str]]


def deferred_imports_of_funcgrad(source: Source) -> Iterator[str]:
    return deferred_imports(source, frozenset(module.name for module in SOURCES))


CHECKS: tuple[Check, ...] = (
    long_files,
    long_functions,
    missing_annotations,
    shared_state,
    deferred_imports_of_funcgrad,
    changed_classes,
    kinds_of_operations,
    unfinished_business,
    reads_of_locals,
    late_names,
    slow_dataclasses,
    riddles,
    empty_names,
    hidden_names,
    sets_made_anew,
    words_of_two_meanings,
)


@pytest.fixture(autouse=True, scope="module")
def _trees_are_left_alone_by_collections() -> None:
    """Parse all files at once: collections meanwhile would take three times as long as that."""
    gc.disable()
    assert all(source.tree for source in SOURCES)
    gc.freeze()
    gc.enable()


def test_discovery_finds_the_package() -> None:
    assert {"funcgrad", "funcgrad.errors"} <= {source.name for source in SOURCES}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_every_file_passes(check: Check) -> None:
    assert [finding for source in SOURCES for finding in check(source)] == []


def test_every_module_is_imported_once() -> None:
    doubled = [
        f"{name}.{key}"
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] == "funcgrad"
        for key, value in vars(module).items()
        if isinstance(value, type) and value.__module__ in sys.modules
        if getattr(sys.modules[value.__module__], value.__name__, value) is not value
    ]
    assert doubled == []


@pytest.mark.slow
def test_examples_and_tests_share_their_modules() -> None:
    once = f"{__file__}::{test_every_module_is_imported_once.__name__}"
    files = ["funcgrad/errors.py", "funcgrad/tensor/tensor.py", "funcgrad/random/keys.py", once]
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_page_lists_all_state_of_the_process() -> None:
    modules = []
    for source in SOURCES:
        with suppress(ImportError):  # of a package that is not installed
            modules.append(importlib.import_module(source.name))
    loaded = {module.__name__.removeprefix("funcgrad.") for module in modules}
    listed = services_on_page((REPOSITORY / "ARCHITECTURE.md").read_text("utf-8"))
    state = {name for name in listed if name.rpartition(".")[0] in loaded}
    found_when_used = {
        "_backends.xla.xla_devices._DEVICES",
        "testing.strategies.drawn_functions.OPERATIONS",
    }
    assert set(process_state(modules)) | found_when_used == state


def test_state_is_seen() -> None:
    changing: tuple[object, ...] = (
        [],
        {1: 2},
        {1},
        bytearray(),
        ContextVar("x"),
        np.zeros(2),
        cache(abs),
        Watching(),
    )
    assert all(map(can_change, changing))
    fixed: tuple[object, ...] = (
        1,
        "x",
        (1, 2),
        frozenset(),
        WATCHING.__class__,
        add,
        Key((1,)),
        fg.tensor([1.0]),
    )
    assert not any(map(can_change, fixed))


def test_exports_exist_and_are_unique() -> None:
    # Not `import a.b as c`, which takes the façade's attribute where it has the submodule's name.
    modules = [importlib.import_module(source.name) for source in SOURCES if source.is_public]
    assert [finding for module in modules for finding in wrong_exports(module)] == []


# Formulas are written in a list of names.
VOCABULARIES = frozenset({"funcgrad._core.intrinsics"})


def test_modules_list_their_names_where_users_reach_them() -> None:
    reached = {module.__name__ for _, module in public_modules()}
    listed = {source.name for source in SOURCES if lists_its_names(source)}
    assert listed == reached | VOCABULARIES


def test_one_module_declares_a_primitive_with_its_type() -> None:
    """A saved program names this module."""
    names = [source.name for source in SOURCES if source.name.startswith("funcgrad._primitives.")]
    modules = [importlib.import_module(name) for name in names]
    declared = Counter(id(p) for module in modules for p in declared_primitives(module).values())
    assert {*declared.values()} == {1}
    public = [item for module in modules for item in vars(module).items() if item[0][0] != "_"]
    primitives = {name: id(value) for name, value in public if isinstance(value, Primitive)}
    assert [name for name, number in primitives.items() if number not in declared] == []


@pytest.mark.parametrize("text", ["__all__ = ['x']\nx = 1", "__all__: list[str] = []"])
def test_a_list_of_names_is_seen(text: str) -> None:
    assert lists_its_names(Source("sample", text))
    assert not lists_its_names(Source("sample", "x = 1\nf(__all__)"))


def test_facade_lists_every_public_name() -> None:
    assert list(unlisted_names(importlib.import_module("funcgrad"))) == []


def test_the_map_of_a_readme_has_every_file() -> None:
    pages = sorted((REPOSITORY / "funcgrad").rglob("README.md"))
    assert pages
    assert [line for page in pages for line in unmapped(page)] == []


def test_a_file_that_a_map_leaves_out_is_found(tmp_path: Path) -> None:
    for name in ("__init__.py", "one.py", "other.py", "inner/__init__.py", "data/numbers.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    page = tmp_path / "README.md"
    page.write_text("| `another.py` | `inner` |")
    assert [line.split(": ")[1] for line in unmapped(page)] == ["inner/", "one.py", "other.py"]
    page.write_text("| `one.py` `other.py` | `inner/` |")
    assert list(unmapped(page)) == []


def test_no_import_cycles() -> None:
    assert import_cycle(SOURCES) == []


def test_one_name_means_one_thing() -> None:
    assert list(doubled_names(SOURCES)) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Source("p.a", "class C: ..."), Source("p.b", "class C: ...")),
        (Source("p.a", "class _C: ..."), Source("p.b", "def f():\n  class C: ...")),
        (Source("p.a.x", ""), Source("p.b.x", "")),
        (Source("funcgrad._primitives.x", ""), Source("funcgrad._passes.x", "")),
        (Source("funcgrad.numpy.x", ""), Source("funcgrad.nn.x", "")),
    ],
)
def test_a_doubled_name_is_found(first: Source, second: Source) -> None:
    assert list(doubled_names((first, second)))


def test_a_family_may_have_the_name_of_its_functions() -> None:
    assert not list(
        doubled_names((Source("funcgrad._primitives.x", ""), Source("funcgrad.numpy.x", "")))
    )


def test_documented_deferred_imports_are_still_needed() -> None:
    known = frozenset(source.name for source in SOURCES)
    deferred = {
        (dependency.importer, dependency.imported)
        for source in SOURCES
        for dependency in imports_of(source, known)
        if dependency.deferred
    }
    documented = {
        (name, dependency) for name, targets in DEFERRED_IMPORTS.items() for dependency in targets
    }
    assert documented <= deferred


def test_nobody_asks_for_particular_operations() -> None:
    # An operation knows itself: what is asked of it is a field of its declaration.
    assert [line for source in SOURCES for line in operations_by_name(source)] == []


@together(
    "text",
    [
        "from funcgrad._primitives.elementwise import add\nx = operation is add",
        "from funcgrad._primitives.elementwise import add as plus\nx = operation in (plus,)",
        "from funcgrad._primitives import elementwise as ew\nx = operation == ew.add",
        "from funcgrad._primitives.elementwise import add\nTABLE = {add: 1}",
        "from funcgrad._primitives.elementwise import add\nSET = {add}",
        "from funcgrad._primitives.elementwise import add\nbench.is_made_by(x, add)",
    ],
)
def test_asking_for_a_particular_operation_is_seen(text: str) -> None:
    assert list(operations_by_name(Source("funcgrad._passes.new", text)))
    assert not list(operations_by_name(Source("funcgrad._passes.simplify", text)))


def test_any_is_the_users() -> None:
    counts = Counter(
        package_of(source) for source in SOURCES for _ in parameters_of_any_type(source)
    )
    assert {name: count for name, count in counts.items() if count > KNOWN_ANY.get(name, 0)} == {}


@pytest.mark.parametrize(
    "text",
    [
        "def f(x: Any) -> None: ...",
        "def f(*xs: Any) -> None: ...",
        "def f(*, x: typing.Any) -> None: ...",
        "class C:\n  def f(self, **xs: Any) -> None: ...",
    ],
)
def test_a_parameter_of_any_type_is_seen(text: str) -> None:
    assert list(parameters_of_any_type(Source("funcgrad.sample", text)))


def test_a_parameter_that_says_more_may_mention_any() -> None:
    text = "def f(x: dict[str, Any], y: np.dtype[Any]) -> Any: ..."
    assert list(parameters_of_any_type(Source("funcgrad.sample", text))) == []


def test_import_loads_only_numpy_and_the_standard_library() -> None:
    assert foreign_modules("funcgrad") == []


# ------------------------------------------------------------------------------ the checks can fail

LONG_BODY = "\n".join("    pass" for _ in range(MAX_FUNCTION_LINES))

CHECKED = "if TYPE_CHECKING:\n  from funcgrad.sample.part import f"

HIDING = "def f(x):\n  def g(y):\n    {}"

OFFENDERS: Mapping[Check, tuple[str, ...]] = {
    long_files: ("\n" * (MAX_FILE_LINES + 1),),
    long_functions: (
        f"def f():\n{LONG_BODY}",
        f"class C:\n  def f(self):\n{LONG_BODY}",
        f"def f():\n    'doc'\n{LONG_BODY}",
    ),
    missing_annotations: (
        "def f(x) -> None: ...",
        "def f(x: int): ...",
        "def f(*xs) -> None: ...",
        "def f(**xs) -> None: ...",
        "def f(*, x) -> None: ...",
        "def f(x, /) -> None: ...",
        "def f(self) -> None: ...",
        "class C:\n  def f(self, x) -> None: ...",
        "class C:\n  @staticmethod\n  def f(x) -> None: ...",
        "class C:\n  def f(self) -> None:\n    def g(self) -> None: ...",
    ),
    shared_state: (
        "x = []",
        "x: dict[str, int] = {}",
        "x = {n for n in 'ab'}",
        "x = y = (1, [2])",
        "x = dict(a=1)",
        "x = collections.defaultdict(list)",
        "x = weakref.WeakKeyDictionary[str, int]()",
        "x = itertools.count()",
        "x = functools.lru_cache(maxsize=None)(abs)",
        "x = np.zeros(3)",
        "x = ContextVar('x', default=[])",
        "x = (n for n in 'ab')",
        "x += [1]",
        "x['key'] = 1",
        "if True:\n  x = []",
        "try:\n  pass\nexcept OSError:\n  x = []",
        "class C:\n  x = []",
        "@functools.cache\ndef f(): ...",
        "class C:\n  @lru_cache(None)\n  def f(self): ...",
        "def f():\n  global x",
        "globals()['x'] = 1",
    ),
    reads_of_locals: ("frame.f_locals['self']", "x = frame.f_locals"),
    deferred_imports_of_funcgrad: (
        "def f():\n  import funcgrad.errors",
        "def f():\n  from funcgrad import errors",
        "def f():\n  import numpy.fft",
        "class C:\n  def f(self):\n    from itertools import count",
        "importlib.import_module('funcgrad.numpy')",
        "from importlib import import_module as _import_module\n_import_module('funcgrad.numpy')",
    ),
    changed_classes: ("x.__class__ = int", "def f(self):\n  self.__class__ = g"),
    kinds_of_operations: (
        "isinstance(equation.operation, Primitive)",
        "def f(operation):\n  return isinstance(operation, (Primitive, CallPrimitive))",
        "getattr(equation.operation, 'structure', None)",
    ),
    unfinished_business: ("# TO" + "DO: later", "raise Error('FIX" + "ME')"),
    late_names: (
        "x = LateNames(__name__, {'': 'a'})",
        "x = _LateNames(__name__, {'part': 'f g'})\n" + CHECKED,
        "x = _LateNames(__name__, {'part': 'f=h'})\n" + CHECKED,
        "x = _LateNames(__name__, {'parts': 'f'})\n" + CHECKED,
        "x = _LateNames(__name__, {})\n" + CHECKED,
    ),
    slow_dataclasses: (
        "import dataclasses",
        "from dataclasses import dataclass",
        "from dataclasses import dataclass as record, field",
    ),
    riddles: (
        "'What a module does.'",
        "class C:\n  'Those that are followed.'",
        "class C:\n  @property\n  def f(self): 'Of the slices.'",
        "async def f():\n  '''As ``g``.\n\n  Parameters\n  '''",
        "def f():\n  '''\n  The same for another loop.\n  '''",
        "x = 1\n'''Of steps.'''",
    ),
    sets_made_anew: ("zs = [x for x in xs if x not in set(ys)]",),
    words_of_two_meanings: ("class KnotOfCalls: ...", "def _closure_of(): ..."),
    empty_names: (
        "own = 1",
        "own: int = 1",
        "first, *rest = 1, 2",
        "for _found in x: ...",
        "x = [part for part in y]",
        "if (found := x): ...",
        "with x as kept: ...",
        "self.kept = 1",
        "class C:\n  _given: int",
        "class Part: ...\nclass part: ...",
        "def found() -> None: ...",
        "async def each() -> None: ...",
        "def f(given: int) -> None: ...",
        "def f(*rest: int) -> None: ...",
        "def f(*, own: int) -> None: ...",
        "x = lambda each: 1",
        "import x as _own",
        "try: ...\nexcept OSError as found: ...",
        "match x:\n  case [given, *y]: ...",
        "match x:\n  case [y, *rest]: ...",
        "match x:\n  case {'key': y, **rest}: ...",
    ),
    hidden_names: (
        HIDING.format("[x for x in y]; return lambda: x"),
        HIDING.format("{x for x in y}; return list(x for _ in y)"),
        HIDING.format("{x: y for x in y}; return [x for _ in y]"),
        HIDING.format("return [[x for x in y] for _ in y], lambda: lambda: x"),
        HIDING.format("return [(lambda: x)() for _ in y if [x for x in y]]"),
        HIDING.format("[x for x in y]\n    class C:\n      def h(self): return x"),
    ),
}

INNOCENTS: Mapping[Check, tuple[str, ...]] = {
    long_files: ("\n" * MAX_FILE_LINES,),
    long_functions: ("def f():\n    '''doc\n\n    more\n    '''\n" + LONG_BODY[9:],),
    missing_annotations: (
        "f = lambda x: x",
        "class C:\n  def f(self, x: int) -> None: ...",
        "class C:\n  @classmethod\n  def f(cls) -> None: ...",
    ),
    shared_state: (
        "__all__ = ['x']",
        "x: int",
        "x = (1, 2)",
        "x = frozenset({1, 2})",
        "x = types.MappingProxyType({'a': 1})",
        "x = tuple([n for n in 'ab'])",
        "x = np.float64(1)",
        "x = ContextVar('x', default=())",
        "x = primitive('x', samples=[1, 2])",
        "class C:\n  x: list[int] = field(default_factory=list)",
        "def f():\n  x = []\n  x[0] = 1",
    ),
    deferred_imports_of_funcgrad: ("import funcgrad.errors", "def f():\n  import scipy"),
    changed_classes: ("x = y.__class__", "self.__class__.z = 1"),
    kinds_of_operations: (
        "isinstance(value, Primitive)",
        "isinstance(operation.structure, Control)",
        "getattr(operation.differential, 'structural', False)",
    ),
    unfinished_business: ("todo_list = ()",),
    reads_of_locals: ("frame.f_code",),
    late_names: ("x = LateNames(__name__, {'part': 'f'})\n" + CHECKED, CHECKED),
    slow_dataclasses: ("from dataclasses import field, replace",),
    riddles: (
        "'Often the result.'",
        "'The sameness of values.'",
        "def f():\n  'Whether x is. As g does.'\n  x = 'What?'",
    ),
    sets_made_anew: ("zs = [x for x in xs if x.name in set(x.parts)]",),
    words_of_two_meanings: ("def enclosure(): ...", "knot = 1"),
    empty_names: (
        "x = other.own + rest[part](each=found)",
        "partial = own_type = givens = 1",
        "from x import kept",
        "match x:\n  case {'own': y} | 'rest' | _: ...",
    ),
    hidden_names: (
        HIDING.format("[x for x in y]; return lambda: (x, x := 1)"),
        HIDING.format("[x for x in [x]]; return lambda: x"),
        HIDING.format("[x for x in y]; return lambda z=x: z"),
        HIDING.format("list(x for x in y); return lambda: x"),
        HIDING.format("return (lambda: [x for x in y]), (lambda: x)"),
        HIDING.format("return [(lambda: x) for x in y]"),
        "def g(y): return [x for x in y], lambda: x",
    ),
}


def cases(table: Mapping[Check, tuple[str, ...]]) -> list[object]:
    return [
        pytest.param(check, text, id=f"{check.__name__}-{number}")
        for check, texts in table.items()
        for number, text in enumerate(texts)
    ]


def test_every_check_has_an_offender() -> None:
    assert set(CHECKS) == set(OFFENDERS) == set(INNOCENTS)


@together(("check", "text"), cases(OFFENDERS))
def test_check_finds_offender(check: Check, text: str) -> None:
    assert list(check(Source("funcgrad.sample", text)))


@together(("check", "text"), cases(INNOCENTS))
def test_check_lets_innocent_pass(check: Check, text: str) -> None:
    assert list(check(Source("funcgrad.sample", text))) == []


def module_with(**names: object) -> ModuleType:
    module = ModuleType("sample")
    vars(module).update(names)
    return module


@pytest.mark.parametrize("names", [["absent"], ["f", "f"]])
def test_wrong_exports_are_found(names: list[str]) -> None:
    module = module_with(__all__=names, f=1)
    assert list(wrong_exports(module))


def test_right_exports_pass() -> None:
    names = ["LIMIT", "C", "f2", "f10", "g"]
    module = module_with(__all__=names, **dict.fromkeys(names, 1))
    assert list(wrong_exports(module)) == []


def test_unlisted_name_is_found() -> None:
    submodule = ModuleType("sample.part")
    module = module_with(__all__=["f"], f=1, g=2, part=submodule, other=ModuleType("numpy"))
    assert [finding.split()[0] for finding in unlisted_names(module)] == [
        "sample.g",
        "sample.other",
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("import p.b", "from p import a"),
        ("from . import b", "from .a import x"),
        ("from p.b import x", "def f():\n  from p.a import x"),
        ("from p.b import x", "if TYPE_CHECKING:\n  import p.a"),
    ],
)
def test_import_cycle_is_found(first: str, second: str) -> None:
    package = Source("p", "", is_package=True)
    assert import_cycle((package, Source("p.a", first), Source("p.b", second)))
    assert not import_cycle((package, Source("p.a", first), Source("p.b", "")))


def test_facade_is_not_for_its_own_modules() -> None:
    facade = Source("p", "from .a import x", is_package=True)
    assert import_cycle((facade, Source("p.a", "from p import x")))
    assert not import_cycle((facade, Source("p.a", "x = 1")))


def test_only_the_documented_import_is_deferred() -> None:
    namespace = Source("funcgrad.numpy", "import funcgrad.tensor.tensor", is_package=True)
    deferred = "def f():\n  import funcgrad.numpy"
    assert not import_cycle((namespace, Source("funcgrad.tensor.tensor", deferred)))
    assert import_cycle((namespace, Source("funcgrad.tensor.tensor", "import funcgrad.numpy")))


@pytest.mark.parametrize("module", ["pytest", "numpy.random"])
def test_foreign_modules_are_found(module: str) -> None:
    assert foreign_modules(module)


def test_a_word_is_at_home_in_its_packages() -> None:
    at_home = Source("funcgrad._transforms.sample", "def closure(): ...")
    assert list(words_of_two_meanings(at_home)) == []
