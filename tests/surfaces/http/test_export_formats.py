"""Exports over HTTP: every format by its name, with its own media type, and a page that may be looked at."""

from __future__ import annotations

from stratalog.interop.export_formats import EXPORTS
from surfaces.http.conftest import Running

PATH = "/v1/agents/helper/sessions/c"


def test_every_format(service: Running) -> None:
    """What the command line writes, under the same names; another name is refused."""
    client = service.of("user", user="ana")
    assert client.post(f"{PATH}/messages", json={"content": "Hello there"}).status_code == 200
    for name, how in EXPORTS.items():
        answer = client.get(f"{PATH}/export", params={"format": name})
        charset = "; charset=utf-8" if how.media_type.startswith("text/") else ""
        assert answer.headers["content-type"] == how.media_type + charset
        assert "Hello there" in answer.text
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert ("style-src 'sha256-" in policy) is (name == "html")
    assert client.get(f"{PATH}/export", params={"format": "pdf"}).status_code == 400
