"""Machine code: what trains and evaluates, compiled by numba when it is first used."""

import os
import sys
import warnings
from typing import Any

from fedcell.core.errors import BadInput

# numba takes settings also from a file in the folder one is in, among them where compiled code is
# found. What lies in a folder does not decide which code is run: without yaml it is not read.
_yaml = sys.modules.get("yaml")
sys.modules["yaml"] = None  # type: ignore[assignment]
try:
    with warnings.catch_warnings(action="ignore"):
        import numba
except ImportError:
    raise
except Exception as error:  # numba reads settings from the environment, and some stop it
    raise BadInput(
        f"numba, which compiles the engine, cannot be started ({error}): check the variables "
        "NUMBA_... of your environment"
    ) from error
finally:
    del sys.modules["yaml"]
    if _yaml is not None:
        sys.modules["yaml"] = _yaml

_config: Any = numba.config
_config._config_fname = os.path.join(os.devnull, "nowhere")  # nor when something is compiled

if _config.DISABLE_JIT:
    raise BadInput("NUMBA_DISABLE_JIT is set, and the engine exists as machine code only: unset it")

_features = os.environ.get("NUMBA_CPU_FEATURES", "")
if any(feature[0] not in "+-" for feature in _features.split(",") if feature):
    raise BadInput(f"NUMBA_CPU_FEATURES = {_features}: each feature begins with + or -; unset it")
