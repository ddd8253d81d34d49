"""Secrets out of a text: each becomes `[redacted: aws access key id]`, the same every time.

What finds them is redact-secret (the extra `secrets`), which knows some 150 kinds of credentials, is
compiled, touches neither network nor disk and gives the same answer every time. Our own patterns stand beside
it: for what it does not know, and for all that is common where it is not installed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import cache
from typing import Final, NamedTuple

import regex

try:
    import redact_secret
except ImportError:  # the extra is not installed
    redact_secret = None  # type: ignore[assignment]

DETECTOR: Final = redact_secret is not None  # whether the extra is there
_MOST: Final = 2**31  # bytes and findings, far beyond what comes here: the detector refuses what is over
# The detector reads pieces that share some characters: some texts take it the square of their length.
_PIECE: Final = 16_384
_SHARED: Final = 4_096
_TIMES: Final = 8  # to redact can make a secret of what stands around it
_INSTEAD: Final = ("", "x")  # a name may stand among a secret's letters, or for some of them
_DONE: Final = r"\[redacted: [a-z0-9 ]{1,60}\]"


class Redacted(NamedTuple):
    """`text` without secrets, and of which kinds there were, in order, one name each time."""

    text: str
    kinds: tuple[str, ...]


class _Secret(NamedTuple):
    start: int
    stop: int
    kind: str


# A value that somebody made up for a secret: long enough, of letters of both cases and digits, or with signs.
_VALUE: Final = (
    r"(?![^\s\"']{0,120}(?:\.\.\.|[(){}<>\[\]]|\$\{))(?=[^\s\"']{0,120}\d)(?=[^\s\"']{0,120}[A-Za-z])"
    r"(?=[^\s\"']{0,120}(?:[!@#$%^&*~?]|[a-z][^\s\"']{0,120}[A-Z]|[A-Z][^\s\"']{0,120}[a-z]))"
    r"(?P<secret>[^\s\"',;\u3000-\u9fff\uff00-\uffef]{8,2000})"
)
# One in plain letters: a word and a number. Only after what says that it is a password.
_PLAIN: Final = r"(?P<secret>[A-Za-z]{3,24}[-_.]?\d{3,10}[!@#$%&*.?]{0,4})(?![\w(\[=/-])"
# With one digit or two it must end what is said, and be no name of a method, a place or a version.
_SHORT: Final = (
    r"(?!(?i:base|sha|md|utf|aes|des|rc|rsa|argon|bcrypt|scrypt|latin|crc|python|version|ver|rev|step|page|line"
    r"|slide|option|field|column|row|cell|part|chapter|section|level|item|number|node|figure|fig|table)[-_.]?\d)"
    r"(?P<secret>[A-Za-z]{3,24}[-_.]?\d{1,2}[!@#$%&*.?]{0,4})(?=[\"'”」)]?[^\S\n]{0,2}"
    r"(?:\Z|[\n.,;:!?。，；！？）]|(?:and|but|so|please|thanks)\b))"
)
_NAMES: Final = (
    r"(?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|account[_-]?key"
    r"|private[_-]?key|credentials?)"
)
_IS_PASSWORD: Final = (
    r"(?:(?i:\b(?:password|passphrase|passwd|pwd|pin) ?(?:is\b|:|=)\s{0,2})"
    r"|(?:密码|密碼|口令)[^\S\n]{0,3}(?:[:：=]|是|为|為)[^\S\n]{0,3})[\"'“「]?"
)
# The kind, and the pattern whose group `secret` is one; the whole match where there is no such group.
_PATTERNS: Final = (
    (
        "private key",
        r"(?s)-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:(?!-----).){0,20000}"
        r"(?:-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?",
    ),
    ("aws access key id", r"\b(?:AKIA|ASIA)[A-Z2-7]{16}\b"),
    ("github token", r"\b(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{40,255})\b"),
    ("gitlab token", r"\bgl(?:pat|dt|rt|ptt|cbt)-[\w-]{20,100}"),
    ("slack token", r"\bxox[abeprs]-[\w-]{20,250}|\bxapp-\d-[A-Z0-9]{8,14}-\d{8,16}-[0-9a-f]{40,80}"),
    ("slack webhook", r"https://hooks\.slack\.com/(?:services|workflows)/[\w/-]{20,200}"),
    ("stripe key", r"\b(?:[sr]k_(?:live|test)|whsec)_[A-Za-z0-9]{16,250}\b"),
    (
        "api key",
        r"\bsk-(?:ant|proj|svcacct|admin|or|lf)-[\w-]{20,300}|\bsk-[A-Za-z0-9]{32,64}\b"
        r"|\b(?:gsk|pplx|hf|npm|tvly|r8)[_-][A-Za-z0-9]{30,80}\b|\bxai-[A-Za-z0-9]{60,100}\b",
    ),
    ("google api key", r"\bAIza[\w-]{35}"),
    ("google oauth token", r"\bGOCSPX-[\w-]{28}|\bya29\.[\w-]{40,500}"),
    ("pypi token", r"\bpypi-AgE[\w-]{50,500}"),
    ("sendgrid key", r"\bSG\.[\w-]{22}\.[\w-]{43}"),
    ("digitalocean token", r"\bdo[opr]_v1_[0-9a-f]{64}\b"),
    ("shopify token", r"\bshp(?:at|ca|pa|ss)_[0-9a-f]{32}\b"),
    ("vault token", r"\bhv[sbr]\.[\w-]{24,300}"),
    ("docker token", r"\bdckr_(?:pat|oat)_[\w-]{20,60}"),
    ("twilio key", r"\bSK[0-9a-f]{32}\b"),
    ("mailgun key", r"\bkey-[0-9a-f]{32}\b"),
    ("notion token", r"\bntn_[A-Za-z0-9]{40,50}\b|\bsecret_[A-Za-z0-9]{43}\b"),
    ("linear key", r"\blin_(?:api|oauth)_[A-Za-z0-9]{40}"),
    ("databricks token", r"\bdapi[0-9a-f]{32}"),
    ("doppler token", r"\bdp\.(?:pt|st|ct|sa|scim|audit)\.[\w.]{40,80}"),
    ("grafana token", r"\bgl(?:sa|c)_[A-Za-z0-9]{32}_[0-9a-f]{8}\b"),
    ("new relic key", r"\bNRAK-[A-Z0-9]{27}\b"),
    ("zhipu key", r"\b[0-9a-f]{32}\.[A-Za-z0-9]{16}\b"),
    ("aliyun access key id", r"\bLTAI(?=[A-Za-z]{0,24}\d)[A-Za-z0-9]{16,24}\b"),
    ("tencent secret id", r"\bAKID[A-Za-z0-9]{32}\b"),
    ("telegram bot token", r"\b\d{8,10}:AA[\w-]{33}"),
    ("discord bot token", r"\b[MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27,38}"),
    ("jwt", r"\beyJ[\w-]{15,2000}\.eyJ[\w-]{15,4000}\.[\w-]{20,1000}"),
    ("azure storage key", r"(?i)\bAccountKey=(?P<secret>[A-Za-z0-9+/]{80,90}={0,2})"),
    ("bearer token", r"(?i)\bbearer\s{1,3}(?=[\w.~+/-]{0,200}\d)(?P<secret>[\w.~+/-]{24,2000}=*)"),
    (
        "basic credentials",
        r"(?i)\bauthorization[\"']?\s?[:=]\s?[\"']?basic\s{1,3}(?P<secret>[A-Za-z0-9+/]{8,400}={0,2})",
    ),
    (
        "token in a url",
        r"(?i)[?&](?:access_token|auth_?token|api_?key|client_secret|sig|signature)="
        r"(?P<secret>(?=[^&\s]{0,80}\d)[\w%.~+/-]{20,2000})",
    ),
    (
        "secret key",
        r"(?i)(?:secret|token|api[_-]?key)[\w-]{0,20}[\"']?\s{0,3}[:=]\s{0,3}[\"']?"
        r"(?P<secret>[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9a-f]{32,128})\b",
    ),
    (
        "password of a command",
        r"\bcurl\b[^\n]{0,120}?\s(?:-u|--user)\s?[\"']?[^\s:\"']{1,60}:(?P<secret>[^\s\"']{3,80})",
    ),
    (
        "password in a url",
        r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@\"'<>\[\]]{0,80}:(?P<secret>[^\s/@\"'<>\[\]${}]{3,120})@",
    ),
    (
        "password",
        rf"(?i:{_NAMES}[\w-]{{0,20}}[\"']?\s{{0,3}}(?:=>|:=|=|:|：|\bis\b)\s{{0,3}}[\"']?)" + _VALUE,
    ),
    (
        "password",
        r"(?:密码|密碼|口令|密钥|密鑰|令牌)[^\S\n]{0,3}(?:[:：=]|是|为|為)[^\S\n]{0,3}[\"']?" + _VALUE,
    ),
    ("password", _IS_PASSWORD + _PLAIN),
    ("password", _IS_PASSWORD + _SHORT),
)


def redacted(text: str) -> Redacted:
    """The text, which has no lone surrogates, with a name in the place of each secret; the same the second
    time. A name that stands within a secret goes with what is left of that around it."""
    kinds: list[str] = []
    for _ in range(_TIMES):
        found = _found(text)
        if not found:
            break
        parts: list[str] = []
        at = 0
        for start, stop, kind in found:
            parts += [text[at:start], f"[redacted: {kind}]"]
            at = stop
        text = "".join([*parts, text[at:]])
        kinds += [each.kind for each in found]
    return Redacted(text, tuple(kinds))


def _found(text: str) -> list[_Secret]:
    """The secrets of the text, those around a name with the name."""
    done = [each.span() for each in regex.finditer(rf"(?:{_DONE})+", text)]
    found = [each for each in (*_detected(text), *_matched(text)) if not _overlaps(each, done)]
    for letters in _INSTEAD if done else ():
        found += _around(text, done, letters)
    return _merged(found)


def _around(text: str, done: list[tuple[int, int]], letters: str) -> list[_Secret]:
    """The secrets in which the names stand that are there: found with `letters` in the place of each."""
    parts, starts, ends = [], [0], [0]  # where pieces begin, in what is searched and in the text
    at = shift = 0
    for start, stop in done:
        parts += [text[at:start], letters]
        starts += [start - shift, start - shift + len(letters)]
        ends += [start, stop]
        shift += stop - start - len(letters)
        at = stop
    searched = "".join([*parts, text[at:]])
    found = []
    for each in (*_detected(searched), *_matched(searched)):
        first, last = bisect_right(starts, each.start) - 1, bisect_left(starts, each.stop) - 1
        start = ends[first] + each.start - starts[first]
        # Where it ends with a name, that is where the next piece begins.
        stop = ends[last + 1] if last % 2 else ends[last] + each.stop - starts[last]
        secret = _Secret(start, stop, each.kind)
        if each.stop - each.start > len(letters) and _overlaps(secret, done):
            found.append(secret)
    return found


def _detected(text: str) -> list[_Secret]:
    if redact_secret is None:
        return []
    limits = redact_secret.WholeInputLimits(max_input_bytes=_MOST, max_findings=_MOST)
    return [
        _Secret(at + each.start, at + each.end, each.type.removeprefix("contextual_").replace("_", " "))
        for at in range(0, max(1, len(text) - _SHARED), _PIECE - _SHARED)
        for each in redact_secret.scan(text[at : at + _PIECE], limits=limits)
    ]


@cache
def _compiled() -> tuple[tuple[str, regex.Pattern[str]], ...]:
    """The patterns, made when they are first used: it takes longer than to import the rest. A Chinese
    character is no letter to them, so that a token is found that stands beside one."""
    return tuple((kind, regex.compile(pattern, regex.ASCII)) for kind, pattern in _PATTERNS)


def _matched(text: str) -> list[_Secret]:
    found = []
    for kind, pattern in _compiled():
        group: str | int = "secret" if "secret" in pattern.groupindex else 0
        found += [_Secret(match.start(group), match.end(group), kind) for match in pattern.finditer(text)]
    return found


def _merged(found: list[_Secret]) -> list[_Secret]:
    """In order, without overlaps: of those that overlap all is taken, under the name of the first."""
    merged: list[_Secret] = []
    for each in sorted(found, key=lambda each: each.start):
        if merged and each.start < merged[-1].stop:
            last = merged[-1]
            merged[-1] = last._replace(stop=max(last.stop, each.stop))
        else:
            merged.append(each)
    return merged


def _overlaps(found: _Secret, spans: list[tuple[int, int]]) -> bool:
    """Whether it has characters of one of the spans, which are in order and apart."""
    last = bisect_left(spans, (found.stop, 0)) - 1
    return last >= 0 and spans[last][1] > found.start
