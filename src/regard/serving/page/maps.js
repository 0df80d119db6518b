// Attention weights as numbers: averages over layers and heads, and subwords joined to words.
import { range } from "./page.js";

// Of layers x heads x rows x columns, one matrix: "average" or an index, as text.
export function averaged(layers, layer, head) {
  const chosenLayers = layer === "average" ? layers : [layers[Number(layer)]];
  const matrices = chosenLayers.flatMap((heads) => (head === "average" ? heads : [heads[Number(head)]]));
  return matrices[0].map((row, r) => row.map((_, c) => mean(matrices.map((matrix) => matrix[r][c]))));
}

const sum = (values) => values.reduce((total, value) => total + value, 0);
const mean = (values) => sum(values) / values.length;

const SPECIAL = /^<.*>$|^\[[A-Z]+\]$/;
const STARTS = /^[▁Ġ]/;
const UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]/u;

// Indices of subwords, by word: a word begins with a mark of a space, or has no "##".
export function groupsOf(tokens) {
  const marked = tokens.some((token) => STARTS.test(token));
  const pieces = tokens.some((token) => token.startsWith("##"));
  const groups = [];
  for (const [index, token] of tokens.entries()) {
    const previous = tokens[index - 1] ?? "</s>";
    const isSeparate = SPECIAL.test(token) || SPECIAL.test(previous) || UNSPACED.test(token) || UNSPACED.test(previous);
    const isContinuation = marked ? !STARTS.test(token) : pieces && token.startsWith("##");
    if (groups.length && isContinuation && !isSeparate) groups.at(-1).push(index);
    else groups.push([index]);
  }
  return groups;
}

const readable = (word) => word.replace(/[▁Ġ]/g, " ").replace(/##/g, "").trim() || "␣";

// A word attends to the sum of the subwords of another; its own subwords are averaged.
export function inWords(weights, rowTokens, columnTokens, isJoined) {
  const single = (tokens) => range(tokens.length).map((index) => [index]);
  const rowGroups = isJoined ? groupsOf(rowTokens) : single(rowTokens);
  const columnGroups = isJoined ? groupsOf(columnTokens) : single(columnTokens);
  const names = (tokens, groups) =>
    groups.map((group) => {
      const name = group.map((index) => tokens[index]).join("");
      return isJoined ? readable(name) : name;
    });
  return {
    rows: names(rowTokens, rowGroups),
    columns: names(columnTokens, columnGroups),
    weights: rowGroups.map((rows) =>
      columnGroups.map((columns) => mean(rows.map((r) => sum(columns.map((c) => weights[r][c])))))),
  };
}
