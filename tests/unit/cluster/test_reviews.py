"""Reviews are asked as the API server wants them, and read with care."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler.cluster.reviews import ACCESS_REVIEWS, TOKEN_REVIEWS, Reviews
from scheduler.cluster.transport import Answer
from scheduler.errors import ClusterError
from scheduler.service.access import Person

ANN = Person("ann", "uid-1", ("team-a", "system:authenticated"), {"scopes": ["x"]})


class Api:
    """Answers every POST alike, and keeps what was sent."""

    def __init__(self, status: Any, code: int = 201) -> None:
        self.answer = Answer(code, json.dumps(status).encode())
        self.sent: list[tuple[str, Any]] = []

    def post(self, path: str, body: Any) -> Answer:
        self.sent.append((path, body))
        return self.answer


def asked(api: Api) -> Reviews:
    return Reviews(api)  # type: ignore[arg-type]


def test_whose_token_it_is() -> None:
    user = {
        "username": "ann",
        "uid": "uid-1",
        "groups": ["team-a", "system:authenticated"],
        "extra": {"scopes": ["x"]},
    }
    api = Api({"status": {"authenticated": True, "user": user}})

    assert asked(api).who("secret") == ANN
    ((path, body),) = api.sent
    assert path == TOKEN_REVIEWS
    assert (body["kind"], body["spec"]) == ("TokenReview", {"token": "secret"})


@pytest.mark.parametrize(
    "status",
    [
        {"status": {"authenticated": False, "error": "expired"}},
        {"status": {"user": {"username": "ann"}}},
        {"status": {"authenticated": True, "user": {}}},
        {},
    ],
)
def test_a_token_of_nobody(status: Any) -> None:
    assert asked(Api(status)).who("secret") is None


@pytest.mark.parametrize(
    ("status", "wanted"),
    [({"status": {"allowed": True}}, True), ({"status": {"allowed": False}}, False), ({}, False)],
)
def test_what_somebody_may_see(status: Any, wanted: bool) -> None:
    api = Api(status)

    assert asked(api).may_see(ANN, "team") is wanted
    ((path, body),) = api.sent
    spec = body["spec"]
    assert path == ACCESS_REVIEWS
    assert (spec["user"], spec["uid"], spec["groups"]) == ("ann", "uid-1", list(ANN.groups))
    assert spec["extra"] == {"scopes": ["x"]}
    attributes = spec["resourceAttributes"]
    assert (attributes["verb"], attributes["resource"]) == ("list", "pods")
    assert attributes["namespace"] == "team"


def test_a_refusal_says_what_the_account_needs() -> None:
    refusal = Api({"message": "tokenreviews is forbidden"}, 403)
    with pytest.raises(ClusterError, match="needs create"):
        asked(refusal).who("secret")
    with pytest.raises(ClusterError, match="SubjectAccessReview"):
        asked(refusal).may_see(ANN, "team")


def test_what_is_no_review_is_an_error() -> None:
    with pytest.raises(ClusterError, match="cannot be read"):
        asked(Api({"status": {"authenticated": "yes"}})).who("secret")
