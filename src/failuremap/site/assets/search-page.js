// The search field of every page: `/` focuses it, results stand below it and are reached by the arrow keys.
"use strict";

(() => {
  const root = new URL("..", document.currentScript.src);
  const field = document.getElementById("search");
  const form = field.form;
  const panel = document.createElement("div");
  const list = document.createElement("ul");
  const status = document.createElement("p");
  let loading = null;

  function loadScript(name) {
    return new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = new URL(`assets/${name}`, root);
      script.addEventListener("load", resolve);
      script.addEventListener("error", reject);
      document.head.append(script);
    });
  }

  /** What searches comes with its first use. The index is a script: from a disk a page may load one, and fetch nothing. */
  function load() {
    loading ??= Promise.all(["search.js", "search-index.js"].map(loadScript)).then(() => failuremapIndex);
    return loading;
  }

  function item([title, path, abstract]) {
    const link = document.createElement("a");
    link.href = new URL(path, root);
    link.append(title);
    const text = document.createElement("span");
    text.append(abstract);
    const made = document.createElement("li");
    made.append(link, text);
    return made;
  }

  function say(query, items) {
    const nothing = "Nothing found. Try fewer words, an id such as FM-001, or a line of an audit's output.";
    const count = items.length === 1 ? "1 result" : `${items.length} results`;
    status.textContent = query ? (items.length ? `${count}; arrow down leads there` : nothing) : "";
  }

  async function show() {
    const query = field.value.trim();
    const index = await load();
    if (query !== field.value.trim()) return;
    const { jump, results } = failuremapSearch.find(index, query);
    const named = jump ? [[field.value.trim().toUpperCase(), jump, "This id"]] : [];
    const items = [...named, ...results.map((result) => result.page)].map(item);
    list.replaceChildren(...items);
    say(query, items);
  }

  async function open(event) {
    event.preventDefault();
    await show();
    const first = list.querySelector("a");
    if (first) location.href = first.href;
  }

  /** Up and down walk through field and results; Escape leads back to the field, and empties it there. */
  function walk(event) {
    const places = [field, ...list.querySelectorAll("a")];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      const next = places.indexOf(document.activeElement) + step;
      places[Math.min(Math.max(next, 0), places.length - 1)].focus();
    } else if (event.key === "Escape") {
      if (document.activeElement === field) field.value = "";
      field.focus();
      show();
    }
  }

  function onKey(event) {
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    field.focus();
    field.select();
  }

  panel.className = "results";
  list.className = "found";
  list.setAttribute("aria-label", "Search results");
  status.className = "found-status";
  status.setAttribute("role", "status");
  panel.append(status, list);
  form.append(panel);
  form.addEventListener("submit", open);
  form.addEventListener("keydown", walk);
  field.addEventListener("focus", load);
  field.addEventListener("input", show);
  field.setAttribute("aria-keyshortcuts", "/");
  document.addEventListener("keydown", onKey);
  const asked = new URLSearchParams(location.search).get("q");
  if (asked) {
    field.value = asked;
    show();
  }
})();
