// What all views are made of: the templates, loading, and the small parts that repeat.

import htm from "htm";
import { h } from "preact";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";

import { clock, count, moment, shortly, t } from "./i18n.js";

export const html = htm.bind(h);

// --- places ---

export function hash(parts, query = {}) {
  const asked = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  return `#/${parts.map(encodeURIComponent).join("/")}${asked.length ? `?${new URLSearchParams(asked)}` : ""}`;
}

export function go(where) {
  location.hash = where;
}

// The key of a session in writing, `tenant/agent:channel:chat`, as the parts of its place.
export function partsOf(key) {
  const local = key.slice(key.indexOf("/") + 1);
  const [agent, channel, ...chat] = local.split(":");
  return [agent, channel, chat.join(":")];
}

export const sessionHash = (key, query) => hash(["sessions", ...partsOf(key)], query);

// Whose a record is, in words.
export const scopeOf = (scope) => `${named("scope", scope.kind)} ${scope.id.slice(scope.id.indexOf("/") + 1)}`.trim();

// Whether a record is the preview of a turn: what was asked and how the answer begins, as they were written.
export const isPreview = (record) => record.key.startsWith("pair ");

// What a record is under; one of a turn has the turn's id, which says nothing to anybody.
export const keyOf = (record) => (isPreview(record) ? t("One turn") : record.key);

// What a record says, for a line among others.
export const textOf = (record) => (isPreview(record) ? unmarked(record.text) : record.text);

// A name that the service gives, in words: those of the kind `kind name` in `words.js`, else as it stands.
export function named(kind, name) {
  const told = t(`${kind} ${name}`);
  return told === `${kind} ${name}` ? name : told;
}

// The same with the name itself beside it, for who looks for it elsewhere.
export function Named({ kind, name }) {
  const told = named(kind, name);
  return html`<strong>${told}</strong>${told !== name && told.toLowerCase() !== name && html` <code class="raw">${name}</code>`}`;
}

// --- loading ---

// What `load(signal)` gives, asked for again whenever one of `on` is another, or `again()` is called.
export function useLoad(load, on) {
  const [state, setState] = useState({ loading: true });
  const [turn, setTurn] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    const stop = new AbortController();
    setState((before) => ({ ...before, loading: true }));
    latest.current(stop.signal).then(
      (data) => stop.signal.aborted || setState({ data, loading: false }),
      (error) => stop.signal.aborted || setState({ error, loading: false }),
    );
    return () => stop.abort();
  }, [...on, turn]);
  return { ...state, again: useCallback(() => setTurn((n) => n + 1), []) };
}

// A list that comes a page at a time: `load(cursor, signal)` gives `{items, cursor}`.
export function usePages(load, on) {
  const first = useLoad((signal) => load("", signal), on);
  const [more, setMore] = useState({});
  const begun = { of: first.data, items: first.data?.items || [], cursor: first.data?.cursor || "" };
  const held = more.of === first.data && first.data ? more : begun;
  const latest = useRef();
  latest.current = { load, held };
  const next = useCallback(async () => {
    const { load: loadNow, held: before } = latest.current;
    setMore({ ...before, loading: true, error: undefined });
    try {
      const page = await loadNow(before.cursor);
      setMore({ ...before, items: [...before.items, ...page.items], cursor: page.cursor, loading: false });
    } catch (error) {
      setMore({ ...before, loading: false, error });
    }
  }, []);
  const change = useCallback((call) => setMore({ ...latest.current.held, items: call(latest.current.held.items) }), []);
  return {
    items: held.items,
    cursor: held.cursor,
    first: first.data,
    error: first.error || held.error,
    loading: first.loading || Boolean(held.loading),
    ready: Boolean(first.data),
    again: first.again,
    next,
    change,
  };
}

// Something that a button does: `[run, { busy, error }]`.
export function useAct() {
  const [state, setState] = useState({ busy: false });
  const run = useCallback(async (act) => {
    setState({ busy: true });
    try {
      const done = await act();
      setState({ busy: false });
      return done;
    } catch (error) {
      setState({ busy: false, error });
      return undefined;
    }
  }, []);
  return [run, state, () => setState({ busy: false })];
}

