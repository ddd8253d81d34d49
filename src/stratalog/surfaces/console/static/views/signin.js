// The sign-in: a token, tried before it is kept.

import { useEffect, useRef, useState } from "preact/hooks";

import { token, whoAsks } from "../api.js";
import { t } from "../i18n.js";
import { Failure, html, Say } from "../ui.js";

export function SignIn({ done, language }) {
  const [error, setError] = useState();
  const [busy, setBusy] = useState(false);
  const box = useRef();
  useEffect(() => box.current.focus(), []);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    token.set(box.current.value.trim());
    try {
      done(await whoAsks());
    } catch (problem) {
      token.set("");
      if (problem.status === 401) Object.assign(problem, { message: t("This token is not known, or does not hold any more."), hint: "" });
      setError(problem);
      setBusy(false);
    }
  };
  return html`<main id="main" class="signin"><form onSubmit=${submit}>
    <svg class="mark" viewBox="0 0 24 24" aria-hidden="true"><path d="M3 7h18M3 12h13M3 17h18" /></svg>
    <h1>${t("Sign in to Stratalog")}</h1>
    <label><span>${t("Token")}</span><input ref=${box} type="password" autocomplete="off" spellcheck="false" required placeholder="strata_…" aria-describedby="token-hint" /></label>
    <p id="token-hint" class="faint"><${Say} words=${t("`stratalog token make` makes one. It is kept in this tab alone, and is gone when you close it.")} /></p>
    <${Failure} error=${error} />
    <button class="button primary" disabled=${busy}><span>${t("Sign in")}</span></button>
    ${language}
  </form></main>`;
}
