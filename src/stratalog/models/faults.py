"""What went wrong with one attempt, as a value, and what it means.

An adapter turns whatever its SDK raised into a `Fault` and raises `Faulted` outside the SDK's handler, so
that no error of ours carries a request, with its key in a header, as its cause. `retry` decides on the
value whether to ask again; what is left becomes an error of the tree in `stratalog.errors`. A fault is one
of five kinds:

- `passing`: not reached, silent, cut, overloaded, too many requests: worth asking again;
- `empty`: a reply with neither words nor calls: worth asking again once;
- `unusable`: a reply that would come again as it is (refused, or cut before its first word);
- `too_long`: the input does not fit the model's window, or the provider's own limits on size;
- `rejected`: anything else that the provider refuses.

Providers tell a too long input by a code, by a type or only in words; the words of many are known here, and
are read only where a request was refused, never where the provider was merely busy.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from stratalog.errors import (
    ModelError,
    ModelInputTooLong,
    ModelRejected,
    ModelReplyUnusable,
    ModelUnavailable,
)

_LONGEST_REASON = 500

_PASSING_STATUS = frozenset({408, 409, 429})
_PASSING_CODES = frozenset(
    {
        "server_error",
        "internal_server_error",
        "internal_error",
        "api_error",
        "service_unavailable",
        "rate_limit_exceeded",
        "rate_limit_error",
        "too_many_requests",
        "overloaded",
        "overloaded_error",
        "server_overloaded",
        "slow_down",
        "timeout",
        "timeout_error",
        "vector_store_timeout",
    }
)
# A provider out of credit answers 429 as one that is busy does; waiting does not help.
_SPENT_CODES = frozenset({"insufficient_quota", "billing_error", "billing_hard_limit_reached"})
_TOO_LONG_CODES = frozenset(
    {
        "context_length_exceeded",
        "context_window_exceeded",
        "exceed_context_size_error",
        "string_above_max_length",
        "request_too_large",
        "tokens_limit_reached",
    }
)
_TOO_LONG_WORDS = re.compile(
    r"prompt is too long"
    r"|input is too long"
    r"|input length and `?max_tokens`? exceed"
    r"|exceeds? (?:the |this |your )?(?:model'?s? )?(?:maximum |max |available )?(?:input |prompt )?"
    r"(?:context|prompt|input)[ _-]?(?:length|window|size|limit)"
    r"|context[ _](?:length|window|size)[ _](?:is )?exceed"
    r"|(?:maximum|max) (?:context|prompt|model|input) length"
    r"|longer than the (?:maximum )?(?:model|context)"
    r"|greater than the context length|context the overflows"
    r"|input token count.{0,40}exceeds"
    r"|reduce the length of (?:the |your )?(?:messages|prompt|input)"
    r"|inputs?`? tokens \+ `?max_new_tokens"
    r"|exceeds the limit of \d+|exceeded model token limit|too large for model with \d+"
    r"|context window exceeds limit|token limit exceeded|too many (?:input )?tokens\b(?! per)"
    r"|range of input length should be|prompt exceeds max length",
    re.IGNORECASE,
)
# Said of one request that alone is over the rate: it never passes as it is, a shorter one may.
_LARGER_THAN_RATE = re.compile(r"request too large for .*tokens per min", re.IGNORECASE | re.DOTALL)
_WINDOW = re.compile(
    r"(?:(?:context|prompt|model) length (?:is |of )?|> ?|allowed \(|context size \(|limit: ?|model with )"
    r"(\d{3,})",
    re.IGNORECASE,
)

_HINTS = {
    401: "check the API key",
    402: "check the credit of the account",
    403: "the key may not use this model",
    404: "check the model's name and the base URL",
}


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """`wait` is how long the provider asks to wait, in seconds; `window` the model's, when the refusal
    tells it."""

    kind: Literal["passing", "empty", "unusable", "too_long", "rejected"]
    reason: str
    status: int = 0
    code: str = ""
    request_id: str = ""
    wait: float | None = None
    window: int = 0
    hint: str = ""

    def hidden(self, hide: Callable[[str], str]) -> Fault:
        """The same without secrets: `hide` takes them out of what the provider said."""
        return msgspec.structs.replace(self, reason=hide(self.reason), code=hide(self.code))


class Faulted(Exception):
    """Carries a fault from an adapter to `retry`; it never leaves this room."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.reason)
        self.fault = fault


def broken(reason: str) -> Fault:
    """A passing fault of the connection: not made, silent, cut, or garbled."""
    return Fault(kind="passing", reason=_short(reason))


