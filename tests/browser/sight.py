"""What a page knows of its session, what the server knows, and what a person sees of work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from agentrt.events import Snapshot
from browser.kit import until

if TYPE_CHECKING:
    from playwright.sync_api import Page

_VIEW = """async () => {
    const { model, ui } = await import("/page/app.js");
    const { session } = ui();
    const seat = model().attached.get(session);
    if (!seat) return null;
    const fields = Object.entries(seat.view);
    const { epoch, seq } = seat;
    const plain = (value) =>
        (value?.forEach && !Array.isArray(value) ? [...value.values()] : value);
    return { session, epoch, seq, ...Object.fromEntries(fields.map(([k, v]) => [k, plain(v)])) };
}"""

_SNAPSHOT = """(session) => new Promise((resolve, reject) => {
    const key = `agentrt.key.${localStorage.getItem("key") ?? ""}`;
    const socket = new WebSocket(`ws://${location.host}/ws`, ["agentrt.v1", key]);
    socket.onclose = () => reject(new Error("the server let nobody in"));
    const done = (told) => (socket.close(), resolve(told));
    socket.onerror = reject;
    socket.onopen = () => {
        socket.send(JSON.stringify({ type: "hello", id: "1", sessions: [{ session }] }));
    };
    socket.onmessage = ({ data }) => {
        for (const frame of [JSON.parse(data)].flat()) {
            if (frame.type === "snapshot") done(frame);
            if (frame.sessions?.[session] === "unknown_session") done(null);
        }
    };
})"""

_WORK = """() => {
    const seen = (element) => element.checkVisibility({ visibilityProperty: true });
    const all = (selector) => [...document.querySelectorAll(selector)].filter(seen);
    const words = (selector) => all(selector).map((element) => element.textContent.trim());
    const busy = /^(working|needs|stopping|starting|running|preparing|Stop\\b)/i;
    return [
        ...words(".phase, .entry small, button, .status, .tray summary span")
            .filter((text) => busy.test(text)),
        ...words("[role=alertdialog]"),
        ...document.getAnimations().filter((each) => each.playState === "running"
            && each.effect.getTiming().iterations === Infinity).map((each) => each.animationName),
        ...[document.title].filter((title) => title.startsWith("(")),
    ];
}"""


def view(page: Page) -> Snapshot | None:
    """What the page shows of its session; None if it does not know it."""
    return _read(page.evaluate(_VIEW))


def snapshot(page: Page, session: str) -> Snapshot | None:
    """What the server says of a session to somebody new; None if it has none."""
    return _read(page.evaluate(_SNAPSHOT, session))


def _read(told: Any) -> Snapshot | None:
    return None if told is None else msgspec.convert(told, Snapshot)


def work(page: Page) -> list[str]:
    """What says that there is something going on, or to be answered."""
    found: list[str] = page.evaluate(_WORK)
    return found


def agree(page: Page, session: str) -> None:
    """Wait until the page shows what the server knows, and all of it."""
    until(lambda: _same(page, session), "that the page shows what the server knows")


def _same(page: Page, session: str) -> bool:
    shown = view(page)
    return shown is not None and shown.session == session and shown == snapshot(page, session)
