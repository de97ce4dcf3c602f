"""How SQL spells expressions that Catalyst itself writes in a way that it cannot read."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from py4j.java_gateway import JavaObject

from tidemill.sql.catalyst.expression import expressions_of, items, kind_of
from tidemill.sql.catalyst.session import Frames, jvm, quoted

CATALYST = "org.apache.spark.sql.catalyst.expressions"
TRY = {
    "Add": "try_add",
    "Subtract": "try_subtract",
    "Multiply": "try_multiply",
    "Divide": "try_divide",
    "Remainder": "try_mod",
}
NAMES = {"CreateNamedStruct": "named_struct", "ArraysZip": "arrays_zip"}
FAILING = {"ElementAt", "MakeInterval", "MakeTimestamp", "VariantGet"}
"""Functions with a twin that tries, which is NULL where they fail."""
PARSED = {"JsonToStructs": "from_json", "CsvToStructs": "from_csv", "XmlToStructs": "from_xml"}
REPLACED = {"StaticInvoke", "Invoke"}
"""What the optimizer makes of many functions, and no SQL can say: a call of a Java method."""


@dataclass(frozen=True, slots=True)
class Call:
    """A function of the query that the optimizer replaces, by what it becomes of its arguments."""

    name: str
    arguments: tuple[JavaObject, ...]
    becomes: JavaObject


class Spelling:
    """Spells the expressions of one query. `analyzed` is its plan while functions still have their names."""

    def __init__(self, frames: Frames, analyzed: JavaObject) -> None:
        self.frames = frames
        self._analyzed = analyzed

    def spell(self, node: JavaObject) -> Iterator[str]:
        """Texts that may mean the expression. Whether one does is for the caller to see.

        At first only what no SQL can say is told by the query's own words, then all that it can be told by;
        at last as the functions that try.
        """
        yield _Printer(self).text(node)
        yield _Printer(self, everywhere=True).text(node)
        yield _Printer(self, everywhere=True, prefix="try_").text(node)

    @cached_property
    def calls(self) -> dict[str, list[Call]]:
        """The query's functions that are replaced, by the kind of what they become."""
        found: dict[str, list[Call]] = {}
        loader = self._analyzed.getClass().getClassLoader()
        replaceable = loader.loadClass(f"{CATALYST}.RuntimeReplaceable")
        inherits = loader.loadClass(f"{CATALYST}.InheritAnalysisRules")
        for node in expressions_of(self._analyzed):
            if replaceable.isInstance(node):
                arguments = items(node.parameters() if inherits.isInstance(node) else node.children())
                becomes = self._replaced(node.replacement(), arguments, replaceable)
                call = Call(str(node.prettyName()), tuple(arguments), becomes)
                found.setdefault(kind_of(becomes), []).append(call)
        return found

    def _replaced(self, node: JavaObject, kept: list[JavaObject], replaceable: JavaObject) -> JavaObject:
        """The expression when all functions within it are replaced too, but not in what is to be kept."""
        if any(node.semanticEquals(one) for one in kept):
            return node
        if replaceable.isInstance(node):
            return self._replaced(node.replacement(), kept, replaceable)
        children = [self._replaced(child, kept, replaceable) for child in items(node.children())]
        return node.withNewChildren(self.sequence(children)) if children else node

    def sequence(self, nodes: list[JavaObject]) -> JavaObject:
        return jvm(self.frames.spark).org.apache.spark.api.python.PythonUtils.toSeq(nodes)


