"""A checker of names that comprehensions bind: Python hides others by them.

From 3.12 on a comprehension is a part of the function around it (PEP 709). If it binds a name that
this function itself does not mention, but takes from an outer function for one within it, the inner
function gets the comprehension's variable, and raises NameError. That is CPython's behaviour.

>>> from tests.architecture import Source
>>> text = '''
... def f(name):
...     def g(names):
...         def h():
...             return name
...         return [name for name in names], h()
... '''
>>> list(hidden_names(Source("funcgrad.sample", text)))
['funcgrad.sample:3 g: a comprehension hides name']
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.architecture import FUNCTION_TYPES, Source

INLINED = (ast.ListComp, ast.SetComp, ast.DictComp)
SCOPES = (*FUNCTION_TYPES, *INLINED, ast.Lambda, ast.GeneratorExp, ast.ClassDef)


@dataclass
class Scope:
    """The names that a function, a class or a comprehension binds and reads itself."""

    node: ast.AST
    bound: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)
    children: list["Scope"] = field(default_factory=list)

    def free(self) -> set[str]:
        """The names that it takes from outside."""
        taken = self.taken()
        return self.read - self.bound | (
            taken if isinstance(self.node, ast.ClassDef) else taken - self.bound
        )

    def taken(self) -> set[str]:
        """The names that functions and comprehensions within it take from outside."""
        return {name for child in self.children for name in child.free()}

    def bound_inline(self) -> set[str]:
        """The names that comprehensions bind which are a part of it."""
        inlined = [child for child in self.children if isinstance(child.node, INLINED)]
        return {name for child in inlined for name in child.bound | child.bound_inline()}

    def enter(self, *nodes: ast.AST | None) -> None:
        """Note the names in syntax that runs here."""
        for node in nodes:
            match node:
                case ast.Name(id=name, ctx=ast.Load()):
                    self.read.add(name)
                case ast.Name(id=name) | ast.arg(arg=name):
                    self.bound.add(name)
                case ast.Nonlocal(names=names) | ast.Global(names=names):
                    self.read.update(names)
                case ast.ExceptHandler(name=str() as name) | ast.alias(asname=str() as name):
                    self.bound.add(name)
                case ast.alias(name=name):
                    self.bound.add(name.partition(".")[0])
                case ast.MatchAs(name=str() as name) | ast.MatchStar(name=str() as name):
                    self.bound.add(name)
            if isinstance(node, SCOPES):
                self._inner(node)
            elif node is not None:
                self.enter(*ast.iter_child_nodes(node))

    def _inner(self, node: ast.AST) -> None:
        inner = Scope(node)
        self.children.append(inner)
        match node:
            case ast.Lambda(args=args, body=body):
                self.enter(*args.defaults, *args.kw_defaults)
                inner.enter(*_arguments(args), body)
            case ast.FunctionDef(args=args) | ast.AsyncFunctionDef(args=args):
                self.bound.add(node.name)
                self.enter(*node.decorator_list, *args.defaults, *args.kw_defaults)
                inner.enter(*_arguments(args), *node.body)
            case ast.ClassDef():
                self.bound.add(node.name)
                self.enter(*node.decorator_list, *node.bases, *node.keywords)
                inner.enter(*node.body)
            case ast.DictComp(generators=[first, *others]):
                self.enter(first.iter)
                inner.enter(first.target, *first.ifs, *others, node.key, node.value)
            case (
                ast.ListComp(generators=[first, *others])
                | ast.SetComp(generators=[first, *others])
                | ast.GeneratorExp(generators=[first, *others])
            ):
                self.enter(first.iter)
                inner.enter(first.target, *first.ifs, *others, node.elt)


def _arguments(args: ast.arguments) -> list[ast.arg]:
    kinds = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    return [ast.arg(argument.arg) for argument in kinds if argument is not None]


def hidden_names(source: Source) -> Iterator[str]:
    """Names of outer functions that a comprehension hides from a function beside it."""
    module = Scope(source.tree)
    module.enter(source.tree)
    waiting = [(child, frozenset[str]()) for child in module.children]
    while waiting:
        scope, outer = waiting.pop()
        node = scope.node
        if not isinstance(node, (*INLINED, ast.ClassDef)):
            hidden = scope.bound_inline() & scope.taken() & outer - scope.read - scope.bound
            for name in sorted(hidden):
                line, function = getattr(node, "lineno", 1), getattr(node, "name", "<lambda>")
                yield f"{source.name}:{line} {function}: a comprehension hides {name}"
        bound = frozenset() if isinstance(node, ast.ClassDef) else scope.bound
        waiting += [(child, outer | bound) for child in scope.children]
