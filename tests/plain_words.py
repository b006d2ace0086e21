"""Count turns of phrase that a reader has to read twice, per 1,000 words of prose.

The files of a package go in: its docstrings, comments, pages and messages (texts of errors and
warnings, and other strings that are sentences). Counts by package come out. A limit for each count
above its aim stands in ``tests/plain_words.json``, and ``test_plain_words.py`` compares.

The counts are a thermometer. They tell which package to read next, not what to write there. Repeat
the noun; write one relative clause a sentence and the verb early; use the terms of NumPy and SciPy.

``python -m tests.plain_words`` prints the table, and ``--list numpy random`` the lines of some
packages. ``--lower`` lowers the limits to the counts of today; it never raises one.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_BUILT = [  # where the site is built from written pages
    ROOT / "examples/docs" / name for name in ("errors", "gallery", "made", "packages", "reference")
]
LIMITS = ROOT / "tests" / "plain_words.json"

Limits = dict[str, dict[str, int]]

_TERMS = (
    "Bernoulli|Euler|Stirling|block|complex|condition|denormal|direction|even|finite|"
    "floating-point|imaginary|irrational|line|natural|negative|odd|page|positive|prime|"
    "pseudorandom|Python|random|rational|real|serial|subnormal|value|version|whole"
)
"""Words before ``numbers`` that make it a term of mathematics, or mean an identification."""

_WAYS = (
    "a direction|any|backward|batches|both|directions|double|either|every|float|forward|general|"
    "half|many directions|mode|NumPy|order|place|precision|reverse|single|such|that case|the|"
    "these|this|turn|two directions"
)
"""Words after ``derivatives in`` that tell how, and not with respect to which argument."""

_DERIVE = "differentiat(?:e[sd]?|ing)|derivatives?|gradients?"

PATTERNS = {
    "that of, those of": r"\b(?:that|those) of\b",
    # Neither a direct question, nor "what to write".
    "what, as a noun": r"(?<!no matter )\bwhat\b(?! to\b)(?![^.?!:;]*\?)",
    # "is no longer so" is an adverb, "is no longer than" a comparison.
    "is no, are no": r"\b(?:is|are|was|were|be|being|been) no\b(?! longer\b(?! than\b))",
    "of which, of whose": r"\bof (?:which|whose)\b",
    "alone, for only": r"(?<!let )(?<!stand )(?<!stands )(?<!standing )\balone\b",
    "in the place of": r"\bin the places? of\b",
    "by way of": r"\bby way of\b",
    "numbers, for values": (
        r"(?<!\w-)(?<!by )\bnumbers\b(?! of (?!the\b|an?\b|``|all\b|this\b|that\b|one\b))"
    ),
    "differentiate in": (
        rf"\b(?:{_DERIVE}) in(?! (?:{_WAYS})\b)"
        rf"|\b(?:{_DERIVE}) in (?:every|any|all|both|either|the|this|that|these) (?:\w+ )?"
        r"(?:arguments?|parameters?|variables?|inputs?|operands?)\b"
    ),
}
"""A regular expression for each turn of phrase."""

AIMS = {
    "that of, those of": 0.3,
    "what, as a noun": 0.3,
    "is no, are no": 0.2,
    "of which, of whose": 0.1,
    "alone, for only": 0.1,
    "in the place of": 0.1,
    "by way of": 0.1,
    "numbers, for values": 0.1,
    "differentiate in": 0.1,
}
"""The greatest counts per 1,000 words that are aimed at."""

_SEARCHED = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in PATTERNS.items()}
_PASSED_OVER = {
    "numbers, for values": re.compile(rf"\b(?:{_TERMS}) numbers\b", re.IGNORECASE),
    "alone, for only": re.compile(r"\b(?:leav\w+|left) (?:[\w`*,.()]+ ){1,5}alone\b"),
}
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
_SENTENCE = re.compile(r"(?:[A-Za-z'-]+[,;:]?\s+){4}")
_STRING_OR_COMMENT = re.compile(
    r"""(\"{3}|'{3})(?:\\.|(?!\1).)*\1|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|\#[^\n]*""",
    re.DOTALL,
)
"""What Python's own tokenizer finds takes twenty times as long."""
_PRAGMA = re.compile(r"# *(?:noqa|type:|pyright:|pragma|fmt:|ruff:|codespell)")
_FENCED = re.compile(r"^(```|~~~|:::).*?^\1", re.MULTILINE | re.DOTALL)
_EXAMPLE = re.compile(r"^ *>>> .*?(?:\n *$|\Z)", re.MULTILINE | re.DOTALL)
_DIRECTIVE = re.compile(r"^ *(?:\.\. [\w-]+::|:\w+:).*", re.MULTILINE)


