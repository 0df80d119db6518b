// The card of a model: what it is, how it was trained, and its settings.
import { element, find, number, showError, text } from "./page.js";
import { get } from "./requests.js";

const SIZE = { width: 460, height: 200, left: 44, right: 24, top: 12, bottom: 26 };
const SVG = "http://www.w3.org/2000/svg";
let asked = "";

export async function showCard(model, directionOf) {
  asked = model.id;
  try {
    const card = await get(`/v1/models/${encodeURIComponent(model.id)}`);
    if (card.id === asked) find("#card").replaceChildren(...sections(card, directionOf));
  } catch (error) {
    showError(error);
  }
}

function sections(card, directionOf) {
  const curves = chartsOf(card.curve);
  const training = curves.length ? curves : [element("p", { className: "muted" }, text("card.no-curve"))];
  return [element("div", { className: "cards" },
    panel("card.model", definitions(overview(card, directionOf))),
    panel("card.curve", ...training, definitions(bestScores(card.curve))),
    panel("card.data", definitions(Object.entries(card.data_statistics))),
    panel("card.settings", definitions(flat(card.settings))))];
}

const panel = (title, ...content) => element("section", { className: "panel" }, element("h3", {}, text(title)), ...content);

function overview(card, directionOf) {
  const { source, target, joint, labels } = card.vocabulary;
  const rows = [
    ["card.name", card.id],
    ["card.task", text(`task.${card.task}`)],
    ["card.kind", card.kind],
    ["card.directions", card.directions.map((direction) => directionOf({ direction })).join("; ")],
    ["card.parameters", card.parameters],
    ["card.vocabulary", joint ? source : `${number(source)} / ${number(target)}`],
    ["card.tokenizer", card.tokenizer],
    ["card.labels", labels.join(", ")],
    ["card.backend", card.backend],
    ["card.device", card.device],
    ["card.calibrated", card.is_calibrated],
  ];
  return rows.filter(([, value]) => value !== null && value !== "").map(([name, value]) => [text(name), value]);
}

function definitions(rows) {
  return element("dl", {}, ...rows.flatMap(([name, value]) =>
    [element("dt", {}, name), element("dd", {}, written(value))]));
}

function written(value) {
  if (typeof value === "number") return number(value);
  if (typeof value === "boolean") return text(value ? "yes" : "no");
  return value === null || value === undefined ? "–" : String(value);
}

const flat = (tree, before = "") => Object.entries(tree).flatMap(([name, value]) =>
  (value && typeof value === "object" && !Array.isArray(value) ? flat(value, `${before}${name}.`) : [[before + name, value]]));

const isScore = (name) => /bleu|chrf|accuracy|f1/i.test(name);

function bestScores(rows) {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row).filter(isScore)))];
  return names.map((name) => {
    const best = rows.filter((row) => row[name] !== undefined && row[name] !== null).reduce((a, b) => (b[name] > a[name] ? b : a));
    return [name, text("card.at", { value: number(best[name]), step: number(best.step) })];
  });
}

function points(rows, name) {
  return rows.filter((row) => Number.isFinite(row[name])).map((row) => [row.step, row[name]]);
}

// Charts of the losses, the first score, and the learning rate, as far as the log has them.
function chartsOf(rows) {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const score = names.find(isScore);
  const losses = names.filter((name) => /^(train_|valid(ation)?_)?loss$/.test(name)).sort();
  const groups = [losses, score ? [score] : [], names.filter((name) => name === "learning_rate")];
  return groups.map((group) => group.map((name) => ({ name, points: points(rows, name) })).filter((curve) => curve.points.length > 1))
    .filter((group) => group.length).map(chart);
}

function svg(tag, attributes, ...children) {
  const created = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) created.setAttribute(name, value);
  created.append(...children);
  return created;
}

function chart(curves) {
  const all = curves.flatMap((curve) => curve.points);
  const [steps, values] = [all.map(([step]) => step), all.map(([, value]) => value)];
  const [first, last, low, high] = [Math.min(...steps), Math.max(...steps), Math.min(...values), Math.max(...values)];
  const { width, height, left, right, top, bottom } = SIZE;
  const x = (step) => left + ((step - first) / (last - first || 1)) * (width - left - right);
  const y = (value) => height - bottom - ((value - low) / (high - low || 1)) * (height - top - bottom);
  const lines = [low, (low + high) / 2, high].flatMap((value) => [
    svg("line", { x1: left, x2: width - right, y1: y(value), y2: y(value) }),
    svg("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, number(value, 3)),
  ]);
  const ends = [first, last].map((step) => svg("text", { x: x(step), y: height - 6, "text-anchor": "middle" }, number(step)));
  const paths = curves.map((curve, index) => svg("path", {
    class: index ? "second" : "first",
    d: curve.points.map(([step, value], point) => `${point ? "L" : "M"}${x(step).toFixed(1)} ${y(value).toFixed(1)}`).join(""),
  }));
  const label = text("chart", { names: curves.map(({ name }) => name).join(", ") });
  const drawing = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, ...lines, ...ends, ...paths);
  const legend = curves.map(({ name }, index) => element("span", { className: index ? "legend second" : "legend" }, `— ${name}  `));
  return element("figure", {}, element("figcaption", { className: "muted" }, ...legend), drawing);
}
