"""`stratalog chat` over the official SDK against a real HTTP server, in pipes and in a terminal."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from contextlib import redirect_stdout
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog import Settings, Stratalog
from stratalog.config import CompactionSettings
from stratalog.engine.running import Replied
from stratalog.errors import InvalidConfig
from stratalog.models.contract import TextDelta
from stratalog.surfaces.cli.choosing import agent_for, chosen, policy_for
from stratalog.surfaces.cli.output import Output
from stratalog.surfaces.cli.plain import plain
from stratalog.surfaces.cli.showing import Shown
from stratalog.testing.model_server import Drop, Hang, ModelServer, Received, Refuse
from stratalog.testing.scripted import Call, Gate, Reply
from stratalog.types import AnyEntry, Assistant, Compaction, TurnEnd, User, WorkingMemory
from surfaces.terminals import COMMAND, CSI, cli, environment

PATIENCE = 60.0
HOSTILE = "\x1b[31mred\x1b[0m \x07\x9b2J\u202eback\r\nnext"
_UNSET = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL")
_UNIX_DAY = 86_400_000


def clean(**changes: str) -> dict[str, str]:
    """An environment without the keys and addresses of any SDK."""
    return {name: value for name, value in environment(**changes).items() if name not in _UNSET}


def at(server: ModelServer) -> list[str]:
    return ["--model", "openai:gpt-4o", "--base-url", server.openai_url]


def piped(data: Path, *args: str, stdin: str, code: int = 0) -> tuple[str, str]:
    """What a chat that is fed these lines says on stdout and on stderr."""
    done = subprocess.run(
        [*COMMAND, "--data", str(data), "chat", *args],
        env=clean(),
        input=stdin.encode(),
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    out, err = done.stdout.decode(), done.stderr.decode()
    assert "Traceback" not in err, err
    assert done.returncode == code, err
    return out, err


class Talk:
    """A chat in a terminal, or in pipes: a test types and waits for what is shown."""

    def __init__(self, data: Path, *args: str, tty: bool = True) -> None:
        self.raw = b""
        self._seen = 0
        self._closed = False
        self._changed = threading.Condition()
        if tty:
            self._ours, theirs = pty.openpty()
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
            streams = (theirs, theirs)
        else:
            (theirs, self._writes), (self._ours, out) = os.pipe(), os.pipe()
            streams = (theirs, out)
        self._writes = self._ours if tty else self._writes
        self.process = subprocess.Popen(
            [*COMMAND, "--data", str(data), "chat", *args],
            env=clean(INPUTRC="/dev/null"),
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[1],
            start_new_session=True,
            preexec_fn=_at_a_terminal if tty else _hears_ctrl_c,
        )
        for each in set(streams):
            os.close(each)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def sent(self) -> str:
        """What was shown, without the sequences that colour it."""
        return CSI.sub("", self.raw.decode("utf-8", "replace")).replace("\r\n", "\n")

    def say(self, text: str) -> None:
        os.write(self._writes, text.encode())

    def until(self, words: str) -> str:
        """Waits for these words after those that were waited for before; gives all up to their end."""

        def over() -> bool:
            return words in self.sent[self._seen :] or self._closed

        with self._changed:
            assert self._changed.wait_for(over, PATIENCE), self.sent
            assert words in self.sent[self._seen :], self.sent
            end = self.sent.index(words, self._seen) + len(words)
            shown, self._seen = self.sent[self._seen : end], end
        return shown

    def ctrl_c_at_prompt(self) -> None:
        """Waits for the prompt, and presses Ctrl-C when the process sleeps in wait of a key: Python's `input`
        notices a signal that comes just before only with the next key."""
        self.until("> ")
        stat = Path(f"/proc/{self.process.pid}/stat")
        while stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "S":
            os.sched_yield()
        self.say("\x03")

    def code(self) -> int:
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code

    def _read(self) -> None:
        while not self._closed:
            try:
                piece = os.read(self._ours, 65536)
            except OSError:  # Linux says so when the other end of a terminal is closed
                piece = b""
            with self._changed:
                self.raw += piece
                self._closed = not piece
                self._changed.notify_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._reader.join(PATIENCE)
        for each in {self._ours, self._writes}:
            os.close(each)


def _hears_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # whatever the tests themselves were told


def _at_a_terminal() -> None:
    _hears_ctrl_c()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def entries(data: Path, key: str) -> list[AnyEntry]:
    with Stratalog(data) as memory:
        return list(memory.session(key).entries())


def only_key(data: Path) -> str:
    with Stratalog(data) as memory:
        (meta,) = memory.sessions().sessions
        return meta.key


def said(data: Path, key: str) -> list[tuple[str, str]]:
    """Who said what."""
    found = entries(data, key)
    return [(each.role, each.text) for each in found if isinstance(each, User | Assistant)]


def ends(data: Path, key: str) -> list[str]:
    return [each.status for each in entries(data, key) if isinstance(each, TurnEnd)]


def words_of(request: Received) -> list[tuple[str, str]]:
    return [(each["role"], each["content"]) for each in request.body["messages"]]


def chat(data: Path, server: ModelServer, *args: str, stdin: str, code: int = 0) -> tuple[str, str]:
    """The same as `piped`, in this process."""
    result = cli("chat", *at(server), *args, data=data, stdin=stdin)
    assert result.exit_code == code, (result.output, result.exception)
    return result.stdout, result.stderr


# --- saying something ---


def test_lines_of_a_pipe_are_messages(tmp_path: Path) -> None:
    """Each line is answered in its turn; stdout has the replies alone, and the log all of it."""
    with ModelServer(["Hello.", "In Lisbon."]) as server:
        out, err = piped(tmp_path, *at(server), "--system", "Be brief.", stdin="Hi.\n\nWhere is Ana?\n")
        assert out == "Hello.\nIn Lisbon.\n"
        assert "\x1b" not in err
        assert words_of(server.requests[1]) == [
            ("system", "Be brief."),
            ("user", "Hi."),
            ("assistant", "Hello."),
            ("user", "Where is Ana?"),
        ]
    key = only_key(tmp_path)
    assert key.startswith("local/assistant:cli:")
    assert [words for _, words in said(tmp_path, key)] == ["Hi.", "Hello.", "Where is Ana?", "In Lisbon."]
    assert ends(tmp_path, key) == ["answered", "answered"]


def test_a_line_goes_on_after_a_backslash_and_two_slashes_are_one(tmp_path: Path) -> None:
    """Continued lines are one message, also at the end of the input; `//` begins a message with a slash."""
    with ModelServer(["1", "2", "3"]) as server:
        chat(tmp_path, server, stdin="one\\\ntwo\n//etc is a path\nthe end\\")
    users = [words for role, words in said(tmp_path, only_key(tmp_path)) if role == "user"]
    assert users == ["one\ntwo", "/etc is a path", "the end"]


def test_a_reply_is_shown_as_it_comes(tmp_path: Path) -> None:
    """On a terminal the first words are there while the last have not been sent."""
    gate = Gate()
    with (
        ModelServer([Reply(text="one two three four", late_gate=gate)]) as server,
        Talk(tmp_path, *at(server)) as talk,
    ):
        talk.until("> ")
        talk.say("Count.\n")
        talk.until("one two")
        gate.wait_reached()
        assert "four" not in talk.sent
        gate.open()
        talk.until("four\n> ")
        talk.say("\x04")
        talk.until("goes on with it")
        assert talk.code() == 0


def test_nothing_that_a_model_says_moves_the_cursor(tmp_path: Path) -> None:
    """Escapes and marks in a reply, a thought, a call and its result are shown as text, in a pipe and on a
    terminal."""
    call = Call("no\x1b[2Jsuch", {"a": "\x1b[31m"})
    script = [Reply(text=HOSTILE, reasoning=HOSTILE, calls=(call,)), Reply(text=HOSTILE, pieces=40)]
    with ModelServer(script) as server:
        out, err = chat(tmp_path / "a", server, stdin="go\n")
    assert out == f"{plain(HOSTILE)}\n" * 2
    assert "such: a: \\x1b[31m" in err
    for sign in ("\x1b", "\x07", "\x9b", "\u202e", "\r"):
        assert sign not in out + err
    with ModelServer(script) as server, Talk(tmp_path / "b", *at(server)) as talk:
        talk.until("> ")
        talk.say("go\n")
        talk.until("next\n> ")
        shown = talk.raw.decode()
        assert "\x1b[31m" not in shown
        assert "\x1b[2J" not in shown
        assert not {"\x07", "\x9b", "\u202e"} & set(shown)
        assert "\x1b[2m\\x1b[31mred" in shown, "thoughts are dimmed"


@given(st.lists(st.text(st.sampled_from("a \r\n\t\x1b\x9b\u202eé花")), max_size=8))
def test_however_the_pieces_fall(pieces: list[str]) -> None:
    """What is shown of a reply is the same as if it had come in one piece, and its line is ended."""
    raw = io.BytesIO()
    with redirect_stdout(io.TextIOWrapper(raw, "utf-8", write_through=True)):
        shown = Shown(Output())
        for piece in pieces:
            shown.take(TextDelta(piece))
        shown.end()
        sys.stdout.flush()
        whole = plain("".join(pieces))
        assert raw.getvalue().decode() == whole + ("\n" if whole and not whole.endswith("\n") else "")
        assert shown.reply == "".join(pieces)


def test_a_model_that_does_not_stream_is_shown_too(capsys: pytest.CaptureFixture[str]) -> None:
    """The reply's words are shown when none of them came before."""
    shown = Shown(Output())
    shown.take(Replied(Assistant(content="whole"), 1))
    assert capsys.readouterr().out == "whole\n"
    assert shown.reply == "whole"


