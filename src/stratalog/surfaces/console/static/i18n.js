// Words in English and Chinese. The English words are the names; `zh` in `words.js` says each in Chinese, and `en`
// what the service calls by a name of its own.

import { en, zh } from "./words.js";

const KEPT = "stratalog.language";
export const LANGUAGES = { en: "English", zh: "中文" };
let language = localStorage.getItem(KEPT) || (navigator.language.startsWith("zh") ? "zh" : "en");
document.documentElement.lang = locale();

export const current = () => language;

export function locale() {
  return language === "zh" ? "zh-CN" : "en";
}

export function choose(name) {
  language = name;
  localStorage.setItem(KEPT, name);
  document.documentElement.lang = locale();
}

// `t("{n} turn|{n} turns", { n: 3 })`: the form for the number, with its values put in.
export function t(words, values = {}) {
  let told = (language === "zh" ? zh : en)[words] ?? words;
  if (told.includes("|")) {
    const [one, other] = told.split("|");
    told = new Intl.PluralRules(locale()).select(values.n) === "one" ? one : other;
  }
  return told.replace(/\{(\w+)\}/g, (_, name) => (typeof values[name] === "number" ? count(values[name]) : values[name]));
}

export const count = (number) => new Intl.NumberFormat(locale()).format(number);
export const share = (part) =>
  new Intl.NumberFormat(locale(), { style: "percent", maximumFractionDigits: part < 0.1 ? 1 : 0 }).format(part);
export const decimal = (number) => new Intl.NumberFormat(locale(), { maximumSignificantDigits: 3 }).format(number);

export function moment(ms) {
  return new Intl.DateTimeFormat(locale(), { dateStyle: "medium", timeStyle: "short" }).format(ms);
}

export const clock = (ms) => new Intl.DateTimeFormat(locale(), { timeStyle: "short" }).format(ms);
export const day = (ms) => new Intl.DateTimeFormat(locale(), { dateStyle: "full" }).format(ms);

const DAY = 86_400_000;

// Short, for a list: the time today, else the day, with the year where it is another.
export function shortly(ms, now = Date.now()) {
  const [then, today] = [new Date(ms), new Date(now)];
  const same = then.toDateString() === today.toDateString();
  if (same) return new Intl.DateTimeFormat(locale(), { timeStyle: "short" }).format(ms);
  const year = then.getFullYear() === today.getFullYear() || Math.abs(now - ms) < 90 * DAY ? undefined : "numeric";
  return new Intl.DateTimeFormat(locale(), { month: "short", day: "numeric", year }).format(ms);
}
