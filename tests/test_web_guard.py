"""The page of demos/web_app.py refuses what it should, and goes on after answers that never come."""

from __future__ import annotations

import http.client
import importlib
import importlib.util
import json
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.resources import ROOT
from tests.web_server import endless, noise, serving

HOST = "127.0.0.1:7860"
SMALL = 1 << 20
SECONDS, UPLOAD = 4, 1  # limits of the served page: seconds and megabytes


@pytest.fixture
def guard(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "demos")
    return importlib.import_module("web_guard")


@pytest.mark.parametrize("host", ["127.0.0.1:7860", "localhost:7860", "LOCALHOST", "[::1]:80", "127.0.0.1"])
def test_this_machine_may_ask(guard: ModuleType, host: str) -> None:
    guard.check("GET", "/", {"host": host})
    guard.check("POST", "/gradio_api/upload", {"host": host, "origin": f"http://{host}"})


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"host": ""},
        {"host": "evil.example"},
        {"host": "evil.example:7860"},
        {"host": "127.0.0.1.evil.example:7860"},
        {"host": "localhost.evil.example"},
        {"host": "127.0.0.1:7860@evil.example"},
        {"host": HOST, "origin": "http://evil.example"},
        {"host": HOST, "origin": "null"},
        {"host": HOST, "origin": "http://127.0.0.1:8000"},
        {"host": HOST, "origin": "https://127.0.0.1:7860"},
        {"host": HOST, "origin": "http://localhost:7860"},
        {"host": HOST, "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
        {"host": HOST, "sec-fetch-site": "same-site", "sec-fetch-mode": "cors"},
    ],
)
def test_other_hosts_and_pages_are_refused(guard: ModuleType, headers: dict[str, str]) -> None:
    for method, path in (("GET", "/"), ("GET", "/config"), ("POST", "/gradio_api/queue/join")):
        with pytest.raises(guard.RefusedError) as caught:
            guard.check(method, path, headers)
        assert caught.value.status == 403


