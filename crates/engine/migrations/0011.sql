-- Version 11 of the store, for both databases: people's requests to rounds that another process runs.

-- One row for each request. The process that runs the round applies it before it starts the next agent, in the same
-- transaction as the event.
CREATE TABLE round_requests (
    id TEXT NOT NULL PRIMARY KEY,
    round TEXT NOT NULL,
    kind TEXT NOT NULL,
    actor TEXT NOT NULL,
    text TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    state TEXT NOT NULL
);
CREATE INDEX round_requests_pending ON round_requests (round, at_ms, id) WHERE state = 'pending';
