"""engine/seeing.py: what was recalled for turns before stands where it was, as long as nothing else is left
out for it; and what is counted of a request beforehand is what is sent."""

from __future__ import annotations

from stratalog.engine.core import Stratalog
from stratalog.engine.seeing import Wants
from stratalog.engine.session import Session
from stratalog.types import User

OLD, NEW = "It is called Alma.", "It is blue."


def three_turns(memory: Stratalog) -> tuple[Session, list[str]]:
    session = memory.session("a:cli:one")
    turns = []
    for number in range(3):
        with session.turn(f"message {number} " + "word " * 50) as turn:
            turn.reply("Aye.")
        turns.append(turn.id)
    return session, turns


def said(wants: Wants, session: Session) -> list[str]:
    context = session.seeing.fitted(session.seeing.prepared(None, wants))
    return [entry.text[:18] for entry in context.entries if isinstance(entry, User)]


def test_it_stands_before_the_message_that_it_was_recalled_for(memory: Stratalog) -> None:
    """And counts as recalled, not as a turn's own."""
    session, turns = three_turns(memory)
    wants = Wants(budget=4_000, recalled=[NEW], stands={turns[1]: OLD, "of another turn": "nothing"})
    assert said(wants, session) == [
        "message 0 word wor",
        OLD,
        "message 1 word wor",
        NEW,
        "message 2 word wor",
    ]
    bare = Wants(budget=4_000)
    sections = [
        {
            each.name: each.tokens
            for each in session.seeing.fitted(session.seeing.prepared(None, how)).sections
        }
        for how in (wants, bare)
    ]
    counter = session.seeing.counter("")
    told = sum(counter.count_entry(User(content=text)) for text in (OLD, NEW))
    assert sections[0] == {**sections[1], "recalled": told}


def test_no_turn_is_left_out_for_it(memory: Stratalog) -> None:
    """Where all turns fit without it, and not with it, they are all there, and it is not."""
    session, turns = three_turns(memory)
    bare = session.seeing.fitted(session.seeing.prepared(None, Wants(budget=4_000)))
    wants = Wants(budget=bare.tokens + 5, stands={turns[0]: OLD})
    context = session.seeing.fitted(session.seeing.prepared(None, wants))
    assert said(wants, session) == [f"message {number} word wor" for number in range(3)]
    assert (context.turns_left_out, context.degraded) == (0, False)
    wider = Wants(budget=bare.tokens + 50, stands={turns[0]: OLD})
    assert said(wider, session)[0] == OLD


def test_what_is_counted_beforehand_is_what_is_sent(memory: Stratalog) -> None:
    """In the same order, or a provider's count of the last request would say nothing of the next."""
    session, turns = three_turns(memory)
    stands = {turns[0]: OLD}
    wants = Wants(budget=4_000, recalled=["", NEW], stands=stands, memory=["Known."], system="Be brief.")
    prepared = session.seeing.prepared(None, wants)
    sent = session.seeing.fitted(prepared).shown()
    memo = session.seeing.memo
    counter = session.seeing.counter("")
    before = memo.pieces("", (), prepared.entries(), counter)
    assert before == memo.pieces("", (), sent, counter)
    assert session.seeing.prepared(None, wants).quoted[turns[0]] is prepared.quoted[turns[0]]
