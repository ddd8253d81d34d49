"""engine/reconciling.py and completing.py: what of a conversation is new, for any log and any client."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from stratalog.engine.completing import Answer, Asked, Go, decide, system_of
from stratalog.engine.reconciling import (
    COMPLETION,
    Branch,
    Extend,
    Logged,
    Replay,
    Sent,
    awaited,
    check_sent,
    logged_of,
    reconcile,
    said_of,
)
from stratalog.engine.running import ELSEWHERE
from stratalog.errors import InvalidInput
from stratalog.ids import now_ms
from stratalog.types import AnyEntry, Assistant, Note, ToolCall, ToolResult, TurnEnd, TurnStart, User

WORDS = st.sampled_from(["yes", "no", "ok", "好", "go on", "a  b"])
ELSE = {ELSEWHERE: True}


def sent(*entries: AnyEntry) -> Sent:
    said = said_of(entries)
    assert said is not None
    return Sent(said, entries)


def user(text: str) -> Sent:
    return sent(User(content=text))


def reply(text: str) -> Sent:
    return sent(Assistant(content=text))


def calling(text: str, *ids: str) -> Sent:
    return sent(
        Assistant(content=text), *(ToolCall(call_id=each, name="f", args={}, meta=ELSE) for each in ids)
    )


def result(call_id: str) -> Sent:
    return sent(ToolResult(call_id=call_id, content="r"))


class Log:
    """A log that does what the engine does with a decision: appends, and answers with what a model says."""

    def __init__(self) -> None:
        self.entries: list[AnyEntry] = []

    def append(self, *entries: AnyEntry) -> None:
        for entry in entries:
            seq = len(self.entries) + 1
            self.entries.append(replace(entry, seq=seq, id=entry.id or f"e{seq}", ts=now_ms()))

    def ask(self, *messages: Sent, again: bool = False, key: str = "") -> Go | Answer | Branch:
        asked = Asked(messages=messages, again=again, key=key, digest="d")
        done = decide(self.entries, asked, "ana", now_ms())
        if isinstance(done, Go):
            self.append(*done.entries)
        return done

    def answered(self, go: Any, said: Sent) -> None:
        assert isinstance(go, Go)
        entries = [replace(each, turn=go.turn) for each in said.entries]
        ends = [] if said.said.calls else [TurnEnd(turn=go.turn, status="answered")]
        self.append(TurnStart(turn=go.turn), *entries, *ends)

    def said(self) -> list[Any]:
        return [each.said for each in logged_of(self.entries)]


STEP = st.one_of(
    st.tuples(st.just("plain"), WORDS, WORDS),
    st.tuples(st.just("tools"), WORDS, WORDS),
    st.tuples(st.just("failed"), WORDS, WORDS),
)


def played(steps: Sequence[tuple[str, str, str]]) -> tuple[Log, list[Sent]]:
    """A log made by a client that resends everything, and what that client has at the end."""
    log, history = Log(), []
    for number, (kind, asks, says) in enumerate(steps):
        history.append(user(asks))
        go = log.ask(*history)
        if kind == "failed":
            log.append(TurnEnd(turn=go.turn, status="aborted"))  # type: ignore[union-attr]
            history.pop()
            continue
        if kind == "tools":
            ids = (f"b{number}", f"a{number}")
            history.append(calling(says, *ids))
            log.answered(go, history[-1])
            history += [result(each) for each in ids]
            go = log.ask(*history)
        history.append(reply(f"{says} {number}"))
        log.answered(go, history[-1])
    return log, history


@settings(deadline=None)
@given(st.lists(STEP, max_size=6))
def test_a_client_that_resends_everything_doubles_nothing(steps: list[tuple[str, str, str]]) -> None:
    """However often words come again, and whatever failed: the log has each message that was answered once,
    in order, and the next message alone is new."""
    log, history = played(steps)
    needed = [each.said for each in logged_of(log.entries) if each.needed]
    assert sorted(map(repr, needed)) == sorted(repr(each.said) for each in history)
    plan = reconcile(logged_of(log.entries), [each.said for each in (*history, user("new"))])
    assert plan == Extend(len(history))


@settings(deadline=None)
@given(st.lists(STEP, min_size=1, max_size=6), st.data())
def test_a_window_of_the_history_is_enough(steps: list[tuple[str, str, str]], data: st.DataObject) -> None:
    """Whatever end of its history a client sends, as long as a reply is in it, the message after it is what
    is new."""
    log, history = played(steps)
    starts = [place for place, each in enumerate(history) if each.said.role == "user"]
    if not starts:
        return
    start = data.draw(st.sampled_from(starts))
    window = [each.said for each in history[start:]]
    plan = reconcile(logged_of(log.entries), [*window, user("new").said])
    assert plan == Extend(len(window))


@settings(deadline=None)
@given(st.lists(STEP, min_size=1, max_size=6))
def test_one_sent_again_has_its_reply(steps: list[tuple[str, str, str]]) -> None:
    """A request whose reply was lost is answered with that reply, and appends nothing; by its key too."""
    log, history = played([*steps, ("plain", "last", "words")])
    before = len(log.entries)
    again = log.ask(*history[:-1], again=True)
    assert isinstance(again, Answer)
    assert again.text == f"words {len(steps)}"
    assert len(log.entries) == before


@settings(deadline=None)
@given(st.lists(STEP, min_size=2, max_size=6), st.data())
def test_a_history_that_was_edited_parts_where_it_was(
    steps: list[tuple[str, str, str]], data: st.DataObject
) -> None:
    """A message said otherwise, with a reply before it: the branch has all that is shared, and no more."""
    log, history = played(steps)
    users = [place for place, each in enumerate(history) if each.said.role == "user" and place]
    if not users:
        return
    place = data.draw(st.sampled_from(users))
    plan = log.ask(*history[:place], user("quite otherwise"))
    assert isinstance(plan, Branch)
    assert plan.start == place
    shared = [each for each in logged_of(log.entries) if each.last <= plan.at and each.needed]
    assert len(shared) == place


@settings(deadline=None)
@given(st.lists(st.tuples(WORDS, WORDS), max_size=5), st.lists(st.tuples(WORDS, WORDS), max_size=5))
def test_any_log_and_any_history_come_to_an_answer(
    logged: list[tuple[str, str]], given_: list[tuple[str, str]]
) -> None:
    """Two conversations that may have nothing to do with one another: what is sent is never lost, for it is
    in the log, or after the place where it parts from it."""
    log, _ = played([("plain", *each) for each in logged])
    history = [each for asks, says in given_ for each in (user(asks), reply(says))]
    whole = [*history, user("new")]
    plan = log.ask(*whole)
    if isinstance(plan, Go):
        assert log.said()[-1] == whole[-1].said
        assert plan.turn == log.entries[-1].turn
    else:
        assert isinstance(plan, Branch)
        assert whole[plan.start].said.role == "user"


def test_the_newest_message_alone_is_new() -> None:
    """Also where it says what was said before."""
    log, _ = played([("plain", "yes", "ok"), ("plain", "yes", "ok")])
    assert reconcile(logged_of(log.entries), [user("yes").said]) == Extend(0)
    log.ask(user("yes"))
    assert [each.role for each in log.said()][-2:] == ["assistant", "user"]


def test_results_alone_go_on() -> None:
    """A client that sends nothing but what its tools answered, once more too, is in the log's turn."""
    log, _ = played([("plain", "yes", "ok")])
    go = log.ask(user("look"))
    log.answered(go, calling("", "a", "b"))
    on = log.ask(result("b"), result("a"))
    assert isinstance(go, Go)
    assert isinstance(on, Go)
    assert on.turn == go.turn
    log.answered(on, reply("done"))
    again = log.ask(result("a"), result("b"))
    assert isinstance(again, Answer)
    assert again.text == "done"
    later = log.ask(result("a"), user("and?"))
    assert isinstance(later, Go)
    assert [each.role for each in log.said()][-2:] == ["assistant", "user"]


