// Requests to the server that this page came from.
import { text } from "./page.js";

let key = "";
try {
  key = sessionStorage.getItem("key") ?? "";
} catch {
  // storage is disabled
}

export function useKey(given) {
  key = given;
  try {
    sessionStorage.setItem("key", given);
  } catch {
    // storage is disabled
  }
}

export class RequestError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

async function send(path, options) {
  const headers = { ...options.headers, ...(key ? { Authorization: `Bearer ${key}` } : {}) };
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new RequestError(text("error.network"), 0);
  }
  if (response.ok) return response;
  const answer = await response.json().catch(() => ({}));
  const message = answer.error?.message ?? answer.error ?? response.statusText;
  if (response.status === 401 || response.status === 403) document.dispatchEvent(new Event("keyneeded"));
  throw new RequestError(message, response.status);
}

const posted = (body, signal) => ({
  method: "POST", body: JSON.stringify(body), signal, headers: { "Content-Type": "application/json" },
});

export const get = async (path, signal) => (await send(path, { signal })).json();
export const post = async (path, body, signal) => (await send(path, posted(body, signal))).json();
export const postForm = async (path, form) => (await send(path, { method: "POST", body: form })).json();
export const download = async (path) => (await send(path, {})).blob();

// The server-sent events of an answer: names and data.
export async function* events(path, body, signal) {
  const response = await send(path, posted({ ...body, stream: true }, signal));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    buffer += value;
    const parts = buffer.split("\n\n");
    buffer = parts.pop();
    for (const part of parts) {
      const fields = Object.fromEntries(part.split("\n").map((line) => line.split(/: (.*)/s, 2)));
      if (fields.data === "[DONE]") return;
      const data = JSON.parse(fields.data);
      if (data.error) throw new RequestError(data.error.message, 400);
      yield { name: fields.event ?? "", data };
    }
  }
}

export const isAborted = (error) => error.name === "AbortError";
