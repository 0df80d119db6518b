// Translations: streamed, with the confidence of each word, alternatives and attention maps.
import { announce, element, find, number, percent, list, text } from "./page.js";
import { events, isAborted, post, RequestError } from "./requests.js";

const ALTERNATIVES = 4;
const LOW = 0.5; // words below this confidence are underlined
const MAX_ATTENTION = 600; // characters
// From all that the page shows to the translation alone: not every model kind has everything.
const LEVELS = [["num_hypotheses", "confidence", "attention"], ["confidence", "attention"], ["attention"], []];
const levels = new Map(); // of models, as far as known
let ranked = [];

export function forgetTranslation() {
  ranked = [];
}

export function languages(choice) {
  const { source, target } = choice.direction ?? {};
  return choice.isMultilingual ? { source_lang: source, target_lang: target } : {};
}

function queryOf(choice, value, names) {
  const all = { num_hypotheses: ALTERNATIVES, confidence: true, attention: [...value].length <= MAX_ATTENTION };
  const options = Object.fromEntries(names.map((name) => [name, all[name]]));
  return { texts: [value], model: choice.model.id, ...languages(choice), ...options };
}

// The answer with all that the model supports; `onSegment` gets sentences as they are ready.
async function answerOf(choice, value, signal, onSegment) {
  const first = choice.model.task === "nonautoregressive_translation" ? LEVELS.length - 2 : 0;
  let level = levels.get(choice.model.id) ?? first;
  for (;; level += 1) {
    try {
      let result = null;
      for await (const { name, data } of events("/v1/translate", queryOf(choice, value, LEVELS[level]), signal)) {
        if (name === "segment") onSegment(data);
        else if (name === "done") [result] = data.translations;
      }
      if (!result) throw new RequestError(text("error.network"), 0);
      levels.set(choice.model.id, level);
      return result;
    } catch (error) {
      if (isAborted(error) || error.status !== 400 || level === LEVELS.length - 1) throw error;
    }
  }
}

export async function translate({ choice, value, signal, output, showAttention, clear }) {
  const segments = [];
  const result = await answerOf(choice, value, signal, ({ segment, translation }) => {
    segments[segment] = translation;
    output.textContent = segments.filter(Boolean).join(" ");
  });
  clear();
  const known = new Set();
  ranked = [result, ...result.alternatives].filter((each) => !known.has(each.text) && known.add(each.text));
  const attend = (maps, note) => showAttention(maps, note);
  const show = (index) => showHypothesis(index, { choice, value, signal, output, attend, result });
  showAlternatives(show);
  show(0);
  announce(text("ready", { text: result.text }));
}

function showHypothesis(index, { choice, value, signal, output, attend, result }) {
  const hypothesis = ranked[index];
  output.dataset.translation = hypothesis.text;
  showWords(output, hypothesis);
  showQuality(hypothesis, result);
  for (const [position, button] of find("#alternatives").querySelectorAll("button").entries()) {
    button.ariaPressed = String(position === index);
  }
  if (index === 0) {
    const isLong = [...value].length > MAX_ATTENTION;
    attend(result.attention, isLong ? text("look.long", { limit: number(MAX_ATTENTION) }) : "");
  } else if (result.attention) {
    const query = { source: value, target: hypothesis.text, model: choice.model.id, ...languages(choice) };
    post("/v1/attention", query, signal).then(
      ({ attention }) => ranked[index] === hypothesis && attend(attention, ""),
      (error) => isAborted(error) || attend(null, error.message),
    );
  }
}

// Positions of words are counted in characters, not in units of UTF-16.
export function showWords(output, { text: whole, words }) {
  const characters = [...whole];
  const parts = [];
  let position = 0;
  for (const { start, end, confidence } of words ?? []) {
    parts.push(characters.slice(position, start).join(""));
    const word = characters.slice(start, end).join("");
    if (confidence < LOW) {
      const remark = text("weak", { percent: percent(confidence) });
      const hidden = element("span", { className: "unseen" }, ` (${remark})`);
      parts.push(element("span", { className: "weak", title: remark }, word, hidden));
    } else parts.push(word);
    position = end;
  }
  output.replaceChildren(...parts, characters.slice(position).join(""));
}

function showQuality({ confidence, words }, { warnings }) {
  const remarks = [];
  if (confidence !== null && confidence !== undefined) remarks.push(text("quality", { percent: percent(confidence) }));
  if (words?.some((word) => word.confidence < LOW)) remarks.push(text("weak.words"));
  if (warnings.length) remarks.push(text("warnings", { list: list(warnings) }));
  find("#quality").textContent = remarks.join(" · ");
}

function showAlternatives(show) {
  const buttons = ranked.map((each, index) => {
    const score = element("span", { className: "muted" }, each.score === null ? "" : text("score", { score: each.score.toFixed(2) }));
    const button = element("button", { type: "button" }, element("span", {}, each.text), score);
    button.addEventListener("click", () => show(index));
    return element("li", {}, button);
  });
  find("#alternatives ol").replaceChildren(...buttons);
  find("#alternatives").hidden = ranked.length < 2;
}
