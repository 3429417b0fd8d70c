-- Version 1 of the store, for both databases. `{key}` is the dialect's type of a 64-bit integer primary key. The tables
-- `meta`, `owner`, `head` and `events` never change their columns: every later version must be able to refuse, fence
-- and verify a store before it migrates it.

CREATE TABLE meta (
    id {key} CHECK (id = 1),
    schema_version BIGINT NOT NULL
);
INSERT INTO meta (id, schema_version) VALUES (1, 0);

CREATE TABLE owner (
    id {key} CHECK (id = 1),
    fence BIGINT NOT NULL,
    pid BIGINT NOT NULL,
    host TEXT NOT NULL,
    boot_id TEXT NOT NULL,
    start_ticks BIGINT NOT NULL,
    since_ms BIGINT NOT NULL,
    lease_until_ms BIGINT NOT NULL
);
INSERT INTO owner (id, fence, pid, host, boot_id, start_ticks, since_ms, lease_until_ms)
VALUES (1, 0, 0, '', '', 0, 0, 0);

CREATE TABLE head (
    id {key} CHECK (id = 1),
    seq BIGINT NOT NULL,
    hash TEXT NOT NULL,
    writes BIGINT NOT NULL
);
INSERT INTO head (id, seq, hash, writes)
VALUES (1, 0, '0000000000000000000000000000000000000000000000000000000000000000', 0);

CREATE TABLE events (
    seq {key},
    round TEXT NOT NULL,
    "index" BIGINT NOT NULL,
    at_ms BIGINT NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    hash TEXT NOT NULL
);
CREATE UNIQUE INDEX events_round ON events (round, "index");

CREATE TABLE rounds (
    id TEXT NOT NULL PRIMARY KEY,
    loop_name TEXT NOT NULL,
    repo TEXT NOT NULL,
    repo_path TEXT NOT NULL,
    occurrence TEXT NOT NULL,
    "trigger" TEXT NOT NULL,
    item TEXT,
    level TEXT NOT NULL,
    phase TEXT NOT NULL,
    outcome TEXT,
    started_ms BIGINT NOT NULL,
    ended_ms BIGINT,
    attempts BIGINT NOT NULL,
    base TEXT,
    tree TEXT,
    candidate TEXT,
    spec_hash TEXT NOT NULL,
    summary TEXT NOT NULL,
    report TEXT,
    spend_tokens BIGINT NOT NULL,
    spend_micros BIGINT NOT NULL,
    cookie TEXT
);
CREATE UNIQUE INDEX rounds_occurrence ON rounds (repo, loop_name, occurrence);
CREATE INDEX rounds_newest ON rounds (started_ms, id);
CREATE INDEX rounds_of_repo ON rounds (repo, started_ms, id);
CREATE INDEX rounds_of_loop ON rounds (loop_name, started_ms, id);
CREATE INDEX rounds_of_repo_loop ON rounds (repo, loop_name, started_ms, id);
CREATE INDEX rounds_open ON rounds (started_ms, id) WHERE ended_ms IS NULL;

CREATE TABLE outbox (
    id TEXT NOT NULL PRIMARY KEY,
    round TEXT NOT NULL REFERENCES rounds (id) DEFERRABLE INITIALLY DEFERRED,
    loop_name TEXT NOT NULL,
    repo TEXT NOT NULL,
    position BIGINT NOT NULL,
    kind TEXT NOT NULL,
    target TEXT,
    state TEXT NOT NULL,
    candidate TEXT NOT NULL,
    body TEXT NOT NULL,
    marker TEXT NOT NULL,
    claim TEXT,
    fence BIGINT NOT NULL,
    tries BIGINT NOT NULL,
    receipt TEXT,
    updated_ms BIGINT NOT NULL
);
CREATE INDEX outbox_round ON outbox (round, position);
CREATE INDEX outbox_pending ON outbox (updated_ms, id) WHERE state IN ('staged', 'claimed', 'in-doubt');

CREATE TABLE inbox (
    id TEXT NOT NULL PRIMARY KEY,
    round TEXT NOT NULL REFERENCES rounds (id) DEFERRABLE INITIALLY DEFERRED,
    loop_name TEXT NOT NULL,
    repo TEXT NOT NULL,
    kind TEXT NOT NULL,
    risk TEXT NOT NULL,
    candidate TEXT,
    summary TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    expires_ms BIGINT,
    closed_ms BIGINT
);
CREATE INDEX inbox_newest ON inbox (created_ms, id);
CREATE INDEX inbox_open ON inbox (created_ms, id) WHERE closed_ms IS NULL;
CREATE INDEX inbox_round ON inbox (round);

CREATE TABLE items (
    repo TEXT NOT NULL,
    loop_name TEXT NOT NULL,
    "key" TEXT NOT NULL,
    state TEXT NOT NULL,
    failures BIGINT NOT NULL,
    round TEXT NOT NULL,
    updated_ms BIGINT NOT NULL,
    PRIMARY KEY (repo, loop_name, "key")
);
CREATE INDEX items_newest ON items (repo, loop_name, updated_ms);

CREATE TABLE spend (
    day TEXT NOT NULL,
    repo TEXT NOT NULL,
    loop_name TEXT NOT NULL,
    reserved_micros BIGINT NOT NULL,
    settled_micros BIGINT NOT NULL,
    reserved_tokens BIGINT NOT NULL,
    settled_tokens BIGINT NOT NULL,
    PRIMARY KEY (day, repo, loop_name)
);

CREATE TABLE loops (
    repo TEXT NOT NULL,
    loop_name TEXT NOT NULL,
    runs BIGINT NOT NULL,
    successes BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    items BIGINT NOT NULL,
    duration_ms BIGINT NOT NULL,
    last_run_ms BIGINT,
    last_outcome TEXT,
    last_round TEXT,
    PRIMARY KEY (repo, loop_name)
);
