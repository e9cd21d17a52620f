"""Arguments that JavaScript never reads are not shipped to it: found exactly, or not at all."""

import pytest

from assay.runners.children.inspection_javascript import inspect_javascript

UNREAD: list[tuple[str, str, list[int]]] = [
    ("function evaluate(inputs, outputs, trace) { return inputs === outputs }", "evaluate", [2]),
    ("const evaluate = async (a, b, c) => b", "evaluate", [0, 2]),
    ("export default (input, output, expected, metadata, trace) => output.length", "handler", [0, 2, 3, 4]),
    ("const handler = async ({ output }) => output.length", "handler", [0, 2, 3, 4]),
    ("async function handler({ input, trace }) { return (await trace.getSpans()).length }", "handler", [1, 2, 3]),
    ("async function handler({ input, ...rest }) { return 1 }", "handler", []),
    ("function evaluate(inputs, ...rest) { return inputs }", "evaluate", []),
    ("function evaluate(inputs, { length }, trace = 1) { return inputs }", "evaluate", []),
    ("function evaluate(inputs, outputs, trace) { return arguments[2] }", "evaluate", []),
    ("function evaluate(inputs, outputs, trace) { return eval('tra' + 'ce') }", "evaluate", []),
    ("function evaluate(inputs, outputs, trace) { return () => trace }", "evaluate", [0, 1]),
    ("function evaluate(inputs, outputs, trace) { return `${`${trace}`}` }", "evaluate", [0, 1]),
    ("function evaluate(inputs, outputs, trace) { return inputs / trace / outputs }", "evaluate", []),
    ("function evaluate(inputs, outputs, trace) { return \\u0074race }", "evaluate", []),
    ("function evaluate(inputs, outputs, trace) { return 1 }\nevaluate = (a, b, c) => c", "evaluate", []),
    ("function evaluate(inputs, outputs, trace) { return 1 }\nfunction evaluate(a, b, c) { return c }", "evaluate", []),
    ("let evaluate; evaluate = (a, b, c) => c", "evaluate", []),
]


@pytest.mark.parametrize(("source", "entry", "positions"), UNREAD)
def test_what_is_never_read_is_found(source: str, entry: str, positions: list[int]) -> None:
    description, _ = inspect_javascript(source.encode())
    assert description["defect"] is None
    assert description["unread"][entry] == positions
