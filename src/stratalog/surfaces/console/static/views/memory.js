// The records: what holds now, what held, what contradicts, and where it was said.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { get, path, remove, seesAll } from "../api.js";
import { count, share, t } from "../i18n.js";
import { Badge, Button, Choice, Confirm, Empty, Facts, Failure, go, hash, html, Icon, isPreview, keyOf, More, named, Preview, scopeOf, Skeleton, textOf, Time, useLoad, usePages } from "../ui.js";

const SHOWN = { current: {}, history: { status: ["current", "superseded", "forgotten"] }, conflicts: { conflicts: true } };
const DEPTH = 2_000; // records among which words are looked for before more must be asked for
const LAYERS = { short: "Short", mid: "Middle", long: "Long" };
const STATUSES = { current: "Current", superseded: "Superseded", forgotten: "Forgotten" };
const KINDS = { current: "good", superseded: "", forgotten: "bad" };

export function Memory({ rest, query, who }) {
  const shown = Object.hasOwn(SHOWN, query.get("show")) ? query.get("show") : "current";
  const [sought, setSought] = useState("");
  const [stamp, setStamp] = useState(0);
  const pages = usePages(
    async (cursor, signal) => {
      const page = await get(path(["memory", "records"], { ...SHOWN[shown], everyone: seesAll(who) || "", limit: 50, cursor }), { signal });
      return { items: page.records, cursor: page.cursor };
    },
    [shown, stamp],
  );
  const words = sought.trim().toLowerCase();
  const found = useMemo(() => (words ? pages.items.filter((each) => `${each.key}\n${each.text}\n${each.scope.id}`.toLowerCase().includes(words)) : pages.items), [words, pages.items]);
  useEffect(() => {
    if (words && !pages.loading && pages.cursor && found.length < 20 && pages.items.length < DEPTH) pages.next();
  }, [words, pages.items, pages.loading]);
  const show = (name) => go(hash(["memory", ...rest], { show: name === "current" ? "" : name }));
  const options = [["current", t("Current")], ["history", t("History")], ["conflicts", t("Conflicts")]];
  return html`<section class="pane list" aria-label=${t("Memory")}>
      <div class="pane-head">
        <div class="line"><h1>${t("Memory")}</h1><span class="faint">${seesAll(who) ? t("of all users") : who.user ? html`<bdi>${who.user}</bdi>` : t("of nobody in particular")}</span></div>
        <${Choice} name="shown" label=${t("Which records")} value=${shown} options=${options} onChange=${show} />
        <label class="search"><span class="sr">${t("Search the records")}</span><${Icon} name="recall" />
          <input type="search" data-search placeholder=${t("Search the records")} value=${sought} onInput=${(event) => setSought(event.target.value)} /><kbd aria-hidden="true">/</kbd></label>
      </div>
      <${Failure} error=${pages.error} again=${pages.again} />
      ${!pages.ready && !pages.error && html`<${Skeleton} rows=${8} />`}
      ${pages.ready && !found.length && !pages.cursor && html`<${Nothing} shown=${shown} words=${words} />`}
      <ul class="rows" aria-label=${t("Memory")}>${found.map((each) => html`<${RecordRow} key=${each.id} record=${each} chosen=${rest[0]} shown=${shown} />`)}</ul>
      <${More} pages=${pages} />
    </section>
    ${rest[0]
      ? html`<${RecordPane} key=${rest[0]} who=${who} id=${rest[0]} listed=${pages.items.find((each) => each.id === rest[0])} shown=${shown} changed=${() => setStamp((n) => n + 1)} />`
      : html`<section class="pane nothing"><${Empty} title=${t("Choose a record")}>${t("You see what it says, where it was said and what happened to it.")}<//></section>`}`;
}

function Nothing({ shown, words }) {
  if (words) return html`<p class="faint pad" role="status">${t("No record has these words.")}</p>`;
  if (shown === "conflicts") return html`<${Empty} title=${t("Nothing contradicts")}>${t("When two records of one key say different things, both stand here until one is forgotten or corrected.")}<//>`;
  return html`<${Empty} title=${t("Nothing is remembered yet")}>${t("Records come from turns, from agents, and from `stratalog memory remember`.")}<//>`;
}

function RecordRow({ record, chosen, shown }) {
  const where = hash(["memory", record.id], { show: shown === "current" ? "" : shown });
  return html`<li><a data-item href=${where} aria-current=${chosen === record.id ? "page" : undefined}>
    <span class="wrap" dir="auto">${textOf(record)}</span>
    <span class="under"><span>${keyOf(record)} · ${scopeOf(record.scope)}</span><${Time} at=${record.updated_at} /></span>
    ${(record.contradicted || record.status !== "current") && html`<span class="marks">${record.contradicted && html`<${Badge} kind="warn">${t("Contradicted")}<//>`}${record.status !== "current" && html`<${Badge}>${t(STATUSES[record.status])}<//>`}</span>`}
  </a></li>`;
}

const scopeIn = ({ scope }) => (scope.id ? `${scope.kind}:${scope.id}` : scope.kind);
const historyOf = (who, id, record, query) => path(["memory", "history"], { id, ...(seesAll(who) ? { everyone: true } : { scope: scopeIn(record) }), ...query });

// The record; one that was forgotten as its history has it, where everyone's is in sight or it was seen before.
async function recordOf(who, id, seen, signal) {
  try {
    return await get(path(["memory", "records", id]), { signal });
  } catch (error) {
    if (error.status !== 404 || !(seen || seesAll(who))) throw error;
    const { events } = await get(historyOf(who, id, seen, { limit: 500 }), { signal });
    if (!events.length && !seen) throw error;
    return events.length ? events.at(-1).record : seen;
  }
}

