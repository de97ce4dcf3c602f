"""What every answer tells browsers: load nothing from elsewhere, be framed by nobody, guess no types."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

SAFE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


_SAFE = [(name.lower().encode(), value.encode()) for name, value in SAFE_HEADERS.items()]


class SafeHeaders:
    """Adds `SAFE_HEADERS` to every answer that does not set them itself."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = list(message.get("headers", ()))
                names = {name.lower() for name, _ in own}
                message["headers"] = own + [entry for entry in _SAFE if entry[0] not in names]
            await send(message)

        await self._app(scope, receive, send_with_headers)
