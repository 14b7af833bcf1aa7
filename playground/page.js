// SPDX-License-Identifier: Apache-2.0
// The page: a program and choices on one side, what the compiler says of them on the other. The
// compiler runs in a worker (program.js), which is ended and started anew when a command takes
// longer than `limit`, or traps.
"use strict";

const FILE = "program.tile", PAUSE_MS = 350;
let limit = 20000; // milliseconds of a command
const MAX_SOURCE = 200000, MAX_CELLS = 16;
const by = (id) => document.getElementById(id);
const data = JSON.parse(by("data").textContent); // examples, targets, words, sizes: make_page.py
const utf8 = (bytes) => new TextDecoder().decode(bytes);

// ---- the compiler ----

class Compiler {
  constructor(wasm) {
    this.wasm = wasm;
    this.count = 0;
    this.code = URL.createObjectURL(new Blob([by("program").textContent],
                                             { type: "text/javascript" }));
    this.start();
  }
  start() {
    this.worker = new Worker(this.code);
    this.waiting = null;
    this.worker.onmessage = ({ data: answer }) => this.answer(answer);
    this.worker.onerror = (event) => this.answer({ id: this.count, trap: event.message });
    this.worker.postMessage({ wasm: this.wasm });
  }
  answer(answer) {
    if (answer.ready || !this.waiting || answer.id !== this.count) return;
    const { resolve, timer } = this.waiting;
    clearTimeout(timer);
    this.waiting = null;
    if (answer.trap) this.restart();
    resolve(answer);
  }
  restart() {
    this.worker.terminate();
    this.start();
  }
  // {status, out, err, files, ms}, or {trap}. One command at a time.
  run(args, source) {
    const id = ++this.count;
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.restart();
        resolve({ trap: `it was stopped after ${limit / 1000} seconds` });
      }, limit);
      this.waiting = { resolve, timer };
      this.worker.postMessage({ id, args, files: { [FILE]: source } });
    });
  }
}

