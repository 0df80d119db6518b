// Elements, texts in the chosen language, and settings that are remembered.
import { TEXTS } from "./texts.js";

export const find = (selector) => document.querySelector(selector);

export function element(tag, properties = {}, ...children) {
  const { dataset, weight, ...others } = properties;
  const created = Object.assign(document.createElement(tag), others);
  Object.assign(created.dataset, dataset ?? {});
  if (weight !== undefined) created.style.setProperty("--weight", percentage(weight));
  created.append(...children);
  return created;
}

export const percentage = (weight) => `${(100 * weight).toFixed(1)}%`;

export function remembered(name, otherwise) {
  try {
    return localStorage.getItem(name) ?? otherwise;
  } catch {
    return otherwise; // storage is disabled
  }
}

export function remember(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // storage is disabled
  }
}

const preferred = (navigator.languages ?? [navigator.language]).find((code) => /^(en|zh)\b/.test(code));
let language = remembered("language", (preferred ?? "en").slice(0, 2));
if (!(language in TEXTS)) language = "en";

export const currentLanguage = () => language;

export function text(name, values = {}) {
  const pattern = TEXTS[language][name] ?? TEXTS.en[name] ?? name;
  return pattern.replace(/\{(\w+)\}/g, (match, key) => values[key] ?? match);
}

export const locale = () => (language === "zh" ? "zh-CN" : "en");
export const percent = (value) => new Intl.NumberFormat(locale(), { style: "percent" }).format(value);
export const number = (value, digits = 4) =>
  new Intl.NumberFormat(locale(), { maximumSignificantDigits: Math.max(digits, Math.trunc(Math.abs(value)).toString().length) }).format(value);

export function languageName(code) {
  try {
    return new Intl.DisplayNames([locale()], { type: "language" }).of(code);
  } catch {
    return code;
  }
}

export function list(words) {
  return words.join(language === "zh" ? "、" : ", ");
}

export function useLanguage(code) {
  language = code;
  remember("language", code);
  showTexts();
  document.dispatchEvent(new Event("languagechange"));
}

export function showTexts() {
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  for (const each of document.querySelectorAll("[data-text]")) each.textContent = text(each.dataset.text);
  for (const each of document.querySelectorAll("[data-label]")) {
    each.ariaLabel = text(each.dataset.label);
    if (each.tagName === "BUTTON") each.title = each.ariaLabel;
  }
}

export const onLanguage = (callback) => document.addEventListener("languagechange", callback);

// Announced by screen readers, once the reader pauses.
export function announce(message) {
  find("#status").textContent = message;
}

export function showError(error) {
  const alert = find("#alert");
  alert.hidden = !error;
  alert.textContent = error?.message ?? "";
}

export function delayed(callback, milliseconds) {
  let timer;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => callback(...values), milliseconds);
  };
}

export const range = (count) => Array.from({ length: count }, (_, index) => index);
