"""Makes the modules of this folder importable in the processes that the tests start."""

import os
import pathlib
import sys

here = str(pathlib.Path(__file__).parent)
sys.path.insert(0, here)
os.environ["PYTHONPATH"] = os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])
