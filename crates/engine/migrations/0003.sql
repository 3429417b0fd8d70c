-- Version 3 of the store, for both databases: schedules of loops, receipts of due times, signals, flags, and memories
-- of loops between rounds.

-- Every due time at or before `mark_ms` has its receipt.
CREATE TABLE schedules (
    repo TEXT NOT NULL,
    loop_name TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    mark_ms BIGINT NOT NULL,
    paused_ms BIGINT,
    paused_by TEXT,
    paused_why TEXT,
    streak BIGINT NOT NULL,
    signature TEXT,
    wait_until_ms BIGINT,
    wait_why TEXT,
    PRIMARY KEY (repo, loop_name)
);

-- One row for each occurrence, or for a run of occurrences with the same outcome: `count` of them, up to `through_ms`.
CREATE TABLE receipts (
    repo TEXT NOT NULL,
    loop_name TEXT NOT NULL,
    occurrence TEXT NOT NULL,
    due_ms BIGINT NOT NULL,
    "trigger" TEXT NOT NULL,
    receipt TEXT NOT NULL,
    reason TEXT NOT NULL,
    round TEXT,
    count BIGINT NOT NULL,
    through_ms BIGINT,
    at_ms BIGINT NOT NULL,
    PRIMARY KEY (repo, loop_name, occurrence)
);
CREATE INDEX receipts_newest ON receipts (repo, loop_name, due_ms, occurrence);
CREATE INDEX receipts_age ON receipts (at_ms);

CREATE TABLE signals (
    repo TEXT NOT NULL,
    loop_name TEXT NOT NULL,
    "key" TEXT NOT NULL,
    "trigger" TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    item TEXT,
    title TEXT,
    data TEXT,
    taken_ms BIGINT,
    PRIMARY KEY (repo, loop_name, "key")
);
CREATE INDEX signals_pending ON signals (at_ms, repo, loop_name, "key") WHERE taken_ms IS NULL;
CREATE INDEX signals_taken ON signals (taken_ms) WHERE taken_ms IS NOT NULL;

CREATE TABLE flags (
    name TEXT NOT NULL PRIMARY KEY,
    at_ms BIGINT NOT NULL,
    actor TEXT NOT NULL,
    why TEXT NOT NULL
);

CREATE TABLE memory (
    repo TEXT NOT NULL,
    loop_name TEXT NOT NULL,
    "key" TEXT NOT NULL,
    kind TEXT NOT NULL,
    text TEXT NOT NULL,
    round TEXT NOT NULL,
    role TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    expires_ms BIGINT,
    PRIMARY KEY (repo, loop_name, "key")
);
CREATE INDEX memory_newest ON memory (repo, loop_name, at_ms, "key");
CREATE INDEX memory_expiry ON memory (expires_ms) WHERE expires_ms IS NOT NULL;
