// SPDX-License-Identifier: Apache-2.0
// Runs the compiler, a WASI program, once: runProgram(module, arguments, files) gives its exit
// status, its two streams (bytes) and its files. `files` maps names to texts or bytes; they are all
// that there is to read, and what is written stays in memory. A trap and memory that runs out are
// exceptions of the engine, which the caller reports. The page and the tests run this same file.
"use strict";

const OK = 0, BADF = 8, EXIST = 20, INVAL = 28, NOENT = 44, NOSYS = 52;
const ROOT = 3; // the one folder that is open from the start
const DIRECTORY = 3, REGULAR = 4, CHARACTERS = 2;
const CREATE = 1, EXCLUSIVE = 4, TRUNCATE = 8;

class Exit extends Error {
  constructor(status) {
    super("exit");
    this.status = status;
  }
}

// Bytes that grow.
class Bytes {
  constructor(bytes = new Uint8Array()) {
    this.room = bytes;
    this.length = bytes.length;
  }
  get all() {
    return this.room.subarray(0, this.length);
  }
  put(at, bytes) {
    const end = at + bytes.length;
    if (end > this.room.length) {
      const larger = new Uint8Array(Math.max(end, 2 * this.room.length));
      larger.set(this.all);
      this.room = larger;
    }
    this.room.set(bytes, at);
    this.length = Math.max(this.length, end);
  }
}

// The functions of WASI that the C library calls, over `files`, a Map of names to Bytes.
function wasiCalls(args, files, streams, memory) {
  const encoder = new TextEncoder();
  const words = ["tessera", ...args].map((word) => encoder.encode(`${word}\0`));
  const open = new Map(streams.map((bytes, number) => [number, { bytes, at: 0 }]));
  let nextFile = ROOT + 1;

  const view = () => new DataView(memory().buffer);
  const bytesAt = (at, n) => new Uint8Array(memory().buffer, at, n);
  const nameAt = (at, n) =>
    new TextDecoder().decode(bytesAt(at, n).slice()).replace(/^(\.?\/)+/, "");
  const setSize = (at, n) => view().setUint32(at, n, true);
  const setLong = (at, n) => view().setBigUint64(at, BigInt(n), true);
  const parts = (list, n) => Array.from({ length: n }, (_, i) =>
    bytesAt(view().getUint32(list + 8 * i, true), view().getUint32(list + 8 * i + 4, true)));

  function setStat(at, type, size) {
    bytesAt(at, 64).fill(0);
    view().setUint8(at + 16, type);
    setLong(at + 32, size);
    return OK;
  }

  function read(number, list, n, done) {
    const file = open.get(number);
    if (!file) return BADF;
    const begin = file.at;
    for (const room of parts(list, n)) {
      const piece = file.bytes.all.subarray(file.at, file.at + room.length);
      room.set(piece);
      file.at += piece.length;
    }
    setSize(done, file.at - begin);
    return OK;
  }

  function write(number, list, n, done) {
    const file = open.get(number);
    if (!file) return BADF;
    const begin = file.at;
    for (const piece of parts(list, n)) {
      file.bytes.put(file.at, piece);
      file.at += piece.length;
    }
    setSize(done, file.at - begin);
    return OK;
  }

  function seek(number, offset, from, position) {
    const file = open.get(number);
    if (!file || number < ROOT) return BADF;
    const at = [0, file.at, file.bytes.length][from] + Number(offset);
    if (at < 0) return INVAL;
    file.at = at;
    setLong(position, at);
    return OK;
  }

  function openFile(name, how, at) {
    if (files.has(name) && how & CREATE && how & EXCLUSIVE) return EXIST;
    if (!files.has(name) && !(how & CREATE)) return NOENT;
    if (!files.has(name) || how & TRUNCATE) files.set(name, new Bytes());
    open.set(nextFile, { bytes: files.get(name), at: 0 });
    setSize(at, nextFile++);
    return OK;
  }

  function rename(from, to) {
    if (!files.has(from)) return NOENT;
    files.set(to, files.get(from));
    files.delete(from);
    return OK;
  }

  return {
    args_sizes_get: (count, size) => {
      setSize(count, words.length);
      setSize(size, words.reduce((sum, word) => sum + word.length, 0));
      return OK;
    },
    args_get: (pointers, at) => {
      words.forEach((word, nth) => {
        setSize(pointers + 4 * nth, at);
        bytesAt(at, word.length).set(word);
        at += word.length;
      });
      return OK;
    },
    environ_sizes_get: (count, size) => {
      setSize(count, 0);
      setSize(size, 0);
      return OK;
    },
    environ_get: () => OK,
    clock_time_get: (clock, precision, at) => {
      setLong(at, Math.round((clock === 0 ? Date.now() : performance.now()) * 1e6));
      return OK;
    },
    fd_prestat_get: (number, at) => {
      if (number !== ROOT) return BADF;
      setSize(at, 0);
      setSize(at + 4, 1);
      return OK;
    },
    fd_prestat_dir_name: (number, at) => {
      bytesAt(at, 1)[0] = "/".charCodeAt(0);
      return OK;
    },
    fd_fdstat_get: (number, at) => {
      bytesAt(at, 24).fill(0);
      view().setUint8(at, number === ROOT ? DIRECTORY : number < ROOT ? CHARACTERS : REGULAR);
      setLong(at + 8, (1n << 30n) - 1n); // all rights
      setLong(at + 16, (1n << 30n) - 1n);
      return OK;
    },
    fd_fdstat_set_flags: () => OK,
    fd_filestat_get: (number, at) => {
      if (number === ROOT) return setStat(at, DIRECTORY, 0);
      const file = open.get(number);
      return file ? setStat(at, number < ROOT ? CHARACTERS : REGULAR, file.bytes.length) : BADF;
    },
    path_filestat_get: (number, flags, path, n, at) => {
      const name = nameAt(path, n);
      if (name === "" || name === ".") return setStat(at, DIRECTORY, 0);
      return files.has(name) ? setStat(at, REGULAR, files.get(name).length) : NOENT;
    },
    path_open: (number, flags, path, n, how, rights, inherited, mode, at) =>
      openFile(nameAt(path, n), how, at),
    path_rename: (number, from, n, into, to, m) => rename(nameAt(from, n), nameAt(to, m)),
    path_unlink_file: (number, path, n) => (files.delete(nameAt(path, n)) ? OK : NOENT),
    fd_read: read,
    fd_write: write,
    fd_seek: seek,
    fd_close: (number) => (open.delete(number) ? OK : BADF),
    proc_exit: (status) => {
      throw new Exit(status);
    },
  };
}

