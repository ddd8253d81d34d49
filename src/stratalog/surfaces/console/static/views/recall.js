// Searching what was said, what is remembered and what was read up, with what each score is made of.

import { useEffect, useRef } from "preact/hooks";

import { get, path, seesAll } from "../api.js";
import { decimal, t } from "../i18n.js";
import { Empty, Failure, Gauge, go, hash, html, Icon, isPreview, keyOf, named, Preview, scopeOf, sessionHash, Skeleton, Time, unmarked, useLoad } from "../ui.js";

const KINDS = { record: "Records", turn: "Turns", document: "Documents" };
const STEP = 20;
const MOST = 100;

// An admin that asks as no user searches the records of everyone.
const sought = (words, limit, everyone, signal) =>
  get(path(["search"], { query: words, limit, records: true, documents: true, everyone: everyone || "" }), { signal });

export function Recall({ query, who }) {
  const words = (query.get("q") || "").trim();
  const limit = Math.min(MOST, Number(query.get("limit")) || STEP);
  const found = useLoad(async (signal) => (words ? sought(words, limit, seesAll(who), signal) : null), [words, limit]);
  const box = useRef();
  useEffect(() => {
    if (!words) box.current.focus();
  }, []);
  const submit = (event) => {
    event.preventDefault();
    go(hash(["recall"], { q: box.current.value.trim() }));
  };
  const hits = (!found.loading && found.data?.hits) || [];
  const kinds = Object.entries(KINDS).map(([kind, name]) => [name, hits.filter((each) => each.kind === kind)]);
  const several = kinds.filter(([, some]) => some.length).length > 1;
  return html`<section class="pane page" aria-label=${t("Recall")}>
    <div class="pane-head"><h1>${t("Recall")}</h1>
      <form role="search" class="line" onSubmit=${submit}><label class="search"><span class="sr">${t("Words, in any language")}</span><${Icon} name="recall" />
        <input ref=${box} type="search" data-search placeholder=${t("Words, in any language")} defaultValue=${words} key=${words} /><kbd aria-hidden="true">/</kbd></label>
        <button class="button primary"><span>${t("Search")}</span></button></form>
      <p class="faint searched"><${Searched} who=${who} /></p></div>
    <div class="body">
      <${Failure} error=${found.error} again=${found.again} />
      ${found.loading && words && html`<${Skeleton} rows=${6} />`}
      ${!words && html`<${Empty} title=${t("Search what was said")}>${t("Turns of all sessions, records and documents are found together. Each hit shows what its score is made of.")}<//>`}
      ${words && !found.loading && found.data && !hits.length && html`<${Empty} title=${t("Nothing found")}>${t("Try fewer or other words. Chinese is found by any two characters that stand together.")}<//>`}
      ${hits.length > 0 && html`<p class="faint" role="status">${t("{n} hit|{n} hits", { n: hits.length })}${found.data.more ? ` · ${t("there are more")}` : ""}${several && ` · ${t("Scores of two lists cannot be compared: each has bars of its own scale.")}`}</p>`}
      ${kinds.map(([name, some]) => html`<${Kind} key=${name} name=${t(name)} hits=${some} />`)}
      ${hits.length > 0 && found.data.more && limit < MOST && html`<div class="more"><a class="button" href=${hash(["recall"], { q: words, limit: limit + STEP })}>${t("Load more")}</a></div>`}
    </div>
  </section>`;
}

// What is searched, for whom.
function Searched({ who }) {
  if (seesAll(who)) return t("Searched: all sessions, records and documents of the tenant.");
  return who.user ? t("Searched: sessions, records and documents of {user}.", { user: who.user }) : t("Searched: what is nobody's in particular, and documents.");
}

// The hits of one kind. Their bars, and those of the parts, have one scale, which is said: scores of two kinds cannot
// be compared.
function Kind({ name, hits }) {
  if (!hits.length) return null;
  const most = Math.max(...hits.flatMap((each) => [each.score, ...Object.values(each.parts)]).map(Math.abs));
  return html`<section class="kind"><header><h2>${name} <b>${hits.length}</b></h2><p class="scale">${t("Bars here: 0 to {most}", { most: decimal(most) })}</p></header>
    <ol class="cards">${hits.map((hit, at) => html`<${Hit} key=${at} hit=${hit} most=${most} first=${at === 0} />`)}</ol></section>`;
}

function Hit({ hit, most, first }) {
  const { title, where, text, at, told, preview, terms = hit.terms || [] } = hitOf(hit);
  return html`<li class="card" data-item tabindex="-1">
    <header>${where ? html`<a href=${where} dir="auto">${title}</a>` : html`<strong dir="auto">${title}</strong>`}<span class="faint">${told}</span><span class="end faint"><${Time} at=${at} /></span></header>
    ${preview ? html`<${Preview} text=${text} />` : html`<p class="text" dir="auto"><${Marked} text=${text} terms=${terms} /></p>`}
    <${Score} score=${hit.score} most=${most} parts=${hit.parts} open=${first} />
  </li>`;
}

function hitOf(hit) {
  if (hit.kind === "turn") {
    const role = { user: "User", assistant: "Assistant", compaction: "Summary", note: "Note" }[hit.role] || "Tool";
    return { title: hit.title || hit.chat, where: sessionHash(hit.session, { at: hit.seq }), text: unmarked(hit.snippet), at: hit.ts, told: `${t(role)} · #${hit.seq}` };
  }
  if (hit.kind === "record") {
    const { record } = hit;
    return { title: keyOf(record), where: hash(["memory", record.id]), text: record.text, preview: isPreview(record), at: record.updated_at, told: scopeOf(record.scope) };
  }
  const { passage } = hit;
  return { title: passage.document.title || passage.document.name, where: "", text: unmarked(passage.snippet), at: 0, told: passage.document.collection, terms: passage.terms };
}

// The score and its parts, which add up to it.
function Score({ score, most, parts, open }) {
  const told = Object.entries(parts).sort((one, other) => Math.abs(other[1]) - Math.abs(one[1]));
  return html`<details class="score" open=${open}><summary><span>${t("Score")}</span><${Gauge} value=${score} most=${most} label=${`${t("Score")} ${decimal(score)}`} /><b class="value">${decimal(score)}</b></summary>
    <ul class="parts">${told.map(([name, value]) => html`<li key=${name}><span>${named("part", name)}</span><${Gauge} value=${Math.abs(value)} most=${most} label=${`${named("part", name)} ${decimal(value)}`} /><span class="value">${value < 0 ? "−" : "+"}${decimal(Math.abs(value))}</span></li>`)}</ul></details>`;
}

// The text with the words that were found marked. Terms are stems: a word is marked when it begins with one.
function Marked({ text, terms }) {
  const sought = terms.filter(Boolean).map((term) => {
    const stem = term.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    return /^[\x20-\x7e]+$/.test(term) ? `(?<![A-Za-z0-9])${stem.replace(/i$/, "[iy]")}[A-Za-z0-9]*` : stem;
  });
  if (!sought.length) return text;
  return text.split(new RegExp(`(${sought.join("|")})`, "giu")).map((piece, place) => (place % 2 ? html`<mark key=${place}>${piece}</mark>` : piece));
}
