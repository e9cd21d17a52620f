"""Where endpoints may be: public addresses, and what the operator allows beside them.

The address is judged when it is connected to, and the connection goes to that very address, so that a name cannot
answer differently in between. However an address is written (decimal, octal, mapped into IPv6), it is the same here.
"""

import asyncio
import socket
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias, cast

import httpcore2

from assay.errors import ConfigurationError

Address: TypeAlias = IPv4Address | IPv6Address
SocketOption: TypeAlias = tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]

NAT64 = IPv6Network("64:ff9b::/96")
# Not all of these count as special in every Python release we support, and each can lead into a private network.
# 168.63.129.16 is the host of every virtual machine of one cloud, with what it tells them.
NEVER_PUBLIC = tuple(
    ip_network(text)
    for text in (
        "64:ff9b:1::/48",
        "100.64.0.0/10",
        "168.63.129.16/32",
        "192.0.0.0/24",
        "192.88.99.0/24",
        "2001::/23",
        "2002::/16",
        "3fff::/20",
        "5f00::/16",
        "fec0::/10",
        "::/96",
    )
)
IPV4_BITS = 0xFFFFFFFF
ADDRESS_TURN_S = 2.0
LOOKUPS_AT_ONCE = 64


class BlockedAddressError(Exception):
    """The endpoint's address is not one that may be called."""


class AddressGuard:
    """Tells which addresses may be called; `allow` lists host names, addresses and CIDR ranges beside the public ones.

    Raises ConfigurationError for an entry that is none of these.
    """

    def __init__(self, allow: Sequence[str] = ()) -> None:
        networks = [(entry, _network(entry)) for entry in allow]
        self._networks = tuple(network for _, network in networks if network is not None)
        self._hosts = frozenset(_host(entry) for entry, network in networks if network is None)

    def allows(self, host: str, address: Address) -> bool:
        """Tell whether this address may be called under this name."""
        if host.rstrip(".").lower() in self._hosts:
            return True
        inner = _embedded(address)
        if any(seen in network for network in self._networks for seen in {address, inner}):
            return True
        return _is_public(inner)


class GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Opens connections to allowed addresses only, trying those of a name in turn; raises BlockedAddressError.

    Names are looked up in threads of its own, so that a name server that hangs takes none from the rest of the program.
    """

    def __init__(self, guard: AddressGuard) -> None:
        self._guard = guard
        self._lookups = ThreadPoolExecutor(LOOKUPS_AT_ONCE, thread_name_prefix="lookup")
        self._inner = cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Resolve, judge and connect; a host none of whose addresses is allowed is never connected to."""
        addresses = await self._resolved(host, port)
        allowed = [address for address in addresses if self._guard.allows(host, address)]
        if not allowed:
            raise BlockedAddressError(host)
        failure: httpcore2.ConnectError | httpcore2.ConnectTimeout | None = None
        for address in allowed:
            patience_s = timeout if address == allowed[-1] else ADDRESS_TURN_S
            try:
                return await self._inner.connect_tcp(str(address), port, patience_s, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure or httpcore2.ConnectError(host)

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[SocketOption] | None = None
    ) -> httpcore2.AsyncNetworkStream:
        """Refuse: a socket file is never an endpoint."""
        raise BlockedAddressError(path)

    async def sleep(self, seconds: float) -> None:
        """Wait, in seconds."""
        await asyncio.sleep(seconds)

    def close(self) -> None:
        """Begin no further look-up."""
        self._lookups.shutdown(wait=False, cancel_futures=True)

    async def _resolved(self, host: str, port: int) -> list[Address]:
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._lookups, _look_up, host, port)
        except (OSError, UnicodeError, OverflowError) as error:
            raise httpcore2.ConnectError(f"the name {host!r} does not resolve") from error
        return list(dict.fromkeys(ip_address(entry[4][0]) for entry in found))


def _look_up(host: str, port: int):
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)


def _embedded(address: Address) -> Address:
    """Return the IPv4 address an IPv6 one stands for, so that a wrapped address is judged by what it reaches."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in NAT64:
        return IPv4Address(int(address) & IPV4_BITS)
    return address


def _is_public(address: Address) -> bool:
    if any(address in network for network in NEVER_PUBLIC):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def _network(entry: str):
    try:
        return ip_network(entry.strip())
    except ValueError:
        return None


def _host(entry: str) -> str:
    host = entry.strip().rstrip(".").lower()
    if not host or any(character in host for character in "/:@?#*") or host.replace(".", "").isdigit():
        raise ConfigurationError(
            f"{entry!r} cannot be allowed for endpoints: give a host name, an address, or a range such as 10.0.0.0/8."
        )
    return host