def test_what_waits_for_its_reply_is_not_said_twice() -> None:
    """A message whose turn failed and is open is gone on with, one that was ended is said once more."""
    log = Log()
    first = log.ask(user("x"))
    again = log.ask(user("x"))
    assert isinstance(first, Go)
    assert again == Go(first.turn, [])
    log.append(TurnEnd(turn=first.turn, status="interrupted"))
    other = log.ask(user("x"))
    assert isinstance(other, Go)
    assert other.turn != first.turn


def test_what_another_surface_is_asked_is_not_answered_here() -> None:
    """The same words, said and answered otherwise in the session, are new when a client sends them."""
    log = Log()
    log.append(
        User(id="t", turn="t", content="yes"),
        Assistant(turn="t", content="ok"),
        TurnEnd(turn="t", status="answered"),
    )
    assert isinstance(log.ask(user("yes")), Go)
    assert len(log.said()) == 3


def test_a_reply_may_be_cut_and_a_result_shortened() -> None:
    """A client that stopped reading, and one that forgets what tools answered, go on in the same log."""
    log, history = played([("tools", "go", "look")])
    cut = sent(Assistant(content=log.said()[-1].text[:3]))
    shorter = sent(ToolResult(call_id="b0", content="[cut]"))
    changed = [history[0], history[1], shorter, history[3], cut, user("on")]
    assert isinstance(log.ask(*changed), Go)
    log, history = played([("tools", "go", "look")])
    assert log.ask(*history[:-1], reply("else"), user("on")) == Branch(0, 0)


