"""Keeps passwords off screens, logs and answers."""

import re

_SECRET = re.compile(
    r"(://[^:/@\s]*:)\S+(?=@)|(https?://)[^:/@\s]+(?=@)"
    r"|((?:^|[?&\s])\w*(?:password|secret|secret_access_key|token)=)[^&\s]+",
    re.IGNORECASE,
)


def masked(value: object) -> object:
    """The value; in text, with the passwords of addresses replaced by `***`."""
    return masked_text(value) if isinstance(value, str) else value


def masked_text(text: str) -> str:
    """The text with the passwords of addresses, and the tokens of nodes', replaced by `***`."""
    return _SECRET.sub(r"\1\2\3***", text)
