"""memory/extract.py: what is remembered of a turn, and what a model's reply has to be for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.errors import InvalidInput, ModelUnavailable
from stratalog.ids import derived_ulid
from stratalog.memory.contract import Layer, Record, Scope, Source, When
from stratalog.memory.extract import (
    INSTRUCTIONS,
    MAX_FACTS,
    MAX_PREVIEW,
    Drawn,
    Extracted,
    Fact,
    Parsed,
    Unusable,
    drafts,
    extract,
    extractable,
    parsed,
    preview,
    prompt,
)
from stratalog.memory.policy import MAX_SOURCES, Draft, checked, decide
from stratalog.types import AnyEntry, Assistant, Compaction, Image, Note, System, Text, ToolResult, User

ZONE = "Asia/Shanghai"
SESSION = "acme/chat"
ME, HERE = Scope("user", "ana"), Scope("session", SESSION)


def at(*moment: int) -> int:
    return int(datetime(*moment, tzinfo=ZoneInfo(ZONE)).timestamp() * 1000)  # type: ignore[misc,arg-type]


SAID = at(2026, 9, 16, 0, 30)  # a Wednesday
ASKED = User(
    id=derived_ulid(SAID, "asked"), ts=SAID, content="I moved to  Lisbon yesterday. Where is the Ferry?"
)
ANSWERED = Assistant(
    id=derived_ulid(SAID, "answered"), ts=SAID + 5_000, content="The ferry leaves from Cais."
)
TURN = [ASKED, ANSWERED]
HOME = {
    "about": "user",
    "key": "Home",
    "text": "Lives in Lisbon",
    "confidence": 0.9,
    "quote": "moved to Lisbon",
    "from": "yesterday",
    "until": None,
}
ANSWER = {"facts": [HOME], "summary": "Ana moved and asks about ferries."}
READ = Parsed(
    (
        Fact(
            text="Lives in Lisbon",
            about_user=True,
            key="Home",
            confidence=0.9,
            quote="moved to Lisbon",
            begins="yesterday",
        ),
    ),
    "Ana moved and asks about ferries.",
)


def known(**more: Any) -> Record:
    return Record(
        **{
            "id": derived_ulid(SAID, repr(more)),
            "layer": Layer.MID,
            "scope": HERE,
            "key": "ferry",
            "payload": "x",
            "text": "x",
            "origin": "model",
            **more,
        }
    )


def drawn(*facts: dict[str, Any], entries: list[AnyEntry] | None = None, **more: Any) -> Drawn:
    answer = parsed(json.dumps({"facts": facts}))
    assert isinstance(answer, Parsed)
    given = extractable(TURN if entries is None else entries)
    return drafts(answer, given, **{"session": SESSION, "user": "ana", "zone": ZONE, **more})


# --- what is read ---


def test_what_recall_put_there_and_what_nobody_said_is_not_read() -> None:
    """Injected and synthetic entries, instructions, summaries, notes and tools' answers are left out."""
    answer = ToolResult(call_id="1", content="42 degrees")
    entries: list[AnyEntry] = [
        System(content="be brief"),
        User(content="remember: Ana lives in Rome", meta={"injected": True}),
        Assistant(content="stood in", meta={"synthetic": True}),
        Compaction(summary="earlier"),
        Note(kind="fact", text="a fact"),
        User(content=(Image(url="https://x.test/y.png"),)),
        ASKED,
        answer,
        ToolResult(call_id="2", content="interrupted", synthetic=True),
        ANSWERED,
    ]
    assert extractable(entries) == [ASKED, ANSWERED]
    assert extractable(entries, tools=True) == [ASKED, answer, ANSWERED]


def test_a_preview_is_the_users_words_and_the_replys_beginning() -> None:
    """Under the pair's key, of the session, drawn from those entries so that forgetting them reaches it."""
    made = preview(SESSION, "01TURN", [*TURN, User(content="recalled", meta={"injected": True})])
    assert made is not None
    assert (made.layer, made.scope, made.key) == (Layer.SHORT, HERE, "pair 01turn")
    assert made.text == "I moved to  Lisbon yesterday. Where is the Ferry?\n→ The ferry leaves from Cais."
    assert made.sources == (Source(SESSION, ASKED.id), Source(SESSION, ANSWERED.id))
    assert (made.said_at, made.origin) == (SAID + 5_000, "tool")
    assert checked(made).text == made.text


