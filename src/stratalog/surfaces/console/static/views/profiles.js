// MEMORY.md of agents and USER.md of users: reading them, what they said before, and undo.

import { useState } from "preact/hooks";

import { get, path, post } from "../api.js";
import { t } from "../i18n.js";
import { Button, Confirm, Empty, Failure, hash, html, Icon, More, Skeleton, Time, useLoad, usePages } from "../ui.js";

const FILES = { agent: "MEMORY.md", user: "USER.md" };

export function Profiles({ rest }) {
  const pages = usePages(
    async (cursor, signal) => {
      const page = await get(path(["profiles"], { limit: 50, cursor }), { signal });
      return { items: page.profiles, cursor: page.cursor };
    },
    [],
  );
  const [kind, id, environment = "production"] = rest;
  const chosen = (each) => each.kind === kind && each.id === id && each.environment === environment;
  return html`<section class="pane list" aria-label=${t("Profiles")}>
      <div class="pane-head"><h1>${t("Profiles")}</h1><p class="faint">${t("What is known of each user, and what each agent knows, as pages.")}</p></div>
      <${Failure} error=${pages.error} again=${pages.again} />
      ${!pages.ready && !pages.error && html`<${Skeleton} rows=${4} />`}
      ${pages.ready && !pages.items.length && html`<${Empty} title=${t("No pages yet")}>${t("They are written from the records every two hours, by `stratalog jobs run --forever` or the service.")}<//>`}
      <ul class="rows" aria-label=${t("Profiles")}>${pages.items.map((each) => html`<li key=${`${each.kind}/${each.id}/${each.environment}`}><a data-item href=${hash(["profiles", each.kind, each.id, ...(each.environment === "production" ? [] : [each.environment])])} aria-current=${chosen(each) ? "page" : undefined}>
        <span class="title"><span>${each.id}</span></span><span class="under"><span>${FILES[each.kind]} · ${each.kind === "agent" ? t("Agent") : t("User")}</span><span>${each.environment === "production" ? "" : each.environment}</span></span></a></li>`)}</ul>
      <${More} pages=${pages} />
    </section>
    ${id ? html`<${ProfilePane} key=${rest.join("\n")} kind=${kind} id=${id} environment=${environment} />` : html`<section class="pane nothing"><${Empty} title=${t("Choose a page")}>${t("You see what it says now and what it said before, and can take its last change back.")}<//></section>`}`;
}

function ProfilePane({ kind, id, environment }) {
  const where = (tail = []) => path(["profiles", kind, id, ...tail], { environment });
  const page = useLoad((signal) => get(where(), { signal }), [kind, id, environment]);
  const kept = useLoad((signal) => get(where(["versions"]), { signal }), [kind, id, environment]);
  const [asked, setAsked] = useState(false);
  const versions = kept.data?.versions || [];
  return html`<section class="pane record" aria-label=${id}>
    <header class="detail-head"><a class="button quiet square back" href="#/profiles" aria-label=${t("To the list")}><${Icon} name="back" /></a>
      <div class="titles"><h1>${id}</h1><p class="faint">${FILES[kind] || kind}</p></div>
      ${versions.length > 0 && html`<${Button} icon="undo" onClick=${() => setAsked(true)}>${t("Undo the last change")}<//>`}</header>
    <${Failure} error=${page.error || kept.error} again=${page.again} />
    ${!page.data && !page.error && html`<${Skeleton} rows=${6} />`}
    ${page.data && html`<div class="body">
      ${page.data.shown.trim() ? html`<${Sheet} text=${page.data.shown} />` : html`<p class="faint">${t("The page is empty.")}</p>`}
      <section><h2>${t("What it said before")}</h2>
        ${!versions.length && html`<p class="faint">${t("Nothing else is kept.")}</p>`}
        ${versions.map((each) => html`<details key=${each.replaced_at}><summary>${t("Until")} <${Time} at=${each.replaced_at} long /></summary><${Sheet} text=${withoutComments(each.text)} /></details>`)}
      </section></div>`}
    ${asked && html`<${Confirm} title=${t("Take the last change back?")} label=${t("Undo")} close=${() => setAsked(false)} act=${async () => {
      await post(where(["undo"]));
      page.again();
      kept.again();
    }}>${t("The page says again what it said before. Undo once more, and all is as it was.")}<//>`}
  </section>`;
}

const withoutComments = (text) => text.replace(/\s*<!--[\s\S]*?-->/g, "");

// Headings and lists of a page; all else is text as it stands.
function Sheet({ text }) {
  const lines = text.trim().split("\n");
  return html`<div class="sheet-page">${lines.map((line, place) => {
    const [, marks, words] = line.match(/^(#{1,6})\s+(.*)$/) || [];
    if (marks) return marks.length > 2 ? html`<h3 key=${place}>${words}</h3>` : html`<h2 key=${place}>${words}</h2>`;
    const item = line.match(/^\s*[-*]\s+(.*)$/);
    if (item) return html`<p key=${place} class="item" dir="auto">${item[1]}</p>`;
    return line.trim() ? html`<p key=${place} dir="auto">${line}</p>` : null;
  })}</div>`;
}
