// Canvases of attention matrices.
const CELL = { smallest: 10, largest: 30, width: 900 }; // pixels
const FONT = "13px system-ui, sans-serif";
const GAP = 8; // between labels and cells
let placed = null; // where the cells of the large matrix are

function colours(near) {
  const style = getComputedStyle(near);
  const probe = document.createElement("span");
  near.append(probe);
  const of = (name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const result = { accent: of("--accent"), ink: style.color, line: of("--line") };
  probe.remove();
  return result;
}

function prepared(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  Object.assign(canvas, { width: width * ratio, height: height * ratio });
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  return context;
}

export function drawMatrix(canvas, { rows, columns, weights }) {
  const measure = canvas.getContext("2d");
  measure.font = FONT;
  const longest = (words) => Math.ceil(Math.max(...words.map((word) => measure.measureText(word).width)));
  const left = longest(rows) + GAP;
  const top = longest(columns) + GAP;
  const fitting = Math.floor((CELL.width - left) / columns.length);
  const size = Math.max(CELL.smallest, Math.min(CELL.largest, fitting));
  const context = prepared(canvas, left + size * columns.length + 1, top + size * rows.length + 1);
  const { accent, ink, line } = colours(canvas.parentElement);
  context.font = FONT;
  context.fillStyle = ink;
  context.textBaseline = "middle";
  context.textAlign = "right";
  rows.forEach((word, row) => context.fillText(word, left - GAP, top + size * (row + 0.5)));
  context.textAlign = "left";
  columns.forEach((word, column) => {
    context.save();
    context.translate(left + size * (column + 0.5), top - GAP);
    context.rotate(-Math.PI / 2);
    context.fillText(word, 0, 0);
    context.restore();
  });
  context.fillStyle = accent;
  context.strokeStyle = line;
  weights.forEach((values, row) => values.forEach((weight, column) => {
    context.globalAlpha = weight;
    context.fillRect(left + size * column, top + size * row, size, size);
    context.globalAlpha = 1;
    context.strokeRect(left + size * column + 0.5, top + size * row + 0.5, size, size);
  }));
  placed = { left, top, size, rows: rows.length, columns: columns.length };
}

// The cell under the pointer.
export function cellAt({ offsetX, offsetY }) {
  const row = Math.floor((offsetY - placed.top) / placed.size);
  const column = Math.floor((offsetX - placed.left) / placed.size);
  return row >= 0 && column >= 0 && row < placed.rows && column < placed.columns ? { row, column } : null;
}

// A pixel per cell, which the style sheet enlarges.
export function drawThumbnail(canvas, weights, near) {
  Object.assign(canvas, { width: weights[0].length, height: weights.length });
  const context = canvas.getContext("2d");
  context.fillStyle = colours(near).accent;
  weights.forEach((values, row) => values.forEach((weight, column) => {
    context.globalAlpha = weight;
    context.fillRect(column, row, 1, 1);
  }));
}
