"""How nearly a schedule solves (22), judged without a second solver."""

import numpy as np

from .round import Certificate, Problem, Schedule, price


def certify(problem: Problem, schedule: Schedule) -> Certificate:
    """Residuals of the optimality conditions of (22), and a bound on what could be gained.

    The prices beta_j of (22a) are read off the shares by (89). Whatever shares they come
    from, they bound the optimum from below: for prices that sum to one, minimising the
    Lagrangian (23) over a, f and H leaves

        (sum_j sqrt(beta_j u_j))^2 + sum_j min_t (w_j / t^2 + beta_j t) + upload energy,

    with t = c_j / f_j within its bounds. So `gap` holds for the schedule of any policy.
    """
    u, c = problem.band_time, problem.cycles
    a, f = schedule.share, schedule.freq
    low, high = problem.freq_min, problem.freq_max
    weight = problem.energy_weight / u.shape[-1]  # l_0 / K
    cost = price(problem, schedule)

    beta = a**2 / u
    beta = beta / beta.sum(-1, keepdims=True)  # (89), R so that the derivative by H is 0
    with np.errstate(divide="ignore"):  # energy for free
        best = np.clip(np.cbrt(beta / (2 * weight * problem.kappa)), low, high)  # (90), in bounds
    bound = (
        np.sqrt(beta * u).sum(-1) ** 2
        + (weight * problem.kappa * best**2 * c + beta * c / best).sum(-1)
        + problem.energy_weight * problem.upload_energy.sum(-1)
    )
    excess = np.maximum(np.maximum(1 - f / low, f / high - 1), a.sum(-1, keepdims=True) - 1)
    finish = cost.upload_time + cost.compute_time
    slack = beta * (1 - finish / cost.duration[..., None])  # a price only where (22a) is tight
    return Certificate(
        primal=np.maximum(0, excess).max(-1),
        dual=np.maximum(np.abs(f / best - 1), slack).max(-1),
        gap=(cost.objective - bound) / cost.objective,
    )
