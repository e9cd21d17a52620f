"""Which interface a source speaks: the one its author names, or the one its function shows, and whether it fits."""

from assay.domain.evaluator import ARGUMENTS, ENTRY_POINTS, Interface, Language
from assay.domain.outcome import Inspection
from assay.errors import InvalidInputError

SOURCE_FIELD = "script"
FOUR_PARAMETERS = 4
PYTHON_ONLY: Interface = "evaluate-app-params"
SHOWN_NAMES = 20


def chosen(inspection: Inspection, language: Language, wanted: Interface | None = None) -> Interface:
    """Return the interface wanted, or the one seen in the code when None is.

    Raises InvalidInputError when the source does not define the function that the interface calls, or defines one that
    cannot take what the interface gives.
    """
    interface = _detected(inspection, language) if wanted is None else wanted
    _demand_language(interface, language)
    _demand_function(inspection, interface)
    if language == "python":
        _demand_parameters(inspection, interface)
    return interface


def _detected(inspection: Inspection, language: Language) -> Interface:
    functions = [name for name in ("handler", "evaluate") if name in inspection.names]
    if len(functions) > 1:
        raise _refusal("The source defines both handler and evaluate; keep one, or name the interface.")
    if not functions:
        raise _refusal(f"The source defines neither evaluate nor handler; it defines: {_names(inspection)}.")
    if functions == ["handler"]:
        return "handler"
    if inspection.names["evaluate"] != FOUR_PARAMETERS:
        return "evaluate"
    if language == "python":
        return PYTHON_ONLY
    raise _refusal(
        f"evaluate takes 4 parameters, the form of {PYTHON_ONLY}, which is Python only; in {language} write "
        'evaluate(inputs, outputs, trace), or name "interface": "evaluate" if the fourth is your own.'
    )


def _demand_language(interface: Interface, language: Language) -> None:
    if interface == PYTHON_ONLY and language != "python":
        raise InvalidInputError(
            f"The interface {interface} is Python only, and this is {language}; take evaluate, whose trace and inputs "
            "hold what the four parameters did.",
            field="interface",
        )


def _demand_function(inspection: Inspection, interface: Interface) -> None:
    function = ENTRY_POINTS[interface]
    if function not in inspection.names:
        raise _refusal(
            f"The interface {interface} calls {function}, which the source does not define; "
            f"it defines: {_names(inspection)}."
        )


def _demand_parameters(inspection: Inspection, interface: Interface) -> None:
    """Hold that the function takes as many arguments as are given; in JavaScript every function does."""
    function, given = ENTRY_POINTS[interface], ARGUMENTS[interface]
    most, least = inspection.names[function], inspection.needed.get(function, 0)
    if most is not None and most < len(given):
        found = f"takes {most}"
    elif least > len(given):
        found = f"needs {least}"
    else:
        return
    raise _refusal(
        f"{function} {found} arguments, but the interface {interface} gives it {len(given)}: "
        f"{function}({', '.join(given)})."
    )


def _names(inspection: Inspection) -> str:
    return ", ".join(list(inspection.names)[:SHOWN_NAMES]) or "nothing"


def _refusal(message: str) -> InvalidInputError:
    return InvalidInputError(message, field=SOURCE_FIELD)
