"""How an operator's file becomes a module."""

import os
import pathlib
import subprocess
import sys

PYTHON = pathlib.Path(__file__).resolve().parent.parent
ASK = "import sys; from baton_worker.start import load_module; m = load_module(sys.argv[1]); print(m.factor, m.helper_of_now.factor, m.__file__)"


def test_a_file_that_is_replaced_within_a_second_is_read_anew(tmp_path):
    """Python's own cache treats sources of equal size and second as the same."""
    file = tmp_path / "model_of_now.py"
    for factor in (3, 5):
        file.write_text(f"import helper_of_now\nfactor = {factor}\n")
        (tmp_path / "helper_of_now.py").write_text(f"factor = {factor}\n")
        for each in tmp_path.glob("*.py"):
            os.utime(each, (1_700_000_000, 1_700_000_000))
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        done = subprocess.run([sys.executable, "-c", ASK, file], capture_output=True, text=True, cwd=PYTHON, env=environment, timeout=60, check=True)
        assert done.stdout.split() == [str(factor), str(factor), str(file)]
    assert not (tmp_path / "__pycache__").exists()  # it is the operator's directory
