// Makes the arguments of a handler: as one object where its shape is "bundled", and with the trace as the last.
(function assay$arguments(kept, shape, spans, values) {
  "use strict";
  const { isArray, parse, part, compile } = kept;
  const assay$getSpans = async (options) => {
    const all = parse(spans);
    return options === undefined ? all : compile(part("spans"))(isArray, all, options);
  };
  const trace = { getSpans: assay$getSpans };
  if (shape !== "bundled") return [values[0], values[1], values[2], values[3], trace];
  return [{ input: values[0], output: values[1], expected: values[2], metadata: values[3], trace }];
})
