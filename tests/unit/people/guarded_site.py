"""A site on whose address for views people have to say who they are."""

from __future__ import annotations

from typing import Any

import httpx
from people_site import Site

from scheduler.api import Address, ServerThread, create_app
from scheduler.service.access import EVERYWHERE, Access, Person

RIGHTS = {"ann": {"t"}, "bob": {"u"}, "root": {EVERYWHERE}}


class Reviewer:
    """Knows people by tokens that are their names with ``-token``."""

    def who(self, token: str) -> Person | None:
        name = token.removesuffix("-token")
        return Person(name) if name in RIGHTS and name != token else None

    def may_see(self, person: Person, namespace: str) -> bool:
        return namespace in RIGHTS[person.name]


class Guarded:
    """A site whose people have to say who they are."""

    def __init__(self, here: Site, reviewer: Reviewer | None = None) -> None:
        self.here = here
        self.access = Access(reviewer or Reviewer())
        app = create_app(here.service, access=self.access)
        self.server = ServerThread(app, views=Address("127.0.0.1", 0))
        self.server.start()
        self.url = self.server.views_url
        self.client = httpx.Client(base_url=self.url, timeout=15.0)

    def ask(self, path: str, name: str = "", **more: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {name}-token"} if name else {}
        return self.client.request(more.pop("method", "GET"), path, headers=headers, **more)

    def keys(self, name: str) -> list[str]:
        return [gang["key"] for gang in self.ask("/v1/gangs", name).json()["gangs"]]

    def close(self) -> None:
        self.client.close()
        self.server.stop()