function RecordPane({ who, id, listed, shown, changed }) {
  const seen = useRef(listed);
  seen.current = listed || seen.current;
  const found = useLoad((signal) => recordOf(who, id, seen.current, signal), [id]);
  const [asked, setAsked] = useState(false);
  const record = found.data;
  const back = hash(["memory"], { show: shown === "current" ? "" : shown });
  return html`<section class="pane record" aria-label=${t("Record")}>
    <header class="detail-head"><a class="button quiet square back" href=${back} aria-label=${t("To the list")}><${Icon} name="back" /></a>
      <div class="titles"><h1>${record ? keyOf(record) : t("Record")}</h1>${record && html`<p class="faint">${scopeOf(record.scope)}</p>`}</div>
      ${record && record.status === "current" && html`<${Button} class="button danger" icon="remove" onClick=${() => setAsked(true)}>${t("Forget")}<//>`}</header>
    <${Failure} error=${found.error} again=${found.again} />
    ${!record && !found.error && html`<${Skeleton} rows=${5} />`}
    ${record && html`<div class="body">
      ${isPreview(record) ? html`<${Preview} text=${record.text} />` : html`<p class="statement" dir="auto">${record.text}</p>`}
      <p class="marks"><${Badge} kind=${KINDS[record.status]}>${t(STATUSES[record.status])}<//>${record.contradicted && html`<${Badge} kind="warn">${t("Contradicted")}<//>`}</p>
      <${Facts} facts=${factsOf(record)} />
      ${record.payload !== record.text && record.payload !== null && html`<details><summary>${t("Payload")}</summary><pre tabindex="0"><code>${JSON.stringify(record.payload, null, 2)}</code></pre></details>`}
      <${Sources} sources=${record.sources} />
      <${Others} title=${t("Contradicts")} ids=${record.conflict_with} />
      <${Others} title=${t("In place of")} ids=${record.supersedes} />
      <${History} key=${record.status} who=${who} record=${record} />
    </div>`}
    ${asked && html`<${Confirm} danger title=${t("Forget this record?")} label=${t("Forget")} close=${() => setAsked(false)} act=${async () => {
      await remove(path(["memory", "records", id], { reason: "console" }));
      changed();
      found.again();
    }}>${t("It says nothing any more, and what was said before does not bring it back. Its history stays.")}<//>`}
  </section>`;
}

const dayOf = (when) => html`<${Time} at=${when.at} long />`;

function factsOf(record) {
  const holds = record.valid_from || record.valid_to;
  return [
    [t("Layer"), t(LAYERS[record.layer] || record.layer)],
    [t("Confidence"), share(record.confidence)],
    [t("Said"), t("{n} time|{n} times", { n: record.evidence })],
    [t("By"), named("origin", record.origin)],
    [t("Holds"), holds ? html`${record.valid_from && dayOf(record.valid_from)} – ${record.valid_to && dayOf(record.valid_to)}` : ""],
    [t("Written"), html`<${Time} at=${record.created_at} long />`],
    [t("Changed"), record.updated_at !== record.created_at ? html`<${Time} at=${record.updated_at} long />` : ""],
    [t("Expires"), record.expires_at ? html`<${Time} at=${record.expires_at} long />` : ""],
    [t("Environment"), record.environment === "production" ? "" : record.environment],
  ];
}

function Sources({ sources }) {
  return html`<section><h2>${t("Sources")}</h2>${!sources.length
    ? html`<p class="faint">${t("None: it was written by hand, or its session is not for you to see.")}</p>`
    : html`<ul class="links">${sources.map((each) => html`<li key=${each.entry}><a href=${hash(["sessions", each.agent, each.channel, each.chat], { at: each.seq ?? each.entry })}><${Icon} name="sessions" /><span>${each.agent} · ${each.channel} · ${each.chat}${each.seq ? ` · #${count(each.seq)}` : ""}</span></a></li>`)}</ul>`}</section>`;
}

function Others({ title, ids }) {
  const found = useLoad((signal) => Promise.all(ids.slice(0, 10).map((id) => get(path(["memory", "records", id]), { signal }).catch(() => null))), [ids.join()]);
  const known = (found.data || []).filter(Boolean);
  if (!known.length) return null;
  return html`<section><h2>${title}</h2><ul class="links">${known.map((each) => html`<li key=${each.id}><a href=${hash(["memory", each.id])}><${Icon} name="memory" /><span>${textOf(each)}</span></a></li>`)}</ul></section>`;
}

function History({ who, record }) {
  const pages = usePages(
    async (cursor, signal) => {
      const page = await get(historyOf(who, record.id, record, { limit: 50, cursor }), { signal });
      return { items: page.events, cursor: page.cursor };
    },
    [record.id],
  );
  return html`<section><h2>${t("History")}</h2>
    <${Failure} error=${pages.error} again=${pages.again} />
    <ol class="timeline">${pages.items.map((each) => html`<li key=${each.seq}><span><strong>${named("action", each.action)}</strong> <span class="faint"><${Time} at=${each.at} long />${Object.values(each.actor).length > 0 && ` · ${Object.entries(each.actor).map(([name, value]) => `${named("scope", name)} ${name === "session" ? value.slice(value.indexOf("/") + 1) : value}`).join(", ")}`}</span></span><span>${textOf(each.record)}</span>${each.reason && html`<span class="faint">${each.reason}</span>`}</li>`)}</ol>
    <${More} pages=${pages} /></section>`;
}
