"""Keeps passwords off screens, logs and answers."""

import re

_SECRET = re.compile(
    r"(://[^:/@\s]*:)\S+(?=@)|(https?://)[^:/@\s]+(?=@)"
    r"|((?:^|[?&\s])\w*(?:password|secret|secret_access_key|token)=)[^&\s]+",
    re.IGNORECASE,
)

_SECRET_NAME = re.compile(r"password|passwd|secret|token|(api|access|private)_?key", re.IGNORECASE)


def masked(value: object) -> object:
    """The value with `***` for what is secret: passwords in addresses, and entries of such names."""
    match value:
        case str():
            return masked_text(value)
        case dict():
            return {
                name: "***" if _SECRET_NAME.search(str(name)) else masked(entry)
                for name, entry in value.items()
            }
        case list():
            return [masked(entry) for entry in value]
    return value


def masked_text(text: str) -> str:
    """The text with the passwords of addresses, and the tokens of nodes', replaced by `***`."""
    return _SECRET.sub(r"\1\2\3***", text)
