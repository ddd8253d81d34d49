"""A reply as it comes: what the model says on stdout, and on stderr a dim line for each thing beside it.

Whatever a model or a tool says is made safe to show first, however its pieces fall.
"""

from __future__ import annotations

from rich.text import Text

from stratalog.engine.compaction import Compacted
from stratalog.engine.running import (
    Answered,
    Called,
    Event,
    ReasoningDelta,
    Replied,
    Retrying,
    TextDelta,
    Warned,
)
from stratalog.errors import StratalogError
from stratalog.surfaces.cli.output import Output
from stratalog.surfaces.cli.plain import one_line, unicode_text
from stratalog.surfaces.cli.transcript import words_on_a_line
from stratalog.types import ToolCall, ToolResult


class Shown:
    """Shows the events of one turn. With `--json` only what is beside the reply, which is in `replied`."""

    def __init__(self, out: Output) -> None:
        self.replied: Replied | None = None
        self.compacted = False
        self._out = out
        self._words: list[str] = []  # of the reply that is under way
        self._kind = ""  # of what stands in the line that is not ended: words, or thoughts
        self._held = ""  # the end of a piece, which may belong with the beginning of the next
        self._any = False  # whether something of the reply under way was shown

    @property
    def reply(self) -> str:
        """The words of the last reply."""
        return "".join(self._words)

    def take(self, event: Event) -> None:
        """Shows what happened."""
        match event:
            case TextDelta():
                self._words.append(event.text)
                self._piece("words", event.text)
            case ReasoningDelta():
                if self._out.tty:
                    self._piece("thoughts", event.text)
            case Retrying():
                self._void(event)
            case Called():
                self._begin_anew()
                self._aside(called(self._out, event.call))
            case Answered():
                self._aside(answered(self._out, event.result))
            case Compacted():
                self.compacted = True
                self._aside(folded(self._out, event))
            case Warned():
                self.end()
                self._out.warn(event.reason)
            case Replied():
                if not self._words:  # a model need not say it piece by piece
                    self.take(TextDelta(event.reply.text))
                self.replied = event
                self.end()

    def end(self) -> None:
        """Ends the line that the reply left open."""
        if self._held:
            self._held = ""
            self._write("words", self._out.text("\r"))
        if self._kind:
            self._kind = ""
            self._raw("\n")

    def _piece(self, kind: str, piece: str) -> None:
        if self._out.json or not piece:
            return
        if self._kind and self._kind != kind:
            self.end()
        text = self._held + piece
        self._held = "\r" if text.endswith("\r") else ""  # with a line feed after it, it is the end of a line
        self._write(kind, self._out.text(text.removesuffix("\r") if self._held else text))

    def _write(self, kind: str, safe: str) -> None:
        if not safe:
            return
        self._any = True
        if kind == "thoughts":
            self._out.out.print(Text(safe, "dim"), end="", soft_wrap=True)
        else:
            self._raw(safe)
        self._kind = "" if safe.endswith("\n") else kind

    def _raw(self, safe: str) -> None:
        self._out.raw([safe.encode(self._out.encoding, "backslashreplace")])
        self._out.flush()

    def _void(self, event: Retrying) -> None:
        shown = self._any
        self.end()
        self._begin_anew()
        if shown:
            self._out.print(Text("[what came of this reply is void, it begins anew]", "dim"))
        self._out.tell(f"asked again in {event.pause:.1f} s: {' '.join(event.reason.split())}")

    def _begin_anew(self) -> None:
        self._words, self._any = [], False

    def _aside(self, line: str) -> None:
        self.end()
        self._out.tell(line)


def called(out: Output, call: ToolCall) -> str:
    """A tool's call on one line."""
    return _clipped(out, f"{out.glyphs.call} {words_on_a_line(call)}")


def answered(out: Output, result: ToolResult) -> str:
    """A tool's result on one line."""
    return _clipped(
        out, f"{out.glyphs.failed if result.error else out.glyphs.result} {words_on_a_line(result)}"
    )


def folded(out: Output, made: Compacted) -> str:
    """What a compaction did, on one line."""
    entry = made.entry
    tokens = f"{entry.tokens_before:,} {out.glyphs.call} {entry.tokens_after:,} tokens"
    words = f"folded {made.covered:,} entries, {tokens}, by {entry.by}"
    return f"{words}; it stood in, for {made.stood_in}" if made.stood_in else words


def tell_error(out: Output, error: StratalogError) -> None:
    """Says what went wrong, where a chat goes on after it."""
    out.tell(Text.assemble(("error: ", "bold red"), one_line(error.what, out.err.encoding)))
    for name, value in error.where.items():
        if isinstance(value, list | tuple):
            for each in value:
                out.tell(f"    {one_line(str(each))}")
        else:
            out.tell(f"  {name}: {one_line(str(value))}")
    if error.hint:
        out.tell(f"  hint: {error.hint}")


def error_value(error: StratalogError) -> dict[str, object]:
    """The same as JSON."""
    where = {
        name: [unicode_text(each) for each in value]
        if isinstance(value, list | tuple)
        else unicode_text(value)
        for name, value in error.where.items()
    }
    return {
        "error": unicode_text(error.what),
        "kind": type(error).__name__,
        "hint": unicode_text(error.hint),
        "where": where,
    }


def _clipped(out: Output, line: str) -> str:
    return out.clip(out.line(line), out.width - 1)
