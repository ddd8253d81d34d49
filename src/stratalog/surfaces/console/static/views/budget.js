// The budget bar: how the window is shared out among its sections, and what was cut.

import { useEffect, useRef, useState } from "preact/hooks";

import { count, share, t } from "../i18n.js";
import { Amount, Failure, html, Icon, Skeleton } from "../ui.js";

// In the order of the window. Each has a letter and a pattern beside its shade, so that no colour need be told apart.
const SECTIONS = {
  system: ["system", "System"],
  tools: ["tools", "Tools"],
  memory: ["memory", "Memory"],
  summary: ["summary", "Summary"],
  notice: ["notice", "Notice"],
  "recent turns": ["recent", "Recent turns"],
  recalled: ["recalled", "Recalled"],
  "new message": ["message", "New message"],
};
const LETTERS = "ABCDEFGHIJ";
const LETTER = 22; // pixels that a letter needs in its stretch
const OVER = [0.12, 0.3]; // what was cut stands beyond the window: at least and at most so much of it

// The sections as stretches: where each begins and how wide it is, as parts of the window; beyond it, `over` of it,
// what was cut.
export function stretches(context) {
  const whole = Math.max(1, context.budget, context.tokens);
  let at = 0;
  const parts = context.sections
    .filter((each) => each.tokens > 0 || each.left_out > 0)
    .map((each, place) => {
      const [kind, label] = SECTIONS[each.name] || ["other", each.name];
      const part = { kind, label: t(label), letter: LETTERS[place], tokens: each.tokens, leftOut: each.left_out, at };
      part.width = each.tokens / whole;
      at += part.width;
      return part;
    });
  const cut = parts.reduce((sum, each) => sum + each.leftOut, 0);
  const over = cut ? Math.max(OVER[0], Math.min(OVER[1], cut / whole)) : 0;
  const free = { kind: "free", label: t("Free"), letter: "", tokens: Math.max(0, context.budget - context.tokens), leftOut: 0, at };
  return { parts, free: { ...free, width: free.tokens / whole }, cut, over };
}

export function BudgetBar({ context, error, again, open, toggle }) {
  const [lit, setLit] = useState("");
  if (error) return html`<section class="budget"><${Failure} error=${error} again=${again} /></section>`;
  if (!context) return html`<section class="budget"><${Skeleton} rows=${1} /></section>`;
  const window = stretches(context);
  const { parts, free, cut } = window;
  const said = t("{used} of {all} tokens used", { used: context.tokens, all: context.budget });
  const told = [...parts, free, cutOf(window)].find((each) => each.kind === lit);
  const light = (kind) => ({ onPointerEnter: () => setLit(kind), onPointerLeave: () => setLit(""), onFocus: () => setLit(kind), onBlur: () => setLit("") });
  return html`<section class="budget" aria-label=${t("The window")}>
    <div class="budget-head">
      <h2>${t("The window")}</h2>
      ${told ? html`<p class="reading">${told.letter && html`<b>${told.letter}</b> `}<strong>${told.label}</strong> ${readingOf(told, context)}</p>`
        : html`<p><strong>${share(context.tokens / Math.max(1, context.budget))}</strong> ${said}${cut > 0 && html` · <span class="warn">${t("{n} left out", { n: cut })}</span>`}</p>`}
      <button type="button" class="button quiet fold-out" aria-expanded=${String(open)} aria-controls="budget-parts" onClick=${toggle}>
        <span>${open ? t("Hide the parts") : cut ? t("Parts and cuts") : t("Show the parts")}</span><${Icon} name="down" />
      </button>
    </div>
    <${Bar} window=${window} lit=${lit} light=${light} label=${said} reading=${(each) => `${each.label} ${readingOf(each, context)}`} />
    <div id="budget-parts" hidden=${!open}>
      ${open && html`<${Legend} rows=${[...parts, free]} budget=${context.budget} lit=${lit} light=${light} />
      <${Cut} parts=${parts} context=${context} />`}
    </div>
  </section>`;
}

const cutOf = ({ cut }) => ({ kind: "cut", label: t("Left out"), letter: "", tokens: 0, leftOut: cut });

// What a stretch stands for, in words after its name.
function readingOf({ tokens, leftOut, kind }, context) {
  const turns = context.turns_left_out ? t("{n} whole turn is not seen|{n} whole turns are not seen", { n: context.turns_left_out }) : "";
  if (kind === "cut") return [`${count(leftOut)} ${t("tokens")}`, turns].filter(Boolean).join(" · ");
  const held = [`${count(tokens)} ${t("tokens")}`, share(tokens / Math.max(1, context.budget))];
  return [...held, leftOut > 0 && t("{n} left out", { n: leftOut })].filter(Boolean).join(" · ");
}

const percent = (part) => `${(100 * part).toFixed(3)}%`;

// About how wide words are in the bar, in pixels.
const widthOf = (words) => [...words].reduce((sum, letter) => sum + (letter > "\u2e80" ? 12 : 7.4), 14);

function useWidth() {
  const box = useRef();
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const seen = new ResizeObserver(([entry]) => setWidth(entry.contentRect.width));
    seen.observe(box.current);
    return () => seen.disconnect();
  }, []);
  return [box, width];
}

