// Says what the author's code threw or printed, and makes JSON of what it returned, or says why that cannot be.
// What it is given is of the language before the author could change it.
((kept) => {
  "use strict";
  const { apply, ownKeys, getPrototypeOf, getOwnPropertyDescriptor, defineProperty } = kept;
  const { stringify, isArray, Plain, List, isWellFormed, toISOString, MOST_LEVELS } = kept;
  const MOST_SHOWN = 100, MOST_SHOWN_LEVELS = 4, MOST_MAKERS = 8;
  let refusal;
  const assay$refuse = (kind, message) => {
    throw (refusal = { kind, type: "UnfitValue", message, stack: "" });
  };
  const assay$name = (value) => {
    try {
      const { name } = getPrototypeOf(value).constructor;
      return typeof name === "string" && name !== "" ? name : "object";
    } catch {
      return "object";
    }
  };
  // The names of the classes it was made by, one a line: their constructors are not where it was thrown.
  const assay$makers = (value) => {
    let names = "";
    try {
      let above = value;
      for (let i = 0; i < MOST_MAKERS && above !== null; i++) {
        names += `${assay$name(above)}\n`;
        above = getPrototypeOf(above);
      }
    } catch {
      return names;
    }
    return names;
  };
  const assay$article = (name) => (/^[aeiou]/i.test(name) ? `an ${name}` : `a ${name}`);
  const assay$kind = (value) => {
    if (value === undefined) return "undefined";
    if (typeof value === "bigint") return "a BigInt (make a number of it with Number(), or text)";
    if (typeof value === "symbol" || typeof value === "function") return assay$article(typeof value);
    if (value instanceof Promise) return "a Promise (was an await forgotten?)";
    return assay$article(assay$name(value));
  };
  const assay$at = (path) => (path === "" ? "the returned value" : `the value at '${path.slice(0, 200)}'`);
  const assay$below = (path, key) => (path === "" ? `${key}` : `${path}.${key}`);
  const assay$unfit = (value, path) => {
    if (path === "")
      assay$refuse(
        "unsupported-return-type",
        `the code returned ${assay$kind(value)}; ` +
          "it may return an object, an array, a string, a number, a boolean, null or undefined",
      );
    const holds = "JSON holds objects, arrays, strings, numbers, booleans and null";
    assay$refuse("not-json-serialisable", `${assay$at(path)} is ${assay$kind(value)}: ${holds}`);
  };

  const assay$fitted = (whole, most) => {
    let left = most;
    const above = [];
    const assay$take = (size) => {
      if ((left -= size) < 0) assay$refuse("too-large", "");
    };
    const assay$text = (value, path) => {
      assay$take(value.length);
      if (!apply(isWellFormed, value, []))
        assay$refuse("bad-unicode", `${assay$at(path)} has half of a surrogate pair: not valid text`);
      return value;
    };
    const assay$date = (value, path) => {
      try {
        return apply(toISOString, value, []);
      } catch {
        return assay$refuse("not-json-serialisable", `${assay$at(path)} is an invalid Date`);
      }
    };
    const assay$items = (list, path) => {
      const result = [];
      for (let i = 0; i < list.length; i++) {
        assay$take(2);
        defineProperty(result, i, { __proto__: null, value: assay$copy(list[i], assay$below(path, i)), enumerable: true });
      }
      const keys = ownKeys(list);
      for (let i = 0; i < keys.length; i++)
        if (typeof keys[i] === "symbol" || (keys[i] !== "length" && !(keys[i] < list.length)))
          assay$refuse(
            "not-json-serialisable",
            `${assay$at(path)} is an array with the further key '${String(keys[i])}', which JSON would lose`,
          );
      return result;
    };
    const assay$entries = (object, path) => {
      const result = { __proto__: null }, keys = ownKeys(object);
      for (let i = 0; i < keys.length; i++) {
        const key = keys[i];
        if (typeof key === "symbol")
          assay$refuse("non-string-key", `${assay$at(path)} has the key ${String(key)}: JSON keys are strings`);
        if (!getOwnPropertyDescriptor(object, key)?.enumerable) continue;
        assay$take(4);
        assay$text(key, path);
        const value = assay$copy(object[key], assay$below(path, key));
        defineProperty(result, key, { __proto__: null, value, enumerable: true });
      }
      return result;
    };
    const assay$copy = (value, path) => {
      if (value === null || typeof value === "boolean") return value;
      if (typeof value === "string") return assay$text(value, path);
      if (typeof value === "number") {
        if (value - value !== 0) assay$refuse("non-finite", `${assay$at(path)} is ${value}: JSON has no such number`);
        return value;
      }
      if (typeof value !== "object") assay$unfit(value, path);
      if (value instanceof Date) return assay$date(value, path);
      const proto = getPrototypeOf(value);
      if (isArray(value) ? proto !== List : proto !== Plain && proto !== null) assay$unfit(value, path);
      if (above.length >= MOST_LEVELS)
        assay$refuse("too-deep", `the returned value is nested more than ${MOST_LEVELS} levels deep`);
      for (let i = 0; i < above.length; i++)
        if (above[i] === value) assay$refuse("not-json-serialisable", `${assay$at(path)} contains itself`);
      above[above.length] = value;
      const result = isArray(value) ? assay$items(value, path) : assay$entries(value, path);
      above.length -= 1;
      return result;
    };
    return stringify(assay$copy(whole, ""));
  };

  const assay$report = (report) => ({ __proto__: null, answer: "-", body: stringify(report) });
  const assay$told = (error) => {
    if (refusal !== undefined && error === refusal)
      return refusal.kind === "too-large" ? { __proto__: null, answer: ">", body: "" } : assay$report(refusal);
    const report = { __proto__: null, kind: "script-raised", type: typeof error, message: "", stack: "", makers: "" };
    if (error === null || (typeof error !== "object" && typeof error !== "function")) {
      report.type = error === null ? "null" : typeof error;
      report.message = String(error);
      return assay$report(report);
    }
    const assay$read = (name) => {
      try {
        const found = error[name];
        return typeof found === "string" ? found : undefined;
      } catch {
        return undefined;
      }
    };
    const given = assay$read("name");
    report.type = given === undefined || given === "" || given === "Error" ? assay$name(error) : given;
    report.message = assay$read("message") ?? assay$shown(error);
    report.stack = assay$read("stack") ?? "";
    report.makers = assay$makers(error);
    return assay$report(report);
  };

  const assay$shown = (value) => {
    try {
      return assay$draw(value, 0, []);
    } catch {
      return "[what cannot be shown]";
    }
  };
  const assay$list = (values, draw) => {
    const shown = values.slice(0, MOST_SHOWN).map(draw);
    if (values.length > MOST_SHOWN) shown.push(`… ${values.length - MOST_SHOWN} more`);
    return shown.join(", ");
  };
  const assay$draw = (value, level, above) => {
    if (typeof value === "string") return level ? stringify(value) : value;
    if (typeof value === "bigint") return `${value}n`;
    if (Object.is(value, -0)) return "-0";
    if (typeof value === "function") return `[Function: ${value.name || "anonymous"}]`;
    if (value === null || typeof value !== "object") return String(value);
    if (value instanceof Date) return Number.isNaN(+value) ? "Invalid Date" : value.toISOString();
    if (value instanceof Error) return `${value.name}: ${value.message}`;
    if (value instanceof RegExp) return String(value);
    if (above.includes(value)) return "[Circular]";
    const name = assay$name(value);
    if (level >= MOST_SHOWN_LEVELS) return isArray(value) ? "[Array]" : `[${name}]`;
    const within = [...above, value];
    const assay$inner = (item) => assay$draw(item, level + 1, within);
    if (isArray(value)) return `[${assay$list(value, assay$inner)}]`;
    if (value instanceof Map) {
      const assay$pair = ([key, item]) => `${assay$inner(key)} => ${assay$inner(item)}`;
      return `Map(${value.size}) {${assay$list([...value], assay$pair)}}`;
    }
    if (value instanceof Set) return `Set(${value.size}) {${assay$list([...value], assay$inner)}}`;
    const assay$entry = (key) => `${key}: ${assay$inner(value[key])}`;
    const prefix = name === "Object" || name === "object" ? "" : `${name} `;
    return `${prefix}{${assay$list(Object.keys(value), assay$entry)}}`;
  };
  return { __proto__: null, fitted: assay$fitted, told: assay$told, shown: assay$shown };
})
