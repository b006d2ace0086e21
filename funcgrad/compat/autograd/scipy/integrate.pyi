from funcgrad.compat.autograd.scipy_functions import odeint as odeint