function Bar({ window, lit, light, label, reading }) {
  const [box, width] = useWidth();
  const { parts, free, cut, over } = window;
  const scale = 1 / (1 + over); // the window is the bar, but for what was cut, which stands beyond its end
  const place = (each) => ({ x: percent(each.at * scale), width: percent(each.width * scale), height: "100%" });
  const stretch = (each, inside) => html`<g key=${each.kind} class=${lit === each.kind ? "lit" : ""} role="img" tabindex="0" aria-label=${reading(each)} ...${light(each.kind)}>${inside}<rect class="ring" ...${place(each)} /></g>`;
  return html`<svg ref=${box} class=${lit ? "bar some" : "bar"} role="group" aria-label=${label}>
    <${Patterns} />
    <rect class="window" width=${percent(scale)} height="100%" />
    ${parts.filter((each) => each.tokens).map((each) => stretch(each, html`
      <rect class="s-${each.kind}" ...${place(each)} />
      <rect fill="url(#p-${each.kind})" ...${place(each)} />
      <rect class="seam" x=${percent((each.at + each.width) * scale)} width="1" height="100%" />
      <${Label} each=${each} middle=${percent((each.at + each.width / 2) * scale)} room=${each.width * scale * width} />`))}
    ${free.tokens > 0 && stretch(free, html`<rect class="s-free" ...${place(free)} /><${Label} each=${free} middle=${percent((free.at + free.width / 2) * scale)} room=${free.width * scale * width} plain />`)}
    ${cut > 0 && html`${stretch({ ...cutOf(window), at: 1, width: over }, html`<rect class="s-cut" x=${percent(scale)} width=${percent(1 - scale)} height="100%" /><rect fill="url(#p-cut)" x=${percent(scale)} width=${percent(1 - scale)} height="100%" />
        <${Label} each=${{ letter: `−${count(cut)}`, label: "", width: over }} middle=${percent((1 + scale) / 2)} room=${(1 - scale) * width} />`)}
      <rect class="edge" x=${percent(scale)} width="3" height="100%" />`}
  </svg>`;
}

// The name of a stretch with its share, or its letter, or nothing, as there is room.
function Label({ each, middle, room, plain }) {
  const long = [each.letter, each.label, share(each.width)].filter(Boolean).join(" ");
  const words = each.label && widthOf(long) + 8 <= room ? long : each.letter;
  if (!words || room < Math.max(LETTER, widthOf(words) - 10)) return null;
  const half = Math.min(Math.max(18, widthOf(words)), room - 2) / 2;
  return html`<svg x=${middle} y="50%" class="letter" overflow="visible">${!plain && html`<rect x=${-half} y="-9" width=${2 * half} height="18" rx="9" />`}<text>${words}</text></svg>`;
}

function Legend({ rows, budget, lit, light }) {
  return html`<ul class="legend">${rows.map((each) => html`<li key=${each.kind} class=${lit === each.kind ? "lit" : ""} onPointerEnter=${light(each.kind).onPointerEnter} onPointerLeave=${light(each.kind).onPointerLeave}>
    <svg class="swatch" aria-hidden="true"><rect class="s-${each.kind}" width="100%" height="100%" /><rect fill="url(#p-${each.kind})" width="100%" height="100%" /></svg>
    <span class="name">${each.letter && html`<b>${each.letter}</b> `}${each.label}</span>
    <${Amount} n=${each.tokens} unit=${t("tokens")} />
    <span class="share">${share(each.tokens / Math.max(1, budget))}</span>
  </li>`)}</ul>`;
}

function Cut({ parts, context }) {
  const cut = parts.filter((each) => each.leftOut > 0);
  const nothing = !cut.length && !context.turns_left_out && !context.degraded;
  return html`<div class="cut">
    <h3>${t("What was cut")}</h3>
    ${nothing
      ? html`<p class="faint">${t("Nothing: all that there is fits the window.")}</p>`
      : html`<ul>
          ${context.degraded && html`<li class="strong">${t("Even the gentle cuts did not suffice: only the system, a notice and the last turns are left.")}</li>`}
          ${cut.map((each) => html`<li key=${each.kind}>${t("{name}: {n} token left out|{name}: {n} tokens left out", { name: each.label, n: each.leftOut })}</li>`)}
          ${context.turns_left_out > 0 && html`<li>${t("{n} whole turn is not seen|{n} whole turns are not seen", { n: context.turns_left_out })}</li>`}
        </ul>`}
    ${context.warning && html`<p class="faint">${context.warning}</p>`}
  </div>`;
}

function Patterns() {
  const pattern = (kind, path, size = 6) => html`<pattern id="p-${kind}" width=${size} height=${size} patternUnits="userSpaceOnUse"><path class=${kind === "cut" ? "texture cut-texture" : "texture"} d=${path} /></pattern>`;
  return html`<defs>
    ${pattern("system", "")}
    ${pattern("tools", "M0 6L6 0M-1 1L1 -1M5 7L7 5")}
    ${pattern("memory", "M1.500 1.500h1M4.500 4.500h1")}
    ${pattern("summary", "M0 3H6")}
    ${pattern("notice", "M0 3H6M3 0V6")}
    ${pattern("recent", "")}
    ${pattern("recalled", "M0 0L6 6M-1 5L1 7M5 -1L7 1")}
    ${pattern("message", "M3 0V6", 5)}
    ${pattern("other", "M0 6L6 0M0 0L6 6")}
    ${pattern("cut", "M0 6L6 0M-1 1L1 -1M5 7L7 5")}
    ${pattern("free", "")}
  </defs>`;
}