def test_what_came_before_a_fault_is_marked_as_void(tmp_path: Path) -> None:
    """A reply that was cut is marked, the reason told, and the reply begins anew."""
    with ModelServer([Drop(Reply(text="abcdef", pieces=3), after=2), "whole"]) as server:
        out, err = chat(tmp_path, server, stdin="go\n")
    assert out == "abcd\n[what came of this reply is void, it begins anew]\nwhole\n"
    assert "asked again in " in err
    assert said(tmp_path, only_key(tmp_path)) == [("user", "go"), ("assistant", "whole")]


def test_tools_are_told_beside_the_reply(tmp_path: Path) -> None:
    """A call and its result are a line each on stderr; /memory shows what the model kept."""
    call = Call("working_memory_set", {"key": "sister", "value": "Ana"})
    with ModelServer([Reply(text="Wait.", calls=(call,)), "Kept."]) as server:
        out, err = chat(tmp_path, server, stdin="My sister is Ana.\n/memory\n")
    assert out == 'Wait.\nKept.\nsister = "Ana"\n'
    called, answered = (at for at in err.splitlines() if at[:1] in "→←")
    assert called == "→ working_memory_set: key: sister value: Ana"
    assert answered.startswith("← result: ")
    assert "1 value, 0 facts" in err


def test_a_message_that_failed_does_not_end_the_chat(tmp_path: Path) -> None:
    """The error is told with its hint and the next message is answered; the exit code of a pipe says so."""
    with ModelServer([Refuse(400, "no such thing"), "Here."]) as server:
        out, err = chat(tmp_path, server, stdin="one\ntwo\n", code=1)
    assert out == "Here.\n"
    assert "error: the model's provider refused: 400" in err
    assert ends(tmp_path, only_key(tmp_path)) == ["interrupted", "answered"]


