"""Optimizers: each is a pair of pure functions, and its state is a value that you carry along.

``init(params)`` returns the first state; ``update(grads, state, params)`` returns the updates to
add to the parameters, and the next state. Nothing is remembered between calls or modified:

>>> import funcgrad as fg
>>> import funcgrad.optim as optim
>>> optimizer = optim.sgd(0.1)
>>> params = {"w": fg.tensor(3.0)}
>>> state = optimizer.init(params)
>>> for _ in range(2):
...     grads = fg.grad(lambda params: params["w"] ** 2)(params)
...     updates, state = optimizer.update(grads, state, params)
...     params = optim.apply_updates(params, updates)
>>> params
{'w': Tensor(1.92)}

Parameters are any pytree of floating or complex tensors, and keep their dtypes. States are pytrees
of tensors whose structure does not depend on the optimizer's options, so every transformation
applies to steps: differentiate a training run in its learning rate, or batch many runs by ``vmap``.
"""

from typing import TYPE_CHECKING

from funcgrad._hints.lookup import missing_from as _missing_from
from funcgrad.optim import projections, prox, schedules
from funcgrad.optim.adafactor import AdafactorState, adafactor
from funcgrad.optim.adam import (
    AdamState,
    MomentsState,
    adabelief,
    adam,
    adamax,
    adamw,
    nadam,
    radam,
)
from funcgrad.optim.base import Optimizer, apply_updates
from funcgrad.optim.chain import ChainState, chain, partition
from funcgrad.optim.gradient_changes import (
    add_weight_decay,
    centralize,
    clip,
    clip_by_norm,
    freeze,
    scale,
)
from funcgrad.optim.gradient_memories import (
    EmaState,
    NoiseState,
    ReduceOnPlateauState,
    TraceState,
    ema,
    noise,
    reduce_on_plateau,
    trace,
)
from funcgrad.optim.lbfgs import LbfgsState, lbfgs
from funcgrad.optim.lookahead import LookaheadState, lookahead
from funcgrad.optim.muon import MuonDimensionNumbers, MuonState, muon
from funcgrad.optim.optimistic import (
    OptimisticAdamState,
    OptimisticState,
    optimistic_adam,
    optimistic_gradient_descent,
)
from funcgrad.optim.parameter_means import AverageState, average_params, eval_params
from funcgrad.optim.prodigy import ProdigyState, prodigy
from funcgrad.optim.proximal import proximal_gradient
from funcgrad.optim.rms_family import (
    AdadeltaState,
    AdagradState,
    RmspropState,
    adadelta,
    adagrad,
    rmsprop,
)
from funcgrad.optim.sam import sam
from funcgrad.optim.schedule_free import ScheduleFreeState, schedule_free
from funcgrad.optim.sgd import LambState, LionState, SgdState, lamb, lion, sgd
from funcgrad.optim.whole_runs import OptimizerRun, minimize
from funcgrad.optim.wrappers import AccumulateState, ApplyIfFiniteState, accumulate, apply_if_finite

__all__ = [
    "AccumulateState",
    "AdadeltaState",
    "AdafactorState",
    "AdagradState",
    "AdamState",
    "ApplyIfFiniteState",
    "AverageState",
    "ChainState",
    "EmaState",
    "LambState",
    "LbfgsState",
    "LionState",
    "LookaheadState",
    "MomentsState",
    "MuonDimensionNumbers",
    "MuonState",
    "NoiseState",
    "OptimisticAdamState",
    "OptimisticState",
    "Optimizer",
    "OptimizerRun",
    "ProdigyState",
    "ReduceOnPlateauState",
    "RmspropState",
    "ScheduleFreeState",
    "SgdState",
    "TraceState",
    "accumulate",
    "adabelief",
    "adadelta",
    "adafactor",
    "adagrad",
    "adam",
    "adamax",
    "adamw",
    "add_weight_decay",
    "apply_if_finite",
    "apply_updates",
    "average_params",
    "centralize",
    "chain",
    "clip",
    "clip_by_norm",
    "ema",
    "eval_params",
    "freeze",
    "lamb",
    "lbfgs",
    "lion",
    "lookahead",
    "minimize",
    "muon",
    "nadam",
    "noise",
    "optimistic_adam",
    "optimistic_gradient_descent",
    "partition",
    "prodigy",
    "projections",
    "prox",
    "proximal_gradient",
    "radam",
    "reduce_on_plateau",
    "rmsprop",
    "sam",
    "scale",
    "schedule_free",
    "schedules",
    "sgd",
    "trace",
]

if not TYPE_CHECKING:  # which know the names that there are
    __getattr__ = _missing_from(__name__)
__dir__ = __all__.copy  # completion shows the public names, without the modules
