"""How the value of a channel becomes pieces, and which of them another version has already.

A list is cut into short lists, a dict whose keys are text into small dicts, and a text into blocks; each is
serialised by itself, so that a version costs what changed since the one before. All else is kept whole, and
so is what is small, and what only pickle can take: that keeps what is the same object within a value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

from langgraph.checkpoint.serde.base import CipherProtocol, SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from stratalog.engine.graphs import Content, Draft, Fresh, Kept, Typed

_SMALL: Final = 256  # bytes, below which a value is whole unless the version before it was not
_BLOCK: Final = 1024  # characters
_GROUP: Final = 32  # elements, where one alone is smaller than what a piece costs
_DEAR: Final = 48  # bytes of an element, from which on it is a piece by itself
_SAMPLE: Final = 8

_Value: TypeAlias = "list[Any] | dict[str, Any] | str"
Read: TypeAlias = Callable[[int], "tuple[bytes, ...] | None"]  # the pieces of a content; None when it is gone


class Sealing:
    """A serializer whose bytes can be compared. What encrypts gives other bytes each time, so there what is
    compared is what is within. `plain` makes bytes that are the same for the same value."""

    def __init__(self, serde: SerializerProtocol) -> None:
        self.cipher: CipherProtocol | None = None
        self.plain: Callable[[Any], Typed] = serde.dumps_typed
        if isinstance(serde, EncryptedSerializer):
            self.cipher, self.plain = serde.cipher, serde.serde.dumps_typed

    def sealed(self, kind: str, data: Sequence[bytes]) -> tuple[str, list[bytes]]:
        """What is plain, as it is stored: one kind for all, or "" where the cipher gives several."""
        if self.cipher is None:
            return kind, list(data)
        made = [self.cipher.encrypt(each) for each in data]
        kinds = {f"{kind}+{name}" for name, _ in made}
        return (kinds.pop() if len(kinds) == 1 else ""), [each for _, each in made]

    def opened(self, kind: str, data: Sequence[bytes]) -> tuple[str, list[bytes]]:
        """What is stored, plain; nothing where it was not stored by such a serializer."""
        plain, sealed, name = kind.partition("+")
        if self.cipher is None:
            return kind, list(data)
        if not sealed:
            return "", []
        return plain, [self.cipher.decrypt(name, each) for each in data]


def drafted(
    sealing: Sealing, channel: str, version: str, value: Any, base: Content | None, read: Read
) -> Draft:
    """The value as a content that shares what it can with `base`."""
    if base is not None and not base.form:
        base = None
    cut = _cut(sealing, value, base)
    if cut is not None:
        draft = Draft(channel, version, cut.kind, (Fresh(tuple(cut.pieces)),), cut.form, cut.step)
        sharing = _sharing(sealing, draft, cut.pieces, base, read) if base is not None else None
        sealed = sharing or _sealed(sealing, draft)
        if sealed is not None:
            return sealed
    kind, data = sealing.plain(value)
    kind, pieces = sealing.sealed(kind, [data])
    return Draft(channel, version, kind, (Fresh(tuple(pieces)),))


def _sharing(sealing: Sealing, draft: Draft, new: Sequence[bytes], base: Content, read: Read) -> Draft | None:
    """The draft with what `base` has; None where that has nothing that it could share."""
    had = read(base.row) if (base.form, base.step) == (draft.form, draft.step) else None
    if had is None:
        return None
    kind, old = sealing.opened(base.kind, had)
    if kind != draft.kind:
        return None
    made = _sealed(sealing, draft._replace(parts=tuple(shared(new, old)), base=base.row), base.kind)
    return made if made is not None and made.kind == base.kind else None


def loaded(serde: SerializerProtocol, content: Content) -> Any:
    """The value of a content."""
    values = [serde.loads_typed((content.kind, piece)) for piece in content.pieces]
    match content.form:
        case "list":
            return [each for value in values for each in value]
        case "dict":
            return {key: each for value in values for key, each in value.items()}
        case "str":
            return "".join(values)
        case _:
            return values[0]


def shared(new: Sequence[bytes], old: Sequence[bytes]) -> list[Kept | Fresh]:
    """The new pieces as stretches of the old ones, wherever those stand, and what is not among them."""
    places = _places(new, old)
    parts: list[Kept | Fresh] = []
    at = 0
    while at < len(new):
        end = at + 1
        place = places[at]
        while end < len(new) and places[end] == (None if place is None else place + end - at):
            end += 1
        parts.append(Fresh(tuple(new[at:end])) if place is None else Kept(place, end - at))
        at = end
    return parts


def _places(new: Sequence[bytes], old: Sequence[bytes]) -> list[int | None]:
    """Where each piece stands among the old ones. What follows on the one before is taken before what is
    elsewhere, so that there are few stretches."""
    pairs = enumerate(zip(new, old, strict=False))
    same = next((at for at, (one, other) in pairs if one != other), min(len(new), len(old)))
    places: list[int | None] = list(range(same))
    if same == len(old):  # it only grew
        return places + [None] * (len(new) - same)
    anywhere = {piece: place for place, piece in reversed(list(enumerate(old)))}
    following = same
    for piece in new[same:]:
        goes_on = following < len(old) and old[following] == piece
        place = following if goes_on else anywhere.get(piece)
        places.append(place)
        following = following if place is None else place + 1
    return places


def _sealed(sealing: Sealing, draft: Draft, kind: str = "") -> Draft | None:
    """The draft with its new pieces as they are stored, of the kind `kind` where there are none; None where
    they are not all of one kind."""
    kinds: set[str] = set()
    parts: list[Kept | Fresh] = []
    for part in draft.parts:
        if isinstance(part, Fresh):
            one, pieces = sealing.sealed(draft.kind, part.pieces)
            kinds.add(one)
            parts.append(Fresh(tuple(pieces)))
        else:
            parts.append(part)
    if len(kinds) > 1 or "" in kinds:
        return None
    return draft._replace(kind=kinds.pop() if kinds else kind, parts=tuple(parts))


class _Pieces(NamedTuple):
    kind: str
    form: str
    step: int
    pieces: list[bytes]


def _cut(sealing: Sealing, value: Any, base: Content | None) -> _Pieces | None:
    """A value in pieces; None for one that is to be whole."""
    if type(value) not in (list, dict, str) or not value or not _has_text_keys(value):
        return None
    step, size = _measured(sealing, value, base.step if base is not None else 0)
    if size < _SMALL and (base is None or base.form != type(value).__name__):
        return None
    pieces: list[bytes] = []
    kind = ""
    for block in _blocks(value, step):
        one, data = sealing.plain(block)
        if one == "pickle" or one != (kind or one):
            return None
        kind = one
        pieces.append(data)
    return _Pieces(kind, type(value).__name__, step, pieces)


def _has_text_keys(value: _Value) -> bool:
    return not isinstance(value, dict) or all(type(key) is str for key in value)


def _measured(sealing: Sealing, value: _Value, before: int) -> tuple[int, float]:
    """How many elements make a piece, and about how many bytes there are in all; told from some of them. It
    stays as it was before where both would do."""
    if isinstance(value, str):
        return _BLOCK, len(value)
    every = max(1, len(value) // _SAMPLE)
    some: list[Any] = (
        value[::every]
        if isinstance(value, list)
        else [{key: value[key]} for key in islice(value, 0, None, every)]
    )
    mean = sum(len(sealing.plain(each)[1]) for each in some) / len(some)
    if before in (1, _GROUP) and _DEAR / 2 <= mean < 2 * _DEAR:
        return before, mean * len(value)
    return (1 if mean >= _DEAR else _GROUP), mean * len(value)


def _blocks(value: _Value, step: int) -> list[Any]:
    if isinstance(value, dict):
        items = list(value.items())
        return [dict(items[at : at + step]) for at in range(0, len(items), step)]
    return [value[at : at + step] for at in range(0, len(value), step)]
