"""The playground: one page at ``/`` to chat with the model, and the files that it is made of.

They lie ready in ``app/playground/``; nothing is built. The page holds no secret and so asks for no
key; what it then sends to ``/invocations`` is asked for one like everybody's requests.
"""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from app.errors import NoSuchRoute

_FOLDER = Path(__file__).resolve().parent.parent / "playground"
_PAGE = "index.html"
FILES = "/playground/"
"""Where the page's files are served."""
# Named here, because what the system says of these suffixes differs from host to host.
_MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}
# Models write whatever they are talked into. Whatever that is, it can't become a script, load
# something from elsewhere, send something there, or be framed by another site.
_POLICY = "; ".join(
    [
        *("default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'"),
        *("img-src 'self' data:", "base-uri 'none'", "form-action 'none'"),
        *("frame-ancestors 'none'", "require-trusted-types-for 'script'"),
    ]
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",  # asked for again each time, answered with 304 until an update
}


@dataclass(frozen=True)
class _File:
    content: bytes
    media_type: str
    etag: str


class Playground:
    """The page and its files, read once.

    Raises:
        OSError: they are not there.
    """

    def __init__(self) -> None:
        self._files = {
            path.name: _read(path)
            for path in sorted(_FOLDER.iterdir())
            if path.suffix in _MEDIA_TYPES
        }
        others = self._files.keys() - {_PAGE}
        self.paths = frozenset({"/", *(FILES + name for name in others)})
        """All that is served, and nothing else below ``/playground/``."""

    def routes(self) -> list[BaseRoute]:
        """The page's route, and that of its files."""

        async def page(request: Request) -> Response:
            return _answer(request, self._files[_PAGE])

        async def file(request: Request) -> Response:
            if request.url.path not in self.paths:
                raise NoSuchRoute("No such path.")
            return _answer(request, self._files[request.path_params["name"]])

        return [Route("/", page), Route(FILES + "{name}", file)]


def _read(path: Path) -> _File:
    content = path.read_bytes()
    return _File(content, _MEDIA_TYPES[path.suffix], f'"{sha256(content).hexdigest()[:32]}"')


def _answer(request: Request, file: _File) -> Response:
    headers = _HEADERS | {"ETag": file.etag}
    if file.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(file.content, headers=headers | {"Content-Type": file.media_type})
