# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fixtures of the soak: the integration suite's.

  NEXBOX_SOAK_RUNS     boxes in a row (default: 150)
  NEXBOX_SOAK_AT_ONCE  boxes at once (default: 10)
  NEXBOX_SOAK_SEED     of the random moments (default: the time)
"""

from box_fixtures import *  # noqa: F403

# A soak takes as long as it takes; each of its boxes has an end of its own.
del globals()["pytest_runtest_call"]