// --- parts ---

const PATHS = {
  sessions: "M4 5h16v11H9l-5 4z",
  memory: "M4 7l8-4 8 4-8 4zM4 12l8 4 8-4M4 17l8 4 8-4",
  recall: "M10.5 4a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zM15.5 15.5L20 20",
  profiles: "M12 4a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM4 21c1-4 4-6 8-6s7 2 8 6",
  jobs: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM12 7v5l3.5 2",
  quarantine: "M12 3l8 3v6c0 5-3.500 8-8 9-4.500-1-8-4-8-9V6zM9 12h6",
  audit: "M6 3h9l4 4v14H6zM9 11h7M9 15h7M14 3v5h5",
  more: "M4 7h16M4 12h16M4 17h16",
  pin: "M9 4h6l-1 6 3 3H7l3-3zM12 13v7",
  rename: "M4 20l1-4L16 5l3 3L8 19zM14 7l3 3",
  tool: "M14.500 6.500a4 4 0 0 0 5 5L13 18l-3-1-3 3-3-3 3-3-1-3 6.500-6.500z",
  fork: "M7 4v16M7 12c6 0 9-2 9-6M13 8l3-3 3 3",
  fold: "M5 5h14M5 19h14M12 8v8M9 11l3-3 3 3M9 13l3 3 3-3",
  restart: "M5 12a7 7 0 1 0 2-5M5 4v4h4",
  remove: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  send: "M4 12l16-8-6 16-3-7z",
  stop: "M7 7h10v10H7z",
  back: "M14 6l-6 6 6 6",
  down: "M6 9l6 6 6-6",
  export: "M12 4v11M7.500 11l4.500 4.500 4.500-4.500M5 20h14",
  close: "M6 6l12 12M18 6L6 18",
  undo: "M9 6L4 11l5 5M4 11h9c4 0 7 2 7 6",
  add: "M12 5v14M5 12h14",
  help: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM9.500 9.500a2.500 2.500 0 1 1 3.500 2.300c-.7.3-1 .8-1 1.700M12 17v.1",
  out: "M10 4H5v16h5M14 8l4 4-4 4M18 12H9",
  retry: "M5 12a7 7 0 1 0 2-5M5 4v4h4",
  check: "M5 12l5 5L19 7",
  warn: "M12 4l9 16H3zM12 10v4M12 17v.1",
};

export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false"><path d=${PATHS[name]} /></svg>`;
}

export function Button({ icon, label, quiet, children, ...rest }) {
  const kind = quiet ? "button quiet" : "button";
  if (!children) return html`<button type="button" class="${kind} square" aria-label=${label} title=${label} ...${rest}><${Icon} name=${icon} /></button>`;
  return html`<button type="button" class=${kind} ...${rest}>${icon && html`<${Icon} name=${icon} />`}<span>${children}</span></button>`;
}

export function Time({ at, long, clock: hours }) {
  if (!at) return null;
  return html`<time datetime=${new Date(at).toISOString()} title=${moment(at)}>${hours ? clock(at) : long ? moment(at) : shortly(at)}</time>`;
}

export function Skeleton({ rows = 6 }) {
  return html`<div class="skeleton" role="status"><span class="sr">${t("Loading")}</span>${Array.from({ length: rows }, (_, place) => html`<div class="bone" key=${place}><i></i><i></i></div>`)}</div>`;
}

// Words with what is between backticks as code.
export function Say({ words }) {
  return words.split("`").map((piece, place) => (place % 2 ? html`<code key=${place}>${piece}</code>` : piece));
}

export function Empty({ title, children }) {
  return html`<div class="empty"><svg viewBox="0 0 48 32" aria-hidden="true"><path d="M2 8h44M2 16h44M2 24h44" /></svg><h2>${title}</h2><p><${Say} words=${[children].flat().join("")} /></p></div>`;
}

