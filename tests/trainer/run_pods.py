"""Pods from a file as processes of this machine, for tests that have no fork server of their own.

The only argument is a folder with `pods.json`, a list of `{"args": [..], "env": {..}}`; what comes
of them is printed as a list of `{"code": .., "out": .., "err": ..}`.
"""

import json
import sys
from pathlib import Path

from trainer_pods import pods


def main() -> None:
    folder = Path(sys.argv[1])
    wanted = json.loads((folder / "pods.json").read_text())
    with pods(folder) as start:
        started = [start(*pod["args"], **pod["env"]) for pod in wanted]
        found = [{"code": pod.ends(), "out": pod.out, "err": pod.err} for pod in started]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