def test_json_is_a_line_for_each_reply(tmp_path: Path) -> None:
    """Nothing else is on stdout; a failure is a line too."""
    script = [Reply(text="Hello \x9b.", reasoning="hm"), Refuse(400, "no")]
    with ModelServer(script) as server:
        out, _ = chat(tmp_path, server, "--json", stdin="one\n/context\ntwo\n", code=1)
    first, second = map(msgspec.json.decode, out.splitlines())
    assert "\x9b" not in out
    key = only_key(tmp_path)
    assert set(first) == {"key", "reply", "usage", "tokens", "compacted"}
    assert (first["key"], first["reply"], first["compacted"]) == (key, "Hello \x9b.", False)
    assert first["usage"]["input"] > 0
    assert first["tokens"] > 0
    assert (second["key"], second["kind"]) == (key, "ModelRejected")
    assert set(second) == {"key", "error", "kind", "hint", "where"}


def test_json_at_a_terminal(tmp_path: Path) -> None:
    """There is a prompt, and each reply is one line even so."""
    with Talk(tmp_path, "--json", "--model", "extractive") as talk:
        talk.until("> ")
        talk.say("Tea is kept in the blue tin.\n")
        talk.until('"compacted":false}\n')
        talk.until("> ")
        talk.say("\x04")
        assert talk.code() == 0


