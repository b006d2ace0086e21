from funcgrad.compat.autograd.optimization import const_graph as const_graph
from funcgrad.compat.autograd.optimization import flatten as flatten
