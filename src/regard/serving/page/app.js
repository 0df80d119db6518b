// The frame of the page: language, colours, views, and the choice of the model.
import {
  currentLanguage, element, find, languageName, onLanguage, remember, remembered, showError, showTexts, text, useLanguage,
} from "./page.js";
import { get, useKey } from "./requests.js";
import { showText, swapTexts } from "./work.js";
import { showComparison } from "./compare.js";
import { showCard } from "./card.js";

const TRANSLATION = ["translation", "nonautoregressive_translation", "prefix_language_modeling"];
let choices = []; // a model, or a direction of a model
let limits = { characters: 20_000, kinds: [] };

function chosen() {
  return choices[Number(find("#model").value)] ?? choices[0];
}

const directionOf = ({ direction }) =>
  text("direction", { source: languageName(direction.source), target: languageName(direction.target) });

function choiceName(choice) {
  return choice.direction ? `${directionOf(choice)} · ${choice.model.id}` : choice.model.id;
}

function listChoices(models) {
  const seen = new Set();
  return models.flatMap((model) => {
    const translates = TRANSLATION.includes(model.task);
    const directions = translates && model.directions.length ? model.directions : [null];
    return directions.map((direction) => {
      const name = direction && `${direction.source}-${direction.target}`;
      const isFirst = name && !seen.has(name);
      if (name) seen.add(name);
      return { model, direction, translates, isFirst, isMultilingual: directions.length > 1 };
    });
  });
}

function showChoices() {
  const select = find("#model");
  const index = select.value || "0";
  const tasks = [...new Set(choices.map(({ model }) => model.task))];
  select.replaceChildren(...tasks.map((task) => {
    const options = choices.flatMap((choice, position) =>
      choice.model.task === task ? [element("option", { value: position }, choiceName(choice))] : []);
    return element("optgroup", { label: text(`task.${task}`) }, ...options);
  }));
  select.value = index;
}

const reversed = ({ direction, model }) => {
  const matching = choices.filter((other) => direction && other.direction
    && other.direction.source === direction.target && other.direction.target === direction.source);
  return matching.find((other) => other.model.id === model.id) ?? matching[0];
};

function show() {
  const view = ["#compare", "#card"].includes(location.hash) ? location.hash.slice(1) : "text";
  for (const section of document.querySelectorAll("[data-view]")) section.hidden = section.dataset.view !== view;
  for (const link of document.querySelectorAll("#tabs a[href^='#']")) {
    if (link.hash === `#${view}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  showError(null);
  const choice = chosen();
  find("#choice").hidden = view === "compare" || !choice;
  if (!choice) return;
  find("#swap").hidden = view !== "text" || !reversed(choice);
  if (view === "text") showText(choice, limits);
  else if (view === "compare") showComparison(choices.filter((each) => each.translates), choice, choiceName, limits);
  else showCard(choice.model, directionOf);
}

async function start() {
  try {
    const settings = await get("/frontend/settings");
    limits = { characters: settings.charLimit, kinds: settings.supportedFilesFormat };
    choices = listChoices((await get("/v1/models")).data);
    find("#key-form").hidden = true;
    showChoices();
    show();
  } catch (error) {
    if (error.status !== 401 && error.status !== 403) showError(error);
  }
}

function useTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  find("#theme").value = theme;
  remember("theme", theme);
  document.dispatchEvent(new Event("themechange"));
}

document.addEventListener("keyneeded", () => {
  find("#key-form").hidden = false;
  showError(new Error(text("key.needed")));
  find("#key").focus();
});
find("#key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  useKey(find("#key").value.trim());
  showError(null);
  start();
});
find("#language").value = currentLanguage();
find("#language").addEventListener("change", (event) => useLanguage(event.target.value));
find("#theme").addEventListener("change", (event) => useTheme(event.target.value));
find("#model").addEventListener("change", show);
find("#swap").addEventListener("click", () => {
  find("#model").value = choices.indexOf(reversed(chosen()));
  swapTexts();
  show();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new Event("themechange")));
addEventListener("hashchange", () => {
  if (location.hash === "#main") return; // the link that skips the header
  show();
  find("#main").focus({ preventScroll: true });
});
onLanguage(() => {
  showChoices();
  show();
});

useTheme(remembered("theme", "auto"));
showTexts();
start();