@dataclass(frozen=True)
class Prose:
    """A piece of prose: where it begins, and its text without code."""

    file: Path
    line: int
    text: str


@dataclass
class Counts:
    """The words of a package, and how often each turn of phrase occurs in them."""

    words: int = 0
    turns: Counter[str] = field(default_factory=Counter)

    def per_thousand(self, turn: str) -> float:
        """How often a turn of phrase occurs in 1,000 words."""
        return 1000 * self.turns[turn] / max(self.words, 1)


# ------------------------------------------------------------------------------ prose of a file


def without_code(text: str) -> str:
    """A docstring or a page without examples, listings and formulas; quoted names stay one word."""
    for code in (_FENCED, _EXAMPLE, _DIRECTIVE):
        text = code.sub("", text)
    lines, inside, indentation = [], False, 0
    for line in text.splitlines():
        stripped = line.strip()
        depth = len(line) - len(line.lstrip())
        if inside and stripped and depth <= indentation:
            inside = False
        if inside:
            continue
        if stripped.endswith("::"):
            inside, indentation = True, depth
        lines.append(line)
    return re.sub(r"`+[^`]*`+|\$[^$]*\$", "``", "\n".join(lines))


def _strings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The docstrings and the sentences among the other strings, with their lines."""
    docstrings, parts = set[int](), set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            docstrings.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            parts.update(id(value) for value in node.values)
            texts = [_text(value) or "``" for value in node.values]
            if _SENTENCE.search("".join(texts)):
                yield node.lineno, "".join(texts)
        elif (
            (text := _text(node))
            and id(node) not in parts
            and (id(node) in docstrings or _SENTENCE.search(text))
        ):
            yield getattr(node, "lineno", 1), text


def _text(node: ast.AST) -> str:
    """The text of a constant; nothing where it is none."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Comments; lines that follow one another are one comment."""
    first, last, texts = 0, 0, list[str]()
    line, place = 1, 0
    for match in _STRING_OR_COMMENT.finditer(source):
        if match[0][0] != "#" or _PRAGMA.match(match[0]):
            continue
        line, place = line + source.count("\n", place, match.start()), match.start()
        if texts and line != last + 1:
            yield first, "\n".join(texts)
            texts = []
        first, last = (first if texts else line), line
        texts.append(match[0].lstrip("# ").rstrip("-"))
    if texts:
        yield first, "\n".join(texts)


def prose_of(file: Path) -> Iterator[Prose]:
    """The prose of a module or of a page."""
    source = file.read_text(encoding="utf-8")
    if file.suffix == ".md":
        yield Prose(file, 1, without_code(source))
        return
    for line, text in _strings(ast.parse(source)):
        yield Prose(file, line, without_code(text))
    if "#" in source:
        for line, text in _comments(source):
            yield Prose(file, line, without_code(text))


def turns_in(text: str) -> Iterator[tuple[str, str]]:
    """The turns of phrase in a text, each with the words around it."""
    text = re.sub(r"\s+", " ", text)
    for turn, pattern in _SEARCHED.items():
        term = _PASSED_OVER.get(turn)
        over = {match.end() for match in term.finditer(text)} if term else set()
        for match in pattern.finditer(text):
            if match.end() not in over:
                yield turn, text[max(0, match.start() - 40) : match.end() + 40]


# -------------------------------------------------------------------------------- by package


