"""Code stays in pieces that a reader can hold in the head: limits on size, and names that say something.

An exception is an entry in `ALLOWED` with its reason. An entry that is not needed any more fails, so that the
list only shrinks.
"""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FUNCTION_LINES = 50
FUNCTION_LINES_P90 = 25
FILE_LINES = 500
PUBLIC_METHODS = 20
PARAMETERS = 8
FIELDS = 12
SAY_NOTHING = {"common", "helper", "helpers", "manager", "managers", "misc", "util", "utils"}

# (rule, place): reason
ALLOWED: dict[tuple[str, str], str] = {
    (
        "import in function",
        "src/tidemill/store/open.py:_backend",
    ): "a driver is loaded when its store is opened",
    (
        "import in function",
        "src/tidemill/store/blobs/address.py:_s3",
    ): "a driver is loaded when its blobs are opened",
}

Function = ast.FunctionDef | ast.AsyncFunctionDef
Offences = Iterator[tuple[str, str, str]]  # rule, place within the file, what is wrong


def long_file(tree: ast.Module, source: str) -> Offences:
    if (lines := len(source.splitlines())) > FILE_LINES:
        yield "long file", "", f"{lines} lines, at most {FILE_LINES}"


def long_function(tree: ast.Module, source: str) -> Offences:
    for place, function in functions(tree):
        if (lines := code_lines(function, source)) > FUNCTION_LINES:
            yield "long function", place, f"{lines} lines of code, at most {FUNCTION_LINES}"


def wide_class(tree: ast.Module, source: str) -> Offences:
    for place, node in classes(tree):
        # The cases of an importable test suite are no interface that someone has to learn.
        public = [name for name in methods(node) if not name.startswith(("_", "test_"))]
        if len(public) > PUBLIC_METHODS:
            yield "wide class", place, f"{len(public)} public methods, at most {PUBLIC_METHODS}"


def wide_constructor(tree: ast.Module, source: str) -> Offences:
    for place, node in classes(tree):
        if is_dataclass(node):
            count, limit = sum(isinstance(line, ast.AnnAssign) for line in node.body), FIELDS
        else:
            count, limit = parameters(methods(node).get("__init__")), PARAMETERS
        if count > limit:
            yield "wide constructor", place, f"{count} parameters, at most {limit}"


def import_in_function(tree: ast.Module, source: str) -> Offences:
    for place, function in functions(tree):
        for node in ast.walk(function):
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield "import in function", place, ast.unparse(node)


def empty_name(tree: ast.Module, source: str) -> Offences:
    for place, node in classes(tree):
        if words(node.name) & SAY_NOTHING:
            yield "empty name", place, "says nothing"


SIZES = (long_file, long_function)
RULES = (*SIZES, wide_class, wide_constructor, import_in_function, empty_name)
RULES_BY_FOLDER = {"src": RULES, "tests": SIZES, "benchmarks": SIZES, "scripts": SIZES}


def functions(tree: ast.AST, within: str = "") -> Iterator[tuple[str, Function]]:
    """The outermost functions and methods; what is nested in a function counts as part of it."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function):
            yield within + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, f"{within}{node.name}.")
        else:
            yield from functions(node, within)


def classes(tree: ast.Module) -> Iterator[tuple[str, ast.ClassDef]]:
    return ((node.name, node) for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def methods(node: ast.ClassDef) -> dict[str, Function]:
    return {line.name: line for line in node.body if isinstance(line, Function)}


def parameters(function: Function | None) -> int:
    """How many arguments a caller can pass by name or place, `self` aside."""
    if function is None:
        return 0
    arguments = function.args
    return len(arguments.posonlyargs + arguments.args + arguments.kwonlyargs) - 1


def is_dataclass(node: ast.ClassDef) -> bool:
    return any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)


def code_lines(function: Function, source: str) -> int:
    """Lines of code from `def` on: neither docstring, blank lines nor comments."""
    assert function.end_lineno
    body = function.body
    lines = set(range(function.lineno, function.end_lineno + 1))
    if ast.get_docstring(function) is not None and body[0].end_lineno:
        lines -= set(range(body[0].lineno, body[0].end_lineno + 1))
    text = source.splitlines()
    return sum(bool(text[number - 1].partition("#")[0].strip()) for number in lines)


def words(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+", name)}


def files(folder: str) -> Iterator[Path]:
    return (ROOT / folder).rglob("*.py")


def offences() -> dict[tuple[str, str], str]:
    found = {}
    for folder, rules in RULES_BY_FOLDER.items():
        for path in files(folder):
            source = path.read_text(encoding="utf-8")
            tree = ast.parse(source)
            name = str(path.relative_to(ROOT))
            for rule in rules:
                for label, place, problem in rule(tree, source):
                    found[label, f"{name}:{place}".rstrip(":")] = problem
    return found


def test_code_keeps_to_the_limits() -> None:
    assert {place: problem for place, problem in offences().items() if place not in ALLOWED} == {}


def test_no_exception_outlives_its_need() -> None:
    assert ALLOWED.keys() - offences().keys() == set()


def test_most_functions_are_short() -> None:
    lengths = []
    for path in files("src"):
        source = path.read_text(encoding="utf-8")
        lengths += [code_lines(function, source) for _, function in functions(ast.parse(source))]
    assert sorted(lengths)[len(lengths) * 9 // 10] <= FUNCTION_LINES_P90


def test_modules_have_names_that_say_something() -> None:
    empty = [path for path in (ROOT / "src").rglob("*") if words(path.stem) & SAY_NOTHING]
    assert empty == []


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (long_file, "x = 1\n" * FILE_LINES, "x = 1\n" * (FILE_LINES + 1)),
        (
            long_function,
            'def f():\n    """Doc.\n\n    More."""\n\n    # why\n' + "    x = 1\n" * (FUNCTION_LINES - 1),
            "def f():\n" + "    x = 1\n" * FUNCTION_LINES,
        ),
        (
            wide_class,
            "class C:\n"
            + "".join(f"    def {p}{i}(self): ...\n" for p in ("m", "_m", "test_m") for i in range(20)),
            "class C:\n" + "".join(f"    def m{i}(self): ...\n" for i in range(21)),
        ),
        (
            wide_constructor,
            "class C:\n    def __init__(self, a, b, c, d, e, f, g, h): ...\n",
            "class C:\n    def __init__(self, a, b, c, d, e, f, *, g, h, i): ...\n",
        ),
        (
            wide_constructor,
            "@dataclass(frozen=True)\nclass C:\n" + "".join(f"    a{i}: int\n" for i in range(12)),
            "@dataclass(frozen=True)\nclass C:\n" + "".join(f"    a{i}: int\n" for i in range(13)),
        ),
        (import_in_function, "import os\ndef f(): ...\n", "class C:\n    def f(self):\n        import os\n"),
        (empty_name, "class Utilization: ...\n", "class LeaseManager: ...\n"),
    ],
)
def test_each_rule_can_tell(rule: Callable[[ast.Module, str], Offences], good: str, bad: str) -> None:
    assert list(rule(ast.parse(good), good)) == []
    assert list(rule(ast.parse(bad), bad)) != []
