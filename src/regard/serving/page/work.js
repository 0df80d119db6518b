// The view of a text: what is typed is sent to the model, whose task decides what is shown.
import { announce, delayed, element, find, languageName, number, showError, text } from "./page.js";
import { download, isAborted, postForm } from "./requests.js";
import { hideAttention, showAttention } from "./look.js";
import { forgetTranslation, translate } from "./translation.js";
import { classify, complete, fill, nextTokens, tag } from "./tasks.js";

const DELAY = 300; // milliseconds after the last key
const MASK = "[MASK]";
const input = find("#input");
const output = find("#output");

// By task: labels of the two sides, and what runs when the text has changed.
const VIEWS = {
  language_modeling: { input: "input.prompt", output: "output.continuation", run: nextTokens },
  masked_language_modeling: { input: "input.masked", output: "output.fill", run: fill },
  tagging: { input: "input", output: "output.tags", run: tag },
  classification: { input: "input", output: "output.classes", run: classify },
};
const TRANSLATION = { input: "input.language", output: "output.language", run: translate };
let choice = null;
let limits = null;
let controller = new AbortController();
const texts = new Map(); // by task, so that another task does not lose what was typed

const task = () => (choice.translates ? "translation" : choice.model.task);
const view = () => (choice.translates ? TRANSLATION : VIEWS[choice.model.task]);

export function showText(given, givenLimits) {
  if (choice && choice !== given) texts.set(task(), input.value);
  const isOther = choice && (choice.translates ? "translation" : choice.model.task) !== (given.translates ? "translation" : given.model.task);
  choice = given;
  limits = givenLimits;
  if (isOther) input.value = texts.get(task()) ?? "";
  showLabels();
  find("#mask").hidden = task() !== "masked_language_modeling";
  find("#continue").hidden = task() !== "language_modeling";
  const files = Boolean(choice.translates && choice.isFirst); // files are translated by direction
  find("#file-label").hidden = !files;
  find("#file-result").hidden = true;
  run();
}

function showLabels() {
  const labels = view() ?? { input: "input", output: "output" };
  const { source, target } = choice.direction ?? {};
  const values = { mask: MASK, language: source && languageName(source) };
  find("#input-label").textContent = text(source || !choice.translates ? labels.input : "input", values);
  find("#output-label").textContent =
    text(target || !choice.translates ? labels.output : "output", { language: target && languageName(target) });
  input.lang = source ?? "";
  output.lang = target ?? "";
  input.placeholder = text("placeholder");
}

export function swapTexts() {
  const translated = output.dataset.translation;
  if (translated) input.value = translated;
}

function count() {
  const length = [...input.value].length;
  find("#count").textContent = text("count", { count: number(length), limit: number(limits.characters) });
  return length;
}

function clear() {
  output.replaceChildren();
  output.className = "output";
  delete output.dataset.translation;
  find("#quality").textContent = "";
  find("#copy").hidden = true;
  find("#alternatives").hidden = true;
  forgetTranslation();
  hideAttention();
}

async function run(runner = view()?.run) {
  controller.abort(); // the answer to an earlier text
  controller = new AbortController();
  const { signal } = controller;
  showError(null);
  const length = count();
  if (length > limits.characters) {
    clear();
    showError(new Error(text("too-long", { count: number(length), limit: number(limits.characters) })));
    return;
  }
  if (!input.value.trim() || !runner) {
    clear();
    if (!runner) output.textContent = text("unsupported");
    return;
  }
  output.classList.add("waiting");
  output.ariaBusy = "true";
  try {
    await runner({ choice, value: input.value, signal, output, showAttention, clear, insert });
    find("#copy").hidden = !copied();
  } catch (error) {
    if (isAborted(error) || signal.aborted) return;
    clear();
    showError(error);
  } finally {
    if (!signal.aborted) {
      output.classList.remove("waiting");
      output.ariaBusy = "false";
      find("#stop").hidden = true;
    }
  }
}

// Put another text into the editor, as if it had been typed.
function insert(value) {
  input.value = value;
  run();
}

const copied = () => output.dataset.translation ?? "";

async function copy() {
  try {
    await navigator.clipboard.writeText(copied());
  } catch { // not allowed, as on a page without TLS
    const range = document.createRange();
    range.selectNodeContents(output);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    document.execCommand("copy");
  }
  find("#copy").textContent = text("copied");
  announce(text("copied"));
  setTimeout(() => { find("#copy").textContent = text("copy"); }, 2000);
}

async function translateFile(file) {
  const ending = file.name.slice(file.name.lastIndexOf(".")).toLowerCase();
  if (!limits.kinds.includes(ending)) {
    showError(new Error(text("file.kinds", { name: file.name, kinds: limits.kinds.join(", ") })));
    return;
  }
  const form = new FormData();
  form.append("file", file);
  form.append("source", choice.direction.source);
  form.append("target", choice.direction.target);
  const result = find("#file-result");
  result.hidden = true;
  showError(null);
  find("#quality").textContent = text("file.working", { name: file.name });
  try {
    const { translatedFileUrl } = await postForm("/translate_file", form);
    const blob = await download(new URL(translatedFileUrl, location).pathname);
    URL.revokeObjectURL(result.href);
    const name = file.name.replace(/(\.[^.]*)$/, `.${choice.direction.target}$1`);
    Object.assign(result, { href: URL.createObjectURL(blob), download: name, hidden: false });
    result.textContent = text("file.ready", { name });
    announce(result.textContent);
  } catch (error) {
    showError(error);
  }
  find("#quality").textContent = "";
}

const runLater = delayed(() => run(), DELAY);
input.addEventListener("input", () => {
  count();
  runLater();
});
find("#continue").addEventListener("click", () => {
  find("#stop").hidden = false;
  run(complete);
});
find("#stop").addEventListener("click", () => {
  controller.abort();
  find("#stop").hidden = true;
  output.classList.remove("waiting");
});
find("#mask").addEventListener("click", () => {
  input.setRangeText(MASK, input.selectionStart, input.selectionEnd, "end");
  input.focus();
  run();
});
find("#copy").addEventListener("click", copy);
find("#file").addEventListener("change", ({ target }) => {
  if (target.files.length) translateFile(target.files[0]);
  target.value = "";
});
const editor = input.closest(".editor");
editor.addEventListener("dragover", (event) => {
  if (find("#file-label").hidden || !event.dataTransfer.types.includes("Files")) return;
  event.preventDefault();
  editor.classList.add("over");
});
editor.addEventListener("dragleave", () => editor.classList.remove("over"));
editor.addEventListener("drop", (event) => {
  editor.classList.remove("over");
  if (find("#file-label").hidden || !event.dataTransfer.files.length) return;
  event.preventDefault();
  translateFile(event.dataTransfer.files[0]);
});
