"""Structured arrays read as in a kernel: ``records[i].field``.

NumPy's own recarray would nearly do, but a field called ``size`` reads the scalar's attribute there.
"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt


class Record:
    """One element of a structured array; its fields are attributes, read and written in place."""

    __slots__ = ("_element",)

    def __init__(self, element: Any) -> None:
        object.__setattr__(self, "_element", element)

    def __getattr__(self, name: str) -> Any:
        return self._element[name]

    def __setattr__(self, name: str, value: Any) -> None:
        self._element[name] = value


class Records:
    """A structured array (n,) whose elements are ``Record``s; what plain-Python kernels are given."""

    def __init__(self, array: npt.NDArray[Any]) -> None:
        self._array = array
        self.shape = array.shape

    def __getitem__(self, index: int) -> Record:
        return Record(self._array[index])
