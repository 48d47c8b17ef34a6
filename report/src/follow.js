"use strict";
// Asks for the sections of the page, and replaces those that have changed.
const INTERVAL_MS = 2000;
const TIMEOUT_MS = 10000;
const contents = new Map();
let answered = new Date();

async function refresh() {
  const connection = document.getElementById("connection");
  try {
    const reply = await fetch("sections.json", { cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS) });
    if (!reply.ok) throw new Error(`status ${reply.status}`);
    for (const { id, html } of await reply.json()) {
      if (contents.get(id) !== html) document.getElementById(id).innerHTML = html;
      contents.set(id, html);
    }
    answered = new Date();
    connection.textContent = "";
  } catch {
    connection.textContent = `No answer since ${answered.toLocaleTimeString()}: the run has ended, or cannot be reached. `
      + "The page shows its last state, and keeps trying.";
  }
  document.documentElement.dataset.refreshed = String(contents.size);
  setTimeout(refresh, INTERVAL_MS);
}

refresh();
