"""Commands that are loaded when they are named, so that those beside them start without what they need."""

from difflib import get_close_matches
from typing import Any

from typer.core import TyperGroup


class Later(TyperGroup):
    """A group some of whose commands are not loaded yet: `list_commands` and `get_command` say which."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Typer suggests the nearest of the commands that it has loaded; here that is not all."""
        names = self.list_commands(ctx)
        near = get_close_matches(args[0], names, n=1)
        if args[0] not in names and near and not ctx.resilient_parsing:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)
