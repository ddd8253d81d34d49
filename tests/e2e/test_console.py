"""The console in Chromium, over a real service with Chinese conversations: every view, a reply as it streams,
a restart, a search, the keys, and what it does when the service goes away. In no test may the page report an
error or something that its policy forbids."""

from __future__ import annotations

import json
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from e2e.browsing import CHROMIUM, PATIENCE, REPLY, WATCH, Model, Served, held, model_server
from e2e.estate import AGENT, ATTACK, LONG, LONG_TITLE, STRANGE, USER, WRITER, build, configure
from stratalog import Stratalog
from stratalog.surfaces.access.tokens import Tokens
from stratalog.testing.scripted import Gate
from stratalog.types import Assistant, Note, System, Title, ToolCall, ToolResult, TurnEnd, User

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytest.importorskip("litestar", reason="the HTTP service is not installed")
pytest.importorskip("openai", reason="the SDK `openai` is not installed")
expect = playwright.expect
if not CHROMIUM.exists():
    pytest.skip("Chromium is not installed", allow_module_level=True)

VIEWS = {
    "sessions": "#/sessions",
    "session": f"#/sessions/{AGENT}/http/{LONG}",
    "memory": "#/memory",
    "recall": "#/recall?q=川菜",
    "profiles": "#/profiles/user/王峰",
    "jobs": "#/jobs",
    "quarantine": "#/quarantine",
    "audit": "#/audit",
}
TITLES = {
    "sessions": "会话",
    "session": LONG_TITLE,
    "memory": "记忆",
    "recall": "检索",
    "profiles": "画像",
    "jobs": "任务",
    "quarantine": "隔离区",
    "audit": "审计",
}
NOTED = "notes"  # the chat of the session with notes


class House(NamedTuple):
    """What all tests share."""

    served: Served
    model: Model
    browser: Any


class Tab:
    """A page, and what went wrong in it, which is nothing unless a test says so."""

    def __init__(self, browser: Any, url: str, **options: Any) -> None:
        self.context = browser.new_context(timezone_id="Asia/Shanghai", **{"locale": "zh-CN", **options})
        self.context.set_default_timeout(PATIENCE)
        self.context.add_init_script(WATCH)
        self.page = self.context.new_page()
        self.url = url
        self.wrong: list[str] = []
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("console", self._heard)

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.wrong.append(message.text)

    def show(self, view: str) -> Any:
        """The page at this place, with all that it had to load."""
        self.page.goto(f"{self.url}/console/{view}")
        self.loaded()
        return self.page

    def loaded(self) -> None:
        self.page.locator("h1:visible").first.wait_for()
        expect(self.page.locator(".skeleton")).to_have_count(0, timeout=PATIENCE)

    def close(self, expected: str = "") -> None:
        """Ends it. What the console of the browser said must have `expected` in it; without that it must have
        said nothing."""
        violations = self.page.evaluate("window.broken")
        self.context.close()
        assert violations == []
        assert [each for each in self.wrong if not expected or expected not in each] == []


@pytest.fixture(scope="module")
def estate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data, to be copied."""
    made = tmp_path_factory.mktemp("console") / "estate"
    build(made)
    _noted(made)
    return made


def _noted(data: Path) -> None:
    """A session with the notes that turns leave in a log, and a turn that was withdrawn."""
    with Stratalog(data) as memory:
        session = memory.session(f"{AGENT}:http:{NOTED}")
        session.append(Title(title="注记与撤回"), System(content="回答要简短。"))
        session.set_metadata(plan="家庭版")
        session.append(
            Note(kind="memory_blocks", data={"blocks": ["王峰住在杭州。"], "ids": [], "whose": USER}),
            User(content="上次说的保险单号是多少？", turn="n1"),
            Note(kind="recalled", data={"shown": ["0f3c"]}, turn="n1"),
            Assistant(content="保险单号是 `PL-2209-7741`。", turn="n1", model="gpt-5"),
            TurnEnd(status="answered", turn="n1"),
            Note(kind="remembered", data={"seq": 8}),
            Note(kind="fact", text="王峰对花生过敏", data={"pinned": True}),
        )
        asked, called, answered, said, *_ = session.append(
            User(content="我的银行卡密码是 246810，帮我记住。", turn="n2"),
            ToolCall(call_id="n2", name="保存笔记", args={"内容": "密码 246810"}, turn="n2"),
            ToolResult(call_id="n2", name="保存笔记", content="已保存", turn="n2"),
            Assistant(content="好的，已经记下。\n\n```text\n密码：246810\n```", turn="n2", model="gpt-5"),
            TurnEnd(status="answered", turn="n2"),
        )
        session.withdraw(asked, called, answered, said)
        session.append(
            User(content="请改用指纹登录，不要再提密码。", turn="n3"),
            Assistant(content="明白，之后只用指纹登录。", turn="n3", model="gpt-5"),
            TurnEnd(status="answered", turn="n3"),
        )
        memory.bring_up_to_date()


def copied(estate: Path, data: Path, base_url: str = "http://127.0.0.1:9/v1") -> Path:
    """The data of one service; by default its model cannot be reached."""
    shutil.copytree(estate, data)
    configure(data, base_url)
    return data


@pytest.fixture(scope="module")
def house(estate: Path) -> Iterator[House]:
    """A service in its own process with real data, a scripted model and a browser."""
    with model_server() as (server, model), playwright.sync_playwright() as driver:
        data = copied(estate, estate.parent / "data", server.openai_url)
        served = Served(data, "--dev", "--port", "0")
        browser = driver.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        try:
            yield House(served, model, browser)
        finally:
            browser.close()
            served.stop()


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """Starts services of the test's own, which end with it."""
    begun: list[Served] = []

    def start(data: Path, *options: str) -> Served:
        begun.append(Served(data, *options))
        return begun[-1]

    yield start
    for each in begun:
        each.stop()


