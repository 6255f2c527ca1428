"""The proxy delays, throttles, counts, falls silent and cuts."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest

from tests.lab.proxy import Chain, Direction, Proxy

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def echo() -> Iterator[tuple[str, int]]:
    """A server that sends back what it gets."""

    def serve(client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            while data := client.recv(65536):
                client.sendall(data)

    def listen() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = server.accept()
                threading.Thread(target=serve, args=(client,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        yield server.getsockname()
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=10)


def read(client: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := client.recv(65536)):
        data += more
    return data


def test_bytes_arrive_unchanged_and_are_counted(echo: tuple[str, int]) -> None:
    data = bytes(range(256)) * 4096
    with Proxy(target=echo) as proxy, connect(proxy) as client:
        sender = threading.Thread(target=client.sendall, args=(data,))
        sender.start()
        assert read(client, len(data)) == data
        sender.join(10)
        assert (proxy.up.count, proxy.down.count) == (len(data), len(data))
        assert proxy.connections == 1


def test_the_end_of_one_direction_is_passed_on_while_the_other_goes_on(
    echo: tuple[str, int],
) -> None:
    with Proxy(target=echo, down=Direction(delay_s=0.1)) as proxy, connect(proxy) as client:
        client.sendall(b"last words")
        client.shutdown(socket.SHUT_WR)
        assert read(client, 100) == b"last words"
        assert client.recv(1) == b""


def test_each_direction_has_its_delay(echo: tuple[str, int]) -> None:
    slow = Proxy(target=echo, up=Direction(delay_s=0.1), down=Direction(delay_s=0.2))
    with slow as proxy, connect(proxy) as client:
        for delay, up in ((0.3, 0.1), (0.25, 0.05)):
            proxy.up.delay_s = up
            before = time.monotonic()
            client.sendall(b"x")
            assert client.recv(1) == b"x"
            assert delay <= time.monotonic() - before < delay + 0.2


def test_a_delay_does_not_hold_up_what_comes_behind(echo: tuple[str, int]) -> None:
    with Proxy(target=echo, up=Direction(delay_s=0.3)) as proxy, connect(proxy) as client:
        before = time.monotonic()
        for _ in range(10):
            client.sendall(b"x")
            time.sleep(0.01)
        assert read(client, 10) == b"x" * 10
        assert time.monotonic() - before < 0.9


def test_a_narrow_link_takes_its_time(echo: tuple[str, int]) -> None:
    with Proxy(target=echo, up=Direction(bytes_per_s=100_000)) as proxy, connect(proxy) as client:
        before = time.monotonic()
        client.sendall(b"x" * 50_000)
        read(client, 50_000)
        assert 0.4 < time.monotonic() - before < 1.5


def test_a_cut_is_a_reset_and_the_next_connection_is_taken(echo: tuple[str, int]) -> None:
    with Proxy(target=echo) as proxy:
        with connect(proxy) as client:
            client.sendall(b"x")
            assert client.recv(1) == b"x"
            proxy.cut()
            with pytest.raises(ConnectionResetError):
                client.recv(1)
        with connect(proxy) as client:
            client.sendall(b"y")
            assert client.recv(1) == b"y"
        assert proxy.connections == 2


def test_it_cuts_by_itself_after_so_many_bytes(echo: tuple[str, int]) -> None:
    with Proxy(target=echo, up=Direction(cut_after=10_000)) as proxy, connect(proxy) as client:
        with contextlib.suppress(ConnectionError):
            client.sendall(b"x" * 50_000)
        with pytest.raises(ConnectionError):
            read(client, 50_000)
        assert proxy.up.count == 10_000


def test_silence_swallows_bytes_and_keeps_the_connection(echo: tuple[str, int]) -> None:
    with Proxy(target=echo) as proxy, connect(proxy) as client:
        proxy.fall_silent()
        client.sendall(b"x" * 100_000)
        client.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.recv(1)
        proxy.recover()
        client.sendall(b"y")
        assert client.recv(1) == b"y"


def test_a_refusing_proxy_resets_old_and_new_connections(echo: tuple[str, int]) -> None:
    with Proxy(target=echo) as proxy:
        with connect(proxy) as client:
            client.sendall(b"x")
            assert client.recv(1) == b"x"
            proxy.refuse()
            with pytest.raises(ConnectionResetError):
                client.recv(1)
        with pytest.raises(ConnectionResetError), connect(proxy) as client:
            client.recv(1)
        proxy.recover()
        with connect(proxy) as client:
            client.sendall(b"y")
            assert client.recv(1) == b"y"


def test_a_server_that_is_not_there_shows_as_a_reset() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        nowhere: tuple[str, int] = gone.getsockname()
    with (
        Proxy(target=nowhere) as proxy,
        pytest.raises(ConnectionResetError),
        connect(proxy) as client,
    ):
        client.recv(1)


def test_it_counts_the_round_trips_that_waited_for_one_another(echo: tuple[str, int]) -> None:
    with Proxy(target=echo, up=Direction(delay_s=0.05)) as proxy:
        with connect(proxy) as client:
            for number in range(1, 4):
                client.sendall(b"x")
                read(client, 1)
                assert proxy.chain.round_trips == number
        with connect(proxy) as client:  # what one connection waited for, the next waited for too
            client.sendall(b"x")
            read(client, 1)
            assert proxy.chain.round_trips == 4


def test_what_is_sent_at_once_waits_once(echo: tuple[str, int]) -> None:
    with Proxy(target=echo, up=Direction(delay_s=0.2)) as proxy, connect(proxy) as client:
        for _ in range(5):
            client.sendall(b"x")
            time.sleep(0.01)
        read(client, 5)
        assert proxy.chain.round_trips == 1


def test_a_connection_counts_in_the_chain_that_it_began_in(echo: tuple[str, int]) -> None:
    with Proxy(target=echo) as proxy, connect(proxy) as client:
        client.sendall(b"x")
        read(client, 1)
        before, proxy.chain = proxy.chain, Chain()
        client.sendall(b"x")
        read(client, 1)
        assert (before.round_trips, proxy.chain.round_trips) == (2, 0)
