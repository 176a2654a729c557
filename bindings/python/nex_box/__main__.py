# SPDX-License-Identifier: MIT OR Apache-2.0
"""`python -m nex_box …` is `nex-box …`: the program of the wheel takes this process's place."""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

from ._call import PROGRAM


def main() -> NoReturn:
    """Become the nex-box program, with this process's arguments."""
    # Python ignores these two, and what is ignored stays so in a new program.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    os.execv(PROGRAM, ["nex-box", *sys.argv[1:]])


if __name__ == "__main__":
    main()