@pytest.fixture
def tab(house: House) -> Iterator[Tab]:
    """A wide page in Chinese; on leaving it nothing may have gone wrong in it."""
    made = Tab(house.browser, house.served.url, viewport={"width": 1400, "height": 900})
    yield made
    made.close()


@pytest.fixture
def phone(house: House) -> Iterator[Tab]:
    """A phone in English and in the dark."""
    made = Tab(
        house.browser,
        house.served.url,
        viewport={"width": 400, "height": 800},
        locale="en-US",
        color_scheme="dark",
        has_touch=True,
    )
    yield made
    made.close()


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_has_its_own_address(tab: Tab, view: str) -> None:
    """Each opens by its URL alone with its heading and its data, in Chinese; nothing is wider than it."""
    page = tab.show(VIEWS[view])
    assert TITLES[view] in page.locator("h1").all_inner_texts()
    assert page.evaluate("document.documentElement.lang") == "zh-CN"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert not page.locator(".failure").count()


def test_on_a_phone_there_is_one_column_and_a_bar_below(phone: Tab) -> None:
    """A list opens into its item and back; what is not in the bar is in the drawer; nothing sticks out."""
    page = phone.show("#/sessions")
    page.get_by_role("link", name=re.compile(LONG_TITLE)).click()
    phone.loaded()
    assert not page.locator(".pane.list").is_visible()
    assert page.locator(".bar").bounding_box()["width"] > 300
    page.get_by_role("link", name="To the list").click()
    page.wait_for_selector(".pane.list", state="visible")
    for name, heading in (("Jobs", "Jobs"), ("Quarantine", "Quarantine"), ("Audit", "Audit")):
        page.get_by_role("button", name="More", exact=True).click()
        page.locator("dialog").get_by_role("link", name=name).click()
        page.get_by_role("heading", level=1, name=heading).wait_for()
        phone.loaded()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
    phone.show("#/sessions?agent=nobody").locator(".chip", has_text=WRITER).wait_for()
    expect(page.locator(".chip", has_text="nobody")).to_be_in_viewport(ratio=1, timeout=PATIENCE)


def test_words_are_words(tab: Tab) -> None:
    """Markup in titles, messages, tool results and quarantined texts is shown as it was written, and runs
    nowhere."""
    page = tab.show(f"#/sessions/{AGENT}/http/tools")
    assert ATTACK in page.locator("h1", has_text="工具与标记").inner_text()
    assert ATTACK in page.locator(".row.user").inner_text()
    code = "each => getComputedStyle(each).fontSize === getComputedStyle(each.parentElement).fontSize"
    assert page.locator(".row.user pre code").evaluate(code)
    page.locator("details.tool summary").click()
    assert "小雨" in page.locator("details.tool").inner_text()
    assert not page.locator(".transcript img").count()
    page = tab.show("#/quarantine")
    assert ATTACK in page.locator(".sheet").all_inner_texts()[0]
    assert "owned" not in page.title()


def test_the_budget_bar_tells_what_the_window_holds_and_what_was_cut(tab: Tab) -> None:
    """Its sections, with letters, add up to the window; what did not fit is told in words."""
    page = tab.show(f"#/sessions/{AGENT}/http/刘琳")
    context = tab.context.request.get(f"{tab.url}/v1/agents/{AGENT}/sessions/刘琳/context").json()
    rows = page.locator(".legend li").all_inner_texts()
    numbers = [int(re.search(r"([\d,]+)\s*token", row)[1].replace(",", "")) for row in rows]  # type: ignore[index]
    assert sum(numbers) == context["budget"]
    assert rows[-1].startswith("空闲")
    assert all(re.match(r"[A-H]\b", row.strip()) for row in rows[:-1])
    cut = {each["name"]: each["left_out"] for each in context["sections"] if each["left_out"]}
    assert cut.keys() == {"recent turns"}
    told = page.locator(".cut").inner_text()
    assert f"近期对话：略去 {cut['recent turns']:,} 个 token" in told
    assert f"{context['turns_left_out']} 轮完整对话未放入" in told
    widths = page.locator(".bar g > rect:first-child").evaluate_all(
        "all => all.map((each) => each.getBBox().width)"
    )
    whole = page.locator(".bar .window").evaluate("window => window.getBBox().width")
    shares = [each["tokens"] / context["budget"] for each in context["sections"] if each["tokens"]]
    *sections, _, beyond = widths  # the sections, what is free, and what was cut
    assert [round(width / whole, 2) for width in sections] == [round(share, 2) for share in shares]
    assert beyond > 30
    head = page.locator(".budget-head p")
    assert f"略去 {cut['recent turns']:,}" in head.inner_text()
    stretches = page.locator(".bar g")
    stretches.nth(1).focus()
    recent = next(each for each in context["sections"] if each["name"] == "recent turns")
    assert re.sub(r"\s+", " ", head.inner_text()).startswith(f"B 近期对话 {recent['tokens']:,} token")
    stretches.last.hover()
    assert f"{context['turns_left_out']} 轮完整对话未放入" in head.inner_text()
    assert page.locator(".letter", has_text="近期对话").count() == 1


