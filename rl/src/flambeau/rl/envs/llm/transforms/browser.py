"""A browser as a tool."""

from __future__ import annotations

import importlib
import ipaddress
import socket
from collections.abc import Callable
from typing import Any, Self
from urllib.parse import urlsplit

from flambeau.rl.envs.llm.transforms.tools._in_order import SimpleToolTransform

__all__ = ["BrowserTransform"]

_SCHEMA = {
    "name": "browser",
    "description": "Open pages of the web, and act on them",
    "parameters": {
        "type": "object",
        "properties": {
            "action": {
                "type": "string",
                "enum": ["navigate", "click", "type", "screenshot", "extract", "scroll"],
                "description": "what to do",
            },
            "url": {"type": "string", "description": "of the page, to navigate"},
            "selector": {"type": "string", "description": "CSS selector of what to click, type into or extract"},
            "text": {"type": "string", "description": "to type"},
            "scroll_amount": {"type": "integer", "description": "pixels to scroll down"},
            "extract_type": {"type": "string", "enum": ["text", "links"], "description": "what to extract"},
        },
        "required": ["action"],
    },
}
MOST_CHARACTERS = 20_000
"""Of a page that is told to a model."""


class BrowserTransform(SimpleToolTransform):
    r"""Lets a model browse: `<tool>browser\n{"action": "navigate", "url": "https://..."}</tool>`.

    The browser is Chromium by Playwright, begun with the first call. It opens pages by http and https alone; where
    domains are named, pages of others are refused, whichever way they are asked for: by the model, by a link, by a
    page. Addresses within this machine and its network are refused unless their domain is named.

    Args:
        allowed_domains: of pages, with their subdomains; default: all.
        headless: show no window.
        timeout: seconds that an action may take.
        tokenizer: is kept, for transforms that look for one.
        tool_name: the role of the messages.

    Raises:
        ImportError: playwright is not installed, at the first call.
    """

    def __init__(
        self,
        allowed_domains: list[str] | None = None,
        headless: bool = True,
        timeout: float = 30.0,
        tokenizer: Any = None,
        tool_name: str = "tool",
    ) -> None:
        super().__init__({"browser": self._act}, {"browser": _SCHEMA}, tool_name=tool_name, timeout=timeout)
        self.allowed_domains = allowed_domains
        self.headless = headless
        self.tokenizer = tokenizer
        self._forget()

    def _forget(self) -> None:
        for name in ("_playwright", "browser", "context", "page"):
            self.__dict__[name] = None

    def clone(self) -> Self:
        """The same transform, with a browser of its own."""
        twin = super().clone()
        twin._forget()
        twin.tools = {"browser": twin._act}
        return twin

    def close(self) -> None:
        """End the browser. A second call does nothing."""
        browser, playwright = self.__dict__["browser"], self.__dict__["_playwright"]
        self._forget()
        if browser is not None:
            browser.close()
        if playwright is not None:
            playwright.stop()

    # Pages

    def _opened(self) -> Any:
        if self.__dict__["page"] is None:
            try:
                begin = importlib.import_module("playwright.sync_api").sync_playwright
            except ImportError as error:
                raise ImportError(
                    "BrowserTransform browses by Playwright, which is not installed; "
                    "pip install playwright && playwright install chromium."
                ) from error
            state = self.__dict__
            state["_playwright"] = begin().start()
            state["browser"] = state["_playwright"].chromium.launch(headless=self.headless)
            state["context"] = state["browser"].new_context(accept_downloads=False)
            state["context"].route("**/*", self._filter)
            state["page"] = state["context"].new_page()
            state["page"].set_default_timeout(1000 * self.timeout)
        return self.__dict__["page"]

    def _filter(self, route: Any) -> None:
        """Let pass what may be opened, of everything that a page asks for."""
        if self._refusal(route.request.url) is None:
            route.continue_()
        else:
            route.abort("blockedbyclient")

    def _refusal(self, url: str) -> str | None:
        """Why an address is not opened; None if it is."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https"):
            return f"pages are opened by http and https, not by {parts.scheme!r}"
        host = (parts.hostname or "").rstrip(".")
        if self.allowed_domains is not None:
            allowed = any(host == domain or host.endswith(f".{domain}") for domain in self.allowed_domains)
            return None if allowed else f"{host!r} is none of the domains {self.allowed_domains}"
        return f"{host!r} is an address within this network" if _internal(host) else None

    def _act(self, action: str, **arguments: Any) -> Any:
        actions: dict[str, Callable[..., Any]] = {
            "navigate": self._navigate, "click": self._click, "type": self._type, "scroll": self._scroll,
            "extract": self._extract, "screenshot": self._screenshot,
        }  # fmt: skip
        if action not in actions:
            raise ValueError(f"action is one of {sorted(actions)}; got {action!r}")
        return actions[action](**arguments)

    def _navigate(self, url: str) -> str:
        refusal = self._refusal(url)
        if refusal is not None:
            raise ValueError(refusal)
        page = self._opened()
        page.goto(url)
        return f"{page.title()} ({page.url})"

    def _click(self, selector: str) -> str:
        page = self._opened()
        page.click(selector)
        return f"clicked {selector}; the page is {page.url}"

    def _type(self, selector: str, text: str) -> str:
        self._opened().fill(selector, text)
        return f"typed into {selector}"

    def _scroll(self, scroll_amount: int = 500) -> str:
        self._opened().mouse.wheel(0, int(scroll_amount))
        return f"scrolled by {int(scroll_amount)} pixels"

    def _extract(self, selector: str = "body", extract_type: str = "text") -> str:
        page = self._opened()
        if extract_type == "text":
            found = "\n".join(page.locator(selector).all_inner_texts())
        elif extract_type == "links":
            links = page.locator(f"{selector} a").all()
            found = "\n".join(f"{link.inner_text()}: {link.get_attribute('href')}" for link in links)
        else:
            raise ValueError(f"extract_type is 'text' or 'links'; got {extract_type!r}")
        return found[:MOST_CHARACTERS]

    def _screenshot(self) -> str:
        return f"{len(self._opened().screenshot())} bytes of PNG"


def _internal(host: str) -> bool:
    """Whether a name leads to this machine or its network, or nowhere."""
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host, None)}
    except OSError:
        return True
    return any(not ipaddress.ip_address(str(address).partition("%")[0]).is_global for address in found)
