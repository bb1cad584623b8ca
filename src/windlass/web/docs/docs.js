// Reference of the API: follows addresses of the former single page, and sends requests from the page (Try it).
//
// Requests go to this server only. A typed token stays in the memory of the page. Without one the browser adds the session
// of the dashboard, with which the server answers reads only: it refuses changes without a token.

const WITHOUT_BODY = ["get", "head"];
const SHOWN_MAX = 256 * 1024; // characters of an answer
const source = document.body.dataset.document;
let token = "";
let loading = null;

// Old addresses: /docs#op-enqueue is now /docs/producing#op-enqueue
const moved = document.getElementById(location.hash.slice(1));
if (moved?.closest(".index")) location.replace(moved.querySelector("a").href);

function element(name, attributes = {}, ...content) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...content);
  return made;
}

function loadDocument() {
  loading ??= fetch(source).then((answer) => {
    if (!answer.ok) throw new Error(`The document of the API answered ${answer.status}.`);
    return answer.json();
  });
  return loading.catch((error) => {
    loading = null;
    throw error;
  });
}

const root = () => new URL(source, location.href).href.replace(/\/openapi\.json$/, "");
const quote = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const isText = (media) => /json|text|yaml|urlencoded/.test(media);

function exampleOf(parameter) {
  return parameter.example ?? (parameter.required ? (parameter.schema?.default ?? "") : "");
}

function labelled(text, field) {
  return element("label", {}, element("span", {}, text), field);
}

// The form of one operation, and the request that it describes.
class TryForm {
  constructor(section, operation) {
    this.method = section.dataset.method;
    this.path = section.dataset.path;
    this.fields = (operation.parameters ?? []).map((parameter) => ({ parameter, input: this.inputOf(parameter) }));
    const content = operation.requestBody?.content ?? {};
    this.media = Object.keys(content).find(isText) ?? "";
    this.needsBinary = Object.keys(content).length > 0 && !this.media;
    this.body = this.media ? this.bodyOf(content[this.media].example ?? Object.values(content)[0].example) : null;
    this.token = element("input", { type: "password", autocomplete: "off", spellcheck: "false", placeholder: "wl_…" });
    this.token.value = token;
    this.send = element("button", { class: "button primary" }, "Send");
    this.stop = element("button", { type: "button", class: "button", hidden: "" }, "Stop");
    this.status = element("p", { class: "try-status", role: "status" });
    this.headers = element("details", { hidden: "" });
    this.answer = element("pre", { hidden: "", tabindex: "0", "aria-label": "Body of the answer" });
    this.curl = element("pre");
    this.confirmation = this.confirmationOf();
    this.form = this.build();
    this.showCurl();
  }

  inputOf(parameter) {
    const input = element("input", { autocomplete: "off", spellcheck: "false" });
    input.value = exampleOf(parameter);
    input.required = parameter.in === "path" || parameter.required;
    return input;
  }

  bodyOf(example) {
    const area = element("textarea", { rows: "8", spellcheck: "false" });
    area.value = /json$/.test(this.media) ? JSON.stringify(example ?? {}, null, 2) : String(example ?? "");
    return area;
  }

  confirmationOf() {
    const yes = element("button", { type: "button", class: "button danger" }, `Yes, send ${this.method.toUpperCase()}`);
    const no = element("button", { type: "button", class: "button" }, "Cancel");
    yes.addEventListener("click", () => this.run());
    no.addEventListener("click", () => this.ask(false));
    const row = element("div", { class: "try-buttons", role: "group", "aria-label": "Confirm the request" });
    row.append(element("span", {}, "This request may change the deployment."), yes, no);
    row.hidden = true;
    return row;
  }