def test_what_was_folded_is_unfolded_to_the_raw_turns(tab: Tab) -> None:
    """The summary stands for the old turns, which one button shows, and older pages come on demand."""
    page = tab.show(f"#/sessions/{AGENT}/http/{LONG}")
    first = page.locator(".row.user", has_text="你好，我的名字是王峰，很高兴认识你，这是我们的第一次聊天。")
    assert not first.count()
    page.locator(".fold").get_by_role("button").click()
    page.get_by_role("button", name="加载更早的").click()
    first.wait_for()
    assert not page.get_by_role("button", name="加载更早的").count()
    assert "在此处压缩" in page.locator("p.row.compaction").inner_text()
    page.locator(".fold").get_by_role("button").click()
    first.wait_for(state="detached")
    page.locator(".fold summary").click()
    page.locator(".fold .ref").first.click()
    assert "你好，我的名字是王峰" in page.locator(".row.marked").inner_text()


def test_notes_are_one_line_that_opens(tab: Tab) -> None:
    """Notes between messages are folded, open by key and by click, and open by themselves where the address
    names one."""
    where = f"#/sessions/{AGENT}/http/{NOTED}"
    page = tab.show(where)
    notes = page.locator(".transcript details.notes")
    told = [re.sub(r"\s+", " ", each) for each in notes.locator("summary").all_inner_texts()]
    assert told == [
        "2 条注记 会话信息、画像已更新",
        "1 条注记 已给出记忆",
        "2 条注记 已提炼记忆、记下事实",
        "1 条注记 撤回消息",
    ]
    fact = notes.nth(2).get_by_text("王峰对花生过敏", exact=True)
    assert not fact.is_visible()
    notes.nth(2).locator("summary").focus()
    page.keyboard.press("Enter")
    fact.wait_for()
    page.keyboard.press("Enter")
    fact.wait_for(state="hidden")
    notes.nth(0).locator("summary").click()
    notes.nth(0).get_by_text("家庭版").wait_for()
    seq = notes.nth(2).locator("li").last.get_attribute("id").removeprefix("entry-")
    page.goto(f"{tab.url}/console/{where}?at={seq}")
    expect(page.locator("li.marked", has_text="王峰对花生过敏")).to_be_in_viewport(timeout=PATIENCE)
    page.get_by_role("radio", name="English").check()
    page.locator("details.notes summary", has_text="2 notes").first.wait_for()
    page.get_by_role("radio", name="中文").check()


def test_what_was_withdrawn_says_so(tab: Tab) -> None:
    """A message, a call and a reply that a note withdraws are labelled and struck, in both languages; what
    stands is not. The note leads to them."""
    page = tab.show(f"#/sessions/{AGENT}/http/{NOTED}")
    gone = page.locator(".row.withdrawn")
    expect(gone.locator(".badge", has_text=re.compile("^已撤回$"))).to_have_count(3, timeout=PATIENCE)
    assert gone.count() == 3
    struck = "each => getComputedStyle(each).textDecorationLine"
    assert gone.locator(".words").first.evaluate(struck) == "line-through"
    assert gone.locator("pre").last.evaluate(struck) == "line-through"
    assert page.locator(".row:not(.withdrawn) .words").last.evaluate(struck) == "none"
    page.get_by_role("radio", name="English").check()
    expect(gone.locator(".badge", has_text=re.compile("^Withdrawn$"))).to_have_count(3, timeout=PATIENCE)
    page.locator("details.notes", has_text="A message withdrawn").locator("summary").click()
    page.locator("details.notes a").click()
    assert "246810" in page.locator(".row.user.marked.withdrawn").inner_text()
    page.get_by_role("radio", name="中文").check()


