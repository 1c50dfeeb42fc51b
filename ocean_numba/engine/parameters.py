"""An environment's parameters: a frozen dataclass whose fields know their valid range."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


def parameter(default: Any, help: str, *, low: float | None = None, high: float | None = None) -> Any:
    """Declare a dataclass field: its default, what it means, and the range low … high (both inclusive)."""
    return dataclasses.field(default=default, metadata={"help": help, "low": low, "high": high})


@dataclass(frozen=True)
class Parameters:
    """Base of every environment's ``Params``; construction checks types and ranges.

    Raises:
        ValueError: names every faulty parameter, its value and what it may be.
    """

    def __post_init__(self) -> None:
        faults = [fault for field in dataclasses.fields(self) if (fault := self._fault_of(field))]
        # The rules between fields assume that each field alone is sound.
        faults = faults or self.conflicts()
        if faults:
            raise ValueError("; ".join(faults))

    def conflicts(self) -> list[str]:
        """Faults between several parameters, a sentence each; authors override it."""
        return []

    def _fault_of(self, field: dataclasses.Field[Any]) -> str | None:
        value, kind = getattr(self, field.name), type(field.default)
        number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
        fits = {
            bool: isinstance(value, (bool, np.bool_)),
            int: number and float(value).is_integer(),
            float: number and math.isfinite(value),
        }[kind]
        low, high = field.metadata["low"], field.metadata["high"]
        if fits and not (number and ((low is not None and value < low) or (high is not None and value > high))):
            return None
        return f"{field.name}={value!r} is not valid: it takes {_describe(kind, low, high)}"

    def as_record(self) -> npt.NDArray[Any]:
        """The parameters as a structured array (1,) that kernels read: int64, float64 and bool fields."""
        kinds = {bool: "?", int: "i8", float: "f8"}
        fields = dataclasses.fields(self)
        record = np.zeros(1, np.dtype([(f.name, kinds[type(f.default)]) for f in fields], align=True))
        for field in fields:
            record[field.name] = getattr(self, field.name)
        return record


def _describe(kind: type, low: float | None, high: float | None) -> str:
    noun = {bool: "true or false", int: "an integer", float: "a number"}[kind]
    if low is not None and high is not None:
        return f"{noun} from {low} to {high}"
    if low is not None:
        return f"{noun} of at least {low}"
    if high is not None:
        return f"{noun} of at most {high}"
    return noun
