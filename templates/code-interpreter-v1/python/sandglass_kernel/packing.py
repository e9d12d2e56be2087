"""How messages of the kernel become bytes."""

import json

from jupyter_client.jsonutil import json_clean, json_default

from .plain import NotPlain, plain


def pack(message):
    """The message as JSON in UTF-8, always valid: NaN becomes null, half of a surrogate pair becomes a question mark."""
    try:
        text = json.dumps(message, default=json_default, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):
        text = json.dumps(_clean(message), default=json_default, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "replace")


def _clean(message):
    try:
        return plain(message)
    except NotPlain:
        return json_clean(message)
