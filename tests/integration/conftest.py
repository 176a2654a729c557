# SPDX-License-Identifier: MIT OR Apache-2.0
"""Where pytest looks for fixtures. They are in a module of another name, for the suites that share them."""

from box_fixtures import *  # noqa: F403
