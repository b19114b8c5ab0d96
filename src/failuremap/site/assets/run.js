// Runs a stage's script in the page, beside what is recorded of it, and says whether it gave the same.
"use strict";

(() => {
  const FROM_DISK = "A page from a disk may not start Python: serve the folder (python -m http.server) and open it there.";
  const WORKER = new URL("run-worker.js", document.currentScript.src);
  let worker = null;
  let before = Promise.resolve();

  /** The script of one variant, as it stands on the page: of the numbers of all variants that of this one. */
  function sourceOf(button) {
    const code = document.querySelector(`#source-${button.dataset.run} code`).cloneNode(true);
    for (const number of code.querySelectorAll(".of")) {
      if (!number.classList.contains(`of-${button.dataset.variant}`)) number.remove();
    }
    return `${code.textContent.trimEnd()}\n`;
  }

  function answer(source) {
    worker ??= new Worker(WORKER, { type: "module" });
    return new Promise((resolve, reject) => {
      worker.onmessage = ({ data }) => (data.error ? reject(new Error(data.error)) : resolve(data));
      worker.onerror = (event) => {
        worker = null;
        reject(new Error(event.message ?? "the browser refused to start a worker"));
      };
      worker.postMessage({ source });
    });
  }

  const digest = (text) => failuremapDigest.sha256(new TextEncoder().encode(text));

  /** What came out against what is recorded: script, stdout and exit code, each by its own name. */
  async function compared(button, source, { exitCode, stdout, version }) {
    const same = {
      script: (await digest(source)) === button.dataset.sha256,
      stdout: (await digest(stdout)) === button.dataset.stdout,
      "exit code": String(exitCode) === button.dataset.exit,
    };
    const others = Object.keys(same).filter((name) => !same[name]);
    const verdict = others.length ? `✗ Not as recorded: ${others.join(", ")}.`
      : "✓ As recorded: script, stdout and exit code are the same to the byte.";
    return `${verdict} Python ${version} (Pyodide), exit ${exitCode}.`;
  }

  async function run(button, result, printed) {
    button.disabled = true;
    result.textContent = "Running; Python is loaded first, about 13 MB from this site.";
    try {
      const source = sourceOf(button);
      const given = await answer(source);
      printed.textContent = given.stdout;
      printed.hidden = false;
      result.textContent = await compared(button, source, given);
    } catch (error) {
      result.textContent = `✗ It did not run: ${error.message}`;
    }
    button.disabled = false;
  }

  for (const button of document.querySelectorAll("button[data-run]")) {
    const result = document.createElement("output");
    const printed = document.createElement("pre");
    printed.className = "printed";
    printed.tabIndex = 0;
    printed.hidden = true;
    printed.setAttribute("aria-label", "What the script printed here");
    button.after(result, printed);
    button.hidden = false;
    if (location.protocol === "file:") {
      button.disabled = true;
      result.textContent = FROM_DISK;
    }
    button.addEventListener("click", () => { before = before.then(() => run(button, result, printed)); });
  }
})();
