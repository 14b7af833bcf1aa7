// SPDX-License-Identifier: Apache-2.0
// node run_program.js FILE.wasm: reads requests, one JSON array [arguments, {name: bytes}] a line,
// from standard input, and answers each with one line: [status, output, what was said, files], as
// program.js gives it. For tests.
"use strict";
const fs = require("fs"), path = require("path"), readline = require("readline"), vm = require("vm");

vm.runInThisContext(fs.readFileSync(path.join(__dirname, "../../playground/program.js"), "utf8"));
const module_ = new WebAssembly.Module(fs.readFileSync(process.argv[2]));
const text = (bytes) => Buffer.from(bytes).toString("latin1");
readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const [args, texts] = JSON.parse(line);
  const files = Object.fromEntries(Object.entries(texts).map(([name, one]) =>
    [name, new Uint8Array(Buffer.from(one, "latin1"))]));
  let answer;
  try {
    const { status, out, err, files: left } = globalThis.runProgram(module_, args, files);
    answer = [status, text(out), text(err),
              Object.fromEntries(Object.entries(left).map(([name, bytes]) => [name, text(bytes)]))];
  } catch (error) {
    answer = [-1, "", `${error.name}: ${error.message}`, {}];
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
});
