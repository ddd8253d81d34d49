// The page: which view the address names, what is around all of them, and the keys.

import { render } from "preact";
import { useCallback, useEffect, useState } from "preact/hooks";

import { acting, get, mayAct, onRefused, path, seesAll, token, whoAsks } from "./api.js";
import { choose, current, LANGUAGES, moment, t } from "./i18n.js";
import { Button, Choice, Dialog, go, hash, html, Icon, named, useLoad } from "./ui.js";
import { Acting, Strip } from "./views/acting.js";
import { Audit } from "./views/audit.js";
import { Jobs } from "./views/jobs.js";
import { Memory } from "./views/memory.js";
import { Profiles } from "./views/profiles.js";
import { Quarantine } from "./views/quarantine.js";
import { Recall } from "./views/recall.js";
import { SessionView } from "./views/session.js";
import { NothingChosen, placeOf, SessionList } from "./views/sessions.js";
import { SignIn } from "./views/signin.js";

const VIEWS = [
  ["sessions", "Sessions"],
  ["memory", "Memory"],
  ["recall", "Recall"],
  ["profiles", "Profiles"],
  ["jobs", "Jobs", "admin"],
  ["quarantine", "Quarantine", "admin"],
  ["audit", "Audit", "admin"],
];
const viewsOf = (who) => VIEWS.filter(([, , role]) => !role || who.roles.includes(role));
const ON_PHONE = 4; // views in the bar of a phone where there are many; the others are in its drawer

// --- where we are ---

