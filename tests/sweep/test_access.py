"""Whoever lacks a server's token gets no answer of the application behind it."""

import asyncio
import base64

import pytest

from sweep import access

TOKEN = "s3cret-token"


def answer(*, path="/", query="", cookie="", authorization=""):
    return access.answer(
        TOKEN,
        port=5000,
        path=path,
        query=query,
        cookie=cookie,
        authorization=authorization,
    )


def basic(user, password):
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


@pytest.mark.parametrize(
    "given",
    [
        {"cookie": f"sweep-ui-5000={TOKEN}"},
        {"cookie": f"other=1; sweep-ui-5000={TOKEN}; more=2"},
        {"authorization": f"Bearer {TOKEN}"},
        {"authorization": f"bearer {TOKEN}"},
        {"authorization": basic("anyone", TOKEN)},
    ],
)
def test_the_token_opens(given):
    assert answer(**given) is None


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"query": "token="},
        {"query": f"token={TOKEN}x"},
        {"query": f"other={TOKEN}"},
        {"cookie": "sweep-ui-5000="},
        {"cookie": f"sweep-ui-5001={TOKEN}"},  # of a server at another port
        {"cookie": f"sweep-ui-5000={TOKEN[:-1]}"},
        {"authorization": TOKEN},
        {"authorization": "Bearer "},
        {"authorization": "Bearer sécret"},
        {"authorization": basic(TOKEN, "")},
        {"authorization": "Basic !"},
        {"authorization": "Basic /w=="},
    ],
)
def test_anything_else_is_refused_with_a_way_on(given):
    found = answer(**given)
    assert found.status == 401
    assert "MLFLOW_TRACKING_TOKEN" in found.body
    assert TOKEN not in found.body
    assert "Set-Cookie" not in found.headers


@pytest.mark.parametrize(
    ("path", "query", "place"),
    [
        ("/", f"token={TOKEN}", "/"),
        ("/", f"a=1&token={TOKEN}&b=x%26y", "/?a=1&b=x%26y"),
        ("//evil.example/", f"token={TOKEN}", "/evil.example/"),
        ("/a\r\nX: y", f"token={TOKEN}", "/a%0D%0AX%3A%20y"),
    ],
)
def test_a_link_leaves_a_cookie_and_leads_to_the_page_without_the_token(
    path, query, place
):
    found = answer(path=path, query=query)
    assert (found.status, found.headers["Location"]) == (303, place)
    cookie = found.headers["Set-Cookie"]
    assert {"HttpOnly", "SameSite=Lax"} <= set(cookie.split("; "))
    assert answer(cookie=cookie.partition(";")[0]) is None


def test_an_asgi_application_sees_no_request_without_the_token():
    seen, sent = [], []

    async def application(scope, receive, send):
        seen.append(scope["type"])

    async def send(message):
        sent.append(message)

    async def ask(kind, headers=()):
        scope = {
            "type": kind,
            "path": "/",
            "query_string": b"",
            "headers": list(headers),
        }
        await access.asgi(application, TOKEN)(
            {**scope, "server": ("h", 5000)}, None, send
        )

    for kind in ("http", "websocket"):
        asyncio.run(ask(kind))
    assert seen == []
    assert sent[0]["status"] == 401
    assert sent[2]["type"] == "websocket.close"
    for kind in ("http", "websocket", "lifespan"):
        asyncio.run(ask(kind, [(b"Authorization", f"Bearer {TOKEN}".encode())]))
    assert seen == ["http", "websocket", "lifespan"]


def test_a_wsgi_application_sees_no_request_without_the_token():
    said = []

    def ask(**environ):
        guarded = access.wsgi(lambda environ, start: [b"private"], TOKEN)
        start = lambda status, headers: said.append(status)  # noqa: E731
        return b"".join(
            guarded({"SERVER_PORT": "5000", "PATH_INFO": "/", **environ}, start)
        )

    assert b"private" not in ask()
    assert said == ["401 Unauthorized"]
    assert ask(HTTP_COOKIE=f"sweep-ui-5000={TOKEN}") == b"private"
