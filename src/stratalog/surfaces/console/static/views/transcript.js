// A session's entries as a conversation: what is folded into a summary, tools, and a reply as it comes.

import { useEffect, useState } from "preact/hooks";

import { day, decimal, t } from "../i18n.js";
import { Badge, Button, hash, html, Icon, Named, named, plainOf, Time, Words } from "../ui.js";

const SHOWN = new Set(["user", "assistant", "system", "tool_call", "tool_result", "compaction", "note"]);
const ENDINGS = new Set(["aborted", "interrupted", "timed_out"]);

// The entries as rows: `{kind, entry, …}`. Calls stand with their results; what only the machine needs is no row.
export function rowsOf(entries) {
  const results = new Map(entries.filter((each) => each.type === "tool_result").map((each) => [each.call_id, each]));
  const called = new Set(entries.filter((each) => each.type === "tool_call").map((each) => each.call_id));
  const rows = [];
  for (const entry of entries) {
    if (entry.type === "tool_call") rows.push({ kind: "tool", entry, result: results.get(entry.call_id) });
    else if (entry.type === "tool_result" && called.has(entry.call_id)) continue;
    else if (entry.type === "tool_result") rows.push({ kind: "tool", entry: { ...entry, args: undefined }, result: entry });
    else if (entry.type === "turn_end" && ENDINGS.has(entry.status)) rows.push({ kind: "ending", entry });
    else if (SHOWN.has(entry.type)) rows.push({ kind: entry.type, entry });
  }
  return rows;
}

// The rows with each run of notes as one: `{kind: "notes", entry, notes}`, of which `entry` is the first.
export function gathered(rows) {
  const told = [];
  for (const row of rows) {
    const last = told.at(-1);
    if (row.kind !== "note") told.push(row);
    else if (last?.kind === "notes") last.notes.push(row.entry);
    else told.push({ kind: "notes", entry: row.entry, notes: [row.entry] });
  }
  return told;
}

const withdraws = (entry) => (entry.type === "note" && entry.kind === "withdrawn" && Array.isArray(entry.data?.entries) ? entry.data.entries : []);

// The newest compaction and the number of the last entry that it stands for; null as long as that is not loaded.
export function foldOf(entries) {
  const compaction = entries.findLast((each) => each.type === "compaction");
  if (!compaction) return null;
  const [, last] = compaction.covers || ["", ""];
  const found = entries.findLast((each) => each.id === last);
  return found ? { compaction, upTo: found.seq } : null;
}

export function Transcript({ entries, marked, fork, older, folded, unfold, place }) {
  const rows = rowsOf(entries);
  const fold = foldOf(entries);
  const gone = new Set(entries.flatMap(withdraws));
  const hidden = fold ? rows.filter((row) => row.entry.seq <= fold.upTo) : [];
  const seen = fold ? rows.filter((row) => row.entry.seq > fold.upTo) : rows;
  const shown = (some) => gathered(some).map((row, at, list) => html`${at > 0 && dayOf(list[at - 1]) === dayOf(row) ? null : html`<p key=${`day ${row.entry.id}`} class="row day"><span>${day(row.entry.ts)}</span></p>`}<${Row} key=${row.entry.id} row=${row} marked=${marked} fork=${fork} newest=${fold?.compaction.id} gone=${gone} place=${place} />`);
  return html`
    ${(!fold || !folded) && older}
    ${fold && !folded && shown(hidden)}
    ${fold && html`<${Fold} compaction=${fold.compaction} folded=${folded} unfold=${unfold} place=${place} />`}
    ${shown(seen)}`;
}

const dayOf = (row) => new Date(row.entry.ts).toDateString();

function Fold({ compaction, folded, unfold, place }) {
  const { tokens_before: before = 0, tokens_after: after = 0 } = compaction;
  return html`<section class="fold" aria-label=${t("Folded into a summary")}>
    <header>
      <${Icon} name="fold" />
      <div><h3>${t("Folded into a summary")}</h3>
      <p class="faint">${t("{before} → {after} tokens, by {by}", { before, after, by: compaction.by || "?" })} · <${Time} at=${compaction.ts} long /></p></div>
      <${Button} aria-expanded=${String(!folded)} onClick=${unfold}>${folded ? t("Show the raw turns") : t("Fold them again")}<//>
    </header>
    <details><summary>${t("What the model sees instead")}</summary><${Summary} text=${compaction.summary || t("The summary is kept beside the log.")} place=${place} /></details>
  </section>`;
}

