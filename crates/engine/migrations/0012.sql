-- Version 12 of the store, for both databases: dynamic workflows.

-- One row for each workflow. `spec` is the loop as it was when the workflow started, as canonical JSON.
CREATE TABLE workflows (
    id TEXT NOT NULL PRIMARY KEY,
    repo TEXT NOT NULL,
    repo_path TEXT NOT NULL,
    loop_name TEXT NOT NULL,
    spec TEXT NOT NULL,
    spec_hash TEXT NOT NULL,
    base TEXT NOT NULL,
    actor TEXT NOT NULL,
    dry_run BIGINT NOT NULL,
    state TEXT NOT NULL,
    outcome TEXT,
    why TEXT NOT NULL,
    used_ms BIGINT NOT NULL,
    started_ms BIGINT NOT NULL,
    ended_ms BIGINT,
    version BIGINT NOT NULL
);
CREATE INDEX workflows_of_repo ON workflows (repo, started_ms, id);
-- A loop has one open workflow.
CREATE UNIQUE INDEX workflows_open ON workflows (repo, loop_name) WHERE state <> 'ended';

-- One row for each part: the planner's list, every item, the merge. A part has the id of its round before the round
-- starts, so that no crash starts it twice. `version` counts the changes: a change names the version that it was
-- decided on.
CREATE TABLE workflow_parts (
    workflow TEXT NOT NULL,
    position BIGINT NOT NULL,
    part TEXT NOT NULL,
    item TEXT NOT NULL,
    title TEXT,
    data TEXT,
    state TEXT NOT NULL,
    round TEXT,
    tries BIGINT NOT NULL,
    interruptions BIGINT NOT NULL,
    outcome TEXT,
    sealed TEXT,
    note TEXT NOT NULL,
    reserved_micros BIGINT NOT NULL,
    reserved_tokens BIGINT NOT NULL,
    spent_micros BIGINT NOT NULL,
    spent_tokens BIGINT NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (workflow, position)
);
