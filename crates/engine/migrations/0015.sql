-- Version 15 of the store, for both databases: rounds that workers on other machines take.

-- Machines that take rounds. `instance` is the opening of the store that serves it; its row in `processes` shows whether
-- it is connected. The lists are JSON.
CREATE TABLE workers (
    name TEXT PRIMARY KEY,
    instance TEXT NOT NULL,
    host TEXT NOT NULL,
    labels TEXT NOT NULL,
    agents TEXT NOT NULL,
    repos TEXT NOT NULL,
    boundary TEXT NOT NULL,
    slots BIGINT NOT NULL,
    state TEXT NOT NULL,
    version TEXT NOT NULL,
    offset_ms BIGINT NOT NULL,
    since_ms BIGINT NOT NULL
);

-- Recorded rounds that run on a worker. The lease of an open one has the instance `offered`. `place` says what the worker
-- must have, as JSON.
CREATE TABLE offers (
    round TEXT PRIMARY KEY,
    place TEXT NOT NULL,
    priority BIGINT NOT NULL,
    offered_ms BIGINT NOT NULL,
    worker TEXT,
    tries BIGINT NOT NULL
);
CREATE INDEX offers_open ON offers (place, priority, offered_ms, round) WHERE worker IS NULL;
