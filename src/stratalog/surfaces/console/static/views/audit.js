// Who asked the records for what, and how it ended.

import { useState } from "preact/hooks";

import { get, path } from "../api.js";
import { count, t } from "../i18n.js";
import { Badge, Choice, html, Icon, Named, named, partsOf, scopeOf, sessionHash, Time, usePages } from "../ui.js";
import { Cards, Page } from "./page.js";

const ENDINGS = { done: "Done", refused: "Refused", failed: "Failed" };
const KINDS = { done: "", refused: "warn", failed: "bad" };

export function Audit() {
  const [ending, setEnding] = useState("");
  const [user, setUser] = useState("");
  const pages = usePages(
    async (cursor, signal) => {
      const page = await get(path(["audit"], { ending, user, limit: 50, cursor }), { signal });
      return { items: page.lines, cursor: page.cursor };
    },
    [ending, user],
  );
  const options = [["", t("All")], ...Object.entries(ENDINGS).map(([each, words]) => [each, t(words)])];
  return html`<${Page} title=${t("Audit")} lead=${t("Who asked the records for what, and every refusal. Nobody's words stand here, only their lengths and marks.")}
    filters=${html`<${Choice} name="ending" label=${t("How it ended")} value=${ending} options=${options} onChange=${setEnding} />
      <label class="search"><span class="sr">${t("Only this user's")}</span><${Icon} name="profiles" /><input type="search" data-search placeholder=${t("Only this user's")} value=${user} onChange=${(event) => setUser(event.target.value.trim())} /><kbd aria-hidden="true">/</kbd></label>`}>
    <${Cards} tight pages=${pages} label=${t("Audit")} empty=${[t("No calls"), t("Every call of the records leaves a line here. Where a filter is set above, take it away.")]}
      card=${(line, at) => html`<${Line} key=${`${line.at}-${at}`} line=${line} />`} />
  <//>`;
}

// What was counted. Of what a purge counts in each store, `STORE.THING.before` and `.after`, what has changed.
function counted(counts) {
  return Object.entries(counts).flatMap(([name, number]) => {
    const [store, thing, when] = name.split(".");
    if (!when) return [`${named("count", name)} ${count(number)}`];
    const after = counts[`${store}.${thing}.after`];
    return when === "before" && after !== number ? [`${named("store", store)} ${named("count", thing)} ${count(number)} → ${count(after)}`] : [];
  });
}

// Whose records were asked for: who asks stands in the line already, and is not named twice.
function whose(line, scope) {
  if (scope.id && scope.id === line[scope.kind]) return named("own", scope.kind);
  return scopeOf(scope);
}

// The session, whose agent is named where it is not the one that asks.
function sessionOf(line) {
  const [agent, ...rest] = partsOf(line.session);
  return (agent === line.agent ? rest : [agent, ...rest]).join(":");
}

function Line({ line }) {
  const who = [line.user && `${t("User")} ${line.user}`, line.agent && `${t("Agent")} ${line.agent}`, ...line.roles.map((role) => named("role", role)), line.token && t("Token {id}", { id: line.token })].filter(Boolean);
  const done = line.ending === "done";
  const told = [
    ...line.scopes.filter((scope) => scope.kind !== "session" || scope.id !== line.session).slice(0, 4).map((scope) => whose(line, scope)),
    ...counted(line.counts),
    ...(done && line.reason && !line.scopes.some((scope) => scope.kind === line.reason) ? [named("why", line.reason)] : []),
  ].map((each) => html` · ${each}`);
  return html`<li class="card line-of" data-item tabindex="-1">
    <p class="what"><${Named} kind="call" name=${line.call} />${!done && html` <${Badge} kind=${KINDS[line.ending]}>${t(ENDINGS[line.ending] || line.ending)}<//>`}</p>
    <p class="text"><bdi>${who.join(t(", ")) || t("nobody named")}</bdi><span class="faint">${told}${line.session && html` · <a href=${sessionHash(line.session)}>${sessionOf(line)}</a>`}</span></p>
    <p class="faint"><${Time} at=${line.at} long /></p>
    ${!done && line.reason && html`<p class="text wrong">${line.reason}</p>`}
  </li>`;
}