def test_results_in_any_order_are_the_calls() -> None:
    """Two results of one round are the same whichever comes first."""
    log, history = played([("tools", "go", "look")])
    swapped = [history[0], history[1], history[3], history[2], history[4], user("on")]
    assert isinstance(log.ask(*swapped), Go)


def test_what_is_no_conversation_is_refused() -> None:
    """A reply at the end, results without calls, calls without results."""
    for wrong in (
        [user("a"), reply("b")],
        [user("a"), result("x")],
        [user("a"), calling("", "x", "y"), result("x"), user("b")],
        [user("a"), calling("", "x", "y"), result("x")],
        [],
    ):
        with pytest.raises(InvalidInput):
            check_sent([each.said for each in wrong])
    check_sent([result("x").said])


def test_messages_that_are_logged_say_whose_they_are() -> None:
    """Each message of the user has a turn of its own, which ends as it was answered; the last is open, with
    the key under which it came."""
    log = Log()
    go = log.ask(user("one"), user("two"), calling("", "c"), result("c"), reply("r"), user("three"), key="k")
    assert isinstance(go, Go)
    users = [each for each in log.entries if isinstance(each, User)]
    assert [each.turn == each.id for each in users] == [True] * 3
    assert [(each.meta or {})["user_id"] for each in users] == ["ana"] * 3
    assert [(each.meta or {})[COMPLETION] for each in users] == [{}, {}, {"key": "k", "digest": "d"}]
    ends = {each.turn: each.status for each in log.entries if isinstance(each, TurnEnd)}
    assert [ends.get(each.turn) for each in users] == ["interrupted", "answered", None]
    assert users[-1].turn == go.turn
    assert awaited(log.entries).waiting == {}


def test_the_reply_of_each_request_is_found_by_its_key() -> None:
    """Also where another came in the same turn after it."""
    log = Log()
    log.answered(log.ask(user("go"), key="one"), calling("look", "c"))
    log.answered(log.ask(result("c"), key="two"), reply("done"))
    first, second = log.ask(user("go"), key="one"), log.ask(result("c"), key="two")
    assert isinstance(first, Answer)
    assert isinstance(second, Answer)
    assert ([each.call_id for each in first.calls], first.text) == (["c"], "look")
    assert (second.calls, second.text) == ((), "done")


def test_the_systems_words_are_those_that_were_sent_last() -> None:
    """They are noted when they change, and once more before the note is out of what is read."""
    words, notes = system_of([], "Be brief.", cut=False)
    assert words == "Be brief."
    (note,) = notes
    assert system_of([note], None, cut=False) == ("Be brief.", [])
    assert system_of([note], "Be long.", cut=False)[1] == [replace(note, text="Be long.")]
    assert system_of([note], "", cut=False) == ("", [Note(kind="client_system", text="")])
    many: list[AnyEntry] = [note, *(User(content="x") for _ in range(9))]
    assert system_of(many, None, cut=True)[1] == [note]
    assert system_of(many[::-1], None, cut=True)[1] == []


def test_nothing_that_was_answered_is_replayed_for_ever() -> None:
    """A request that says it was sent before, long after its reply, is a new one."""
    log, history = played([("plain", "yes", "ok")])
    old = [replace(each, ts=now_ms() - 3_600_000) for each in log.entries]
    asked = Asked(messages=(history[0],), again=True)
    assert isinstance(decide(old, asked, "", now_ms()), Go)
    assert reconcile(logged_of(old), [history[0].said], again=True) == Replay(old[0].turn, 2)


@pytest.mark.parametrize("words", [("x", "y"), ("yes", "ok 1")])
def test_no_request_takes_long(words: tuple[str, str]) -> None:
    """A long history that has nothing, or everything again and again, to do with a long log: so many
    comparisons and no more."""
    one = [user("yes"), reply("ok 1"), user("yes"), reply("ok 2")]
    log = [Logged(said=each.said, turn="t", first=at, last=at) for at, each in enumerate(one * 2_000, 1)]
    sent = [*[user(words[0]).said, reply(words[1]).said] * 4_000, user("new").said]
    began = time.process_time()
    assert reconcile(log, sent) in (Branch(0, 0), Branch(2, 2), Branch(4, 2))
    assert time.process_time() - began < 10
