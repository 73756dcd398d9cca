"""Schedule one round of five clients: a share of the band and a CPU frequency for each."""

import numpy as np

from fedcell import schedule_round
from fedcell.policies import Problem, certify

round_ = Problem(
    band_time=np.array([2.0, 3.5, 1.2, 6.0, 2.4]),  # seconds to upload with the whole band
    upload_energy=np.array([20.0, 35.0, 12.0, 60.0, 24.0]),  # joules, whatever the share
    samples=np.array([500.0, 300.0, 650.0, 480.0, 520.0]),  # of a local step
    kappa=np.full(5, 5e-27),  # a cycle at frequency f costs kappa f^2 joules
    freq_min=np.full(5, 1e7),
    freq_max=np.full(5, 1e9),
    work=20 * 5e5,  # cycles per sample: local steps times cycles of a step
    energy_weight=1.0,  # seconds that a joule is worth
)
best = schedule_round(round_, "optimal")
for row in best.rows():
    print(f"client {row['client']}: {row['share']:6.1%} of the band, {row['freq'] / 1e6:4.0f} MHz")
print(f"the round takes {best.cost.duration:.1f} s and {best.cost.energy:.0f} J")
print(f"proved optimal to a gap of {certify(round_, best.schedule).gap:.0e}")
# best.summary() is the table that `fedcell schedule` prints; best.plot("round.png") draws it