const ADVICE = [
  [(p) => p.status === 0, "The service cannot be reached. See whether `stratalog serve` still runs, then try again."],
  [(p) => p.status === 401, "Sign in with a token: `stratalog token make` makes one."],
  [(p) => p.status === 403, "Your token may not do this. Ask for one with the role that it needs."],
  [(p) => p.status === 404, "It is not there any more, or not for you to see. Go back to the list and choose again."],
  [(p) => p.status === 409, "Something else is happening there just now. Wait until it is done, then try again."],
  [(p) => p.status === 421, "The service is not known by this name: `stratalog serve --allow-host NAME` allows it."],
  [(p) => p.status === 429, "Too many requests came at once. Wait a few seconds, then try again."],
  [(p) => p.status === 502, "The model did not answer. Look at its address and key in `stratalog.toml`, then try again."],
  [(p) => p.status === 507, "The disk is full. Make room, then try again."],
  [(p) => p.status >= 500, "The service failed. Its operator finds the reason in its log under the request below."],
  [() => true, "Change what you asked for, then try again."],
];

export const adviceFor = (problem) => t(ADVICE.find(([fits]) => fits(problem))[1]);

export function Failure({ error, again }) {
  if (!error) return null;
  const problem = "status" in error ? error : { status: -1, message: String(error), wrong: [] };
  const title = problem.status === 0 ? t("No connection") : problem.message;
  return html`<div class="failure" role="alert">
    <${Icon} name="warn" />
    <div>
      <strong>${title}</strong>
      ${(problem.wrong || []).map((each) => html`<p key=${each.key}><code>${each.key}</code> ${each.message}</p>`)}
      <p><${Say} words=${adviceFor(problem)} /></p>
      ${problem.hint && html`<p class="faint"><${Say} words=${problem.hint} /></p>`}
      ${problem.request && html`<p class="faint">${t("Request")} <code>${problem.request}</code></p>`}
    </div>
    ${again && html`<${Button} icon="retry" onClick=${again}>${t("Try again")}<//>`}
  </div>`;
}

// The end of a list that has more.
export function More({ pages, label = t("Load more") }) {
  if (!pages.cursor) return null;
  return html`<div class="more"><${Button} onClick=${pages.next} disabled=${pages.loading}>${pages.loading ? t("Loading") : label}<//></div>`;
}

export function Badge({ kind = "", title, children }) {
  return html`<span class="badge ${kind}" title=${title}>${children}</span>`;
}

