// What the console asks of the service: JSON, problems, and streams of events.

// The token is kept for this tab alone and goes with it. It is sent as a header and never as a cookie, so that no
// other page can have the browser send it.
const TOKEN = "stratalog.token";
export const token = {
  get: () => sessionStorage.getItem(TOKEN) || "",
  set: (text) => (text ? sessionStorage.setItem(TOKEN, text) : sessionStorage.removeItem(TOKEN)),
};

// For whom the bearer of a token asks that may ask for several; "" for nobody in particular. As the token it goes
// with the tab.
const ACTING = "stratalog.user";
export const acting = {
  get: () => sessionStorage.getItem(ACTING) || "",
  set: (user) => (user ? sessionStorage.setItem(ACTING, user) : sessionStorage.removeItem(ACTING)),
};

// An answer that is none: `status` 0 is a service that cannot be reached.
export class Problem extends Error {
  constructor(status, told = {}) {
    super(told.detail || told.title || `HTTP ${status}`);
    Object.assign(this, { status, title: told.title || "", hint: told.hint || "" });
    Object.assign(this, { kind: told.error || "", request: told.request || "", wrong: told.wrong || [] });
  }
}

let refused = () => {};
export function onRefused(call) {
  refused = call;
}

export function path(parts, query = {}) {
  const asked = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const tail = new URLSearchParams(asked.flatMap(([name, value]) => [value].flat().map((one) => [name, one])));
  return `/v1/${parts.map(encodeURIComponent).join("/")}${asked.length ? `?${tail}` : ""}`;
}

async function send(method, where, { body, headers = {}, signal, own } = {}) {
  const all = { accept: "application/json", ...headers };
  if (token.get()) all.authorization = `Bearer ${token.get()}`;
  if (acting.get() && !own) all["stratalog-user"] = encodeURIComponent(acting.get());
  if (body !== undefined) all["content-type"] = "application/json";
  const options = { method, headers: all, signal, cache: "no-store", credentials: "omit" };
  let response;
  try {
    response = await fetch(where, { ...options, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0);
  }
  if (response.ok) return response;
  const told = await response.json().catch(() => ({}));
  if (response.status === 401) refused();
  throw new Problem(response.status, told);
}

export async function ask(method, where, options) {
  const response = await send(method, where, options);
  return response.status === 204 ? null : response.json().catch(() => null);
}

// A user that was chosen in this tab before, and cannot be asked for with this token, is chosen no more.
export async function whoAsks() {
  // Asked without one, a service that wants one would answer with an error, which the browser tells its console.
  if (!token.get() && (await get("/health")).token) throw new Problem(401);
  try {
    return await get(path(["me"]));
  } catch (error) {
    if (!acting.get() || (error.status !== 400 && error.status !== 403)) throw error;
    acting.set("");
    return get(path(["me"]));
  }
}

export const mayAct = (who) => who.roles.includes("agent") || who.roles.includes("admin");
export const seesAll = (who) => who.roles.includes("admin") && !who.user;

export const get = (where, options) => ask("GET", where, options);
export const post = (where, body = undefined) => ask("POST", where, { body });
export const patch = (where, body) => ask("PATCH", where, { body });
export const remove = (where, options) => ask("DELETE", where, options);

// The text of a download, such as an export.
export const fetchText = async (where) => (await send("GET", where, { headers: { accept: "*/*" } })).text();

export function newKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

const TRIES = 8;
const ENDINGS = new Set(["done", "failed", "paused"]);

// Reads the events of a turn to its ending and gives each to `told`. A connection that breaks is made again after
// the last event that came; a message is sent under one key, so that it is never said twice.
export async function follow(method, where, { body, told, signal, dropped = () => {} }) {
  const headers = { accept: "text/event-stream" };
  if (method === "POST") headers["idempotency-key"] = newKey();
  let pause = 1000;
  for (let tries = 0; ; ) {
    try {
      const response = await send(method, where, { body, headers, signal });
      for await (const event of events(response.body)) {
        if (event.retry) pause = event.retry;
        if (event.id) headers["last-event-id"] = event.id;
        if (!event.data) continue;
        tries = 0;
        const value = JSON.parse(event.data);
        told(value);
        if (ENDINGS.has(value.type)) return value;
      }
    } catch (error) {
      if (error.name === "AbortError" || (error instanceof Problem && error.status !== 0)) throw error;
    }
    tries += 1;
    if (tries > TRIES) throw new Problem(0);
    dropped(tries);
    await rest(pause, signal);
  }
}

function rest(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("", "AbortError"));
    });
  });
}

// Server-Sent Events out of a body: `{id, data, retry}` each.
async function* events(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      held += value;
      for (let end; (end = held.indexOf("\n\n")) >= 0; held = held.slice(end + 2)) {
        const event = {};
        for (const line of held.slice(0, end).split("\n")) {
          const at = line.indexOf(":");
          if (at > 0) event[line.slice(0, at)] = line.slice(at + 1).trimStart();
        }
        if (event.retry) event.retry = Number(event.retry);
        yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
