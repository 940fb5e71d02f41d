"""Fleets in the database, filled in bulk: any number of nodes, with any share of them held.

The numbers that the store keeps about each node are computed here independently, so that a fleet that our own code would
not have created is detected (`audit`).
"""

import datetime
import json
import random
import uuid

from .processes import Broken

GPUS = 8  # of a node, in two islands
TENANT, PROJECT = (str(uuid.UUID(int=number)) for number in (1, 2))
CPUS, MEMORY_MB, DISK_MB = 96, 1024 * 1024, 1024 * 1024
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc).isoformat()

TENANTS = "id, slug, display_name, labels, created_at, updated_at, version"
PROJECTS = "id, tenant_id, name, display_name, labels, created_at, updated_at, version"
NODES = ("id, name, labels, inventory, inventory_digest, approved_inventory, approved_digest, approved_at, cordoned, "
         "draining, session, session_clean, agent_version, certificate_until, gpus_total, gpus_free, cpus_total, cpus_free, "
         "memory_mb_total, memory_mb_free, disk_mb_total, disk_mb_free, holders, exclusive, fit, created_at, updated_at, version")
SLOTS = ("id, node_id, kind, device, ordinal, model, memory_mb, numa, island, state, created_at, updated_at, version")
ALLOCATIONS = ("id, tenant_id, project_id, name, labels, shape, gpus, cpus, memory_mb, disk_mb, strategy, state, node_id, "
               "incarnation, held_gpus, held_cpus, held_memory_mb, held_disk_mb, protected, created_at, updated_at, version")
CLAIMS = "id, slot_id, allocation_id, claimed_at"


def all_of_them(_node, _nodes, _chance):
    return range(GPUS)


def none_of_them(_node, _nodes, _chance):
    return range(0)


def of_every_second(node, _nodes, _chance):
    return range(GPUS) if node % 2 else range(0)


def seven_of_ten(_node, _nodes, chance):
    return [ordinal for ordinal in range(GPUS) if chance.random() < 0.7]


# fill → which slots of a node are held
FILLS = {"empty": none_of_them, "half": of_every_second, "full": all_of_them, "random": seven_of_ten}


def ids(kind):
    """Ids that sort in the order of their making, as ours do: 48 bits of time, then the version, then the rest."""
    number = 0
    while True:
        yield str(uuid.UUID(int=((1_767_225_600_000 + number) << 80) | (7 << 76) | (2 << 62) | kind))
        number += 1


def need(gpus):
    """Returns the CPUs, memory and disk for this many GPUs."""
    cpus = 2 + 8 * gpus
    return [cpus, 8 * 1024 * cpus, 10 * 1024 * cpus]


