"""A short selection of tests, and one sweep, as on other machines: `make
test-processors`.

Processors are emulated by the variables of PyTorch and oneDNN. The last run finds no C
compiler, and no library that was compiled before: the Python forms of the compiled
passes are all there is.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SELECTION = (
    "tests/layers",
    "tests/engines/test_engine_noise.py",
    "tests/engines/test_engine_sensitivity.py",
    "tests/engines/test_engine_steps.py",
    "tests/engines/test_gradient_clip.py",
    "tests/engines/test_precision.py",
    "tests/privacy/test_box_muller.py",
    "tests/privacy/test_clipping.py",
    "tests/privacy/test_noise.py",
    "tests/privacy/test_rounding.py",
    "tests/system/test_native.py",
)
# One trial of each private engine, seconds long.
SPACE = {
    "name": "other-processor",
    "base": {
        "data": {"name": "communication", "num_utterances": 1000},
        "model": {
            "name": "clc",
            "word_vectors": "hashed",
            "word_buckets": 64,
            "hidden_size": 16,
        },
        "privacy": {"noise_multiplier": 1.0, "delta": 1e-5},
        "training": {"epochs": 1, "expected_batch_size": 32, "num_workers": 1},
        "evaluation": {"attacks": []},
    },
    "axes": {"engine": ["edp_sgd", "dp_sgd"]},
    "resources": {"executor": "local"},
}
# Variables of each run, and what PyTorch then says of the processor.
EMULATED = {
    "DEFAULT": {"ATEN_CPU_CAPABILITY": "default"},
    "AVX2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
}
_COMPILER = re.compile(r"(.+-)?(cc|gcc|clang|tcc|c89|c99)(-[\d.]+)?")
_CAPABILITY = "import torch; print(torch.backends.cpu.get_cpu_capability())"


def without_compiler(folder):
    """PATH as links to all of its programs but the C compiler, and an empty cache of
    libraries.
    """
    programs, cache = folder / "bin", folder / "cache"
    programs.mkdir()
    cache.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).glob("*"):
            link = programs / program.name
            if not _COMPILER.fullmatch(program.name) and not link.is_symlink():
                link.symlink_to(program)
    return {"PATH": str(programs), "XDG_CACHE_HOME": str(cache)}


def main(arguments):
    """Run the selection in each environment; 1 where a test fails or nothing was
    emulated.
    """
    failed = []
    for name, variables in EMULATED.items():
        said = _python(["-c", _CAPABILITY], variables, stdout=subprocess.PIPE).stdout
        if said.decode().strip() != name:
            sys.exit(f"expected {name} kernels with {dict(variables)}, got {said!r}")
        failed += [name] * _fails(name, variables, arguments)
    with tempfile.TemporaryDirectory() as folder:
        variables = without_compiler(Path(folder))
        if shutil.which("cc", path=variables["PATH"]):
            sys.exit("expected no C compiler on the path without it, got one")
        failed += ["no compiler"] * _fails("no compiler", variables, arguments)
        compiled = sorted(Path(folder, "cache").rglob("*.so"))
        if compiled:
            sys.exit(
                f"expected nothing to be compiled without a compiler, got {compiled}"
            )
    print(f"failed: {', '.join(failed)}" if failed else "every selection passed")
    return int(bool(failed))


def _fails(name, variables, arguments):
    print(
        f"--- {name}: {' '.join(f'{k}={v}' for k, v in variables.items())}", flush=True
    )
    tests = _python(["-m", "pytest", "-q", *arguments, *SELECTION], variables)
    with tempfile.TemporaryDirectory() as home:
        space = Path(home, "space.yaml")
        space.write_text(json.dumps(SPACE))
        command = ["-m", "sweep", "run", str(space), "--tracking", "none"]
        sweep = _python(
            command, {**variables, "SWEEP_HOME": home}, stdout=subprocess.DEVNULL
        )
    return bool(tests.returncode or sweep.returncode)


def _python(arguments, variables, stdout=None):
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, **variables},
        stdout=stdout,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
