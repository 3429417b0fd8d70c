-- Version 8 of the store, for both databases: what became of the work of each loop, changes of levels, confirmed
-- intents, changes that people have read, and the results of calibrations.

-- One row for each outward item that was decided; `id` is the item's in the outbox. Counts are sums over these rows, so
-- nothing is counted twice.
CREATE TABLE works (
    id TEXT NOT NULL PRIMARY KEY,
    repo TEXT NOT NULL,
    loop_name TEXT NOT NULL,
    round TEXT NOT NULL,
    kind TEXT NOT NULL,
    level TEXT NOT NULL,
    candidate TEXT NOT NULL,
    decision TEXT NOT NULL,
    actor TEXT,
    decided_ms BIGINT NOT NULL,
    fate TEXT NOT NULL,
    fate_ms BIGINT NOT NULL,
    detail TEXT,
    lines BIGINT NOT NULL
);
CREATE INDEX works_of_loop ON works (repo, loop_name, decided_ms, id);
CREATE INDEX works_followed ON works (fate_ms, id) WHERE fate IN ('sent', 'merged', 'edited', 'closed');

-- One row for each promotion, demotion, confirmed intent, and round out of scope.
CREATE TABLE level_log (
    id TEXT NOT NULL PRIMARY KEY,
    repo TEXT NOT NULL,
    loop_name TEXT NOT NULL,
    kind TEXT NOT NULL,
    level TEXT NOT NULL,
    spec_hash TEXT NOT NULL,
    actor TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    why TEXT NOT NULL,
    evidence TEXT NOT NULL
);
CREATE INDEX level_log_of_loop ON level_log (repo, loop_name, at_ms, id);

-- The people who have read a candidate's change.
CREATE TABLE readings (
    candidate TEXT NOT NULL,
    actor TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    PRIMARY KEY (candidate, actor)
);

-- One row for each planted change on which a checker gave a verdict.
CREATE TABLE calibrations (
    round TEXT NOT NULL PRIMARY KEY,
    repo TEXT NOT NULL,
    loop_name TEXT NOT NULL,
    agent TEXT NOT NULL,
    model TEXT,
    planted TEXT NOT NULL,
    caught BIGINT NOT NULL,
    at_ms BIGINT NOT NULL
);
CREATE INDEX calibrations_of_loop ON calibrations (repo, loop_name, at_ms, round);
