"""Whatever devices say: they are refused by one sentence, or make a fleet that can be priced."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcell import Scenario
from fedcell.deploy.server.admission import Admission
from fedcell.deploy.wire.profile import NUMBERS, Profile, introduced
from fedcell.errors import BadInput
from fedcell.network import draw_fleet
from fedcell.network.draw import draw_trace
from fedcell.network.policies.names import NAMED
from fedcell.network.simulate import price_trace

WORLD = Scenario().using(
    cell={"gain_threshold": 0.0}, task={"cycles_per_sample": 1e6, "batch_size": 5}
)
NASTY = (None, True, "", "1", b"1", [1.0], 0, -1, 1, 2**63, 10**400, 1e-300, 1e300, 5e-61)
VALUES = st.sampled_from(NASTY) | st.floats() | st.floats(-60, 60).map(lambda x: 10**x)


@given(
    st.dictionaries(st.sampled_from([*NUMBERS, "clock", "client", "samples", "root"]), VALUES),
    st.sampled_from(["pump", "", "a\nb", 7]) | st.text(max_size=120),
    st.sampled_from([None, np.array([10.0, 20.0])]),
)
def test_profile_is_taken_as_it_is_or_refused_by_one_sentence(said, name, dealt):
    said = {"name": name, **said}
    faults: tuple[str, ...] = ()
    try:
        profile = Profile.of(said)
    except BadInput as error:
        faults = error.faults
    else:
        assert profile.to_dict() == {key: v for key, v in said.items() if v is not None}
        if profile.client is None or profile.client < 2:
            world = WORLD.using(clients={"count": 2}, plan={"cohort": 2})
            faults = (Admission(scenario=world, dealt=dealt).fault(profile),)
    assert len(faults) <= 1
    assert not any("\n" in fault or len(fault) > 500 for fault in faults)


EXPONENTS = st.floats(-60, 60)
WILD = st.fixed_dictionaries(
    {"samples": st.integers(0, 10**9)},
    optional={
        **{name: EXPONENTS.map(lambda x: 10**x) for name in ("kappa", "power", "battery", "rate")},
        **{name: EXPONENTS.map(lambda x: 10**x) for name in ("freq_min", "freq_max")},
        "cycles_per_sample": EXPONENTS.map(lambda x: 10**x),
        "gain": st.floats(-60, 0).map(lambda x: 10**x),
    },
)


@settings(deadline=None, max_examples=40)
@given(st.lists(WILD, min_size=2, max_size=4), st.sampled_from(sorted(NAMED)))
def test_admitted_devices_make_a_fleet_that_can_be_priced(devices, policy):
    scenario = WORLD.using(clients={"count": len(devices)}, plan={"cohort": len(devices)})
    admission = Admission(scenario=scenario)
    profiles = {}
    for j, numbers in enumerate(devices):
        try:
            profile = Profile.of({"name": f"d{j}", "client": j, **numbers})
        except BadInput:
            profile = None
        if profile is None or admission.fault(profile):
            profile = Profile(name=f"d{j}", samples=10)
        profiles[j] = profile
    sizes = [max(1.0, float(p.samples)) for p in profiles.values()]
    fleet_world = introduced(scenario, profiles).using(clients={"sizes": sizes})
    fleet = draw_fleet(fleet_world)
    ledger = price_trace(fleet_world, fleet, draw_trace(fleet_world, fleet, 5), policy)
    assert np.isfinite(ledger.objective).all()
