-- Version 5 of the store, for both databases: any number of processes write. Each round has a lease with a fencing
-- number and a chain of its own, and one chain of checkpoints records the end of each round's chain. From this version
-- on `owner` is not read any more, and `head` keeps the end of the one chain that holds the events of earlier versions.

-- A process of an earlier version that still has the store open is fenced: its next write is refused.
UPDATE owner SET fence = fence + 1 WHERE id = 1;

-- One row for each process that has the store open for writing. `lease_until_ms` is 0 where an operating system lock
-- decides; `writes` counts the process's writes without events.
CREATE TABLE processes (
    instance TEXT NOT NULL PRIMARY KEY,
    pid BIGINT NOT NULL,
    host TEXT NOT NULL,
    boot_id TEXT NOT NULL,
    start_ticks BIGINT NOT NULL,
    since_ms BIGINT NOT NULL,
    lease_until_ms BIGINT NOT NULL,
    writes BIGINT NOT NULL
);

-- One row for each round, by its id, and one for the dispatcher. `instance` is empty while no process holds the lease;
-- the fencing number only grows. `locks` holds the round's locks as JSON; it is empty if the round blocks no other.
CREATE TABLE leases (
    name TEXT NOT NULL PRIMARY KEY,
    fence BIGINT NOT NULL,
    instance TEXT NOT NULL,
    since_ms BIGINT NOT NULL,
    repo TEXT NOT NULL,
    loop_name TEXT NOT NULL,
    locks TEXT NOT NULL
);
CREATE INDEX leases_held ON leases (instance) WHERE instance <> '';

-- Written with a round's first event and each time the round comes to rest.
CREATE TABLE checkpoints (
    number {key},
    round TEXT NOT NULL,
    events BIGINT NOT NULL,
    last_hash TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    hash TEXT NOT NULL
);

-- The last event and the last checkpoint. Every write locks this row, so that writes happen one after the other.
CREATE TABLE journal (
    id {key} CHECK (id = 1),
    seq BIGINT NOT NULL,
    checkpoint BIGINT NOT NULL,
    hash TEXT NOT NULL
);
INSERT INTO journal (id, seq, checkpoint, hash)
SELECT 1, seq, 0, '0000000000000000000000000000000000000000000000000000000000000000' FROM head WHERE id = 1;
