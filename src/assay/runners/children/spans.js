// Picks the spans of the types that `trace.getSpans({ spanType })` names.
(function assay$pick(isArray, spans, options) {
  "use strict";
  const assay$refuse = (what) => {
    throw new TypeError(`getSpans takes nothing, { spanType: "llm" } or { spanType: ["llm", "tool"] }; it got ${what}`);
  };
  if (options === null || typeof options !== "object" || isArray(options)) assay$refuse(typeof options);
  for (const name in options) if (name !== "spanType") assay$refuse(`{ ${name} }`);
  const { spanType } = options;
  if (spanType === undefined || spanType === null) return spans;
  const wanted = isArray(spanType) ? spanType : [spanType], found = [];
  for (let i = 0; i < wanted.length; i++)
    if (typeof wanted[i] !== "string") assay$refuse(`a spanType that holds ${typeof wanted[i]}`);
  for (let i = 0; i < spans.length; i++) {
    for (let j = 0; j < wanted.length; j++) {
      if (spans[i].type === wanted[j]) {
        found[found.length] = spans[i];
        break;
      }
    }
  }
  return found;
})
