-- Version 14 of the store, for both databases: leases that expired while the database server was away.

-- The server process that processes have seen last, by its start, and when they saw it first. A lease that was renewed
-- under an earlier one may have expired only because nobody could renew it. SQLite has no server.
CREATE TABLE server (
    id {key} CHECK (id = 1),
    started_ms BIGINT NOT NULL,
    seen_ms BIGINT NOT NULL
);
INSERT INTO server (id, started_ms, seen_ms) VALUES (1, 0, 0);