def test_an_output_that_cannot_be_written_ends_the_chat(tmp_path: Path) -> None:
    """A full disk where the replies go is exit code 5, and no further message is sent to the model."""
    with ModelServer(["one"]) as server, Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, "--data", str(tmp_path), "chat", *at(server)],
            env=clean(),
            input=b"1\n2\n",
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=PATIENCE,
            check=False,
        )
    assert done.returncode == 5, done.stderr
    assert b"the output cannot be written" in done.stderr


# --- stopping ---


def test_ctrl_c_stops_the_reply_and_keeps_what_came(tmp_path: Path) -> None:
    """The request ends on the wire, the log has the words that came and that the turn was aborted, and the
    chat goes on; at the prompt one Ctrl-C is a hint and the second leaves."""
    script = [Hang(Reply(text="one two three", pieces=3), after=2), "Still here."]
    with ModelServer(script) as server, Talk(tmp_path, *at(server)) as talk:
        talk.until("> ")
        talk.say("Count.\n")
        shown = talk.until("one two th")
        assert "three" not in shown
        talk.say("\x03")
        talk.until("stopped; what came before is kept\n> ")
        server.wait(lambda: server.requests[0].disconnected)
        talk.say("And now?\n")
        talk.until("Still here.\n")
        talk.ctrl_c_at_prompt()
        talk.until("Ctrl-C once more leaves")
        talk.ctrl_c_at_prompt()
        assert talk.code() == 130
    key = only_key(tmp_path)
    count, partial, *_ = (each for each in entries(tmp_path, key) if isinstance(each, User | Assistant))
    assert (count.text, partial.text) == ("Count.", "one two th")
    assert partial.meta == {"partial": True}
    assert ends(tmp_path, key) == ["aborted", "answered"]


def test_a_hint_is_forgotten_after_a_line(tmp_path: Path) -> None:
    """Only two Ctrl-C in a row leave; /quit leaves with 0."""
    with Talk(tmp_path, "--model", "extractive") as talk:
        for _ in range(2):
            talk.ctrl_c_at_prompt()
            talk.until("Ctrl-C once more leaves")
            talk.until("> ")
            talk.say("/memory\n")
            talk.until("0 facts\n")
        talk.until("> ")
        talk.say("/quit\n")
        assert talk.code() == 0


def test_ctrl_c_in_a_pipe_ends_the_chat(tmp_path: Path) -> None:
    """There is no prompt to come back to: what came is kept and the exit code is 130."""
    with ModelServer([Hang(Reply(text="one two", pieces=2), after=1)]) as server:
        with Talk(tmp_path, *at(server), tty=False) as talk:
            talk.say("Count.\n")
            talk.until("one ")
            talk.process.send_signal(signal.SIGINT)
            assert talk.code() == 130
        server.wait(lambda: server.requests[0].disconnected)
    assert ends(tmp_path, only_key(tmp_path)) == ["aborted"]


@pytest.mark.crash
@pytest.mark.parametrize("then", ["/resume", "Never mind."])
def test_a_killed_chat_is_resumed_or_closed(tmp_path: Path, then: str) -> None:
    """A reply that kill -9 cut off is told when the chat is opened; /resume answers its message, and another
    message closes it as interrupted."""
    with ModelServer([Hang(after=1), "Here it is."]) as server:
        with Talk(tmp_path, *at(server), tty=False) as talk:
            talk.say("Tell me.\n")
            talk.until("one")
            talk.process.kill()
            assert talk.code() == -signal.SIGKILL
        key = only_key(tmp_path)
        out, err = chat(tmp_path, server, key.split(":")[-1], stdin=f"{then}\n/resume\n", code=1)
        last = words_of(server.requests[1])[-1]
    assert out == "Here it is.\n"
    assert 'not finished: "Tell me."; /resume goes on with it' in err
    assert "every message here was answered" in err
    resumed = then == "/resume"
    assert last == ("user", "Tell me." if resumed else "Never mind.")
    assert ends(tmp_path, key) == (["answered"] if resumed else ["interrupted", "answered"])


# --- commands ---


def test_a_chat_is_opened_with_what_it_was_about(tmp_path: Path) -> None:
    """Its title and the last exchange are shown; the model is given all of it."""
    with ModelServer(["A whale.", "Yes."]) as server:
        chat(tmp_path, server, "assistant:cli:me", stdin="Name an animal.\n/title Animals\n")
        out, err = chat(tmp_path, server, "Animals", stdin="Does it swim?\n")
        assert len(words_of(server.requests[1])) == 3
    assert out == "Yes.\n"
    assert err.splitlines()[:3] == [
        'assistant:cli:me "Animals"',
        "  user: Name an animal.",
        "  assistant: A whale.",
    ]


