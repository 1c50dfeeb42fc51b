"""A policy in a few lines of text, for the start of a run."""

from __future__ import annotations

from torch import nn


def describe(policy: nn.Module) -> str:
    """Lay out the layers of `policy`: name, kind, shapes of the parameters, and how many there are."""
    rows = []
    for name, module in policy.named_modules():
        parameters = list(module.parameters(recurse=False))
        if parameters:
            shapes = ", ".join("x".join(map(str, p.shape)) or "1" for p in parameters)
            rows.append((name or "policy", type(module).__name__, shapes, _count(parameters)))
    rows.append(("total", type(policy).__name__, "", _count(list(policy.parameters()))))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join(
        f"{name:<{widths[0]}}  {kind:<{widths[1]}}  {shapes:<{widths[2]}}  {count:>{widths[3]}}"
        for name, kind, shapes, count in rows
    )


def _count(parameters: list[nn.Parameter]) -> str:
    return f"{sum(p.numel() for p in parameters):,}"