const NAMED = /\[([0-9A-HJKMNP-TV-Z]{26})\] ?/; // an entry, as a summary names its sources

// A summary, whose sources are links to what was said.
function Summary({ text, place }) {
  return html`<div class="words" tabindex="0"><p dir="auto">${text.split(NAMED).map((piece, at) =>
    at % 2 ? html`<a key=${at} class="ref" href=${hash(["sessions", ...place], { at: piece })} aria-label=${t("Go to where it was said")} title=${t("Go to where it was said")}><${Icon} name="sessions" /></a> ` : piece,
  )}</p></div>`;
}

const isHere = (marked, entry) => marked === entry.id || marked === String(entry.seq);

function Row({ row, marked, fork, newest, gone, place: session }) {
  const { entry } = row;
  if (row.kind === "notes") return html`<${Notes} notes=${row.notes} marked=${marked} place=${session} />`;
  const here = isHere(marked, entry);
  const withdrawn = gone.has(entry.id) || (row.kind === "tool" && gone.has(row.result?.id));
  const place = { id: `entry-${entry.seq}`, class: `row ${row.kind} ${here ? "marked" : ""} ${withdrawn ? "withdrawn" : ""}`, "aria-current": here ? "true" : undefined };
  if (row.kind === "tool") return html`<div ...${place}><${Tool} name=${row.entry.name} args=${entry.args} result=${row.result} withdrawn=${withdrawn} /></div>`;
  if (row.kind === "compaction") return html`<p ...${place}><${Icon} name="fold" /> ${entry.id === newest ? t("Here it was folded") : t("Here it was folded once before")} · <${Time} at=${entry.ts} clock /></p>`;
  if (row.kind === "ending") return html`<p ...${place}>${t(`The turn was ${entry.status}`)}${entry.detail ? `: ${entry.detail}` : ""}</p>`;
  return html`<article ...${place} tabindex="-1">
    <header><b>${speaker(entry)}</b>${entry.model && html`<span class="faint">${entry.model}</span>`}<${Time} at=${entry.ts} clock />${withdrawn && html`<${Withdrawn} />`}
      ${fork && html`<${Button} quiet icon="fork" label=${t("Fork after this")} onClick=${() => fork(entry)} />`}</header>
    <${Content} entry=${entry} />
  </article>`;
}

function Withdrawn() {
  return html`<${Badge} title=${t("A model sees it no more. It stays in the log.")}>${t("Withdrawn")}<//>`;
}

// What the log says between messages for itself: one quiet line, which opens.
function Notes({ notes, marked, place }) {
  const names = [...new Set(notes.map((each) => named("note", each.kind)))];
  return html`<details class="row notes" open=${notes.some((each) => isHere(marked, each))}>
    <summary><span>${t("{n} note|{n} notes", { n: notes.length })}</span><span class="peek">${names.join(t(", "))}</span></summary>
    <ul>${notes.map((each) => html`<${Note} key=${each.id} entry=${each} here=${isHere(marked, each)} place=${place} />`)}</ul>
  </details>`;
}

const DATA = 300; // characters that are shown of what a note has beside its words

function Note({ entry, here, place }) {
  const [first] = withdraws(entry);
  const data = first || entry.data === undefined || entry.data === null ? "" : JSON.stringify(entry.data);
  return html`<li id=${`entry-${entry.seq}`} class=${here ? "marked" : ""} tabindex="-1" aria-current=${here ? "true" : undefined}>
    <p><${Named} kind="note" name=${entry.kind} /> · <${Time} at=${entry.ts} clock />${first && html` · <a href=${hash(["sessions", ...place], { at: first })}>${t("Go to where it was said")}</a>`}</p>
    ${entry.text && html`<p class="told" dir="auto">${entry.text}</p>`}
    ${data && html`<p><code class="raw">${data.length > DATA ? `${data.slice(0, DATA)}…` : data}</code></p>`}
  </li>`;
}

const speaker = (entry) => ({ user: t("User"), assistant: t("Assistant"), system: t("System") })[entry.type];

function Content({ entry }) {
  const parts = typeof entry.content === "string" ? [{ type: "text", text: entry.content }] : entry.content || [];
  return html`${parts.map((part, place) => html`<${Part} key=${place} part=${part} />`)}
    ${entry.blob && html`<p class="faint">${t("{size} kB are kept beside the log", { size: Math.ceil(entry.blob.size / 1024) })}</p>`}`;
}

const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