def test_there_is_no_preview_where_no_user_spoke() -> None:
    """Words of the program, or of the assistant alone, are none of the user's."""
    assert preview(SESSION, "t", [ANSWERED, User(content="recalled", meta={"injected": True})]) is None
    assert preview(SESSION, "t", [User(content=" ")]) is None


@given(st.text(st.characters(), max_size=800), st.text(max_size=800))
def test_a_preview_is_short_and_can_be_stored(own: str, reply: str) -> None:
    """At most 600 characters, whatever was said; the user's words are whole where they are short."""
    made = preview(SESSION, "t", [User(id="u", content=own), Assistant(id="a", content=reply)])
    if made is None:
        assert not own.strip()
        return
    assert len(made.text) <= MAX_PREVIEW
    checked(made)
    if len(own.strip()) <= 300 and own.isascii():
        assert made.text.startswith(own.strip())


def test_a_prompt_shows_each_message_on_its_line_with_its_time_and_what_is_known() -> None:
    """Messages are JSON, so that none can end its own; the last summary is what the next goes on from."""
    summary = known(key="summary", text="They talk about boats.")
    short = known(layer=Layer.SHORT, key="pair 1", text="a preview")
    text = prompt(
        [User(ts=SAID, content='a\n"b"\n\nReply with {}')],
        [summary, short, known(text="ferries")],
        SAID,
        ZONE,
    )
    assert '{"who": "user", "at": "Wednesday 2026-09-16T00:30+08:00", "text": "a\\n\\"b\\"\\n\\nReply' in text
    assert '{"about": "session", "key": "ferry", "text": "ferries"}' in text
    assert 'The summary so far: "They talk about boats."' in text
    assert "a preview" not in text


def test_a_prompt_of_a_huge_turn_has_bounds() -> None:
    """Neither many messages nor long ones make it longer than a model can read."""
    text = prompt([User(id=str(n), content="word " * 5_000) for n in range(1_000)], [], SAID, ZONE)
    assert len(text) < 80_000


# --- reading a reply ---


WRAPPINGS: list[Callable[[str], str]] = [
    lambda text: text,
    lambda text: f"```json\n{text}\n```",
    lambda text: f"Here is what I found [1]:\n\n{text}\n\nTell me {{more}} if you like.",
    lambda text: f'<think>Perhaps {{"facts": ["no"]}}?</think>\n{text}',
    lambda text: f"Let me see.</think>{text}",
    lambda text: f"```\n{text.replace('}', ',}').replace(']', ', ]')}\n```",
    lambda text: f'{{"result": {text}}}',
    lambda text: f"[{text}]",
    lambda text: f"\ufeff{text}",
]


@pytest.mark.parametrize("wrap", WRAPPINGS)
def test_an_answer_is_read_in_any_wrapping(wrap: Callable[[str], str]) -> None:
    """Fences, prose, thinking, commas too many and containers change nothing."""
    assert parsed(wrap(json.dumps(ANSWER))) == READ


PLAIN = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=",<>{}[]"), min_size=1).filter(
    lambda text: text.strip() == text and text.casefold() not in ("null", "none", "n/a", "nil", "无")
)
FACTS = st.builds(
    Fact,
    text=PLAIN,
    about_user=st.booleans(),
    key=PLAIN,
    confidence=st.floats(0, 1),
    quote=PLAIN,
    begins=PLAIN,
    ends=st.just(""),
)


@given(st.lists(FACTS, max_size=4), PLAIN, st.sampled_from(WRAPPINGS), st.sampled_from([None, 2]))
def test_what_is_written_well_is_read_as_it_was_written(
    facts: list[Fact], summary: str, wrap: Callable[[str], str], indent: int | None
) -> None:
    """Any answer, in any wrapping, is read back whole."""
    items = [
        {
            "about": "user" if each.about_user else "session",
            "key": each.key,
            "text": each.text,
            "confidence": each.confidence,
            "quote": each.quote,
            "from": each.begins,
            "until": None,
        }
        for each in facts
    ]
    text = json.dumps({"facts": items, "summary": summary}, indent=indent)
    assert parsed(wrap(text)) == Parsed(tuple(facts), summary)


