"""The looks of an exported page: one sheet, for light and dark, for a phone and a wide screen, and for paper.

Distances are logical (start and end), so that a page of Arabic or Hebrew is laid out from its own side.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Final

STYLE: Final = """
:root {
  color-scheme: light dark;
  --ground: #f8f7f4; --surface: #fff; --raised: #f1efea; --line: #dedbd3;
  --text: #1c1f1e; --faint: #5a5f5c; --accent: #0b5c5c; --soft: #e3efed; --bad: #a3261b;
  --mono: ui-monospace, "SF Mono", "Cascadia Mono", Menlo, Consolas, "Noto Sans Mono CJK SC", monospace;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #131615; --surface: #191d1c; --raised: #222826; --line: #303735;
    --text: #e8ebe9; --faint: #a3aca8; --accent: #79d3cc; --soft: #173735; --bad: #ff9d90;
  }
}
* { box-sizing: border-box; }
html { background: var(--ground); color: var(--text); -webkit-text-size-adjust: 100%; }
body {
  margin: 0 auto; padding: 2rem clamp(1rem, 4vw, 2rem) 4rem; max-width: 50rem;
  font: 1rem/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "PingFang SC", "Microsoft YaHei",
    "Noto Sans CJK SC", "Noto Naskh Arabic", sans-serif;
  overflow-wrap: anywhere;
}
a { color: var(--accent); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: 2px; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 0.4rem; text-wrap: balance; }
h2 { font-size: 0.95rem; line-height: 1.4; margin: 0; }
time, .key, .facts, .event, figcaption { color: var(--faint); font-size: 0.875rem; }
.key { font-family: var(--mono); margin: 0; }
.facts { margin: 0.2rem 0 0; }
.page > p:last-child { margin-block-end: 0; }
.page { padding-block-end: 1.25rem; border-block-end: 1px solid var(--line); margin-block-end: 1.5rem; }
details > summary {
  cursor: pointer; color: var(--faint); font-size: 0.875rem; padding: 0.4rem 0; list-style-position: outside;
  margin-inline-start: 1.1rem;
}
details > summary:hover { color: var(--text); }
nav ol { margin: 0.25rem 0 0; padding-inline-start: 2.6rem; font-size: 0.9375rem; }
nav li { padding-block: 0.15rem; }
nav li::marker { color: var(--faint); font-variant-numeric: tabular-nums; }
article { margin-block: 1.5rem; scroll-margin-top: 1rem; }
article > header { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 0.75rem; }
article > header > .model { color: var(--faint); font-size: 0.875rem; }
article > header > time { margin-inline-start: auto; font-variant-numeric: tabular-nums; }
.at { color: inherit; text-decoration: none; }
.at:hover { text-decoration: underline; }
.user { background: var(--soft); border-radius: 0.6rem; padding: 0.8rem 1rem; }
.assistant h2 { color: var(--accent); }
.summary { border-inline-start: 3px solid var(--accent); padding-inline-start: 1rem; }
.body > :first-child { margin-block-start: 0.35rem; }
.body > :last-child { margin-block-end: 0; }
.body :is(h3, h4, h5, h6) { line-height: 1.3; margin: 1.2em 0 0.4em; font-size: 1.05rem; }
.body h3 { font-size: 1.2rem; }
.body blockquote { margin-inline: 0; padding-inline-start: 1rem; border-inline-start: 3px solid var(--line); }
.body :is(ul, ol) { padding-inline-start: 1.6rem; }
.body li > p { margin: 0.25rem 0; }
.body hr { border: 0; border-block-start: 1px solid var(--line); }
code { unicode-bidi: isolate; font-family: var(--mono); font-size: 0.875em; background: var(--raised);
  padding: 0.1em 0.3em; border-radius: 0.25rem; }
pre, pre code { direction: ltr; }
pre.plain { direction: inherit; }
pre {
  font-family: var(--mono); font-size: 0.8125rem; line-height: 1.5; margin: 0.5rem 0; padding: 0.7rem 0.9rem;
  background: var(--raised); border-radius: 0.4rem; white-space: pre-wrap; tab-size: 4; text-align: start;
}
pre code { background: none; padding: 0; font-size: inherit; }
.plain { white-space: pre-wrap; unicode-bidi: plaintext; }
.scroll { overflow-x: auto; margin-block: 0.75rem; }
table { border-collapse: collapse; font-size: 0.9375rem; }
th, td { border: 1px solid var(--line); padding: 0.3rem 0.6rem; text-align: start; overflow-wrap: normal;
  vertical-align: top; }
th { background: var(--raised); }
.center { text-align: center; }
.right { text-align: end; }
figure { margin: 0.75rem 0; }
img { display: block; max-width: 100%; max-height: 36rem; height: auto; border-radius: 0.4rem;
  background: var(--raised); }
.tool, .more {
  margin-block: 0.5rem; border: 1px solid var(--line); border-radius: 0.5rem; background: var(--surface);
  scroll-margin-top: 1rem;
}
.tool > summary, .more > summary { padding: 0.45rem 0.9rem 0.45rem 0; margin-inline-start: 1.9rem; }
.tool > summary > .line { display: inline-flex; gap: 0.6rem; width: 100%; align-items: baseline;
  vertical-align: bottom; }
.tool .name { color: var(--text); font-weight: 600; flex: 0 1 auto; min-width: 0; overflow: hidden;
  text-overflow: ellipsis; white-space: nowrap; }
.tool .gist { font-family: var(--mono); font-size: 0.8125rem; overflow: hidden; text-overflow: ellipsis;
  white-space: nowrap; flex: 1 1 0; min-width: 0; }
.tool .state { flex: none; }
.bad, .tool .bad { color: var(--bad); }
.withdrawn { color: var(--faint); text-decoration: line-through; }
.label { flex: none; color: var(--faint); font-size: 0.875rem; }
.inside { padding: 0 0.9rem 0.7rem; }
.inside > h3 { font-size: 0.8125rem; color: var(--faint); font-weight: 600; margin: 0.6rem 0 0; display: flex;
  gap: 0.75rem; }
.inside > h3 > time { margin-inline-start: auto; font-weight: 400; font-size: inherit; }
.inside > h3 > .label { font-weight: 400; font-size: inherit; }
.more > .inside { padding-block-start: 0.2rem; }
.fold { border: 1px dashed var(--line); border-radius: 0.6rem; margin-block: 1.5rem;
  padding: 0.2rem 1rem 1rem; }
.fold > article { margin-block: 0.75rem 0; }
.event { margin-block: 1rem; text-align: center; scroll-margin-top: 1rem; }
.event pre, .event .more { text-align: start; }
:target { outline: 2px solid var(--accent); outline-offset: 6px; border-radius: 0.4rem; }
@media (max-width: 30rem) {
  body { padding-block-start: 1.25rem; }
  h1 { font-size: 1.35rem; }
  .fold { padding-inline: 0.6rem; }
}
@media print {
  body { max-width: none; padding: 0; }
  article, .tool { break-inside: avoid-page; }
}
"""

POLICY: Final = (
    "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
    f"style-src 'sha256-{base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()}'"
)
"""The page's policy: nothing is run or fetched, and no style but this one counts."""