def fit_of(free, whole):
    """The number that nodes are found by: whether whole, free GPUs, the most of them in one place of each sort."""
    island = max(sum(1 for ordinal in free if ordinal // 4 == half) for half in (0, 1))
    number = int(whole)
    for count in (len(free), island, island, island):  # here an island is a NUMA node
        number = (number << 8) | count
    return number


def groups(held, chance):
    """Held slots as the allocations that hold them: of one to four."""
    held = list(held)
    while held:
        size = min(len(held), chance.choice((1, 1, 2, 2, 4)))
        yield held[:size]
        held = held[size:]


def rows_of(nodes, fill):
    """All rows of a fleet, by table."""
    chance = random.Random(nodes)
    node_ids, slot_ids, allocation_ids, claim_ids = (ids(kind) for kind in range(1, 5))
    tables = {"nodes": [], "slots": [], "allocations": [], "claims": []}
    empty = json.dumps({})
    for number in range(nodes):
        node = next(node_ids)
        held = list(FILLS[fill](number, nodes, chance))
        slots = [next(slot_ids) for _ in range(GPUS)]
        left, holders = [CPUS, MEMORY_MB, DISK_MB], 0
        for group in groups(held, chance):
            allocation, amount, holders = next(allocation_ids), need(len(group)), holders + 1
            left = [have - take for have, take in zip(left, amount)]
            tables["allocations"].append([allocation, TENANT, PROJECT, allocation, empty, "gpu_slice", len(group), *amount,
                                          "pack", "provisioning", node, 1, len(group), *amount, "f", NOW, NOW, 1])
            tables["claims"] += [[next(claim_ids), slots[ordinal], allocation, NOW] for ordinal in group]
        free = [ordinal for ordinal in range(GPUS) if ordinal not in held]
        counters = [GPUS, len(free), CPUS, left[0], MEMORY_MB, left[1], DISK_MB, left[2]]
        tables["nodes"].append([node, f"node-{number}", empty, empty, "d", empty, "d", NOW, "f", "f", 1, "t", "bench", NOW,
                                *counters, holders, "f", fit_of(free, holders == 0), NOW, NOW, 1])
        tables["slots"] += [[slot, node, "gpu", f"gpu-{ordinal}", ordinal, "made-up", 81_920, ordinal // 4, ordinal // 4,
                             "approved", NOW, NOW, 1] for ordinal, slot in enumerate(slots)]
    return tables


def fill(postgres, database, nodes, how):
    """Replaces whatever fleet is there."""
    tables = rows_of(nodes, how)
    postgres.sql("TRUNCATE tenants, projects, nodes, node_heartbeats, slots, allocations, allocation_phases, claims CASCADE", database)
    postgres.copy("tenants", TENANTS, [[TENANT, "bench", "Bench", "{}", NOW, NOW, 1]], database)
    postgres.copy("projects", PROJECTS, [[PROJECT, TENANT, "bench", "Bench", "{}", NOW, NOW, 1]], database)
    for table, columns in (("nodes", NODES), ("slots", SLOTS), ("allocations", ALLOCATIONS), ("claims", CLAIMS)):
        postgres.copy(table, columns, tables[table], database)
    postgres.sql("INSERT INTO node_heartbeats (node_id, seen_at) SELECT id, now() FROM nodes", database)
    settle(postgres, database)


def settle(postgres, database):
    """As a database that has lived for a while: statistics are there, dead rows are not."""
    postgres.sql("VACUUM (ANALYZE) nodes, node_heartbeats, slots, allocations, claims", database)


def empty_again(postgres, database):
    """Takes back all that was claimed on a fleet that was filled as empty."""
    whole = fit_of(list(range(GPUS)), True)
    postgres.sql("DELETE FROM claims", database)
    postgres.sql("UPDATE nodes SET gpus_free = gpus_total, cpus_free = cpus_total, memory_mb_free = memory_mb_total, "
                 f"disk_mb_free = disk_mb_total, holders = 0, exclusive = false, fit = {whole} WHERE holders > 0", database)
    settle(postgres, database)


AUDITS = {
    "slots that are claimed twice": "SELECT count(*) FROM (SELECT slot_id FROM claims WHERE released_at IS NULL "
                                    "GROUP BY slot_id HAVING count(*) > 1) doubles",
    "nodes whose free GPUs are miscounted":
        "SELECT count(*) FROM nodes n WHERE gpus_free <> (SELECT count(*) FROM slots s WHERE s.node_id = n.id "
        "AND NOT EXISTS (SELECT 1 FROM claims c WHERE c.slot_id = s.id AND c.released_at IS NULL))",
    "nodes that are filed under the wrong number":
        "WITH places AS (SELECT n.id, count(s.id) AS free, count(s.id) FILTER (WHERE s.island = 0) AS one, "
        "count(s.id) FILTER (WHERE s.island = 1) AS two FROM nodes n LEFT JOIN slots s ON s.node_id = n.id "
        "AND NOT EXISTS (SELECT 1 FROM claims c WHERE c.slot_id = s.id AND c.released_at IS NULL) GROUP BY n.id) "
        "SELECT count(*) FROM nodes n JOIN places p USING (id) WHERE n.fit <> (CASE WHEN n.holders = 0 THEN 1::bigint << 32 "
        "ELSE 0 END) + (p.free << 24) + greatest(p.one, p.two) * 65793",
}


def audit(postgres, database):
    """Counts by independent queries; measurements on an inconsistent fleet are void."""
    for what, query in AUDITS.items():
        found = int(postgres.sql(query, database))
        if found:
            raise Broken(f"{database}: {found} {what}")
