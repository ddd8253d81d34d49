"""How a service is reached: names, pages, and the user that a request names."""

from __future__ import annotations

import pytest

from stratalog.errors import InvalidConfig, InvalidInput
from stratalog.surfaces.access.wire import (
    in_url,
    is_asked,
    loopback,
    may_ask,
    must_be_here,
    named_user,
    names,
    pages,
)


def test_a_service_is_asked_by_the_machines_names_its_address_and_those_that_are_given() -> None:
    """What listens everywhere has no name of that address; all are compared without their case."""
    own = ("127.0.0.1", "[::1]", "localhost")
    assert names("127.0.0.1") == names("0.0.0.0") == names("::") == own
    assert names("MyBox", [" A.example "]) == ("127.0.0.1", "[::1]", "a.example", "localhost", "mybox")
    assert names("fe80::1") == ("127.0.0.1", "[::1]", "[fe80::1]", "localhost")
    assert (in_url("fe80::1"), in_url("a.example")) == ("[fe80::1]", "a.example")


@pytest.mark.parametrize(
    ("host", "good"),
    [
        ("localhost", True),
        ("LOCALHOST:80", True),
        ("[::1]:8420", True),
        ("localhost:", True),
        ("", False),
        ("localhost.", False),
        ("localhost.evil.example", False),
        ("localhost:80.evil.example", False),
        ("[::1].evil.example", False),
        ("[::1]]", False),
        ("evil.example:localhost", False),
        ("localhost\n", False),
        ("local\x00host", False),
    ],
)
def test_a_name_is_compared_whole(host: str, good: bool) -> None:
    """And nothing but a port may stand beside it."""
    assert is_asked(host, names("127.0.0.1")) == good
    assert is_asked(host, ("*",))


def test_only_the_services_own_page_and_those_that_were_named_may_ask() -> None:
    """A page of the same machine at another port is another page."""
    assert may_ask("", "localhost:80", ())
    assert may_ask("http://localhost:80", "localhost:80", ())
    assert may_ask("https://a.example", "localhost:80", ("https://a.example",))
    for origin in (
        "null",
        "http://localhost:81",
        "http://localhost",
        "https://a.example:1",
        "http://localhost:80/",
    ):
        assert not may_ask(origin, "localhost:80", ("https://a.example",))


@pytest.mark.parametrize(
    "origin",
    [
        "*",
        "null",
        "a.example",
        "https://A.example",
        "https://a.example/",
        "https://a@b.example",
        "ftp://a.example",
        "https://a.example?x",
        "https://a.example#x",
        "https://",
        "https://a b",
        "https://a.example:x",
        "http://[",
    ],
)
def test_what_no_browser_says_is_no_origin(origin: str) -> None:
    """It would be compared to the letter, and never fit."""
    assert pages(["https://a.example:444", "http://[::1]:80"]) == ("https://a.example:444", "http://[::1]:80")
    with pytest.raises(InvalidConfig):
        pages([origin])


def test_without_tokens_only_this_machine() -> None:
    """Every address that others reach is refused."""
    for host in ("localhost", "127.0.0.5", "::1"):
        assert loopback(host)
        must_be_here(host)
    for host in ("0.0.0.0", "::", "", "10.0.0.1", "a.example"):
        with pytest.raises(InvalidConfig):
            must_be_here(host)


def test_a_request_names_one_user() -> None:
    """None is nobody; of two none is chosen, also where one of them is empty."""
    assert named_user([]) == named_user([""]) == ""
    assert named_user(["Jos%C3%A9"]) == "José"
    for several in (["ana", "ben"], ["", "ben"], ["ana", "ana"]):
        with pytest.raises(InvalidInput):
            named_user(several)
