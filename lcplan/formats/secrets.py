"""Addresses without their passwords, and texts about an address without parts of its password."""

from __future__ import annotations

import re
from urllib.parse import unquote, unquote_plus

_SCHEME = re.compile(r"[A-Za-z][\w+.\-]*:/{1,3}")
_FIELD = re.compile(r"([?&;][^=&;]*(?:pass|pwd|secret|token|key|cred)[^=&;]*=)([^&;]*)", re.IGNORECASE)
"""A field of a query that holds a password or names the file of one: password, sslpassword, passfile, sslkey."""
_FRAGMENT = 4
"""Characters of a password that a word of a message may share with it at most, less one."""
HIDDEN = "***"


def without_password(address: str) -> str:
    """Return an address with its passwords hidden, whether or not it is a valid URL.

    >>> without_password("postgresql://me:p@ss@host/db?sslpassword=x")
    'postgresql://me:***@host/db?sslpassword=***'
    """
    start, end = _password(address)
    hidden = address[:start] + HIDDEN + address[end:] if end > start else address
    return _FIELD.sub(rf"\1{HIDDEN}", hidden)


def without_secrets(text: str, address: str) -> str:
    """Return a text about ``address``, such as a driver's message, without words that share a part with its passwords.

    >>> without_secrets('no host "cret@h"', "mysql://me:se/cret@h/db")
    'no host "***"'
    """
    start, end = _password(address)
    given = [address[start:end], *(match[2] for match in _FIELD.finditer(address))]
    secrets = [form for one in given if one for form in {one, unquote(one), unquote_plus(one)}]
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN) if len(secret) >= _FRAGMENT - 1 else text

    def shared(word: str) -> bool:
        parts = {word[i : i + _FRAGMENT] for i in range(len(word) - _FRAGMENT + 1)}
        return any(part in secret for part in parts for secret in secrets)

    words = re.split(r"([\s'\",;()]+)", without_password(text) if "@" in text else text)
    return "".join(HIDDEN if shared(word) else word for word in words)


def _password(address: str) -> tuple[int, int]:
    """The place of the password before the last ``@``; empty where it has no password."""
    end = address.rfind("@")
    if end < 0 or address.startswith(("sqlite:///", "journal:")):
        return 0, 0
    scheme = _SCHEME.match(address)
    colon = address.find(":", scheme.end() if scheme else 0, end)
    return (colon + 1, end) if colon >= 0 else (0, 0)