def test_a_link_to_the_page_may_be_followed(guard: ModuleType) -> None:
    headers = {"host": HOST, "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    guard.check("GET", "/", headers)
    with pytest.raises(guard.RefusedError):
        guard.check("GET", "/config", headers)


@pytest.mark.parametrize(
    "path",
    [
        "/gradio_api/proxy=http://evil.example/",
        "/gradio_api/file=http://evil.example/x",
        "/gradio_api/file=//evil.example/x",
        "/gradio_api/file=\\\\evil.example\\x",
        "/gradio_api/vibe-edit",
        "/gradio_api/process_recording",
        "/gradio_api/custom_component/x/client/component/index.js",
        "/gradio_api/run/predict",
        "/monitoring",
        "/login",
    ],
)
def test_paths_that_the_page_does_not_need_are_refused(guard: ModuleType, path: str) -> None:
    with pytest.raises(guard.RefusedError) as caught:
        guard.check("GET", path, {"host": HOST})
    assert caught.value.status == 404


def upload(path: str, url: str | None = None) -> bytes:
    file = {"path": path, "url": url, "orig_name": "x.png", "meta": {"_type": "gradio.FileData"}}
    return json.dumps({"data": [file, None, None, "cpu", "low power"], "fn_index": 0}).encode()


@pytest.mark.parametrize(
    "body",
    [
        upload("http://evil.example/x.png"),
        upload("HTTPS://evil.example/x.png"),
        upload(" http://evil.example/x.png"),
        upload("//evil.example/x.png"),
        upload(r"\\evil.example\x.png"),
        upload("ftp://evil.example/x.png"),
        upload("/tmp/x.png", "http://evil.example/x.png"),
        upload("/tmp/x.png", f"http://{HOST}.evil.example/x.png"),
        upload("/tmp/x.png", f"http://{HOST}@evil.example/x.png"),
        upload(f"http://{HOST}/gradio_api/file=x"),  # only as the address of what was uploaded
        json.dumps({"data": ["http://evil.example"]}).encode(),
        b"{",
        b"[" * 100_000,
    ],
)
def test_requests_with_addresses_of_other_machines_are_refused(guard: ModuleType, body: bytes) -> None:
    with pytest.raises(guard.RefusedError) as caught:
        guard.check_body(body, HOST)
    assert caught.value.status == 400


def test_an_upload_by_the_page_is_accepted(guard: ModuleType) -> None:
    guard.check_body(upload("/tmp/x.png", f"http://{HOST}/gradio_api/file=/tmp/x.png"), HOST)
    guard.check_body(upload(r"C:\Users\x.png"), HOST)
    guard.check_body(b"", HOST)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Serve the page with narrow limits; return its address, and the file of its program's output."""
    if importlib.util.find_spec("gradio") is None:
        pytest.skip("gradio is not installed (extra: demo)")
    folder = tmp_path_factory.mktemp("guarded")
    with serving(folder, "--seconds", SECONDS, "--upload", UPLOAD) as served:
        yield served


def request(
    address: str, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """Send one request; return status, headers and body."""
    place = urlsplit(address)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request(method, path, body, {"Content-Type": "application/json", **named})
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def test_the_served_page_checks_headers_and_states_its_policy(address: tuple[str, Path]) -> None:
    where, _ = address
    status, headers, _ = request(where, "GET", "/")
    assert status == 200
    policy = headers["content-security-policy"]
    for part in ("default-src 'self'", "object-src 'none'", "frame-ancestors 'none'", "base-uri 'self'"):
        assert part in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert request(where, "GET", "/", Host="evil.example")[0] == 403
    assert request(where, "GET", "/config", Origin="http://evil.example")[0] == 403
    body = upload("/tmp/x.png")
    assert request(where, "POST", "/gradio_api/queue/join", body, Host="evil.example:80")[0] == 403
    refused, refused_headers, _ = request(where, "POST", "/gradio_api/queue/join", body, Origin="null")
    assert refused == 403
    assert "content-security-policy" in refused_headers


def test_the_served_page_asks_no_other_machine(address: tuple[str, Path]) -> None:
    where, log = address
    body = upload("http://evil.example/x.png")
    assert request(where, "POST", "/gradio_api/queue/join", body)[0] == 400
    for path in ("proxy=http://evil.example/x", "file=http://evil.example/x", "run/predict"):
        assert request(where, "GET", f"/gradio_api/{path}")[0] == 404
    status, _, page = request(where, "GET", "/", X_Forwarded_Host="evil.example")
    assert status == 200
    assert b"evil.example" not in page
    assert "asks for" not in log.read_text()


def multipart(size: int) -> tuple[bytes, str]:
    head = b'--edge\r\nContent-Disposition: form-data; name="files"; filename="x.png"\r\n\r\n'
    return head + bytes(size) + b"\r\n--edge--\r\n", "multipart/form-data; boundary=edge"


def test_uploads_are_limited(address: tuple[str, Path]) -> None:
    where, _ = address
    for size, expected in ((1000, 200), (UPLOAD * 1_200_000, 413)):
        body, kind = multipart(size)
        assert request(where, "POST", "/gradio_api/upload", body, Content_Type=kind)[0] == expected
    large = json.dumps({"data": ["x" * (SMALL + 1)]}).encode()
    assert request(where, "POST", "/gradio_api/queue/join", large)[0] == 413


def question(where: str) -> int:
    """Return the number by which the page asks for answers."""
    _, _, config = request(where, "GET", "/config")
    # Changes of the fields ask, and so does the end of a lesson.
    number, *_ = (d["id"] for d in json.loads(config)["dependencies"] if len(d["inputs"]) == 7)
    return int(number)


def ask(where: str, file: str, model: str | None) -> str:
    """Ask as the page does, for files that were uploaded; return the answer's HTML."""
    number = question(where)
    values: list[Any] = [
        {"path": path, "meta": {"_type": "gradio.FileData"}} if path else None for path in (file, model, None)
    ]
    data = [None, *values, "cpu", "low power", "as the model states"]  # None: the state of the session
    session = f"s{time.monotonic_ns()}"
    asked = json.dumps({"data": data, "fn_index": number, "session_hash": session}).encode()
    assert request(where, "POST", "/gradio_api/queue/join", asked)[0] == 200
    _, _, events = request(where, "GET", f"/gradio_api/queue/data?session_hash={session}")
    found = [json.loads(line[6:]) for line in events.decode().splitlines() if line.startswith("data: ")]
    (done,) = (event for event in found if event["msg"] == "process_completed")
    return str(done["output"]["data"][0])


def send(where: str, path: Path) -> str:
    """Upload a file; return its path on the server."""
    head = f'--edge\r\nContent-Disposition: form-data; name="files"; filename="{path.name}"\r\n\r\n'
    body = head.encode() + path.read_bytes() + b"\r\n--edge--\r\n"
    status, _, answer = request(
        where, "POST", "/gradio_api/upload", body, Content_Type="multipart/form-data; boundary=edge"
    )
    assert status == 200
    return str(json.loads(answer)[0])


def test_an_endless_model_does_not_block_the_page(address: tuple[str, Path], tmp_path: Path) -> None:
    where, log = address
    model = tmp_path / "endless.tflite"
    model.write_bytes(endless())
    file, bad = send(where, noise(tmp_path)), send(where, model)
    start = time.monotonic()
    said = ask(where, file, bad)
    assert "role='alert'" in said
    assert f"has not ended after {SECONDS} s" in said
    assert time.monotonic() - start < SECONDS + 90
    assert "<section class='card'" in ask(where, file, None)
    assert "Traceback" not in log.read_text()


def test_the_page_listens_at_this_machine_only(address: tuple[str, Path]) -> None:
    table = Path("/proc/net/tcp")
    if not table.exists():
        pytest.skip("the system does not list its sockets as Linux does")
    port = f":{urlsplit(address[0]).port:04X}"
    rows = [line.split() for line in table.read_text().splitlines()[1:]]
    listening = [row[1] for row in rows if row[3] == "0A" and row[1].endswith(port)]
    assert listening == [f"0100007F{port}"]  # 127.0.0.1
    six = Path("/proc/net/tcp6")
    assert not six.exists() or not any(
        row.split()[3] == "0A" and row.split()[1].endswith(port) for row in six.read_text().splitlines()[1:]
    )


def test_too_many_questions_are_refused(address: tuple[str, Path], tmp_path: Path) -> None:
    """This test is the last one: the page is busy after it."""
    where, _ = address
    model = tmp_path / "endless.tflite"
    model.write_bytes(endless())
    files = [
        {"path": send(where, path), "meta": {"_type": "gradio.FileData"}} for path in (noise(tmp_path), model)
    ]
    data = [None, *files, None, "cpu", "low power", "as the model states"]
    found = []
    for number in range(16 + 4):
        asked = json.dumps({"data": data, "fn_index": question(where), "session_hash": f"busy{number}"})
        found.append(request(where, "POST", "/gradio_api/queue/join", asked.encode()))
    statuses = [status for status, _, _ in found]
    assert statuses[:16] == [200] * 16
    assert b"full" in found[-1][2]
    assert statuses[-1] != 200
