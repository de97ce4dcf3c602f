"""A page to look at: this node, the leader, and the node list, kept fresh by a small script.

The page itself is public and holds nothing; `/overview` is what it shows, and needs a viewer.
"""

from html import escape
from importlib.resources import files
from pathlib import Path

from fastapi import FastAPI, Request
from starlette.responses import HTMLResponse
from starlette.staticfiles import StaticFiles

import tidemill
from tidemill.app.http.context import ClusterView, NodeContext, NodeView
from tidemill.app.http.door import caller_of, require
from tidemill.app.http.routes.cluster import Overview, look
from tidemill.app.tokens import Role
from tidemill.cluster.figures import Alarm

_STATIC = Path(str(files("tidemill.app.http") / "static"))
_LOCKED = "<p>This node wants a token that may view.</p>"


def mount(app: FastAPI, context: NodeContext) -> None:
    app.mount("/static", StaticFiles(directory=_STATIC), name="static")
    page = (_STATIC / "page.html").read_text(encoding="utf-8").replace("{release}", tidemill.__version__)
    page = page.replace("{prefix}", context.settings.path_prefix)

    @app.get("/", include_in_schema=False)
    async def get_page(request: Request) -> HTMLResponse:
        caller = caller_of(request.scope)
        may_view = caller is not None and Role.VIEWER in caller.roles
        return HTMLResponse(page.replace("{overview}", await _overview(context) if may_view else _LOCKED))

    @app.get("/overview", include_in_schema=False, dependencies=[require(Role.VIEWER)])
    async def get_overview() -> HTMLResponse:
        return HTMLResponse(await _overview(context))


async def _overview(context: NodeContext) -> str:
    seen = await look(context)
    return _facts(seen.cluster, seen.nodes) + _problems(seen.problems) + _alarms(seen.alarms) + _table(seen)


def _facts(view: ClusterView, nodes: list[NodeView]) -> str:
    leader = next((node.name for node in nodes if node.token == view.leader), view.leader or "none")
    facts = {
        "Leader": leader,
        "Term": str(view.term),
        "Nodes": str(sum(node.alive for node in nodes)),
        "This node": view.name,
        "Clock skew": f"{view.skew_ms:+.0f} ms",
    }
    cards = "".join(f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in facts.items())
    return f'<dl class="facts">{cards}</dl>'


def _alarms(alarms: list[Alarm]) -> str:
    said = "".join(f"<li>{escape(f'{alarm.message}: {alarm.fix}')}</li>" for alarm in alarms)
    return f'<ul class="problems">{said}</ul>' if alarms else ""


def _problems(problems: list[str]) -> str:
    if not problems:
        return '<p class="ready">Ready</p>'
    return f'<ul class="problems">{"".join(f"<li>{escape(problem)}</li>" for problem in problems)}</ul>'


def _table(seen: Overview) -> str:
    head = "".join(
        f"<th>{name}</th>" for name in ("Node", "State", "Address", "Slots", "Release", "Last seen", "Token")
    )
    rows = "".join(_row(node, seen.cluster, seen.now or 0) for node in seen.nodes)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _row(node: NodeView, view: ClusterView, now: int) -> str:
    state = ("leader" if node.leader else "alive") if node.alive else "gone"
    here = ' class="here"' if node.token == view.node else ""
    cells = (
        escape(node.name),
        f'<span class="{state}">{state}</span>',
        escape(node.address),
        str(node.slots),
        escape(node.release),
        f"{(now - node.seen) / 1000:.1f} s",
        f"<code>{escape(node.token[:8])}</code>",
    )
    return f"<tr{here}>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
