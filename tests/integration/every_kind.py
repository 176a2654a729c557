# SPDX-License-Identifier: MIT OR Apache-2.0
"""A tree, and changes of every kind: files, folders, links, FIFOs; created, rewritten, replaced, deleted, of another
type; modes, attributes, times; in closed folders; hard links; folders that are opened, closed, moved.

The changes are one program in one process: a sweep makes them thousands of times.
"""

TREE = r"""
umask 022
mkdir -p d/sub gone/deep/er locked closing opening typed names
echo old > plain; echo old > replaced; echo old > dead; echo touched > touched
echo old > d/in; echo old > d/sub/in; echo 1 > gone/1; echo 2 > gone/deep/er/2; chmod 500 gone/deep
echo old > locked/in; chmod 555 locked; echo old > closing/in; echo old > opening/in; chmod 500 opening
echo file > typed/to-dir; mkdir typed/to-file; echo in > typed/to-file/in; echo file > typed/to-link
ln -s plain link; ln -s plain relink; mkfifo fifo
echo a > twin-a; ln twin-a twin-b
echo m > mode; echo x > attr; setfattr -n user.keep -v 1 attr; setfattr -n user.gone -v 1 attr
setfattr -n user.dir -v old d
find . -depth -print0 | xargs -0 touch -h -d '2020-02-02 02:02:02.123456789'
"""

_PROGRAM = r"""
import os, shutil

def write(path, text):
    with open(path, "w") as file:
        file.write(text + "\n")

def date(path, ns):
    os.utime(path, ns=(ns, ns), follow_symlinks=False)

os.umask(0o022)
write("plain", "new"); write("t", "new"); os.replace("t", "replaced"); os.remove("dead"); date("touched", 1609462861500000000)
write("d/sub/in", "new"); write("d/made", "made"); os.makedirs("made/deep"); write("made/1", "1"); write("made/deep/2", "2")
os.chmod("made/deep", 0o500)
os.chmod("gone/deep", 0o700); shutil.rmtree("gone")
os.chmod("locked", 0o755); write("locked/in", "new"); write("locked/made", "made"); os.chmod("locked", 0o555)
write("closing/in", "new"); os.chmod("closing", 0o500); os.chmod("opening", 0o755); write("opening/in", "new")
os.remove("typed/to-dir"); os.mkdir("typed/to-dir"); write("typed/to-dir/in", "in")
shutil.rmtree("typed/to-file"); write("typed/to-file", "file")
os.remove("typed/to-link"); os.symlink("../plain", "typed/to-link")
os.remove("relink"); os.symlink("replaced", "relink"); os.remove("fifo"); os.mkfifo("fifo2")
write("twin-a", "b"); os.chmod("mode", 0o711)
os.setxattr("attr", "user.new", b"2"); os.removexattr("attr", "user.gone"); os.setxattr("d", "user.dir", b"new")
EXTRA
for top in ("made", "typed"):
    for folder, folders, files in os.walk(top, topdown=False):
        for name in files + folders:
            date(os.path.join(folder, name), 1643767322250000000)
    date(top, 1643767322250000000)
date("d/made", 1643767322250000000); date("locked/made", 1643767322250000000)
"""


def program(extra=""):
    """A shell command that makes the changes, and what the Python lines @extra do besides."""
    return f"exec python3 -SEc '{_PROGRAM.replace('EXTRA', extra)}'"


CHANGE = program()
