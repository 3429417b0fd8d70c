-- Version 2 of the store, for both databases: the cost of every agent start, the spend of every item over all its
-- rounds, and raises of budgets by people.

-- One row for each model of each start; a model that was not reported has an empty name. `start` counts the starts of a
-- round from 0, and is -1 for the whole spend of a round of an earlier version.
CREATE TABLE ledger (
    round TEXT NOT NULL,
    start BIGINT NOT NULL,
    model TEXT NOT NULL,
    day TEXT NOT NULL,
    repo TEXT NOT NULL,
    loop_name TEXT NOT NULL,
    item TEXT,
    attempt BIGINT NOT NULL,
    role TEXT NOT NULL,
    agent TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    input BIGINT NOT NULL,
    output BIGINT NOT NULL,
    cache_read BIGINT NOT NULL,
    cache_write BIGINT NOT NULL,
    micros BIGINT NOT NULL,
    known BIGINT NOT NULL,
    PRIMARY KEY (round, start, model)
);
CREATE INDEX ledger_day ON ledger (day, repo, loop_name);
CREATE INDEX ledger_loop ON ledger (loop_name, day);

CREATE TABLE item_spend (
    repo TEXT NOT NULL,
    loop_name TEXT NOT NULL,
    item TEXT NOT NULL,
    reserved_micros BIGINT NOT NULL,
    settled_micros BIGINT NOT NULL,
    reserved_tokens BIGINT NOT NULL,
    settled_tokens BIGINT NOT NULL,
    PRIMARY KEY (repo, loop_name, item)
);

-- A raise applies to one day of a loop or, if it names one, to one round.
CREATE TABLE raises (
    id TEXT NOT NULL PRIMARY KEY,
    at_ms BIGINT NOT NULL,
    actor TEXT NOT NULL,
    repo TEXT NOT NULL,
    loop_name TEXT NOT NULL,
    day TEXT NOT NULL,
    round TEXT,
    micros BIGINT NOT NULL,
    tokens BIGINT NOT NULL
);
CREATE INDEX raises_day ON raises (day, repo, loop_name);
CREATE INDEX raises_round ON raises (round);

-- The difference between the recorded spend of earlier versions' rounds and of their days; 0 in an undamaged store.
CREATE TABLE ledger_start (
    id {key} CHECK (id = 1),
    micros BIGINT NOT NULL,
    tokens BIGINT NOT NULL
);
INSERT INTO ledger_start (id, micros, tokens)
SELECT 1,
    CAST((SELECT COALESCE(SUM(spend_micros), 0) FROM rounds) - (SELECT COALESCE(SUM(settled_micros), 0) FROM spend) AS BIGINT),
    CAST((SELECT COALESCE(SUM(spend_tokens), 0) FROM rounds) - (SELECT COALESCE(SUM(settled_tokens), 0) FROM spend) AS BIGINT);

-- It is not on record whether the usage of earlier rounds was reported, so it does not count as known.
INSERT INTO ledger (round, start, model, day, repo, loop_name, item, attempt, role, agent, at_ms,
    input, output, cache_read, cache_write, micros, known)
SELECT id, -1, '', '', repo, loop_name, item, attempts, '', '', started_ms, spend_tokens, 0, 0, 0, spend_micros, 0
FROM rounds WHERE spend_tokens > 0 OR spend_micros > 0;

INSERT INTO item_spend (repo, loop_name, item, reserved_micros, settled_micros, reserved_tokens, settled_tokens)
SELECT repo, loop_name, item, 0, SUM(spend_micros), 0, SUM(spend_tokens)
FROM rounds WHERE item IS NOT NULL GROUP BY repo, loop_name, item;
