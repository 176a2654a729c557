# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fixtures of the soak: the integration suite's.

  NEXBOX_SOAK_RUNS     boxes in a row (default: 150)
  NEXBOX_SOAK_AT_ONCE  boxes at once (default: 10)
  NEXBOX_SOAK_SEED     of the random moments (default: the time)
"""

import importlib.util
import sys
from pathlib import Path

INTEGRATION = Path(__file__).resolve().parents[1] / "integration"
sys.path.insert(0, str(INTEGRATION))

spec = importlib.util.spec_from_file_location("box_fixtures", INTEGRATION / "conftest.py")
box_fixtures = importlib.util.module_from_spec(spec)
sys.modules["box_fixtures"] = box_fixtures
spec.loader.exec_module(box_fixtures)
globals().update({name: value for name, value in vars(box_fixtures).items() if not name.startswith("__")})
# A soak takes as long as it takes; each of its boxes has an end of its own.
del globals()["pytest_runtest_call"]
