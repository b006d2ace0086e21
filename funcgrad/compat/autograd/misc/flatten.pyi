from funcgrad.compat.autograd.optimization import flatten as flatten
from funcgrad.compat.autograd.optimization import flatten_func as flatten_func
