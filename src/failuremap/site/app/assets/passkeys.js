// Makes and uses passkeys. Without this file, or in a browser that has none, the forms with a password remain.
"use strict";

const toBytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (sign) => sign.charCodeAt(0));
const toText = (buffer) =>
  btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");

async function ask(path, body) {
  const answer = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  const said = await answer.json();
  if (!answer.ok) throw new Error(said.message);
  return said;
}

async function make(invitation) {
  const asked = invitation === null ? {} : { invitation };
  const options = await ask("/passkeys/registration", asked);
  options.challenge = toBytes(options.challenge);
  options.user.id = toBytes(options.user.id);
  const made = await navigator.credentials.create({ publicKey: options });
  const credential = {
    id: made.id,
    rawId: toText(made.rawId),
    type: made.type,
    response: {
      clientDataJSON: toText(made.response.clientDataJSON),
      attestationObject: toText(made.response.attestationObject),
    },
  };
  return ask("/passkeys", { ...asked, credential });
}

async function signIn() {
  const options = await ask("/passkeys/challenge", {});
  options.challenge = toBytes(options.challenge);
  const used = await navigator.credentials.get({ publicKey: options });
  const credential = {
    id: used.id,
    rawId: toText(used.rawId),
    type: used.type,
    response: {
      clientDataJSON: toText(used.response.clientDataJSON),
      authenticatorData: toText(used.response.authenticatorData),
      signature: toText(used.response.signature),
      userHandle: used.response.userHandle ? toText(used.response.userHandle) : null,
    },
  };
  return ask("/passkeys/sign-in", { credential });
}

function offer(id, act) {
  const form = document.getElementById(id);
  if (!form || !window.PublicKeyCredential) return;
  form.hidden = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const problem = form.querySelector(".problem");
    problem.hidden = true;
    try {
      window.location.assign((await act()).to);
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
    }
  });
}

offer("passkey-sign-in", signIn);
offer("passkey-join", () => make(window.location.pathname.split("/").pop()));
offer("passkey-add", () => make(null));
