// The list of sessions: of all agents and channels or of one, searched by title, the pinned ones first.

import { useEffect, useState } from "preact/hooks";

import { get, path, post } from "../api.js";
import { t } from "../i18n.js";
import { Button, Chips, Dialog, Empty, Failure, go, hash, html, Icon, More, sessionHash, Skeleton, Time, useAct, usePages } from "../ui.js";

const PAUSE = 200; // milliseconds without a key, after which titles are searched
const UNTITLED = "New session"; // the service's own word for a session that nobody named

// The agent and the channel that the list keeps to; "" for all.
export const placeOf = (query) => ({ agent: query.get("agent") || "", channel: query.get("channel") || "" });

export const titleOf = (session) => (session.title_by === "" && session.title === UNTITLED ? t("New session") : session.title || session.chat);

export function SessionList({ place, agents, open, stamp, changed }) {
  const [typed, setTyped] = useState("");
  const [title, setTitle] = useState("");
  useEffect(() => {
    const timer = setTimeout(() => setTitle(typed.trim()), typed ? PAUSE : 0);
    return () => clearTimeout(timer);
  }, [typed]);
  const pages = usePages(
    async (cursor, signal) => {
      const page = await get(path(["sessions"], { ...place, title, limit: 50, cursor }), { signal });
      return { items: page.sessions, cursor: page.cursor };
    },
    [place.agent, place.channel, title, stamp],
  );
  const chosen = open.join(":");
  const several = { agent: !place.agent && agents.length > 1, channel: !place.channel && channelsOf(agents, place.agent).length > 1 };
  return html`<section class="pane list" aria-label=${t("Sessions")}>
    <div class="pane-head">
      <div class="line"><h1>${t("Sessions")}</h1><${NewSession} place=${place} agents=${agents} changed=${changed} /></div>
      <label class="search"><span class="sr">${t("Search the titles")}</span><${Icon} name="recall" />
        <input type="search" data-search placeholder=${t("Search the titles")} value=${typed} onInput=${(event) => setTyped(event.target.value)} />
        <kbd aria-hidden="true">/</kbd></label>
      <${Where} place=${place} agents=${agents} open=${open} />
    </div>
    <${Failure} error=${pages.error} again=${pages.again} />
    ${!pages.ready && !pages.error && html`<${Skeleton} rows=${8} />`}
    ${title && html`<a class="beyond" href=${hash(["recall"], { q: title })}><${Icon} name="recall" /> ${t("Search all that was said for “{words}”", { words: title })}</a>`}
    ${pages.ready && !pages.items.length && html`<${Nothing} place=${place} title=${title} />`}
    <ul class="rows" aria-label=${t("Sessions")}>${pages.items.map((each) => html`<${SessionRow} key=${each.key} session=${each} chosen=${chosen} place=${place} several=${several} />`)}</ul>
    <${More} pages=${pages} />
  </section>`;
}

function Nothing({ place, title }) {
  if (title) return html`<p class="faint pad" role="status">${t("No title has these words.")}</p>`;
  if (place.agent || place.channel) return html`<${Empty} title=${t("No sessions here yet")}>${t("There are none of this agent and channel. Others are chosen above.")}<//>`;
  return html`<${Empty} title=${t("No sessions here yet")}>${t("Begin one with the button above, or import transcripts: `stratalog import FILE`.")}<//>`;
}

function SessionRow({ session, chosen, place, several }) {
  const where = [several.agent && session.agent, several.channel && session.channel].filter(Boolean);
  const title = titleOf(session);
  return html`<li><a data-item href=${sessionHash(session.key, place)} title=${title} aria-current=${chosen === `${session.agent}:${session.channel}:${session.chat}` ? "page" : undefined}>
    <span class="title">${session.pinned && html`<${Icon} name="pin" /><span class="sr">${t("Pinned")}: </span>`}<span dir="auto">${title}</span></span>
    <span class="under"><span>${[t("{n} message|{n} messages", { n: session.messages }), ...where].join(" · ")}</span><${Time} at=${session.updated_at} /></span>
  </a></li>`;
}

// The channels of an agent, or of all, with how many sessions each has.
function channelsOf(agents, agent) {
  const counted = new Map();
  for (const each of agents.filter(({ name }) => !agent || name === agent))
    for (const { name, sessions } of each.channels) counted.set(name, (counted.get(name) || 0) + sessions);
  return [...counted].sort(([one], [other]) => one.localeCompare(other));
}

// Filters by agent and channel, where there is more than one to choose from or one is chosen.
function Where({ place, agents, open }) {
  const move = (change) => go(hash(["sessions", ...open], { ...place, ...change }));
  const named = agents.map((each) => [each.name, each.sessions]);
  const channels = channelsOf(agents, place.agent);
  const row = (name, label, value, known, change) => {
    const all = value && !known.some(([each]) => each === value) ? [...known, [value, 0]] : known;
    return (all.length > 1 || value) && html`<${Chips} name=${name} label=${label} value=${value} options=${[["", t("All")], ...all]} onChange=${change} />`;
  };
  return html`${row("agent", t("Agent"), place.agent, named, (agent) => move({ agent, channel: "" }))}
    ${row("channel", t("Channel"), place.channel, channels, (channel) => move({ channel }))}`;
}

// Begins one with the agent that is chosen, or the only one there is; else it asks with which.
function NewSession({ place, agents, changed }) {
  const [run, state] = useAct();
  const [asked, setAsked] = useState(false);
  const agent = place.agent || (agents.length === 1 ? agents[0].name : "");
  const begin = async (name) => {
    const made = await run(() => post(path(["agents", name, "sessions"], { channel: place.channel }), {}));
    if (!made) return;
    setAsked(false);
    changed();
    go(sessionHash(made.key, place));
  };
  return html`<${Button} icon="add" onClick=${() => (agent ? begin(agent) : setAsked(true))} disabled=${state.busy}>${t("New")}<//>
    ${!asked && html`<${Failure} error=${state.error} />`}
    ${asked && html`<${WithWhom} agents=${agents} begin=${begin} state=${state} close=${() => setAsked(false)} />`}`;
}

function WithWhom({ agents, begin, state, close }) {
  const [name, setName] = useState(agents[0]?.name || "assistant");
  const submit = (event) => {
    event.preventDefault();
    if (name.trim()) begin(name.trim());
  };
  return html`<${Dialog} title=${t("A new session")} close=${close}>
    <form class="acting-form" onSubmit=${submit}>
      <label><span>${t("Agent")}</span><input value=${name} autocomplete="off" spellcheck="false" maxlength="1024" onInput=${(event) => setName(event.target.value)} /></label>
      <button class="button primary" disabled=${state.busy || !name.trim()}><span>${t("Begin")}</span></button>
    </form>
    ${agents.length > 0 && html`<ul class="chips" aria-label=${t("Agent")}>${agents.slice(0, 24).map((each) => html`<li key=${each.name}><button type="button" class="chip" aria-pressed=${String(each.name === name)} onClick=${() => setName(each.name)}><bdi>${each.name}</bdi>${!each.has_model && html` <small>${t("no model")}</small>`}</button></li>`)}</ul>`}
    <${Failure} error=${state.error} />
  <//>`;
}

export function NothingChosen() {
  return html`<section class="pane nothing"><${Empty} title=${t("Choose a session")}>${t("j and k go through the list, Enter opens. ? shows all keys.")}<//></section>`;
}
