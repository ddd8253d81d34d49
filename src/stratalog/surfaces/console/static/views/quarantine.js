// Texts that may not enter a prompt until somebody has looked.

import { useState } from "preact/hooks";

import { get, path, post } from "../api.js";
import { t } from "../i18n.js";
import { Badge, Button, Choice, Facts, Failure, html, sessionHash, Time, useAct, usePages, named } from "../ui.js";
import { Cards, Counts, Page } from "./page.js";

const STATES = { waiting: "Waiting", released: "Released", rejected: "Rejected" };
const KINDS = { waiting: "warn", released: "good", rejected: "bad" };

export function Quarantine() {
  const [state, setState] = useState("");
  const pages = usePages(
    async (cursor, signal) => {
      const page = await get(path(["quarantine"], { state, limit: 50, cursor }), { signal });
      return { items: page.held, cursor: page.cursor, counts: page.counts };
    },
    [state],
  );
  const renewed = (held) => pages.change((items) => items.map((each) => (each.id === held.id ? held : each)));
  const options = [["", t("All")], ...Object.entries(STATES).map(([each, words]) => [each, t(words)])];
  return html`<${Page} title=${t("Quarantine")} lead=${t("Texts that look like an attack. None enters a prompt until it is released; what is released is still quoted as data.")}
    filters=${html`<${Choice} name="held" label=${t("State")} value=${state} options=${options} onChange=${setState} />`}>
    <${Counts} counts=${pages.first?.counts} names=${STATES} />
    <${Cards} pages=${pages} label=${t("Quarantine")} empty=${[t("Nothing is held"), t("What recall or a tool brings is looked at before it enters a prompt. What looks like an attack waits here.")]}
      card=${(held) => html`<${Held} key=${held.id} held=${held} renewed=${renewed} />`} />
  <//>`;
}

function Held({ held, renewed }) {
  const [run, state] = useAct();
  const act = async (name) => {
    const done = await run(() => post(path(["quarantine", held.id, name])));
    if (done) renewed(done);
  };
  return html`<li class="card" data-item tabindex="-1">
    <header><${Badge} kind=${KINDS[held.state]}>${t(STATES[held.state])}<//><strong>${held.reasons.map((each) => named("reason", each)).join(t(", "))}</strong><span class="end faint"><${Time} at=${held.at} /></span></header>
    <pre class="sheet" tabindex="0" dir="auto" aria-label=${t("The text")}>${held.text}</pre>
    <${Facts} facts=${[
      [t("From"), named("origin", held.origin)],
      [t("Where"), held.source],
      [t("Met"), t("{n} time|{n} times", { n: held.seen })],
      [t("User"), held.user],
      [t("Session"), held.session && html`<a href=${sessionHash(held.session)}>${held.session.slice(held.session.indexOf("/") + 1)}</a>`],
      [t("Decided"), held.decided_at ? html`<${Time} at=${held.decided_at} long /> ${held.decided_by}` : ""],
    ]} />
    <${Failure} error=${state.error} />
    <footer>
      ${held.state !== "released" && html`<${Button} icon="check" disabled=${state.busy} onClick=${() => act("release")}>${t("Release")}<//>`}
      ${held.state !== "rejected" && html`<${Button} class="button danger" icon="close" disabled=${state.busy} onClick=${() => act("reject")}>${t("Reject")}<//>`}
    </footer>
  </li>`;
}
