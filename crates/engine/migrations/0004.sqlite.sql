-- SQLite cannot drop a constraint from a table; no other table refers to this one, so it is created again.
CREATE TABLE inbox_free (
    id TEXT NOT NULL PRIMARY KEY,
    round TEXT NOT NULL,
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
INSERT INTO inbox_free (id, round, loop_name, repo, kind, risk, candidate, summary, created_ms, expires_ms, closed_ms)
    SELECT id, round, loop_name, repo, kind, risk, candidate, summary, created_ms, expires_ms, closed_ms FROM inbox;
DROP TABLE inbox;
ALTER TABLE inbox_free RENAME TO inbox;
CREATE INDEX inbox_newest ON inbox (created_ms, id);
CREATE INDEX inbox_open ON inbox (created_ms, id) WHERE closed_ms IS NULL;
CREATE INDEX inbox_round ON inbox (round);