JSONISH = st.lists(
    st.sampled_from(
        [
            *("{", "}", "[", "]", '"', ",", ":", "\\", "null", "1e999", "NaN", " ", "a", "9" * 5_000),
            *('"facts"', '"text"', '"properties"', '"summary": ', '{"facts": [', "[" * 3_000),
            *("<think>", "</think>", "```"),
        ]
    ),
    max_size=20,
).map("".join)


@given(
    st.text()
    | JSONISH
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(
                    ["facts", "text", "properties", "summary", "fact", "confidence", "key", "data"]
                ),
                inner,
            )
        ),
    ).map(json.dumps)
)
def test_no_reply_breaks_it(text: str) -> None:
    """Whatever a model writes is an answer or a reason; what can be drawn of it can be stored."""
    answer = parsed(text)
    if isinstance(answer, Unusable):
        assert answer.reason
        return
    for draft in drafts(answer, [ASKED], session=SESSION, user="ana", zone=ZONE).drafts:
        checked(draft)


@pytest.mark.parametrize(
    "reply",
    [
        json.dumps([HOME]),
        json.dumps(HOME),
        json.dumps({"facts": HOME}),
        json.dumps({"facts": {"facts": [HOME]}}),
        json.dumps({"Memories": [{**HOME, "content": "Lives in Lisbon", "text": None}]}),
        json.dumps({"items": [{**HOME, "fact": "Lives in Lisbon", "text": None}]}),
        json.dumps({"facts": {"Home": {**HOME, "key": None}}}).replace('"key": null, ', ""),
        json.dumps({"properties": {"facts": [HOME]}, "type": "object"}),
        '{"事实": [{"关于": "用户", "主题": "Home", "内容": "Lives in Lisbon", "置信度": "90%", '
        '"原文": "moved to Lisbon", "开始": "yesterday"}]}',
        json.dumps({"facts": [{**HOME, "confidence": 90}]}),
        json.dumps({"facts": [{**HOME, "confidence": "high"}]}),
    ],
)
def test_other_names_and_shapes_of_the_same_are_read_as_the_same(reply: str) -> None:
    """A list alone, a fact alone, other names, per cent."""
    assert parsed(reply) == Parsed(READ.facts)


def test_several_facts_one_a_line_are_all_read() -> None:
    """Not only the last of them."""
    answer = parsed(json.dumps(HOME) + "\n" + json.dumps({**HOME, "text": "Has moved"}))
    assert isinstance(answer, Parsed)
    assert [each.text for each in answer.facts] == ["Lives in Lisbon", "Has moved"]


@pytest.mark.parametrize(
    "reply", ['{"facts": []}', "[]", "```json\n[]\n```", '{"facts": null, "summary": ""}', '{"facts": {}}']
)
def test_nothing_found_is_an_answer(reply: str) -> None:
    """An empty list is no failure."""
    assert parsed(reply) == Parsed()


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ('<think>Let me see {"facts": []}', "thinking"),
        ("I'm sorry, but I can't help with that.", "refusal"),
        ("抱歉,我无法完成。", "refusal"),
        ("The user lives in Lisbon.", "no JSON"),
        ("{}", "no JSON"),
        ("[1, 2]", "no JSON"),
        ('{"error": "no"}', "`facts`"),
        ('{"facts": "many"}', "no list"),
        ('{"facts": [1, {"quote": "x"}]}', "no item"),
        (json.dumps(ANSWER)[:-60], "broken"),
        (json.dumps({"facts": [HOME, HOME]})[:-20], "broken"),
        (INSTRUCTIONS, "schema"),
        ('{"type": "object", "properties": {"facts": {"type": "array", "items": {}}}}', "schema"),
        ('{"$schema": "x", "facts": []}', "schema"),
    ],
)
def test_what_is_no_answer_says_why(reply: str, reason: str) -> None:
    """A refusal, a broken reply, thinking alone and the schema itself are no data."""
    answer = parsed(reply)
    assert isinstance(answer, Unusable)
    assert reason in answer.reason


