"""Containers as vectors, optimizers and fixed points: autograd's ``misc``."""

from funcgrad.compat.autograd.misc import fixed_points as fixed_points
from funcgrad.compat.autograd.misc import optimizers as optimizers
from funcgrad.compat.autograd.misc.flatten import flatten as flatten
from funcgrad.compat.autograd.misc.tracers import const_graph as const_graph
