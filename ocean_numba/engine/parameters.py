"""An environment's parameters: a frozen dataclass whose fields know their valid range."""

from __future__ import annotations

import dataclasses
import math
import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


def parameter(
    default: Any,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
) -> Any:
    """Declare a dataclass field: its default, what it means, and what it may be.

    Args:
        default: an int, float or bool, which also says the type.
        help: a few words.
        low: the least value allowed.
        high: the greatest value allowed.
        above: what the value must be greater than (instead of `low`).
    """
    limits = {"low": low, "high": high, "above": above}
    return dataclasses.field(default=default, metadata={"help": help, "limits": limits})


@dataclass(frozen=True)
class Parameters:
    """Base of every environment's ``Params``; construction checks types and ranges.

    Raises:
        ValueError: names every faulty parameter, its value and what it may be.
    """

    def __post_init__(self) -> None:
        faults = [fault for field in dataclasses.fields(self) if (fault := self._fault_of(field))]
        if not faults:
            for field in dataclasses.fields(self):  # 4.0 becomes 4, NumPy's numbers Python's
                kind: Any = type(field.default)
                object.__setattr__(self, field.name, kind(getattr(self, field.name)))
            faults = self.conflicts()
        if faults:
            raise ValueError("; ".join(faults))

    def conflicts(self) -> list[str]:
        """Faults between several parameters, a sentence each; authors override it."""
        return []

    def _fault_of(self, field: dataclasses.Field[Any]) -> str | None:
        kind: Any = type(field.default)
        value, limits = getattr(self, field.name), field.metadata["limits"]
        if kind is bool:
            fits = isinstance(value, (bool, np.bool_))
        else:
            fits = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
            fits = fits and bool(abs(value) < _LARGEST[kind]) and (kind is float or value == int(value))
            fits = fits and all(limit is None or _HOLDS[name](value, limit) for name, limit in limits.items())
        return None if fits else f"{field.name}={value!r} is not valid: it takes {_describe(kind, **limits)}"

    def as_record(self) -> npt.NDArray[Any]:
        """Parameters and derived numbers as a structured array (1,) for kernels: int64, float64, bool."""
        kinds = {bool: "?", int: "i8", float: "f8"}
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        values.update(self.derived())
        record = np.zeros(1, np.dtype([(name, kinds[type(v)]) for name, v in values.items()], align=True))
        for name, value in values.items():
            record[name] = value
        return record

    def derived(self) -> dict[str, bool | int | float]:
        """What follows from the parameters and is wanted in kernels; authors override it."""
        return {}


_LARGEST = {int: 2**63, float: math.inf}
_HOLDS = {"low": operator.ge, "high": operator.le, "above": operator.gt}


def _describe(kind: type, low: float | None, high: float | None, above: float | None) -> str:
    noun = {bool: "true or false", int: "an integer", float: "a number"}[kind]
    if low is not None and high is not None:
        return f"{noun} from {low} to {high}" if low != high else f"only {low}"
    limits = {"of at least": low, "greater than": above, "of at most": high}
    words = [f"{word} {limit}" for word, limit in limits.items() if limit is not None]
    return " ".join([noun, " and ".join(words)]).strip()