def packages() -> dict[str, list[Path]]:
    """The files of each package of the product, of its top level, of examples and of pages."""
    product = ROOT / "funcgrad"
    found = {"pages": sorted(ROOT.glob("*.md"))}
    found["examples"] = _files(ROOT / "examples")
    found["funcgrad"] = sorted(file for file in product.iterdir() if file.suffix in (".py", ".md"))
    for folder in sorted(product.iterdir()):
        if files := _files(folder):
            found[folder.name] = files
    return found


def _files(folder: Path) -> list[Path]:
    """The modules and pages below a folder."""
    files = [file for suffix in ("py", "md") for file in folder.rglob(f"*.{suffix}")]
    return sorted(file for file in files if not any(map(file.is_relative_to, _BUILT)))


def counted(files: list[Path]) -> Counts:
    """Count the words and the turns of phrase of some files."""
    counts = Counts()
    for file in files:
        for prose in prose_of(file):
            counts.words += len(_WORD.findall(prose.text))
            counts.turns.update(turn for turn, _ in turns_in(prose.text))
    return counts


def limits() -> Limits:
    """The greatest counts of the packages that are above an aim."""
    return json.loads(LIMITS.read_text(encoding="utf-8"))


def above(package: str, counts: Counts, limits: Limits) -> dict[str, str]:
    """Texts for the turns of phrase of a package that occur too often.

    A package keeps to its aim, or to its limit while the aim is not reached.
    """
    allowed = limits.get(package, {})
    return {
        turn: f"{counts.turns[turn]} in {counts.words} words, {counts.per_thousand(turn):.2f} in "
        f"1,000; the aim is {aim}, the limit {allowed.get(turn, 0)}"
        for turn, aim in AIMS.items()
        if counts.per_thousand(turn) > aim and counts.turns[turn] > allowed.get(turn, 0)
    }


def lowered(counts: dict[str, Counts], before: Limits | None) -> Limits:
    """Limits that are the counts of today where these are above the aims, and below ``before``."""
    after: Limits = {}
    for package, today in counts.items():
        for turn, aim in AIMS.items():
            if today.per_thousand(turn) > aim:
                most = today.turns[turn] if before is None else before.get(package, {}).get(turn, 0)
                after.setdefault(package, {})[turn] = min(most, today.turns[turn])
    return after


# ------------------------------------------------------------------------------ from the shell


def table(counts: dict[str, Counts]) -> str:
    """The counts per 1,000 words, a package a line; a star marks those above the aim."""
    lines = [" " * 14 + "   words  " + "  ".join(AIMS)]
    for package, today in counts.items():
        cells = []
        for turn, aim in AIMS.items():
            star = "*" if today.per_thousand(turn) > aim else " "
            cells.append(f"{today.per_thousand(turn):.2f}{star}".rjust(len(turn) + 1))
        lines.append(f"{package:14}{today.words:8}  " + " ".join(cells))
    aims = " ".join(f"{aim} ".rjust(len(turn) + 1) for turn, aim in AIMS.items())
    return "\n".join([*lines, f"{'aims':22}  {aims}"])


def main() -> None:
    """Print the table, list the places of packages, or lower the limits."""
    parser = argparse.ArgumentParser(description="Count turns of phrase per 1,000 words.")
    parser.add_argument("--list", nargs="+", metavar="PACKAGE", help="print the places")
    parser.add_argument("--lower", action="store_true", help="lower the limits")
    options = parser.parse_args()
    files = packages()
    if options.list:
        for package in options.list:
            for file in files[package]:
                for prose in prose_of(file):
                    for turn, words in turns_in(prose.text):
                        print(f"{file.relative_to(ROOT)}:{prose.line}: {turn}: {words}")
        return
    counts = {package: counted(its_files) for package, its_files in files.items()}
    print(table(counts))
    if options.lower:
        after = lowered(counts, limits() if LIMITS.exists() else None)
        rows = [f'  "{package}": {json.dumps(row)}' for package, row in after.items()]
        LIMITS.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
