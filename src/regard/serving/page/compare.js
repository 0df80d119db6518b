// Two translation models with the same text; words that differ are marked.
import { announce, delayed, element, find, range, showError, text } from "./page.js";
import { isAborted, post } from "./requests.js";
import { languages } from "./translation.js";

const input = find("#compare-input");
let sides = []; // of two models: the select element, the output, and the translation
let choices = [];
let controller = new AbortController();

export function showComparison(translators, current, nameOf) {
  choices = translators;
  find("#compare-none").hidden = choices.length > 1;
  find("#compare-body").hidden = choices.length < 2;
  if (choices.length < 2) return;
  const previous = sides.map(({ select }) => select.value);
  if (!input.value) input.value = find("#input").value;
  const first = Math.max(0, choices.indexOf(current));
  const partner = choices.findIndex((other, index) => index !== first && sameDirection(other, choices[first]));
  const preset = previous.length ? previous : [first, partner >= 0 ? partner : (first + 1) % choices.length];
  sides = range(2).map((side) => {
    const options = choices.map((choice, index) => element("option", { value: index }, nameOf(choice)));
    const select = element("select", { ariaLabel: text("compare.side", { number: side + 1 }) }, ...options);
    select.value = preset[side];
    select.addEventListener("change", run);
    const output = element("div", { className: "output", role: "group", tabIndex: 0, ariaLabel: text("output") });
    return { select, output };
  });
  find("#compare-sides").replaceChildren(
    ...sides.map(({ select, output }) => element("div", { className: "panel editor" }, element("div", { className: "bar" }, select), output)));
  run();
}

const sameDirection = (a, b) => a.direction?.source === b.direction?.source && a.direction?.target === b.direction?.target;

async function run() {
  controller.abort();
  controller = new AbortController();
  const { signal } = controller;
  showError(null);
  find("#compare-note").textContent = "";
  if (!input.value.trim()) {
    for (const { output } of sides) output.textContent = "";
    return;
  }
  try {
    const translations = await Promise.all(sides.map(async ({ select, output }) => {
      const choice = choices[Number(select.value)];
      output.lang = choice.direction?.target ?? "";
      const query = { texts: [input.value], model: choice.model.id, ...languages(choice) };
      return (await post("/v1/translate", query, signal)).translations[0].text;
    }));
    showDifferences(translations);
  } catch (error) {
    if (!isAborted(error)) showError(error);
  }
}

// Words, or characters of languages that are written without spaces.
const wordsOf = (value) => value.match(/\p{Script=Han}|\p{Script=Hiragana}|\p{Script=Katakana}|\s+|[^\s\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]+/gu) ?? [];

// For both texts, which words belong to a longest common subsequence.
export function common(first, second) {
  const lengths = range(first.length + 1).map(() => new Uint16Array(second.length + 1));
  for (let i = first.length - 1; i >= 0; i -= 1) {
    for (let j = second.length - 1; j >= 0; j -= 1) {
      lengths[i][j] = first[i] === second[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  const shared = [new Set(), new Set()];
  for (let i = 0, j = 0; i < first.length && j < second.length;) {
    if (first[i] === second[j]) {
      shared[0].add(i++);
      shared[1].add(j++);
    } else if (lengths[i + 1][j] >= lengths[i][j + 1]) i += 1;
    else j += 1;
  }
  return shared;
}

function showDifferences(translations) {
  const split = translations.map(wordsOf);
  const shared = common(...split);
  split.forEach((words, side) => {
    sides[side].output.replaceChildren(...words.map((word, index) => {
      if (shared[side].has(index) || !word.trim()) return word;
      return element("mark", {}, element("span", { className: "unseen" }, text("added")), word);
    }));
  });
  const isWord = (word) => word.trim();
  const count = split[1].filter((word, index) => isWord(word) && !shared[1].has(index)).length;
  const total = split[1].filter(isWord).length;
  const isSame = translations[0] === translations[1];
  find("#compare-note").textContent = isSame ? text("compare.same") : text("compare.differences", { count, total });
}

input.addEventListener("input", delayed(run, 300));
