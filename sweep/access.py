"""Who may use a web server of this machine: whoever has its token.

A loopback address is open to every local user, so `sweep ui` draws a token for its
servers and prints links with it. The first page of such a link leaves the token in a
cookie; a script sends it as `Authorization: Bearer`, as MLflow's client does with
MLFLOW_TRACKING_TOKEN, or as the password of basic authentication. Every other request
is refused before the application sees it.

Cookies do not depend on ports: their names do, so that two servers do not replace each
other's.
"""

import base64
import binascii
import hmac
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

FIELD = "token"  # of a link
_REFUSAL = (
    "This server asks for its token: open the link that `sweep ui` printed, or set"
    " MLFLOW_TRACKING_TOKEN to the token for a script.\n"
)

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
AsgiApp = Callable[
    [Scope, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]
WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


@dataclass(frozen=True)
class Answer:
    """What a request gets in place of the application's answer."""

    status: HTTPStatus
    headers: Mapping[str, str]
    body: str = ""

    @property
    def lines(self) -> list[tuple[str, str]]:
        """Names and values of all headers, that of the kind of the body first."""
        return [("Content-Type", "text/plain; charset=utf-8"), *self.headers.items()]


def answer(
    token: str, *, port: int, path: str, query: str, cookie: str, authorization: str
) -> Answer | None:
    """None where the request has the token, and the application may answer it.

    A link with the token is sent on to the same page without it, so that the token
    stays out of what the page shows and passes on, with the cookie that later requests
    have.
    """
    name = f"sweep-ui-{port}"
    fields = parse_qsl(query, keep_blank_values=True)
    if any(field == FIELD and _is_same(value, token) for field, value in fields):
        rest = urlencode([each for each in fields if each[0] != FIELD])
        place = "/" + quote(path.lstrip("/"))  # on no other host
        return Answer(
            HTTPStatus.SEE_OTHER,
            {
                "Location": f"{place}?{rest}" if rest else place,
                "Set-Cookie": f"{name}={token}; Path=/; HttpOnly; SameSite=Lax",
                "Cache-Control": "no-store",
            },
        )
    given = [_of_cookie(cookie, name), _of_header(authorization)]
    if any(_is_same(each, token) for each in given):
        return None
    # No "Basic": a page that was left open would ask for a password again and again.
    return Answer(HTTPStatus.UNAUTHORIZED, {"WWW-Authenticate": "Bearer"}, _REFUSAL)


def asgi(application: AsgiApp, token: str) -> AsgiApp:
    """An ASGI application that answers only requests with `token` (see the module) and
    passes them to `application`. A refused request gets a page, a refused WebSocket is
    closed with code 1008. Messages of the server's own start and end pass.
    """

    async def guarded(scope: Scope, receive: Any, send: Any) -> None:
        found = None
        if scope["type"] != "lifespan":
            headers = {
                name.lower(): value.decode("latin-1")
                for name, value in scope["headers"]
            }
            found = answer(
                token,
                port=scope["server"][1],
                path=scope["path"],
                query=scope["query_string"].decode("latin-1"),
                cookie=headers.get(b"cookie", ""),
                authorization=headers.get(b"authorization", ""),
            )
        if found is None:
            await application(scope, receive, send)
        elif scope["type"] == "http":
            await send(
                {
                    "type": "http.response.start",
                    "status": int(found.status),
                    "headers": [
                        (name.lower().encode(), value.encode())
                        for name, value in found.lines
                    ],
                }
            )
            await send({"type": "http.response.body", "body": found.body.encode()})
        else:
            await send({"type": "websocket.close", "code": 1008})

    return guarded


def wsgi(application: WsgiApp, token: str) -> WsgiApp:
    """A WSGI application that answers only requests with `token` (see the module) and
    passes them to `application`. A refused request gets a page with status 401.
    """

    def guarded(
        environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        found = answer(
            token,
            port=int(environ["SERVER_PORT"]),
            path=environ.get("PATH_INFO", ""),
            query=environ.get("QUERY_STRING", ""),
            cookie=environ.get("HTTP_COOKIE", ""),
            authorization=environ.get("HTTP_AUTHORIZATION", ""),
        )
        if found is None:
            return application(environ, start_response)
        start_response(f"{found.status.value} {found.status.phrase}", found.lines)
        return [found.body.encode()]

    return guarded


def _of_cookie(header: str, name: str) -> str:
    """The value of a cookie, empty where there is none."""
    for pair in header.split(";"):
        found, _, value = pair.strip().partition("=")
        if found == name:
            return value
    return ""


def _of_header(authorization: str) -> str:
    """The token of `Bearer TOKEN`, or the password of `Basic base64(USER:PASSWORD)`."""
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(value).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return ""
    return ""


def _is_same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())
