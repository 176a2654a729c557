# SPDX-License-Identifier: MIT OR Apache-2.0
"""What mypy --strict must refuse: each line that ends in `# wrong` and no other. Checked by test_typing.py."""

import nex_box

nex_box.run(["true"], comit=True)  # wrong
nex_box.run(["true"], commit="yes")  # wrong
nex_box.run(["true"], timeout_ms="5")  # wrong
nex_box.run(5)  # wrong
nex_box.run(["true"], net="some")  # wrong
nex_box.run(["true"]).stdout + b""  # wrong
nex_box.run(["true"], text=False).stdout + ""  # wrong
nex_box.run(["true"]).nonsense  # wrong
nex_box.map([["true"]], workers="2")  # wrong
nex_box.run(["true"], on_output=lambda line: None)  # wrong
nex_box.Box().run(["true"], keep=True)  # wrong
nex_box.Box(surprise=1)  # wrong
nex_box.undo(workspace=5)  # wrong