function Part({ part }) {
  if (part.type === "text") return html`<${Words} text=${part.text} />`;
  if (part.type === "reasoning") return part.text ? html`<${Reasoning} text=${part.text} />` : null;
  if (part.type === "image" && IMAGES.has(part.media_type) && part.data) {
    return html`<img alt=${t("An image")} src="data:${part.media_type};base64,${part.data}" />`;
  }
  return html`<p class="faint">${t("A part of the kind {kind}", { kind: part.kind || part.type })} ${part.name || part.media_type || ""}</p>`;
}

function Reasoning({ text, open }) {
  return html`<details class="reasoning" open=${open}><summary>${t("Reasoning")}</summary><${Words} text=${text} /></details>`;
}

function Tool({ name, args, result, withdrawn }) {
  const answer = result ? (result.text ?? plainOf(result.content)) : "";
  return html`<details class="tool">
    <summary><${Icon} name="tool" /><span>${t("Tool")} <code>${name || "?"}</code></span>
      ${answer && html`<span class="peek" dir="auto">${answer.slice(0, 120)}</span>`}
      ${withdrawn ? html`<${Withdrawn} />` : !result ? html`<${Badge}>${t("No result")}<//>` : result.error ? html`<${Badge} kind="bad">${t("Failed")}<//>` : null}</summary>
    ${args !== undefined && html`<h4>${t("Asked")}</h4><pre tabindex="0" aria-label=${t("Asked")}><code>${typeof args === "string" ? args : JSON.stringify(args, null, 2)}</code></pre>`}
    ${result && html`<h4>${t("Answered")} <small>${t("{n} character|{n} characters", { n: answer.length })}</small></h4><pre class="flow" tabindex="0" dir="auto" aria-label=${t("Answered")}><code>${answer}</code></pre>`}
  </details>`;
}

// --- a turn as it comes ---

export const LIVE = { pieces: [], reasoning: "", note: "", status: "sent" };

// The state after one more event of the turn.
export function lived(state, event) {
  const pieces = state.pieces;
  const last = pieces[pieces.length - 1];
  switch (event.type) {
    case "queued":
      return { ...state, status: "queued", position: event.position };
    case "started":
      return { ...state, status: "started" };
    case "reasoning":
      return { ...state, reasoning: state.reasoning + event.text };
    case "text":
      if (last?.kind === "text") return { ...state, pieces: [...pieces.slice(0, -1), { ...last, text: last.text + event.text }] };
      return { ...state, note: "", pieces: [...pieces, { kind: "text", text: event.text }] };
    case "retrying":
      return { ...state, note: t("The model is asked again"), pieces: last?.kind === "text" ? pieces.slice(0, -1) : pieces };
    case "snapshot":
      return { ...state, pieces: event.text ? [{ kind: "text", text: event.text }] : [] };
    case "tool_call":
      return { ...state, pieces: [...pieces, { kind: "tool", id: event.call_id, name: event.name, args: event.args }] };
    case "tool_result":
      return { ...state, pieces: pieces.map((each) => (each.id === event.call_id ? { ...each, result: event } : each)) };
    case "compacted":
      return { ...state, note: t("{before} → {after} tokens, by {by}", { before: event.tokens_before, after: event.tokens_after, by: event.by }) };
    case "warning":
      return { ...state, note: event.reason };
    default:
      return { ...state, status: event.type, ending: event };
  }
}

export function Live({ said, live, stop }) {
  return html`
    ${said && html`<article class="row user"><header><b>${t("User")}</b></header><${Words} text=${said} /></article>`}
    <article class="row assistant live" aria-busy="true">
      <header><b>${t("Assistant")}</b><${Progress} live=${live} /><${Button} icon="stop" onClick=${stop}>${t("Stop")}<//></header>
      ${live.reasoning && html`<${Reasoning} text=${live.reasoning} />`}
      ${live.pieces.map((each, place) => (each.kind === "text" ? html`<${Words} key=${place} text=${each.text} />` : html`<${Tool} key=${place} ...${each} />`))}
      ${live.note && html`<p class="faint">${live.note}</p>`}
    </article>`;
}

function Progress({ live }) {
  const [seconds, setSeconds] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setSeconds((n) => n + 1), 1000);
    return () => clearInterval(timer);
  }, []);
  const words = { queued: t("Waits for {n} turn|Waits for {n} turns", { n: live.position || 0 }), dropped: t("Connecting again") };
  return html`<span class="faint progress"><i aria-hidden="true"></i>${words[live.status] || t("Writing")} · ${decimal(seconds)} s</span>`;
}
