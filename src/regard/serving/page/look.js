// Attention maps: the weights of a word, of a whole matrix, and of all heads.
import { element, find, list, onLanguage, percent, percentage, range, text } from "./page.js";
import { averaged, inWords } from "./maps.js";
import { drawMatrix, drawThumbnail, cellAt } from "./drawing.js";

const KINDS = ["cross", "encoder", "decoder"];
const LISTED = 5; // words in the list of the largest weights
const VISIBLE = 0.005; // smaller weights are 0 %
let maps = null;
let selected = { kind: "", layer: "average", head: "average" };
let shown = null; // the selected matrix, with the tokens of its rows (queries) and columns (keys)

const controls = { kind: find("#look-kind"), layer: find("#look-layer"), head: find("#look-head") };

export function hideAttention() {
  maps = shown = null;
  find("#look").hidden = true;
}

export function showAttention(given, note = "") {
  maps = given ?? null;
  find("#look").hidden = !maps && !note;
  find("#look-note").textContent = note;
  find("#look-note").hidden = !note;
  for (const each of ["#look-controls", "#look-lines", "#look-list", "#look-matrix", "#look-heads"]) {
    find(each).hidden = !maps;
  }
  if (maps) show();
}

function tokensOf(kind) {
  if (kind === "encoder") return { rows: maps.source, columns: maps.source };
  return kind === "decoder" ? { rows: maps.target, columns: maps.decoder_inputs } : { rows: maps.target, columns: maps.source };
}

function options(select, values, value) {
  select.replaceChildren(...values.map(([name, label]) => element("option", { value: name }, label)));
  select.value = value;
}

function show() {
  const kinds = KINDS.filter((kind) => maps[kind].length);
  if (!kinds.includes(selected.kind)) selected.kind = kinds[0];
  const layers = maps[selected.kind];
  if (Number(selected.layer) >= layers.length) selected.layer = "average";
  if (Number(selected.head) >= layers[0].length) selected.head = "average";
  const average = ["average", text("look.average")];
  const numbered = (count) => [average, ...range(count).map((index) => [String(index), index + 1])];
  options(controls.kind, kinds.map((kind) => [kind, text(`look.${kind}`)]), selected.kind);
  options(controls.layer, numbered(layers.length), selected.layer);
  options(controls.head, numbered(layers[0].length), selected.head);
  const tokens = tokensOf(selected.kind);
  const weights = averaged(layers, selected.layer, selected.head);
  shown = inWords(weights, tokens.rows, tokens.columns, find("#look-words").checked);
  showLines();
  drawOpen();
}

function drawOpen() {
  if (!shown) return;
  if (find("#look-matrix").open) {
    const canvas = find("#look-matrix canvas");
    drawMatrix(canvas, shown);
    canvas.ariaLabel = text("look.matrix.label", { rows: shown.rows.length, columns: shown.columns.length });
  }
  if (find("#look-heads").open) showHeads();
}

function showHeads() {
  const buttons = maps[selected.kind].flatMap((heads, layer) => heads.map((weights, head) => {
    const label = text("look.cell", { layer: layer + 1, head: head + 1 });
    const canvas = element("canvas", { ariaHidden: "true" });
    const isChosen = String(layer) === selected.layer && String(head) === selected.head;
    const button = element("button", { type: "button", ariaPressed: String(isChosen) }, canvas, label);
    button.addEventListener("click", () => {
      Object.assign(selected, isChosen ? { layer: "average", head: "average" } : { layer: String(layer), head: String(head) });
      show();
      find(`#look-heads button:nth-child(${layer * heads.length + head + 1})`).focus();
    });
    drawThumbnail(canvas, weights, find("#look"));
    return button;
  }));
  find("#look-heads .heads").replaceChildren(...buttons);
}

function showLines() {
  const isCross = selected.kind === "cross";
  const keys = line(shown.columns, isCross || selected.kind === "encoder" ? "look.source" : "look.inputs", "columns");
  const queries = line(shown.rows, selected.kind === "encoder" ? "look.source.queries" : "look.target", "rows");
  find("#look-lines").replaceChildren(keys, queries);
  find("#look-list").textContent = "";
}

// A line of words; one of them is in the order of the Tab key, arrow keys move among them.
function line(words, label, side) {
  const tokens = words.map((word, index) => {
    const button = element("button", { type: "button", className: "token", tabIndex: index ? -1 : 0, dataset: { side, index } }, word);
    for (const event of ["mouseenter", "focus", "click"]) button.addEventListener(event, () => activate(side, index));
    button.addEventListener("mouseleave", () => document.activeElement === button || rest());
    button.addEventListener("blur", rest);
    return button;
  });
  const group = element("div", { className: "tokens", role: "toolbar", ariaLabel: text(label) }, ...tokens);
  group.addEventListener("keydown", (event) => move(event, tokens));
  return element("div", { className: "line" }, element("span", {}, text(label)), group);
}

function move(event, tokens) {
  const index = tokens.indexOf(document.activeElement);
  const next = { ArrowLeft: index - 1, ArrowRight: index + 1, Home: 0, End: tokens.length - 1 }[event.key];
  let target = tokens[next];
  if (event.key === "ArrowUp" || event.key === "ArrowDown") {
    const side = event.key === "ArrowUp" ? "columns" : "rows";
    target = find(`.token[data-side="${side}"][tabindex="0"]`);
  }
  if (!target) return;
  event.preventDefault();
  for (const each of target.parentElement.children) each.tabIndex = -1;
  target.tabIndex = 0;
  target.focus();
}

function activate(side, index) {
  const { weights, rows, columns } = shown;
  const isRow = side === "rows";
  const values = isRow ? weights[index] : weights.map((row) => row[index]);
  const others = isRow ? columns : rows;
  rest();
  for (const button of document.querySelectorAll(`.token[data-side="${isRow ? "columns" : "rows"}"]`)) {
    button.style.setProperty("--weight", percentage(Math.min(1, values[Number(button.dataset.index)])));
  }
  find(`.token[data-side="${side}"][data-index="${index}"]`).classList.add("active");
  const largest = range(others.length).sort((a, b) => values[b] - values[a]).slice(0, LISTED)
    .filter((position, place) => !place || values[position] >= VISIBLE);
  const items = largest.map((position) => text("look.item", { word: others[position], percent: percent(values[position]) }));
  find("#look-list").textContent = text(isRow ? "look.row" : "look.column", { word: (isRow ? rows : columns)[index], list: list(items) });
}

function rest() {
  for (const each of document.querySelectorAll(".token")) {
    each.classList.remove("active");
    each.style.removeProperty("--weight");
  }
}

for (const [name, select] of Object.entries(controls)) {
  select.addEventListener("change", () => {
    selected[name] = select.value;
    show();
  });
}
find("#look-words").addEventListener("change", () => show());
for (const each of ["#look-matrix", "#look-heads"]) find(each).addEventListener("toggle", drawOpen);
find("#look-matrix canvas").addEventListener("mousemove", (event) => {
  const cell = shown && cellAt(event);
  if (!cell) return;
  const values = { query: shown.rows[cell.row], key: shown.columns[cell.column], percent: percent(shown.weights[cell.row][cell.column]) };
  find("#matrix-reading").textContent = text("look.pair", values);
});
document.addEventListener("themechange", drawOpen);
onLanguage(() => maps && show());