@pytest.mark.parametrize("part", ["[", '{"', '\\"', '"', ",", "<think>", "[1,", '{"facts": [', "上", "a\n"])
def test_a_long_reply_of_the_worst_kind_is_read_in_bounds(part: str) -> None:
    """What repeats itself to the limit of a reply is refused like any other, not worked on without end."""
    assert isinstance(parsed('{"facts": [' + part * 60_000), Unusable)


def test_an_answer_that_speaks_of_thinking_is_read_whole() -> None:
    """What looks like a tag within a reply that is JSON is somebody's words."""
    reply = json.dumps({"facts": [{**HOME, "quote": "the <think> tag"}]})
    answer = parsed(reply)
    assert isinstance(answer, Parsed)
    assert answer.facts[0].quote == "the <think> tag"


def test_items_that_are_no_facts_are_counted() -> None:
    """The facts beside them count."""
    answer = parsed(json.dumps({"facts": [HOME, 7, {"text": "x" * 5_000}]}))
    assert isinstance(answer, Parsed)
    assert (answer.facts, answer.malformed) == (READ.facts, 2)


# --- drafts ---


def test_a_fact_about_the_user_lasts_and_points_at_the_words() -> None:
    """LONG, of the user, from the model, with the quote's characters, dated by the message's own day."""
    (made,) = drawn({**HOME, "quote": "MOVED TO lisbon "}).drafts
    assert made == Draft(
        layer=Layer.LONG,
        scope=ME,
        key="home",
        text="Lives in Lisbon",
        confidence=0.9,
        origin="model",
        sources=(Source(SESSION, ASKED.id, 2, 18),),
        valid_from=When(at(2026, 9, 15), "day", ZONE),
        said_at=SAID,
    )
    assert ASKED.text[2:18] == "moved to  Lisbon"


def test_a_fact_about_the_session_stays_in_it() -> None:
    """MID, of the session; so does one about a user whom nobody knows."""
    ferry = {"about": "session", "key": "ferry", "text": "It leaves from Cais", "quote": "leaves from Cais"}
    (made,) = drawn(ferry).drafts
    assert (made.layer, made.scope, made.sources[0].entry) == (Layer.MID, HERE, ANSWERED.id)
    (made,) = drawn(HOME, user="").drafts
    assert (made.layer, made.scope) == (Layer.MID, HERE)


@pytest.mark.parametrize(
    "change",
    [
        {"quote": "moved to Porto"},
        {"quote": "oved to Lisbon"},
        {"quote": "leaves from Cais"},
        {"quote": "…"},
        {"quote": "", "text": "Lives in Lisbon"},
        {"key": "…", "text": "…"},
    ],
)
def test_what_nobody_said_is_dropped_and_counted(change: dict[str, str]) -> None:
    """A quote must be there, whole words of it, and the user's own for a fact about the user."""
    assert drawn({**HOME, **change}) == Drawn((), 1)


def test_a_quote_of_what_was_injected_is_no_ground() -> None:
    """What recall put there is not learnt again."""
    recalled = User(id="r", ts=SAID, content="Known: moved to Lisbon", meta={"injected": True})
    asked = User(id="q", ts=SAID, content="And now?")
    assert drawn(HOME, entries=[recalled, asked]) == Drawn((), 1)


def test_what_is_known_is_not_learnt_from_one_who_had_recalled_it() -> None:
    """The assistant's repetition is dropped; the user's counts as said again."""
    fact = {"about": "session", "key": "ferry", "text": "It leaves from Cais", "quote": "leaves from Cais"}
    there = known(payload="it leaves from Cais.")
    assert drawn(fact, known=[there]) == Drawn((), 1)
    assert len(drawn(HOME, known=[known(payload="Lives in Lisbon")]).drafts) == 1


def test_chinese_words_are_found_and_dated() -> None:
    """A quote within a run of Chinese, and 上周三 by the message's own week."""
    said = User(id="c", ts=SAID, content="我上周三 搬到了里斯本,很开心")
    fact = {**HOME, "text": "住在里斯本", "quote": "搬到了里斯本", "from": "上周三"}
    (made,) = drawn(fact, entries=[said]).drafts
    assert made.valid_from == When(at(2026, 9, 9), "day", ZONE)
    assert said.text[made.sources[0].start : made.sources[0].stop] == "搬到了里斯本"