def refused(
    status: int,
    body: object,
    *,
    text: str = "",
    request_id: str = "",
    wait: float | None = None,
    again: bool | None = None,
) -> Fault:
    """An answer with an error status. `body` is its JSON, `text` what stands in when it has none; `again` is
    what the provider itself says about asking again."""
    codes, said = _codes(body), _said(body) or text
    code = next(iter(codes), "")
    words = f"{status}{f' {code}' if code else ''}{f': {said}' if said else ''}"
    kind, hint = _kind(status, codes, said, again)
    return Fault(
        kind=kind,
        reason=_short(words),
        status=status,
        code=code,
        request_id=request_id,
        wait=wait if kind == "passing" else None,
        window=_window(said) if kind == "too_long" else 0,
        hint=hint,
    )


def told(body: object, *, text: str = "") -> Fault:
    """An error that came inside a stream whose status was 200. One that says nothing known is passing."""
    codes, said = _codes(body), _said(body) or text
    number = next((int(code) for code in codes if code.isdigit() and 400 <= int(code) < 600), 0)
    if number:
        return refused(number, body, text=text)
    code = next(iter(codes), "")
    if _TOO_LONG_CODES & set(codes) or _TOO_LONG_WORDS.search(said):
        kind: Literal["passing", "too_long", "rejected"] = "too_long"
    elif not codes or _PASSING_CODES & set(codes):
        kind = "passing"
    else:
        kind = "rejected"
    return Fault(
        kind=kind,
        reason=_short(f"{code}: {said}" if code and said else code or said or "an error without words"),
        code=code,
        window=_window(said) if kind == "too_long" else 0,
    )


def error_of(fault: Fault, *, model: str, endpoint: str, attempts: int) -> ModelError:
    """The error that a caller sees for the last fault, after so many attempts."""
    where: dict[str, object] = {
        "model": model,
        "endpoint": endpoint,
        "status": fault.status or None,
        "code": fault.code,
        "request_id": fault.request_id,
    }
    if attempts > 1:
        where["attempts"] = attempts
    match fault.kind:
        case "too_long":
            where["window"] = fault.window or None
            what = f"the input is too long for the model: {fault.reason}"
            return ModelInputTooLong(what, hint="compact the session or give a larger window", **where)
        case "rejected":
            return ModelRejected(f"the model's provider refused: {fault.reason}", hint=fault.hint, **where)
        case "empty" | "unusable":
            hint = fault.hint or "try again, or another model"
            return ModelReplyUnusable(f"the reply cannot be used: {fault.reason}", hint=hint, **where)
        case "passing":
            where["retry_after"] = fault.wait
            return ModelUnavailable(f"the model is not available: {fault.reason}", hint="try later", **where)


def _kind(
    status: int, codes: list[str], said: str, again: bool | None
) -> tuple[Literal["passing", "too_long", "rejected"], str]:
    known = set(codes)
    if known & _SPENT_CODES:
        return "rejected", _HINTS[402]
    if status == 413 or known & _TOO_LONG_CODES or _LARGER_THAN_RATE.search(said):
        return "too_long", ""
    if status in (400, 422) and _TOO_LONG_WORDS.search(said):
        return "too_long", ""
    if again is not None:
        passing = again
    else:
        passing = status in _PASSING_STATUS or status >= 500 or bool(known & _PASSING_CODES)
    if passing:
        # Some servers answer 500 to an input over the window; there the words are the only sign.
        if status in (500, 501) and _TOO_LONG_WORDS.search(said):
            return "too_long", ""
        return "passing", ""
    return "rejected", _HINTS.get(status, "")


def _codes(body: object) -> list[str]:
    """What names the error, the most telling first."""
    error = _error(body)
    found = [error.get("code"), error.get("type"), error.get("status")]
    return [
        str(value)
        for value in found
        if isinstance(value, str | int)
        and not isinstance(value, bool)
        and str(value) not in ("", "error", "None")
    ]


def _said(body: object) -> str:
    error = _error(body)
    for name in ("message", "detail", "error", "msg"):
        value = error.get(name)
        if isinstance(value, str) and value.strip():
            return value.strip()
        if name == "detail" and value:
            return str(value)
    return body.strip() if isinstance(body, str) else ""


def _error(body: object) -> dict[str, Any]:
    """The object that speaks of the error, wherever servers put it."""
    for _ in range(3):
        if isinstance(body, list) and body:
            body = body[0]
        elif isinstance(body, dict) and isinstance(body.get("error"), dict):
            body = body["error"]
        else:
            break
    return body if isinstance(body, dict) else {}


def _window(said: str) -> int:
    found = _WINDOW.search(said)
    return int(found[1]) if found and len(found[1]) < 10 else 0


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_REASON else line[: _LONGEST_REASON - 1] + "…"
