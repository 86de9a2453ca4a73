"""Redirects, credentials, proxies and certificates: what is sent to whom."""

import hashlib
import json
import os
import ssl
import subprocess
import sys
import urllib.request

import pytest

from flambeau.core.errors import DownloadError, HubError
from flambeau.core.hub import downloads, fetch
from flambeau.core.hub.tokens import bearer_token
from flambeau.core.hub.transport import Client, TransferError, redirect
from flambeau.core.testing.server import FileServer, Reply

DATA = b"content" * 1000
SHA = hashlib.sha256(DATA).hexdigest()

pytestmark = pytest.mark.usefixtures("flambeau_home")


@pytest.fixture(params=["urllib3", "stdlib"], autouse=True)
def library(request, monkeypatch):
    if request.param == "stdlib":
        monkeypatch.setitem(sys.modules, "urllib3", None)
    else:
        pytest.importorskip("urllib3")
    monkeypatch.setattr(downloads, "pause", lambda seconds: None)
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "http_proxy", "HTTP_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return request.param


@pytest.fixture
def here():
    with FileServer({"a": DATA}) as server:
        yield server


@pytest.fixture
def there():
    """Another host, as far as a client can tell."""
    with FileServer({"a": DATA}, host="localhost") as server:
        yield server


@pytest.fixture
def tokens(tmp_path, monkeypatch):
    """Write the file of tokens."""

    def write(content, mode=0o600):
        path = tmp_path / "tokens.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        path.chmod(mode)
        monkeypatch.setenv("FLAMBEAU_TOKEN_FILE", str(path))

    return write


# --- redirects ----------------------------------------------------------------------------------------------------


def test_a_redirect_is_followed_and_the_file_named_by_the_first_url(here, there):
    here.always["old"] = Reply(redirect=there.url("a"))
    path = fetch(here.url("old"), sha256=SHA)
    assert path.name == f"{SHA[:16]}-old"
    assert path.read_bytes() == DATA


def test_a_relative_redirect_is_followed(here):
    here.always["x/old"] = Reply(redirect="../a?b=c#d")
    assert fetch(here.url("x/old"), sha256=SHA).read_bytes() == DATA


def test_a_resumed_request_keeps_its_range_through_a_redirect(here, there):
    here.always["old"] = Reply(redirect=there.url("a"))
    there.next("a", Reply(cut_after=1000))
    assert fetch(here.url("old"), sha256=SHA).read_bytes() == DATA
    assert there.requests()[1].headers["range"] == "bytes=1000-"


def test_ten_redirects_are_followed_and_no_more(here):
    for n in range(11):
        here.always[str(n)] = Reply(redirect=here.url(str(n + 1) if n < 10 else "a"))
    assert fetch(here.url("1"), sha256=SHA).read_bytes() == DATA
    with pytest.raises(DownloadError, match="more than 10 redirects"):
        fetch(here.url("0"), sha256=SHA)


def test_redirects_in_a_circle_end(here):
    here.always["old"] = Reply(redirect=here.url("old"))
    with pytest.raises(DownloadError, match="redirects"):
        fetch(here.url("old"))
    assert len(here.requests()) == 11


@pytest.mark.parametrize(
    "target",
    [
        "file:///etc/passwd",
        "ftp://host/a",
        "http://me:secret@127.0.0.1/a",
        "gopher:x",
        "http://[",
        "//[::1",
        "http://h:x/",
    ],
)
def test_a_redirect_to_anything_but_a_plain_web_address_is_refused(here, target):
    here.always["old"] = Reply(redirect=target)
    with pytest.raises(DownloadError, match="refused a redirect"):
        fetch(here.url("old"))


def test_a_mirror_whose_redirect_is_malformed_leaves_the_turn_to_the_next(here, there):
    here.always["old"] = Reply(redirect="http://[")
    assert fetch(here.url("old"), sha256=SHA, mirrors=[there.url("a")]).read_bytes() == DATA


def test_a_redirect_from_https_to_http_is_refused_and_the_other_way_allowed():
    with pytest.raises(TransferError, match="from https to http"):
        redirect("https://host.example/a", "http://host.example/a")
    assert redirect("http://host.example/a", "https://host.example/a") == "https://host.example/a"


def test_odd_characters_in_addresses_are_sent_encoded(here):
    here.files["sp ace/ü"] = DATA
    here.always["old"] = Reply(redirect="/sp ace/\u00c3\u00bc")  # as header bytes are read
    assert fetch(here.url("old"), sha256=SHA).read_bytes() == DATA
    assert fetch(here.url("sp ace/ü")).read_bytes() == DATA


# --- credentials --------------------------------------------------------------------------------------------------


def test_a_token_goes_to_its_host(here, tokens):
    tokens({"127.0.0.1": "secret"})
    fetch(here.url("a"))
    assert here.requests()[0].headers["authorization"] == "Bearer secret"


def test_a_token_is_not_forwarded_to_another_host(here, there, tokens):
    tokens({"127.0.0.1": "secret", "localhost": "their own"})
    here.always["old"] = Reply(redirect=there.url("a"))
    fetch(here.url("old"))
    assert here.requests()[0].headers["authorization"] == "Bearer secret"
    assert "authorization" not in there.requests()[0].headers


def test_a_token_is_not_forwarded_to_another_port(here, tokens):
    tokens({"127.0.0.1": "secret"})
    with FileServer({"a": DATA}) as other:
        here.always["old"] = Reply(redirect=other.url("a"))
        fetch(here.url("old"))
        assert "authorization" not in other.requests()[0].headers


