// Models that do not translate: continuations, masks, labels of words and of texts.
import { announce, element, percent, text } from "./page.js";
import { events, isAborted, post } from "./requests.js";

const TOP = 8; // predictions in a list
const MAX_TOKENS = 60; // of a continuation
const MASK = "[MASK]";

// A token as it can be seen.
const visible = (token) => token.replaceAll("\n", "↵") || "∅";

// A list of bars; with `choose`, they are buttons.
function bars(items, choose) {
  return element("ol", { className: "bars" }, ...items.map(({ label, name, weight }, index) => {
    const parts = [element("span", {}, label), element("span", { className: "muted" }, percent(weight))];
    if (!choose) return element("li", { className: "item", weight }, ...parts);
    const button = element("button", { type: "button", weight, title: name ?? "" }, ...parts);
    button.addEventListener("click", () => choose(index));
    return element("li", {}, button);
  }));
}

// The attention maps of a text, where the model kind has them.
async function attend({ choice, value, signal, showAttention }) {
  try {
    const { attention } = await post("/v1/attention", { source: value, model: choice.model.id }, signal);
    showAttention(attention, "");
  } catch (error) {
    if (!isAborted(error)) showAttention(null, error.message);
  }
}

async function predict({ choice, value, signal }, options = {}) {
  const query = { texts: [value], model: choice.model.id, ...options };
  return (await post("/v1/predict", query, signal)).results[0];
}

export async function nextTokens(given) {
  const { choice, value, signal, output, clear, insert } = given;
  const { tokens } = await post("/v1/next", { text: value, model: choice.model.id, top_k: TOP }, signal);
  clear();
  const items = tokens.map(({ text: label, probability, is_end: isEnd }) => ({
    label: isEnd ? text("end") : visible(label),
    name: text("append", { text: label, percent: percent(probability) }),
    weight: probability,
  }));
  const choose = (index) => tokens[index].is_end || insert(value + tokens[index].text);
  output.replaceChildren(element("h4", {}, text("output.next")), bars(items, choose));
  await attend(given);
}

export async function complete(given) {
  const { choice, value, signal, output, clear } = given;
  clear();
  const added = element("span", { className: "new" });
  output.replaceChildren(value, added);
  const query = { prompt: value, model: choice.model.id, max_tokens: MAX_TOKENS, temperature: 0 };
  for await (const { data } of events("/v1/completions", query, signal)) added.append(data.choices[0].text);
  output.dataset.translation = value + added.textContent;
  announce(output.dataset.translation);
}

export async function fill(given) {
  const { output, value, clear, insert } = given;
  if (!value.includes(MASK)) {
    clear();
    output.textContent = text("input.masked", { mask: MASK });
    return;
  }
  const { blanks } = await predict(given, { top_k: TOP });
  clear();
  const parts = value.split(MASK);
  output.replaceChildren(...blanks.flatMap((predictions, blank) => {
    const items = predictions.map(({ word, probability }) => ({ label: visible(word), weight: probability }));
    const choose = (index) =>
      insert(parts.slice(0, blank + 1).join(MASK) + predictions[index].word + parts.slice(blank + 1).join(MASK));
    return [element("h4", {}, `${blank + 1}`), bars(items, choose)];
  }));
  await attend(given);
}

export async function tag(given) {
  const { words, labels, probabilities } = await predict(given);
  given.clear();
  given.output.replaceChildren(element("div", { className: "tagged" }, ...words.map((word, index) => {
    const isOutside = labels[index] === "O";
    const label = element("small", {}, isOutside ? "\u00a0" : `${labels[index]} ${percent(probabilities[index])}`);
    return element("span", { className: isOutside ? "" : "labelled" }, word, label);
  })));
  announce(words.map((word, index) => `${word} ${labels[index]}`).join(", "));
  await attend(given);
}

// A pair of texts is written on two lines.
export async function classify(given) {
  const { probabilities } = await predict({ ...given, value: given.value.trim().replaceAll("\n", "\t") });
  given.clear();
  const sorted = Object.entries(probabilities).sort((a, b) => b[1] - a[1]);
  given.output.replaceChildren(bars(sorted.map(([label, weight]) => ({ label, weight }))));
  announce(`${sorted[0][0]}: ${percent(sorted[0][1])}`);
  await attend(given);
}