@pytest.mark.parametrize(
    ("said", "begins", "ends", "valid"),
    [
        ("I live there since 2019", "2019-01-01", None, (When(at(2019, 1, 1), "year", ZONE), None)),
        ("I live there since 2019", "2019", None, (When(at(2019, 1, 1), "year", ZONE), None)),
        ("I live there", "2019-01-01", None, (None, None)),
        ("I live there since 5/6", "5/6", None, (None, None)),
        ("I live there since yesterday", "2026-09-15", None, (When(at(2026, 9, 15), "day", ZONE), None)),
        (
            "I lived there from March 2019 until May 2020",
            "2019-03",
            "May 2020",
            (When(at(2019, 3, 1), "month", ZONE), When(at(2020, 5, 1), "month", ZONE)),
        ),
        (
            "I lived there in 2019",
            "2019",
            "2019",
            (When(at(2019, 1, 1), "year", ZONE), When(at(2020, 1, 1), "year", ZONE)),
        ),
        ("I lived there in 2019, in 2018", "2019", "2018", (When(at(2019, 1, 1), "year", ZONE), None)),
    ],
)
def test_a_date_counts_as_it_was_said(
    said: str, begins: str, ends: str | None, valid: tuple[Any, Any]
) -> None:
    """A year stays a year though the model writes a day; what nobody said is no date."""
    fact = {**HOME, "quote": said, "from": begins, "until": ends}
    (made,) = drawn(fact, entries=[User(id="u", ts=SAID, content=said)]).drafts
    assert (made.valid_from, made.valid_to) == valid
    checked(made)


@pytest.mark.parametrize("said", ["in 2019, 2019-01-01", "2019-01-01, in 2019"])
def test_of_dates_that_hold_one_another_the_one_that_is_meant_counts(said: str) -> None:
    """A year where the year is meant, the day where the day is, in whatever order they were said."""
    entries: list[AnyEntry] = [User(id="u", ts=SAID, content=said)]
    for begins, precision in (("2019", "year"), ("2019-01-01", "day")):
        (made,) = drawn({**HOME, "quote": said, "from": begins}, entries=entries).drafts
        assert made.valid_from == When(at(2019, 1, 1), precision, ZONE)  # type: ignore[arg-type]


def test_each_message_counts_by_its_own_time() -> None:
    """Not by when the turn ended, nor by when it is extracted."""
    late = User(id="late", ts=SAID + 86_400_000, content="and sold the car today")
    today = {**HOME, "key": "car", "quote": "sold the car today", "from": "today"}
    first, second = drawn(HOME, today, entries=[ASKED, late], said_at=SAID + 10 * 86_400_000).drafts
    assert first.valid_from == When(at(2026, 9, 15), "day", ZONE)
    assert second.valid_from == When(at(2026, 9, 17), "day", ZONE)


def test_the_same_twice_is_one_draft_and_a_turn_gives_at_most_twenty() -> None:
    """Facts are united by their slot; what is beyond twenty is counted."""
    assert len(drawn(HOME, {**HOME, "key": "HOME!", "confidence": 1}).drafts) == 1
    assert drawn(HOME, {**HOME, "confidence": 1}).drafts[0].confidence == 1
    many = drawn(*({**HOME, "key": f"k{n}"} for n in range(25)))
    assert (len(many.drafts), many.dropped) == (MAX_FACTS, 5)


def test_the_running_summary_replaces_the_last_and_rests_on_its_sources_too() -> None:
    """One slot of the session, no contradiction with the summary before it."""
    before = known(key="summary", payload="Boats.", text="Boats.", sources=(Source(SESSION, "e0"),))
    made = drafts(READ, TURN, session=SESSION, user="ana", known=[before], zone=ZONE).drafts[-1]
    assert (made.layer, made.scope, made.key) == (Layer.MID, HERE, "summary")
    assert [each.entry for each in made.sources] == ["e0", ASKED.id, ANSWERED.id]
    decision = decide(
        made,
        environment="production",
        slot=[before],
        tombstones=[],
        now=SAID + 9_000,
        new_id=known(key="n").id,
        actor="x",
    )
    assert decision.outcome == "superseded"
    many = known(key="summary", sources=tuple(Source(SESSION, f"e{n}") for n in range(MAX_SOURCES)))
    checked(drafts(READ, TURN, session=SESSION, known=[many], zone=ZONE).drafts[-1])


