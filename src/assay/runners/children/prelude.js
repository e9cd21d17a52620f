// Runs before the author's code in every fresh context, and answers for it afterwards. It keeps what it needs of the
// language, since the author may change any of it. What is seldom used stands in other files and is compiled on demand.
// The names of all functions begin alike, so that their steps can be told from the author's in a stack.
(() => {
  "use strict";
  const { part } = globalThis;
  delete globalThis.part;
  const { apply, ownKeys, getPrototypeOf, getOwnPropertyDescriptor, defineProperty } = Reflect;
  const { stringify, parse } = JSON, { isArray } = Array, Plain = Object.prototype, List = Array.prototype;
  const compile = eval, { isWellFormed } = String.prototype, { toISOString } = Date.prototype;
  const MOST_LEVELS = 64, EXACT = Number.MAX_SAFE_INTEGER;
  let left = 0, large = false, answer = "~", body = "", telling;
  const assay$tell = () => telling ??= compile(part("telling"))({
    apply, ownKeys, getPrototypeOf, getOwnPropertyDescriptor, defineProperty, stringify, isArray, Plain, List,
    isWellFormed, toISOString, MOST_LEVELS,
  });
  const assay$fits = (value, level) => {
    const kind = typeof value;
    if (kind === "number") {
      if (value > EXACT || value < -EXACT) large = true;
      return value - value === 0;
    }
    if (kind === "string") return apply(isWellFormed, value, []);
    if (kind !== "object") return kind === "boolean";
    if (value === null) return true;
    const keys = ownKeys(value), above = getPrototypeOf(value), length = keys.length;
    if (level > MOST_LEVELS) return false;
    if (isArray(value) ? above !== List || length !== value.length + 1 : above !== Plain && above !== null) return false;
    left -= length;
    for (let i = 0; i < length && left >= 0; i++) {
      const key = keys[i];
      if (typeof key !== "string" || key === "toJSON" || !apply(isWellFormed, key, [])) return false;
      const property = getOwnPropertyDescriptor(value, key);
      const inner = property.value;
      if (property.enumerable && !(assay$fits(inner, level + 1) && value[key] === inner)) return false;
    }
    return true;
  };
  const assay$fail = (error) => {
    answer = "!";
    const told = assay$tell().told(error);
    answer = told.answer;
    body = told.body;
  };
  const assay$finish = (value, most) => {
    left = most;
    if (value === undefined) value = null;
    if (List.toJSON !== undefined || Plain.toJSON !== undefined)
      throw new TypeError("a toJSON of all objects or arrays would replace the result");
    large = false;
    if (!assay$fits(value, 1)) {
      body = assay$tell().fitted(value, most);
      answer = "#";
    } else {
      if (left >= 0) body = stringify(value);
      answer = left < 0 ? ">" : large ? "#" : "=";
    }
  };
  const assay$settle = async (promise, most) => {
    try {
      assay$finish(await promise, most);
    } catch (error) {
      assay$fail(error);
    }
  };
  const assay$begin = (run, most, shape, spans, values) => {
    if (typeof run !== "function") return void (answer = "?");
    for (let i = 0; i < values.length; i++) values[i] = parse(values[i]);
    if (shape) values = compile(part("handler"))({ isArray, parse, part, compile }, shape, spans, values);
    const value = apply(run, undefined, values);
    const holds = value !== null && (typeof value === "object" || typeof value === "function");
    if (holds && typeof value.then === "function") assay$settle(value, most);
    else assay$finish(value, most);
  };
  const assay$console = (value = compile(part("console"))(assay$tell, stringify, part)) => {
    defineProperty(globalThis, "console", { value, writable: true, configurable: true });
    return value;
  };
  defineProperty(globalThis, "console", { get: assay$console, set: assay$console, configurable: true });
  const assay$run = (text, name, most, shape, spans, ...values) => {
    if (most === undefined) return text === undefined ? answer : body;
    if (text === null)
      return void compile(part("module"))(assay$begin, assay$fail, name, most, shape, spans, values);
    try {
      assay$begin(compile(text), most, shape, spans, values);
    } catch (error) {
      assay$fail(error);
    }
  };
  return assay$run;
})()