def test_a_token_stays_through_redirects_on_its_host(here, tokens):
    tokens({f"127.0.0.1:{here.port}": "secret", "127.0.0.1": "for other ports"})
    here.always["old"] = Reply(redirect=here.url("a"))
    fetch(here.url("old"))
    assert [request.headers["authorization"] for request in here.requests()] == ["Bearer secret"] * 2


def test_a_token_of_another_host_stays_at_home(there, tokens):
    tokens({"127.0.0.1": "secret", "ost": "x", "localhost.example": "x"})
    fetch(there.url("a"))
    assert "authorization" not in there.requests()[0].headers


def test_a_token_goes_out_over_https_alone(tokens):
    tokens({"Host.Example": "secret"})
    assert bearer_token("https://host.example/a") == "secret"
    assert bearer_token("https://HOST.example:443/a") == "secret"
    assert bearer_token("http://host.example/a") is None
    assert bearer_token("https://www.host.example/a") is None


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX modes")
def test_a_token_file_that_others_can_read_is_refused(here, tokens):
    tokens({"127.0.0.1": "secret"}, mode=0o644)
    with pytest.raises(HubError, match=r"0644.*chmod 600"):
        fetch(here.url("a"))
    assert here.requests() == []


@pytest.mark.parametrize("content", ["not json", "[]", '{"host": 1}'])
def test_a_token_file_of_another_form_is_named(here, tokens, tmp_path, content):
    tokens(content)
    with pytest.raises(HubError, match=str(tmp_path / "tokens.json")):
        fetch(here.url("a"))


def test_a_token_file_that_is_missing_is_named(here, monkeypatch):
    monkeypatch.setenv("FLAMBEAU_TOKEN_FILE", "/none/tokens.json")
    with pytest.raises(HubError, match=r"/none/tokens\.json"):
        fetch(here.url("a"))


def test_the_callers_headers_go_to_the_urls_own_host_alone(here, there):
    headers = {"authorization": "Bearer mine", "X-Api-Key": "mine", "Cookie": "mine", "user-agent": "me"}
    here.always["a"] = Reply(status=404)
    here.always["old"] = Reply(redirect=there.url("a"))
    fetch(here.url("old"), headers=headers)
    assert {name: here.requests()[0].headers[name.lower()] for name in headers} == headers
    sent = there.requests()[0].headers
    assert "mine" not in " ".join(sent.values())
    assert sent["user-agent"] == "me"


def test_the_callers_headers_do_not_go_to_mirrors(here, there):
    here.always["a"] = Reply(status=404)
    fetch(here.url("a"), mirrors=[there.url("a")], headers={"X-Api-Key": "mine"})
    assert here.requests()[0].headers["x-api-key"] == "mine"
    assert "x-api-key" not in there.requests()[0].headers


def test_the_caller_cannot_ask_for_compression(here):
    fetch(here.url("a"), headers={"accept-encoding": "gzip"})
    assert here.requests()[0].headers["accept-encoding"] == "identity"


# --- proxies ------------------------------------------------------------------------------------------------------


def test_a_proxy_is_used_and_gets_its_login(here, monkeypatch):
    with FileServer({"a": DATA}) as proxy:
        monkeypatch.setenv("http_proxy", f"http://me:pass@127.0.0.1:{proxy.port}")
        assert fetch("http://elsewhere.invalid/a", sha256=SHA).read_bytes() == DATA
        assert proxy.requests()[0].headers["proxy-authorization"] == "Basic bWU6cGFzcw=="
        assert proxy.requests()[0].headers["host"] == "elsewhere.invalid"


def test_a_host_in_no_proxy_is_asked_itself(here, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    urllib.request.getproxies()
    assert fetch(here.url("a"), sha256=SHA).read_bytes() == DATA


# --- https --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for localhost that nobody has signed, made by the `openssl` program."""
    folder = tmp_path_factory.mktemp("tls")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
               "-addext", "subjectAltName=DNS:localhost", "-keyout", "key", "-out", "cert"]  # fmt: skip
    try:
        subprocess.run(command, check=True, capture_output=True, cwd=folder)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs the openssl program to make a certificate")
    return folder


@pytest.fixture
def secure(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert", certificate / "key")
    with FileServer({"a": DATA}, host="localhost", tls=context) as server:
        yield server


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
def test_https_trusts_the_bundle_in_the_environment(secure, certificate, monkeypatch, variable):
    monkeypatch.setenv(variable, str(certificate / "cert"))
    secure.next("a", Reply(cut_after=1000))
    assert fetch(secure.url("a"), sha256=SHA).read_bytes() == DATA


def test_an_unknown_certificate_is_refused_at_once_with_advice(secure):
    with pytest.raises(DownloadError, match=r"CERTIFICATE_VERIFY_FAILED.*SSL_CERT_FILE"):
        fetch(secure.url("a"))
    assert secure.requests() == []


def test_a_server_that_redirects_from_https_to_http_is_refused(secure, here, certificate, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert"))
    secure.always["old"] = Reply(redirect=here.url("a"))
    with pytest.raises(DownloadError, match="from https to http"):
        fetch(secure.url("old"))
    assert here.requests() == []


# --- the request itself -------------------------------------------------------------------------------------------


def test_a_response_can_be_closed_before_its_end(here):
    with Client(here.url("a"), {}, 5).get(here.url("a")) as response:
        assert response.status == 200
        assert DATA.startswith(response.read())


def test_a_port_where_nobody_listens_is_worth_trying_again():
    with FileServer() as gone:
        url = gone.url("a")
    with pytest.raises(TransferError) as caught:
        Client(url, {}, 5).get(url)
    assert caught.value.again
