"""A pod's annotations, as a downward API volume shows them to its containers.

One line each, `key="value"`, where the value is quoted as Go quotes strings. A template that
mounts `metadata.annotations` at /etc/muster/annotations thereby gives the trainer the hint and
what controllers say about the pod's place, without a variable for each.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

DEFAULT_FILE = Path("/etc/muster/annotations")
HINT = "muster.scheduler/hint"

VARIABLES = {
    "batch.kubernetes.io/job-completion-index": "JOB_COMPLETION_INDEX",
    "jobset.sigs.k8s.io/jobset-name": "JOBSET_NAME",
    "jobset.sigs.k8s.io/replicatedjob-name": "REPLICATED_JOB_NAME",
    "jobset.sigs.k8s.io/replicatedjob-replicas": "REPLICATED_JOB_REPLICAS",
    "jobset.sigs.k8s.io/job-index": "JOB_INDEX",
    "leaderworkerset.sigs.k8s.io/size": "LWS_GROUP_SIZE",
    "leaderworkerset.sigs.k8s.io/worker-index": "LWS_WORKER_INDEX",
    "leaderworkerset.sigs.k8s.io/leader-address": "LWS_LEADER_ADDRESS",
    "volcano.sh/task-index": "VC_TASK_INDEX",
}
"""Annotations that say the same as a variable which the controller may or may not have set."""

_LINE = re.compile(r'^(?P<key>[A-Za-z0-9./_-]+)="(?P<value>(?:[^"\\]|\\.)*)"$')
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{3}|.)")
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


def read(path: Path = DEFAULT_FILE) -> dict[str, str]:
    """Annotations in a file; none where it is absent or unreadable."""
    try:
        return parse(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return {}


def parse(text: str) -> dict[str, str]:
    """Annotations of a volume's text. Lines of another form are skipped."""
    found = (_LINE.match(line) for line in text.splitlines())
    return {match["key"]: _unquoted(match["value"]) for match in found if match}


def variables(annotations: Mapping[str, str], env: Mapping[str, str]) -> dict[str, str]:
    """What the annotations say as variables, for those that the environment leaves unset."""
    return {
        name: annotations[key]
        for key, name in VARIABLES.items()
        if annotations.get(key) and not env.get(name)
    }


def _unquoted(text: str) -> str:
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        return _ESCAPE.sub(_character, text)


def _character(found: re.Match[str]) -> str:
    """What Go's quoting has beyond JSON's: octal, `\\x` and `\\U`."""
    code = found[1]
    if code[0] in "xuU" and len(code) > 1:
        return chr(int(code[1:], 16))
    return chr(int(code, 8)) if code.isdecimal() and len(code) == 3 else _LETTERS.get(code, code)
