"""How the parts of a program reach one another: mailboxes, commands, tensors, and where they find each other."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl._comm.backends import ServiceBackend as ServiceBackend
    from flambeau.rl._comm.backends import ServiceBackendAlias as ServiceBackendAlias
    from flambeau.rl._comm.backends import TransportBackend as TransportBackend
    from flambeau.rl._comm.backends import normalize_service_backend as normalize_service_backend
    from flambeau.rl._comm.backends import service_backend as service_backend
    from flambeau.rl._comm.backends import transport_backend as transport_backend
    from flambeau.rl._comm.command import CommandChannel as CommandChannel
    from flambeau.rl._comm.command import CommandClient as CommandClient
    from flambeau.rl._comm.command import CommandRequest as CommandRequest
    from flambeau.rl._comm.mailbox import Mailbox as Mailbox
    from flambeau.rl._comm.mailbox import MailboxClient as MailboxClient
    from flambeau.rl._comm.mailbox import MailboxFuture as MailboxFuture
    from flambeau.rl._comm.mailbox import MailboxPeerClosedError as MailboxPeerClosedError
    from flambeau.rl._comm.mailbox import MailboxTransportError as MailboxTransportError
    from flambeau.rl._comm.mailbox import watch_process_liveness as watch_process_liveness
    from flambeau.rl._comm.rendezvous import MappingRendezvous as MappingRendezvous
    from flambeau.rl._comm.rendezvous import RayRendezvous as RayRendezvous
    from flambeau.rl._comm.rendezvous import Rendezvous as Rendezvous
    from flambeau.rl._comm.rendezvous import TCPStoreRendezvous as TCPStoreRendezvous
    from flambeau.rl._comm.shared import SharedBlock as SharedBlock

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "backends": (
            "ServiceBackend",
            "ServiceBackendAlias",
            "TransportBackend",
            "normalize_service_backend",
            "service_backend",
            "transport_backend",
        ),
        "command": ("CommandChannel", "CommandClient", "CommandRequest"),
        "mailbox": (
            "Mailbox",
            "MailboxClient",
            "MailboxFuture",
            "MailboxPeerClosedError",
            "MailboxTransportError",
            "watch_process_liveness",
        ),
        "rendezvous": ("MappingRendezvous", "RayRendezvous", "Rendezvous", "TCPStoreRendezvous"),
        "shared": ("SharedBlock",),
    },
)
