// For whom the bearer of a token looks that may look for several users.

import { useRef } from "preact/hooks";

import { get, path } from "../api.js";
import { t } from "../i18n.js";
import { Button, Dialog, html, Icon, useLoad } from "../ui.js";

const MOST = 24;

// The users that something is known of, as far as this token is told of them: those of pages and of records.
async function usersKnown(signal) {
  const ask = (where) => get(where, { signal, own: true }).catch(() => ({}));
  const [{ profiles = [] }, { records = [] }] = await Promise.all([
    ask(path(["profiles"], { kind: "user", limit: 500 })),
    ask(path(["memory", "records"], { everyone: true, limit: 500 })),
  ]);
  const named = [...profiles.map((each) => each.id), ...records.filter((each) => each.scope.kind === "user").map((each) => each.scope.id)];
  return [...new Set(named)].sort((one, other) => one.localeCompare(other));
}

export function Acting({ who, choose, close }) {
  const users = useLoad(usersKnown, []);
  const box = useRef();
  const admin = who.roles.includes("admin");
  const submit = (event) => {
    event.preventDefault();
    if (box.current.value.trim()) choose(box.current.value.trim());
  };
  const known = (users.data || []).slice(0, MOST);
  return html`<${Dialog} title=${t("For whom to look")} close=${close}>
    <p class="faint">${t("You see sessions, memory and search as this user has them, and what you write is theirs.")}</p>
    <form class="acting-form" onSubmit=${submit}>
      <label><span>${t("User")}</span><input ref=${box} autocomplete="off" spellcheck="false" maxlength="1024" defaultValue=${who.user} /></label>
      <button class="button primary"><span>${t("Look as this user")}</span></button>
    </form>
    ${known.length > 0 && html`<ul class="chips" aria-label=${t("Known users")}>${known.map((user) => html`<li key=${user}><button type="button" class="chip" aria-pressed=${String(user === who.user)} onClick=${() => choose(user)}><bdi>${user}</bdi></button></li>`)}</ul>`}
    ${who.user && html`<div class="actions start"><${Button} icon="undo" onClick=${() => choose("")}>${admin ? t("See all users again") : t("Look for nobody in particular")}<//></div>`}
  <//>`;
}

// Above all else while somebody looks as another.
export function Strip({ who, stop }) {
  return html`<aside class="strip" aria-label=${t("For whom to look")}><${Icon} name="profiles" /><p>${t("You look as")} <b><bdi>${who.user}</bdi></b></p><${Button} onClick=${stop}>${t("Stop looking as this user")}<//></aside>`;
}