def test_a_name_that_is_no_session_s(tmp_path: Path) -> None:
    """A piece of a key that nothing has is exit code 3; a whole key is a new chat's."""
    assert cli("chat", "nobody", "--model", "extractive", data=tmp_path).exit_code == 3
    result = cli("chat", "helper:web:new", "--model", "extractive", data=tmp_path, stdin="Noted?\n")
    assert result.exit_code == 0
    assert only_key(tmp_path) == "local/helper:web:new"


def test_restart(tmp_path: Path) -> None:
    """Idle it is done at once; while another process, or another memory, runs a turn it is done when it is
    asked for twice, and that turn is lost."""
    with ModelServer(["One.", "Two.", "Three."]) as server:
        _, err = chat(tmp_path, server, "assistant:cli:me", stdin="1\n/restart\n2\n")
        assert words_of(server.requests[1]) == [("user", "2")]
        assert "restarted" in err
        with Stratalog(tmp_path) as memory:
            turn = memory.session("assistant:cli:me").turn("busy")
            _, err = chat(tmp_path, server, "me", stdin="/restart\n/restart\n3\n")
            assert turn.look() == "taken"
        assert "within 30 seconds" in err
        assert words_of(server.requests[2]) == [("user", "3")]
    assert [words for _, words in said(tmp_path, "assistant:cli:me")] == ["3", "Three."]


def test_a_message_waits_for_another_s_turn(tmp_path: Path) -> None:
    """While another holds the session the message is in the log and told to wait; then it is answered."""
    with ModelServer(["Now."]) as server, Stratalog(tmp_path) as memory:
        session = memory.session("assistant:cli:me")
        with session.turn("first") as turn, Talk(tmp_path, *at(server), "me", tty=False) as talk:
            talk.say("second\n")
            talk.until("this one waits for it")
            assert [each.message.text for each in session.unfinished()] == ["first", "second"]
            turn.reply("done")
            turn.end()
            talk.until("Now.\n")
        assert [words for _, words in said(tmp_path, "assistant:cli:me")][-1] == "Now."


def old_session(data: Path, chat: str, days: float) -> None:
    """A session that was last written to so long ago."""
    ts = int(time.time() * 1000 - days * _UNIX_DAY)
    with Stratalog(data) as memory:
        memory.session(f"assistant:cli:{chat}").append(
            WorkingMemory(op="set", key="from", value=chat, ts=ts),
            User(content=f"We talked of {chat} and its many colours.", ts=ts),
            Assistant(content=f"So we did, of {chat}.", ts=ts),
        )


@pytest.mark.parametrize(
    ("days", "inherit", "seen"),
    [(0.0, "history", "We talked of tea"), (0.5, "summary", "SUMMARY OF"), (3.0, "working memory", "tea")],
)
def test_the_time_since_decides_what_a_chat_goes_on_with(
    tmp_path: Path, days: float, inherit: str, seen: str
) -> None:
    """The one other session is taken; it is told what of it came along, and the model is given that. The
    summary is the model's own."""
    old_session(tmp_path, "tea", days)
    summary = "SUMMARY OF what was said: they talked of tea and of its many colours."
    script = [summary, "Yes."] if inherit == "summary" else ["Yes."]
    with ModelServer(script) as server:
        out, err = chat(tmp_path, server, stdin="/continue\nRemember?\n")
        given = words_of(server.requests[-1])
    assert out == "Yes.\n"
    assert f"goes on from assistant:cli:tea with its {inherit}: " in err
    assert any(seen in words for _, words in given)
    assert ("So we did" in str(given)) is (inherit == "history")
    assert len(said(tmp_path, "assistant:cli:tea")) == 2


