// Begins with what a module exports, once it is there.
(async function assay$load(begin, fail, name, ...given) {
  try {
    const module = await import("<input>");
    begin(module[name], ...given);
  } catch (error) {
    fail(error);
  }
})
