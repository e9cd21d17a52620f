// The console: each line goes to the logs of the evaluation; what measures, counts or clears does nothing.
((tell, stringify, part) => {
  "use strict";
  const assay$log = (...values) => {
    let line = "";
    for (let i = 0; i < values.length; i++)
      line += (i ? " " : "") + (typeof values[i] === "string" ? values[i] : tell().shown(values[i]));
    part(stringify(line));
  };
  const assay$assert = (holds, ...values) => {
    if (!holds) assay$log("Assertion failed:", ...values);
  };
  const assay$nothing = () => {};
  const console = { assert: assay$assert };
  const printing = ["log", "info", "warn", "error", "debug", "trace", "dir", "table", "group", "groupCollapsed"];
  const quiet = ["groupEnd", "time", "timeLog", "timeEnd", "count", "countReset", "clear"];
  for (let i = 0; i < printing.length; i++) console[printing[i]] = assay$log;
  for (let i = 0; i < quiet.length; i++) console[quiet[i]] = assay$nothing;
  return console;
})