def test_a_reply_streams_in_and_is_in_the_log(tab: Tab, house: House) -> None:
    """Its words come while the model still writes; at the end they are the log's, and the bar is another."""
    page = tab.show(f"#/sessions/{AGENT}/http/small-0003")
    used = page.locator(".budget-head p").inner_text()
    gate = Gate()
    house.model.next = [held(gate)]
    page.get_by_role("textbox", name="消息").fill("周末去西湖骑车，帮我排一下行程。" + "要看湖景，" * 30)
    page.keyboard.press("Enter")
    page.locator(".live", has_text="周六早上七点").wait_for()
    assert "要列出相机清单吗" not in page.locator(".live").inner_text()
    assert page.get_by_role("status").filter(has_text="正在回复").count() >= 1
    gate.open()
    page.locator(".live").wait_for(state="detached")
    assert "要列出相机清单吗？" in page.locator(".row.assistant").last.inner_text()
    assert "虹桥 07:03" in page.locator(".row.assistant pre").last.inner_text()
    expect(page.locator(".budget-head p")).not_to_have_text(used, timeout=PATIENCE)
    page.reload()
    tab.loaded()
    assert "周末去西湖骑车" in page.locator(".row.user").last.inner_text()
    page = tab.show("#/memory")
    row = page.locator(".rows a", has_text="一轮对话 · ").filter(has_text="周末去西湖骑车")
    row.wait_for()
    assert "虹桥 07:03 → 杭州东 08:02" in row.text_content()
    assert "`" not in row.text_content()
    assert row.locator(".wrap").evaluate("each => each.clientHeight < 100 && each.scrollHeight > 100")
    row.click()
    preview = page.locator(".record .preview")
    assert preview.locator(".answer pre").inner_text() == "虹桥 07:03 → 杭州东 08:02"
    assert "`" not in page.locator(".record").text_content()
    page = tab.show("#/recall?q=西湖骑车")
    assert page.locator(".card .preview pre").first.inner_text() == "虹桥 07:03 → 杭州东 08:02"
    assert "`" not in page.locator(".page .body").text_content()


def test_a_turn_that_is_stopped_keeps_what_was_written(tab: Tab, house: House) -> None:
    """Stop ends the turn; the log says that it was aborted."""
    page = tab.show(f"#/sessions/{AGENT}/http/small-0004")
    gate = Gate()
    house.model.next = [held(gate)]
    page.get_by_role("textbox", name="消息").fill("讲个长故事")
    page.get_by_role("button", name="发送").click()
    page.locator(".live", has_text="周六早上七点").wait_for()
    page.locator(".live").get_by_role("button", name="停止").click()
    page.locator(".row.ending", has_text="这一轮被中止").wait_for()
    gate.open()


def test_a_page_that_comes_later_follows_the_turn(tab: Tab, house: House) -> None:
    """A turn that runs is seen by a page opened meanwhile, from its first word to its last."""
    gate = Gate()
    house.model.next = [held(gate)]
    page = tab.show(f"#/sessions/{AGENT}/http/small-0005")
    page.get_by_role("textbox", name="消息").fill("再讲一遍")
    page.keyboard.press("Enter")
    page.locator(".live", has_text="周六早上七点").wait_for()
    page.reload()
    page.locator(".live", has_text="好的，行程是").wait_for()
    gate.open()
    page.locator(".live").wait_for(state="detached")
    assert "要列出相机清单吗？" in page.locator(".row.assistant").last.inner_text()


def test_restart_asks_and_asks_twice_while_a_turn_runs(tab: Tab, house: House) -> None:
    """A quiet session restarts after one question; a busy one only when it is asked for twice."""
    page = tab.show(f"#/sessions/{AGENT}/http/small-0006")
    gate = Gate()
    house.model.next = [held(gate)]
    page.get_by_role("textbox", name="消息").fill("慢慢说")
    page.keyboard.press("Enter")
    page.locator(".live", has_text="周六早上七点").wait_for()
    page.get_by_role("button", name="重新开始").click()
    page.locator("dialog").get_by_role("button", name="重新开始").click()
    tab.wrong.clear()
    page.locator("dialog").get_by_text("有一轮对话正在进行").wait_for()
    page.locator("dialog").get_by_role("button", name="中断并重新开始").click()
    page.get_by_text("还没有对话").wait_for()
    gate.open()
    assert not page.locator(".row.user").count()


def test_a_session_is_pinned_renamed_forked_and_deleted(tab: Tab) -> None:
    """What the head's buttons say is done, and the list says it too."""
    page = tab.show(f"#/sessions/{AGENT}/http/small-0007")
    page.get_by_role("button", name="置顶", exact=True).click()
    page.get_by_role("button", name="取消置顶").wait_for()
    page.get_by_role("button", name="改名").click()
    page.get_by_label("标题", exact=True).fill("杭州周末")
    page.keyboard.press("Enter")
    page.get_by_role("heading", level=1, name="杭州周末").wait_for()
    page.locator(".rows li", has_text="杭州周末").get_by_text("已置顶").wait_for(state="attached")
    page.locator(".row.user").first.hover()
    page.locator(".row.user").first.get_by_role("button", name="从这里分叉").click()
    expect(page).not_to_have_url(re.compile("small-0007$"), timeout=PATIENCE)
    tab.loaded()
    assert page.locator(".row.user").count() == 1
    assert not page.locator(".row.assistant").count()
    page.get_by_role("button", name="删除").click()
    page.locator("dialog").get_by_role("button", name="删除").click()
    expect(page).to_have_url(re.compile("#/sessions$"), timeout=PATIENCE)