def test_which_chat_to_go_on_with_is_never_guessed(tmp_path: Path) -> None:
    """Of several of the last day none is taken and all are listed; one that is named, or the only one of the
    last day, is."""
    for name, days in (("tea", 0.0), ("coffee", 0.25), ("cocoa", 9.0)):
        old_session(tmp_path, name, days)
    with ModelServer([]) as server:
        _, err = chat(tmp_path, server, stdin="/continue\n", code=1)
        assert "this could go on from any of 2 chats" in err
        assert err.index('assistant:cli:tea "') < err.index('assistant:cli:coffee "')
        assert "cocoa" not in err
        _, err = chat(tmp_path, server, stdin="/continue cocoa\n")
        assert "goes on from assistant:cli:cocoa with its working memory" in err
        _, err = chat(tmp_path, server, "new", "--continue", "coc", stdin="")
        assert "assistant:cli:new goes on from assistant:cli:cocoa" in err
        with Stratalog(tmp_path) as memory:
            memory.session("assistant:cli:coffee").delete()
        _, err = chat(tmp_path, server, "helper:cli:x", stdin="/continue\n", code=1)
        assert "there is no other chat to go on from" in err


def test_compact_now(tmp_path: Path) -> None:
    """The model writes the summary, and what it did is told; the second time there is nothing to do."""
    with Stratalog(tmp_path) as memory:
        session = memory.session("assistant:cli:me")
        for number in range(14):
            with session.turn(f"Question {number} about tea. " * 20) as turn:
                turn.reply(f"Answer {number}. " * 40)
    with ModelServer(["They spoke about tea at length, in many questions."]) as server:
        _, err = chat(tmp_path, server, "me", stdin="/compact\n/compact\n")
    (made,) = (each for each in entries(tmp_path, "assistant:cli:me") if isinstance(each, Compaction))
    assert "They spoke about tea at length" in made.summary
    assert made.by == "gpt-4o"
    assert f"folded 8 entries, {made.tokens_before:,} → {made.tokens_after:,} tokens, by gpt-4o" in err
    assert "nothing to compact: everything is recent" in err


def test_context_says_what_the_model_would_see(tmp_path: Path) -> None:
    """The sections, the window that was given, and what the last reply reported."""
    with ModelServer(["Hello."]) as server:
        out, _ = chat(tmp_path, server, "--window", "9000", "--system", "Be brief.", stdin="Hi.\n/context\n")
        body = server.requests[0].body
        assert body["max_completion_tokens"] == 9000 // 4
        usage = next(
            each.usage for each in entries(tmp_path, only_key(tmp_path)) if isinstance(each, Assistant)
        )
    assert usage is not None
    assert "system" in out
    assert "gpt-4o: a window of 9,000 tokens, 2,250 of them kept for the reply" in out
    assert f"the last reply reported {usage.input:,} tokens read and {usage.output:,} written" in out


def test_an_agent_s_own_window_stays(tmp_path: Path) -> None:
    """Where agent.toml says another window for the very model, that one counts, and it is told."""
    agent = tmp_path / "local" / "agents" / "assistant"
    agent.mkdir(parents=True)
    (agent / "agent.toml").write_text("[windows]\nextractive = 7000\n")
    args = ("chat", "--model", "extractive", "--window")
    assert "agent.toml" in cli(*args, 9000, data=tmp_path).stderr
    assert "agent.toml" not in cli(*args, 7000, data=tmp_path).stderr


def test_help_and_a_command_that_is_not_there(tmp_path: Path) -> None:
    """All commands are listed; another is an error that says how to send it as a message."""
    result = cli("chat", "--model", "extractive", data=tmp_path, stdin="/help\n/quti\n")
    assert [line.split()[0] for line in result.stdout.splitlines()] == [
        *("/help", "/restart", "/continue", "/compact", "/context", "/memory", "/title", "/resume", "/quit"),
        *("//TEXT", "TEXT"),
    ]
    assert "//quti says /quti" in result.stderr
    assert result.exit_code == 1


# --- the model ---


def test_no_model_is_configured(tmp_path: Path) -> None:
    """Exit code 2 before anything is asked for, with all the ways to have one."""
    out, err = piped(tmp_path, stdin="Hi.\n", code=2)
    assert out == ""
    assert "error: no model is configured" in err
    for way in (
        "stratalog.toml",
        "--model openai:NAME",
        "OPENAI_API_KEY",
        "--base-url",
        "--model extractive",
    ):
        assert way in err
    assert not any(tmp_path.iterdir())


def test_without_a_model_and_without_keys(tmp_path: Path) -> None:
    """`--model extractive` needs nothing, and answers with what was said."""
    out, _ = piped(tmp_path, "--model", "extractive", stdin="My sister Ana lives in Lisbon.\nWhere is Ana?\n")
    assert "My sister Ana lives in Lisbon." in out.splitlines()[-1]


