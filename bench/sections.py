"""Sections of the benchmark in the order of the report: name, heading and measuring function."""

from typing import NamedTuple

from . import field
from .durable import section as durable_steps
from .figures import Section
from .load import section as load
from .measurements import (
    bedrock,
    callbacks,
    cluster,
    connection,
    dependencies,
    downloads,
    drain,
    durability,
    enqueue,
    growth,
    http_api,
    lanes,
    limits,
    processor,
    push,
    sdk,
    server_cpu,
    waiting,
)


class Chapter(NamedTuple):
    heading: str
    measure: Section


SECTIONS: dict[str, Chapter] = {
    "field": Chapter("Comparison with other queues", field.section),
    "durable": Chapter("Durable steps compared with DBOS", durable_steps.section),
    "growth": Chapter("Growth", growth.section),
    "load": Chapter("Large deployments", load.section),
    "durability": Chapter("Durability", durability.section),
    "http": Chapter("HTTP and Bedrock", http_api.section),
    "sdk": Chapter("SDK compared with the bare engine", sdk.section),
    "enqueue": Chapter("Enqueue compared with the bare engine", enqueue.section),
    "drain": Chapter("Take and finish compared with the bare engine", drain.section),
    "waiting": Chapter("Waiting", waiting.section),
    "limits": Chapter("Limits", limits.section),
    "lanes": Chapter("Lanes", lanes.section),
    "family": Chapter("Dependencies", dependencies.section),
    "connection": Chapter("Connections", connection.section),
    "cluster": Chapter("Cluster", cluster.section),
    "bedrock": Chapter("Bedrock::Jobs", bedrock.section),
    "server": Chapter("Cost of a request", server_cpu.section),
    "push": Chapter("Push workers", push.section),
    "callbacks": Chapter("Callbacks", callbacks.section),
    "downloads": Chapter("Downloads", downloads.section),
    "processor": Chapter("Processor", processor.section),
}