def test_the_list_is_paged_and_searched(tab: Tab) -> None:
    """Fifty at a time; a title beyond them is found by its words."""
    page = tab.show("#/sessions")
    rows = page.locator("[data-item]")
    expect(rows).to_have_count(50, timeout=PATIENCE)
    assert LONG_TITLE in rows.first.inner_text()
    page.get_by_role("button", name="加载更多").click()
    expect(rows.nth(61)).to_be_attached(timeout=PATIENCE)
    page.keyboard.press("/")
    page.keyboard.type("二十天")
    expect(rows).to_have_count(1, timeout=PATIENCE)
    page.get_by_role("link", name=re.compile("在全部对话里搜索")).click()
    page.get_by_role("heading", level=1, name="检索").wait_for()


def test_the_list_is_of_all_agents_or_of_one(tab: Tab) -> None:
    """Chips keep it to an agent and a channel, by its address too; an open session stays open meanwhile, and
    the way back leads to the same list."""
    page = tab.show("#/sessions")
    expect(page.locator(".rows li")).to_have_count(50, timeout=PATIENCE)
    assert page.locator(".rows li", has_text=WRITER).count() == 1
    page.get_by_role("radio", name=re.compile(WRITER)).check()
    expect(page.locator(".rows li")).to_have_count(1, timeout=PATIENCE)
    page.locator(".rows a").click()
    page.locator(".detail-head p", has_text="wecom").wait_for()
    assert STRANGE in page.title()
    page.get_by_role("radio", name=re.compile(AGENT)).check()
    expect(page.locator(".rows li")).to_have_count(50, timeout=PATIENCE)
    assert page.locator(".detail-head p", has_text="wecom").count() == 1
    page.locator("#main").focus()
    page.keyboard.press("Escape")
    expect(page).to_have_url(re.compile(rf"#/sessions\?agent={AGENT}$"), timeout=PATIENCE)
    page = tab.show("#/sessions?channel=wecom")
    expect(page.locator(".rows li")).to_have_count(1, timeout=PATIENCE)


def test_what_is_hard_to_lay_out_stays_in_its_place(phone: Tab) -> None:
    """Another direction, long words, long lines and long results: nothing sticks out of a phone; a result
    scrolls in itself, and one that failed says so while it is closed."""
    page = phone.show(f"#/sessions/{WRITER}/wecom/{STRANGE}")
    page.locator("details.tool .badge", has_text="Failed").wait_for()
    assert page.locator(".composer .button").evaluate(
        "each => each.getBoundingClientRect().right < innerWidth"
    )
    page.locator("details.tool summary").first.click()
    long = page.locator("details.tool pre.flow").first
    assert long.evaluate("each => each.scrollHeight > each.clientHeight && each.clientHeight <= 320")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator(".transcript").evaluate("each => each.scrollWidth <= each.clientWidth")
    hebrew = page.locator(".row.user .words p").first
    assert hebrew.evaluate("each => getComputedStyle(each).direction") == "rtl"
    assert page.locator(".code figcaption").inner_text() == "json"


# What may be lower: it stands in a line of words.
_SMALL = """() => {
  const all = [...document.querySelectorAll("a, button, input, textarea, select, summary")];
  return all.filter((each) => {
    const { width, height } = (each.closest(".chip, .choice label") ?? each).getBoundingClientRect();
    return width && height < 40 && !each.matches(".skip") && getComputedStyle(each).display !== "inline";
  }).map((each) => each.outerHTML.slice(0, 120));
}"""


def test_on_a_phone_a_finger_hits_everything(phone: Tab) -> None:
    """Whatever is tapped is at least 40 pixels high, in every view, in the drawer and in a dialog."""
    small = {}
    others = {"strange": f"#/sessions/{WRITER}/wecom/{STRANGE}", "notes": f"#/sessions/{AGENT}/http/{NOTED}"}
    for view, where in {**VIEWS, **others}.items():
        small[view] = phone.show(where).evaluate(_SMALL)
    phone.page.get_by_role("button", name="More", exact=True).click()
    small["drawer"] = phone.page.evaluate(_SMALL)
    phone.page.locator("dialog .who").click()
    phone.page.locator("dialog .chip").first.wait_for()
    small["acting"] = phone.page.evaluate(_SMALL)
    assert {view: each for view, each in small.items() if each} == {}


def test_an_admin_looks_as_a_user(tab: Tab) -> None:
    """For a user whose name is Chinese, all is as that user has it; a strip says so, one click ends it."""
    page = tab.show("#/memory")
    expect(page.locator(".rows li", has_text="智能体")).to_have_count(1, timeout=PATIENCE)
    page.locator(".rail .who").click()
    page.locator("dialog").get_by_role("button", name=USER).click()
    page.locator(".strip", has_text=USER).wait_for()
    page.locator(".rows li", has_text="王峰搬到了杭州").wait_for()
    expect(page.locator(".rows li", has_text="智能体")).to_have_count(0, timeout=PATIENCE)
    page.keyboard.press("3")
    page.get_by_text(f"检索范围：{USER}").wait_for()
    page.reload()
    page.locator(".strip", has_text=USER).wait_for()
    page.locator(".strip").get_by_role("button").click()
    page.locator(".strip").wait_for(state="detached")
    page.get_by_text("检索范围：本租户").wait_for()


