"""The package itself: light to import."""

import subprocess
import sys


def test_importing_the_package_loads_neither_torch_nor_numpy():
    code = "import flambeau.audio, sys; print({'torch', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "set()"), done.stderr
