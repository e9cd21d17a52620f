// Runs an author's JavaScript inside a remote sandbox: started by the supervisor, which sends frames on standard input,
// reads answers from the descriptor named by the argument and logs from descriptor 1, and kills this process when a budget is used up.
// Every evaluation has a context of its own. Only text crosses into it, and a function that takes a line of the logs.
import { readSync, writeSync } from "node:fs";
import * as modules from "node:module";
import vm from "node:vm";

// The last one is for the supervisor alone: numbers in the value stand for the nearest float.
const STATUS = { returned: 0, raised: 1, memory: 2, result: 3, inexact: 4 };
const NAME = "<input>", MOST_TICKS = 4, MOST_OF_MESSAGE = 4000, MOST_OF_LINE = 200, ANSWERS = +process.argv[2];
const STEP = /^\s*at (?:(.*) \()?<input>:(\d+):(\d+)\)?$/;
const setUp = new vm.Script(
  `"use strict"; (emit, texts) => {
    const { parse } = JSON, parts = parse(texts);
    globalThis.part = (wanted) => {
      if (wanted[0] !== '"') return parts[wanted];
      try { emit(parse(wanted) + "\\n"); } catch {}
      return "";
    };
    const run = (0, eval)(parts.prelude);
    return { __proto__: null, run, kind: () => run(), body: () => run(""), refusal: (message) => new TypeError(message) };
  }`,
  { filename: "assay", importModuleDynamically: (...given) => imported(...given) },
);
let revision, inside, authored;

process.on("unhandledRejection", () => {});
for (;;) {
  const [what, ...texts] = received();
  if (what === "load") loaded(texts[0]);
  else if (what === "call") await answered(texts);
  else if (what === "strip") send(STATUS.returned, 0, JSON.stringify(stripped(texts[0])));
  else send(STATUS.returned, 0, JSON.stringify(parsed(texts[0], what === "module")));
}

function loaded(text) {
  revision = JSON.parse(text);
  send(STATUS.returned, 0, "{}");
}

function received() {
  const count = read(4).readUInt32LE(), texts = [];
  for (let i = 0; i < count; i++) texts.push(read(read(4).readUInt32LE()).toString("utf8"));
  return texts;
}

function read(size) {
  const buffer = Buffer.alloc(size);
  for (let got = 0; got < size; ) {
    const more = readSync(0, buffer, got, size - got, null);
    if (more === 0) process.exit(0);
    got += more;
  }
  return buffer;
}

function send(status, duration, text) {
  const body = Buffer.from(text), head = Buffer.alloc(13);
  head.writeUInt8(status, 0);
  head.writeDoubleLE(duration, 1);
  head.writeUInt32LE(body.length, 9);
  writeAll(ANSWERS, Buffer.concat([head, body]));
}

function writeAll(descriptor, bytes) {
  for (let done = 0; done < bytes.length; ) done += writeSync(descriptor, bytes, done);
}

async function answered(texts) {
  const began = process.hrtime.bigint();
  const told = await evaluated(texts);
  send(told[0], Number(process.hrtime.bigint() - began) / 1e9, told[1]);
}

async function evaluated(texts) {
  const context = vm.createContext({ __proto__: null });
  inside = setUp.runInContext(context)((line) => writeAll(1, Buffer.from(line)), revision.parts);
  const spans = revision.entry === "handler" ? texts.pop() : null;
  try {
    const name = revision.module ? await prepare(context) : null;
    const text = revision.module ? null : `${revision.text}\n;${last(revision.entry)}\n//# sourceURL=${NAME}`;
    inside.run(text, name, revision.most, revision.shape, spans, ...texts);
  } catch (error) {
    return told("-", JSON.stringify(described(error)));
  }
  for (let tick = 0; tick < MOST_TICKS && inside.kind() === "~"; tick++) await new Promise(setImmediate);
  return told(inside.kind(), inside.body());
}

function last(entry) {
  return `typeof ${entry} === 'undefined' ? undefined : ${entry}`;
}

async function prepare(context) {
  const { entry, text } = revision;
  await link(context, text);
  if (entry in authored.namespace) return entry;
  try {
    // It need not be exported: a name of the module's own will do.
    await link(context, `${text}\n;export { ${entry} as "(assay)" };`);
    return "(assay)";
  } catch {
    await link(context, text);
    return "default";
  }
}

async function link(context, text) {
  authored = undefined;
  const module = new vm.SourceTextModule(text, { context, identifier: NAME, importModuleDynamically: imported });
  await module.link(imported);
  authored = module;
}

async function imported(specifier) {
  if (specifier === NAME && authored !== undefined) {
    await authored.evaluate();
    return authored;
  }
  throw inside.refusal(`an evaluator cannot import modules, and this imports '${specifier}'`);
}

function described(error) {
  const { name = "Error", message = "", stack = "" } = Object(error);
  return { kind: "script-raised", type: String(name), message: String(message), stack: String(stack) };
}