def test_what_the_service_names_is_said_in_words(tab: Tab) -> None:
    """Kinds of jobs, calls, reasons and roles are Chinese, with the service's own name beside the first."""
    page = tab.show("#/jobs")
    assert "提炼事实 draw" in re.sub(r"\s+", " ", page.locator(".card", has_text=LONG).inner_text())
    page = tab.show("#/quarantine")
    page.locator(".card", has_text="外传数据、要求无视指令").wait_for()
    tab.show("#/memory")
    tab.show("#/recall?q=川菜")
    page = tab.show("#/audit")
    page.locator(".card", has_text="写入").first.wait_for()
    page.locator(".card", has_text="管理员").first.wait_for()
    page.locator(".card", has_text="该用户的记录").first.wait_for()
    lines = page.locator(".card .text").all_inner_texts()
    assert any(AGENT in each for each in lines)
    assert [each for each in lines if each.count(AGENT) > 1 or each.count(USER) > 1] == []
    line = page.locator(".card", has_text="检索所有人").first
    assert not line.locator(".text").first.inner_text().rstrip().endswith("·")
    line = page.locator(".card", has_text="所有人的记录").first
    assert not line.locator(".wrong").count()
    purge = {"target": {"kind": "user", "id": "nobody"}, "confirm": True}
    assert page.request.post(f"{tab.url}/v1/purges", data=purge).ok
    page.reload()
    tab.loaded()
    page.locator(".card", has_text="确认清除").first.wait_for()
    assert ".before" not in page.locator(".card", has_text="清除 purge").first.inner_text()


def test_the_end_stays_in_sight_when_its_box_shrinks(tab: Tab) -> None:
    """Numbers that come above a transcript take room from it: it is still at its end."""
    page = tab.show(f"#/sessions/{AGENT}/http/{LONG}")
    page.locator(".legend").wait_for()
    away = page.locator(".transcript").evaluate(
        """async (box) => {
          const frame = () => new Promise((done) => requestAnimationFrame(done));
          const frames = () => frame().then(frame);
          box.scrollTop = box.scrollHeight;
          await frames();
          box.scrollTop -= 40;
          await frames();
          await new Promise((done) => setTimeout(done));  // between two frames
          box.scrollTop += 20;  // the page hears of it once the box is smaller
          box.previousElementSibling.style.paddingBottom = "200px";
          await frames();
          return box.scrollHeight - box.scrollTop - box.clientHeight;
        }"""
    )
    assert away < 1


# How much of each gauge its bar takes.
_SHARES = """all => all.map((each) => {
  const wide = (name) => each.querySelector(name).getBoundingClientRect().width;
  return wide(".part") / wide(".whole");
})"""


def test_chinese_is_found_and_the_score_is_explained(tab: Tab) -> None:
    """Records, turns and documents are found; a hit's parts add up to its score, and it leads to its turn."""
    page = tab.show("#/recall")
    page.keyboard.type("川菜 吃辣")
    page.keyboard.press("Enter")
    page.get_by_role("heading", level=2, name=re.compile("记录")).wait_for()
    turns = page.locator(".kind", has=page.get_by_role("heading", name=re.compile("^对话")))
    hit = turns.locator(".card").first
    assert hit.locator("mark").count()
    score = float(hit.locator(".score b").inner_text())
    parts = [float(each.replace("−", "-")) for each in hit.locator(".parts .value").all_inner_texts()]
    assert sum(parts) == pytest.approx(score, rel=0.02)
    page.get_by_text("各组得分不能相互比较").wait_for()
    for kind in page.locator(".kind").all():
        shown = [float(each) for each in kind.locator(".score b").all_inner_texts()]
        most = float(kind.locator(".scale").inner_text().rpartition("至")[2])
        assert most == pytest.approx(max(shown), rel=0.02)
        assert kind.locator("summary .gauge").evaluate_all(_SHARES) == pytest.approx(
            [each / most for each in shown], abs=0.02
        )
    most = max(float(each) for each in turns.locator(".score b").all_inner_texts())
    assert hit.locator(".parts .gauge").evaluate_all(_SHARES) == pytest.approx(
        [abs(each) / most for each in parts], abs=0.02
    )
    hit.locator("a").click()
    page.wait_for_selector(".row.marked")
    assert "菜" in page.locator(".row.marked").inner_text()
    tab.show("#/recall?q=西湖骑行")
    assert page.locator(".kind", has_text="西湖骑行指南").count() == 1