export function Facts({ facts }) {
  return html`<dl class="facts">${facts.filter(([, value]) => value || value === 0).map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

// A choice among few, as radio buttons that look like one control.
export function Choice({ label, value, options, onChange, name }) {
  return html`<fieldset class="choice"><legend class="sr">${label}</legend>${options.map(
    ([each, words]) => html`<label key=${each}><input type="radio" name=${name} value=${each} checked=${each === value} onChange=${() => onChange(each)} /><span>${words}</span></label>`,
  )}</fieldset>`;
}

const MANY = 9; // choices, from which on they are a list to open

// A choice among names, with how many things each has: chips, or a list where there are many.
export function Chips({ label, value, options, onChange, name }) {
  const box = useRef();
  useEffect(() => {
    box.current?.querySelector("input:checked")?.closest(".chip").scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [value, options.length]);
  if (options.length > MANY)
    return html`<label class="pick"><span>${label}</span><select value=${value} onChange=${(event) => onChange(event.target.value)}>${options.map(([each, words]) => html`<option key=${each} value=${each} selected=${each === value}>${each ? `${each} (${count(words)})` : words}</option>`)}</select></label>`;
  return html`<fieldset ref=${box} class="chips"><legend>${label}</legend>${options.map(
    ([each, words]) => html`<label key=${each} class="chip"><input type="radio" name=${name} value=${each} checked=${each === value} onChange=${() => onChange(each)} /><span>${each ? html`<bdi>${each}</bdi> <small>${count(words)}</small>` : words}</span></label>`,
  )}</fieldset>`;
}

// Words as they were said: text alone, with fenced code set apart.
export function Words({ text }) {
  const pieces = text.split(/^```([^\n]*)\n([\s\S]*?)(?:^```[ \t]*$|(?![\s\S]))/m); // words, language, code, words, …
  return html`<div class="words">${pieces.map((piece, place) => {
    if (place % 3 === 0) return piece.trim() && html`<p key=${place} dir="auto">${piece.trim()}</p>`;
    if (place % 3 === 1) return null;
    return html`<${Code} key=${place} language=${pieces[place - 1].trim()} text=${piece.replace(/\n$/, "")} />`;
  })}</div>`;
}

const REPLY = "\n→ "; // between the parts of a preview

// The preview of a turn: what was asked, and below it how the answer begins.
export function Preview({ text }) {
  const [asked, ...reply] = text.split(REPLY);
  return html`<div class="preview"><${Words} text=${asked} />${reply.length > 0 && html`<div class="answer"><${Words} text=${reply.join(REPLY)} /></div>`}</div>`;
}

// Words without the marks of fences, headings, stress and code, for an excerpt: it may be on one line, and may end
// before a fence does.
export function unmarked(text) {
  return text
    .replace(/^[ \t]*```[\w+#.-]*[ \t]*(?:\n|$)/gm, "")
    .replace(/```[\w+#.-]*(?=\s|$)/g, "")
    .replace(/`([^`\n]+)`/g, "$1")
    .replace(/\*\*(?=\S)([^*\n]+)(?<=\S)\*\*/g, "$1")
    .replace(/^#{1,6} +/gm, "")
    .replace(/(\s)#{2,6} +/g, "$1")
    .replace(/\n{3,}/g, "\n\n")
    .trim();
}

function Code({ language, text }) {
  return html`<figure class="code" dir="ltr">${language && html`<figcaption>${language}</figcaption>`}<pre tabindex="0" aria-label=${t("Code")}><code>${text}</code></pre></figure>`;
}

export const plainOf = (content) =>
  typeof content === "string" ? content : (content || []).filter((part) => part.type === "text").map((part) => part.text).join("\n\n");

// A dialog that is open as long as it is shown. Escape and `close` end it.
export function Dialog({ title, close, children, kind = "" }) {
  const box = useRef();
  useEffect(() => {
    box.current.showModal();
    const left = () => close();
    const dialog = box.current;
    dialog.addEventListener("close", left);
    return () => dialog.removeEventListener("close", left);
  }, []);
  const outside = (event) => event.target === box.current && box.current.close();
  return html`<dialog ref=${box} class=${kind} aria-labelledby="dialog-title" onClick=${outside}>
    <header><h2 id="dialog-title">${title}</h2><${Button} quiet icon="close" label=${t("Close")} onClick=${() => box.current.close()} /></header>
    <div class="inside">${children}</div>
  </dialog>`;
}

export function Confirm({ title, children, act, label, close, danger }) {
  const [run, state] = useAct();
  const sure = async () => {
    if ((await run(async () => ((await act()) ?? true) || true)) !== undefined) close();
  };
  return html`<${Dialog} title=${title} close=${close}>
    <p>${children}</p>
    <${Failure} error=${state.error} />
    <div class="actions">
      <${Button} quiet onClick=${close}>${t("Cancel")}<//>
      <${Button} class="button ${danger ? "danger" : "primary"}" onClick=${sure} disabled=${state.busy}>${label}<//>
    </div>
  <//>`;
}

export function Amount({ n, unit }) {
  return html`<span class="amount">${count(n)}<small> ${unit}</small></span>`;
}

// A part of a whole as a thin bar. SVG, for its width is an attribute and no style.
export function Gauge({ value, most, label }) {
  const width = `${Math.max(0, Math.min(100, (100 * value) / (most || 1)))}%`;
  return html`<svg class="gauge" role="img" aria-label=${label}><rect class="whole" width="100%" height="100%" rx="2" /><rect class="part" width=${width} height="100%" rx="2" /></svg>`;
}
