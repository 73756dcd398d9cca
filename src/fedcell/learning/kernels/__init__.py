"""Machine code: what trains and evaluates, compiled by numba when it is first used."""

import os
from typing import Any

from fedcell.core.errors import BadInput

try:
    import numba
except Exception as error:  # numba reads settings from the environment, and some stop it
    raise BadInput(
        f"numba, which compiles the engine, cannot be started ({error}): check the variables "
        "NUMBA_... of your environment"
    ) from error

# numba takes settings also from a file in the folder one is in, among them where compiled code
# is found. What lies in a folder does not decide which code is run.
_config: Any = numba.config
if os.path.lexists(getattr(_config, "_config_fname", "")):
    _config._config_fname = os.path.join(os.devnull, "nowhere")
    _config._env_reloader.reset()

if _config.DISABLE_JIT:
    raise BadInput("NUMBA_DISABLE_JIT is set, and the engine exists as machine code only: unset it")
