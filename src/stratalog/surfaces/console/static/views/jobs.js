// The work in the background: what waits, what failed and why, and trying it again.

import { useState } from "preact/hooks";

import { get, path, post } from "../api.js";
import { t } from "../i18n.js";
import { Badge, Button, Choice, Facts, Failure, html, Named, named, sessionHash, Time, useAct, usePages } from "../ui.js";
import { Cards, Counts, Page } from "./page.js";

const STATES = { waiting: "Waiting", running: "Running", failed: "Failed", stopped: "Stopped", done: "Done" };
const KINDS = { failed: "bad", stopped: "warn", running: "good" };
const AGAIN = new Set(["failed", "stopped"]);

export function Jobs() {
  const [state, setState] = useState("");
  const pages = usePages(
    async (cursor, signal) => {
      const page = await get(path(["jobs"], { state, limit: 50, cursor }), { signal });
      return { items: page.jobs, cursor: page.cursor, counts: page.counts, today: page.today };
    },
    [state],
  );
  const [run, act] = useAct();
  const renewed = (job) => pages.change((items) => items.map((each) => (each.id === job.id ? job : each)));
  const all = async () => {
    await run(() => post(path(["jobs", "retry"])));
    pages.again();
  };
  const counts = pages.first?.counts || {};
  const options = [["", t("All")], ...["waiting", "failed", "done"].map((each) => [each, t(STATES[each])])];
  return html`<${Page} title=${t("Jobs")} lead=${t("Work in the background: drawing facts from turns, tidying records, writing the pages about users and agents.")}
    filters=${html`<${Choice} name="jobs" label=${t("State")} value=${state} options=${options} onChange=${setState} />
      ${(counts.failed > 0 || counts.stopped > 0) && html`<${Button} icon="retry" onClick=${all} disabled=${act.busy}>${t("Retry all that failed")}<//>`}`}>
    <${Counts} counts=${counts} names=${STATES} />
    ${pages.first?.today.calls > 0 && html`<p class="faint">${t("Models were asked {calls} times today (UTC), for {tokens} tokens.", pages.first.today)}</p>`}
    <${Failure} error=${act.error} />
    <${Cards} pages=${pages} label=${t("Jobs")} empty=${[t("No jobs"), t("Jobs appear after turns, when the agent has memory and a model. `stratalog jobs run --forever` does them where the service does not.")]}
      card=${(job) => html`<${Job} key=${job.id} job=${job} renewed=${renewed} />`} />
  <//>`;
}

// A result that says something: neither nothing, nor where the next pass goes on.
const told = ([name, value]) => !["watermark", "next", "steps"].includes(name) && value !== 0 && value !== false && value?.length !== 0;

function Job({ job, renewed }) {
  const [run, state] = useAct();
  const act = async (name) => {
    const done = await run(() => post(path(["jobs", job.id, name])));
    if (done) renewed(done);
  };
  const result = Object.entries(job.result || {});
  return html`<li class="card" data-item tabindex="-1">
    <header><${Named} kind="job" name=${job.kind} /><${Badge} kind=${KINDS[job.state] || ""}>${t(STATES[job.state] || job.state)}<//>
      <span class="end faint"><${Time} at=${job.updated_at} /></span></header>
    ${job.error && html`<p class="text wrong">${job.error}</p>`}
    <${Facts} facts=${[
      [t("About"), job.session ? html`<a href=${sessionHash(job.session)}>${job.session.slice(job.session.indexOf("/") + 1)}</a>` : job.key],
      [t("Tries"), job.attempts || ""],
      [t("Next"), job.next_at > Date.now() - 60_000 && job.state === "waiting" ? html`<${Time} at=${job.next_at} long />` : ""],
      [t("User"), job.user === job.key ? "" : job.user],
      ...result.filter(told).slice(0, 6).map(([name, value]) => [named("result", name), typeof value === "object" ? JSON.stringify(value) : String(value)]),
    ]} />
    <${Failure} error=${state.error} />
    ${job.state !== "done" && job.state !== "running" && html`<footer>
      ${AGAIN.has(job.state) && html`<${Button} icon="retry" disabled=${state.busy} onClick=${() => act("retry")}>${t("Retry")}<//>`}
      <${Button} disabled=${state.busy} onClick=${() => act("run")}>${t("Do it now")}<//></footer>`}
  </li>`;
}