function told(kind, body) {
  const { entry } = revision;
  if (kind === "=" || kind === "#") {
    const size = Buffer.byteLength(body);
    return size > revision.most ? [STATUS.result, String(size)] : [kind === "#" ? STATUS.inexact : STATUS.returned, body];
  }
  if (kind === ">") return [STATUS.result, "0"];
  if (kind === "!") return [STATUS.memory, "null"];
  if (kind === "-") return [STATUS.raised, JSON.stringify(located(JSON.parse(body)))];
  const report = { line: null, traceback: null };
  if (kind === "?")
    return [STATUS.raised, JSON.stringify({ kind: "entry-point-missing", type: "ReferenceError",
      message: `the code must define a function named '${entry}'`, ...report })];
  return [STATUS.raised, JSON.stringify({ kind: "unsupported-return-type", type: "PendingPromise",
    message: `${entry} returned a promise that never settles: nothing that is left to run could resolve it`, ...report })];
}

function located(report) {
  const type = cut(report.type), message = cut(report.message), shown = [`${type}: ${message}`];
  let first = null;
  for (const text of report.stack.split("\n")) {
    const step = STEP.exec(text);
    if (step === null || (first === null && step[1] === `new ${type}`)) continue;
    const line = revision.lines === null ? +step[2] : (revision.lines[step[2] - 1] ?? +step[2]);
    const where = revision.lines === null ? `line ${line}, column ${step[3]}` : `line ${line}`;
    first ??= line;
    shown.push(`    at ${step[1] ? `${step[1]} (${where})` : where}`);
    const source = revision.source[line - 1];
    if (source !== undefined) shown.push(`        ${source.trim().slice(0, MOST_OF_LINE)}`);
  }
  return { kind: report.kind, type, message, line: first, traceback: first === null ? null : shown.join("\n") };
}

function cut(text) {
  const kept = text.length > MOST_OF_MESSAGE ? `${text.slice(0, MOST_OF_MESSAGE)}…` : text;
  return kept.toWellFormed();
}

function parsed(text, asModule) {
  const defects = [];
  if (!asModule) {
    const defect = scriptDefect(text);
    if (defect === null) return { module: false };
    defects.push(defect);
  }
  try {
    const module = new vm.SourceTextModule(text, { identifier: NAME, context: vm.createContext() });
    const names = module.dependencySpecifiers;
    if (names.length === 0) return { module: true };
    const message = `an evaluator cannot import modules, and this imports '${names[0]}'`;
    return { defect: { message, imports: names[0], line: null, column: null } };
  } catch (error) {
    // The engine does not say where in a module it stopped; where a script of the same text fails alike, it does.
    const alike = scriptDefect(text.replace(/^(\s*)export default\b/gm, "$1var _         =").replace(/^(\s*)export\b/gm, "$1      "));
    const here = { message: error.message, line: null, column: null };
    defects.push(alike !== null && alike.message === here.message ? alike : here);
  }
  return { defect: defects[0] };
}

function scriptDefect(text) {
  try {
    new vm.Script(text, { filename: NAME });
    return null;
  } catch (error) {
    return { message: error.message, ...placed(error.stack) };
  }
}

function placed(stack) {
  const line = /^(?:<input>)?:(\d+)\n/.exec(stack), caret = /^([^\S\n]*)\^/m.exec(stack);
  if (line === null) return { line: null, column: null };
  return { line: +line[1], column: caret === null ? null : caret[1].length + 1 };
}

function stripped(text) {
  if (typeof modules.stripTypeScriptTypes !== "function")
    return { lacking: `Node.js ${process.version} cannot strip types; TypeScript needs 22.13 or newer in the snapshot` };
  try {
    return { text: modules.stripTypeScriptTypes(text), lines: null };
  } catch (error) {
    if (error.code !== "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX") return { defect: { message: error.message, ...placed(error.stack) } };
    return transformed(text, error);
  }
}

function transformed(text, refused) {
  let whole;
  try {
    whole = modules.stripTypeScriptTypes(text, { mode: "transform", sourceMap: true });
  } catch (error) {
    // A Node.js that only strips says so about itself; what the author reads is what it would not strip.
    const told = error.code === "ERR_INVALID_ARG_VALUE" ? refused : error;
    return { defect: { message: told.message, ...placed(told.stack) } };
  }
  const cutAt = whole.lastIndexOf("\n//# sourceMappingURL=");
  const map = JSON.parse(Buffer.from(whole.slice(whole.indexOf("base64,", cutAt) + 7), "base64").toString("utf8"));
  return { text: whole.slice(0, cutAt), lines: originalLines(map.mappings) };
}

function originalLines(mappings) {
  const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", lines = [];
  let original = 0, known = 1;
  for (const generated of mappings.split(";")) {
    let first = null;
    for (const segment of generated.split(",")) {
      const fields = [];
      for (let i = 0, value = 0, shift = 0; i < segment.length; i++) {
        const digit = digits.indexOf(segment[i]);
        value |= (digit & 31) << shift;
        shift += 5;
        if (digit & 32) continue;
        fields.push(value & 1 ? -(value >> 1) : value >> 1);
        value = shift = 0;
      }
      if (fields.length < 4) continue;
      original += fields[2];
      first ??= original + 1;
    }
    known = first ?? known;
    lines.push(known);
  }
  return lines;
}
