-- Version 10 of the store, for both databases: the registry of tasks.

-- One row for each task. `needs` is a JSON list of ids. `version` counts the changes: a change names the version that it
-- was decided on, so that two of them cannot both count. `fence` counts the claims.
CREATE TABLE tasks (
    id TEXT NOT NULL PRIMARY KEY,
    repo TEXT NOT NULL,
    title TEXT NOT NULL,
    body TEXT NOT NULL,
    priority BIGINT NOT NULL,
    state TEXT NOT NULL,
    needs TEXT NOT NULL,
    owner TEXT,
    fence BIGINT NOT NULL,
    lease_until_ms BIGINT,
    hold_until_ms BIGINT,
    hold_why TEXT,
    source TEXT,
    note TEXT,
    created_ms BIGINT NOT NULL,
    version BIGINT NOT NULL
);
CREATE INDEX tasks_open ON tasks (repo, priority, created_ms, id) WHERE state <> 'done';
CREATE INDEX tasks_of_repo ON tasks (repo, created_ms, id);
-- An issue is imported once.
CREATE UNIQUE INDEX tasks_of_issue ON tasks (repo, source) WHERE source LIKE 'issue-%';

-- The version of all dependencies of a repository: no two changes of them are decided on the same one, so that no cycle
-- appears between them.
CREATE TABLE task_graphs (
    repo TEXT NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL
);
