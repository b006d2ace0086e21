from funcgrad.compat.autograd.scipy_functions import convolve as convolve