async function unpack(text) {
  const packed = Uint8Array.from(atob(text.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// ---- what the user chose ----

const state = { kernels: [], tab: "schedule", listings: [], rounds: 0 };
const chosen = { sets: {}, sizes: {}, small: {} }; // by names, of all kernels so far

const kernelOf = () => state.kernels.find((k) => k.name === by("kernel").value) ||
                       state.kernels[0];

// A field of the form: a choice where there are few values.
function field(home, name, values, value, onChange) {
  const label = document.createElement("label");
  label.append(`${name} `);
  const input = document.createElement(values ? "select" : "input");
  for (const one of values || []) input.add(new Option(one, one));
  input.value = value;
  input.dataset.name = name;
  if (values && !values.includes(value)) input.value = values[0];
  input.addEventListener("change", () => onChange(input.value.trim()));
  label.append(input);
  home.append(label);
  return input.value;
}

function guess(kernel, size, small) {
  const names = new Set(kernel.sizes.map((one) => one.name));
  const given = data.sizes[small ? "small" : "large"];
  const window = names.has("R") && names.has("S") && (size === "R" || size === "S");
  return String(window ? 3 : given[size] || given[""]);
}

function showFields(kernel) {
  for (const id of ["sets", "sizes", "small"]) by(id).textContent = "";
  for (const { name, class: kind } of kernel.generics)
    chosen.sets[name] = field(by("sets"), name, data.types[kind] || data.types.any,
      chosen.sets[name] || (data.types[kind] || data.types.any)[0],
      (value) => { chosen.sets[name] = value; refresh(); });
  for (const param of kernel.params.filter((one) => one.const)) {
    const { name } = param, bool = param.type === "bool";
    chosen.sets[name] = field(by("sets"), name, bool ? ["true", "false"] : null,
      chosen.sets[name] || (bool ? "true" : param.default || "1"),
      (value) => { chosen.sets[name] = value; refresh(); });
  }
  for (const size of kernel.sizes) {
    for (const [home, small] of [["sizes", false], ["small", true]]) {
      const values = size.values && size.values.map(String), into = chosen[home];
      into[size.name] = field(by(home), size.name, values,
        into[size.name] || (values ? values[0] : guess(kernel, size.name, small)),
        (value) => { into[size.name] = value; refresh(); });
    }
  }
  for (const { name } of kernel.params.filter((one) => !one.dims && !one.const))
    chosen.small[name] = field(by("small"), name, null, chosen.small[name] || "1",
      (value) => { chosen.small[name] = value; refresh(); });
  if (!by("sets").childNodes.length) by("sets").textContent = "none";
  if (!by("sizes").childNodes.length) by("sizes").textContent = "none";
}

const pairs = (names, values) => names.filter((name) => values[name] !== "")
  .map((name) => `${name}=${values[name]}`);

function setArguments(kernel) {
  const names = [...kernel.generics, ...kernel.params.filter((one) => one.const)]
    .map((one) => one.name);
  const list = pairs(names, chosen.sets);
  return list.length ? ["--set", list.join(",")] : [];
}

function sizeArguments(kernel, values) {
  const list = pairs(kernel.sizes.map((one) => one.name), values);
  return list.length ? ["--size", list.join(",")] : [];
}

// ---- messages and marks ----

function showMessages(text) {
  const said = by("said"), wrong = new Set();
  said.textContent = "";
  for (const part of text.split(/( --> [^\n:]+:\d+:\d+)/)) {
    const at = /^ --> ([^\n:]+):(\d+):(\d+)$/.exec(part);
    if (!at) {
      said.append(part);
      continue;
    }
    const button = document.createElement("button");
    button.textContent = `${at[1]}:${at[2]}:${at[3]}`;
    button.addEventListener("click", () => jump(+at[2], +at[3]));
    said.append(" --> ", button);
    if (at[1] === FILE) wrong.add(+at[2]);
  }
  state.wrong = wrong;
  paint();
}

function jump(line, column) {
  const lines = by("source").value.split("\n");
  const at = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0) + column - 1;
  by("source").focus();
  by("source").setSelectionRange(at, at);
}

const TOKEN = /(#.*)|("(?:\\.|[^"\\\n])*"?)|([A-Za-z_]\w*)|(\d[\w.]*)/g;

function paint() {
  const text = by("source").value, home = by("paint"), keys = new Set(data.words);
  const types = new Set(data.types.any);
  home.textContent = "";
  text.split("\n").forEach((line, nth) => {
    const row = document.createElement("span");
    row.className = state.wrong && state.wrong.has(nth + 1) ? "line wrong" : "line";
    let from = 0;
    for (const match of line.matchAll(TOKEN)) {
      const kind = match[1] ? "c" : match[2] ? "s" : match[3] && keys.has(match[3]) ? "k"
        : match[3] && types.has(match[3]) ? "t" : "";
      if (!kind) continue;
      row.append(line.slice(from, match.index));
      const span = document.createElement("span");
      span.className = kind;
      span.textContent = match[0];
      row.append(span);
      from = match.index + match[0].length;
    }
    row.append(line.slice(from));
    home.append(row);
  });
  follow();
}

function follow() {
  by("paint").scrollTop = by("source").scrollTop;
  by("paint").scrollLeft = by("source").scrollLeft;
}

function say(text, bad) {
  by("state").textContent = text;
  by("state").className = bad ? "bad" : "";
}

// ---- the tabs ----

async function command(args) {
  const answer = await compiler.run(args, by("source").value);
  if (!answer.trap) return answer;
  const deep = /call stack/.test(answer.trap) ? "the program is too deep for this browser's stack: "
    : "";
  return { status: -1, out: new Uint8Array(), err: `${deep}${answer.trap}\n`, files: {}, ms: 0,
           trap: true };
}

// Links within the page of explain: in a frame that has no address they would lead to this page.
// The script is the first in the head, so that no link can be clicked before it.
const FOLLOW = `<script>document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href^='#']");
  if (!link) return;
  event.preventDefault();
  const to = document.getElementById(link.getAttribute("href").slice(1));
  if (to) to.scrollIntoView();
});<\/script>`;

const path = () => `${FILE}:${kernelOf().name}`;

const TABS = {
  async schedule(kernel) {
    const made = await command(["explain", path(), ...setArguments(kernel), "--target",
                                by("target").value, ...sizeArguments(kernel, chosen.sizes)]);
    if (made.status === 0) by("schedule").textContent = utf8(made.out);
    return made;
  },
  async explain(kernel) {
    const made = await command(["explain", path(), ...setArguments(kernel), "--target",
                                by("target").value, ...sizeArguments(kernel, chosen.sizes),
                                "--html", "-"]);
    if (made.status === 0) {
      by("panel-explain").textContent = "";
      const frame = document.createElement("iframe");
      frame.title = "explain";
      frame.setAttribute("sandbox", "allow-scripts");
      frame.srcdoc = utf8(made.out).replace("<head>", (head) => head + FOLLOW);
      by("panel-explain").append(frame);
    }
    return made;
  },
  async ir(kernel) {
    const made = await command(["compile", path(), ...setArguments(kernel), "--target",
                                by("target").value, ...sizeArguments(kernel, chosen.sizes),
                                "--print-after", "all", "--emit", "ir", "-o", "-"]);
    if (made.trap) return made;
    const parts = utf8(made.err).split(/^; ---- after (\w+) ----\n/m);
    const before = state.listings;
    state.listings = [];
    let last = null;
    for (let i = 1; i + 1 < parts.length; i += 2) {
      const end = parts[i + 1].lastIndexOf("\n}\n") + 3; // messages may follow the last one
      const text = parts[i + 1].slice(0, end);
      if (text !== last) state.listings.push({ name: parts[i], text });
      parts[0] += parts[i + 1].slice(end);
      last = text;
    }
    if (made.status === 0) showPasses((parts.length - 1) / 2);
    else state.listings = before;
    return { ...made, err: new TextEncoder().encode(parts[0]) };
  },
  async run(kernel) {
    const outs = kernel.params.filter((one) => one.dims && one.io !== "in").map((one) => one.name);
    const scalars = pairs(kernel.params.filter((one) => !one.dims && !one.const)
      .map((one) => one.name), chosen.small);
    const made = await command(["run", path(), ...scalars, ...setArguments(kernel),
                                ...sizeArguments(kernel, chosen.small), "--device", "interp",
                                "--seed", by("seed").value.trim() || "1",
                                ...outs.flatMap((name) => ["-o", `${name}=${name}.npy`])]);
    if (made.status !== 0) return made;
    by("ran").textContent = utf8(made.out).replace(/ +-> \S+\.npy$/gm, "");
    by("values").textContent = "";
    for (const name of outs) if (made.files[`${name}.npy`])
      showValues(name, kernel, readArray(made.files[`${name}.npy`]));
    return made;
  },
};

function showPasses(all) {
  const select = by("pass"), was = select.value;
  select.textContent = "";
  for (const { name } of state.listings) select.add(new Option(name, name));
  const names = state.listings.map((one) => one.name);
  select.value = names.includes(was) ? was : names[names.length - 1] || "";
  by("unchanged").textContent = all ? `${all} passes, ${names.length - 1} of which changed it` : "";
  showListing();
}

function showListing() {
  const listing = state.listings[by("pass").selectedIndex];
  by("ir").textContent = listing ? listing.text : "";
}

// ---- arrays of NumPy's format ----

const floatOf = (bits, exponent, mantissa) => {
  const sign = bits >> (exponent + mantissa) & 1 ? -1 : 1, most = (1 << exponent) - 1;
  const e = bits >> mantissa & most, m = bits & ((1 << mantissa) - 1), bias = most >> 1;
  if (e === most) return m ? NaN : sign * Infinity;
  return sign * (e ? 1 + m / 2 ** mantissa : m / 2 ** mantissa) * 2 ** ((e || 1) - bias);
};
const READ = {
  "<f4": [4, (v, at) => v.getFloat32(at, true)], "<f8": [8, (v, at) => v.getFloat64(at, true)],
  "<f2": [2, (v, at) => floatOf(v.getUint16(at, true), 5, 10)],
  "<V2": [2, (v, at) => floatOf(v.getUint16(at, true), 8, 7)], // bf16
  "<i8": [8, (v, at) => v.getBigInt64(at, true)], "<u8": [8, (v, at) => v.getBigUint64(at, true)],
  "<i4": [4, (v, at) => v.getInt32(at, true)], "<u4": [4, (v, at) => v.getUint32(at, true)],
  "<i2": [2, (v, at) => v.getInt16(at, true)], "<u2": [2, (v, at) => v.getUint16(at, true)],
  "|i1": [1, (v, at) => v.getInt8(at)], "|u1": [1, (v, at) => v.getUint8(at)],
  "|b1": [1, (v, at) => Boolean(v.getUint8(at))],
};

function readArray(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const start = 10 + view.getUint16(8, true), head = utf8(bytes.subarray(10, start));
  const shape = /'shape': \(([^)]*)\)/.exec(head)[1].split(",").filter((n) => n.trim()).map(Number);
  const [size, read] = READ[/'descr': '([^']*)'/.exec(head)[1]] || [0, null];
  const n = shape.reduce((product, extent) => product * extent, 1);
  const values = [];
  for (let i = 0; read && i < n; i++) values.push(read(view, start + i * size));
  return { shape, values };
}

// The last two axes at index 0 of the others, the colour by the value.
function showValues(name, kernel, { shape, values }) {
  if (!values.length) return;
  const heading = document.createElement("h2"), wide = document.createElement("div");
  const cols = shape.length ? shape[shape.length - 1] : 1;
  const rows = shape.length > 1 ? shape[shape.length - 2] : 1;
  const cut = rows > MAX_CELLS || cols > MAX_CELLS || values.length > rows * cols;
  heading.textContent = `${name}: ${shape.length ? `[${shape.join(", ")}]` : "a number"}` +
    (cut ? `, of which ${Math.min(rows, MAX_CELLS)} by ${Math.min(cols, MAX_CELLS)}` : "");
  wide.className = "wide";
  wide.tabIndex = 0;
  const table = wide.appendChild(document.createElement("table"));
  table.className = "values";
  const shown = values.slice(0, rows * cols).map(Number).filter(Number.isFinite);
  const low = Math.min(...shown), high = Math.max(...shown);
  for (let row = 0; row < Math.min(rows, MAX_CELLS); row++) {
    const line = table.insertRow();
    for (let col = 0; col < Math.min(cols, MAX_CELLS); col++) {
      const value = values[row * cols + col], cell = line.insertCell();
      cell.textContent = typeof value === "number" && !Number.isInteger(value)
        ? value.toPrecision(4) : String(value);
      const share = high > low ? (Number(value) - low) / (high - low) : 0;
      if (Number.isFinite(share))
        cell.style.background = `rgb(74 127 212 / ${(share * 0.3).toFixed(2)})`;
    }
  }
  by("values").append(heading, wide);
}

// ---- from a change to what is shown ----

let compiler = null, busy = false, wanted = false;

async function describe() {
  const made = await command(["compile", FILE, "--describe", "--json"]);
  if (made.status !== 0) return made;
  state.kernels = JSON.parse(utf8(made.out)).kernels;
  const select = by("kernel"), was = select.value || chosen.kernel;
  select.textContent = "";
  for (const { name } of state.kernels) select.add(new Option(name, name));
  if (state.kernels.some((one) => one.name === was)) select.value = was;
  const focused = document.activeElement, name = focused && focused.dataset.name;
  const home = name && focused.closest(".fields").id;
  const kernel = kernelOf();
  const form = JSON.stringify([kernel, chosen]);
  if (kernel && form !== state.form) showFields(kernel);
  state.form = JSON.stringify([kernel, chosen]);
  if (name && by(home).querySelector(`[data-name="${name}"]`))
    by(home).querySelector(`[data-name="${name}"]`).focus();
  return made;
}

async function once() {
  if (by("source").value.length > MAX_SOURCE)
    return say(`the program is longer than ${MAX_SOURCE} characters`, true);
  say("compiling…");
  let made = await describe();
  const kernel = kernelOf();
  if (made.status === 0 && !kernel) {
    showMessages("");
    return say("the program has no kernel", true);
  }
  let ms = made.ms;
  if (made.status === 0) {
    made = await TABS[state.tab](kernel);
    ms += made.ms;
  }
  showMessages(typeof made.err === "string" ? made.err : utf8(made.err));
  if (made.trap) return say("the compiler was ended, and started anew", true);
  if (made.status !== 0) {
    const shown = by(`panel-${state.tab}`).textContent.trim() || by("panel-explain").firstChild;
    return say(`errors${shown ? "; the results are of the program before" : ""}`, true);
  }
  say(`${state.tab === "run" ? "compiled and run" : "compiled"} in ${ms.toFixed(0)} ms`);
}

async function refresh() {
  if (!compiler || busy) {
    wanted = true;
    return;
  }
  busy = true;
  document.body.setAttribute("aria-busy", "true");
  do {
    wanted = false;
    try {
      await once();
    } catch (error) {
      say(`the page failed: ${error.message}`, true);
    }
  } while (wanted);
  busy = false;
  state.rounds++;
  document.body.removeAttribute("aria-busy");
}

let pause = 0;
function changed() {
  paint();
  clearTimeout(pause);
  pause = setTimeout(refresh, PAUSE_MS);
}

function open(source, more = {}) {
  by("source").value = source;
  for (const home of ["sets", "sizes", "small"]) chosen[home] = { ...more[home] };
  chosen.kernel = more.kernel || "";
  by("kernel").textContent = "";
  if (data.targets.includes(more.target)) by("target").value = more.target;
  if (Object.hasOwn(TABS, more.tab || "")) showTab(more.tab);
  paint();
}

function showTab(tab) {
  state.tab = tab;
  for (const name of Object.keys(TABS)) {
    const is = name === tab;
    by(`tab-${name}`).setAttribute("aria-selected", String(is));
    by(`tab-${name}`).tabIndex = is ? 0 : -1;
    by(`panel-${name}`).hidden = !is;
  }
}

// ---- sharing by the fragment ----

function toFragment() {
  const kernel = kernelOf();
  const text = JSON.stringify({ source: by("source").value, kernel: kernel ? kernel.name : "",
                                target: by("target").value, tab: state.tab, ...chosen });
  const bytes = new TextEncoder().encode(text);
  let letters = "";
  for (const byte of bytes) letters += String.fromCharCode(byte);
  return btoa(letters).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

// Texts by names, of what somebody else wrote.
const texts = (from) => Object.fromEntries(Object.entries(from && typeof from === "object" ? from : {})
  .filter(([, value]) => typeof value === "string" && value.length < 100));

function fromFragment(letters) {
  const plain = atob(letters.replace(/-/g, "+").replace(/_/g, "/"));
  const made = JSON.parse(utf8(Uint8Array.from(plain, (c) => c.charCodeAt(0))));
  if (typeof made.source !== "string") throw new Error("no program");
  return { source: made.source, kernel: String(made.kernel || ""), target: String(made.target),
           tab: String(made.tab), sets: texts(made.sets), sizes: texts(made.sizes),
           small: texts(made.small) };
}

async function share() {
  location.hash = toFragment();
  try {
    await navigator.clipboard.writeText(location.href);
    say("the link is in the clipboard");
  } catch {
    say("the address of this page is the link");
  }
}

function openFragment() {
  const letters = location.hash.slice(1);
  if (!letters) return false;
  const named = data.examples.find((one) => one.name === letters);
  try {
    const made = named || fromFragment(letters);
    open(made.source, made);
    by("example").value = named ? letters : "";
    return true;
  } catch {
    say("the link holds no program", true);
    return false;
  }
}

async function format() {
  const made = await command(["fmt", FILE]);
  if (made.status === 0 && made.files[FILE]) by("source").value = utf8(made.files[FILE]);
  changed();
}

// ---- the page ----

function listen() {
  by("source").addEventListener("input", changed);
  by("source").addEventListener("scroll", follow);
  by("source").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing || event.ctrlKey || event.metaKey) {
      if (event.key === "Enter") refresh();
      return;
    }
    const before = event.target.value.slice(0, event.target.selectionStart);
    const indent = /[^\n]*$/.exec(before)[0].match(/^ */)[0] + (/\{\s*$/.test(before) ? "    " : "");
    event.preventDefault();
    document.execCommand("insertText", false, `\n${indent}`);
  });
  by("example").addEventListener("change", () => {
    const example = data.examples.find((one) => one.name === by("example").value);
    if (!example) return;
    open(example.source, example);
    history.replaceState(null, "", `#${example.name}`);
    refresh();
  });
  by("target").addEventListener("change", refresh);
  by("kernel").addEventListener("change", refresh);
  by("again").addEventListener("click", () => {
    by("seed").value = String((+by("seed").value || 0) + 1);
    refresh();
  });
  by("seed").addEventListener("change", refresh);
  by("format").addEventListener("click", () => { if (!busy) format(); });
  by("share").addEventListener("click", share);
  by("pass").addEventListener("change", showListing);
  for (const [id, step] of [["earlier", -1], ["later", 1]])
    by(id).addEventListener("click", () => {
      const at = by("pass").selectedIndex + step;
      if (at >= 0 && at < by("pass").options.length) by("pass").selectedIndex = at;
      showListing();
    });
  const tabs = Object.keys(TABS);
  for (const tab of tabs) {
    by(`tab-${tab}`).addEventListener("click", () => { showTab(tab); refresh(); });
    by(`tab-${tab}`).addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = tabs[(tabs.indexOf(tab) + step + tabs.length) % tabs.length];
      showTab(next);
      by(`tab-${next}`).focus();
      refresh();
    });
  }
  addEventListener("hashchange", () => {
    if (location.hash.slice(1) !== toFragment() && openFragment()) refresh();
  });
}

async function begin() {
  for (const name of data.targets) by("target").add(new Option(name, name));
  by("target").value = "sm_90a";
  for (const { name } of data.examples) by("example").add(new Option(name, name));
  listen();
  if (!openFragment()) {
    by("example").value = "softmax";
    const first = data.examples.find((one) => one.name === "softmax") || data.examples[0];
    open(first.source, first);
  }
  try {
    compiler = new Compiler(await unpack(by("wasm").textContent));
  } catch (error) {
    return say(`this browser cannot run the compiler: ${error.message}`, true);
  }
  await refresh();
  document.documentElement.dataset.ready = "";
}

begin();