class _Printer:
    """Prints one expression: what needs another spelling is a mark while Catalyst prints the rest."""

    def __init__(self, spelling: Spelling, *, everywhere: bool = False, prefix: str = "") -> None:
        self._spelling = spelling
        self._everywhere = everywhere
        self._prefix = prefix
        self._marks: dict[str, str] = {}
        self._variables: dict[int, str] = {}

    def text(self, node: JavaObject) -> str:
        text = self._part(node)
        # What was marked first lies innermost.
        for mark, spelled in reversed(self._marks.items()):
            text = text.replace(mark, spelled)
        return text

    def _part(self, node: JavaObject) -> str:
        return str(self._marked(node).sql())

    def _marked(self, node: JavaObject) -> JavaObject:
        kind = kind_of(node)
        if kind in REPLACED or self._everywhere:
            called = self._called(node, kind)
            if called is not None:
                return self._mark(node, called)
        children = [self._marked(child) for child in items(node.children())]
        marked = node.withNewChildren(self._spelling.sequence(children)) if children else node
        spelled = self._spelled(node, kind, [str(child.sql()) for child in children])
        return marked if spelled is None else self._mark(node, spelled)

    def _called(self, node: JavaObject, kind: str) -> str | None:
        """As a call of a function of the query which becomes that, of other arguments maybe."""
        for call in self._spelling.calls.get(kind, []):
            found: dict[int, JavaObject] = {}
            if _matches(call.becomes, node, call, found):
                parts = [
                    self._part(found[at]) if at in found else str(argument.sql())
                    for at, argument in enumerate(call.arguments)
                ]
                tried = self._prefix and not call.name.startswith(self._prefix)
                return f"{self._prefix if tried else ''}{call.name}({', '.join(parts)})"
        return None

    def _spelled(self, node: JavaObject, kind: str, children: list[str]) -> str | None:
        """How SQL spells the node over its children's texts; None if Catalyst knows."""
        match kind:
            case "NamedLambdaVariable":
                return self._variables.setdefault(node.exprId().id(), f"{node.name()}_{len(self._variables)}")
            case "LambdaFunction":
                variables = children[1] if len(children) == 2 else f"({', '.join(children[1:])})"
                return f"{variables} -> {children[0]}"
            case "NamedArgumentExpression":
                return f"{quoted(node.key())} => {children[0]}"
            case "TryEval":
                return f"try_{children[0]}"
            case "Literal" if node.value() is None:
                return f"CAST(NULL AS {node.dataType().sql()})"
            case "ArraysZip":
                children = list(map(_as_field, children, items(node.names())))
            case "VariantGet":
                children.append(_quoted(node.targetType().sql()))
        if kind in PARSED:
            return _parsed(node, kind, children[0])
        name = self._name(node, kind)
        return None if name is None else f"{name}({', '.join(children)})"

    def _name(self, node: JavaObject, kind: str) -> str | None:
        """What SQL calls the function; None if Catalyst knows."""
        if kind in NAMES:
            return NAMES[kind]
        if kind == "PythonUDF":
            return quoted(self._spelling.frames.functions.name(node))
        if kind in TRY and "TRY" in node.evalMode().toString():
            return TRY[kind]
        if kind in FAILING:
            return f"{'' if node.failOnError() else 'try_'}{node.prettyName().removeprefix('try_')}"
        return None

    def _mark(self, node: JavaObject, spelled: str) -> JavaObject:
        name = f"spelled_{len(self._marks)}_"
        self._marks[name] = spelled
        java = jvm(self._spelling.frames.spark).org.apache.spark.sql
        fresh = java.catalyst.expressions.NamedExpression.newExprId()
        return java.catalyst.expressions.AttributeReference(
            name,
            node.dataType(),
            node.nullable(),
            java.types.Metadata.empty(),
            fresh,
            self._spelling.sequence([]),
        )


def _matches(pattern: JavaObject, node: JavaObject, call: Call, found: dict[int, JavaObject]) -> bool:
    """Whether a node is what a call becomes, of the arguments that are then found."""
    for at, argument in enumerate(call.arguments):
        if pattern.semanticEquals(argument):
            found[at] = node
            return True
    if pattern.foldable() and node.foldable():
        return True
    parts, children = items(pattern.children()), items(node.children())
    if kind_of(pattern) != kind_of(node) or len(parts) != len(children):
        return False
    if not all(_matches(part, child, call, found) for part, child in zip(parts, children, strict=True)):
        return False
    return bool(pattern.withNewChildren(node.children()).semanticEquals(node))


def _as_field(text: str, name: JavaObject) -> str:
    """The value as the field of a struct: so it has a name."""
    word = str(name.value())
    return f"named_struct({_quoted(word)}, {text}).{quoted(word)}"


def _parsed(node: JavaObject, kind: str, text: str) -> str:
    known = node.options().toSeq()
    pairs = [part for one in items(known) for part in (str(one._1()), str(one._2()))]
    made = f", map({', '.join(map(_quoted, pairs))})" if pairs else ""
    return f"{PARSED[kind]}({text}, {_quoted(node.schema().sql())}{made})"


def _quoted(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
