"""Networks that act: an encoder, a core and the heads that the action space asks for.

Any `nn.Module` with the methods of `puffertoolkit.policies.interfaces.ActorCritic` can stand in for `Policy`.
"""

from puffertoolkit.policies.cores import LSTMCore, NoCore
from puffertoolkit.policies.distributions import Categorical, DiagonalNormal, MultiCategorical
from puffertoolkit.policies.encoders import MLPEncoder
from puffertoolkit.policies.heads import make_action_head
from puffertoolkit.policies.interfaces import ActorCritic, Core, Distribution, State
from puffertoolkit.policies.policy import Policy
from puffertoolkit.policies.summary import describe

__all__ = [
    "ActorCritic",
    "Categorical",
    "Core",
    "DiagonalNormal",
    "Distribution",
    "LSTMCore",
    "MLPEncoder",
    "MultiCategorical",
    "NoCore",
    "Policy",
    "State",
    "describe",
    "make_action_head",
]