def test_records_tell_their_conflicts_history_and_sources(tab: Tab) -> None:
    """Contradictions stand together, what was superseded is in the history, a source leads to its turn, and
    what is forgotten says nothing any more."""
    page = tab.show("#/memory?show=conflicts")
    assert sorted(page.locator(".rows .wrap").all_inner_texts()) == [
        "王峰不吃辣",
        "王峰最近爱上了川菜，特别能吃辣",
    ]
    page.get_by_role("radio", name="历史").check()
    page.locator(".rows a", has_text="王峰住在上海").get_by_text("已被取代").wait_for()
    page.locator(".rows a", has_text="王峰搬到了杭州").click()
    page.locator(".record .links a", has_text="王峰住在上海").wait_for()
    page.locator(".rows a", has_text="王峰喜欢打篮球").click()
    page.locator(".record .statement", has_text="打篮球").wait_for()
    page.locator(".timeline", has_text="记住").wait_for()
    page.locator(".record .links a", has_text=LONG).click()
    page.wait_for_selector(".row.marked")
    page = tab.show("#/memory")
    page.locator(".rows a", has_text="回答要简短").click()
    page.get_by_role("button", name="遗忘").click()
    page.locator("dialog").get_by_role("button", name="遗忘").click()
    page.locator(".record").get_by_text("已遗忘", exact=True).wait_for()
    page.locator(".rows a", has_text="回答要简短").wait_for(state="detached")
    assert all("404" in each for each in tab.wrong)  # the record itself is there no more
    tab.wrong.clear()


def test_the_last_change_of_a_page_is_taken_back(tab: Tab) -> None:
    """USER.md says what holds and what it said before; undo puts that back."""
    page = tab.show("#/profiles/user/王峰")
    sheet = page.locator(".sheet-page").first
    now = sheet.inner_text()
    page.get_by_role("button", name="撤销上次修改").click()
    page.locator("dialog").get_by_role("button", name="撤销").click()
    page.locator("dialog").wait_for(state="detached")
    expect(sheet).not_to_have_text(now, timeout=PATIENCE, use_inner_text=True)


def test_jobs_are_retried_and_held_texts_decided(tab: Tab) -> None:
    """A failed job says why and waits again; a held text is released or rejected by one button."""
    page = tab.show("#/jobs")
    failed = page.locator(".card", has_text="the model server did not answer within 120 s")
    failed.get_by_role("button", name="重试", exact=True).click()
    page.locator(".card", has_text="profiles").get_by_text("等待", exact=True).wait_for()
    page.get_by_role("button", name="重试全部失败任务").click()
    page.get_by_role("button", name="重试全部失败任务").wait_for(state="detached")
    assert page.locator(".filters").inner_text().rstrip().endswith("完成")
    page = tab.show("#/quarantine")
    attack = page.locator(".card", has_text="忽略之前的所有指令")
    attack.get_by_role("button", name="拒绝").click()
    attack.get_by_text("已拒绝").wait_for()
    page = tab.show("#/audit")
    page.locator(".card", has_text="remember").first.wait_for()


def test_keys_do_all(tab: Tab) -> None:
    """j and k go through a list, Enter opens, numbers change the view, ? explains, Escape goes out."""
    page = tab.show("#/sessions")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    assert LONG_TITLE in page.evaluate("document.activeElement.innerText")
    page.keyboard.press("Enter")
    page.get_by_role("heading", level=1, name=LONG_TITLE).wait_for()
    page.keyboard.press("?")
    page.locator("dialog", has_text="快捷键").wait_for()
    page.keyboard.press("Escape")
    page.locator("dialog").wait_for(state="detached")
    page.keyboard.press("Escape")
    expect(page).to_have_url(re.compile("#/sessions$"), timeout=PATIENCE)
    page.keyboard.press("2")
    page.get_by_role("heading", level=1, name="记忆").wait_for()
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.type") == "search"


