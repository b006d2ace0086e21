from funcgrad.compat.autograd.optimization import adam as adam
from funcgrad.compat.autograd.optimization import rmsprop as rmsprop
from funcgrad.compat.autograd.optimization import sgd as sgd
