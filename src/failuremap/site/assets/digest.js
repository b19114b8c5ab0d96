// Recomputes the digest of a case from its JSON: SHA-256 of the canonical JSON (RFC 8785) of the form that strangers read.
"use strict";

const failuremapDigest = (() => {
  const NOT_DIGESTED = ["sha256", "implementations.fixed", "verification.fixed", "harness", "repair",
    "member_only.salts", "member_only.canary"];

  /** Canonical JSON: keys in the order of their UTF-16 units, numbers and strings as JSON.stringify writes them. */
  function canonical(value) {
    if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
    if (value === null || typeof value !== "object") return JSON.stringify(value);
    return `{${Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`).join()}}`;
  }

  function without(document, [first, ...rest]) {
    if (document === null || typeof document !== "object" || !Object.hasOwn(document, first)) return document;
    const { [first]: part, ...others } = document;
    return rest.length ? { ...others, [first]: without(part, rest) } : others;
  }

  const hexadecimal = (bytes) => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");

  /** SHA-256 of bytes: the browser's own, or the one below where a page has none (plain http, not from localhost). */
  async function sha256(bytes, subtle = globalThis.crypto?.subtle) {
    return hexadecimal(subtle ? new Uint8Array(await subtle.digest("SHA-256", bytes)) : sha256ByHand(bytes));
  }

  /** FIPS 180-4, with its constants from their definition: fractions of the roots of the first primes. */
  function sha256ByHand(bytes) {
    const primes = [];
    for (let n = 2; primes.length < 64; n += 1) if (primes.every((prime) => n % prime)) primes.push(n);
    const fraction = (root) => ((root - Math.floor(root)) * 2 ** 32) >>> 0;
    const constants = primes.map((prime) => fraction(Math.cbrt(prime)));
    let state = primes.slice(0, 8).map((prime) => fraction(Math.sqrt(prime)));
    const padded = new Uint8Array(Math.ceil((bytes.length + 9) / 64) * 64);
    padded.set(bytes);
    padded[bytes.length] = 0x80;
    const view = new DataView(padded.buffer);
    view.setBigUint64(padded.length - 8, BigInt(bytes.length) * 8n);
    for (let at = 0; at < padded.length; at += 64) state = block(state, view, at, constants);
    const digest = new DataView(new ArrayBuffer(32));
    state.forEach((word, place) => digest.setUint32(4 * place, word));
    return new Uint8Array(digest.buffer);
  }

  function block(state, view, at, constants) {
    const turn = (word, by) => (word >>> by) | (word << (32 - by));
    const words = Array.from({ length: 16 }, (_, place) => view.getUint32(at + 4 * place));
    for (let t = 16; t < 64; t += 1) {
      const [early, late] = [words[t - 15], words[t - 2]];
      words[t] = (words[t - 16] + (turn(early, 7) ^ turn(early, 18) ^ (early >>> 3)) + words[t - 7]
        + (turn(late, 17) ^ turn(late, 19) ^ (late >>> 10))) >>> 0;
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let t = 0; t < 64; t += 1) {
      const first = h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + constants[t] + words[t];
      const second = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      [a, b, c, d, e, f, g, h] = [(first + second) >>> 0, a, b, c, (d + first) >>> 0, e, f, g];
    }
    return [a, b, c, d, e, f, g, h].map((word, place) => (word + state[place]) >>> 0);
  }

  /** The digest of a record, given as the text of its JSON in the open or in the member form. */
  async function digestOf(text, subtle) {
    const opened = NOT_DIGESTED.reduce((document, path) => without(document, path.split(".")), JSON.parse(text));
    return sha256(new TextEncoder().encode(canonical(opened)), subtle);
  }

  return { canonical, sha256, sha256ByHand, digestOf };
})();

if (typeof module !== "undefined") module.exports = failuremapDigest;

if (typeof document !== "undefined") {
  /** The text of the record: fetched, or chosen by the reader where a page from a disk may fetch nothing. */
  const recordOf = async (button) => {
    if (location.protocol !== "file:") return (await fetch(button.dataset.record)).text();
    const picker = Object.assign(document.createElement("input"), { type: "file", accept: ".json" });
    button.after(picker);
    picker.setAttribute("aria-label", `The record, ${button.dataset.record.split("/").at(-1)}, from the same disk`);
    picker.focus();
    await new Promise((chosen) => { picker.addEventListener("change", chosen, { once: true }); });
    picker.remove();
    return picker.files[0].text();
  };

  const recompute = async (button, result) => {
    button.disabled = true;
    result.textContent = location.protocol === "file:" ? "Choose the record: a page from a disk may not read it." : "";
    try {
      const digest = await failuremapDigest.digestOf(await recordOf(button));
      const same = digest === button.dataset.digest;
      result.textContent = same ? `✓ The same: ${digest}` : `✗ Another: ${digest}`;
    } catch (error) {
      result.textContent = `✗ The record can't be read: ${error.message}`;
    }
    button.disabled = false;
  };

  for (const button of document.querySelectorAll("button[data-digest]")) {
    const result = document.createElement("output");
    button.after(result);
    button.addEventListener("click", () => recompute(button, result));
    button.hidden = false;
  }
}
