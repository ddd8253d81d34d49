// A view that is one list below a head: its title, what it is, its filters.

import { t } from "../i18n.js";
import { Empty, Failure, html, More, Skeleton } from "../ui.js";

export function Page({ title, lead, filters, children }) {
  return html`<section class="pane page" aria-label=${title}>
    <div class="pane-head"><div class="line"><h1>${title}</h1></div><p class="lead">${lead}</p>${filters && html`<div class="filters">${filters}</div>`}</div>
    <div class="body">${children}</div>
  </section>`;
}

// The pages of a list as cards, with what is said when there are none.
export function Cards({ pages, empty, card, label, tight }) {
  return html`
    <${Failure} error=${pages.error} again=${pages.again} />
    ${!pages.ready && !pages.error && html`<${Skeleton} rows=${5} />`}
    ${pages.ready && !pages.items.length && !pages.cursor && html`<${Empty} title=${empty[0]}>${empty[1]}<//>`}
    ${pages.items.length > 0 && html`<ul class="cards ${tight ? "tight" : ""}" aria-label=${label}>${pages.items.map(card)}</ul>`}
    <${More} pages=${pages} />`;
}

export function Counts({ counts, names }) {
  const told = Object.entries(counts || {}).filter(([, number]) => number);
  if (!told.length) return null;
  return html`<p class="counts">${told.map(([name, number]) => html`<span key=${name}><b>${number}</b> ${t(names[name] || name)}</span>`)}</p>`;
}