  build() {
    const form = element("form", { class: "try", "aria-label": "Try it" });
    const inputs = this.fields.map(({ parameter, input }) =>
      labelled(`${parameter.name}${input.required ? " *" : ""} (${parameter.in})`, input),
    );
    if (inputs.length) form.append(element("div", { class: "try-fields" }, ...inputs));
    if (this.body) form.append(labelled(`Body, ${this.media}`, this.body));
    form.append(labelled("Token; empty: your session of the dashboard, which may only read", this.token));
    if (this.needsBinary) form.append(element("p", { class: "try-note" }, "The body of this operation is binary: use a program."));
    else form.append(element("div", { class: "try-buttons" }, this.send, this.stop), this.confirmation);
    form.append(element("p", { class: "try-note" }, "The same with curl:"), this.curl, this.status, this.headers, this.answer);
    form.addEventListener("input", () => this.showCurl());
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.method === "get") this.run();
      else this.ask(true);
    });
    this.stop.addEventListener("click", () => this.controller?.abort());
    return form;
  }

  ask(isShown) {
    this.confirmation.hidden = !isShown;
    this.send.hidden = isShown;
    if (isShown) this.confirmation.querySelector("button").focus();
    else this.send.focus();
  }

  get url() {
    const query = new URLSearchParams();
    let path = this.path;
    for (const { parameter, input } of this.fields) {
      if (parameter.in === "path") path = path.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
      else if (parameter.in === "query" && input.value) query.append(parameter.name, input.value);
    }
    return `${root()}${path}${query.size ? `?${query}` : ""}`;
  }

  // Headers without the token, which the curl line must not show.
  get ownHeaders() {
    const headers = { Accept: "application/json, */*;q=0.5" };
    if (this.body && this.body.value) headers["Content-Type"] = this.media;
    for (const { parameter, input } of this.fields)
      if (parameter.in === "header" && input.value) headers[parameter.name] = input.value;
    return headers;
  }

  get content() {
    return this.body && this.body.value && !WITHOUT_BODY.includes(this.method) ? this.body.value : undefined;
  }

  showCurl() {
    token = this.token.value.trim();
    const words = ["curl"];
    if (this.method !== "get") words.push("-X", this.method.toUpperCase());
    words.push(quote(this.url));
    for (const [name, value] of Object.entries(this.ownHeaders)) if (name !== "Accept") words.push("-H", quote(`${name}: ${value}`));
    if (token) words.push("-H", '"Authorization: Bearer $TOKEN"');
    if (this.content !== undefined) words.push("-d", quote(this.content));
    this.curl.textContent = words.join(" ");
  }

  async run() {
    this.ask(false);
    this.controller = new AbortController();
    this.stop.hidden = false;
    this.send.disabled = true;
    this.show("Waiting for the answer…", "");
    this.headers.hidden = this.answer.hidden = true;
    const startedAt = performance.now();
    try {
      const answer = await fetch(this.url, {
        method: this.method.toUpperCase(),
        headers: { ...this.ownHeaders, ...(token ? { Authorization: `Bearer ${token}` } : {}) },
        body: this.content,
        mode: "same-origin",
        credentials: "same-origin",
        cache: "no-store",
        signal: this.controller.signal,
      });
      const took = Math.round(performance.now() - startedAt);
      this.show(`${answer.status} ${answer.statusText}, after ${took} ms`, answer.ok ? "is-good" : "is-bad");
      this.showHeaders(answer);
      await this.showBody(answer);
    } catch (error) {
      if (!this.controller.signal.aborted) this.show(`The request has failed: ${error.message}`, "is-bad");
      else this.status.append(" (stopped)");
    } finally {
      this.stop.hidden = true;
      this.send.disabled = false;
    }
  }

  show(text, kind) {
    this.status.textContent = text;
    this.status.className = `try-status ${kind}`;
  }

  showHeaders(answer) {
    const lines = [...answer.headers].map(([name, value]) => `${name}: ${value}`).join("\n");
    this.headers.replaceChildren(element("summary", {}, "Headers"), element("pre", {}, lines));
    this.headers.hidden = false;
  }

  async showBody(answer) {
    const media = answer.headers.get("content-type") ?? "";
    if (!answer.body) return;
    if (!isText(media) && !/event-stream/.test(media)) {
      const bytes = (await answer.arrayBuffer()).byteLength;
      this.answer.textContent = bytes ? `${bytes.toLocaleString()} bytes of ${media || "an unknown type"}` : "";
    } else await this.readText(answer);
    if (/json$/.test(media.split(";")[0])) this.answer.textContent = pretty(this.answer.textContent);
    this.answer.hidden = !this.answer.textContent;
  }

  // A stream has no end: it is shown while it comes.
  async readText(answer) {
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    this.answer.textContent = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      this.answer.append(value);
      this.answer.hidden = false;
      if (this.answer.textContent.length > SHOWN_MAX) {
        await reader.cancel();
        return this.answer.append("\n… the rest is not shown");
      }
    }
  }
}

// Indents JSON and keeps every token as it was sent: JavaScript would round large numbers.
function pretty(text) {
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  let depth = 0;
  let shown = "";
  for (const token of text.match(/"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/g) ?? []) {
    if (token === "{" || token === "[") {
      depth += 1;
      shown += token + newLine(depth);
    } else if (token === "}" || token === "]") {
      depth -= 1;
      shown = shown.trimEnd();
      shown += (/[[{]$/.test(shown) ? "" : newLine(depth)) + token;
    } else if (token === ",") shown += token + newLine(depth);
    else shown += token === ":" ? ": " : token;
  }
  return shown;
}

const newLine = (depth) => `\n${"  ".repeat(depth)}`;

async function toggle(section, button) {
  const shown = section.querySelector(".try");
  button.setAttribute("aria-expanded", String(!shown));
  if (shown) return shown.remove();
  try {
    const described = (await loadDocument()).paths[section.dataset.path][section.dataset.method];
    const { form } = new TryForm(section, described);
    section.querySelector(".call").after(form);
    form.querySelector("input, textarea, button").focus();
  } catch (error) {
    button.setAttribute("aria-expanded", "false");
    section.querySelector(".call").append(element("span", { class: "try-note", role: "status" }, error.message));
  }
}

if (source)
  for (const section of document.querySelectorAll("section.operation")) {
    const button = element("button", { type: "button", class: "button", "aria-expanded": "false" }, "Try it");
    button.addEventListener("click", () => toggle(section, button));
    section.querySelector(".call").append(button);
  }