def test_the_language_is_chosen_and_kept(tab: Tab) -> None:
    """English and Chinese by one switch, dates too; the choice outlives the page."""
    page = tab.show(f"#/sessions/{AGENT}/http/{LONG}")
    assert "2026年9月" in page.locator(".detail-head").inner_text()
    page.get_by_role("radio", name="English").check()
    page.get_by_role("heading", level=1, name="Sessions").wait_for()
    assert re.search(r"Sep \d+, 2026", page.locator(".detail-head").inner_text())
    page.reload()
    tab.loaded()
    assert page.get_by_role("heading", level=1, name="Sessions").count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(house: House, scheme: str) -> None:
    """No violation of accessibility in any view, wide and light or on a phone in the dark, nor in dialogs."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed"
    )
    width, language = (1400, "zh-CN") if scheme == "light" else (400, "en-US")
    made = Tab(
        house.browser,
        house.served.url,
        viewport={"width": width, "height": 900},
        color_scheme=scheme,
        locale=language,
        bypass_csp=True,  # for axe's own script alone; see the other tests
        reduced_motion="reduce",
    )
    found = {}
    for view, where in {
        **VIEWS,
        "tools": f"#/sessions/{AGENT}/http/tools",
        "notes": f"#/sessions/{AGENT}/http/{NOTED}",
        "nothing": "#/sessions?agent=nobody",
    }.items():
        page = made.show(where)
        found[view] = _violations(axe.Axe().run(page))
    page.keyboard.press("?")
    page.wait_for_selector("dialog")
    found["keys"] = _violations(axe.Axe().run(page))
    made.close()
    assert {view: each for view, each in found.items() if each} == {}


def _violations(results: Any) -> list[str]:
    return [
        f"{each['id']}: {json.dumps([node['target'] for node in each['nodes'][:3]])}"
        for each in results.response["violations"]
    ]


def test_a_token_is_asked_for_once_and_kept_in_the_tab(
    house: House, estate: Path, tmp_path: Path, serve: Callable[..., Served]
) -> None:
    """Without --dev nothing is shown before a token is given; a wrong one is refused in words; it is in no
    cookie, in no storage that outlives the tab, and another tab has none."""
    data = copied(estate, tmp_path / "data")
    token = Tokens(data).make("local", roles=["admin"], name="console").text
    served = serve(data, "--port", "0")
    made = Tab(house.browser, served.url, viewport={"width": 1400, "height": 900})
    page = made.page
    page.goto(f"{served.url}/console/#/sessions")
    page.get_by_label("令牌").fill("strata_wrong")
    page.get_by_role("button", name="登录").click()
    page.get_by_role("alert").filter(has_text="令牌无效").wait_for()
    page.get_by_label("令牌").fill(token)
    page.get_by_role("button", name="登录").click()
    page.get_by_role("link", name=re.compile(LONG_TITLE)).wait_for()
    assert made.context.cookies() == []
    assert token not in json.dumps(page.evaluate("({...localStorage})"))
    page.reload()
    page.get_by_role("link", name=re.compile(LONG_TITLE)).wait_for()
    other = made.context.new_page()
    other.goto(f"{served.url}/console/")
    other.get_by_label("令牌").wait_for()
    other.close()
    page.get_by_role("button", name="退出登录").click()
    page.get_by_label("令牌").wait_for()
    made.close(expected="401")  # of the wrong one


def test_a_user_sees_the_views_that_are_for_users(
    house: House, estate: Path, tmp_path: Path, serve: Callable[..., Served]
) -> None:
    """With a user's token nothing is shown, or reached by its address, that only an admin may see."""
    data = copied(estate, tmp_path / "data")
    token = Tokens(data).make("local", roles=["user"], user=USER, name="phone").text
    made = Tab(house.browser, serve(data, "--port", "0").url, viewport={"width": 1400, "height": 900})
    page = made.page
    page.goto(f"{made.url}/console/#/audit")
    page.get_by_label("令牌").fill(token)
    page.get_by_role("button", name="登录").click()
    page.get_by_role("heading", level=1, name="没有这个页面").wait_for()
    assert page.locator(".rail nav a").all_inner_texts() == ["会话", "记忆", "检索", "画像"]
    assert USER in page.locator(".who").inner_text()
    assert not page.locator("button.who").count()
    page.keyboard.press("2")
    page.locator(".rows li", has_text="王峰搬到了杭州").wait_for()
    made.close()


def test_a_stream_goes_on_after_the_service_was_killed(
    house: House, estate: Path, tmp_path: Path, serve: Callable[..., Served]
) -> None:
    """The service dies in the middle of a reply and comes back: the page connects again by itself, and ends
    with the whole reply, said once."""
    with model_server() as (server, model):
        data = copied(estate, tmp_path / "data", server.openai_url)
        served = serve(data, "--dev", "--port", "0")
        made = Tab(house.browser, served.url, viewport={"width": 1400, "height": 900})
        gate = Gate()
        model.next = [held(gate)]
        page = made.show(f"#/sessions/{AGENT}/http/small-0000")
        page.get_by_role("textbox", name="消息").fill("别走开")
        page.keyboard.press("Enter")
        page.locator(".live", has_text="周六早上七点").wait_for()
        served.stop(signal.SIGKILL)
        gate.open()
        page.locator(".live", has_text="正在重新连接").wait_for()
        serve(data, "--dev", "--port", served.port)
        page.locator(".row.assistant:not(.live)", has_text="要列出相机清单吗？").wait_for()
        page.locator(".live").wait_for(state="detached")
        assert page.locator(".row.user", has_text="别走开").count() == 1
        assert page.locator(".row.assistant").last.inner_text().count(REPLY[:6]) == 1
        made.close(expected="ERR_")


def test_without_the_service_the_page_says_what_to_do(
    house: House, estate: Path, tmp_path: Path, serve: Callable[..., Served]
) -> None:
    """Nothing hangs: the view says that the service cannot be reached, and a button tries again."""
    data = copied(estate, tmp_path / "data")
    served = serve(data, "--dev", "--port", "0")
    made = Tab(house.browser, served.url, viewport={"width": 1400, "height": 900})
    page = made.show("#/memory")
    served.stop()
    page.keyboard.press("5")
    page.get_by_role("alert").filter(has_text="无法连接服务").wait_for()
    serve(data, "--dev", "--port", served.port)
    page.get_by_role("button", name="重试", exact=True).click()
    page.locator(".card", has_text="consolidate").wait_for()
    made.close(expected="ERR_")
