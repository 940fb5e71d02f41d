"""Many instances in bulk, and a long past: rows as the platform would have left them, put in by SQL because there is no time to
wait for them. Every one is copied from what the platform made itself."""

import hashlib
import time
import uuid

from .members import ALPHABET

INSTANCES, UNITS = 1000, 10

# Members at work without a cell: nodes are not asked about them, but everything that reads them finds them.
COPY = """
CREATE TEMP TABLE made ON COMMIT DROP AS
  SELECT gen_random_uuid() AS id, gen_random_uuid() AS witness, n FROM generate_series({first}, {last}) n;
INSERT INTO witnesses SELECT made.witness, made.id, w.transition, w.kind, w.incarnation, w.operation_id, w.node_id, w.task_id,
    w.actor_id, w.checked, w.result, w.at FROM made, witnesses w WHERE w.id = (SELECT running_witness_id FROM instances WHERE id = '{of}');
INSERT INTO instances ({instance}, id, name, running_witness_id, reconcile_due_at)
  SELECT {instance}, made.id, 'c' || made.n, made.witness, now() + made.n * interval '{every} seconds' / {last}
  FROM made, (SELECT {instance} FROM instances WHERE id = '{of}') i;
INSERT INTO instance_components (instance_id, key, desired, last_ordinal, capacity, allocation_id)
  SELECT made.id, key, desired, last_ordinal, capacity, allocation_id FROM made, instance_components WHERE instance_id = '{of}';
CREATE TEMP TABLE crew ON COMMIT DROP AS
  SELECT gen_random_uuid() AS id, gen_random_uuid() AS witness, made.id AS instance, m.id AS was,
         'c' || made.n || substr(m.name, position('-' IN m.name)) AS name
  FROM made, members m WHERE m.instance_id = '{of}';
INSERT INTO witnesses SELECT crew.witness, crew.id, w.transition, w.kind, w.incarnation, w.operation_id, w.node_id, w.task_id,
    w.actor_id, w.checked, w.result, w.at FROM crew JOIN members m ON m.id = crew.was JOIN witnesses w ON w.id = m.active_witness_id;
INSERT INTO members ({member}, id, instance_id, name, active_witness_id)
  SELECT {m_member}, crew.id, crew.instance, crew.name, crew.witness FROM crew JOIN members m ON m.id = crew.was;
"""

# A finished operation with its witness, its adapter step, and its two entries in the audit.
PAST = """
CREATE TEMP TABLE past ON COMMIT DROP AS
  SELECT bench_past.id, written, gen_random_uuid() AS witness, gen_random_uuid() AS step, n,
         crew.id AS member, crew.instance_id AS instance, crew.name
  FROM bench_past
  JOIN (SELECT id, instance_id, name, row_number() OVER (ORDER BY id) - 1 AS at FROM members) crew ON crew.at = n % {members};
INSERT INTO operations_finished (id, project_id, subject_id, parent_id, kind, state, finished_at, document)
  SELECT past.id, o.project_id, past.member, NULL, o.kind, o.state, o.finished_at - past.n * interval '1 second',
         o.document || jsonb_build_object('id', past.written, 'subject_id', past.member, 'subject_name', past.name)
  FROM past, (SELECT * FROM operations_finished WHERE kind = 'member.resume' AND state = 'succeeded' LIMIT 1) o;
INSERT INTO witnesses SELECT past.witness, past.member, w.transition, w.kind, w.incarnation, past.id, w.node_id, w.task_id,
    w.actor_id, w.checked, w.result, w.at - past.n * interval '1 second'
  FROM past, (SELECT * FROM witnesses WHERE transition = 'active' AND operation_id IS NOT NULL LIMIT 1) w;
INSERT INTO adapter_steps ({step}, id, instance_id, member_id, operation_id)
  SELECT {step}, past.step, past.instance, past.member, past.id
  FROM past, (SELECT {step} FROM adapter_steps WHERE verb = 'resume' AND state = 'done' LIMIT 1) s;
INSERT INTO audit_entries (chain, sequence, previous_hash, hash, entry, at, actor_id, action, project_id)
  SELECT 'past', past.n * 2 + k, a.previous_hash, a.hash, a.entry, a.at - past.n * interval '1 second', a.actor_id, a.action, a.project_id
  FROM past, generate_series(0, 1) k, (SELECT * FROM audit_entries WHERE action = 'member.resume' LIMIT 1) a;
"""
AT_ONCE = 50_000


def columns(postgres, table, without):
    """The columns of a table that can be written, less some."""
    rows = postgres.sql("SELECT column_name FROM information_schema.columns WHERE is_generated = 'NEVER' "
                        f"AND table_schema = 'public' AND table_name = '{table}' ORDER BY ordinal_position", "muster")
    return [name for name in rows.split() if name not in without]


def fill_instances(postgres, of, count, every):
    """Adds this many instances like this one, due one after the other within `every` seconds."""
    instance = columns(postgres, "instances", {"id", "name", "running_witness_id", "reconcile_due_at"})
    member = columns(postgres, "members", {"id", "instance_id", "name", "active_witness_id", "cell_id"})
    text = COPY.format(of=of, first=1, last=count, every=every, instance=", ".join(instance), member=", ".join(member),
                       m_member=", ".join(f"m.{name}" for name in member))
    postgres.sql(f"BEGIN; {text} COMMIT", "muster")
    postgres.sql("ANALYZE", "muster")


def written(identifier):
    """Formats an id: five bits a letter."""
    letters = [ALPHABET[identifier.int >> shift & 31] for shift in range(125, -1, -5)]
    return "op_" + "".join(letters)


def past_ids(first, last, now_ms):
    """Ids as they were made then, a second after each other: sorted by time, the rest by chance that is always the same."""
    for number in range(first, last + 1):
        chance = hashlib.md5(str(number).encode(), usedforsecurity=False).hexdigest()
        identifier = uuid.UUID(hex=f"{now_ms - (number + 1) * 1000:012x}7{chance[:3]}8{chance[3:18]}")
        yield number, identifier, written(identifier)


def fill_past(postgres, count):
    """Adds this many finished operations on all members."""
    step = columns(postgres, "adapter_steps", {"id", "instance_id", "member_id", "operation_id"})
    members = int(postgres.sql("SELECT count(*) FROM members", "muster"))
    now_ms = time.time_ns() // 1_000_000
    postgres.sql("CREATE UNLOGGED TABLE bench_past (n BIGINT, id UUID, written TEXT)", "muster")
    for first in range(0, count, AT_ONCE):
        last = min(count, first + AT_ONCE) - 1
        postgres.copy("bench_past", "n, id, written", past_ids(first, last, now_ms), "muster")
        text = PAST.format(members=members, step=", ".join(step))
        postgres.sql(f"BEGIN; {text} TRUNCATE bench_past; COMMIT", "muster", timeout=600)
    postgres.sql("DROP TABLE bench_past", "muster")
    postgres.sql("VACUUM ANALYZE", "muster", timeout=900)
