"""How SQL spells expressions that Catalyst itself writes in a way that it cannot read."""

from collections.abc import Iterator

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
REPLACED = {"StaticInvoke", "Invoke"}
"""What the optimizer makes of many functions: a call of a Java method."""


class Spelling:
    """Spells the expressions of one query. `analyzed` is its plan while functions still have their names."""

    def __init__(self, frames: Frames, analyzed: JavaObject) -> None:
        self._frames = frames
        self._analyzed = analyzed
        self._names: dict[str, list[tuple[str, int]]] | None = None

    def spell(self, node: JavaObject) -> Iterator[str]:
        """Texts that may mean the expression. Whether one does is for the caller to see."""
        for choice in range(2):
            printer = _Printer(self._frames, self, choice)
            yield printer.text(node)
            if not printer.had_choice:
                return

    def names(self, method: str) -> list[tuple[str, int]]:
        """The functions of the query that became calls of that Java method, with their argument counts."""
        if self._names is None:
            self._names = {}
            loader = self._analyzed.getClass().getClassLoader()
            replaceable = loader.loadClass(f"{CATALYST}.RuntimeReplaceable")
            inherits = loader.loadClass(f"{CATALYST}.InheritAnalysisRules")
            for node in expressions_of(self._analyzed):
                if replaceable.isInstance(node):
                    count = (node.parameters() if inherits.isInstance(node) else node.children()).size()
                    final = node
                    while replaceable.isInstance(final):
                        final = final.replacement()
                    self._names.setdefault(_method(final), []).append((str(node.prettyName()), count))
        return self._names.get(method, [])


class _Printer:
    """Prints one expression: what needs another spelling is a mark while Catalyst prints the rest."""

    def __init__(self, frames: Frames, spelling: Spelling, choice: int) -> None:
        self._spark = frames.spark
        self._functions = frames.functions
        self._spelling = spelling
        self._choice = choice
        self._marks: dict[str, str] = {}
        self._variables: dict[int, str] = {}
        self.had_choice = False

    def text(self, node: JavaObject) -> str:
        text = str(self._marked(node).sql())
        # What was marked first lies innermost.
        for mark, spelled in reversed(self._marks.items()):
            text = text.replace(mark, spelled)
        return text

    def _marked(self, node: JavaObject) -> JavaObject:
        children = [self._marked(child) for child in items(node.children())]
        marked = node.withNewChildren(self._sequence(children)) if children else node
        spelled = self._spelled(node, kind_of(node), [str(child.sql()) for child in children])
        return marked if spelled is None else self._mark(node, spelled)

    def _spelled(self, node: JavaObject, kind: str, children: list[str]) -> str | None:
        """How SQL spells the node over its children's texts; None if Catalyst knows."""
        if kind == "NamedLambdaVariable":
            return self._variables.setdefault(node.exprId().id(), f"{node.name()}_{len(self._variables)}")
        if kind == "LambdaFunction":
            variables = children[1] if len(children) == 2 else f"({', '.join(children[1:])})"
            return f"{variables} -> {children[0]}"
        if kind == "CreateNamedStruct":
            return f"named_struct({', '.join(children)})"
        if kind == "PythonUDF":
            return f"{quoted(self._functions.name(node))}({', '.join(children)})"
        if kind in TRY and "TRY" in node.evalMode().toString():
            return f"{TRY[kind]}({', '.join(children)})"
        if kind == "ElementAt" and not node.failOnError():
            return f"try_element_at({', '.join(children)})"
        if kind == "JsonToStructs" and node.options().isEmpty():
            return f"from_json({children[0]}, '{node.schema().sql()}')"
        if kind in REPLACED:
            return self._function(node, children)
        return None

    def _function(self, node: JavaObject, children: list[str]) -> str | None:
        names = self._spelling.names(_method(node))
        if not names:
            return None
        self.had_choice |= len(names) > 1
        name, count = names[min(self._choice, len(names) - 1)]
        arguments = children[1:] if kind_of(node) == "Invoke" else children
        return f"{name}({', '.join(arguments[:count])})"

    def _mark(self, node: JavaObject, spelled: str) -> JavaObject:
        name = f"spelled_{len(self._marks)}_"
        self._marks[name] = spelled
        expressions = jvm(self._spark).org.apache.spark.sql.catalyst.expressions
        empty = jvm(self._spark).org.apache.spark.sql.types.Metadata.empty()
        fresh = expressions.NamedExpression.newExprId()
        return expressions.AttributeReference(
            name, node.dataType(), node.nullable(), empty, fresh, self._sequence([])
        )

    def _sequence(self, nodes: list[JavaObject]) -> JavaObject:
        return jvm(self._spark).org.apache.spark.api.python.PythonUtils.toSeq(nodes)


def _method(node: JavaObject) -> str:
    """The Java method that a node calls, by the name of its class and its own; empty if it calls none."""
    kind = kind_of(node)
    if kind == "StaticInvoke":
        return f"{node.staticObject().getName()}.{node.functionName()}"
    if kind == "Invoke":
        return f"{node.targetObject().dataType().simpleString()}.{node.functionName()}"
    return ""
