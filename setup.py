"""For tools that ask for a setup.py; all there is to say is in pyproject.toml, which pip reads."""

import setuptools

if int(setuptools.__version__.split(".")[0]) < 77:
    raise SystemExit(
        f"setup.py: setuptools {setuptools.__version__} cannot read this pyproject.toml; "
        "run pip install 'setuptools>=77', or use pip install . in place of setup.py"
    )
setuptools.setup()
