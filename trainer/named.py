"""A user's own function by its name, MODULE:FUNCTION."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from trainer.errors import SettingsError


def function(name: str, option: str) -> Callable[[], Any]:
    """The function. Modules of the working directory are found, however this process started.

    Raises SettingsError, naming the option, where there is none.
    """
    module, _, attribute = name.partition(":")
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingsError(f"{option} {name}: {error} (looked in {here}, too)") from error
    if not callable(found):
        raise SettingsError(f"{option} {name}: this is {found!r}, and no function")
    return found  # type: ignore[no-any-return]