function runProgram(module, args, given) {
  const encoder = new TextEncoder();
  const files = new Map(Object.entries(given).map(([name, text]) =>
    [name, new Bytes(typeof text === "string" ? encoder.encode(text) : text)]));
  const streams = [new Bytes(), new Bytes(), new Bytes()];
  let instance;
  const known = wasiCalls(args, files, streams, () => instance.exports.memory);
  const wasi = {};
  for (const { name } of WebAssembly.Module.imports(module))
    wasi[name] = known[name] || (() => NOSYS);
  instance = new WebAssembly.Instance(module, { wasi_snapshot_preview1: wasi });
  let status = 0;
  try {
    instance.exports._start();
  } catch (error) {
    if (!(error instanceof Exit)) throw error;
    status = error.status;
  }
  return { status, out: streams[1].all, err: streams[2].all,
           files: Object.fromEntries([...files].map(([name, bytes]) => [name, bytes.all])) };
}

// As a worker: {id, module or wasm} is kept; {id, args, files} runs, and is answered.
if (typeof WorkerGlobalScope !== "undefined" && self instanceof WorkerGlobalScope) {
  let module = null;
  self.onmessage = ({ data }) => {
    try {
      if (data.wasm) {
        module = new WebAssembly.Module(data.wasm);
        self.postMessage({ ready: true });
        return;
      }
      const begin = performance.now();
      const result = runProgram(module, data.args, data.files);
      self.postMessage({ id: data.id, ms: performance.now() - begin, ...result });
    } catch (error) {
      self.postMessage({ id: data.id, trap: `${error.name}: ${error.message}` });
    }
  };
}