def test_the_settings_say_which_model(tmp_path: Path) -> None:
    """`model`, `base_url` and `api_key_env` are the defaults, an agent's own over them; no key is shown."""
    with ModelServer(["1", "2"], api_key="sesame-sesame") as server:
        text = f'model = "openai:gpt-4o"\nbase_url = "{server.openai_url}"\napi_key_env = "MY_KEY"\n'
        (tmp_path / "stratalog.toml").write_text(f'{text}[memory]\nmodel = "extractive"\n')
        agent = tmp_path / "local" / "agents" / "helper"
        agent.mkdir(parents=True)
        (agent / "agent.toml").write_text('model = "openai:gpt-4o-mini"\n')
        for key in ("assistant:cli:a", "helper:cli:a"):
            done = subprocess.run(
                [*COMMAND, "--data", str(tmp_path), "chat", key],
                env=clean(MY_KEY="sesame-sesame"),
                input=b"Hi.\n",
                capture_output=True,
                timeout=PATIENCE,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            assert b"sesame" not in done.stdout + done.stderr
        assert [each.body["model"] for each in server.requests] == ["gpt-4o", "gpt-4o-mini"]


SET = Settings(model="openai:a", base_url="http://here/v1", api_key_env="MY_KEY")


@pytest.mark.parametrize(
    ("settings", "model", "base_url", "expected"),
    [
        (SET, "", "", ("openai:a", "http://here/v1", "MY_KEY")),
        (SET, "openai:b", "", ("openai:b", "http://here/v1", "MY_KEY")),
        (SET, "anthropic:c", "", ("anthropic:c", "", "")),
        (SET, "", "http://there/v1", ("openai:a", "http://there/v1", "")),
        (Settings(api_key_env="MY_KEY"), "openai:b", "", ("openai:b", "", "MY_KEY")),
        (Settings(api_key_env="MY_KEY"), "openai:b", "http://there/v1", ("openai:b", "http://there/v1", "")),
    ],
)
def test_a_key_goes_only_where_the_settings_send_it(
    settings: Settings, model: str, base_url: str, expected: tuple[str, str, str]
) -> None:
    """The command line wins, and neither address nor key of the settings goes to somebody else."""
    made = chosen(settings, model, base_url)
    assert (made.model, made.base_url, made.api_key_env) == expected


def test_a_summariser_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings' summariser stays that of the settings whatever model is named; none is the model."""
    monkeypatch.setenv("MY_KEY", "x")
    settings = msgspec.structs.replace(SET, compaction=CompactionSettings(summariser="openai:small"))
    agent = agent_for(settings, model="extractive", base_url="", system="")
    assert agent.summariser is not None
    assert (agent.model.name, agent.summariser.name) == ("extractive", "small")
    assert agent_for(Settings(), model="extractive", base_url="", system="").summariser is None
    with pytest.raises(InvalidConfig):
        agent_for(Settings(), model="nobody:x", base_url="", system="")


def test_how_a_session_is_compacted_by_the_settings() -> None:
    """Without options by the settings' model and table; a window, and a preset, that are given count."""
    own = Settings(
        model="openai:gpt-4o",
        windows={"gpt-4o": 20_000},
        compaction=CompactionSettings(trigger=0.5, keep_turns=3),
    )
    by_settings = policy_for(own, window=None, preset_name=None)
    assert by_settings.window <= 20_000
    assert (by_settings.trigger, by_settings.keep_turns) == (0.5, 3)
    given = policy_for(own, window=1_000, preset_name=None)
    assert (given.window, given.trigger, given.keep_turns) == (1_000, 0.5, 3)
    bare = policy_for(own, window=1_000, preset_name="fixed-80k")
    assert (bare.trigger, bare.keep_messages, bare.keep_turns) == (1.0, 20, 10)
    assert policy_for(Settings(), window=None, preset_name=None).window == 32_768


def test_the_other_commands_start_without_what_runs_a_model() -> None:
    """Importing the command line loads neither what runs a turn, nor an adapter, nor line editing."""
    names = ["stratalog.engine.running", "stratalog.models.openai", "openai", "readline"]
    code = f"import sys, stratalog.surfaces.cli.app as a; sys.exit(any(n in sys.modules for n in {names}))"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=PATIENCE).returncode == 0