function placeNow() {
  const [way, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = way.split("/").filter(Boolean).map(decoded);
  return { parts: parts.length ? parts : ["sessions"], query: new URLSearchParams(query) };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function usePlace() {
  const [place, setPlace] = useState(placeNow);
  useEffect(() => {
    const moved = () => setPlace(placeNow());
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  return place;
}

function titleOf(place) {
  const [, words] = VIEWS.find(([name]) => name === place.parts[0]) || ["", "Stratalog"];
  return place.parts.length > 1 ? `${place.parts.at(-1)} · ${t(words)}` : t(words);
}

// --- the page ---

// Who asks while the service does not say: every view is there, and tells what is wrong by itself.
const UNKNOWN = { tenant: "", user: "", roles: ["admin"], name: "", expires: 0, version: "" };

function App() {
  const place = usePlace();
  const [, setLanguage] = useState(current());
  const [who, setWho] = useState(undefined); // undefined: not known yet; null: a token is needed
  const [shown, setShown] = useState("");
  const close = () => setShown("");
  const speak = (name) => {
    choose(name);
    setLanguage(name);
  };
  const learn = useCallback(() => whoAsks().then(setWho, (error) => setWho(error.status === 401 || error.status === 403 ? null : UNKNOWN)), []);
  useEffect(() => {
    onRefused(() => setWho(null));
    learn();
  }, []);
  useEffect(() => {
    document.title = `${titleOf(place)} · Stratalog`;
  });
  useKeys(place, who || UNKNOWN, setShown);
  if (who === undefined) return html`<p class="sr" role="status">${t("Loading")}</p>`;
  const leave = () => {
    token.set("");
    acting.set("");
    close();
    setWho(null);
  };
  const actAs = (user) => {
    acting.set(user);
    close();
    learn();
  };
  const language = html`<${Choice} name="language" label=${t("Language")} value=${current()} options=${Object.entries(LANGUAGES)} onChange=${speak} />`;
  if (!who) return html`<${SignIn} language=${language} done=${setWho} />`;
  const toMain = () => document.getElementById("main").focus();
  const around = { place, who, language, leave, show: setShown };
  return html`
    <button type="button" class="skip" onClick=${toMain}>${t("To the content")}</button>
    <${Rail} ...${around} />
    ${acting.get() && html`<${Strip} who=${who} stop=${() => actAs("")} />`}
    <main id="main" tabindex="-1" class=${place.parts.length > 1 ? "inner" : ""}><${View} key=${`${who.tenant}/${who.user}`} place=${place} who=${who} /></main>
    ${shown === "help" && html`<${Help} who=${who} close=${close} />`}
    ${shown === "acting" && html`<${Acting} who=${who} choose=${actAs} close=${close} />`}
    ${shown === "more" && html`<${Drawer} ...${around} close=${close} />`}`;
}

function View({ place, who }) {
  const [name, ...rest] = place.parts;
  const [stamp, setStamp] = useState(0);
  const agents = useLoad(async (signal) => (name === "sessions" ? (await get(path(["agents"]), { signal })).agents : []), [name === "sessions", stamp]);
  const changed = () => setStamp((n) => n + 1);
  if (name === "sessions") {
    const [agent, channel, chat] = rest;
    const list = placeOf(place.query);
    const at = place.query.get("at") || "";
    return html`<${SessionList} place=${list} agents=${agents.data || []} open=${rest.length === 3 ? rest : []} stamp=${stamp} changed=${changed} />
      ${rest.length === 3 ? html`<${SessionView} key=${rest.join("\n")} agent=${agent} channel=${channel} chat=${chat} at=${at} list=${list} agents=${agents.data || []} changed=${changed} />` : html`<${NothingChosen} />`}`;
  }
  const views = { memory: Memory, recall: Recall, profiles: Profiles, jobs: Jobs, quarantine: Quarantine, audit: Audit };
  const Chosen = viewsOf(who).some(([each]) => each === name) ? views[name] : Lost;
  return html`<${Chosen} rest=${rest} query=${place.query} who=${who} />`;
}

function Lost() {
  return html`<section class="pane nothing"><div class="empty"><h1>${t("There is no such page")}</h1><p>${t("It may be for tokens with another role.")}</p><a class="button" href="#/sessions">${t("To the list")}</a></div></section>`;
}

function Rail({ place, who, language, leave, show }) {
  const here = place.parts[0];
  const views = viewsOf(who);
  const narrow = views.length > ON_PHONE + 1 ? ON_PHONE : views.length; // in the bar of a phone
  const rest = views.slice(narrow).some(([name]) => name === here);
  return html`<header class="rail">
    <a class="brand" href="#/sessions"><svg viewBox="0 0 24 24" aria-hidden="true"><path d="M3 7h18M3 12h13M3 17h18" /></svg><span>Stratalog</span></a>
    <nav aria-label=${t("Views")}><ul>${views.map(([name, words], at) => html`<li key=${name} class=${at < narrow ? "" : "wide"}>
      <a href=${hash([name])} aria-current=${here === name ? "page" : undefined}><${Icon} name=${name} /><span>${t(words)}</span></a></li>`)}
      <li class="narrow"><button type="button" aria-haspopup="dialog" class=${rest ? "current" : ""} onClick=${() => show("more")}><${Icon} name="more" /><span>${t("More")}</span></button></li></ul></nav>
    <div class="rail-end wide"><${Who} who=${who} show=${show} />${language}
      <${Button} quiet icon="help" onClick=${() => show("help")}>${t("Keys")}<//>
      ${token.get() && html`<${Button} quiet icon="out" onClick=${leave}>${t("Sign out")}<//>`}</div>
  </header>`;
}

// Who asks, of which tenant, and for whom; a click chooses for whom.
function Who({ who, show }) {
  if (!who.tenant) return null;
  const roles = who.roles.filter((role) => role !== "metrics").map((role) => named("role", role));
  const told = html`<${Icon} name="profiles" /><span><b><bdi>${who.user || (seesAll(who) ? t("All users") : t("Nobody in particular"))}</bdi></b>
    <small><bdi>${who.tenant}</bdi> · ${roles.join(", ")}</small></span>`;
  const title = [who.name, who.expires ? `${t("Expires")} ${moment(who.expires)}` : "", `Stratalog ${who.version}`].filter(Boolean).join(" · ");
  if (!mayAct(who)) return html`<p class="who" title=${title}>${told}</p>`;
  return html`<button type="button" class="who" aria-haspopup="dialog" title=${title} onClick=${() => show("acting")}><span class="sr">${t("For whom to look")}: </span>${told}<${Icon} name="down" /></button>`;
}

function Drawer({ who, language, leave, close, show }) {
  const views = viewsOf(who);
  return html`<${Dialog} kind="drawer" title=${t("More")} close=${close}>
    <${Who} who=${who} show=${show} />
    <ul class="drawer-views">${(views.length > ON_PHONE + 1 ? views.slice(ON_PHONE) : []).map(([name, words]) => html`<li key=${name}><a href=${hash([name])} onClick=${close}><${Icon} name=${name} /><span>${t(words)}</span></a></li>`)}</ul>
    ${language}
    <div class="actions start"><${Button} quiet icon="help" onClick=${() => show("help")}>${t("Keys")}<//>${token.get() && html`<${Button} quiet icon="out" onClick=${leave}>${t("Sign out")}<//>`}</div>
  <//>`;
}

// --- keys ---

const KEYS = [
  ["/", "Go to the search"],
  ["j  k", "Next and previous in the list"],
  ["Enter", "Open"],
  ["1 … {n}", "Go to a view"],
  ["Esc", "Close, or leave a field"],
  ["?", "Show these keys"],
];

function Help({ who, close }) {
  return html`<${Dialog} title=${t("Keys")} close=${close}><dl class="keys">${KEYS.map(([keys, words]) => html`<div key=${keys}><dt>${keys.replace("{n}", viewsOf(who).length).split("  ").map((key) => html`<kbd key=${key}>${key}</kbd> `)}</dt><dd>${t(words)}</dd></div>`)}</dl><//>`;
}

const TYPING = "input:not([type=radio]):not([type=checkbox]), textarea, select";

function useKeys(place, who, setShown) {
  useEffect(() => {
    const pressed = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
      if (document.querySelector("dialog[open]")) return;
      if (event.target.matches?.(TYPING)) {
        if (event.key === "Escape") event.target.blur();
        return;
      }
      const act = { "/": () => document.querySelector("main [data-search]")?.focus(), j: () => step(1), k: () => step(-1), "?": () => setShown("help"), Escape: () => outward(place) }[event.key];
      const view = viewsOf(who)[Number(event.key) - 1];
      if (!act && !view) return;
      event.preventDefault();
      if (act) act();
      else go(hash([view[0]]));
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [place, who]);
}

function step(by) {
  const items = [...document.querySelectorAll("main [data-item]")].filter((each) => each.offsetParent !== null);
  if (!items.length) return;
  const at = items.indexOf(document.activeElement?.closest?.("[data-item]"));
  const chosen = at < 0 ? items.findIndex((each) => each.getAttribute("aria-current") === "page") : at;
  const next = items[Math.max(0, Math.min(items.length - 1, chosen < 0 ? (by > 0 ? 0 : items.length - 1) : chosen + by))];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}

function outward(place) {
  if (place.parts.length > 1) go(hash([place.parts[0]], place.parts[0] === "sessions" ? placeOf(place.query) : {}));
}

render(html`<${App} />`, document.getElementById("app"));