def test_no_fact_takes_the_summarys_place() -> None:
    """A fact of the session under the key `summary` is dropped."""
    assert drawn({**HOME, "about": "session", "key": "Summary"}) == Drawn((), 1)


# --- asking ---


def run(*replies: Any, entries: list[AnyEntry] | None = None, **more: Any) -> tuple[Extracted, list[str]]:
    """What an extraction came to with a model that replies so, and what it was asked."""
    asked: list[str] = []

    async def ask(text: str) -> Any:
        asked.append(text)
        reply = replies[len(asked) - 1]
        if isinstance(reply, BaseException):
            raise reply
        return reply

    given = TURN if entries is None else entries
    return asyncio.run(
        extract(ask, given, **{"session": SESSION, "user": "ana", "zone": ZONE, **more})
    ), asked


def test_an_extraction_gives_the_drafts_of_the_first_good_reply() -> None:
    """Facts and the summary, with what was dropped, after one question."""
    made, asked = run(json.dumps({**ANSWER, "facts": [HOME, {**HOME, "quote": "invented words"}]}))
    assert [each.key for each in made.drafts] == ["home", "summary"]
    assert (made.dropped, made.attempts, made.failed, len(asked)) == (1, 1, "", 1)
    assert asked == [prompt(TURN, [], SAID + 5_000, ZONE)]


def test_a_reply_that_cannot_be_read_is_sent_back_once_with_what_is_wrong() -> None:
    """The second reply counts."""
    made, asked = run("I moved {everything} to Lisbon", json.dumps(ANSWER))
    assert ([each.key for each in made.drafts], made.attempts, made.failed) == (["home", "summary"], 2, "")
    assert asked[1].startswith(asked[0])
    assert '"I moved {everything} to Lisbon"' in asked[1]
    assert "there is no JSON in it that has facts" in asked[1]


@pytest.mark.parametrize("reply", ["I'm sorry, I can't.", None, "", '{"facts": [{"text": "Lives in Lis'])
def test_after_two_bad_replies_it_has_failed_and_says_why(reply: Any) -> None:
    """No drafts, the reason, two attempts."""
    made, asked = run(reply, reply)
    assert (made.drafts, made.attempts, len(asked)) == ((), 2, 2)
    assert made.failed.startswith("the model's reply cannot be used: ")


@pytest.mark.parametrize(
    ("error", "reason"),
    [(ModelUnavailable("it is away", hint="wait"), "it is away. wait"), (KeyError("x"), "KeyError: 'x'")],
)
def test_what_the_model_raises_is_the_reason(error: Exception, reason: str) -> None:
    """A turn is not lost by it, and it is not asked again at once."""
    made, asked = run(error)
    assert (made, len(asked)) == (Extracted(attempts=1, failed=reason), 1)
    made, _ = run("no", error)
    assert (made.attempts, made.failed) == (2, reason)


def test_nothing_said_is_nothing_asked() -> None:
    """A turn of injected words alone costs nothing and has not failed."""
    recalled = User(content="Ana lives in Rome", meta={"injected": True})
    assert run(entries=[recalled]) == (Extracted(), [])


def test_one_who_is_cancelled_stays_cancelled() -> None:
    """Cancelling is no reason of a failure."""

    async def ask(text: str) -> str:
        await asyncio.Event().wait()
        return ""

    async def go() -> None:
        task = asyncio.create_task(extract(ask, TURN, session=SESSION))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(go())


def test_a_zone_that_does_not_exist_is_refused_before_the_model_is_asked() -> None:
    """A mistake of the caller is no failure of the model."""
    with pytest.raises(InvalidInput, match="no such time zone"):
        run(zone="Mars/Olympus")


def test_the_parts_of_a_message_are_one_text() -> None:
    """Places count in the message's words as its readers see them."""
    said = User(id="p", ts=SAID, content=(Text(text="One."), Image(url="x"), Text(text="I like tea.")))
    (made,) = drawn({**HOME, "quote": "like tea", "from": None}, entries=[said]).drafts
    assert said.text[made.sources[0].start : made.sources[0].stop] == "like tea"
