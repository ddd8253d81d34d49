// One session: its window, its transcript, and talking.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";

import { fetchText, follow, get, patch, path, post, remove } from "../api.js";
import { t } from "../i18n.js";
import { Button, Confirm, Empty, Failure, go, hash, html, Icon, Say, sessionHash, Skeleton, Time, useAct, useLoad } from "../ui.js";
import { BudgetBar } from "./budget.js";
import { titleOf } from "./sessions.js";
import { Live, LIVE, lived, Transcript } from "./transcript.js";

const PAGE = 100;
const FAR = 500; // entries that are asked for at once after those that are there
const SPOKEN = new Set(["user", "assistant", "system", "tool_call", "tool_result", "compaction"]);
const FRESH = 600_000; // milliseconds, within which a turn without an end may still be running

export function SessionView({ agent, channel, chat, at, list, agents, changed }) {
  const where = useCallback((tail = [], query = {}) => path(["agents", agent, "sessions", chat, ...tail], { channel, ...query }), [agent, channel, chat]);
  const meta = useLoad((signal) => get(where(), { signal }), [where]);
  const context = useLoad((signal) => get(where(["context"]), { signal }), [where]);
  const log = useLog(where, at);
  const refresh = async () => {
    await log.newer();
    context.again();
    meta.again();
    changed();
  };
  const talk = useTalk(where, log, refresh);
  const [open, setOpen] = useState(() => matchMedia("(min-width: 700px)").matches);
  const [folded, setFolded] = useState(!at);
  const box = useRef();
  useStayAtEnd(box, log, talk, at);
  useJump(log.entries, at, () => setFolded(false));
  const again = () => {
    log.again();
    context.again();
    meta.again();
    changed();
  };
  const fork = async (entry) => {
    const made = await post(where(["fork"]), { at: entry.id });
    changed();
    go(sessionHash(made.key, list));
  };
  const answers = agents.find((each) => each.name === agent)?.has_model !== false;
  if (meta.error?.status === 404) {
    return html`<section class="pane"><${Failure} error=${meta.error} /><p class="pad"><a class="button" href=${hash(["sessions"], list)}>${t("To the list")}</a></p></section>`;
  }
  return html`<section class="pane detail" aria-label=${meta.data ? titleOf(meta.data) : chat}>
    <${Head} meta=${meta} place=${[agent, channel, chat]} list=${list} where=${where} changed=${changed} again=${again} />
    <${BudgetBar} context=${context.data} error=${context.error} again=${context.again} open=${open} toggle=${() => setOpen(!open)} />
    <div ref=${box} class="transcript" tabindex="0" role="log" aria-live="off" aria-label=${t("Transcript")}>
      <${Failure} error=${log.error} again=${log.again} />
      ${log.missed && html`<p class="row ending" role="status">${t("The entry that was named is not in the history any more. This is its end.")}</p>`}
      ${!log.ready && !log.error && html`<${Skeleton} rows=${8} />`}
      ${log.ready && !log.entries.some((each) => SPOKEN.has(each.type)) && log.before === null && !talk.live && html`<${Empty} title=${t("Nothing was said yet")}>${t("Write the first message below.")}<//>`}
      <${Transcript} entries=${log.entries} marked=${at} fork=${fork} place=${[agent, channel, chat]} folded=${folded} unfold=${() => setFolded(!folded)}
        older=${log.before !== null && html`<div class="more"><${Button} onClick=${log.older} disabled=${log.busy}>${t("Load older")}<//></div>`} />
      ${log.after !== null && html`<div class="more"><${Button} onClick=${() => log.newer()} disabled=${log.busy}>${t("Load newer")}<//></div>`}
      ${talk.live && html`<${Live} said=${talk.said} live=${talk.live} stop=${talk.stop} />`}
      <${Failure} error=${talk.error} />
    </div>
    <p class="sr" role="status">${talk.told}</p>
    ${answers ? html`<${Composer} say=${talk.say} busy=${Boolean(talk.live)} />` : html`<p class="composer faint"><${Say} words=${t("No model answers as this agent. Set `model` in `stratalog.toml` or in its `agent.toml`, then start the service anew.")} /></p>`}
  </section>`;
}

// --- the log, some pages of it ---

function useLog(where, at) {
  const [state, setState] = useState({ entries: [], before: null, after: null, ready: false });
  const [turn, setTurn] = useState(0);
  const page = (query) => get(where(["entries"], query));
  const latest = useRef(state);
  latest.current = state;
  useEffect(() => {
    let left = false;
    setState({ entries: [], before: null, after: null, ready: false });
    around(where, at).then(
      (found) => left || setState({ ...found, ready: true }),
      (error) => left || setState((before) => ({ ...before, error })),
    );
    return () => {
      left = true;
    };
  }, [where, at, turn]);
  const more = async (query, put) => {
    setState((before) => ({ ...before, busy: true }));
    try {
      const found = await page(query);
      setState((before) => ({ ...before, ...put(before, found), busy: false, error: undefined }));
      return found;
    } catch (error) {
      setState((before) => ({ ...before, busy: false, error }));
      return null;
    }
  };
  const older = () => more({ before: latest.current.before, limit: PAGE }, (before, found) => ({ entries: [...found.entries, ...before.entries], before: found.before }));
  const newer = () => {
    const last = latest.current.entries.at(-1)?.seq || 0;
    return more({ after: last, limit: FAR }, (before, found) => ({ entries: joined(before.entries, found.entries), after: found.after }));
  };
  return { ...state, older, newer, again: () => setTurn((n) => n + 1) };
}

function joined(before, found) {
  const known = new Set(before.map((each) => each.seq));
  return [...before, ...found.filter((each) => !known.has(each.seq))];
}

// The entries around one, named by its number or its id; without one, or where it is there no more, the end of the log.
async function around(where, at) {
  if (!at) return get(where(["entries"], { limit: PAGE }));
  try {
    return await get(where(["entries", at, "around"], { before: PAGE / 2, after: PAGE / 2 }));
  } catch (error) {
    if (error.status !== 404) throw error;
    return { ...(await get(where(["entries"], { limit: PAGE }))), missed: at };
  }
}

// Scrolls to the entry that the place names, once it is there.
function useJump(entries, at, unfold) {
  const done = useRef("");
  useEffect(() => {
    const entry = at && done.current !== at && entries.find((each) => each.id === at || String(each.seq) === at);
    if (!entry) return;
    unfold();
    requestAnimationFrame(() => {
      const row = document.getElementById(`entry-${entry.seq}`);
      if (!row) return;
      done.current = at;
      row.scrollIntoView({ block: "center" });
      row.focus({ preventScroll: true });
    });
  }, [entries, at]);
}

// Keeps the end in sight: after the first page, and whatever grows or shrinks, as long as nobody scrolled away.
function useStayAtEnd(box, log, talk, at) {
  const stuck = useRef(!at);
  const top = useRef(0);
  const reveal = () => {
    if (stuck.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  };
  useEffect(() => {
    const scrolled = () => {
      if (!box.current) return;
      const { scrollHeight, scrollTop, clientHeight } = box.current;
      // An end that is further below may be new words, or a smaller box: only who goes up has scrolled away.
      if (scrollHeight - scrollTop - clientHeight < 80) stuck.current = true;
      else if (scrollTop < top.current) stuck.current = false;
      top.current = scrollTop;
    };
    const resized = new ResizeObserver(reveal);
    resized.observe(box.current);
    box.current.addEventListener("scroll", scrolled, { passive: true });
    return () => resized.disconnect();
  }, []);
  useEffect(reveal, [log.entries, talk.live]);
  useEffect(() => {
    if (!talk.said) return;
    stuck.current = true;
    reveal();
  }, [talk.said]);
}

// --- talking ---

function useTalk(where, log, refresh) {
  const [state, setState] = useState({ live: null, said: "", told: "" });
  const stopper = useRef();
  useEffect(() => {
    setState({ live: null, said: "", told: "" });
    return () => stopper.current?.abort();
  }, [where]);
  const listen = async (method, target, body, said) => {
    const stop = (stopper.current = new AbortController());
    setState({ live: LIVE, said, told: t("The reply is being written") });
    const told = (event) => setState((before) => ({ ...before, live: lived(before.live || LIVE, event) }));
    const dropped = () => setState((before) => ({ ...before, live: { ...before.live, status: "dropped" } }));
    try {
      const ending = await follow(method, target, { body, told, signal: stop.signal, dropped });
      await refresh();
      setState({ live: null, said: "", told: t(ENDED[ending.type]), error: problemOf(ending) });
      return true;
    } catch (error) {
      if (error.name === "AbortError") return false;
      setState({ live: null, said: "", told: "", error });
      return false;
    }
  };
  useEffect(() => {
    const turn = log.ready && log.after === null ? openTurn(log.entries) : "";
    if (!turn || state.live) return;
    get(where(["turns", turn])).then((found) => {
      if (found.status === "started" || found.status === "queued") listen("GET", where(["turns", turn, "events"]), undefined, "");
    }, () => {});
  }, [log.ready, where]);
  return {
    ...state,
    say: (text) => listen("POST", where(["messages"], { stream: true }), { content: text }, text),
    stop: () => post(where(["abort"])).catch(() => {}),
  };
}

const ENDED = { done: "The reply is complete", failed: "The turn ended without a reply", paused: "The turn goes on when the service runs again" };

function problemOf(ending) {
  if (ending.type !== "failed" || ending.status === "aborted") return undefined;
  return Object.assign(new Error(ending.reason || t(`The turn was ${ending.status}`)), { status: ending.error ? 502 : 409, kind: ending.error });
}

// The turn of the last message if it has no end yet and is not old.
function openTurn(entries, now = Date.now()) {
  const last = entries.findLast((each) => each.type === "user");
  if (!last?.turn || now - last.ts > FRESH) return "";
  return entries.some((each) => each.type === "turn_end" && each.turn === last.turn) ? "" : last.turn;
}

function Composer({ say, busy }) {
  const [text, setText] = useState("");
  const send = async () => {
    const said = text.trim();
    if (!said || busy) return;
    setText("");
    if (!(await say(said))) setText((now) => now || said);
  };
  const key = (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      send();
    }
  };
  const submit = (event) => {
    event.preventDefault();
    send();
  };
  const lines = Math.min(8, text.split("\n").length);
  return html`<form class="composer" onSubmit=${submit}>
    <label><span class="sr">${t("Message")}</span><textarea rows=${lines} placeholder=${t("Write a message")} value=${text} onInput=${(event) => setText(event.target.value)} onKeyDown=${key}></textarea></label>
    <button class="button primary" disabled=${busy || !text.trim()}><${Icon} name="send" /><span>${t("Send")}</span></button>
  </form>`;
}

// --- the head, with what can be done ---

function Head({ meta, place, list, where, changed, again }) {
  const [asked, setAsked] = useState("");
  const [run, state] = useAct();
  const session = meta.data;
  const change = async (values) => {
    await run(() => patch(where(), values));
    meta.again();
    changed();
    setAsked("");
  };
  const close = () => setAsked("");
  return html`<header class="detail-head">
    <a class="button quiet square back" href=${hash(["sessions"], list)} aria-label=${t("To the list")}><${Icon} name="back" /></a>
    ${asked === "rename"
      ? html`<${Rename} title=${session.title} save=${(title) => change({ title })} close=${close} />`
      : html`<div class="titles"><h1 dir="auto">${session ? titleOf(session) : place[2]}</h1>
          ${session && html`<p class="faint" title=${place.join(":")}>${t("{n} message|{n} messages", { n: session.messages })} · <${Time} at=${session.updated_at} long />${session.forked_from && html` · ${t("forked")}`}${session.metadata.users?.length > 0 && html` · ${t("User")} <bdi>${session.metadata.users.join(", ")}</bdi>`} · <bdi>${place[0]}</bdi> · <bdi>${place[1]}</bdi></p>`}</div>`}
    ${session && asked !== "rename" && html`<div class="tools" role="toolbar" aria-label=${t("What can be done with the session")}>
      <${Button} quiet icon="pin" label=${session.pinned ? t("Unpin") : t("Pin")} aria-pressed=${String(session.pinned)} disabled=${state.busy} onClick=${() => change({ pinned: !session.pinned })} />
      <${Button} quiet icon="rename" label=${t("Rename")} onClick=${() => setAsked("rename")} />
      <${Button} quiet icon="fork" label=${t("Fork")} onClick=${() => setAsked("fork")} />
      <${Button} quiet icon="fold" label=${t("Fold what is old")} onClick=${() => setAsked("compact")} />
      <${Button} quiet icon="export" label=${t("Export as Markdown")} onClick=${() => run(() => download(where, titleOf(session)))} />
      <${Button} quiet icon="restart" label=${t("Restart")} onClick=${() => setAsked("restart")} />
      <${Button} quiet icon="remove" label=${t("Delete")} onClick=${() => setAsked("delete")} />
    </div>`}
    <${Failure} error=${state.error || (meta.error?.status === 404 ? undefined : meta.error)} />
    ${asked === "restart" && html`<${Restart} where=${where} close=${close} again=${again} />`}
    ${asked === "compact" && html`<${Fold} where=${where} close=${close} again=${again} />`}
    ${asked === "fork" && html`<${Confirm} title=${t("Fork the session?")} label=${t("Fork")} close=${close} act=${async () => {
      const made = await post(where(["fork"]), {});
      changed();
      go(sessionHash(made.key, list));
    }}>${t("A new session begins with this history. This one stays as it is. A message's own button forks after that message.")}<//>`}
    ${asked === "delete" && html`<${Confirm} danger title=${t("Delete the session?")} label=${t("Delete")} close=${close} act=${async () => {
      await remove(where());
      changed();
      go(hash(["sessions"], list));
    }}>${t("Its log and its records are destroyed, for good.")}<//>`}
  </header>`;
}

function Rename({ title, save, close }) {
  const box = useRef();
  useEffect(() => {
    box.current.focus();
    box.current.select();
  }, []);
  const submit = (event) => {
    event.preventDefault();
    if (box.current.value.trim()) save(box.current.value.trim());
  };
  const key = (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    close();
  };
  return html`<form class="rename" onSubmit=${submit} onKeyDown=${key}>
    <label><span class="sr">${t("Title")}</span><input ref=${box} defaultValue=${title} maxlength="1000" /></label>
    <button class="button primary"><${Icon} name="check" /><span>${t("Save")}</span></button>
    <${Button} quiet icon="close" label=${t("Cancel")} onClick=${close} />
  </form>`;
}

// A restart while a turn runs is done only when it is asked for twice, so the dialog stays for the second time.
function Restart({ where, close, again }) {
  const [within, setWithin] = useState(0);
  const act = async () => {
    const asked = await post(where(["restart"]));
    if (!asked.done) {
      setWithin(asked.confirm_within);
      throw Object.assign(new Error(t("A turn is running. Restart again to end it.")), { status: 409, hint: "" });
    }
    again();
  };
  return html`<${Confirm} danger title=${t("Begin the history anew?")} label=${within ? t("End the turn and restart") : t("Restart")} close=${close} act=${act}>
    ${t("The model sees nothing of what was said so far. Title, pin and long-term memory stay, and the log keeps all.")}
    ${within > 0 && html` ${t("Ask once more within {n} s.", { n: Math.round(within) })}`}<//>`;
}

function Fold({ where, close, again }) {
  const act = async () => {
    const made = await post(where(["compact"]));
    if (!made.compacted) throw Object.assign(new Error(made.reason || t("There is nothing to fold.")), { status: 400 });
    again();
  };
  return html`<${Confirm} title=${t("Fold what is old?")} label=${t("Fold")} close=${close} act=${act}>${t("What is old is folded into a summary, which the model sees instead. The raw turns stay in the log.")}<//>`;
}

async function download(where, title) {
  const text = await fetchText(where(["export"], { format: "markdown" }));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/markdown" }));
  link.download = `${title.replace(/[\\/:*?"<>|]+/g, "_").slice(0, 80)}.md`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
